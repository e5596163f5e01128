//! What is asked of all limits together, counted when one is added or removed, so that nobody looks at each of them.
//!
//! Not here: the limits themselves (`limit_index`).

use super::limit::{Counted, Limit};
use crate::auth::fact_key::FactKey;
use std::collections::HashMap;
use uuid::Uuid;

/// Numbers of limits.
#[derive(Debug, Clone, Default)]
pub(super) struct LimitCounts {
    /// Of requests as a whole.
    pub request: usize,
    /// Of targets.
    pub target: usize,
    /// Of requests as a whole, that count tokens or costs.
    pub usage_of_requests: usize,
    /// That count tokens or costs.
    pub usage: usize,
    pub budgets: usize,
    pub hard_budgets: usize,
    /// What those of requests as a whole look at.
    request_keys: HashMap<FactKey, usize>,
    /// Until when a record has a raised limit, milliseconds since 1970: the first of its raises that ends.
    raised: HashMap<Uuid, i64>,
}

impl LimitCounts {
    pub(super) fn add(&mut self, limit: &Limit) {
        self.count(limit, |number| *number += 1);
        if !limit.is_for_targets() {
            for key in limit.keys() {
                *self.request_keys.entry(key.clone()).or_default() += 1;
            }
        }
        if let Some(until) = limit.changes_at {
            let first = self.raised.entry(limit.record).or_insert(until);
            *first = until.min(*first);
        }
    }

    /// Forgets the raises of a record, all of whose limits are removed, before any of its limits is added.
    pub(super) fn forget_raises(&mut self, record: Uuid) {
        self.raised.remove(&record);
    }

    /// See also [`LimitCounts::forget_raises`].
    pub(super) fn remove(&mut self, limit: &Limit) {
        self.count(limit, |number| *number = number.saturating_sub(1));
        if !limit.is_for_targets() {
            for key in limit.keys() {
                let count = self.request_keys.get_mut(key);
                if count.is_some_and(|count| {
                    *count -= 1;
                    *count == 0
                }) {
                    self.request_keys.remove(key);
                }
            }
        }
    }

    fn count(&mut self, limit: &Limit, change: impl Fn(&mut usize)) {
        let is_for_targets = limit.is_for_targets();
        change(if is_for_targets { &mut self.target } else { &mut self.request });
        if limit.counts() != Counted::Requests {
            change(&mut self.usage);
            if !is_for_targets {
                change(&mut self.usage_of_requests);
            }
        }
        if !limit.is_rate() {
            change(&mut self.budgets);
            if limit.hard {
                change(&mut self.hard_budgets);
            }
        }
    }

    /// What limits of requests as a whole look at, each once.
    pub(super) fn request_keys(&self) -> impl Iterator<Item = &FactKey> {
        self.request_keys.keys()
    }

    pub(super) fn raised_until(&self) -> Option<i64> {
        self.raised.values().min().copied()
    }

    /// The records of which a raise has ended.
    pub(super) fn raised_no_more(&self, now: i64) -> Vec<Uuid> {
        self.raised.iter().filter(|(_, until)| **until <= now).map(|(record, _)| *record).collect()
    }
}
