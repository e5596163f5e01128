//! The breaker in scenarios: a line of moves with the expected states in between.

use super::{COOLDOWN, identity, policy};
use crate::state::targets::{BreakerSignal, CircuitStatus, Permit, TargetRegistry};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Runs a scenario against a breaker with a threshold of three failures and a cooldown of 30 s. Moves, separated by
/// spaces: `+7`: seven seconds pass; `(`: an attempt starts; `w`, `b`, `n`: the oldest attempt ends with success,
/// failure, ignored; `W`, `B`, `N`: the newest does; `~`: the oldest is dropped. `=c`, `=h`, `=o`: the breaker must
/// now be closed, half-open, open.
///
/// Example: `( b ( b ( b =o +30 =h` opens it with three failures; after 30 s it lets a probe through.
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
    // A success in between does not clear the failures.
    run("( b ( w ( b ( w =c ( b =o");
    // Ignored and dropped attempts are not counted.
    run("( n ( n ( n ( ~ ( ~ ( ~ =c");
    // Failures are counted for one cooldown from the first; then a new window starts.
    run("( b +15 ( b +15 ( b =o");
    run("( b +15 ( b +16 ( b =c ( b =c ( b =o");
    // The time of a failure is when the attempt ended, not when it started.
    run("( ( ( b b +31 b =c ( b =c ( b =o");
}

#[test]
fn open() {
    run("( b ( b ( b =o +29 =o +1 =h");
    // An attempt that starts although the breaker is open is not a probe: its outcome is ignored.
    run("( b ( b ( b +10 ( w =o ( b =o +20 =h");
    // The outcomes of attempts that started before it opened are ignored.
    run("( ( ( ( ( b b b =o +10 b =o w =o +20 =h");
}

#[test]
fn half_open() {
    const OPENED: &str = "( b ( b ( b +30 =h ";
    for rest in [
        // One probe at a time, five successes.
        "( =o w =h ( w ( w ( w =h ( w =c",
        // After each success twice as many concurrent probes: 1, 2, 4, 8, 8.
        "( =o w ( =h ( =o w =h ( ( =h ( =o w ( =h ( ( ( =h ( =o w =h ( =o w =c",
        // After an ignored or dropped probe another one may start.
        "( =o n =h ( =o ~ =h ( =o",
        // A failed probe opens it for a full cooldown, whatever succeeded before.
        "( w ( w ( w ( w =h ( b =o +29 =o +1 =h ( =o w =h ( =h ( =o",
        // Attempts that were let through in addition to the probes are ignored.
        "( ( =o B =o ( W =o ( N =o w =h",
        // Attempts that started before it last opened are ignored.
        "( =o w ( ( =o b =o +30 =h b =h ( =o w =h",
        // A slow probe blocks the next one for one cooldown only.
        "( =o +29 =o +1 =h ( =o +29 =o +1 =h w =h",
    ] {
        run(&format!("{OPENED}{rest}"));
    }
    // A failure of an attempt from before it opened, reported while half-open.
    run("( ( ( ( b b b +30 =h b =h ( =o w =h");
}

#[test]
fn closed_again() {
    const CLOSED: &str = "( b ( b ( b +30 ( w ( w ( w ( w ( w =c ";
    // Failures start from zero.
    run(&format!("{CLOSED} ( b ( b =c ( b =o"));
    // A probe that ends after the breaker closed counts like any other attempt.
    run("( b ( b ( b +30 ( w ( ( w ( w ( w ( w =c b =c ( b =c ( b =o");
}
