//! What a realtime session is set to, as far as its turns are held by it: the bound of their output, and whether the provider begins them.
//!
//! A client changes both at any time, and the provider says later which change it has made, one answer for each. Until then a turn may
//! be made by what was or by what was asked for, so that the higher of both counts: an answer to an earlier change ends no later one.

use std::collections::VecDeque;
use words::api::realtime::events::{MaxOutput, Update};

/// The most output of a response without a bound: the highest that `max_output_tokens` takes.
pub(super) const MODEL_OUTPUT: u64 = 4096;
/// The most changes without an answer that are told apart. Those before them count to the end of the session.
const MAX_PENDING: usize = 64;

/// A change that a client has asked for.
#[derive(Debug, Clone, Copy)]
struct PendingUpdate {
    max_output: Option<MaxOutput>,
    begins_turns: bool,
}

impl PendingUpdate {
    fn of(update: &Update) -> Self {
        Self { max_output: update.max_output, begins_turns: update.begins_turns == Some(true) }
    }
}

/// What a session is set to.
#[derive(Debug)]
pub(super) struct SessionBounds {
    max_output: u64,
    begins_turns: bool,
    /// Without an answer, the oldest first.
    pending: VecDeque<PendingUpdate>,
    /// Whether some were too many to be told apart: what was asked for is never known for sure again.
    has_lost: bool,
}

impl Default for SessionBounds {
    /// As providers have it until they are told otherwise.
    fn default() -> Self {
        Self { max_output: MODEL_OUTPUT, begins_turns: true, pending: VecDeque::new(), has_lost: false }
    }
}

impl SessionBounds {
    /// A client's change, which is sent. One that the provider refuses is not taken back: which one that is its answer does not say for
    /// certain, and the next answer ends it.
    pub fn request(&mut self, update: &Update) {
        if self.has_lost || self.pending.len() >= MAX_PENDING {
            self.has_lost = true;
            self.may_be(PendingUpdate::of(update));
        } else {
            self.pending.push_back(PendingUpdate::of(update));
        }
    }

    /// What the provider says the session is. `answers`: because of a client's change.
    pub fn report(&mut self, update: &Update, answers: bool) {
        if answers && let Some(answered) = self.pending.pop_front() {
            // Not every provider says all that a session is.
            self.may_be(answered);
        }
        if self.has_lost {
            self.may_be(PendingUpdate::of(update));
        } else {
            self.max_output = update.max_output.map_or(self.max_output, tokens);
            self.begins_turns = update.begins_turns.unwrap_or(self.begins_turns);
        }
    }

    fn may_be(&mut self, update: PendingUpdate) {
        self.max_output = self.max_output.max(update.max_output.map_or(0, tokens));
        self.begins_turns |= update.begins_turns;
    }

    /// Whether the provider may begin turns by itself.
    pub fn begins_turns(&self) -> bool {
        self.begins_turns || self.pending.iter().any(|pending| pending.begins_turns)
    }

    /// The bound of a turn, tokens. `own`: what the turn asks for itself.
    pub fn output(&self, own: Option<MaxOutput>) -> u64 {
        let pending = self.pending.iter().filter_map(|pending| pending.max_output).map(tokens);
        own.map_or_else(|| pending.fold(self.max_output, u64::max), tokens)
    }
}

const fn tokens(bound: MaxOutput) -> u64 {
    match bound {
        MaxOutput::Tokens(tokens) => tokens,
        MaxOutput::OfModel => MODEL_OUTPUT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(tokens: u64) -> Update {
        Update { max_output: Some(MaxOutput::Tokens(tokens)), ..Update::default() }
    }

    #[test]
    fn until_the_provider_confirms_one_the_higher_bound_counts() {
        let mut bounds = SessionBounds::default();
        bounds.report(&update(100), false);
        bounds.request(&update(10));
        assert_eq!(bounds.output(None), 100);
        bounds.request(&Update { max_output: Some(MaxOutput::OfModel), ..Update::default() });
        assert_eq!(bounds.output(None), MODEL_OUTPUT);
        // Late, of the change before.
        bounds.report(&update(10), true);
        assert_eq!(bounds.output(None), MODEL_OUTPUT);
        bounds.report(&update(MODEL_OUTPUT), true);
        bounds.request(&update(20));
        bounds.report(&update(20), true);
        assert_eq!((bounds.output(None), bounds.output(Some(MaxOutput::OfModel))), (20, MODEL_OUTPUT));
    }

    #[test]
    fn a_change_without_bounds_has_an_answer_too() {
        let mut bounds = SessionBounds::default();
        bounds.report(&update(10), false);
        bounds.request(&Update::default());
        bounds.request(&update(300));
        bounds.report(&update(10), true);
        assert_eq!(bounds.output(None), 300);
        bounds.report(&Update::default(), true);
        assert_eq!(bounds.output(None), 300, "the provider does not say");
    }

    #[test]
    fn what_the_provider_refuses_counts_until_its_next_answer() {
        let mut bounds = SessionBounds::default();
        bounds.report(&update(10), false);
        bounds.request(&update(300));
        bounds.request(&update(20));
        assert_eq!(bounds.output(None), 300);
        bounds.report(&update(20), true);
        assert_eq!(bounds.output(None), 20);
    }

    #[test]
    fn who_begins_turns_is_certain_with_the_last_answer() {
        let begins = |begins| Update { begins_turns: Some(begins), ..Update::default() };
        let mut bounds = SessionBounds::default();
        bounds.request(&begins(false));
        assert!(bounds.begins_turns());
        bounds.request(&begins(true));
        bounds.report(&begins(false), true);
        assert!(bounds.begins_turns());
        bounds.report(&begins(true), true);
        bounds.request(&begins(false));
        bounds.report(&begins(false), true);
        assert!(!bounds.begins_turns());
    }

    #[test]
    fn of_too_many_changes_the_highest_counts_to_the_end() {
        let mut bounds = SessionBounds::default();
        bounds.report(&update(10), false);
        for _ in 0..MAX_PENDING {
            bounds.request(&update(20));
        }
        bounds.request(&update(70));
        for _ in 0..=MAX_PENDING {
            bounds.report(&update(5), true);
        }
        assert_eq!((bounds.output(None), bounds.pending.len()), (70, 0));
    }
}
