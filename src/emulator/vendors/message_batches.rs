//! Anthropic's message batches. The second `GET` of a batch ends it: every line is really run then.
//!
//! Nothing depends on time, so that tests need not wait.

use super::line_run;
use crate::anthropic;
use crate::batches::merge;
use crate::call::Call;
use crate::reply::{ApiError, Dialect, Reply};
use crate::routes;
use bytes::Bytes;
use http::HeaderValue;
use serde_json::{Value, json};

const DIALECT: Dialect = Dialect::Anthropic;
const TIME: &str = "2026-01-01T00:00:00Z";

pub(super) fn create(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: Value = call.read(DIALECT)?;
    let requests = request.get("requests").and_then(Value::as_array).filter(|requests| !requests.is_empty());
    let requests = requests.ok_or_else(|| ApiError::bad("requests: Field required").in_dialect(DIALECT))?;
    let is_id = |id: &str| {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    let has_id = |request: &Value| request.get("custom_id").and_then(Value::as_str).is_some_and(is_id);
    if let Some(wrong) = requests.iter().position(|request| !has_id(request)) {
        let why =
            format!("requests.{wrong}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'");
        return Err(ApiError::bad(why).in_dialect(DIALECT));
    }
    let id = call.state.id("msgbatch_", 24);
    let batch = json!({
        "id": id, "type": "message_batch", "processing_status": "in_progress",
        "request_counts": {"processing": requests.len(), "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
        "ended_at": null, "created_at": TIME, "expires_at": "2026-01-02T00:00:00Z", "archived_at": null,
        "cancel_initiated_at": null, "results_url": null,
    });
    call.state.vendors.batches.put(&id, batch.clone(), call.body.clone());
    Ok(Reply::value(&batch).in_dialect(DIALECT))
}

pub(super) fn list(call: &Call<'_>) -> Result<Reply, ApiError> {
    let (after, limit) = routes::page(call.parts);
    let (data, has_more) = call.state.vendors.batches.page(after.as_deref(), limit);
    let data: Vec<Value> =
        data.into_iter().filter(|batch| text(batch, "type") == "message_batch").map(line_run::view).collect();
    Ok(Reply::value(&json!({"data": data, "has_more": has_more})).in_dialect(DIALECT))
}

pub(super) fn one(call: &Call<'_>) -> Result<Reply, ApiError> {
    let mut steps = 0;
    let batch = call.state.vendors.batches.change(call.id, |batch| steps = line_run::step(batch));
    let batch = batch.ok_or_else(|| unknown(call.id))?;
    let is_canceled = text(&batch, "processing_status") == "canceling";
    let is_over = text(&batch, "processing_status") == "ended";
    if is_over || (steps == 0 && !is_canceled) {
        return Ok(Reply::value(&line_run::view(batch)).in_dialect(DIALECT));
    }
    let content = call.state.vendors.batches.find(call.id).map(|item| item.content).unwrap_or_default();
    let request: Value = serde_json::from_slice(&content).unwrap_or_default();
    let requests = request.get("requests").and_then(Value::as_array).cloned().unwrap_or_default();
    let results: Vec<Value> = requests.iter().map(|request| result(call, request, is_canceled)).collect();
    let count = |kind: &str| {
        results
            .iter()
            .filter(|line| line.pointer("/result/type").and_then(Value::as_str) == Some(kind))
            .count()
    };
    let change = json!({
        "processing_status": "ended", "ended_at": TIME,
        "results_url": format!("https://api.anthropic.com/v1/messages/batches/{}/results", call.id),
        "request_counts": {
            "processing": 0, "succeeded": count("succeeded"), "errored": count("errored"),
            "canceled": count("canceled"), "expired": 0,
        },
    });
    // As Anthropic: in any order.
    let content = line_run::jsonl(results.into_iter().rev());
    call.state.vendors.files.put(call.id, Value::Null, content);
    let batch = call.state.vendors.batches.change(call.id, |batch| merge(batch, &change));
    Ok(Reply::value(&line_run::view(batch.unwrap_or_default())).in_dialect(DIALECT))
}

fn result(call: &Call<'_>, request: &Value, is_canceled: bool) -> Value {
    let id = request.get("custom_id").cloned().unwrap_or_default();
    if is_canceled {
        return json!({"custom_id": id, "result": {"type": "canceled"}});
    }
    let params = request.get("params").unwrap_or(&Value::Null);
    let (status, body) = line_run::run(call, anthropic::create, "", params);
    let result = if status.is_success() {
        json!({"type": "succeeded", "message": body})
    } else {
        json!({"type": "errored", "error": body})
    };
    json!({"custom_id": id, "result": result})
}

pub(super) fn cancel(call: &Call<'_>) -> Result<Reply, ApiError> {
    let batch = call.state.vendors.batches.change(call.id, |batch| {
        if text(batch, "processing_status") == "in_progress" {
            merge(batch, &json!({"processing_status": "canceling", "cancel_initiated_at": TIME}));
        }
    });
    let batch = batch.ok_or_else(|| unknown(call.id))?;
    Ok(Reply::value(&line_run::view(batch)).in_dialect(DIALECT))
}

pub(super) fn results(call: &Call<'_>) -> Result<Reply, ApiError> {
    let file = call.state.vendors.files.find(call.id).ok_or_else(|| unknown(call.id))?;
    let kind = HeaderValue::from_static("application/x-jsonl");
    Ok(Reply::whole(kind, Bytes::clone(&file.content)).in_dialect(DIALECT))
}

fn text<'a>(batch: &'a Value, name: &str) -> &'a str {
    batch.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("Message batch with id {id} not found.")).in_dialect(DIALECT)
}
