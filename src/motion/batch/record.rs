//! How files and batches are kept in the store, and how clients get to see them: OpenAI's objects.
//!
//! Not their contents (`blobs`), and not what may happen to a batch (`state`).

use super::state::{Batch, Event};
use jiff::Timestamp;
use memory::store::{Kind, Record, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::api::own_ids::{batch_id, file_id};

/// A file: what is in the store of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    pub filename: String,
    pub purpose: String,
    pub bytes: u64,
    /// Unix seconds.
    pub created: i64,
    /// When it is deleted, Unix seconds.
    pub expires: Option<i64>,
    /// The provider for whose batch jobs it is, or that has made it; `None`: it is the gateway's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The id of the client that has uploaded it, or has made the batch that has made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_by: Option<String>,
}

/// Where the content of a file is among the blobs.
pub fn file_path(id: Uuid) -> String {
    format!("files/{}", id.simple())
}

/// Where the results of a batch are while it runs, and the beginning of nothing else.
pub(crate) fn batch_path(id: Uuid) -> String {
    format!("batches/{}", id.simple())
}

/// A new record of the workspace.
pub fn created(
    kind: Kind,
    id: Uuid,
    workspace: Option<Uuid>,
    body: &impl Serialize,
    now: Timestamp,
) -> Record {
    Record {
        kind,
        id,
        parent: None,
        workspace,
        slug: None,
        number: None,
        status: Status::Active,
        revision: 1,
        created_at: now,
        updated_at: now,
        body: text(body),
        sealed: None,
    }
}

/// The record with another body.
pub fn changed(record: &Record, body: &impl Serialize, now: Timestamp) -> Record {
    Record { body: text(body), revision: record.revision + 1, updated_at: now, ..record.clone() }
}

/// The record of a batch that is cancelled; `None`: it cannot be read, or has ended.
pub fn cancelled(record: &Record, now: Timestamp) -> Option<Record> {
    let mut batch = batch(record)?;
    batch.apply(Event::Cancel, now.as_second()).ok()?;
    Some(changed(record, &batch, now))
}

fn text(body: &impl Serialize) -> Arc<str> {
    serde_json::to_string(body).unwrap_or_default().into()
}

/// What a record of a file has; `None`: it cannot be read.
pub fn file(record: &Record) -> Option<File> {
    serde_json::from_str(&record.body).ok()
}

/// What a record of a batch has; `None`: it cannot be read.
pub fn batch(record: &Record) -> Option<Batch> {
    serde_json::from_str(&record.body).ok()
}

/// A file as OpenAI shows it.
pub(crate) fn file_view(id: Uuid, file: &File) -> Value {
    json!({
        "id": file_id(id, file.provider.as_deref()), "object": "file", "bytes": file.bytes, "created_at": file.created,
        "expires_at": file.expires, "filename": file.filename, "purpose": file.purpose, "status": "processed",
        "status_details": null,
    })
}

/// A record of a batch as OpenAI shows it; `None`: it cannot be read.
pub fn view(record: &Record) -> Option<Value> {
    batch(record).map(|batch| batch_view(record.id, &batch))
}

/// A batch as OpenAI shows it, and `lines_sent_again`.
pub(crate) fn batch_view(id: Uuid, batch: &Batch) -> Value {
    let errors = (!batch.errors.is_empty()).then(|| {
        let data: Vec<Value> = batch
            .errors
            .iter()
            .map(|error| {
                json!({"code": error.code, "message": error.message, "param": error.param, "line": error.line})
            })
            .collect();
        json!({"object": "list", "data": data})
    });
    let times = &batch.times;
    let provider = batch.provider();
    let file = |id: Uuid| file_id(id, provider);
    json!({
        "id": batch_id(id, provider), "object": "batch", "endpoint": batch.request.endpoint, "errors": errors,
        "input_file_id": file(batch.request.input_file), "completion_window": batch.request.window,
        "status": batch.status.as_str(), "output_file_id": batch.files.output.map(file),
        "error_file_id": batch.files.errors.map(file), "created_at": times.created,
        "in_progress_at": times.in_progress, "expires_at": times.expires, "finalizing_at": times.finalizing,
        "completed_at": times.completed, "failed_at": times.failed, "expired_at": times.expired,
        "cancelling_at": times.cancelling, "cancelled_at": times.cancelled,
        "request_counts": {
            "total": batch.lines.total, "completed": batch.lines.completed, "failed": batch.lines.failed,
        },
        "metadata": batch.request.metadata, "lines_sent_again": batch.lines.sent_again,
    })
}
