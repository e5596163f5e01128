//! Which requests are for the gateway's own list of models, and not for a provider's.

use super::RequestHead;
use crate::config::headers::GatewayHeaders;
use crate::error::Error;
use http::Method;
use percent_encoding::percent_decode_str;

/// A request for the gateway's list of models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelQuery {
    /// The one model that is wanted; `None` for the list.
    pub model: Option<String>,
}

impl ModelQuery {
    /// `None`: the request is for a provider: it names one, there are no stored providers, or it is no request for models.
    ///
    /// # Errors
    /// 400 for headers of the gateway's own that cannot be read.
    pub(super) fn find(head: &RequestHead<'_>) -> Result<Option<Self>, Error> {
        let path = head
            .uri
            .path()
            .strip_prefix("/v1/models")
            .filter(|_| matches!(*head.method, Method::GET | Method::HEAD));
        let settings = &head.snapshot.settings;
        let Some(rest) = path.filter(|_| !settings.providers.is_empty()) else { return Ok(None) };
        let model = match rest.strip_prefix('/') {
            None if rest.is_empty() => None,
            // The name of a model may have slashes, which some clients encode.
            Some(name) if !name.is_empty() => Some(percent_decode_str(name).decode_utf8_lossy().into_owned()),
            _ => return Ok(None),
        };
        let headers = GatewayHeaders::read(head.headers, &settings.header_prefixes)?;
        let GatewayHeaders { config, provider, virtual_key, custom_host, .. } = &headers;
        if config.is_some() || provider.is_some() || virtual_key.is_some() || custom_host.is_some() {
            return Ok(None);
        }
        // A name without a slug is one of the default provider, which is asked for it.
        let is_plain = model.as_ref().is_some_and(|model| !model.starts_with('@'));
        Ok(Some(Self { model }).filter(|_| !is_plain || settings.default_config.is_none()))
    }
}
