//! Runs one line of a vendor's batch through the emulator's own handler of that vendor's API.
//!
//! What the lines of a batch look like, and how a batch advances, is the vendor's own file's.

use crate::call::Call;
use crate::reply::{ApiError, Content, Dialect, Reply};
use crate::respond;
use bytes::Bytes;
use http::StatusCode;
use memchr::memmem;
use serde_json::Value;

/// The status and the body of the response to `body`. `id`: what the handler expects in the path.
pub(super) fn run(
    call: &Call<'_>,
    respond: impl Fn(&Call<'_>) -> Result<Reply, ApiError>,
    id: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let body = Bytes::from(body.to_string());
    let reply = respond(&Call { body: &body, id, ..*call }).unwrap_or_else(Reply::from);
    let status = reply.script.status.unwrap_or(reply.status);
    let text = match reply.content {
        _ if reply.status.is_success() && !status.is_success() => respond::error_body(reply.dialect, status),
        Content::Whole(text) => text,
        // A line has no place for a stream.
        Content::Events(..) => Bytes::new(),
    };
    (status, serde_json::from_slice(&text).unwrap_or_default())
}

/// A handler that refuses what contains `refuse this line`: so that a job whose lines have one model has results of both kinds.
pub(super) fn refusing(
    call: &Call<'_>,
    respond: fn(&Call<'_>) -> Result<Reply, ApiError>,
    dialect: Dialect,
) -> Result<Reply, ApiError> {
    if memmem::find(call.body, b"refuse this line").is_some() {
        return Err(ApiError::bad("The emulator refuses this line.").in_dialect(dialect));
    }
    respond(call)
}

/// The lines of a JSONL body.
pub(super) fn lines(content: &[u8]) -> impl Iterator<Item = Value> {
    let lines = content.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap_or_default())
}

/// Lines as a JSONL body.
pub(super) fn jsonl(lines: impl Iterator<Item = Value>) -> Bytes {
    lines.map(|line| format!("{line}\n")).collect::<String>().into()
}

/// Takes one step: returns how many were taken before.
pub(super) fn step(object: &mut Value) -> u64 {
    let steps = object.get(STEPS).and_then(Value::as_u64).unwrap_or_default();
    if let Some(object) = object.as_object_mut() {
        object.insert(STEPS.to_owned(), Value::from(steps + 1));
    }
    steps
}

/// The object as clients see it.
pub(super) fn view(mut object: Value) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.remove(STEPS);
    }
    object
}

/// The member of a stored batch that counts its status requests.
const STEPS: &str = "_steps";
