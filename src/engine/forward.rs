//! A good answer on its way to the caller: committed, handed on as it comes, and ended as it ended.
//!
//! A stream that breaks is never passed off as whole: another attempt goes on with it (`rescue`) or an error
//! event ends it.

use super::failure;
use super::header_edit::{HeaderCase, edit_response_headers};
use super::orchestrator::{AttemptResult, AttemptRun, HEARTBEAT, NextAttempt, Orchestrator, blame};
use super::pending_response::explain;
use super::response;
use super::response_body::{BodyError, ContentKind, ResponseBody};
use super::resume::Resume;
use super::upstream_stream::{AT_ONCE, DownstreamWatch, StreamEvent, UpstreamStream};
use crate::api::chat::ProviderError;
use crate::config::rescue::StreamRescue;
use crate::error::Error;
use crate::route::deadlines::{Deadlines, TimeoutKind};
use crate::route::outcome::Outcome;
use crate::route::plan::{Decision, Reason};
use crate::route::request_mode::RequestMode;
use crate::state::targets::{BreakerSignal, Permit};
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use pingora::http::ResponseHeader;
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use std::time::{Duration, Instant};

/// How long the end of a stream may take to come after its finish reason.
const FINISHED: Duration = Duration::from_secs(2);

/// An answer that is being handed on.
struct Forwarding {
    flight: UpstreamStream,
    patience: Deadlines,
    incoming: ResponseBody,
    visit: Option<Permit>,
    /// When something was last heard of the provider, and last told to the caller.
    heard: Instant,
    told: Instant,
}

/// How the provider's side ended.
enum ForwardEnd {
    Whole,
    ResumeSource(Error),
    /// Not the provider's doing: our own limits.
    Stopped(Error),
}

