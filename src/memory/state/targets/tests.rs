//! Breakers in scenarios and against a model, and the registry as a whole.
//!
//! The latency average is tested in its own file.

mod model;
mod scenarios;

use super::{BreakerSignal, CircuitState, MAX_TARGETS, TargetId, TargetRegistry};
use prometheus::{IntCounterVec, Opts};
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::config::policies::BreakerPolicy;

const COOLDOWN: Duration = Duration::from_secs(30);

fn policy(threshold: u32) -> BreakerPolicy {
    BreakerPolicy { threshold, cooldown: COOLDOWN, statuses: None }
}

fn identity(config: &str, index: &str, hash: u64) -> TargetId {
    let config = config.to_owned();
    let index = index.to_owned();
    TargetId { config, index, provider: "openai", slug: None, model: None, hash }
}

#[test]
fn which_statuses_are_failures() {
    let policy =
        |statuses: Option<&[u16]>| BreakerPolicy { statuses: statuses.map(<[_]>::to_vec), ..policy(1) };
    for (statuses, status, wanted) in [
        (None, 200, false),
        (None, 429, false),
        (None, 500, false),
        (None, 501, true),
        (None, 503, true),
        (Some(&[429, 500][..]), 429, true),
        (Some(&[429, 500]), 500, true),
        (Some(&[429, 500]), 503, false),
        (Some(&[]), 503, false),
    ] {
        assert_eq!(policy(statuses).is_failure(status), wanted, "{statuses:?} {status}");
    }
}

#[test]
fn the_same_identity_is_the_same_target() {
    let targets = TargetRegistry::default();
    let first = targets.find_or_insert(&identity("c", "config", 1), Some(&policy(1)));
    for (config, index, hash, same) in [
        ("c", "config", 1, true),
        ("c", "config", 2, false),
        ("c", "config.targets[0]", 1, false),
        ("d", "config", 1, false),
    ] {
        let found = targets.find_or_insert(&identity(config, index, hash), Some(&policy(1)));
        assert_eq!(Arc::ptr_eq(&first, &found), same, "{config} {index} {hash}");
    }
}

#[test]
fn permits_in_flight_are_counted_with_and_without_a_breaker() {
    let targets = TargetRegistry::default();
    let now = Instant::now();
    for policy in [None, Some(&policy(1))] {
        let target = targets.find_or_insert(&identity("c", "config", policy.map_or(0, |_| 1)), policy);
        let one = target.enter(now);
        let two = target.enter(now);
        let three = target.enter(now);
        assert_eq!(target.in_flight(), 3);
        one.finish(BreakerSignal::Success, now);
        two.finish(BreakerSignal::Ignored, now);
        drop(three);
        assert_eq!(target.in_flight(), 0);
    }
}

#[test]
fn targets_are_listed_and_reset() {
    let now = Instant::now();
    let counter = IntCounterVec::new(Opts::new("transitions", "transitions"), &["provider", "to"]).unwrap();
    let targets = TargetRegistry::with_counter(counter.clone());
    let held: Vec<_> = [("b", "config.targets[0]"), ("a", "config.targets[1]"), ("a", "config.targets[0]")]
        .map(|(config, index)| targets.find_or_insert(&identity(config, index, 0), Some(&policy(2))))
        .into();
    let plain = targets.find_or_insert(&identity("c", "config", 0), None);
    plain.first_token(Duration::from_millis(250), now);
    for target in held.iter().chain([&plain]) {
        target.enter(now).finish(BreakerSignal::Failure, now);
        target.enter(now).finish(BreakerSignal::Failure, now);
    }
    let running = held[0].enter(now);
    let later = now + Duration::from_secs(10);
    let rows = |at| -> Vec<_> {
        let row_of = |view: super::TargetView| {
            let wait = view.next_probe_in.map(|wait| wait.as_secs());
            (view.id.config, view.id.index, view.circuit, view.failures, wait, view.in_flight)
        };
        targets.list(at).into_iter().map(row_of).collect()
    };
    let row = |config: &str, index: &str, circuit, failures, wait, in_flight| {
        (config.to_owned(), index.to_owned(), circuit, failures, wait, in_flight)
    };
    let open = Some(CircuitState::Open);
    let wanted = [
        row("a", "config.targets[0]", open, 2, Some(20), 0),
        row("a", "config.targets[1]", open, 2, Some(20), 0),
        row("b", "config.targets[0]", open, 2, Some(20), 1),
        row("c", "config", None, 0, None, 0),
    ];
    assert_eq!(rows(later), wanted);
    assert_eq!(targets.list(later)[3].latency, Some(Duration::from_millis(250)));
    assert_eq!(rows(now + COOLDOWN)[0].2, Some(CircuitState::HalfOpen));
    for (config, index, wanted) in [
        (Some("unknown"), None, 0),
        (Some("a"), Some("config.targets[0]"), 1),
        (Some("a"), None, 1),
        (None, Some("config.targets[0]"), 1),
        (None, None, 0),
    ] {
        assert_eq!(targets.reset(config, index), wanted, "{config:?} {index:?}");
    }
    // The attempt started before the reset, so its failure is ignored.
    running.finish(BreakerSignal::Failure, later);
    assert!(rows(later).iter().all(|row| row.2 != open && row.3 == 0), "{:?}", rows(later));
    let counted = |to| counter.with_label_values(&["openai", to]).get();
    assert_eq!((counted("open"), counted("half_open"), counted("closed")), (3, 0, 3));
}

#[test]
fn unreferenced_targets_are_forgotten_after_an_hour() {
    let targets = TargetRegistry::default();
    let now = Instant::now();
    let held = targets.find_or_insert(&identity("held", "config", 0), None);
    targets
        .find_or_insert(&identity("used", "config", 0), None)
        .enter(now)
        .finish(BreakerSignal::Success, now);
    targets.find_or_insert(&identity("unused", "config", 0), None);
    let listed = |at| -> Vec<_> { targets.list(at).into_iter().map(|view| view.id.config).collect() };
    assert_eq!(listed(now), ["held", "used"]);
    assert_eq!(listed(now + Duration::from_secs(3600)), ["held", "used"]);
    assert_eq!(listed(now + Duration::from_secs(3601)), ["held"]);
    drop(held);
}

#[test]
fn the_registry_is_bounded_and_evicts_idle_targets_first() {
    let targets = TargetRegistry::default();
    let now = Instant::now();
    let saved = |name: &str| targets.find_or_insert(&identity(name, "config", 0), Some(&policy(1)));
    let busy = saved("busy").enter(now);
    saved("open").enter(now).finish(BreakerSignal::Failure, now);
    saved("saved").enter(now).finish(BreakerSignal::Success, now);
    let mut held = Vec::new();
    for number in 0..3 * MAX_TARGETS as u64 {
        let target = targets.find_or_insert(&identity("inline-0badcafe", "config", number), None);
        target.enter(now).finish(BreakerSignal::Success, now);
        if number % 100 == 0 {
            held.push(target);
        }
        assert!(targets.entries.lock().len() <= MAX_TARGETS);
    }
    let listed: Vec<_> = targets.list(now).into_iter().map(|view| view.id).collect();
    let is_listed = |target: &TargetId| listed.contains(target);
    for name in ["busy", "open", "saved"] {
        assert!(is_listed(&identity(name, "config", 0)), "{name}");
    }
    assert!(held.iter().all(|target| is_listed(target.id())), "targets that are held stay longer");
    drop(busy);
}
