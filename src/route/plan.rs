//! Who gets the next try, given what happened so far: the only place that will know retry, fallback,
//! balance and breakers.
//!
//! Pure: outcomes and the time come in, attempts come out. The driver obeys.

use super::attempt::{Attempt, Request};
use super::tree::Tree;
use crate::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// What an attempt came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The provider answered with this status.
    Answered(u16),
    /// No answer: the metric label of what went wrong.
    Failed(&'static str),
}

/// What to do now.
#[derive(Debug)]
pub enum Step {
    /// Try this, after a wait.
    Try(Arc<Attempt>, Duration),
    /// The answer at hand goes to the caller.
    Keep,
    /// Nothing is left to try; the last failure goes to the caller.
    GiveUp,
}

/// The order of tries for one request.
#[derive(Debug)]
pub struct Plan {
    tree: Arc<Tree>,
    tried: u32,
}

impl Plan {
    pub fn new(tree: Arc<Tree>) -> Self {
        Self { tree, tried: 0 }
    }

    /// Decides the next step. `outcome` is what the attempt before came to; `None` at the start.
    ///
    /// # Errors
    /// When the attempt cannot be made from the request (see [`Attempt::new`]).
    pub fn next(&mut self, outcome: Option<&Outcome>, request: &Request) -> Result<Step, Error> {
        match outcome {
            None => {
                self.tried += 1;
                let attempt = Attempt::new(Arc::clone(self.tree.leaf()), request)?;
                Ok(Step::Try(Arc::new(attempt), Duration::ZERO))
            }
            Some(Outcome::Answered(_)) => Ok(Step::Keep),
            Some(Outcome::Failed(_)) => Ok(Step::GiveUp),
        }
    }

    /// Tries made beyond the first of each target (`x-gateway-retry-attempt-count`).
    pub fn retries(&self) -> u32 {
        self.tried.saturating_sub(1)
    }
}
