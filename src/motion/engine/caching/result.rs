//! Whether a response is the result of its operation, and no page, list or message in place of one.
//!
//! Servers in between respond with such things and the status 200: `{"detail": "the model is loading"}`. They pass, and are not stored.

use crate::engine::content_kind::ContentKind;
use crate::engine::model_result::has_list;
use words::api::operation::Operation;
use words::api::tap::ResponseSummary;

/// Whether a complete response has the result of its operation. `summary`: what was observed of it; `body`: the provider's.
pub fn is_there(
    kind: ContentKind,
    operation: Operation,
    summary: Option<&ResponseSummary>,
    body: &[u8],
) -> bool {
    match kind {
        // Without an end of the operation's own it is not complete.
        ContentKind::Events => true,
        ContentKind::Json if operation.is_chat() => summary.is_some_and(|summary| summary.finish.is_some()),
        ContentKind::Json => has_list(body.trim_ascii()),
        ContentKind::Other | ContentKind::Compressed => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_no_result() {
        for (body, expected) in [
            (r#"{"object":"list","data":[{"embedding":[0.1]}]}"#, true),
            (r#" {"results" : [ {"index":0}]}"#, true),
            (r#"{"embeddings":{"float":[[0.1]]}}"#, true),
            (r#"{"embedding":{"values":[0.1]}}"#, true),
            (r#"{"detail":"the model is loading"}"#, false),
            (r#"{"detail":{"data":[1]}}"#, false),
            (r#"{"data":[ ]}"#, false),
            (r#"{"data":null}"#, false),
            ("[]", false),
            ("", false),
            ("<html>", false),
        ] {
            let found = is_there(ContentKind::Json, Operation::Embeddings, None, body.as_bytes());
            assert_eq!(found, expected, "{body}");
        }
        let mut summary = ResponseSummary { ended: true, ..ResponseSummary::default() };
        let chat = |summary: &ResponseSummary| {
            is_there(ContentKind::Json, Operation::Responses, Some(summary), br#"{"data":[1]}"#)
        };
        assert!(!chat(&summary));
        summary.finish = Some("completed".to_owned());
        assert!(chat(&summary));
        assert!(!is_there(ContentKind::Other, Operation::Images, Some(&summary), br#"{"data":[1]}"#));
    }
}
