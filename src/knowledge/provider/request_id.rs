//! The header in which each provider sends its id of a request.
//!
//! Not the header that the client gets it in (`api::request_id`).

use http::{HeaderMap, HeaderName, HeaderValue};
use words::api::request_id::{ANTHROPIC, OPENAI};

/// The provider's id of the request, from the headers of its response.
pub fn read<'h>(provider: &str, headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
    let own = match provider {
        "bedrock" => HeaderName::from_static("x-amzn-requestid"),
        "azure-openai" | "azure-ai" | "github" => HeaderName::from_static("apim-request-id"),
        "mistral-ai" => HeaderName::from_static("mistral-correlation-id"),
        "cohere" => HeaderName::from_static("x-debug-trace-id"),
        "deepseek" => HeaderName::from_static("x-ds-trace-id"),
        "workers-ai" => HeaderName::from_static("cf-ray"),
        _ => ANTHROPIC,
    };
    headers.get(own).or_else(|| headers.get(OPENAI)).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider;

    #[test]
    fn the_id_is_found_under_each_providers_name() {
        for (id, name) in [
            ("openai", "x-request-id"),
            ("groq", "x-request-id"),
            ("anthropic", "request-id"),
            ("bedrock", "x-amzn-requestid"),
            ("azure-openai", "apim-request-id"),
            ("azure-openai", "x-request-id"),
            ("mistral-ai", "mistral-correlation-id"),
            ("cohere", "x-debug-trace-id"),
            ("deepseek", "x-ds-trace-id"),
            ("workers-ai", "cf-ray"),
        ] {
            assert!(provider::find(id).is_some(), "{id}");
            let headers =
                HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static("r-1"))]);
            assert_eq!(read(id, &headers).map(HeaderValue::as_bytes), Some(&b"r-1"[..]), "{id} {name}");
        }
        let empty = HeaderMap::from_iter([(OPENAI, HeaderValue::from_static(""))]);
        assert_eq!((read("openai", &HeaderMap::new()), read("openai", &empty)), (None, None));
    }
}
