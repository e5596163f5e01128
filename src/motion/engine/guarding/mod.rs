//! Guardrails and hooks around one attempt: on the request before the attempt is made of it, on the response before it is committed
//! or while it streams.
//!
//! What a check is and what a hook decides is `guard`'s. Hooks see the client's request and the client's response, not what is sent to
//! the provider. A target without hooks has no such layer.
//!
//! ```text
//! hooks on the request ──> attempt made, held, sent ──> decoder ──> windows ──> encoder ──> hooks on the response ──> committed
//!    └─ parallel ones ───────────────────────────────────────────────────────────────────────────┘      └─ streams: observed, at the end
//! ```

mod background;
mod env;
mod guarded;
mod judge;
mod layer;
mod request_view;
mod stream_texts;
mod upgrade;

pub use env::try_hook;
pub(super) use guarded::{CheckedRequest, Guarded};
pub(super) use judge::{HOOKS_FAILED, Judged};
pub(super) use layer::{compile, finish};
pub use upgrade::guard_upgrade;

use judgment::guard::{Hook, HookResult, Needs, PhaseRun, StreamUse, denial_results};
use words::api::operation::Operation;
use words::error::Error;

/// The operations whose request has a text, and whose response passes as it comes: images, audio, scores.
const WITHOUT_RESULTS: [Operation; 4] =
    [Operation::Images, Operation::Speech, Operation::Moderations, Operation::Rerank];

/// Whether a request of an operation has a text to be judged, and its response results to be shown in; on the generic endpoint where its body
/// is a JSON object.
fn has_text(operation: Operation) -> bool {
    Needs::met_by(operation) == Needs::Text && !WITHOUT_RESULTS.contains(&operation)
}

/// Whether a hook that the request waits for runs while the target is called, and not before: the response then waits for it. Of an operation
/// without a text no response is held back, so that it runs before.
fn during_call(hook: &Hook, operation: Operation) -> bool {
    hook.parallel && has_text(operation)
}

/// The error of hooks that deny. `before` and `after`: the results of both phases.
fn denial(run: &PhaseRun, before: &[HookResult], after: &[HookResult]) -> Error {
    Error::hooks_failed(run.message.as_deref(), denial_results(before, after))
}

/// Whether a hook looks at a stream through a window.
fn is_windowed(hook: &Hook) -> bool {
    hook.stream_use() == StreamUse::Window
}

/// Whether a hook must see the whole stream before the client gets any of it.
fn is_holding(hook: &Hook) -> bool {
    hook.stream_use() == StreamUse::Whole
}

/// Whether a hook looks at a stream when the client has it.
fn is_observing(hook: &Hook) -> bool {
    hook.stream_use() == StreamUse::AfterEnd
}
