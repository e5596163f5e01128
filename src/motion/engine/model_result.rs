//! Whether a whole response is the result of its operation, and no message in place of one: `{"detail": "the model is loading"}`.
//!
//! Judged by its members, whatever they hold. Errors that a provider names as such are read elsewhere (`provider::success_error`).

use words::api::operation::{Operation, StreamShape};
use words::json::walk;

/// The members in which providers send vectors, ranks and images.
const LISTS: [&[u8]; 7] =
    [b"data", b"results", b"embeddings", b"embedding", b"embeddingsByType", b"predictions", b"images"];

/// Whether a complete JSON body is no result of this operation. False where the operation's results may have any shape.
pub(super) fn is_missing(operation: Operation, body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii();
    match operation.stream_shape() {
        Some(shape) => !is_chat(shape, body),
        None => operation == Operation::Embeddings && !has_list(body),
    }
}

/// Whether one of the members that hold results is there and not empty.
pub(super) fn has_list(body: &[u8]) -> bool {
    members(body).any(|(name, value)| LISTS.contains(&name) && is_filled(value))
}

fn is_chat(shape: StreamShape, body: &[u8]) -> bool {
    match shape {
        StreamShape::Chat => choice(body).is_some_and(|choice| {
            members(choice)
                .any(|(name, value)| matches!(name, b"message" | b"delta") && value.starts_with(b"{"))
        }),
        StreamShape::Completions => choice(body).is_some_and(|choice| choice.starts_with(b"{")),
        // No text at all is a good answer.
        StreamShape::Messages => {
            members(body).any(|(name, value)| name == b"content" && value.starts_with(b"["))
        }
        // One in the background has not begun.
        StreamShape::Responses => {
            members(body).any(|(name, value)| name == b"output" && value.starts_with(b"["))
                || members(body).any(|(name, value)| name == b"object" && value == b"\"response\"")
        }
        // Without candidates a prompt was blocked.
        StreamShape::Gemini => members(body)
            .any(|(name, _)| matches!(name, b"candidates" | b"promptFeedback" | b"usageMetadata")),
    }
}

/// The first choice.
fn choice(body: &[u8]) -> Option<&[u8]> {
    let (_, list) = members(body).find(|(name, _)| *name == b"choices")?;
    walk::items(list)?.next()
}

fn is_filled(value: &[u8]) -> bool {
    match value {
        [b'[', rest @ ..] => !rest.trim_ascii_start().starts_with(b"]"),
        [b'{', rest @ ..] => !rest.trim_ascii_start().starts_with(b"}"),
        _ => false,
    }
}

fn members(body: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    walk::members(body).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation as O;

    #[test]
    fn a_message_is_no_result() {
        for (operation, body, expected) in [
            (O::ChatCompletions, r#"{"choices":[{"message":{"content":null}}]}"#, false),
            (O::ChatCompletions, "\u{feff}\n{\"choices\": [ {\"index\":0, \"delta\": {}} ]}", false),
            (O::ChatCompletions, "{}", true),
            (O::ChatCompletions, r#"{"detail":"the model is loading"}"#, true),
            (O::ChatCompletions, r#"{"choices":[]}"#, true),
            (O::ChatCompletions, r#"{"choices":null}"#, true),
            (O::ChatCompletions, r#"{"choices":[{"message":null}]}"#, true),
            (O::Completions, r#"{"choices":[{"text":""}]}"#, false),
            (O::Completions, r#"{"message":"bad"}"#, true),
            (O::Messages, r#"{"type":"message","content":[]}"#, false),
            (O::Messages, r#"{"content":"bad"}"#, true),
            (O::Responses, r#"{"object":"response","status":"queued"}"#, false),
            (O::Responses, r#"{"output":[]}"#, false),
            (O::Responses, r#"{"choices":[{"message":{}}]}"#, true),
            (O::GenerateContent, r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, false),
            (O::GenerateContent, r#"{"detail":"bad"}"#, true),
            (O::Embeddings, r#"{"data":[{"embedding":[0.1]}]}"#, false),
            (O::Embeddings, r#"{"data":[]}"#, true),
            (O::Moderations, "{}", false),
        ] {
            assert_eq!(is_missing(operation, body.as_bytes()), expected, "{operation:?} {body}");
        }
    }
}
