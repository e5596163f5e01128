//! `POST /v1/logs`: requests that others have made, kept as logs beside the gateway's own.

use super::{ledger, refused_too_many};
use crate::call::Call;
use crate::field::{Field, Type, optional, read_object, required};
use crate::masking::mask;
use crate::reply::Reply;
use knowledge::price::{Charge, Cost};
use knowledge::provider;
use memory::ledger::{Entry, Row, RowKind, Text, payload};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::api::service_tier::ServiceTier;
use words::api::usage::Usage;
use words::config::node::{Node, NodeKind};
use words::config::read::Problems;
use words::error::Error;
use words::settings::scopes::Scope;

/// Logs of one call, at most.
const MAX_LOGS: usize = 1000;

const REQUEST: &[Field] = &[
    required("url", Type::Text(4096), "Where it went."),
    optional("provider", Type::Text(128), "The vendor."),
    optional("method", Type::Text(16), "`POST` where absent."),
    optional("headers", Type::AnyObject, "Secrets are masked."),
    required("body", Type::Any, "What was sent."),
];

const RESPONSE: &[Field] = &[
    optional("status", Type::Integer(100, 599), "200 where absent."),
    optional("headers", Type::AnyObject, "Secrets are masked."),
    required("body", Type::Any, "What was received; its `usage` is read."),
    optional("response_time", Type::Number(0.0, 1e9), "Milliseconds."),
    optional("streamingMode", Type::Flag, "Whether it was streamed."),
];

pub(super) const LOG: &[Field] = &[
    required("request", Type::Object(REQUEST), "The request."),
    required("response", Type::Object(RESPONSE), "The response."),
    optional(
        "metadata",
        Type::AnyObject,
        "`trace_id`, `span_id`, `span_name`, `parent_span_id`, and texts of your own.",
    ),
];

pub(super) async fn create(call: Call) -> Result<Reply, Error> {
    if call.snapshot.settings.auth.separate_logs_write {
        call.identity.require(Scope::LogsWrite)?;
    }
    let logs = read_all(&call)?;
    let workspace = call.new_workspace()?;
    let ledger = ledger(&call)?;
    let limit = call.snapshot.settings.logs.max_payload_bytes;
    let entries: Vec<Entry> = logs.iter().map(|log| entry(&call, log, workspace, limit)).collect();
    let ids: Vec<Uuid> = entries.iter().map(|entry| entry.row.id).collect();
    if !ledger.push(entries) {
        return Err(refused_too_many());
    }
    Ok(Reply::from(json!({"status": "success", "ids": ids})))
}

/// One log or a list of them, all checked before any is kept.
fn read_all(call: &Call) -> Result<Vec<Map<String, Value>>, Error> {
    let node = Node::from_json(&call.bytes).map_err(|why| {
        Error::bad_request(format!("The request body must be a log or a list of logs: {why}."))
    })?;
    let problems = Problems::default();
    let logs: Vec<Map<String, Value>> = match &node.kind {
        NodeKind::List(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| read_object(LOG, item, &format!("[{index}]"), &problems))
            .collect(),
        _ => vec![read_object(LOG, &node, "", &problems)],
    };
    if logs.is_empty() || logs.len() > MAX_LOGS {
        problems.push("", None, format!("must be from 1 to {MAX_LOGS} logs"));
    }
    if problems.is_empty() { Ok(logs) } else { Err(Error::invalid_body(problems.into_vec())) }
}

