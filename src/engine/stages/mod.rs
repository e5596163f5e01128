//! Steps around an attempt at a target: what must happen before it is sent, may respond in the provider's place or refuse
//! the target, and what must happen when it ended.
//!
//! A stage is one file here and one line in [`STAGES`]. Which of them a target has is decided once, when it is first
//! used; a target without one pays nothing for it. Not steps of every request: those are `proxy::admit`'s.

mod credentials;
mod local_response;

pub use credentials::{acquire, sign};

use super::attempt_state::AttemptState;
use super::request_context::RequestContext;
use crate::error::Error;
use crate::provider::token_exchange::Credentials;
use crate::route::attempt::Attempt;
use crate::route::outcome::Outcome;
use crate::route::target::Target;
use crate::state::Shared;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::HeaderMap;
use std::sync::Arc;
use std::time::Instant;

/// A step around attempts at one target.
pub(super) trait Stage: Send + Sync {
    /// Whether it has anything to do for this attempt: a look, and no future where it has not.
    fn applies(&self, attempt: &Attempt) -> bool;

    /// Before the attempt is sent; it may change it.
    fn before<'a>(&'a self, call: &'a mut StageCall<'_>) -> BoxFuture<'a, Flow>;

    /// When the attempt ended.
    fn after(&self, _shared: &Shared, _attempt: &Attempt, _outcome: &Outcome) {}
}

/// What follows a stage.
pub(super) enum Flow {
    Continue,
    /// The target is not called: this is its response. It takes the same way to the client as a provider's.
    Respond(LocalResponse),
    /// The target cannot be called; the plan sees the outcome.
    Refuse(Outcome, Error),
}

/// A response of the gateway's own, in the client's shape.
pub(super) struct LocalResponse {
    pub content_type: &'static str,
    pub body: Bytes,
}

/// An attempt on its way to be sent.
pub(super) struct StageCall<'a> {
    pub shared: &'a Arc<Shared>,
    pub ctx: &'a RequestContext,
    /// Of the client's request.
    pub headers: &'a HeaderMap,
    pub attempt: &'a mut Attempt,
    pub state: &'a mut AttemptState,
    /// When its response must have begun.
    pub deadline: Option<Instant>,
    /// What authorizes it, for its header.
    pub credentials: Option<Credentials>,
}

/// Makes a stage for targets that have it.
type Compile = fn(&Target) -> Option<Box<dyn Stage>>;

/// All stages, in the order they are passed.
const STAGES: [Compile; 2] = [local_response::compile, credentials::compile];

/// The stages of one target, kept beside it.
struct TargetStages(Vec<Box<dyn Stage>>);

/// The stages of a target.
pub(super) fn of(target: &Target) -> &[Box<dyn Stage>] {
    let kept = target.stages.get_or_init(|| {
        Box::new(TargetStages(STAGES.iter().filter_map(|compile| compile(target)).collect()))
    });
    kept.downcast_ref::<TargetStages>().map_or(&[], |stages| &stages.0)
}
