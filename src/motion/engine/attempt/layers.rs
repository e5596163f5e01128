//! What stands around an attempt at a target: a list of layers, which an attempt passes in this order before it is sent.
//!
//! A layer is one file and one line in [`LAYERS`]. Which layers a target has is decided once, when it is first used. What belongs to
//! the request and not to a target is `proxy::admit`'s; what an attempt is while it passes the layers is `call`'s.
//!
//! ```text
//! hooks ──> (attempt made) ──> cache ──> places ──> limits ──> (attempt held) ──> credentials ──> sent ──> decoder ──> filters ──> encoder ──> end
//!   ├─ Respond: not sent; the response passes the filters of the layers before this one
//!   ├─ Deny: not sent; the plan sees the outcome, and the client this error if nothing follows
//!   ├─ Refuse: not sent; the plan decides what is next
//!   └─ Queue: not sent yet; it waits for a place, and passes the layers again
//! ```
//!
//! A layer may change the request (`AttemptCall::change_request`): the attempt is then made and held anew. It may wrap what the target
//! responds, hold a response back before it is committed (`guarding::Guarded`), and hears of the end exactly once ([`Ends`]).

use super::answer::Flow;
use super::call::{AttemptCall, Step};
use super::layer::{Compile, Layer};
use crate::engine::{Engine, caching, credentials, guarding, limit_holds, places};
use judgment::route::attempt::Attempt;
use judgment::route::target::Target;
use std::any::Any;

/// All layers of the product, in the order an attempt passes them.
pub const LAYERS: &[Compile] =
    &[guarding::compile, caching::compile, places::compile, limit_holds::compile, credentials::compile];

/// The layers of one target, kept with it.
struct TargetLayers(Vec<Box<dyn Layer>>);

/// The layers of a target, as the target keeps them: routing does not know what they are.
pub(in crate::engine) fn compile(layers: &[Compile], target: &Target) -> Box<dyn Any + Send + Sync> {
    Box::new(TargetLayers(layers.iter().filter_map(|compile| compile(target)).collect()))
}

/// The layers of a target.
fn of_target<'t>(engine: &Engine, target: &'t Target) -> &'t [Box<dyn Layer>] {
    let kept = target.layers.get_or_init(|| (engine.compile_layers)(target));
    kept.downcast_ref::<TargetLayers>().map_or(&[], |layers| &layers.0)
}

/// The names of a target's layers, in their order.
pub(in crate::engine) fn names(engine: &Engine, target: &Target) -> Vec<&'static str> {
    of_target(engine, target).iter().map(|layer| layer.name()).collect()
}

/// See [`Engine::goes_native`].
pub(in crate::engine) fn lets_go_native(engine: &Engine, attempt: &Attempt, is_upgrade: bool) -> bool {
    let has_layer = || of_target(engine, &attempt.target).iter().any(|layer| layer.is_for_unread(attempt));
    attempt.goes_native(is_upgrade) && (is_upgrade || !has_layer())
}

/// Passes an attempt through the layers of its target that apply to it.
pub(in crate::engine) async fn pass(engine: &Engine, call: &mut AttemptCall<'_>) -> Flow {
    let next = call.next;
    for layer in of_target(engine, &next.target) {
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
