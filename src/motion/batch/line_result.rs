//! The result of one line, written as OpenAI writes a line of an output or error file.
//!
//! Not here: where results are kept (`parts`), and how a request is sent.

use serde_json::value::RawValue;

/// What a line's request came to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LineOutcome<'a> {
    /// An HTTP response of any status; its body as it was received.
    Response { status: u16, request_id: &'a str, body: &'a [u8] },
    /// No response: the request was not sent (`batch_expired`, `batch_cancelled`), or the gateway failed.
    Failed { code: &'a str, message: &'a str },
}

/// The result of one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineResult {
    /// Number of the input line, from 1.
    pub line: u32,
    /// It stands in the error file, not in the output file.
    pub is_error: bool,
    /// One line of JSON, without its end.
    pub json: String,
}

impl LineResult {
    /// `batch_request_id`: `batch_req_...`, unique for the request.
    pub fn new(line: u32, batch_request_id: &str, custom_id: &str, outcome: &LineOutcome<'_>) -> Self {
        let is_error = match outcome {
            LineOutcome::Response { status, .. } => *status >= 400,
            LineOutcome::Failed { .. } => true,
        };
        Self { line, is_error, json: output_line(batch_request_id, custom_id, outcome) }
    }
}

/// A line of an output or error file. The body is copied, not parsed into a tree.
pub fn output_line(batch_request_id: &str, custom_id: &str, outcome: &LineOutcome<'_>) -> String {
    let id = string(batch_request_id);
    let custom_id = string(custom_id);
    let start = format!(r#"{{"id":{id},"custom_id":{custom_id},"response":"#);
    match outcome {
        LineOutcome::Response { status, request_id, body } => {
            let request_id = string(request_id);
            let body = one_line(body);
            format!(
                r#"{start}{{"status_code":{status},"request_id":{request_id},"body":{body}}},"error":null}}"#
            )
        }
        LineOutcome::Failed { code, message } => {
            let code = string(code);
            let message = string(message);
            format!(r#"{start}null,"error":{{"code":{code},"message":{message}}}}}"#)
        }
    }
}

fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A body as JSON without line breaks. One that is no JSON becomes a string, an empty one null.
fn one_line(body: &[u8]) -> String {
    let body = body.trim_ascii();
    if body.is_empty() {
        return "null".to_owned();
    }
    match serde_json::from_slice::<&RawValue>(body) {
        // In JSON a line break stands only between tokens, never in a string.
        Ok(json) if json.get().contains(['\n', '\r']) => json.get().replace(['\n', '\r'], " "),
        Ok(json) => json.get().to_owned(),
        Err(_) => string(&String::from_utf8_lossy(body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn response(status: u16, body: &[u8]) -> LineResult {
        LineResult::new(7, "batch_req_1", "a\"b", &LineOutcome::Response { status, request_id: "r1", body })
    }

    #[test]
    fn a_response_is_written_as_openai_does() {
        let result = response(200, br#"{"id":"x","n":1.0e400}"#);
        assert_eq!(
            result.json,
            r#"{"id":"batch_req_1","custom_id":"a\"b","response":{"status_code":200,"request_id":"r1","body":{"id":"x","n":1.0e400}},"error":null}"#
        );
        assert_eq!((result.line, result.is_error), (7, false));
        assert!(
            response(429, b"{}").is_error && response(400, b"{}").is_error && !response(399, b"{}").is_error
        );
    }

    #[test]
    fn a_line_without_a_response_has_an_error() {
        let outcome = LineOutcome::Failed { code: "batch_expired", message: "Too\nlate" };
        let result = LineResult::new(1, "batch_req_1", "c", &outcome);
        let expected = json!({
            "id": "batch_req_1", "custom_id": "c", "response": null,
            "error": {"code": "batch_expired", "message": "Too\nlate"}
        });
        assert_eq!(serde_json::from_str::<Value>(&result.json).unwrap(), expected);
        assert!(result.is_error && !result.json.contains('\n'));
    }

    #[test]
    fn every_body_becomes_one_line_of_json() {
        for (body, expected) in [
            (&b"{\r\n  \"a\": \"x\\ny\"\n}\n"[..], json!({"a": "x\ny"})),
            (b"", Value::Null),
            (b" \n", Value::Null),
            (b"<html>\n</html>", json!("<html>\n</html>")),
            (b"\xff{", json!("\u{fffd}{")),
            (b"{\"a\":", json!("{\"a\":")),
            (b"{} {}", json!("{} {}")),
            (b"[1]", json!([1])),
        ] {
            let line = response(200, body).json;
            assert!(!line.contains(['\n', '\r']), "{line}");
            let parsed: Value = serde_json::from_str(&line).unwrap();
            assert_eq!(parsed["response"]["body"], expected, "{line}");
        }
    }
}
