//! A breaker's life as stories: a line of moves, and what stands after them.

use super::{COOLDOWN, identity, policy};
use crate::state::targets::{BreakerSignal, CircuitStatus, Permit, TargetRegistry};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Plays a story against a breaker of three failures and thirty seconds. Moves, apart by blanks:
/// `+7` seconds pass; `(` a visit begins; `w`, `b`, `n` the oldest visit ends well, badly, neither; `W`, `B`,
/// `N` the newest; `~` the oldest is dropped. `=c`, `=h`, `=o`: closed, half-open, open is what now stands.
fn run(scenario: &str) {
    assert_eq!(COOLDOWN, Duration::from_secs(30));
    let target = TargetRegistry::default().find_or_insert(&identity("c", "config", 0), Some(&policy(3)));
    let mut now = Instant::now();
    let mut permits: VecDeque<Permit> = VecDeque::new();
    for (at, step) in scenario.split_whitespace().enumerate() {
        let end = |permit: Option<Permit>| match step.to_lowercase().as_str() {
            "w" => permit.unwrap().finish(BreakerSignal::Success, now),
            "b" => permit.unwrap().finish(BreakerSignal::Failure, now),
            "n" => permit.unwrap().finish(BreakerSignal::Ignored, now),
            _ => drop(permit.unwrap()),
        };
        match step.split_at(1) {
            ("(", _) => permits.push_back(target.enter(now)),
            ("+", seconds) => now += Duration::from_secs(seconds.parse().unwrap()),
            ("=", wanted) => {
                let circuit = match target.circuit(now) {
                    CircuitStatus::Closed => "c",
                    CircuitStatus::HalfOpen => "h",
                    CircuitStatus::Open { .. } => "o",
                };
                assert_eq!(circuit, wanted, "{scenario:?}, step {at}");
            }
            ("W" | "B" | "N", _) => end(permits.pop_back()),
            _ => end(permits.pop_front()),
        }
    }
}

#[test]
fn closed() {
    run("=c ( =c b =c ( b =c ( b =o");
    // A success in between clears nothing.
    run("( b ( w ( b ( w =c ( b =o");
    // What says nothing counts nothing.
    run("( n ( n ( n ( ~ ( ~ ( ~ =c");
    // Failures add up for one cooldown from the first; then a new window begins.
    run("( b +15 ( b +15 ( b =o");
    run("( b +15 ( b +16 ( b =c ( b =c ( b =o");
    // It counts when a visit fails, not when it began.
    run("( ( ( b b +31 b =c ( b =c ( b =o");
}

#[test]
fn open() {
    run("( b ( b ( b =o +29 =o +1 =h");
    // Who comes all the same is no probe: neither success nor failure says a thing.
    run("( b ( b ( b +10 ( w =o ( b =o +20 =h");
    // Those who began before it opened have nothing to say about it.
    run("( ( ( ( ( b b b =o +10 b =o w =o +20 =h");
}

#[test]
fn half_open() {
    const OPENED: &str = "( b ( b ( b +30 =h ";
    for rest in [
        // One probe at a time, and five that succeed.
        "( =o w =h ( w ( w ( w =h ( w =c",
        // After each success twice as many at once: 1, 2, 4, 8, 8.
        "( =o w ( =h ( =o w =h ( ( =h ( =o w ( =h ( ( ( =h ( =o w =h ( =o w =c",
        // A probe that says nothing leaves its place to another.
        "( =o n =h ( =o ~ =h ( =o",
        // One that fails opens it for a full cooldown, whatever succeeded before.
        "( w ( w ( w ( w =h ( b =o +29 =o +1 =h ( =o w =h ( =h ( =o",
        // Beside the probes there are those who were let through for want of anything better.
        "( ( =o B =o ( W =o ( N =o w =h",
        // What began before the opening, or before the last one, does not speak for it.
        "( =o w ( ( =o b =o +30 =h b =h ( =o w =h",
        // A probe that takes longer than a cooldown does not hold up the next; a second one does.
        "( =o +29 =o +1 =h ( =o +29 =o +1 =h w =h",
    ] {
        run(&format!("{OPENED}{rest}"));
    }
    // A failure from before the opening, told in half-open.
    run("( ( ( ( b b b +30 =h b =h ( =o w =h");
}

#[test]
fn closed_again() {
    const CLOSED: &str = "( b ( b ( b +30 ( w ( w ( w ( w ( w =c ";
    // It starts with a clean record.
    run(&format!("{CLOSED} ( b ( b =c ( b =o"));
    // A probe that outlived the half-open time counts as anybody does.
    run("( b ( b ( b +30 ( w ( ( w ( w ( w ( w =c b =c ( b =c ( b =o");
}
