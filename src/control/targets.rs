//! `GET /v1/targets` and `POST /v1/targets/reset`: lists the state of targets and resets circuit breakers.
//!
//! On the control port only: see `routes`.

use super::json::{self, Json};
use crate::config::read::Cursor;
use crate::state::Shared;
use crate::state::targets::TargetView;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A target in the response; `docs/control.md` describes the fields.
#[derive(Serialize)]
struct TargetJson<'a> {
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

/// Which breakers to reset; an absent field matches any.
#[derive(Debug)]
pub(super) struct ResetFilter {
    config: Option<String>,
    index: Option<String>,
}

/// `GET /v1/targets`.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let (now, clock) = (Instant::now(), Timestamp::now());
    let view = shared.targets.list(now);
    let targets: Vec<TargetJson<'_>> = view.iter().map(|view| target_json(view, now, clock)).collect();
    axum::Json(json!({ "targets": targets })).into_response()
}

/// `POST /v1/targets/reset`.
pub(super) async fn reset(
    State(shared): State<Arc<Shared>>,
    Json(filter): Json<ResetFilter>,
) -> axum::Json<serde_json::Value> {
    let reset = shared.targets.reset(filter.config.as_deref(), filter.index.as_deref());
    log::info!(target: "turnpike", "{reset} circuit breakers were reset on the control port");
    axum::Json(json!({ "reset": reset }))
}

impl json::Body for ResetFilter {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let filter = Self { config: fields.text(&["config"]), index: fields.text(&["index"]) };
        fields.reject_unknown(&["config", "index"]);
        Some(filter)
    }
}

fn target_json(view: &TargetView, now: Instant, clock: Timestamp) -> TargetJson<'_> {
    let at = |moment: Instant| clock - now.saturating_duration_since(moment);
    TargetJson {
        config: &view.id.config,
        index: &view.id.index,
        provider: view.id.provider,
        slug: view.id.slug.as_deref(),
        model: view.id.model.as_deref(),
        state: view.circuit.map(|circuit| circuit.as_str()),
        failures: view.failures,
        since: view.since.map(|since| format!("{:.3}", at(since))),
        next_try_seconds: view.next_probe_in.map(|wait| rounded(wait, 1.0)),
        in_flight: view.in_flight,
        latency_ms: view.latency.map(|latency| rounded(latency, 1000.0)),
    }
}

/// A time in units of `1 / units_per_second` seconds, rounded to three decimals.
fn rounded(time: Duration, units_per_second: f64) -> f64 {
    (time.as_secs_f64() * units_per_second * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::policies::BreakerPolicy;
    use crate::state::targets::{BreakerSignal, TargetId, TargetRegistry};

    #[test]
    fn a_target_is_shown_with_all_fields() {
        let (targets, now) = (TargetRegistry::default(), Instant::now());
        let identity = TargetId {
            config: "cf-1".into(),
            index: "config.targets[1]".into(),
            provider: "openai",
            slug: Some("prod".into()),
            model: None,
            hash: 7,
        };
        let policy = BreakerPolicy { threshold: 1, cooldown: Duration::from_secs(30), statuses: None };
        let target = targets.find_or_insert(&identity, Some(&policy));
        target.first_token(Duration::from_micros(123_456), now);
        target.enter(now).finish(BreakerSignal::Failure, now);
        let permit = target.enter(now);
        let later = now + Duration::from_millis(10_250);
        let clock: Timestamp = "2026-03-01T12:00:10.25Z".parse().unwrap();
        let view = targets.list(later);
        assert_eq!(
            serde_json::to_value(target_json(&view[0], later, clock)).unwrap(),
            json!({"config": "cf-1", "index": "config.targets[1]", "provider": "openai", "slug": "prod",
                   "model": null, "state": "open", "failures": 1, "since": "2026-03-01T12:00:00.000Z",
                   "next_try_seconds": 19.75, "in_flight": 1, "latency_ms": 123.456})
        );
        drop(permit);
    }
}
