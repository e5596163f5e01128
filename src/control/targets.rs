//! `GET /v1/targets` and `POST /v1/targets/reset`: what the process remembers of targets, and how to make it
//! forget a breaker's failures.
//!
//! On the control port only: see [`super::SEGMENTS`].

use super::failure::refused;
use crate::error::Error;
use crate::state::Shared;
use crate::state::targets::Shown;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A target in the answer; `docs/control.md` says what the fields are.
#[derive(Serialize)]
struct Told<'a> {
    config: &'a str,
    index: &'a str,
    provider: &'a str,
    slug: Option<&'a str>,
    model: Option<&'a str>,
    state: Option<&'static str>,
    failures: u32,
    since: Option<String>,
    next_try_seconds: Option<f64>,
    in_flight: u32,
    latency_ms: Option<f64>,
}

/// Which breakers to reset; what is not said is any.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    config: Option<String>,
    index: Option<String>,
}

/// `GET /v1/targets`.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let (now, clock) = (Instant::now(), Timestamp::now());
    let shown = shared.targets.list(now);
    let targets: Vec<Told<'_>> = shown.iter().map(|shown| told(shown, now, clock)).collect();
    Json(json!({ "targets": targets })).into_response()
}

/// `POST /v1/targets/reset`.
pub(super) async fn reset(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let which = match body.trim_ascii() {
        b"" => Ok(Which::default()),
        text => serde_json::from_slice::<Which>(text),
    };
    match which {
        Ok(Which { config, index }) => {
            let reset = shared.targets.reset(config.as_deref(), index.as_deref());
            log::info!(target: "turnpike", "{reset} circuit breakers were reset on the control port");
            Json(json!({ "reset": reset })).into_response()
        }
        Err(why) => {
            let error = Error::bad_request(format!(
                "The body must be a JSON object with `config` and `index`, both texts, both optional: {why}"
            ));
            refused(&error, &headers)
        }
    }
}

fn told(shown: &Shown, now: Instant, clock: Timestamp) -> Told<'_> {
    let at = |moment: Instant| clock - now.saturating_duration_since(moment);
    Told {
        config: &shown.identity.config,
        index: &shown.identity.index,
        provider: shown.identity.provider,
        slug: shown.identity.slug.as_deref(),
        model: shown.identity.model.as_deref(),
        state: shown.phase.map(|phase| phase.word()),
        failures: shown.failures,
        since: shown.since.map(|since| format!("{:.3}", at(since))),
        next_try_seconds: shown.next_try.map(|wait| rounded(wait, 1.0)),
        in_flight: shown.in_flight,
        latency_ms: shown.latency.map(|latency| rounded(latency, 1000.0)),
    }
}

/// In units of `1 / of` seconds, three digits after the point.
fn rounded(time: Duration, of: f64) -> f64 {
    (time.as_secs_f64() * of * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::targets::{Ended, Identity, Rules, Targets};

    #[test]
    fn a_target_is_told_in_full() {
        let (targets, now) = (Targets::default(), Instant::now());
        let identity = Identity {
            config: "cf-1".into(),
            index: "config.targets[1]".into(),
            provider: "openai",
            slug: Some("prod".into()),
            model: None,
            hash: 7,
        };
        let rules = Rules { threshold: 1, cooldown: Duration::from_secs(30), statuses: None };
        let target = targets.find(&identity, Some(&rules));
        target.first_token(Duration::from_micros(123_456), now);
        target.enter(now).ended(Ended::Badly, now);
        let visit = target.enter(now);
        let later = now + Duration::from_millis(10_250);
        let clock: Timestamp = "2026-03-01T12:00:10.25Z".parse().unwrap();
        let shown = targets.list(later);
        assert_eq!(
            serde_json::to_value(told(&shown[0], later, clock)).unwrap(),
            json!({"config": "cf-1", "index": "config.targets[1]", "provider": "openai", "slug": "prod",
                   "model": null, "state": "open", "failures": 1, "since": "2026-03-01T12:00:00.000Z",
                   "next_try_seconds": 19.75, "in_flight": 1, "latency_ms": 123.456})
        );
        drop(visit);
    }
}
