//! Any order of moves against a model of the breaker that is slow and obvious: it keeps everything that ever
//! happened and works out the state from the rules each time it is asked.

use super::{COOLDOWN, identity, rules};
use crate::state::targets::{Ended, Standing, Targets, Visit};
use proptest::prelude::{Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
enum Move {
    Wait(u64),
    Enter,
    /// Which of those under way, and how.
    End(prop::sample::Index, Ended),
    Drop(prop::sample::Index),
    Reset,
}

/// What happened, in order, each at its time in seconds. A visit is called by its number.
#[derive(Debug, Clone, Copy)]
enum Event {
    Began(usize),
    Ended(usize, Ended),
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stands {
    Closed,
    HalfOpen,
    Open,
}

#[derive(Default)]
struct Model {
    threshold: usize,
    history: Vec<(u64, Event)>,
}

/// One reading of the history.
#[derive(Default)]
struct Reading {
    /// Failures since it was last closed.
    failures: Vec<u64>,
    /// Since when it is not closed.
    opened: Option<u64>,
    /// Visits that began since it opened last.
    young: Vec<usize>,
    /// Probes since it opened last, when they began, and how those that ended did.
    probes: BTreeMap<usize, (u64, Option<Ended>)>,
}

impl Reading {
    fn stands(&self, now: u64) -> Stands {
        let Some(opened) = self.opened else { return Stands::Closed };
        let cooldown = COOLDOWN.as_secs();
        if self.probes.is_empty() {
            return if now - opened < cooldown { Stands::Open } else { Stands::HalfOpen };
        }
        let succeeded = self.probes.values().filter(|(_, end)| *end == Some(Ended::Well)).count();
        let out = self.probes.values().filter(|(_, end)| end.is_none()).count();
        let last = self.probes.values().map(|(began, _)| *began).max().unwrap();
        let most = [1, 2, 4, 8, 8][succeeded];
        if out < most || now - last >= cooldown { Stands::HalfOpen } else { Stands::Open }
    }

    fn opens(&mut self, now: u64) {
        *self = Self { opened: Some(now), ..Self::default() };
    }

    fn happens(&mut self, threshold: usize, now: u64, event: Event) {
        match event {
            Event::Reset => *self = Self::default(),
            Event::Began(visit) => {
                if self.stands(now) == Stands::HalfOpen {
                    self.probes.insert(visit, (now, None));
                }
                self.young.push(visit);
            }
            Event::Ended(visit, _) if !self.young.contains(&visit) => {}
            Event::Ended(visit, how) if self.opened.is_some() => {
                let Some(probe) = self.probes.get_mut(&visit) else { return };
                probe.1 = Some(how);
                let succeeded = self.probes.values().filter(|(_, end)| *end == Some(Ended::Well)).count();
                if how == Ended::Badly {
                    self.opens(now);
                } else if succeeded == 5 {
                    // Those under way stay: they began after it opened.
                    *self = Self { young: std::mem::take(&mut self.young), ..Self::default() };
                }
            }
            Event::Ended(_, Ended::Badly) => {
                if self.failures.first().is_some_and(|first| now - first > COOLDOWN.as_secs()) {
                    self.failures.clear();
                }
                self.failures.push(now);
                if self.failures.len() >= threshold {
                    self.opens(now);
                }
            }
            Event::Ended(..) => {}
        }
    }
}

impl Model {
    fn stands(&self, now: u64) -> Stands {
        let mut reading = Reading::default();
        for (at, event) in &self.history {
            reading.happens(self.threshold, *at, *event);
        }
        reading.stands(now)
    }
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let how = prop_oneof![
        4 => prop::strategy::Just(Ended::Well),
        3 => prop::strategy::Just(Ended::Badly),
        1 => prop::strategy::Just(Ended::Neither),
    ];
    let one = prop_oneof![
        2 => prop_oneof![0..4_u64, 0..31_u64, 29..32_u64].prop_map(Move::Wait),
        8 => prop::strategy::Just(Move::Enter),
        8 => (any::<prop::sample::Index>(), how).prop_map(|(which, how)| Move::End(which, how)),
        1 => any::<prop::sample::Index>().prop_map(Move::Drop),
    ];
    let one = prop_oneof![200 => one, 1 => prop::strategy::Just(Move::Reset)];
    prop::collection::vec(one, 1..160)
}

proptest! {
    #[test]
    fn a_breaker_does_what_the_rules_say(threshold in 1..5_u32, moves in moves()) {
        let targets = Targets::default();
        let target = targets.find(&identity("c", "config", 0), Some(&rules(threshold)));
        let mut model = Model { threshold: threshold as usize, ..Model::default() };
        let (start, mut now, mut begun) = (Instant::now(), 0, 0);
        let mut under_way: Vec<(usize, Visit)> = Vec::new();
        for step in moves {
            let at = start + Duration::from_secs(now);
            match step {
                Move::Wait(seconds) => now += seconds,
                Move::Enter => {
                    under_way.push((begun, target.enter(at)));
                    model.history.push((now, Event::Began(begun)));
                    begun += 1;
                }
                Move::End(which, how) if !under_way.is_empty() => {
                    let (number, visit) = under_way.remove(which.index(under_way.len()));
                    visit.ended(how, at);
                    model.history.push((now, Event::Ended(number, how)));
                }
                Move::Drop(which) if !under_way.is_empty() => {
                    let (number, visit) = under_way.remove(which.index(under_way.len()));
                    drop(visit);
                    model.history.push((now, Event::Ended(number, Ended::Neither)));
                }
                Move::Reset => {
                    targets.reset(None, None);
                    model.history.push((now, Event::Reset));
                }
                Move::End(..) | Move::Drop(_) => {}
            }
            let stands = match target.standing(start + Duration::from_secs(now)) {
                Standing::Closed => Stands::Closed,
                Standing::HalfOpen => Stands::HalfOpen,
                Standing::Open { .. } => Stands::Open,
            };
            prop_assert_eq!(stands, model.stands(now), "{:?}", model.history);
            prop_assert_eq!(target.in_flight() as usize, under_way.len());
        }
    }
}
