//! Breakers by stories and against a model, and what holds for all targets together.
//!
//! Latency by itself is tested where it is worked out.

mod model;
mod stories;

use super::{Ended, Identity, MOST, Phase, Rules, Targets};
use prometheus::{IntCounterVec, Opts};
use std::sync::Arc;
use std::time::{Duration, Instant};

const COOLDOWN: Duration = Duration::from_secs(30);

fn rules(threshold: u32) -> Rules {
    Rules { threshold, cooldown: COOLDOWN, statuses: None }
}

fn identity(config: &str, index: &str, hash: u64) -> Identity {
    let (config, index) = (config.to_owned(), index.to_owned());
    Identity { config, index, provider: "openai", slug: None, model: None, hash }
}

#[test]
fn what_a_status_is_blamed_for() {
    let rules = |statuses: Option<&[u16]>| Rules { statuses: statuses.map(<[_]>::to_vec), ..rules(1) };
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
        assert_eq!(rules(statuses).blames(status), wanted, "{statuses:?} {status}");
    }
}

#[test]
fn the_same_identity_is_the_same_target() {
    let targets = Targets::default();
    let first = targets.find(&identity("c", "config", 1), Some(&rules(1)));
    for (config, index, hash, same) in [
        ("c", "config", 1, true),
        ("c", "config", 2, false),
        ("c", "config.targets[0]", 1, false),
        ("d", "config", 1, false),
    ] {
        let found = targets.find(&identity(config, index, hash), Some(&rules(1)));
        assert_eq!(Arc::ptr_eq(&first, &found), same, "{config} {index} {hash}");
    }
}

#[test]
fn visits_under_way_are_counted_with_and_without_a_breaker() {
    let (targets, now) = (Targets::default(), Instant::now());
    for rules in [None, Some(&rules(1))] {
        let target = targets.find(&identity("c", "config", rules.map_or(0, |_| 1)), rules);
        let (one, two, three) = (target.enter(now), target.enter(now), target.enter(now));
        assert_eq!(target.in_flight(), 3);
        one.ended(Ended::Well, now);
        two.ended(Ended::Neither, now);
        drop(three);
        assert_eq!(target.in_flight(), 0);
    }
}

#[test]
fn what_is_listed_and_what_is_reset() {
    let now = Instant::now();
    let counter = IntCounterVec::new(Opts::new("turns", "turns"), &["provider", "to"]).unwrap();
    let targets = Targets::counted(counter.clone());
    let held: Vec<_> = [("b", "config.targets[0]"), ("a", "config.targets[1]"), ("a", "config.targets[0]")]
        .map(|(config, index)| targets.find(&identity(config, index, 0), Some(&rules(2))))
        .into();
    let plain = targets.find(&identity("c", "config", 0), None);
    plain.first_token(Duration::from_millis(250), now);
    for target in held.iter().chain([&plain]) {
        target.enter(now).ended(Ended::Badly, now);
        target.enter(now).ended(Ended::Badly, now);
    }
    let running = held[0].enter(now);
    let later = now + Duration::from_secs(10);
    let told = |at| -> Vec<_> {
        let tell = |shown: super::Shown| {
            let wait = shown.next_try.map(|wait| wait.as_secs());
            (shown.identity.config, shown.identity.index, shown.phase, shown.failures, wait, shown.in_flight)
        };
        targets.list(at).into_iter().map(tell).collect()
    };
    let row = |config: &str, index: &str, phase, failures, wait, in_flight| {
        (config.to_owned(), index.to_owned(), phase, failures, wait, in_flight)
    };
    let open = Some(Phase::Open);
    let wanted = [
        row("a", "config.targets[0]", open, 2, Some(20), 0),
        row("a", "config.targets[1]", open, 2, Some(20), 0),
        row("b", "config.targets[0]", open, 2, Some(20), 1),
        row("c", "config", None, 0, None, 0),
    ];
    assert_eq!(told(later), wanted);
    assert_eq!(targets.list(later)[3].latency, Some(Duration::from_millis(250)));
    assert_eq!(told(now + COOLDOWN)[0].2, Some(Phase::HalfOpen));
    for (config, index, wanted) in [
        (Some("nobody"), None, 0),
        (Some("a"), Some("config.targets[0]"), 1),
        (Some("a"), None, 1),
        (None, Some("config.targets[0]"), 1),
        (None, None, 0),
    ] {
        assert_eq!(targets.reset(config, index), wanted, "{config:?} {index:?}");
    }
    // It began before the reset: no news.
    running.ended(Ended::Badly, later);
    assert!(told(later).iter().all(|row| row.2 != open && row.3 == 0), "{:?}", told(later));
    let counted = |to| counter.with_label_values(&["openai", to]).get();
    assert_eq!((counted("open"), counted("half_open"), counted("closed")), (3, 0, 3));
}

#[test]
fn targets_that_nobody_holds_are_forgotten_after_an_hour() {
    let (targets, now) = (Targets::default(), Instant::now());
    let held = targets.find(&identity("held", "config", 0), None);
    targets.find(&identity("used", "config", 0), None).enter(now).ended(Ended::Well, now);
    targets.find(&identity("unused", "config", 0), None);
    let listed = |at| -> Vec<_> { targets.list(at).into_iter().map(|shown| shown.identity.config).collect() };
    assert_eq!(listed(now), ["held", "used"]);
    assert_eq!(listed(now + Duration::from_secs(3600)), ["held", "used"]);
    assert_eq!(listed(now + Duration::from_secs(3601)), ["held"]);
    drop(held);
}

#[test]
fn there_is_a_bound_and_the_idle_go_first() {
    let (targets, now) = (Targets::default(), Instant::now());
    let saved = |name: &str| targets.find(&identity(name, "config", 0), Some(&rules(1)));
    let busy = saved("busy").enter(now);
    saved("open").enter(now).ended(Ended::Badly, now);
    saved("saved").enter(now).ended(Ended::Well, now);
    let mut held = Vec::new();
    for number in 0..3 * MOST as u64 {
        let target = targets.find(&identity("inline-0badcafe", "config", number), None);
        target.enter(now).ended(Ended::Well, now);
        if number % 100 == 0 {
            held.push(target);
        }
        assert!(targets.known.lock().len() <= MOST);
    }
    let known: Vec<_> = targets.list(now).into_iter().map(|shown| shown.identity).collect();
    let is_known = |target: &Identity| known.contains(target);
    for name in ["busy", "open", "saved"] {
        assert!(is_known(&identity(name, "config", 0)), "{name}");
    }
    assert!(held.iter().all(|target| is_known(target.identity())), "what a tree holds stays longer");
    drop(busy);
}
