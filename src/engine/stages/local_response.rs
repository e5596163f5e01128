//! Responds where the gateway itself knows the response: tokens estimated for a provider that cannot count them.
//!
//! The estimate is made with the attempt (`provider::translation`).

use super::{Flow, LocalResponse, Stage, StageCall};
use crate::route::attempt::Attempt;
use crate::route::target::Target;
use futures_util::future::{BoxFuture, ready};

struct LocalResponseStage;

#[expect(clippy::unnecessary_wraps, reason = "the list of stages asks each whether a target has it")]
pub(super) fn compile(_: &Target) -> Option<Box<dyn Stage>> {
    Some(Box::new(LocalResponseStage))
}

impl Stage for LocalResponseStage {
    fn applies(&self, attempt: &Attempt) -> bool {
        attempt.local_response.is_some()
    }

    fn before<'a>(&'a self, call: &'a mut StageCall<'_>) -> BoxFuture<'a, Flow> {
        let body = call.attempt.local_response.clone();
        let respond = |body| Flow::Respond(LocalResponse { content_type: "application/json", body });
        Box::pin(ready(body.map_or(Flow::Continue, respond)))
    }
}
