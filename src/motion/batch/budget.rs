//! What a batch holds of its client's budgets while it runs: what all its lines are expected to use, before the first is sent.
//!
//! In memory: a process that goes on with a batch holds what the lines that are left are expected to use. Where others hold that
//! meanwhile, each line holds its own. Not here: what budgets are (`limits`).

use super::parts::LineSet;
use super::run::{Halt, Run};
use super::state::{Batch, StoredError};
use super::validation::read_line;
use crate::engine::limit_advance::{self, NotHeld};
use memory::limits::{Advance, AdvanceEstimate, LimitSet};
use parking_lot::Mutex;
use std::sync::Arc;
use words::api::own_ids::batch_id;

/// The code in `errors.data` of a batch for which there is not enough budget.
const NO_BUDGET: &str = "insufficient_quota";

/// The budget of one run of a batch.
#[derive(Debug, Default)]
pub(super) struct Budget {
    /// Kept while others hold what the batch needs, so that its file is not read again and again.
    waiting: Mutex<Option<Waiting>>,
    held: Mutex<Option<Arc<Advance>>>,
}

/// A batch whose lines are good, and for which there is not enough budget yet.
#[derive(Debug)]
struct Waiting {
    lines: u32,
    sum: AdvanceEstimate,
    /// By which it was estimated.
    limits: Arc<LimitSet>,
}

impl Budget {
    /// How many lines the batch has, all of them good, if it only waits for its budget.
    pub(crate) fn lines_waiting(&self) -> Option<u32> {
        self.waiting.lock().as_ref().map(|waiting| waiting.lines)
    }

    /// What is held.
    pub fn held(&self) -> Option<Arc<Advance>> {
        self.held.lock().clone()
    }

    /// Nothing more is sent: the rest is for others.
    pub fn release(&self) {
        *self.held.lock() = None;
    }
}

impl Run {
    /// Holds what all lines of a batch, so many, are expected to use. `Some`: why the batch cannot be paid.
    ///
    /// # Errors
    /// Others hold what it needs, and may not use it: it waits.
    pub(crate) async fn hold_budget(&self, batch: &Batch, lines: u32) -> Result<Option<StoredError>, Halt> {
        let engine = &self.batches.planner.engine;
        // What a validation before this one has held, whose end was not written.
        self.budget.release();
        let Some(limits) = limit_advance::budgets(engine) else { return Ok(None) };
        let waiting = self.budget.waiting.lock().take();
        let sum = match waiting.filter(|waiting| Arc::ptr_eq(&waiting.limits, &limits)) {
            Some(waiting) => waiting.sum,
            None => self.estimate(batch, &LineSet::default()).await?,
        };
        match limit_advance::hold(engine, &sum, None) {
            Ok(advance) => {
                *self.budget.held.lock() = Some(Arc::new(advance));
                Ok(None)
            }
            Err(NotHeld::Reserved(why)) => {
                *self.budget.waiting.lock() = Some(Waiting { lines, sum, limits });
                Err(Halt::Later(why.message))
            }
            Err(NotHeld::Refused(why)) => {
                let message =
                    format!("There is not enough budget for all lines of the batch. {}", why.message);
                Ok(Some(StoredError::new(NO_BUDGET, &message)))
            }
        }
    }

    /// Holds what the lines without a result are expected to use, where another process began the batch.
    pub(crate) async fn hold_rest(&self, batch: &Batch, done: &LineSet) -> Result<(), Halt> {
        let engine = &self.batches.planner.engine;
        if self.budget.held().is_some() || limit_advance::budgets(engine).is_none() || batch.has_no_input() {
            return Ok(());
        }
        let sum = self.estimate(batch, done).await?;
        match limit_advance::hold(engine, &sum, None) {
            Ok(advance) => *self.budget.held.lock() = Some(Arc::new(advance)),
            Err(NotHeld::Reserved(why) | NotHeld::Refused(why)) => {
                log::info!(target: "turnpike", "batches: the budget of {} is not held: {}", batch_id(self.id, batch.provider()), why.message);
            }
        }
        Ok(())
    }

    /// What the lines are expected to use that are not among these.
    async fn estimate(&self, batch: &Batch, done: &LineSet) -> Result<AdvanceEstimate, Halt> {
        let env = self.line_env(batch)?;
        let mut lines = self.lines(batch).await?;
        let mut sum = AdvanceEstimate::default();
        while let Some(line) = lines.next().await? {
            let Ok(line) = line else { continue };
            if let Ok(read) = read_line(&line, &batch.request.endpoint)
                && !done.contains(line.number)
            {
                env.estimate(&self.batches.planner, read.body, &mut sum).await;
            }
        }
        Ok(sum)
    }
}
