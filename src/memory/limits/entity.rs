//! What is counted for one limit and one combination of values: the bucket of the present window.
//!
//! Pure: the time is an argument. Several entities of one request are locked together (`buckets`).

use super::limit::{Limit, LimitKind, RateOf, RateUnit, Reset};
use super::tightest::Remaining;
use super::window::{Calendar, NEVER, Window};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// The counter of a limit for one combination of values, window after window. The journal and the control API name it by `id`.
#[derive(Debug)]
pub(super) struct Entity {
    pub id: u128,
    pub limit: (Uuid, u8),
    pub value_key: Arc<str>,
    pub state: Mutex<State>,
}

/// The bucket of the present window.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub window: Window,
    /// `None`: restored from the journal, and not used since.
    rule: Option<Rule>,
    /// Counts the windows, so that what was reserved in one is not settled in another.
    pub epoch: u32,
    /// The newest generation of the limit with which the bucket was used.
    limit_generation: u32,
    /// Manual resets of this entity.
    resets: u32,
    pub spent: i64,
    pub held: i64,
    /// Held by other processes with the same journal.
    pub foreign_held: i64,
    /// Requests under way that hold less than their estimate, because there was not more.
    pub clamped: u32,
    /// What the window before used, of limits that are smooth.
    previous: i64,
    /// How much of `spent` the journal has.
    pub journalled: i64,
    /// Of `spent`: holds of a process that ended before it settled them.
    pub unreconciled: i64,
    /// Whether it waits for the journal.
    pub is_dirty: bool,
    /// The highest threshold and limit that were reported as reached in this window; 0: none.
    pub threshold_sent: i64,
    pub exhausted_sent: i64,
}

/// How much later than it read its clock a request may come here, in milliseconds. Of shorter windows, their length: a clock that is set
/// back stops nothing for longer.
const MAX_LATE: i64 = 60_000;

/// What windows are computed from: when it changes, usage is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Rate(RateUnit),
    Usage(Reset),
}

impl Rule {
    fn of(kind: &LimitKind) -> Self {
        match *kind {
            LimitKind::Rate { unit, .. } => Self::Rate(unit),
            LimitKind::Usage { reset, .. } => Self::Usage(reset),
        }
    }
}

/// Usage that was counted in a window, or before a reset, that is no longer the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Past {
    pub window: Window,
    pub generation: u64,
    /// To be added to what the journal has.
    pub delta: i64,
}

/// What a reservation holds of one entity.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hold {
    pub amount: i64,
    /// Less than the estimate.
    pub is_clamped: bool,
    pub epoch: u32,
    pub generation: u64,
    pub window: Window,
}

impl State {
    pub(super) fn new(limit: &Limit, calendar: &Calendar, now: i64) -> Self {
        Self {
            rule: Some(Rule::of(&limit.kind)),
            limit_generation: limit.generation,
            ..Self::restored(calendar.window(&limit.kind, now), 0)
        }
    }

    /// The bucket of a window and generation in which nothing is used.
    pub(super) fn restored(window: Window, generation: u64) -> Self {
        Self {
            window,
            rule: None,
            epoch: 0,
            limit_generation: u32::try_from(generation >> 32).unwrap_or(u32::MAX),
            resets: u32::try_from(generation & u64::from(u32::MAX)).unwrap_or(u32::MAX),
            spent: 0,
            held: 0,
            foreign_held: 0,
            clamped: 0,
            previous: 0,
            journalled: 0,
            unreconciled: 0,
            is_dirty: false,
            threshold_sent: 0,
            exhausted_sent: 0,
        }
    }

    /// As a store of shared counters reports it.
    pub(super) fn reported(window: Window, spent: i64, held: i64, previous: i64) -> Self {
        Self { spent, held, previous, ..Self::restored(window, 0) }
    }

    /// Resets of the limit and of the entity, as one number that only grows.
    pub(super) fn generation(&self) -> u64 {
        u64::from(self.limit_generation) << 32 | u64::from(self.resets)
    }

    /// Whether this time belongs to the present window: it is in it, or a little before it, because another request
    /// read its clock later and came here first. Going back to the window before would lose the counts of both.
    fn is_present(&self, now: i64) -> bool {
        let late = self.window.end.saturating_sub(self.window.start).min(MAX_LATE);
        now < self.window.end && now >= self.window.start.saturating_sub(late)
    }

    /// Takes up the window of `now`, and the rules of the limit as they are now. What the journal lacks of the window before is
    /// returned.
    pub(super) fn bring_up_to(&mut self, limit: &Limit, calendar: &Calendar, now: i64) -> Option<Past> {
        let rule = Rule::of(&limit.kind);
        let is_same_rule =
            self.rule.map_or_else(|| self.is_window_of(limit, calendar), |before| before == rule);
        let is_same = is_same_rule && self.is_present(now);
        // A request keeps the limits that it was admitted with: those of before a reset must not undo it.
        let is_reset = limit.generation > self.limit_generation;
        if is_same && !is_reset {
            self.rule = Some(rule);
            return None;
        }
        let mut past = self.past();
        if is_reset {
            self.forget_spent();
            self.limit_generation = limit.generation;
        }
        if !is_same {
            let window = calendar.window(&limit.kind, now);
            if is_same_rule || now >= self.window.end {
                self.begin(window);
            } else {
                // The period or the unit of the limit was changed: its usage stays, and moves to another row of the
                // journal. The old row has ended.
                let over = Window { start: self.window.start, end: self.window.start };
                past = Some(Past { window: over, generation: self.generation(), delta: -self.journalled });
                self.journalled = 0;
            }
            self.window = window;
        }
        self.rule = Some(rule);
        past
    }

