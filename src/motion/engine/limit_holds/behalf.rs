//! What limits look at of the client's request for which the gateway sends one of its own.
//!
//! Who the client is, is with the request itself (`own_request`).

use super::Metadata;
use crate::engine::request_context::RequestContext;
use memory::state::directory::SavedName;

/// Of a client's request.
#[derive(Debug, Clone, Default)]
pub(in crate::engine) struct Behalf {
    pub metadata: Metadata,
    pub config: Option<SavedName>,
    /// The slug of its prompt.
    pub prompt: Option<String>,
}

impl Behalf {
    /// Of a request that was admitted, or of one of the gateway's own, which has the same.
    pub fn of(ctx: &RequestContext) -> Self {
        if let Some(behalf) = &ctx.limits.behalf {
            return Self::clone(behalf);
        }
        let metadata = if ctx.limits.metadata.is_empty() {
            Metadata::new(ctx.record.named.metadata.as_deref(), None, None)
        } else {
            ctx.limits.metadata.clone()
        };
        Self {
            metadata,
            config: ctx.limits.config.clone(),
            prompt: ctx.record.named.prompt.as_ref().map(|found| String::from(&*found.prompt.slug)),
        }
    }
}
