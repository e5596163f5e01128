//! A row of the ledger as the API shows it: Portkey's names, cents, milliseconds.

use jiff::Timestamp;
use knowledge::price::money;
use memory::ledger::{Row, Text};
use serde_json::{Map, Value, json};

/// The members of a log, in the list and in the columns of an export.
pub(super) fn columns(row: &Row) -> Map<String, Value> {
    let mut members = Map::new();
    for part in [origin(row), outcome(row)] {
        if let Value::Object(part) = part {
            members.extend(part);
        }
    }
    members
}

/// Who sent what.
fn origin(row: &Row) -> Value {
    json!({
        "id": row.id,
        "trace_id": &*row.trace_id,
        "span_id": text(&row.span_id),
        "parent_span_id": text(&row.parent_span_id),
        "span_name": text(&row.span_name),
        "created_at": time(row.created_ms),
        "workspace_id": row.workspace,
        "workspace_slug": text(&row.workspace_slug),
        "api_key_id": text(&row.api_key),
        "api_key_name": text(&row.api_key_name),
        "user": text(&row.user),
        "metadata": metadata(row),
        "operation": &*row.operation,
        "request_method": &*row.method,
        "request_url": &*row.path,
        "virtual_key": text(&row.provider),
        "ai_org": text(&row.vendor),
        "ai_model": text(&row.model),
        "response_model": text(&row.response_model),
        "requested_model": text(&row.requested_model),
        "config": text(&row.config),
        "prompt_slug": text(&row.prompt),
        "prompt_version_id": row.prompt_version,
    })
}

/// What came of it.
fn outcome(row: &Row) -> Value {
    json!({
        "response_status_code": row.status,
        "guardrails": row.guardrails.as_deref().map(guardrails),
        "error_code": text(&row.error_code),
        "is_success": row.is_success,
        "stream_mode": row.streamed,
        "mode": mode(row),
        "cache_status": text(&row.cache_status),
        "cache_type": text(&row.cache_type),
        "prompt_cache_miss": text(&row.prompt_cache_miss),
        "req_units": row.input_tokens,
        "res_units": row.output_tokens,
        "total_units": row.total_tokens,
        "cached_units": row.cached_tokens,
        "cache_write_units": row.cache_write_tokens,
        "reasoning_units": row.reasoning_tokens,
        "usage_source": text(&row.usage_source),
        "cost": row.cost.map(money::cents),
        "cost_currency": "USD",
        "cost_status": text(&row.cost_status),
        "price_version": text(&row.price_version),
        "response_time": milliseconds(row.latency_us),
        "upstream_response_time": milliseconds(row.upstream_us),
        "gateway_processing_time": milliseconds(row.overhead_us),
        "time_to_first_token": row.first_token_us.map(milliseconds),
        "retry_success_count": row.retries,
        "last_used_option_index": text(&row.target),
        "is_custom": row.is_custom,
        "bytes_in": row.bytes_in,
        "bytes_out": row.bytes_out,
    })
}

/// A text, where there is one.
fn text(text: &Option<Text>) -> Option<&str> {
    text.as_deref()
}

/// An item of a list.
pub(super) fn item(row: &Row) -> Value {
    let mut members = columns(row);
    members.insert("object".to_owned(), "log".into());
    Value::Object(members)
}

/// One attempt of a request.
fn attempt(row: &Row) -> Value {
    let mut members = columns(row);
    let of_request = [
        "span_id",
        "parent_span_id",
        "span_name",
        "workspace_slug",
        "api_key_name",
        "user",
        "metadata",
        "request_method",
        "request_url",
        "prompt_slug",
        "prompt_version_id",
        "cache_status",
        "cache_type",
        "prompt_cache_miss",
        "mode",
        "guardrails",
        "retry_success_count",
        "gateway_processing_time",
        "is_custom",
        "bytes_in",
        "bytes_out",
        "cost_currency",
    ];
    for name in of_request {
        members.remove(name);
    }
    members.insert("attempt".to_owned(), row.attempt.into());
    members.insert("responded".to_owned(), row.responded.into());
    Value::Object(members)
}

/// One log with its attempts and, where they were kept, its bodies.
pub(super) fn whole(row: &Row, attempts: &[Row], payload: Option<&Map<String, Value>>) -> Value {
    let body = |name: &str| payload.and_then(|payload| payload.get(name)).cloned().unwrap_or(Value::Null);
    let mut log = json!({
        "_id": row.id,
        "id": row.id,
        "trace_id": &*row.trace_id,
        "organisation_id": super::ORGANISATION,
        "workspace_id": row.workspace,
        "created_at": time(row.created_ms),
        "log_format": if row.is_custom { "custom" } else { "gateway" },
        "transformedRequest": body("transformed_request"),
        "finalUntransformedRequest": body("final_untransformed_request"),
        "originalResponse": body("original_response"),
        "metrics": columns(row),
        "attempts": attempts.iter().map(attempt).collect::<Vec<Value>>(),
        "object": "log",
    });
    if let Value::Object(members) = &mut log {
        members.extend(bodies(row, payload));
    }
    log
}

/// `request` and `response` of a log, with their bodies where they were kept.
pub(super) fn bodies(row: &Row, payload: Option<&Map<String, Value>>) -> [(String, Value); 2] {
    let body = |name: &str| payload.and_then(|payload| payload.get(name)).cloned().unwrap_or(Value::Null);
    let request = json!({
        "url": &*row.path,
        "method": &*row.method,
        "headers": body("request_headers"),
        "body": body("request"),
        "gatewayHeaders": {
            "traceId": &*row.trace_id,
            "spanId": row.span_id.as_deref(),
            "parentSpanId": row.parent_span_id.as_deref(),
            "spanName": row.span_name.as_deref(),
            "metadata": metadata(row),
        },
    });
    let response = json!({
        "status": row.status,
        "headers": body("response_headers"),
        "body": body("response"),
        "responseTime": milliseconds(row.latency_us),
        "lastUsedOptionJsonPath": row.target.as_deref(),
    });
    [("request".to_owned(), request), ("response".to_owned(), response)]
}

/// The names of a row's guardrails.
fn guardrails(text: &str) -> Vec<&str> {
    text.split(',').filter(|name| !name.is_empty()).collect()
}

fn mode(row: &Row) -> &'static str {
    match &*row.operation {
        "proxy" => "proxy",
        _ if row.is_fallback => "fallback",
        _ => "single",
    }
}

fn metadata(row: &Row) -> Value {
    row.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

/// ISO 8601 with milliseconds.
fn time(ms: i64) -> Option<String> {
    Timestamp::from_millisecond(ms).ok().map(|time| format!("{time:.3}"))
}

fn milliseconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1000.0
}
