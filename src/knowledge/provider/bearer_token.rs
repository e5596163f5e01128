//! The response of an OAuth token endpoint (RFC 6749, 5.1 and 5.2).

use super::token_exchange::{Credentials, Step, TokenResponse};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use words::config::secret::Secret;

/// The lifetime of a token when the response gives none.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(300);

/// Reads the response of a token endpoint. The metadata server writes numbers as strings.
pub(super) fn parse_token(response: &TokenResponse) -> Result<Step, String> {
    #[derive(Deserialize)]
    struct TokenBody {
        access_token: Option<String>,
        expires_in: Option<Value>,
        error: Option<Value>,
        error_description: Option<String>,
    }
    let body: Option<TokenBody> = serde_json::from_slice(&response.body).ok();
    let Some(body) = body else { return Err(format!("its answer (status {}) is no token", response.status)) };
    if let (200, Some(token)) = (response.status, body.access_token.filter(|token| !token.is_empty())) {
        let seconds = match &body.expires_in {
            Some(Value::String(text)) => text.trim().parse().ok(),
            // A time that is over.
            Some(value) if value.as_i64().is_some_and(|seconds| seconds < 0) => Some(0),
            Some(value) => value.as_u64(),
            None => None,
        };
        let lifetime = seconds.map_or(DEFAULT_LIFETIME, Duration::from_secs);
        return Ok(Step::Done(Credentials::Bearer(Secret::new(token)), lifetime));
    }
    // The first line describes the error; the others hold ids and times.
    let line = body.error_description.as_deref().and_then(|text| text.lines().next());
    let line: String = line.unwrap_or_default().chars().take(300).collect();
    match (line.as_str(), body.error) {
        ("", Some(Value::String(code))) => Err(code.chars().take(300).collect()),
        ("", _) => Err(format!("its answer (status {}) is no token", response.status)),
        _ => Err(line),
    }
}
