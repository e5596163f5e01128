//! Any path the emulator has no route for: echoes the request, so that tests see what a gateway forwarded.

use super::body::Disconnect;
use super::call::query;
use super::reply::{Event, Part, Reply};
use super::request_body::RequestBody;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderValue, Method};
use serde_json::{Value, json};

/// A body up to this size is echoed.
const SHOWN: usize = 64 * 1024;

/// Reads the body to its end, in constant memory, and echoes the request.
pub(super) async fn echo(parts: &Parts, request_body: &mut RequestBody) -> Result<Reply, Disconnect> {
    let mut shown = BytesMut::new();
    let mut length = 0;
    while let Some(bytes) = request_body.next().await? {
        length += bytes.len();
        if length <= SHOWN {
            shown.extend_from_slice(&bytes);
        }
    }
    let number = |name: &str| query(parts, name).and_then(|number| number.parse::<u64>().ok());
    if let Some(bytes) = number("bytes") {
        return Ok(Reply::download(bytes));
    }
    if let Some(events) = number("sse") {
        return Ok(Reply::events((0..events).map(|n| Event::data(Part::Content, json!({"n": n})))));
    }
    if parts.method == Method::HEAD {
        return Ok(Reply::whole(HeaderValue::from_static("application/json"), Bytes::new()));
    }
    let text = if length <= SHOWN { std::str::from_utf8(&shown).ok() } else { None };
    let headers: Vec<Value> = parts
        .headers
        .iter()
        .map(|(name, value)| json!([name.as_str(), String::from_utf8_lossy(value.as_bytes())]))
        .collect();
    Ok(Reply::value(&json!({
        "method": parts.method.as_str(), "path": parts.uri.path(), "query": parts.uri.query(),
        "headers": headers, "body_bytes": length, "body_text": text,
    })))
}
