//! `GET /v1/targets` and `POST /v1/targets/reset`: lists the state of targets and resets circuit breakers.
//!
//! On the control port only: see `routes`.

use super::call::Call;
use super::field::{Field, Type, nullable, optional, required};
use super::reply::Reply;
use super::route::{Access, Route, Shape, get, post};
use jiff::Timestamp;
use memory::state::drained_providers::DrainedView;
use memory::state::targets::TargetView;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use words::error::Error;
use words::settings::scopes::Scope;

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

const RESET: &[Field] = &[
    optional("config", Type::Text(4096), "The config's name; any where absent."),
    optional("index", Type::Text(4096), "The target's path in it; any where absent."),
];

const DRAINED: Type = Type::Object(&[
    required("slug", Type::Text(255), "The provider."),
    nullable("provider_id", Type::Uuid, "Its record; null for one of the settings."),
    required("since", Type::Time, "Since when."),
    nullable("until", Type::Time, "Until when; null: until it is ended."),
    nullable(
        "warm_until",
        Type::Time,
        "When it takes all of its turns again; null where it does not warm up.",
    ),
    required("share", Type::Number(0.0, 1.0), "The share of its turns that it takes now."),
]);

const LISTED: &[Field] = &[
    required(
        "targets",
        Type::List(&Type::AnyObject, 0, 10_000),
        "The targets, as docs/control.md describes them.",
    ),
    required("drained", Type::List(&DRAINED, 0, 10_000), "The providers that get no new attempts, or few."),
];
const WAS_RESET: &[Field] =
    &[required("reset", Type::Integer(0, i64::MAX), "Breakers that were open or half-open.")];

pub(super) const ROUTES: &[Route] = &[
    get("/v1/targets", Access::Scope(&[Scope::TargetsRead]), "The state of targets", |call| {
        Box::pin(list(call))
    })
    .replies(Shape::Object(LISTED))
    .on_control_port_only(),
    post("/v1/targets/reset", Access::Scope(&[Scope::TargetsUpdate]), "Closes circuit breakers", |call| {
        Box::pin(reset(call))
    })
    .body(RESET)
    .replies(Shape::Object(WAS_RESET))
    .changes("targets", "reset")
    .of_process()
    .on_control_port_only(),
];

async fn list(call: Call) -> Result<Reply, Error> {
    let now = Instant::now();
    let clock = call.now;
    let view = call.shared.targets.list(now);
    let targets: Vec<TargetJson<'_>> = view.iter().map(|view| target_json(view, now, clock)).collect();
    let drained = call.shared.drained_providers.list(now);
    let drained: Vec<Value> = drained.iter().map(|view| drained_json(view, now, clock)).collect();
    Ok(Reply::from(json!({ "targets": targets, "drained": drained })))
}

async fn reset(mut call: Call) -> Result<Reply, Error> {
    let reset = call.shared.targets.reset(call.text("config"), call.text("index"));
    log::info!(target: "turnpike", "{reset} circuit breakers were reset on the control port");
    call.record_change().await;
    Ok(Reply::from(json!({ "reset": reset })))
}

fn drained_json(view: &DrainedView, now: Instant, clock: Timestamp) -> Value {
    let since = clock - now.saturating_duration_since(view.drained.since);
    // `until` is in the past while it warms up.
    let at = |moment: Instant| match now.checked_duration_since(moment) {
        Some(ago) => clock - ago,
        None => clock + moment.saturating_duration_since(now),
    };
    let until = view.drained.until.map(at);
    let warms_for = view.drained.warms_for;
    let warm_until = until.filter(|_| !warms_for.is_zero()).map(|until| until + warms_for);
    json!({
        "slug": view.slug,
        "provider_id": Some(view.record).filter(|record| !record.is_nil()),
        "since": format!("{since:.3}"),
        "until": until.map(|until| format!("{until:.3}")),
        "warm_until": warm_until.map(|until| format!("{until:.3}")),
        "share": (view.drained.share(now) * 1000.0).round() / 1000.0,
    })
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
    use memory::state::targets::{BreakerSignal, TargetId, TargetRegistry};
    use words::config::policies::BreakerPolicy;

    #[test]
    fn a_target_is_shown_with_all_fields() {
        let targets = TargetRegistry::default();
        let now = Instant::now();
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
