//! Stages: what happens around an attempt at a target. A stage may change the attempt before it is sent, respond in the
//! provider's place, refuse the target, filter the text of the response, and act when the attempt ended.
//!
//! A stage is one file here and one line in [`STAGES`]. Which stages a target has is decided once, when it is first
//! used; a target without stages pays nothing for them. Steps that belong to the request and not to a target are
//! `proxy::admit`'s.
//!
//! ```text
//! before (in list order) ──> sent ──> decoder ──> filters (in list order) ──> encoder ──> after
//!    ├─ Respond: not sent; the response passes the filters of the stages before this one
//!    └─ Refuse: not sent; the plan decides what is next
//! ```

mod credentials;

pub use credentials::sign;

use super::Engine;
use super::attempt_state::AttemptState;
use super::request_context::RequestContext;
use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use judgment::route::attempt::{Attempt, Request};
use judgment::route::outcome::Outcome;
use judgment::route::target::Target;
use knowledge::provider::rewriter::TextFilters;
use knowledge::provider::token_exchange::Credentials;
use memory::state::Shared;
use std::sync::Arc;
use std::time::Instant;
use words::api::chat::TextFilter;
use words::error::Error;

/// A step around attempts at one target.
pub trait Stage: Send + Sync {
    /// Whether it has anything to do for this attempt. Must be cheap: it is called for every attempt at a target that has
    /// the stage.
    fn applies(&self, attempt: &Attempt) -> bool;

    /// Runs before the attempt is sent, and may change it.
    fn before<'a>(&'a self, _call: &'a mut StageCall<'_>) -> BoxFuture<'a, Flow> {
        Box::pin(ready(Flow::Continue))
    }

    /// A filter over the text of the attempt's response. A response that would pass unchanged is then decoded and encoded
    /// again; where that is not possible, the attempt is refused before it is sent.
    fn filter(&self, _attempt: &Attempt) -> Option<Box<dyn TextFilter>> {
        None
    }

    /// Runs when the attempt ended. Not for websockets and other requests that are proxied natively.
    fn after(&self, _shared: &Shared, _attempt: &Attempt, _outcome: &Outcome) {}
}

/// What follows a stage.
pub enum Flow {
    Continue,
    /// The target is not called: this is its response. It takes the same way to the client as a provider's.
    Respond(LocalResponse),
    /// The target cannot be called; the plan gets the outcome.
    Refuse(Outcome, Error),
}

/// A response of the gateway's own, in the client's dialect.
pub struct LocalResponse {
    /// `application/json`, or `text/event-stream` for events.
    pub content_type: &'static str,
    pub body: Bytes,
}

/// An attempt that is about to be sent.
pub struct StageCall<'a> {
    pub shared: &'a Arc<Shared>,
    pub ctx: &'a RequestContext,
    pub request: &'a Request,
    /// The client's body was not read and streams through.
    pub streams_body: bool,
    pub attempt: &'a mut Attempt,
    pub state: &'a mut AttemptState,
    /// When its response must have begun.
    pub deadline: Option<Instant>,
    /// What authorizes it, for its header.
    pub credentials: Option<Credentials>,
    /// The filters of its response, boxed because few responses have any.
    pub filters: Option<Box<TextFilters>>,
}

/// Makes a stage for targets that have it.
pub type Compile = fn(&Target) -> Option<Box<dyn Stage>>;

/// All stages of the product, in the order an attempt passes them.
pub const STAGES: &[Compile] = &[credentials::compile];

/// The stages of one target, kept with it.
struct TargetStages(Vec<Box<dyn Stage>>);

impl Engine {
    /// The stages of a target.
    pub(super) fn stages_of<'t>(&self, target: &'t Target) -> &'t [Box<dyn Stage>] {
        let kept = target.stages.get_or_init(|| {
            Box::new(TargetStages(self.stages.iter().filter_map(|compile| compile(target)).collect()))
        });
        kept.downcast_ref::<TargetStages>().map_or(&[], |stages| &stages.0)
    }

    /// Whether an attempt passes any stage.
    pub fn has_stages(&self, attempt: &Attempt) -> bool {
        self.stages_of(&attempt.target).iter().any(|stage| stage.applies(attempt))
    }

    /// Whether Pingora may proxy an attempt natively: it must not pass any stage. Upgrades have no other way, so
    /// `proxy::native` runs their stages.
    pub fn goes_native(&self, attempt: &Attempt, is_upgrade: bool) -> bool {
        let is_guarded = !attempt.target.hooks.is_empty();
        attempt.goes_native(is_upgrade) && (is_upgrade || !(is_guarded || self.has_stages(attempt)))
    }

    /// Passes an attempt through the stages that apply to it.
    pub async fn pass_stages(&self, call: &mut StageCall<'_>) -> Flow {
        let target = Arc::clone(&call.attempt.target);
        let mut flow = Flow::Continue;
        for stage in self.stages_of(&target) {
            if !stage.applies(call.attempt) {
                continue;
            }
            flow = stage.before(call).await;
            if !matches!(flow, Flow::Continue) {
                break;
            }
            if let Some(filter) = stage.filter(call.attempt) {
                call.filters.get_or_insert_default().add(filter);
            }
        }
        if call.filters.is_some() && !matches!(flow, Flow::Refuse(..)) {
            let is_local = matches!(flow, Flow::Respond(_));
            if let Err(error) = call.attempt.decode_response(call.request, is_local) {
                return Flow::Refuse(Outcome::Unsupported(error.status()), error);
            }
        }
        flow
    }

    /// Has the stages of an attempt act on how it ended.
    pub(super) fn end_stages(&self, attempt: &Attempt, outcome: &Outcome) {
        for stage in self.stages_of(&attempt.target) {
            if stage.applies(attempt) {
                stage.after(&self.shared, attempt, outcome);
            }
        }
    }
}
