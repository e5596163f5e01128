//! What stands around an attempt at a target: a list of layers, which an attempt passes in this order before it is sent.
//!
//! A layer is one file and one line in [`LAYERS`]. Which layers a target has is decided once, when it is first used. What belongs to
//! the request and not to a target is `proxy::admit`'s; what an attempt is while it passes the layers is `call`'s.
//!
//! ```text
//! hooks ──> (attempt made) ──> cache ──> limits ──> (attempt held) ──> credentials ──> sent ──> decoder ──> filters ──> encoder ──> end
//!   ├─ Respond: not sent; the response passes the filters of the layers before this one
//!   ├─ Deny: not sent; the plan sees the outcome, and the client this error if nothing follows
//!   └─ Refuse: not sent; the plan decides what is next
//! ```
//!
//! A layer may change the request (`AttemptCall::change_request`): the attempt is then made and held anew. It may wrap what the target
//! responds, hold a response back before it is committed (`guarding::Guarded`), and hears of the end exactly once ([`Ends`]).

use super::call::{Answer, AttemptCall, Step};
use crate::engine::credentials;
use crate::engine::{Engine, caching, guarding, limit_holds};
use futures_util::future::BoxFuture;
use judgment::route::attempt::Attempt;
use judgment::route::outcome::Outcome;
use judgment::route::target::Target;
use words::error::Error;

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

/// What follows a layer.
pub enum Flow {
    Continue,
    /// The target is not called: this is its response. It takes the same way to the client as a provider's.
    Respond(Answer),
    /// The request may not be sent. No response of an earlier attempt takes the place of this error.
    Deny(Error),
    /// The target cannot be called; the plan gets the outcome.
    Refuse(Outcome, Error),
    /// No attempt could be made that goes on with a broken stream: as [`Flow::Refuse`], and the record has no such attempt.
    NotResumed(Error),
}

/// Makes a layer for targets that have it.
pub type Compile = fn(&Target) -> Option<Box<dyn Layer>>;

/// All layers of the product, in the order an attempt passes them.
pub const LAYERS: &[Compile] =
    &[guarding::compile, caching::compile, limit_holds::compile, credentials::compile];

/// The layers of one target, kept with it.
struct TargetLayers(Vec<Box<dyn Layer>>);

/// How an attempt ended, for its layers.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    Outcome(Outcome),
    /// It was dropped: the client has left, another attempt was quicker, or the process stops.
    Dropped,
}

/// What layers do when an attempt ends. Each is called exactly once, also where the attempt is dropped.
#[derive(Default)]
pub struct Ends(Vec<Box<dyn FnOnce(Ending) + Send + Sync>>);

impl Ends {
    pub fn add(&mut self, end: Box<dyn FnOnce(Ending) + Send + Sync>) {
        self.0.push(end);
    }

    /// The attempt has ended.
    pub fn end(&mut self, outcome: Outcome) {
        self.call(Ending::Outcome(outcome));
    }

    fn call(&mut self, ending: Ending) {
        self.0.drain(..).for_each(|end| end(ending));
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.call(Ending::Dropped);
    }
}

impl Engine {
    /// The layers of a target.
    fn layers_of<'t>(&self, target: &'t Target) -> &'t [Box<dyn Layer>] {
        let kept = target.layers.get_or_init(|| {
            Box::new(TargetLayers(self.layers.iter().filter_map(|compile| compile(target)).collect()))
        });
        kept.downcast_ref::<TargetLayers>().map_or(&[], |layers| &layers.0)
    }

    /// The names of a target's layers, in their order.
    pub fn layer_names(&self, target: &Target) -> Vec<&'static str> {
        self.layers_of(target).iter().map(|layer| layer.name()).collect()
    }

    /// Whether Pingora may proxy an attempt natively: it must not pass any layer. Upgrades have no other way, so `proxy::native` has their
    /// hooks run and their credentials fetched.
    pub fn goes_native(&self, attempt: &Attempt, is_upgrade: bool) -> bool {
        let has_layer = || self.layers_of(&attempt.target).iter().any(|layer| layer.is_for_unread(attempt));
        attempt.goes_native(is_upgrade) && (is_upgrade || !has_layer())
    }

    /// Passes an attempt through the layers of its target that apply to it.
    pub(in crate::engine) async fn pass_layers(&self, call: &mut AttemptCall<'_>) -> Flow {
        let next = call.next;
        for layer in self.layers_of(&next.target) {
            if let Err(flow) = call.bring_to(layer.needs()).await {
                return flow;
            }
            if !layer.applies(call) {
                continue;
            }
            match layer.open(call).await {
                Flow::Continue => {}
                flow => return flow,
            }
        }
        match call.bring_to(Step::Held).await {
            Ok(()) => Flow::Continue,
            Err(flow) => flow,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use std::sync::Arc;

    #[test]
    fn each_end_is_called_exactly_once_also_where_the_attempt_is_dropped() {
        let endings = Arc::new(Mutex::new(Vec::new()));
        let ends = || {
            let mut ends = Ends::default();
            let endings = Arc::clone(&endings);
            ends.add(Box::new(move |ending| endings.lock().push(ending)));
            ends
        };
        drop(ends());
        assert!(matches!(*std::mem::take(&mut *endings.lock()), [Ending::Dropped]));
        let mut ended = ends();
        ended.end(Outcome::Interrupted);
        ended.end(Outcome::Failed);
        drop(ended);
        assert!(matches!(*std::mem::take(&mut *endings.lock()), [Ending::Outcome(Outcome::Interrupted)]));
    }
}
