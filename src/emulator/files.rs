//! Files: upload (counted whole, the first MiB kept), list, get, content, delete.

use super::call::Call;
use super::multipart::Form;
use super::reply::{ApiError, Reply};
use super::routes;
use super::state::now;
use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Value, json};

pub(super) fn upload(call: &Call<'_>, form: &Form) -> Result<Reply, ApiError> {
    let file = form.field("file").ok_or_else(|| ApiError::missing("file"))?;
    let purpose = form.text("purpose").ok_or_else(|| ApiError::missing("purpose"))?;
    let filename = file.filename.as_deref().unwrap_or("upload");
    let content = Bytes::copy_from_slice(&file.kept);
    Ok(Reply::value(&store(call, filename, purpose, file.length, content)))
}

/// Keeps a file and returns its object. `length` may be more than what is kept.
pub(super) fn store(call: &Call<'_>, filename: &str, purpose: &str, length: u64, content: Bytes) -> Value {
    let id = call.state.id("file-", 24);
    let object = json!({
        "id": id, "object": "file", "bytes": length, "created_at": now(), "filename": filename,
        "purpose": purpose, "status": "processed", "expires_at": null, "status_details": null,
    });
    call.state.files.put(&id, object.clone(), content);
    object
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (after, limit) = routes::page(call.parts);
    let (mut data, has_more) = call.state.files.page(after.as_deref(), limit);
    if let Some(purpose) = call.query("purpose") {
        data.retain(|file| file.get("purpose").and_then(Value::as_str) == Some(&purpose));
    }
    Ok(Reply::value(&listed(data, has_more)))
}

/// OpenAI's list object.
pub(super) fn listed(data: Vec<Value>, has_more: bool) -> Value {
    let id = |item: Option<&Value>| item.and_then(|item| item.get("id")).cloned();
    let (first, last) = (id(data.first()), id(data.last()));
    json!({"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": has_more})
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let file = call.state.files.find(call.id).ok_or_else(|| unknown(call.id))?;
    Ok(Reply::value(&file.object))
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("No such File object: {id}"))
}

/// The content; with `?bytes=N` so many bytes of any file, also one that was never uploaded.
pub(super) fn content(call: &Call<'_>) -> Result<Reply, ApiError> {
    if let Some(length) = call.query("bytes").and_then(|bytes| bytes.parse().ok()) {
        return Ok(Reply::download(length));
    }
    let file = call.state.files.find(call.id).ok_or_else(|| unknown(call.id))?;
    let length = file.object.get("bytes").and_then(Value::as_u64).unwrap_or_default();
    if length > file.content.len() as u64 {
        return Ok(Reply::download(length));
    }
    Ok(Reply::whole(HeaderValue::from_static("application/octet-stream"), file.content))
}

pub(super) fn delete(call: &Call<'_>) -> Result<Reply, ApiError> {
    if !call.state.files.remove(call.id) {
        return Err(unknown(call.id));
    }
    Ok(Reply::value(&json!({"id": call.id, "object": "file", "deleted": true})))
}
