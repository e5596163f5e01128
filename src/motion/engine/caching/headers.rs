//! What a client's headers say about the cache.

use std::sync::Arc;
use words::config::headers::GatewayHeaders;

/// What a client's headers say about the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheHeaders {
    /// Takes the place of metadata and headers in the key.
    pub namespace: Option<Arc<str>>,
    /// A new response is wanted, and stored.
    pub forces_refresh: bool,
}

impl CacheHeaders {
    /// Those of a request, if it has any.
    pub fn of(headers: &GatewayHeaders<'_>) -> Option<Box<Self>> {
        let GatewayHeaders { cache_namespace, cache_force_refresh, .. } = *headers;
        (cache_namespace.is_some() || cache_force_refresh).then(|| {
            Box::new(Self { namespace: cache_namespace.map(Arc::from), forces_refresh: cache_force_refresh })
        })
    }
}
