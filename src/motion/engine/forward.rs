//! Commits an attempt's response and forwards it to the client as it arrives.
//!
//! A stream that breaks is never presented as complete: either another attempt continues it (`resume`), or it ends with an
//! error event. The plan decides which.

use super::attempt::wait::{Interruption, unless_interrupted};
use super::attempt_run::AttemptRun;
use super::attempt_usage::Observed;
use super::body_error::BodyError;
use super::caching::{self, CachedCall, Finished};
use super::content_kind::ContentKind;
use super::cost;
use super::downstream::{Aborted, Downstream};
use super::downstream_watch::DownstreamWatch;
use super::header_edit::{HeaderCase, edit_response_headers};
use super::keep_alive;
use super::orchestrator::{AttemptResult, NextAttempt, Orchestrator};
use super::response_body::ResponseBody;
use super::response_headers;
use super::resume::Resume;
use super::upstream_stream::StreamEvent;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderValue, StatusCode};
use judgment::route::attempt::Attempt;
use judgment::route::deadlines::TimeoutKind;
use judgment::route::outcome::Outcome;
use judgment::route::plan::{Decision, Reason};
use judgment::route::request_mode::RequestMode;
use knowledge::provider::rewriter::Rewriter;
use memory::state::targets::BreakerSignal;
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::chat::ProviderError;
use words::api::operation::{Operation, Terminator};
use words::config::policies::StreamRescue;
use words::error::{Error, Kind};

/// How long the end of a stream may take after its finish reason.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the rest of a response is read whose client has left.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(600);

/// A response that is being forwarded.
struct Forwarding {
    run: Box<AttemptRun>,
    body: Box<ResponseBody>,
    /// When bytes were last read from the provider, and last sent to the client.
    last_read: Instant,
    last_write: Instant,
}

/// How forwarding ended.
enum ForwardEnd {
    Complete,
    Broken(Error),
    /// The gateway stopped it: the total deadline, shutdown or a filter.
    Stopped(Error),
}

/// A response that broke after a part of it was sent to the client, and that may be resumed.
pub(super) struct Interrupted {
    body: Box<ResponseBody>,
    attempt: Arc<Attempt>,
    error: Error,
}

