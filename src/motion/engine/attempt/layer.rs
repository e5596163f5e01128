//! A layer: a step around attempts at one target.
//!
//! Which layers there are, and in which order: `layers`.

use super::answer::Flow;
use super::call::{AttemptCall, Step};
use futures_util::future::BoxFuture;
use judgment::route::attempt::Attempt;
use judgment::route::target::Target;

/// A step around attempts at one target.
pub trait Layer: Send + Sync {
    /// As logs and tests name it.
    fn name(&self) -> &'static str;

    /// What must be there before it is passed.
    fn needs(&self) -> Step {
        Step::Held
    }

    /// Whether it has anything to do for this attempt. Must be cheap: it is called for every attempt at a target that has the layer.
    fn applies(&self, _call: &AttemptCall<'_>) -> bool {
        true
    }

    /// Whether an attempt that could be proxied natively, because its body is not read, has to pass it: it takes the engine's way then.
    fn is_for_unread(&self, _attempt: &Attempt) -> bool {
        true
    }

    /// Passes the attempt.
    fn open<'a>(&'a self, call: &'a mut AttemptCall<'_>) -> BoxFuture<'a, Flow>;
}

/// Makes a layer for targets that have it.
pub type Compile = fn(&Target) -> Option<Box<dyn Layer>>;
