//! The layer of limits: has what an attempt may use held before it is sent.
//!
//! How it is held: `attempt_hold`.

use crate::engine::attempt::call::{AttemptCall, Step};
use crate::engine::attempt::{Flow, Layer};
use futures_util::future::BoxFuture;
use judgment::route::attempt::Attempt;
use judgment::route::target::Target;

/// Every target has it: a limit may be made for any at any time. Where none judges attempts, it costs one comparison.
struct LimitsLayer;

pub(in crate::engine) fn compile(_: &Target) -> Option<Box<dyn Layer>> {
    Some(Box::new(LimitsLayer))
}

impl Layer for LimitsLayer {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn needs(&self) -> Step {
        Step::Made
    }

    fn applies(&self, call: &AttemptCall<'_>) -> bool {
        call.is_judged()
    }

    fn is_for_unread(&self, _: &Attempt) -> bool {
        false
    }

    fn open<'a>(&'a self, call: &'a mut AttemptCall<'_>) -> BoxFuture<'a, Flow> {
        Box::pin(async move { call.bring_to(Step::Held).await.err().unwrap_or(Flow::Continue) })
    }
}