fn entry(call: &Call, log: &Map<String, Value>, workspace: Uuid, limit: usize) -> Entry {
    let empty = Map::new();
    let part = |name: &str| log.get(name).and_then(Value::as_object).unwrap_or(&empty);
    let request = part("request");
    let response = part("response");
    let metadata = part("metadata");
    let given = |name: &str| metadata.get(name).and_then(Value::as_str).map(text);
    let named = |map: &Map<String, Value>, name: &str| map.get(name).and_then(Value::as_str).map(text);
    let created_ms = call.now.as_millisecond();
    let id = call.shared.ledger().map(|ledger| ledger.new_id(created_ms)).unwrap_or_default();
    let status = response.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    let status = status.unwrap_or(200);
    let own: Map<String, Value> = metadata
        .iter()
        .filter(|(name, value)| !SPAN.contains(&name.as_str()) && value.is_string())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let response_body = response.get("body");
    let usage = response_body
        .and_then(|body| body.get("usage"))
        .and_then(|usage| Usage::read(usage.to_string().as_bytes()));
    let model = |body: Option<&Value>| body?.get("model")?.as_str().map(text);
    let latency = response.get("response_time").and_then(Value::as_f64).unwrap_or_default();
    let url = request.get("url").and_then(Value::as_str).unwrap_or_default();
    let mut row = Row::new(id, RowKind::Request, created_ms);
    row.trace_id = given("trace_id").unwrap_or_else(|| id.to_string().into());
    row.span_id = given("span_id");
    row.parent_span_id = given("parent_span_id");
    row.span_name = given("span_name");
    row.workspace = Some(workspace);
    row.workspace_slug = workspace_slug(call, workspace);
    row.api_key = call
        .identity
        .key_id
        .map(|id| id.to_string().into())
        .or_else(|| call.identity.id.as_ref().map(Text::from));
    row.api_key_name = call.identity.name.as_ref().map(Text::from);
    row.user = own.get("_user").and_then(Value::as_str).map(text);
    row.metadata = (!own.is_empty()).then(|| text(&Value::Object(own).to_string()));
    row.operation = Text::new("custom");
    row.method = named(request, "method").unwrap_or(Text::new("POST"));
    // Without a query: it may hold a key.
    row.path = text(url.split(['?', '#']).next().unwrap_or_default());
    row.vendor = named(request, "provider");
    row.model = model(request.get("body"));
    row.response_model = model(response_body);
    row.status = status;
    row.is_success = status < 400;
    row.streamed = response.get("streamingMode").and_then(Value::as_bool).unwrap_or_default();
    row.is_custom = true;
    row.set_usage(usage.as_ref(), "reported");
    row.set_cost(usage.map(|usage| cost(call, &row, &usage, response_body)).as_ref());
    row.latency_us = (latency * 1000.0) as u64;
    row.upstream_us = row.latency_us;
    Entry { payload: payload::write(&bodies(request, response), limit), ..Entry::from(row) }
}

/// What the usage of a log costs: by the overlay and the catalogue, at the time of the call. Unknown without a provider of this gateway,
/// or a model.
fn cost(call: &Call, row: &Row, usage: &Usage, response_body: Option<&Value>) -> Cost {
    let prices = call.shared.prices.load();
    let vendor = row.vendor.as_deref().and_then(provider::find);
    let response_model = row.response_model.as_deref();
    let (Some(vendor), Some(model)) = (vendor, row.model.as_deref().or(response_model)) else {
        return Cost::unknown(Arc::clone(prices.version()), 0);
    };
    let tier = response_body.and_then(|body| ServiceTier::new(body.get("service_tier")?.as_str()?));
    prices.cost(&Charge {
        vendor: vendor.id(),
        model,
        response_model,
        own: None,
        usage,
        service_tier: tier.as_deref(),
        is_batch: false,
        at: call.now,
    })
}

/// What is kept of the bodies and headers.
fn bodies(request: &Map<String, Value>, response: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    for (name, part) in [("request", request), ("response", response)] {
        kept.insert(name.to_owned(), part.get("body").cloned().unwrap_or_default());
        if let Some(headers) = part.get("headers") {
            let mut headers = json!({"headers": headers});
            mask(&mut headers);
            kept.insert(format!("{name}_headers"), headers.get("headers").cloned().unwrap_or_default());
        }
    }
    kept
}

/// Members of the metadata that have columns of their own.
const SPAN: [&str; 4] = ["trace_id", "span_id", "span_name", "parent_span_id"];

fn workspace_slug(call: &Call, workspace: Uuid) -> Option<Text> {
    let catalog = call.catalog().ok()?;
    catalog.get(memory::store::Kind::Workspace, workspace)?.slug.clone().map(Text::from)
}

/// Without what PostgreSQL cannot store.
fn text(text: &str) -> Text {
    Text::from(text.replace('\0', "").replace("\\u0000", "\\ufffd"))
}
