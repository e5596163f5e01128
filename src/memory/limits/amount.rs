//! What a request is expected to use, and what it did use.
//!
//! Numbers only: prices and tokens are counted elsewhere.

use super::limit::{Counted, Limit};
use super::refusal::Cause;

/// What is reserved for a request or attempt before it is sent. Tokens are of all choices (`n`) together.
#[derive(Clone, Copy)]
pub struct Estimate<'a> {
    /// How many requests it is: 1. 0 for a further attempt of a request that the same limits have counted.
    pub requests: u64,
    /// The likely number of input tokens, cached or not.
    pub input_tokens: u64,
    /// The most input tokens; where this is less than `input_tokens`, those count.
    pub max_input_tokens: u64,
    /// The likely number of output tokens.
    pub output_tokens: u64,
    /// The most output tokens. `None`: the request has no bound, and `hard` limits refuse it.
    pub max_output_tokens: Option<u64>,
    /// How many outputs it asks for (choices of each prompt). `fit` leaves each of them a token at least.
    pub outputs: u64,
    /// Nanodollars of the input and `output_tokens`; `None` where the price is unknown.
    pub cost: Option<i64>,
    /// Nanodollars of the most input and `max_output_tokens`, without cached input; `None` where price or bound is unknown.
    pub max_cost: Option<i64>,
    /// The provider may search the web for it as often as it likes, and bills searches by the piece: `hard` limits on cost refuse it.
    pub searches_freely: bool,
    /// Whether a bound of its output can be set: `fit` lowers one. An image, a form, a request of unknown shape has none.
    pub can_be_bounded: bool,
    /// The price is declared to be nothing: limits on cost do not apply.
    pub is_free: bool,
    /// Nanodollars of the most input with that much output; never less for more. For limits that `fit`.
    pub cost_of: Option<&'a (dyn Fn(u64) -> i64 + Sync)>,
    /// The request already ran and is paid for, such as a line of a provider's batch job: it counts, and no limit
    /// refuses it.
    pub is_made: bool,
}

impl Default for Estimate<'_> {
    /// One request that uses nothing, at an unknown price.
    fn default() -> Self {
        Self {
            requests: 1,
            input_tokens: 0,
            max_input_tokens: 0,
            output_tokens: 0,
            max_output_tokens: None,
            outputs: 1,
            cost: None,
            max_cost: None,
            searches_freely: false,
            can_be_bounded: true,
            is_free: false,
            cost_of: None,
            is_made: false,
        }
    }
}

impl Estimate<'_> {
    /// The likely amount. `None`: it cannot be foretold.
    pub(super) fn likely(&self, counted: Counted) -> Option<i64> {
        let likely = match counted {
            Counted::Requests => whole(self.requests),
            Counted::Tokens => whole(self.input_tokens).saturating_add(whole(self.output_tokens)),
            Counted::Cost => self.cost?.max(0),
        };
        Some(likely.min(MAX_LIKELY))
    }

    fn most_input(&self) -> i64 {
        whole(self.max_input_tokens.max(self.input_tokens))
    }

    /// What is possible, with the output lowered to `fitted`.
    pub(super) fn most(&self, counted: Counted, fitted: Option<u64>) -> Option<i64> {
        let output = fitted.or(self.max_output_tokens);
        match counted {
            Counted::Requests => Some(whole(self.requests)),
            Counted::Tokens => Some(self.most_input().saturating_add(whole(output?))),
            Counted::Cost => match (fitted, self.cost_of) {
                (Some(fitted), Some(cost_of)) => Some(cost_of(fitted).max(0)),
                _ => self.max_output_tokens.and(self.max_cost).map(|cost| cost.max(0)),
            },
        }
    }

    /// Whether a limit applies to the request at all.
    pub(super) fn concerns(&self, limit: &Limit) -> bool {
        match limit.counts() {
            Counted::Cost => !self.is_free,
            Counted::Requests => self.requests > 0,
            Counted::Tokens => true,
        }
    }

    /// What a hard limit holds.
    ///
    /// # Errors
    /// It cannot be foretold, and why.
    pub(super) fn hard_amount(&self, limit: &Limit, fitted: Option<u64>) -> Result<i64, Cause> {
        let is_unpriced = limit.is_cost() && self.cost.is_none();
        if limit.counts() != Counted::Requests && self.max_output_tokens.is_none() && !self.can_be_bounded {
            return Err(Cause::Unboundable);
        }
        if limit.is_cost() && self.searches_freely {
            return Err(Cause::UnboundedSearches);
        }
        let unbounded = if is_unpriced { Cause::UnknownPrice } else { Cause::NoBound };
        self.most(limit.counts(), fitted).ok_or(unbounded)
    }

    /// What must be free of a rate before it is worth trying again.
    pub(super) fn least(&self, limit: &Limit) -> i64 {
        match (limit.hard, limit.counts()) {
            (true, counted) => self.most(counted, None).unwrap_or(1),
            (false, Counted::Requests) => whole(self.requests),
            (false, _) => 1,
        }
    }

    /// The lowest bound that `fit` can set: no choice can be bounded to less than a token.
    pub(super) fn least_output(&self) -> u64 {
        self.outputs.max(1)
    }

    /// The most output that `headroom` pays for, as much for each choice and at least one token. `None`: not even that.
    pub(super) fn fitting(&self, counted: Counted, headroom: i64) -> Option<u64> {
        let least = self.least_output();
        let most = self.max_output_tokens.unwrap_or(MAX_FITTED).max(least);
        let pays = |output: u64| match (counted, self.cost_of) {
            (Counted::Cost, Some(cost_of)) => cost_of(output) <= headroom,
            (Counted::Cost, None) => self.max_cost.is_some_and(|cost| cost <= headroom),
            (Counted::Tokens, _) => self.most_input().saturating_add(whole(output)) <= headroom,
            (Counted::Requests, _) => whole(self.requests) <= headroom,
        };
        if pays(most) {
            return Some(most);
        }
        let mut pays_for = 0;
        let mut too_much = most;
        while too_much - pays_for > 1 {
            let middle = pays_for + (too_much - pays_for) / 2;
            if pays(middle) { pays_for = middle } else { too_much = middle }
        }
        let for_each = pays_for / least;
        (for_each > 0).then(|| for_each * least)
    }
}

/// No request uses more tokens or nanodollars (a million dollars). A client that claims so must not fill a limit that is only an alert.
const MAX_LIKELY: i64 = 1_000_000_000_000_000;

/// The output bound that `fit` gives a request without one where there is room for anything: more than any model writes.
const MAX_FITTED: u64 = 1 << 20;

/// What a request or attempt did use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actual {
    /// 1; 0 where the attempt was not counted; the number of lines of a batch.
    pub requests: u64,
    /// Input and output tokens; `None` where they are not known.
    pub tokens: Option<u64>,
    /// Nanodollars; `None` where the price is unknown.
    pub cost: Option<i64>,
}

impl Actual {
    /// What is charged to a limit that counts this and holds `held`.
    pub(super) fn of(&self, counted: Counted, held: i64, hard: bool) -> i64 {
        // A hard limit counts an unknown amount as the most that it can be.
        let unknown = if hard { held } else { 0 };
        match counted {
            Counted::Requests => whole(self.requests),
            Counted::Tokens => self.tokens.map_or(unknown, whole),
            Counted::Cost => self.cost.map_or(unknown, |cost| cost.max(0)),
        }
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
