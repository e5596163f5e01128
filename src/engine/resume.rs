//! A stream that broke after the caller got a part of it, and how the next attempt goes on with it.
//!
//! What fits together is `provider::rescue`'s to judge; here is only what must be kept between two attempts.

use super::request_context::RequestContext;
use super::response_body::{ResponseBody, ResumeSource};
use crate::api::chat::EncodeContext;
use crate::api::operation::Operation;
use crate::error::Error;
use crate::provider::rescue::{self, Prefill, ResumeMode};
use crate::provider::rewriter::Rewriter;
use crate::route::attempt::{Attempt, Request};
use crate::route::target::Target;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// See the module.
pub(crate) struct Resume {
    /// Writes on in the caller's stream; away while an attempt has it.
    rewriter: Option<Rewriter>,
    asked: ResumeMode,
    /// Targets that refused a prefill, by index path.
    refused: Vec<String>,
    /// The target asked last.
    last: Option<Arc<Target>>,
    /// What broke the stream.
    error: Error,
}

impl Resume {
    /// Whether what broke can be gone on from.
    pub fn is_possible(incoming: &ResponseBody, operation: Operation) -> bool {
        incoming.can_resume() && (incoming.is_translated() || rescue::decoder(operation, true).is_some())
    }

    /// `before`: the rescue this very stream came from.
    pub fn new(
        incoming: ResponseBody,
        ctx: &RequestContext,
        attempt: &Attempt,
        error: &Error,
        before: Option<Self>,
    ) -> Option<Self> {
        let rewriter = match incoming.into_broken() {
            ResumeSource::Rewriter(rewriter) => *rewriter,
            ResumeSource::Sent(sent) => {
                let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
                let setting = EncodeContext {
                    id: ctx.trace_id.clone(),
                    created,
                    model: attempt.model.clone().unwrap_or_default(),
                    provider: attempt.target.provider.id(),
                    strict: attempt.target.strict,
                    include_usage: asks_for_usage(attempt),
                    request: None,
                };
                rescue::from_sent_events(ctx.operation, setting, &sent?)?
            }
        };
        let refused = before.map(|before| before.refused).unwrap_or_default();
        rewriter.transcript().is_some_and(|told| told.can_resume()).then_some(Self {
            rewriter: Some(rewriter),
            asked: ResumeMode::Restart,
            refused,
            last: None,
            error: error.clone(),
        })
    }

    /// The attempt that goes on, at `leaf`: with what was told as the beginning of its answer where its model
    /// takes that, and by beginning anew where not.
    ///
    /// # Errors
    /// As [`Attempt::new`]; 400 where the answer could not be read into the caller's stream.
    pub fn attempt(&mut self, leaf: &Arc<Target>, request: &Request) -> Result<Attempt, Error> {
        self.last = Some(Arc::clone(leaf));
        self.asked = ResumeMode::Restart;
        if let Some(prefilled) = self.prefilled(leaf, request)
            && let Ok(attempt) = Attempt::new(Arc::clone(leaf), &prefilled)
        {
            self.asked = ResumeMode::Continue;
            return self.readied(attempt, request.operation);
        }
        let attempt = Attempt::new(Arc::clone(leaf), request)?;
        self.readied(attempt, request.operation)
    }

    fn readied(&mut self, attempt: Attempt, operation: Operation) -> Result<Attempt, Error> {
        let chat = attempt.translation.as_ref().and_then(|translation| translation.decoder(true));
        let reader = chat.or_else(|| rescue::decoder(operation, true)).ok_or_else(|| {
            Error::bad_request("The broken stream cannot be gone on with at this provider.")
        })?;
        if let Some(rewriter) = &mut self.rewriter {
            rewriter.resume(reader, self.asked);
        }
        Ok(attempt)
    }

    fn prefilled(&self, leaf: &Arc<Target>, request: &Request) -> Option<Request> {
        if self.refused.contains(&leaf.path) {
            return None;
        }
        let body = request.body.as_ref()?;
        let told = self.rewriter.as_ref()?.transcript()?;
        let model = leaf.model().or(request.model.as_deref()).unwrap_or_default();
        let prefill = leaf.provider.prefill(model);
        if matches!(prefill, Prefill::No) {
            return None;
        }
        let bytes = rescue::request(request.operation, body, told, prefill)?;
        let body = crate::api::body::Body::parse(bytes).ok()?;
        Some(Request { body: Some(body), ..request.clone() })
    }

    /// How it was gone on with, for the metric.
    pub fn word(&self) -> &'static str {
        match self.asked {
            ResumeMode::Continue => "resumed",
            ResumeMode::Restart => "replayed",
        }
    }

    /// What broke the stream.
    pub fn error(&self) -> Error {
        self.error.clone()
    }

    /// Takes the rewriter, for the answer that goes on.
    pub fn rewriter(&mut self) -> Option<Rewriter> {
        self.rewriter.take()
    }

    pub fn put_back(&mut self, rewriter: Option<Rewriter>) {
        if rewriter.is_some() {
            self.rewriter = rewriter;
        }
    }

    /// The attempt was answered with `status`. True when that was the prefill's fault: the same target is
    /// asked once more, without.
    pub fn was_refused(&mut self, status: u16) -> bool {
        let Some(leaf) = &self.last else { return false };
        if self.asked != ResumeMode::Continue || !matches!(status, 400 | 422) {
            return false;
        }
        self.refused.push(leaf.path.clone());
        true
    }
}

fn asks_for_usage(attempt: &Attempt) -> bool {
    #[derive(serde::Deserialize)]
    struct Options {
        #[serde(default)]
        include_usage: bool,
    }
    let body = attempt.body.clone().and_then(|bytes| crate::api::body::Body::parse(bytes).ok());
    body.and_then(|body| body.read::<Options>("stream_options")).is_some_and(|options| options.include_usage)
}
