//! What a gateway with governance is given beyond its settings: a stored key with two rates, and a budget of the organisation.
//!
//! The guardrail and the cache are in the config of the requests (`cases`). All limits are wide: none of them refuses a request.

use super::Failure;
use super::process::SERVICE_KEY;
use serde_json::{Value, json};
use std::net::SocketAddr;

/// Makes the key and the budget through the control API; the key, to be sent.
///
/// # Errors
/// The gateway does not take them.
pub(crate) fn prepare(control: SocketAddr) -> Result<String, Failure> {
    let rates = json!([
        {"type": "requests", "unit": "rpm", "value": 1_000_000_000},
        {"type": "tokens", "unit": "rpm", "value": 1_000_000_000_000_u64},
    ]);
    let key = json!({"name": "bench", "scopes": ["completions.write"], "rate_limits": rates});
    let made = post(control, "/v1/api-keys/workspace/service", &key)?;
    let budget = json!({
        "conditions": [{"key": "api_key", "value": "*"}], "group_by": [{"key": "api_key"}], "type": "cost", "credit_limit": 1_000_000,
    });
    post(control, "/v1/policies/usage-limits", &budget)?;
    Ok(made.get("key").and_then(Value::as_str).ok_or("no key was made")?.to_owned())
}

fn post(control: SocketAddr, path: &str, body: &Value) -> Result<Value, Failure> {
    let call = reqwest::blocking::Client::new().post(format!("http://{control}{path}"));
    let response = call.header("x-gateway-api-key", SERVICE_KEY).json(body).send()?;
    let status = response.status();
    let text = response.text()?;
    if !status.is_success() {
        return Err(format!("{path}: {status} {text}").into());
    }
    Ok(serde_json::from_str(&text)?)
}

/// How many rows this gateway has written to its log store.
///
/// # Errors
/// The metrics cannot be read.
pub(crate) fn rows_written(control: SocketAddr) -> Result<f64, Failure> {
    let page = reqwest::blocking::get(format!("http://{control}/metrics"))?.text()?;
    let value = page.lines().find_map(|line| line.strip_prefix("turnpike_ledger_rows_written_total "));
    Ok(value.ok_or("no count of rows among the metrics")?.trim().parse()?)
}
