//! A stream that broke after the client got a part of it, and how the next attempt continues it.
//!
//! Holds only what must be kept between two attempts. `provider::rescue` makes the request that continues the stream,
//! and checks that the new response fits what the client already has.

use super::request_context::RequestContext;
use super::response_body::{ResponseBody, ResumeSource};
use jiff::Timestamp;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::outcome::Outcome;
use judgment::route::target::Target;
use knowledge::provider::rescue::{self, Prefill, ResumeMode};
use knowledge::provider::rewriter::Rewriter;
use std::sync::Arc;
use words::api::chat::EncodeContext;
use words::api::operation::Operation;
use words::error::Error;

/// A broken stream that is to be continued.
pub(super) struct Resume {
    /// Writes the client's stream; `None` while an attempt has it.
    rewriter: Option<Rewriter>,
    mode: ResumeMode,
    /// The paths of targets that refused a prefill.
    refused: Vec<String>,
    /// The target of the last attempt.
    last: Option<Arc<Target>>,
    /// Why the stream broke.
    error: Error,
}

impl Resume {
    /// Whether a broken response can be continued.
    pub fn is_possible(body: &ResponseBody, operation: Operation) -> bool {
        body.can_resume() && (body.is_translated() || rescue::decoder(operation, true).is_some())
    }

    /// `None` if the stream cannot be continued. `before`: the resume that this stream was already a part of.
    pub fn new(
        body: ResponseBody,
        ctx: &RequestContext,
        attempt: &Attempt,
        error: &Error,
        before: Option<Self>,
    ) -> Option<Self> {
        let rewriter = match body.into_resume_source() {
            ResumeSource::Rewriter(rewriter) => *rewriter,
            ResumeSource::Sent(sent) => {
                let context = EncodeContext {
                    id: ctx.span.trace_id.to_string(),
                    created: Timestamp::now().as_second().unsigned_abs(),
                    model: attempt.model.as_deref().unwrap_or_default().to_owned(),
                    provider: attempt.target.provider.id(),
                    strict: attempt.target.policies.is_strict(),
                    is_own_dialect: true,
                    include_usage: includes_usage(attempt) && !attempt.hides_usage,
                    request: None,
                };
                rescue::from_sent_events(ctx.api.operation, context, &sent?)?
            }
        };
        let refused = before.map(|before| before.refused).unwrap_or_default();
        rewriter.transcript().is_some_and(|transcript| transcript.can_resume()).then_some(Self {
            rewriter: Some(rewriter),
            mode: ResumeMode::Restart,
            refused,
            last: None,
            error: error.clone(),
        })
    }

    /// The attempt that continues the stream at `target`: with the text sent so far as a prefill if the model accepts
    /// one, otherwise with the original request. With the request that it was made of, where that is not the original.
    ///
    /// # Errors
    /// As [`Attempt::new`]; 400 if the response could not be read into the client's stream.
    pub fn attempt(
        &mut self,
        target: &Arc<Target>,
        request: &Request,
    ) -> Result<(Attempt, Option<Request>), Error> {
        self.last = Some(Arc::clone(target));
        self.mode = ResumeMode::Restart;
        let request = &*request.for_target(target)?;
        if let Some(prefilled) = self.prefilled(target, request)
            && let Ok(attempt) = Attempt::new(Arc::clone(target), &prefilled)
        {
            self.mode = ResumeMode::Continue;
            return Ok((self.with_decoder(attempt, request.operation)?, Some(prefilled)));
        }
        let attempt = Attempt::new(Arc::clone(target), request)?;
        Ok((self.with_decoder(attempt, request.operation)?, None))
    }

    fn with_decoder(&mut self, attempt: Attempt, operation: Operation) -> Result<Attempt, Error> {
        let chat = attempt.translation.as_ref().and_then(|translation| translation.decoder(true));
        let decoder = chat.or_else(|| rescue::decoder(operation, true)).ok_or_else(|| {
            Error::bad_request("The broken stream cannot be gone on with at this provider.")
        })?;
        if let Some(rewriter) = &mut self.rewriter {
            rewriter.resume(decoder, self.mode);
        }
        Ok(attempt)
    }

    fn prefilled(&self, target: &Arc<Target>, request: &Request) -> Option<Request> {
        if self.refused.contains(&target.path) {
            return None;
        }
        let body = request.body.as_ref()?;
        let transcript = self.rewriter.as_ref()?.transcript()?;
        let model = target.model().or(request.model.as_deref()).unwrap_or_default();
        let prefill = target.provider.prefill(model);
        if matches!(prefill, Prefill::No) {
            return None;
        }
        let bytes = rescue::request(request.operation, body, transcript, prefill)?;
        let body = words::api::body::Body::parse(bytes).ok()?;
        Some(Request { body: Some(body), ..request.clone() })
    }

    /// The outcome label of the rescue metric.
    pub fn label(&self) -> &'static str {
        match self.mode {
            ResumeMode::Continue => "resumed",
            ResumeMode::Restart => "replayed",
        }
    }

    /// Why the stream broke.
    pub fn error(&self) -> Error {
        self.error.clone()
    }

    /// Takes the rewriter, for the response that continues the stream.
    pub(crate) fn take_rewriter(&mut self) -> Option<Rewriter> {
        self.rewriter.take()
    }

    pub(crate) fn return_rewriter(&mut self, rewriter: Option<Rewriter>) {
        if rewriter.is_some() {
            self.rewriter = rewriter;
        }
    }

    /// The outcome of a failed attempt for the plan. A request that was refused because of its prefill is worth another
    /// attempt at the same target without one.
    pub fn classify(&mut self, outcome: Outcome) -> Outcome {
        match (&self.last, outcome) {
            (Some(target), Outcome::Response { status: 400 | 422, .. })
                if self.mode == ResumeMode::Continue =>
            {
                self.refused.push(target.path.clone());
                Outcome::PrefillRefused
            }
            _ => outcome,
        }
    }
}

fn includes_usage(attempt: &Attempt) -> bool {
    #[derive(serde::Deserialize)]
    struct Options {
        #[serde(default)]
        include_usage: bool,
    }
    let body = attempt.body.clone().and_then(|bytes| words::api::body::Body::parse(bytes).ok());
    body.and_then(|body| body.read::<Options>("stream_options")).is_some_and(|options| options.include_usage)
}