impl Orchestrator<'_> {
    /// Commits an answer and hands it on to its end.
    pub(crate) async fn relay(
        &mut self,
        running: AttemptRun,
        mut upload: DownstreamWatch,
    ) -> Result<AttemptResult> {
        let AttemptRun { trial, visit, why } = running;
        let errand = trial.flight.errand.clone();
        self.ctx.attempt_handle = Some(errand.clone());
        self.ctx.record.attempt_finished(&errand, why, None);
        self.remember_latency(&errand.attempt.target, trial.begun());
        let Some((flight, patience, head, incoming)) = trial.into_parts() else {
            return Err(failure::fail_request(
                self.ctx,
                Error::internal("an answer without a head was committed"),
            ));
        };
        let now = Instant::now();
        let mut passing = Forwarding { flight, patience, incoming, visit, heard: now, told: now };
        let mut tasks = Vec::with_capacity(18);
        if !self.begun {
            let head = self.head(head, &passing);
            tasks.push(HttpTask::Header(Box::new(head), false));
            self.begun = true;
        } else if self.rescue.is_none() && passing.incoming.shape != ContentKind::Events {
            // The caller has been promised events, by a comment.
            let error = Error::invalid_response("The provider answered with no stream.", "no events");
            return Box::pin(self.end_with((ProviderError::from(&error), Some(error))))
                .await
                .map(|()| AttemptResult::Done);
        }
        let end = match self.hand_on(&mut passing, &mut upload, tasks).await {
            Ok(end) => end,
            Err(left) => {
                (self.ctx.tap, self.ctx.rewriter) = passing.incoming.into_watchers();
                return Err(left);
            }
        };
        match end {
            ForwardEnd::Whole => {
                if let Some(visit) = passing.visit.take() {
                    visit.finish(BreakerSignal::Success, Instant::now());
                }
                if !passing.incoming.has_ended() {
                    passing.flight.settle();
                }
                (self.ctx.tap, self.ctx.rewriter) = passing.incoming.into_watchers();
                if let Some(rescue) = &self.rescue {
                    self.engine.shared.metrics.record_rescue(rescue.word());
                }
                Ok(AttemptResult::Done)
            }
            ForwardEnd::ResumeSource(error) => Box::pin(self.broken(passing, error, true)).await,
            ForwardEnd::Stopped(error) => Box::pin(self.broken(passing, error, false)).await,
        }
    }

    /// The head the caller gets.
    fn head(&mut self, mut head: Box<ResponseHeader>, passing: &Forwarding) -> ResponseHeader {
        let incoming = &passing.incoming;
        let translated = incoming.is_translated();
        let streams = match translated {
            true => passing.flight.errand.attempt.translation.as_ref().is_some_and(|t| t.streams()),
            false => incoming.shape == ContentKind::Events,
        };
        self.ctx.record.streamed = streams;
        let ctx = &*self.ctx;
        let names = HeaderCase::for_response(ctx, &head);
        edit_response_headers(&mut head, names, |headers| {
            if translated {
                let media = if streams { "text/event-stream; charset=utf-8" } else { "application/json" };
                for name in [CONTENT_ENCODING, TRANSFER_ENCODING] {
                    headers.remove(name);
                }
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
            }
            if incoming.is_rewritten() || streams {
                headers.remove(CONTENT_LENGTH);
                match incoming.is_over() && !streams {
                    true => headers.insert(CONTENT_LENGTH, incoming.ready_bytes().into()),
                    false => headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked")),
                };
            }
            response::add_gateway_headers(headers, ctx);
        });
        *head
    }

    /// Writes what is there and what comes, until the provider's side ends.
    async fn hand_on(
        &mut self,
        passing: &mut Forwarding,
        upload: &mut DownstreamWatch,
        mut tasks: Vec<HttpTask>,
    ) -> Result<ForwardEnd> {
        loop {
            let ready = passing.incoming.ready();
            let trouble = passing.incoming.trouble().cloned();
            let done = passing.incoming.is_over() && trouble.is_none();
            let pieces = ready.len();
            for (index, piece) in ready.into_iter().enumerate() {
                tasks.push(HttpTask::Body(Some(piece), done && index + 1 == pieces));
            }
            if done && pieces == 0 {
                tasks.push(HttpTask::Body(None, true));
            }
            if !tasks.is_empty() {
                passing.told = Instant::now();
                if passing.incoming.has_content() {
                    self.ctx.record.first_byte.get_or_insert(passing.told);
                    self.ctx.record.first_token.get_or_insert(passing.told);
                }
                self.write(std::mem::take(&mut tasks)).await?;
            }
            if let Some(trouble) = trouble {
                return Ok(ForwardEnd::ResumeSource(self.explained(&trouble, passing)));
            }
            if done {
                return Ok(ForwardEnd::Whole);
            }
            if let Some(end) = self.listen(passing, upload).await? {
                return Ok(end);
            }
        }
    }

    /// Waits for the next piece; keeps a silent stream's caller with comments.
    async fn listen(
        &mut self,
        passing: &mut Forwarding,
        upload: &mut DownstreamWatch,
    ) -> Result<Option<ForwardEnd>> {
        loop {
            let (deadline, why) = passing.patience.idle_deadline(passing.heard);
            let finished = passing.incoming.may_end();
            let deadline = if finished { Some(passing.heard + FINISHED) } else { deadline };
            // What is only passed on stays as it is.
            let ours = self.ctx.record.streamed && self.ctx.mode == RequestMode::Api;
            let beat = passing.patience.heartbeat.filter(|_| ours);
            let beat = beat.map(|every| passing.told + every);
            let is_beat = beat.is_some_and(|beat| deadline.is_none_or(|deadline| beat < deadline));
            let until = if is_beat { beat } else { deadline };
            let heard = tokio::select! {
                biased;
                heard = passing.flight.next(until) => heard,
                () = upload.watch(self.session, self.ctx) => {
                    return Err(failure::fail_request(self.ctx, Error::client_closed()));
                }
                () = self.engine.shared.lifecycle.aborted() => return Ok(Some(ForwardEnd::Stopped(Error::draining()))),
            };
            match heard {
                StreamEvent::Task(task) => {
                    passing.heard = Instant::now();
                    let incoming = &mut passing.incoming;
                    incoming.take(task);
                    passing.flight.gather(AT_ONCE, |task| incoming.take(task)).await;
                    return Ok(None);
                }
                // All was told but the end: what is missing is supplied.
                StreamEvent::TimedOut if finished && !is_beat => {
                    passing.incoming.close();
                    return Ok(None);
                }
                StreamEvent::Failed(_) | StreamEvent::Nothing if finished => {
                    passing.incoming.close();
                    return Ok(None);
                }
                StreamEvent::TimedOut if is_beat => {
                    passing.told = Instant::now();
                    self.write(vec![HttpTask::Body(Some(HEARTBEAT), false)]).await?;
                }
                StreamEvent::TimedOut => {
                    let leaf = &passing.flight.errand.attempt.target;
                    let error = passing.patience.timeout_error(why, leaf, self.ctx.started);
                    let ours = why == TimeoutKind::Total;
                    return Ok(Some(if ours {
                        ForwardEnd::Stopped(error)
                    } else {
                        ForwardEnd::ResumeSource(error)
                    }));
                }
                heard => return Ok(Some(ForwardEnd::ResumeSource(explain(&passing.flight.errand, heard)))),
            }
        }
    }

    fn explained(&self, trouble: &BodyError, passing: &Forwarding) -> Error {
        let leaf = &passing.flight.errand.attempt.target;
        let error = match trouble {
            BodyError::Error(fault, _) => {
                let message = format!("The provider broke its answer off: {}", fault.message);
                Error::invalid_response(message, "error event")
            }
            BodyError::Malformed(cause) => Error::invalid_response(
                "The provider's stream cannot be read any further. Try again.",
                *cause,
            ),
            BodyError::Early => Error::invalid_response(
                "The provider closed the stream before the answer was complete. Try again.",
                "stream ended without a finish",
            ),
            BodyError::Misfit => Error::invalid_response(
                "The provider broke its answer off, and no other attempt could go on from there. Try again.",
                "the second answer does not fit the first",
            ),
        };
        error.with_provider(leaf.provider.id())
    }

    /// The answer broke after it began.
    async fn broken(&mut self, passing: Forwarding, error: Error, providers: bool) -> Result<AttemptResult> {
        let Forwarding { flight, patience, mut incoming, visit, .. } = passing;
        let errand = flight.errand.clone();
        drop(flight);
        if let Some(visit) = visit.filter(|_| providers) {
            visit.finish(blame(&errand.attempt.target, &Outcome::Interrupted), Instant::now());
        }
        self.ctx.record.response_broke(&error);
        let misfit = matches!(incoming.trouble(), Some(BodyError::Misfit));
        let may = self.ctx.record.streamed && !misfit && providers && patience.rescue == StreamRescue::Resume;
        if may && Resume::is_possible(&incoming, self.ctx.operation) {
            let step = self.plan.next(&Outcome::Interrupted, &mut self.known);
            if let Decision::Attempt { target: leaf, wait, reason: why } = step {
                let why = if why == Reason::Retry { why } else { Reason::Rescue };
                let rescue = Resume::new(
                    incoming,
                    self.ctx,
                    &errand.attempt,
                    &error,
                    self.rescue.take().map(|rescue| *rescue),
                );
                if let Some(rescue) = rescue {
                    self.rescue = Some(Box::new(rescue));
                    return Ok(AttemptResult::RetryAs(NextAttempt { leaf, wait, why }));
                }
                return self
                    .end_with((ProviderError::from(&error), Some(error)))
                    .await
                    .map(|()| AttemptResult::Done);
            }
        }
        if !self.ctx.record.streamed {
            // Nothing can be said any more: the connection breaks, so that a part is not taken for the whole.
            return Err(failure::fail_request(self.ctx, error));
        }
        if self.rescue.is_some() {
            self.engine.shared.metrics.record_rescue("failed");
        }
        let dialect = self.ctx.operation.dialect();
        let event = incoming.fail(&ProviderError::from(&error), dialect, errand.attempt.target.provider.id());
        (self.ctx.tap, self.ctx.rewriter) = incoming.into_watchers();
        self.close_with(event, Some(error)).await.map(|()| AttemptResult::Done)
    }

    /// Ends a stream that was begun with an error event.
    pub(crate) async fn end_with(&mut self, (fault, error): (ProviderError, Option<Error>)) -> Result<()> {
        let dialect = self.ctx.operation.dialect();
        let mut out = Vec::new();
        match self.rescue.as_mut().and_then(|rescue| rescue.rewriter()) {
            Some(mut rewriter) => {
                self.engine.shared.metrics.record_rescue("failed");
                rewriter.fail(&fault, &mut out);
                self.ctx.rewriter = Some(rewriter);
            }
            None => {
                let provider =
                    self.ctx.attempt_handle.as_ref().map(|errand| errand.attempt.target.provider.id());
                fault.event(dialect, provider, 0, &mut out);
            }
        }
        self.close_with(Bytes::from(out), error).await
    }

    async fn close_with(&mut self, event: Bytes, error: Option<Error>) -> Result<()> {
        self.ctx.failure = error;
        if !self.session.is_body_done() {
            self.session.set_keepalive(None);
        }
        self.write(vec![HttpTask::Body(Some(event), true)]).await
    }

    /// Notes how soon the target had something to say.
    fn remember_latency(&self, leaf: &crate::route::target::Target, begun: Instant) {
        if let Some(target) = leaf.state.get() {
            let now = Instant::now();
            target.first_token(now.saturating_duration_since(begun), now);
        }
    }
}