    /// Whether the window, as the journal has it, may be one of this limit.
    fn is_window_of(&self, limit: &Limit, calendar: &Calendar) -> bool {
        match limit.idle_reset() {
            Some(_) => self.window.end != NEVER,
            None => calendar.window(&limit.kind, self.window.start) == self.window,
        }
    }

    /// Notes that a request came, also one that is refused: a bucket that begins anew when it is idle does so later. True: it does.
    pub(super) fn touch(&mut self, limit: &Limit, now: i64) -> bool {
        let Some(idle) = limit.idle_reset() else { return false };
        self.window.end = self.window.end.max(now.saturating_add(idle));
        true
    }

    /// Whether an alert was sent for this threshold or a higher one. After a threshold was raised, none was; a request
    /// that was admitted before still compares with its own, lower one.
    pub(super) fn is_threshold_sent(&self, limit: &Limit) -> bool {
        // An alert at 0 is sent at the first use.
        limit.alert_at().is_some_and(|at| self.threshold_sent >= at.max(1))
    }

    /// Whether the alert for the limit itself was sent, by the same rule.
    pub(super) fn is_exhausted_sent(&self, limit: &Limit) -> bool {
        self.exhausted_sent >= limit.value().max(1)
    }

    fn begin(&mut self, window: Window) {
        let is_next = window.start == self.window.end;
        self.previous = if is_next { self.spent.saturating_add(self.held) } else { 0 };
        self.epoch = self.epoch.wrapping_add(1);
        self.held = 0;
        self.foreign_held = 0;
        self.clamped = 0;
        self.forget_spent();
    }

    fn forget_spent(&mut self) {
        self.spent = 0;
        self.journalled = 0;
        self.unreconciled = 0;
        self.threshold_sent = 0;
        self.exhausted_sent = 0;
    }

    /// What the journal lacks, before `spent` is forgotten.
    fn past(&self) -> Option<Past> {
        let delta = self.spent.saturating_sub(self.journalled);
        (delta != 0).then(|| Past { window: self.window, generation: self.generation(), delta })
    }

    /// Sets `spent` to nothing. What is held stays held, and what is settled of it counts for the generation before.
    pub(super) fn reset(&mut self) -> Option<Past> {
        let past = self.past();
        self.forget_spent();
        self.resets = self.resets.wrapping_add(1);
        past
    }

    /// Held by this process and others.
    pub(super) fn all_held(&self) -> i64 {
        self.held.saturating_add(self.foreign_held)
    }

    /// Settled and held, and what a smooth limit counts of the window before.
    pub(super) fn used(&self, limit: &Limit, now: i64) -> i64 {
        let present = self.spent.saturating_add(self.all_held());
        if !limit.smooth || self.previous == 0 {
            return present;
        }
        let length = self.window.end.saturating_sub(self.window.start).max(1);
        let left = self.window.end.saturating_sub(now).clamp(0, length);
        let of_previous = i128::from(self.previous) * i128::from(left) / i128::from(length);
        present.saturating_add(i64::try_from(of_previous).unwrap_or(i64::MAX))
    }

    /// How long until `amount` fits, if nothing else comes: within the window or, of a smooth limit, the one after.
    pub(super) fn fits_in(&self, limit: &Limit, amount: i64, now: i64) -> Duration {
        let end = self.window.end.saturating_sub(now);
        let wait = if limit.smooth { self.smooth_wait(limit, amount, now) } else { end };
        Duration::from_millis(u64::try_from(wait.max(0)).unwrap_or(0))
    }

    fn smooth_wait(&self, limit: &Limit, amount: i64, now: i64) -> i64 {
        let length = self.window.end.saturating_sub(self.window.start).max(1);
        let room = limit.value().saturating_sub(amount);
        let present = self.spent.saturating_add(self.all_held());
        // The part of a window that must have passed before `old` counts for no more than `room`.
        let passed = |old: i64, room: i64| {
            let kept = i128::from(length) * i128::from(room.max(0)) / i128::from(old.max(1));
            length.saturating_sub(i64::try_from(kept).unwrap_or(length)).max(0)
        };
        if present <= room {
            let at = self.window.start.saturating_add(passed(self.previous, room.saturating_sub(present)));
            return at.saturating_sub(now);
        }
        let at = self.window.end.saturating_add(passed(present, room));
        at.saturating_sub(now)
    }

    /// What is left, for the headers of rate limits.
    pub(super) fn remaining(&self, limit: &Limit, now: i64) -> Option<(RateOf, Remaining)> {
        Remaining::of(limit, limit.value().saturating_sub(self.used(limit, now)), self.window, now)
    }

    pub(super) fn take(&mut self, amount: i64, is_clamped: bool) -> Hold {
        self.held = self.held.saturating_add(amount);
        self.clamped = self.clamped.saturating_add(u32::from(is_clamped));
        Hold { amount, is_clamped, epoch: self.epoch, generation: self.generation(), window: self.window }
    }

    /// Ends a hold; `actual` was used. What belongs to a window or generation that is over is returned.
    pub(super) fn settle(&mut self, hold: &Hold, actual: i64) -> Option<Past> {
        if hold.epoch == self.epoch {
            self.held = self.held.saturating_sub(hold.amount);
            self.clamped = self.clamped.saturating_sub(u32::from(hold.is_clamped));
            if hold.generation == self.generation() {
                self.spent = self.spent.saturating_add(actual);
                return None;
            }
        }
        (actual != 0).then_some(Past { window: hold.window, generation: hold.generation, delta: actual })
    }

    /// Whether it may be removed without losing a count.
    pub(super) fn is_over(&self, now: i64) -> bool {
        now >= self.window.end && self.held == 0 && !self.is_dirty
    }
}
