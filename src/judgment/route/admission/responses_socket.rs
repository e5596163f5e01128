//! Whether a request opens a websocket for responses.
//!
//! Not the websocket (`proxy::responses_socket`). What only passes through would be under no limit and no guardrail, so every spelling
//! of the path that a provider might take for that of responses counts, below `/v1/proxy/` too.

use super::RequestHead;
use http::Method;
use http::header::UPGRADE;
use percent_encoding::percent_decode_str;

/// Whether the request would switch to another protocol at a path that ends in `responses`.
pub(super) fn is_requested(head: &RequestHead<'_>) -> bool {
    *head.method == Method::GET && head.headers.contains_key(UPGRADE) && is_path_of_responses(head.uri.path())
}

fn is_path_of_responses(path: &str) -> bool {
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let last = decoded.split('/').rev().map(str::trim).find(|segment| !segment.is_empty());
    last.is_some_and(|segment| segment.eq_ignore_ascii_case("responses"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_the_path_counts() {
        for path in [
            "/v1/responses",
            "/v1/v1/responses",
            "/v1/responses/",
            "/v1/responses//",
            "/v1/Responses",
            "/v1/%72esponses",
            "/v1/responses%2f",
            "/v1/responses%20",
            "/openai/v1/responses",
            "/openai/responses",
            "/v1/proxy/responses",
            "/v1/proxy/backend-api/codex/responses",
        ] {
            assert!(is_path_of_responses(path), "{path}");
        }
        for path in ["/v1/realtime", "/v1/responses/resp_1", "/v1/responses/compact", "/", ""] {
            assert!(!is_path_of_responses(path), "{path}");
        }
    }
}
