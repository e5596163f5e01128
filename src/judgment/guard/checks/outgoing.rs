//! What checks that call other servers share: URLs, headers, and what is shown of a call that failed.

use crate::guard::outside::OutsideError;
use crate::guard::parameters::{Parameters, Unusable};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use std::time::Duration;
use url::Url;

/// How long a check waits for another server, unless its parameters say otherwise.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);

/// The parameter with an address, and its address without what may be a secret.
pub(super) fn url(
    parameters: &Parameters<'_>,
    name: &'static str,
    what: &str,
) -> Result<(String, String), Unusable> {
    let url = parameters.text(name).filter(|url| !url.is_empty());
    let url = url.ok_or_else(|| Unusable::new(name, format!("Missing {what} URL")))?;
    let parsed = Url::parse(url).ok().filter(|parsed| ["http", "https"].contains(&parsed.scheme()));
    let mut parsed = parsed.ok_or_else(|| Unusable::new(name, format!("Invalid {what} URL format")))?;
    parsed.set_query(None);
    parsed.set_fragment(None);
    // These fail for addresses without a host only.
    let _ = parsed.set_username("").and_then(|()| parsed.set_password(None));
    Ok((url.to_owned(), parsed.into()))
}

/// The headers of a call with a JSON body, and those of a parameter: an object of texts, or its JSON as a text.
pub(super) fn headers(parameters: &Parameters<'_>, name: &'static str) -> Result<HeaderMap, Unusable> {
    let refused = |why: &str| Unusable::new(name, format!("Failed to parse headers: {why}"));
    let members: Map<String, Value> = match parameters.get(name) {
        None => Map::new(),
        Some(Value::String(text)) if text.trim().is_empty() => Map::new(),
        Some(Value::String(text)) => {
            serde_json::from_str(text).map_err(|_| refused("Invalid headers format"))?
        }
        Some(value) => value.as_object().cloned().ok_or_else(|| refused("Invalid headers format"))?,
    };
    let mut headers = json_headers();
    for (name, value) in members {
        let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(
            // What is no text (a number) is sent as it is written.
            HeaderValue::from_str(value.as_str().unwrap_or(&value.to_string())).ok(),
        );
        let (parsed, value) =
            parsed.ok_or_else(|| refused(&format!("{name} is no header that can be sent")))?;
        headers.insert(parsed, value);
    }
    Ok(headers)
}

/// The headers of a call with a JSON body.
pub(super) fn json_headers() -> HeaderMap {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (ACCEPT, HeaderValue::from_static("application/json")),
        (USER_AGENT, HeaderValue::from_static("turnpike")),
    ];
    headers.into_iter().collect()
}

/// The time limit of the parameter that every check has, milliseconds.
pub(super) fn timeout(parameters: &Parameters<'_>, default: Duration) -> Duration {
    let milliseconds = parameters.number("timeout").filter(|number| (1.0..=600_000.0).contains(number));
    milliseconds.map_or(default, |number| Duration::from_millis(number as u64))
}

/// Why a call failed, as results show it.
pub(super) fn reason(error: &OutsideError) -> String {
    match error {
        OutsideError::Refused(why) | OutsideError::Failed(why) => why.clone(),
        OutsideError::TimedOut => "it did not respond in time".to_owned(),
    }
}