impl<D: Downstream> Orchestrator<'_, D> {
    /// Commits a response and forwards it.
    pub(super) async fn forward(
        &mut self,
        mut run: Box<AttemptRun>,
        mut watch: DownstreamWatch,
    ) -> Result<AttemptResult, Aborted> {
        self.commit(&run);
        let Some((header, body)) = run.take_response() else {
            return Err(self.abort(Error::internal("a response without a header was committed")));
        };
        let now = Instant::now();
        let mut forwarding = Forwarding { run, body, last_read: now, last_write: now };
        let mut parts = Vec::with_capacity(18);
        if !self.response_started {
            let header = self.client_header(header, &forwarding);
            parts.push(HttpTask::Header(header, false));
            self.response_started = true;
        } else if self.kept.resume.is_none() && !forwarding.body.shape.streams {
            // An early comment already made this response a stream.
            let error = Error::invalid_response("The provider answered with no stream.", "no events");
            return Box::pin(self.end_stream(&ProviderError::from(&error), error))
                .await
                .map(|()| AttemptResult::Complete);
        }
        let end = self.send_all(&mut forwarding, &mut watch, parts).await;
        let guarded = forwarding.run.layers.guarded.take();
        // Another attempt would go on behind text whose end the windows of this one have seen, and not those of the next.
        let may_resume = guarded.as_ref().is_none_or(|guarded| !guarded.has_windows());
        if let Some(guarded) = guarded {
            guarded.finish();
        }
        self.ctx.facts.state = forwarding.run.stream.state();
        let is_charged = self.settle_shared(&forwarding, matches!(end, Ok(ForwardEnd::Complete)));
        match end {
            Ok(ForwardEnd::Complete) => {
                self.forwarded(forwarding);
                Ok(AttemptResult::Complete)
            }
            Ok(ForwardEnd::Broken(error)) => {
                Box::pin(self.broken(forwarding, error, true, may_resume, is_charged)).await
            }
            Ok(ForwardEnd::Stopped(error)) => {
                Box::pin(self.broken(forwarding, error, false, false, is_charged)).await
            }
            Err(aborted) => {
                // What has arrived for others is read without waiting.
                let is_there = forwarding.run.layers.cached.as_ref().is_some_and(CachedCall::is_complete);
                if is_charged && (is_there || self.ctx.snapshot.settings.usage.drain) {
                    Box::pin(self.drain(&mut forwarding)).await;
                }
                self.response_ended(forwarding.body);
                Err(aborted)
            }
        }
    }

    /// Whether the request is charged for its response, which others may have read as well.
    fn settle_shared(&mut self, forwarding: &Forwarding, is_complete: bool) -> bool {
        let Forwarding { run, body, .. } = forwarding;
        let is_charged = run.is_charged(is_complete);
        if run.layers.cached.is_some() {
            if is_charged {
                self.ctx.record.forwarded()
            } else {
                self.ctx.facts.cache.saved = caching::saved(self.ctx, &run.attempt, body.summary())
            }
        }
        is_charged
    }

    /// Reads the rest of a response whose client has left, for a provider that charges all of it.
    async fn drain(&mut self, forwarding: &mut Forwarding) {
        let Forwarding { run, body, last_read, .. } = forwarding;
        let limit = Instant::now() + DRAIN_TIMEOUT;
        while body.error().is_none() && !body.is_finished() && Instant::now() < limit {
            let (deadline, _) =
                run.deadlines.idle_deadline(*last_read, body.shape.kind == ContentKind::Events, false);
            let event = tokio::select! {
                event = run.stream.next(Some(deadline.map_or(limit, |deadline| deadline.min(limit)))) => event,
                () = self.engine.shared.lifecycle.aborted() => return,
            };
            let StreamEvent::Task(task) = event else { return };
            *last_read = Instant::now();
            body.accept(task);
            run.stream.gather(|task| body.accept(task));
            drop(body.ready());
        }
    }

    /// Records whose response the client gets.
    fn commit(&mut self, run: &AttemptRun) {
        let state = run.stream.state();
        self.ctx.facts = run.facts();
        self.ctx.record.attempt_finished(&run.attempt, state, run.reason, None);
        if self.ctx.facts.cache.status.is_hit() {
            self.ctx.record.is_from_cache();
        }
        if run.is_charged_alone() {
            self.ctx.record.forwarded();
        }
        // A response made by the gateway, or for another request, says nothing about the target's latency.
        if let Some(memory) = run.attempt.target.state.get().filter(|_| run.calls_target()) {
            let now = Instant::now();
            memory.first_token(now.saturating_duration_since(run.started()), now);
        }
    }

    /// Finishes a response that was sent completely.
    fn forwarded(&mut self, forwarding: Forwarding) {
        let Forwarding { mut run, body, .. } = forwarding;
        if let Some(permit) = run.permit.take() {
            permit.finish(BreakerSignal::Success, Instant::now());
        }
        let status = run.stream.state().status.unwrap_or_default();
        run.layers.ends.end(Outcome::from_status(status));
        if !body.has_ended() {
            run.stream.drain();
        }
        self.response_ended(body);
        self.keep_items();
        if let Some(resume) = &self.kept.resume {
            self.engine.shared.metrics.record_rescue(resume.label());
        }
    }

    /// Takes what has observed the response, for the record.
    fn response_ended(&mut self, mut body: Box<ResponseBody>) {
        self.ctx.record.set_original(body.take_original());
        self.ctx.observers = body.into_observers();
    }

    /// Keeps the items of a translated response, for a client that believes them stored.
    fn keep_items(&self) {
        let keeps = self.ctx.snapshot.settings.limits.max_kept_items_bytes > 0;
        if !keeps || self.ctx.api.operation != Operation::Responses {
            return;
        }
        let client = self.ctx.record.client.as_ref().and_then(|client| client.id.as_deref());
        for (id, json) in self.ctx.observers.rewriter.iter().flat_map(Rewriter::items) {
            self.engine.shared.kept_items.insert(client, &id, json);
        }
    }

    /// Makes the client's response header from the provider's.
    fn client_header(
        &mut self,
        mut header: Box<ResponseHeader>,
        forwarding: &Forwarding,
    ) -> Box<ResponseHeader> {
        let body = &forwarding.body;
        let streams = body.shape.streams;
        self.ctx.record.streamed = streams;
        let model = body.summary().and_then(|summary| summary.model.as_deref());
        let attempt = &forwarding.run.attempt;
        self.ctx.facts.is_unpriced =
            forwarding.run.calls_target() && cost::is_unpriced(&self.ctx.prices, attempt, model);
        let ctx = &*self.ctx;
        if body.has_own_type() && header.status == StatusCode::CREATED {
            // The status is the client's API's as well, and OpenAI's has no other for what was made.
            let _ = header.set_status(StatusCode::OK);
        }
        let case = HeaderCase::for_response(ctx, &header);
        edit_response_headers(&mut header, case, |headers| {
            if body.has_own_type() {
                let media = if streams { "text/event-stream; charset=utf-8" } else { "application/json" };
                for name in [CONTENT_ENCODING, TRANSFER_ENCODING] {
                    headers.remove(name);
                }
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
            }
            if body.is_rewritten() || streams {
                headers.remove(CONTENT_LENGTH);
                if body.is_finished() && !streams {
                    headers.insert(CONTENT_LENGTH, body.ready_bytes().into());
                } else {
                    headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
                };
            }
            response_headers::add_gateway_headers(headers, ctx);
        });
        header
    }

    /// Sends what is ready and everything that follows, until the response ends.
    async fn send_all(
        &mut self,
        forwarding: &mut Forwarding,
        watch: &mut DownstreamWatch,
        mut parts: Vec<HttpTask>,
    ) -> Result<ForwardEnd, Aborted> {
        loop {
            let held = forwarding.body.held_bytes();
            let ready = if forwarding.body.has_provider_error() {
                forwarding.run.mask(&forwarding.body.ready())
            } else {
                forwarding.body.ready()
            };
            let error = forwarding.body.error().cloned();
            let done = forwarding.body.is_finished() && error.is_none();
            let chunks = ready.len();
            for (index, chunk) in ready.into_iter().enumerate() {
                if let Some(guarded) = &mut forwarding.run.layers.guarded {
                    guarded.copy(&chunk);
                }
                parts.push(HttpTask::Body(Some(chunk), done && index + 1 == chunks));
            }
            if done && chunks == 0 {
                parts.push(HttpTask::Body(None, true));
            }
            if done {
                // Before the client has the end of it: its next request finds it.
                let is_resumed = self.kept.resume.is_some();
                let finished = Finished { run: &forwarding.run, body: &forwarding.body, is_resumed };
                finished.store(&self.engine.caching, self.ctx);
            }
            if !parts.is_empty() {
                forwarding.last_write = Instant::now();
                if forwarding.body.has_content() {
                    self.ctx.record.traffic.first_byte.get_or_insert(forwarding.last_write);
                    self.ctx.record.traffic.first_token.get_or_insert(forwarding.last_write);
                }
                // These bytes are held until the client has taken them.
                forwarding.run.held.set_anyway(held);
                self.send(std::mem::take(&mut parts)).await?;
                forwarding.run.held.set_anyway(forwarding.body.held_bytes());
            }
            if let Some(error) = error {
                return Ok(forward_end(error, &forwarding.run));
            }
            if done {
                return Ok(ForwardEnd::Complete);
            }
            if let Some(end) = self.next_chunk(forwarding, watch).await? {
                return Ok(end);
            }
        }
    }

    /// Waits for the next chunk; keeps a silent stream's connection alive with comments.
    async fn next_chunk(
        &mut self,
        forwarding: &mut Forwarding,
        watch: &mut DownstreamWatch,
    ) -> Result<Option<ForwardEnd>, Aborted> {
        loop {
            let Forwarding { run, body, last_read, last_write } = &mut *forwarding;
            let is_stream = body.shape.kind == ContentKind::Events;
            let (deadline, kind) = run.deadlines.idle_deadline(*last_read, is_stream, false);
            let finished = body.has_finish_reason();
            let deadline = if finished { Some(*last_read + FINISH_TIMEOUT) } else { deadline };
            // Nothing is added to responses of the generic endpoint.
            let comments = self.ctx.record.streamed && self.ctx.api.mode == RequestMode::Api;
            let heartbeat = run.deadlines.heartbeat.filter(|_| comments).map(|every| *last_write + every);
            let is_heartbeat = heartbeat.is_some_and(|beat| deadline.is_none_or(|deadline| beat < deadline));
            let until = if is_heartbeat { heartbeat } else { deadline };
            let event = match unless_interrupted(self.client(watch), None, run.stream.next(until)).await {
                Ok(event) => event,
                Err(Interruption::Stopped(error)) => return Ok(Some(ForwardEnd::Stopped(error))),
                Err(_) => return Err(self.abort(Error::client_closed())),
            };
            match event {
                StreamEvent::Task(task) => {
                    *last_read = Instant::now();
                    body.accept(task);
                    run.stream.gather(|task| body.accept(task));
                    return Ok(None);
                }
                StreamEvent::TimedOut if is_heartbeat => {
                    *last_write = Instant::now();
                    self.send(vec![HttpTask::Body(Some(keep_alive::bytes(self.ctx.api.operation)), false)])
                        .await?;
                }
                // Only the end marker is missing: the gateway adds it.
                StreamEvent::TimedOut | StreamEvent::Failed(_) if finished => {
                    body.close();
                    return Ok(None);
                }
                StreamEvent::TimedOut => {
                    let error = run.timeout_error(kind);
                    run.layers.cached.as_ref().inspect(|call| call.close());
                    return Ok(Some(match kind {
                        TimeoutKind::Total => ForwardEnd::Stopped(error),
                        _ => ForwardEnd::Broken(error),
                    }));
                }
                StreamEvent::Failed(failure) => return Ok(Some(ForwardEnd::Broken(*failure.error))),
            }
        }
    }

    /// Handles a response that broke after it was started. `by_provider`: the gateway did not stop it; `may_resume`: another attempt
    /// may continue it.
    async fn broken(
        &mut self,
        forwarding: Forwarding,
        error: Error,
        by_provider: bool,
        may_resume: bool,
        is_charged: bool,
    ) -> Result<AttemptResult, Aborted> {
        let Forwarding { mut run, body, .. } = forwarding;
        if by_provider && run.is_from_cache() && body.error().is_some() {
            caching::remove_unreadable(&self.engine.caching, self.ctx, &run.cache);
        }
        run.layers.ends.end(Outcome::Interrupted);
        let (attempt, deadlines, permit) = run.into_rest();
        if let Some(permit) = permit.filter(|_| by_provider) {
            let signal = Outcome::Interrupted.breaker_signal(attempt.target.policies.breaker.as_ref());
            permit.finish(signal, Instant::now());
        }
        self.ctx.record.response_broke(&error);
        if let Some(summary) = body.summary().filter(|_| is_charged) {
            self.ctx.record.used(Observed::of(&attempt, summary));
        }
        let streamed = self.ctx.record.streamed;
        let mismatch = matches!(body.error(), Some(BodyError::Mismatch));
        let may_resume = may_resume && streamed && !mismatch && deadlines.rescue == StreamRescue::Resume;
        let interrupted = Interrupted { body, attempt, error };
        if may_resume && Resume::is_possible(&interrupted.body, self.ctx.api.operation) {
            return Ok(AttemptResult::Interrupted(Box::new(interrupted)));
        }
        if !streamed {
            // No error can be sent in the middle of a document: the connection is closed, so that the part is not taken for
            // the whole.
            return Err(self.abort(interrupted.error));
        }
        self.end_interrupted(interrupted).await.map(|()| AttemptResult::Complete)
    }

    /// Continues a broken stream with another attempt if the plan has one; otherwise ends it.
    pub(super) async fn resume_from(
        &mut self,
        interrupted: Interrupted,
    ) -> Result<Option<NextAttempt>, Aborted> {
        let decision = self.plan.next(&Outcome::Interrupted, &mut self.env);
        let Decision::Attempt { target, wait, reason } = decision else {
            return self.end_interrupted(interrupted).await.map(|()| None);
        };
        let Interrupted { body, attempt, error } = interrupted;
        let before = self.kept.resume.take().map(|resume| *resume);
        match Resume::new(*body, self.ctx, &attempt, &error, before) {
            Some(resume) => {
                self.kept.resume = Some(Box::new(resume));
                let reason = if reason == Reason::Retry { reason } else { Reason::Rescue };
                Ok(Some(NextAttempt { target, wait, reason }))
            }
            None => self.end_stream(&ProviderError::from(&error), error).await.map(|()| None),
        }
    }

    /// Ends a broken stream with an error event, because no attempt continues it.
    async fn end_interrupted(&mut self, interrupted: Interrupted) -> Result<(), Aborted> {
        let Interrupted { mut body, attempt, error } = interrupted;
        if self.kept.resume.is_some() {
            self.engine.shared.metrics.record_rescue("failed");
        }
        let dialect = self.ctx.api.dialect;
        let provider = attempt.target.provider.id();
        // The provider's error keeps its class, so that the client can act on it; the message says what became of it.
        let provider_error = match body.error() {
            Some(BodyError::Provider(own, _)) => {
                ProviderError { message: error.message.clone(), ..own.clone() }
            }
            _ => ProviderError::from(&error),
        };
        let event = body.fail(&provider_error, dialect, provider);
        let event = attempt.credential_mask().bytes(event);
        self.response_ended(body);
        self.send_last_event(event, error).await
    }

    /// Ends a stream that was already started with an error event.
    pub(super) async fn end_stream(
        &mut self,
        provider_error: &ProviderError,
        error: Error,
    ) -> Result<(), Aborted> {
        let dialect = self.ctx.api.dialect;
        let mut out = Vec::new();
        match self.kept.resume.as_mut().and_then(|resume| resume.take_rewriter()) {
            Some(mut rewriter) => {
                self.engine.shared.metrics.record_rescue("failed");
                rewriter.fail(provider_error, &mut out);
                self.ctx.observers.rewriter = Some(rewriter);
            }
            None => {
                let provider = self.ctx.facts.attempt.as_ref().map(|attempt| attempt.target.provider.id());
                provider_error.event(dialect, provider, 0, &mut out);
            }
        }
        self.send_last_event(Bytes::from(out), error).await
    }

    async fn send_last_event(&mut self, event: Bytes, error: Error) -> Result<(), Aborted> {
        // A list is one document: without its end, the error in it could not be read.
        let is_denied_list =
            error.kind == Kind::HooksFailed && self.ctx.api.operation == Operation::ListGenerateContent;
        if self.ctx.api.operation.terminator() == Terminator::EndOfBody && !is_denied_list {
            // The dialect marks no end, and its clients do not all read errors in a stream: only a body that breaks off cannot
            // be taken for a complete one.
            self.send(vec![HttpTask::Body(Some(event), false)]).await?;
            return Err(self.abort(error));
        }
        self.ctx.failure = Some(error);
        if !self.downstream.body_is_complete() {
            self.downstream.close_after_response();
        }
        self.send(vec![HttpTask::Body(Some(event), true)]).await
    }
}

/// How a started response ends because of an error in it.
fn forward_end(error: BodyError, run: &AttemptRun) -> ForwardEnd {
    let error = match error {
        BodyError::Denied(error) => return ForwardEnd::Stopped(*error),
        BodyError::Provider(provider_error, _) => {
            let message =
                format!("The provider broke its answer off: {}", run.masked(provider_error).message);
            Error::invalid_response(message, "error event")
        }
        BodyError::Malformed(cause) => {
            Error::invalid_response("The provider's stream cannot be read any further. Try again.", cause)
        }
        BodyError::Truncated => Error::invalid_response(
            "The provider closed the stream before the answer was complete. Try again.",
            "stream ended without a finish",
        ),
        BodyError::Mismatch => Error::invalid_response(
            "The provider broke its answer off, and no other attempt could go on from there. Try again.",
            "the second answer does not fit the first",
        ),
    };
    ForwardEnd::Broken(run.with_provider(error))
}
