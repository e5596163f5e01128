//! Random sequences of moves against a slow but obvious model of the breaker: it keeps the whole history and derives
//! the state from the rules each time.

use super::{COOLDOWN, identity, policy};
use crate::state::targets::{BreakerSignal, CircuitStatus, Permit, TargetRegistry};
use proptest::prelude::{Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
enum Move {
    Wait(u64),
    Enter,
    /// Picks one of the attempts in flight and ends it with this signal.
    End(prop::sample::Index, BreakerSignal),
    Drop(prop::sample::Index),
    Reset,
}

/// One event of the history. Attempts are identified by their number.
#[derive(Debug, Clone, Copy)]
enum Event {
    Started(usize),
    Ended(usize, BreakerSignal),
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ModelState {
    Closed,
    HalfOpen,
    Open,
}

#[derive(Default)]
struct Model {
    threshold: usize,
    /// Events in order, each with its time in seconds.
    history: Vec<(u64, Event)>,
}

/// The state derived from the history so far.
#[derive(Default)]
struct Reading {
    /// Times of the failures since it last closed.
    failures: Vec<u64>,
    /// When it opened; `None` while closed.
    opened: Option<u64>,
    /// Attempts that started since it last opened.
    since_open: Vec<usize>,
    /// Probes since it last opened: when they started and the signal of those that ended.
    probes: BTreeMap<usize, (u64, Option<BreakerSignal>)>,
}

impl Reading {
    fn circuit(&self, now: u64) -> ModelState {
        let Some(opened) = self.opened else { return ModelState::Closed };
        let cooldown = COOLDOWN.as_secs();
        if self.probes.is_empty() {
            return if now - opened < cooldown { ModelState::Open } else { ModelState::HalfOpen };
        }
        let succeeded = self.probes.values().filter(|(_, end)| *end == Some(BreakerSignal::Success)).count();
        let in_flight = self.probes.values().filter(|(_, end)| end.is_none()).count();
        let last = self.probes.values().map(|(started, _)| *started).max().unwrap();
        let max_probes = [1, 2, 4, 8, 8][succeeded];
        if in_flight < max_probes || now - last >= cooldown { ModelState::HalfOpen } else { ModelState::Open }
    }

    fn open(&mut self, now: u64) {
        *self = Self { opened: Some(now), ..Self::default() };
    }

    fn apply(&mut self, threshold: usize, now: u64, event: Event) {
        match event {
            Event::Reset => *self = Self::default(),
            Event::Started(permit) => {
                if self.circuit(now) == ModelState::HalfOpen {
                    self.probes.insert(permit, (now, None));
                }
                self.since_open.push(permit);
            }
            Event::Ended(permit, _) if !self.since_open.contains(&permit) => {}
            Event::Ended(permit, signal) if self.opened.is_some() => {
                let Some(probe) = self.probes.get_mut(&permit) else { return };
                probe.1 = Some(signal);
                let succeeded =
                    self.probes.values().filter(|(_, end)| *end == Some(BreakerSignal::Success)).count();
                if signal == BreakerSignal::Failure {
                    self.open(now);
                } else if succeeded == 5 {
                    // Attempts in flight still count: they started after it opened.
                    *self = Self { since_open: std::mem::take(&mut self.since_open), ..Self::default() };
                }
            }
            Event::Ended(_, BreakerSignal::Failure) => {
                if self.failures.first().is_some_and(|first| now - first > COOLDOWN.as_secs()) {
                    self.failures.clear();
                }
                self.failures.push(now);
                if self.failures.len() >= threshold {
                    self.open(now);
                }
            }
            Event::Ended(..) => {}
        }
    }
}

impl Model {
    fn circuit(&self, now: u64) -> ModelState {
        let mut reading = Reading::default();
        for (at, event) in &self.history {
            reading.apply(self.threshold, *at, *event);
        }
        reading.circuit(now)
    }
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let signal = prop_oneof![
        4 => prop::strategy::Just(BreakerSignal::Success),
        3 => prop::strategy::Just(BreakerSignal::Failure),
        1 => prop::strategy::Just(BreakerSignal::Ignored),
    ];
    let one = prop_oneof![
        2 => prop_oneof![0..4_u64, 0..31_u64, 29..32_u64].prop_map(Move::Wait),
        8 => prop::strategy::Just(Move::Enter),
        8 => (any::<prop::sample::Index>(), signal).prop_map(|(picked, signal)| Move::End(picked, signal)),
        1 => any::<prop::sample::Index>().prop_map(Move::Drop),
    ];
    let one = prop_oneof![200 => one, 1 => prop::strategy::Just(Move::Reset)];
    prop::collection::vec(one, 1..160)
}

proptest! {
    #[test]
    fn the_breaker_agrees_with_the_model(threshold in 1..5_u32, moves in moves()) {
        let targets = TargetRegistry::default();
        let target = targets.find_or_insert(&identity("c", "config", 0), Some(&policy(threshold)));
        let mut model = Model { threshold: threshold as usize, ..Model::default() };
        let start = Instant::now();
        let mut now = 0;
        let mut next_number = 0;
        let mut in_flight: Vec<(usize, Permit)> = Vec::new();
        for step in moves {
            let at = start + Duration::from_secs(now);
            match step {
                Move::Wait(seconds) => now += seconds,
                Move::Enter => {
                    in_flight.push((next_number, target.enter(at)));
                    model.history.push((now, Event::Started(next_number)));
                    next_number += 1;
                }
                Move::End(picked, signal) if !in_flight.is_empty() => {
                    let (number, permit) = in_flight.remove(picked.index(in_flight.len()));
                    permit.finish(signal, at);
                    model.history.push((now, Event::Ended(number, signal)));
                }
                Move::Drop(picked) if !in_flight.is_empty() => {
                    let (number, permit) = in_flight.remove(picked.index(in_flight.len()));
                    drop(permit);
                    model.history.push((now, Event::Ended(number, BreakerSignal::Ignored)));
                }
                Move::Reset => {
                    targets.reset(None, None);
                    model.history.push((now, Event::Reset));
                }
                Move::End(..) | Move::Drop(_) => {}
            }
            let circuit = match target.circuit(start + Duration::from_secs(now)) {
                CircuitStatus::Closed => ModelState::Closed,
                CircuitStatus::HalfOpen => ModelState::HalfOpen,
                CircuitStatus::Open { .. } => ModelState::Open,
            };
            prop_assert_eq!(circuit, model.circuit(now), "{:?}", model.history);
            prop_assert_eq!(target.in_flight() as usize, in_flight.len());
        }
    }
}
