//! What batch APIs have in common that take files of lines: OpenAI's result lines, forms for uploads, and reading of responses.
//!
//! Not what any one vendor demands.

use super::{Job, JobCall, JobOutcome, JobResult};
use bytes::{BufMut as _, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt::Display;
use words::error::Error;

/// A result as OpenAI, Mistral and Together write it.
#[derive(Deserialize)]
struct ResultLine<'a> {
    custom_id: Option<String>,
    #[serde(borrow)]
    response: Option<Response<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Response<'a> {
    status_code: Option<u16>,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// A line of results in OpenAI's shape; `None`: of no line of ours.
///
/// # Errors
/// 502 for what is no such line.
pub fn read_result(line: &[u8]) -> Result<Option<JobResult>, Error> {
    let read: ResultLine<'_> = parse(line)?;
    let Some(line) = read.custom_id.and_then(|id| id.parse().ok()) else { return Ok(None) };
    let (status, body) = match (read.response, read.error) {
        (Some(Response { status_code, body: Some(body) }), _) => (status_code.unwrap_or(200), body.get()),
        (_, Some(error)) => (400, error.get()),
        (Some(Response { status_code, body: None }), None) => (status_code.unwrap_or(502), "null"),
        (None, None) => return Ok(None),
    };
    let body = if status >= 400 { as_error(body) } else { body.as_bytes().to_vec() };
    Ok(Some(JobResult { line, outcome: JobOutcome::Response { status, body } }))
}

/// An error as an object with the member `error`, as error bodies have it.
fn as_error(error: &str) -> Vec<u8> {
    let has_error = serde_json::from_str::<Value>(error).is_ok_and(|value| value.get("error").is_some());
    if has_error { error.as_bytes().to_vec() } else { format!(r#"{{"error":{error}}}"#).into_bytes() }
}

/// Writes a line with its id, which needs no escapes, and a body.
pub fn write_line(id: &str, line: impl Display, member: &str, body: &[u8], input: &mut Vec<u8>) {
    input.extend_from_slice(format!(r#"{{"{id}":"{line}","{member}":"#).as_bytes());
    // JSON has line breaks between tokens only.
    input.extend(body.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    input.extend_from_slice(b"}\n");
}

/// A call that uploads a job's input as a form.
///
/// # Errors
/// The job's name is no boundary.
pub fn form(path: &str, job: &Job<'_>, fields: &[(&str, String)], input: &Bytes) -> Result<JobCall, Error> {
    let name = job.name;
    let mut body = BytesMut::with_capacity(input.len() + 1024);
    for (field, value) in fields {
        let part = format!("--{name}\r\nContent-Disposition: form-data; name=\"{field}\"\r\n\r\n{value}\r\n");
        body.put_slice(part.as_bytes());
    }
    let file = format!(
        "--{name}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}.jsonl\"\r\n\
         Content-Type: application/jsonl\r\n\r\n"
    );
    body.put_slice(file.as_bytes());
    // Its lines begin with a brace, so none is a boundary.
    body.put_slice(input);
    body.put_slice(format!("\r\n--{name}--\r\n").as_bytes());
    let kind = HeaderValue::try_from(format!("multipart/form-data; boundary={name}"));
    let kind = kind.map_err(|why| Error::internal(why.to_string()))?;
    Ok(JobCall {
        method: Method::POST,
        path: path.to_owned(),
        headers: vec![(CONTENT_TYPE, kind)],
        body: body.freeze(),
    })
}

/// A response, or a line of it, as JSON.
///
/// # Errors
/// 502 for what is none.
pub fn parse<'a, T: Deserialize<'a>>(response: &'a [u8]) -> Result<T, Error> {
    serde_json::from_slice(response).map_err(|why| {
        Error::invalid_response("The provider's response about a batch cannot be read.", why.to_string())
    })
}

/// 502: a member of a response is not what it must be.
pub fn unreadable(what: &str, value: &str) -> Error {
    let message = format!("The provider's response about a batch has {what} that cannot be read.");
    Error::invalid_response(message, value)
}

/// A text member of a response that is not empty.
pub fn text(view: &Value, pointer: &str) -> Option<String> {
    view.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The first of these text members that a response has.
///
/// # Errors
/// 502 for a response without any.
pub fn first_text(view: &Value, pointers: &[&str]) -> Result<String, Error> {
    pointers.iter().find_map(|pointer| text(view, pointer)).ok_or_else(|| {
        let message =
            format!("The provider's response about a batch has no {}.", pointers.last().unwrap_or(&"member"));
        Error::invalid_response(message, "a member is missing")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_read() {
        let read = |line: &str| read_result(line.as_bytes()).unwrap();
        let response = |status, body: &str| {
            let outcome = JobOutcome::Response { status, body: body.as_bytes().to_vec() };
            Some(JobResult { line: 7, outcome })
        };
        for (line, wanted) in [
            (
                r#"{"custom_id":"7","response":{"status_code":200,"body":{"a":1.0e400}},"error":null}"#,
                response(200, r#"{"a":1.0e400}"#),
            ),
            (r#"{"custom_id":"7","response":{"body":{}}}"#, response(200, "{}")),
            (
                r#"{"custom_id":"7","response":{"status_code":422,"body":{"error":{"message":"m"}}}}"#,
                response(422, r#"{"error":{"message":"m"}}"#),
            ),
            (
                r#"{"custom_id":"7","response":{"status_code":500,"body":"down"}}"#,
                response(500, r#"{"error":"down"}"#),
            ),
            (
                r#"{"custom_id":"7","response":null,"error":{"message":"m"}}"#,
                response(400, r#"{"error":{"message":"m"}}"#),
            ),
            (r#"{"custom_id":"7"}"#, None),
            (r#"{"custom_id":"x","response":{"body":{}}}"#, None),
        ] {
            assert_eq!(read(line), wanted, "{line}");
        }
        assert_eq!(read_result(b"{\"custom_id\":\"7").unwrap_err().status(), 502);
    }

    #[test]
    fn a_line_has_no_line_breaks() {
        let mut input = Vec::new();
        write_line("custom_id", 7, "body", b"{\r\n\"a\": \"x\\ny\"\n}", &mut input);
        assert_eq!(input, b"{\"custom_id\":\"7\",\"body\":{  \"a\": \"x\\ny\" }}\n");
    }
}
