//! Feedback, counted by bucket: how much, its scores, its weighted average, its models.

use super::super::filter::Filter;
use super::budget::{Budget, Held};
use super::tally::Unanswered;
use std::collections::{BTreeMap, HashSet};
use uuid::Uuid;

/// What one that is counted takes, and a model that has one.
const COUNTED_BYTES: usize = 2 * size_of::<Uuid>();
const MODEL_BYTES: usize = 128;
/// Feedback of one question, at most.
const MAX_FEEDBACK: usize = 2_000_000;

/// The sum of feedback.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FeedbackSum {
    /// Requests that have feedback; counted only where the query groups requests.
    pub requests: u64,
    pub count: u64,
    /// Of value times weight.
    pub weighted: f64,
}

impl FeedbackSum {
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.count += other.count;
        self.weighted += other.weighted;
    }

    /// Of value times weight. `None` without feedback.
    pub fn average(&self) -> Option<f64> {
        (self.count > 0).then(|| self.weighted / self.count as f64)
    }
}

/// Which feedback is counted.
#[derive(Debug, Clone)]
pub struct FeedbackQuery {
    /// Its times are those of the feedback and, where requests are needed, also of the requests.
    pub filter: Filter,
    /// As those of [`Query`](super::Query).
    pub boundaries: Vec<i64>,
    /// Whether models are wanted.
    pub has_models: bool,
}

impl FeedbackQuery {
    /// Whether the query needs the requests that the feedback was given for.
    pub(crate) fn needs_requests(&self) -> bool {
        self.has_models || self.filter != self.filter.about_time_and_workspace()
    }
}

/// The sums up to now.
#[derive(Debug)]
pub struct FeedbackTally {
    pub query: FeedbackQuery,
    pub buckets: BTreeMap<usize, FeedbackSum>,
    pub scores: BTreeMap<i64, u64>,
    pub models: BTreeMap<Option<String>, FeedbackSum>,
    /// Several requests may have one trace.
    counted: HashSet<Uuid>,
    budget: Budget,
}

impl FeedbackTally {
    pub fn new(query: FeedbackQuery) -> Self {
        Self {
            query,
            buckets: BTreeMap::new(),
            scores: BTreeMap::new(),
            models: BTreeMap::new(),
            counted: HashSet::new(),
            budget: Budget::default(),
        }
    }

    /// A tally that tells how many bytes it holds, and is refused more.
    pub fn within(query: FeedbackQuery, held: Held) -> Self {
        Self { budget: Budget::new(held), ..Self::new(query) }
    }

    /// Adds one, unless it was added before.
    ///
    /// # Errors
    /// `TooManyGroups`.
    pub fn add(
        &mut self,
        id: Uuid,
        created_ms: i64,
        value: i64,
        weight: f64,
        model: Option<&str>,
    ) -> Result<(), Unanswered> {
        if !self.counted.insert(id) {
            return Ok(());
        }
        if self.counted.len() > MAX_FEEDBACK {
            return Err(Unanswered::TooManyGroups);
        }
        self.budget.add(COUNTED_BYTES + model.map_or(0, |model| MODEL_BYTES + model.len()))?;
        let sum = FeedbackSum { requests: 0, count: 1, weighted: value as f64 * weight };
        let bucket = self.query.boundaries.partition_point(|boundary| *boundary <= created_ms);
        self.buckets.entry(bucket).or_default().merge(&sum);
        *self.scores.entry(value).or_default() += 1;
        if self.query.has_models {
            self.models.entry(model.map(str::to_owned)).or_default().merge(&sum);
        }
        Ok(())
    }
}
