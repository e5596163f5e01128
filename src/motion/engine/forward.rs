//! Forwards a committed response to the client as it arrives.
//!
//! A stream that breaks is never presented as complete: either another attempt continues it (`resume`), or it ends with an
//! error event. The plan decides which.

use super::attempt_end;
use super::attempt_run::AttemptRun;
use super::attempt_usage::Observed;
use super::body_error::BodyError;
use super::caching::{self, CachedCall, CompleteResponse};
use super::client::{Client, Interruption};
use super::content_kind::ContentKind;
use super::cost;
use super::downstream::{Aborted, Downstream};
use super::downstream_watch::DownstreamWatch;
use super::header_edit::{HeaderCase, edit_response_headers};
use super::keep_alive;
use super::request_context::RequestContext;
use super::response_body::ResponseBody;
use super::response_headers;
use super::resume::Resume;
use super::upstream_stream::StreamEvent;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderValue, StatusCode};
use judgment::route::attempt::Attempt;
use judgment::route::deadlines::TimeoutKind;
use judgment::route::outcome::Outcome;
use judgment::route::request_mode::RequestMode;
use memory::state::targets::BreakerSignal;
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::config::policies::StreamRescue;
use words::error::Error;

/// How long the end of a stream may take after its finish reason.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the rest of a response is read whose client has left.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(600);

/// A response that is being forwarded.
struct Forwarding<'c, 'a, D> {
    client: &'c mut Client<'a, D>,
    /// The broken stream that the response continues.
    resume: Option<&'c Resume>,
    run: Box<AttemptRun>,
    body: Box<ResponseBody>,
    /// When bytes were last read from the provider, and last sent to the client.
    last_read: Instant,
    last_write: Instant,
    /// The client has the last event: it may leave.
    sent_last_event: bool,
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

/// Commits the response of an attempt and forwards it to its end. `resume`: the broken stream that it continues; `Some`: it broke, and
/// may be resumed.
pub(super) async fn forward<D: Downstream>(
    client: &mut Client<'_, D>,
    resume: Option<&Resume>,
    mut run: Box<AttemptRun>,
    mut watch: DownstreamWatch,
) -> Result<Option<Box<Interrupted>>, Aborted> {
    attempt_end::committed(client.ctx, &run);
    let Some((header, body)) = run.take_response() else {
        return Err(client.abort(Error::internal("a response without a header was committed")));
    };
    let mut parts = Vec::with_capacity(18);
    if !client.response_started {
        parts.push(HttpTask::Header(client_header(client.ctx, header, &run, &body), false));
        client.response_started = true;
    } else if resume.is_none() && !body.shape.streams {
        // An early comment already made this response a stream.
        let error = Error::invalid_response("The provider answered with no stream.", "no events");
        let provider_error = ProviderError::from(&error);
        return Box::pin(client.end_stream(&provider_error, error, None)).await.map(|()| None);
    }
    let now = Instant::now();
    let mut forwarding =
        Forwarding { client, resume, run, body, last_read: now, last_write: now, sent_last_event: false };
    let end = forwarding.send_all(&mut watch, parts).await;
    forwarding.ended(end).await
}

impl<D: Downstream> Forwarding<'_, '_, D> {
    /// Handles the end, however it came.
    async fn ended(mut self, end: Result<ForwardEnd, Aborted>) -> Result<Option<Box<Interrupted>>, Aborted> {
        let guarded = self.run.layers.guarded.take();
        // Another attempt would go on behind text whose end the windows of this one have seen, and not those of the next.
        let may_resume = guarded.as_ref().is_none_or(|guarded| !guarded.has_windows());
        if let Some(guarded) = guarded {
            guarded.finish();
        }
        self.client.ctx.facts.state = self.run.stream.state();
        let is_charged = self.settle_shared(matches!(end, Ok(ForwardEnd::Complete)));
        match end {
            Ok(ForwardEnd::Complete) => {
                self.complete();
                Ok(None)
            }
            Ok(ForwardEnd::Broken(error)) => Box::pin(self.broken(error, true, may_resume, is_charged)).await,
            Ok(ForwardEnd::Stopped(error)) => Box::pin(self.broken(error, false, false, is_charged)).await,
            Err(aborted) => {
                // What has arrived for others is read without waiting.
                let is_there = self.run.layers.cached.as_ref().is_some_and(CachedCall::is_complete);
                if is_charged && (is_there || self.client.ctx.snapshot.settings.usage.drain) {
                    Box::pin(self.drain()).await;
                }
                keep_observers(self.client.ctx, self.body);
                Err(aborted)
            }
        }
    }

    /// Whether the request is charged for its response, which others may have read as well.
    fn settle_shared(&mut self, is_complete: bool) -> bool {
        let Self { client, run, body, .. } = self;
        let is_charged = run.is_charged(is_complete);
        if run.layers.cached.is_some() {
            if is_charged {
                client.ctx.record.forwarded();
            } else {
                client.ctx.facts.cache.saved = caching::saved(client.ctx, &run.attempt, body.summary());
            }
        }
        is_charged
    }

    /// Reads the rest of a response whose client has left, for a provider that charges all of it.
    async fn drain(&mut self) {
        let Self { client, run, body, last_read, .. } = self;
        let limit = Instant::now() + DRAIN_TIMEOUT;
        while body.error().is_none() && !body.is_finished() && Instant::now() < limit {
            let (deadline, _) =
                run.deadlines.idle_deadline(*last_read, body.shape.kind == ContentKind::Events, false);
            let event = tokio::select! {
                event = run.stream.next(Some(deadline.map_or(limit, |deadline| deadline.min(limit)))) => event,
                () = client.engine.shared.lifecycle.aborted() => return,
            };
            let StreamEvent::Task(task) = event else { return };
            *last_read = Instant::now();
            body.accept(task);
            run.stream.gather(|task| body.accept(task));
            drop(body.ready());
        }
    }

    /// The client has left: what that means for a response of which it may have everything. `Err`: it has not.
    fn client_left(&mut self, aborted: Aborted) -> Result<ForwardEnd, Aborted> {
        if !self.sent_last_event {
            return Err(aborted);
        }
        self.client.ctx.failure = None;
        self.client.downstream.close_after_response();
        if !self.body.is_finished() {
            self.store();
        }
        Ok(ForwardEnd::Complete)
    }

    /// Stores a complete response in the cache, for the requests that follow.
    fn store(&mut self) {
        let complete =
            CompleteResponse { run: &self.run, body: &self.body, is_resumed: self.resume.is_some() };
        complete.store(&self.client.engine.caching, self.client.ctx);
    }

    /// Keeps the items of a translated response, for a client that believes them stored.
    fn keep_items(&self) {
        let ctx = &*self.client.ctx;
        let keeps = ctx.snapshot.settings.limits.max_kept_items_bytes > 0;
        if !keeps || ctx.api.operation != Operation::Responses {
            return;
        }
        let owner = ctx.record.client.as_ref().and_then(|client| client.id.as_deref());
        for (id, json) in self.body.items() {
            self.client.engine.shared.kept_items.insert(owner, &id, json);
        }
    }

    /// Finishes a response that was sent completely.
    fn complete(self) {
        let Self { client, resume, mut run, body, .. } = self;
        let status = run.stream.state().status.unwrap_or_default();
        let outcome = Outcome::from_status(status);
        if let Some(permit) = run.permit.take() {
            let target = &run.attempt.target;
            let signal = match target.api {
                // What an API refuses has a response as well.
                Some(_) => outcome.breaker_signal(target.policies.breaker.as_ref()),
                None => BreakerSignal::Success,
            };
            permit.finish(signal, Instant::now());
        }
        run.layers.ends.end(outcome);
        if !body.has_ended() || run.stream.is_cut() {
            run.stream.drain();
        }
        keep_observers(client.ctx, body);
        if let Some(resume) = resume {
            client.engine.shared.metrics.record_rescue(resume.label());
        }
    }

    /// Sends what is ready and everything that follows, until the response ends.
    async fn send_all(
        &mut self,
        watch: &mut DownstreamWatch,
        mut parts: Vec<HttpTask>,
    ) -> Result<ForwardEnd, Aborted> {
        loop {
            let held = self.body.held_bytes();
            let ready = if self.body.has_provider_error() {
                self.run.mask(&self.body.ready())
            } else {
                self.body.ready()
            };
            let error = self.body.error().cloned();
            let done = self.body.is_finished() && error.is_none();
            let chunks = ready.len();
            for (index, chunk) in ready.into_iter().enumerate() {
                if let Some(guarded) = &mut self.run.layers.guarded {
                    guarded.copy(&chunk);
                }
                parts.push(HttpTask::Body(Some(chunk), done && index + 1 == chunks));
            }
            if done && chunks == 0 {
                parts.push(HttpTask::Body(None, true));
            }
            if done {
                // Before the client has the end of it: its next request finds it.
                self.store();
            }
            if (done || self.body.has_last_event()) && !self.sent_last_event {
                self.keep_items();
            }
            if !parts.is_empty() {
                self.last_write = Instant::now();
                if self.body.has_content() {
                    let traffic = &mut self.client.ctx.record.traffic;
                    traffic.first_byte.get_or_insert(self.last_write);
                    if traffic.first_token.is_none() {
                        traffic.first_token = Some(self.last_write);
                        self.run.stream.note_content();
                    }
                }
                // These bytes are held until the client has taken them.
                self.run.held.set_anyway(held);
                if let Err(aborted) = self.client.send(std::mem::take(&mut parts)).await {
                    return self.client_left(aborted);
                }
                self.sent_last_event |= self.body.has_last_event();
                self.run.held.set_anyway(self.body.held_bytes());
            }
            if let Some(error) = error {
                return Ok(forward_end(error, &self.run));
            }
            if done {
                return Ok(ForwardEnd::Complete);
            }
            if let Some(end) = self.next_chunk(watch).await? {
                return Ok(end);
            }
        }
    }

    /// Waits for the next chunk; keeps a silent stream's connection alive with comments.
    async fn next_chunk(&mut self, watch: &mut DownstreamWatch) -> Result<Option<ForwardEnd>, Aborted> {
        loop {
            let Self { client, run, body, last_read, last_write, .. } = self;
            let is_stream = body.shape.kind == ContentKind::Events;
            let (deadline, kind) = run.deadlines.idle_deadline(*last_read, is_stream, false);
            let finished = body.has_finish_reason();
            let deadline = if finished { Some(*last_read + FINISH_TIMEOUT) } else { deadline };
            // Nothing is added to responses of the generic endpoint.
            let comments = client.ctx.record.streamed && client.ctx.api.mode == RequestMode::Api;
            let heartbeat = run.deadlines.heartbeat.filter(|_| comments).map(|every| *last_write + every);
            let is_heartbeat = heartbeat.is_some_and(|beat| deadline.is_none_or(|deadline| beat < deadline));
            let until = if is_heartbeat { heartbeat } else { deadline };
            let event = match client.unless_interrupted(watch, None, run.stream.next(until)).await {
                Ok(event) => event,
                Err(Interruption::Stopped(error)) => return Ok(Some(ForwardEnd::Stopped(error))),
                Err(_) => {
                    let aborted = client.abort(Error::client_closed());
                    return self.client_left(aborted).map(Some);
                }
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
                    let beat = keep_alive::bytes(client.ctx.api.operation, body.has_written());
                    if let Err(aborted) = client.send(vec![HttpTask::Body(Some(beat), false)]).await {
                        return self.client_left(aborted).map(Some);
                    }
                }
                // Only the end marker is missing: the gateway adds it.
                StreamEvent::TimedOut | StreamEvent::Failed(_) if finished => {
                    client.ctx.record.cut_behind_finish();
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
        self,
        error: Error,
        by_provider: bool,
        may_resume: bool,
        is_charged: bool,
    ) -> Result<Option<Box<Interrupted>>, Aborted> {
        let Self { client, resume, mut run, body, .. } = self;
        if by_provider && run.is_from_cache() && body.error().is_some() {
            caching::remove_unreadable(&client.engine.caching, client.ctx, &run.cache);
        }
        run.layers.ends.end(Outcome::Interrupted);
        let (attempt, deadlines, permit) = run.into_rest();
        if let Some(permit) = permit.filter(|_| by_provider) {
            let signal = Outcome::Interrupted.breaker_signal(attempt.target.policies.breaker.as_ref());
            permit.finish(signal, Instant::now());
        }
        client.ctx.record.response_broke(&error);
        if let Some(summary) = body.summary().filter(|_| is_charged) {
            client.ctx.record.used(Observed::of(&attempt, summary).cut(summary));
        }
        let streamed = client.ctx.record.streamed;
        let mismatch = matches!(body.error(), Some(BodyError::Mismatch));
        let may_resume = may_resume && streamed && !mismatch && deadlines.rescue == StreamRescue::Resume;
        let interrupted = Interrupted { body, attempt, error };
        if may_resume && Resume::is_possible(&interrupted.body, client.ctx.api.operation) {
            return Ok(Some(Box::new(interrupted)));
        }
        if !streamed {
            // No error can be sent in the middle of a document: the connection is closed, so that the part is not taken for
            // the whole.
            return Err(client.abort(interrupted.error));
        }
        interrupted.end(client, resume.is_some()).await.map(|()| None)
    }
}

impl Interrupted {
    /// What continues the stream. `before`: the resume that it was already a part of.
    ///
    /// # Errors
    /// Why the stream broke: it cannot be continued.
    pub(crate) fn into_resume(self, ctx: &RequestContext, before: Option<Resume>) -> Result<Resume, Error> {
        let Self { body, attempt, error } = self;
        Resume::new(*body, ctx, &attempt, &error, before).ok_or(error)
    }

    /// Ends the stream with an error event, because no attempt continues it. `is_resumed`: one has before.
    pub async fn end<D: Downstream>(
        self,
        client: &mut Client<'_, D>,
        is_resumed: bool,
    ) -> Result<(), Aborted> {
        let Self { mut body, attempt, error } = self;
        if is_resumed {
            client.engine.shared.metrics.record_rescue("failed");
        }
        let provider = attempt.target.provider.id();
        // The provider's error keeps its class, so that the client can act on it; the message says what became of it.
        let provider_error = match body.error() {
            Some(BodyError::Provider(own, _)) => {
                ProviderError { message: error.message.clone(), ..own.clone() }
            }
            _ => ProviderError::from(&error),
        };
        let event = body.fail(&provider_error, client.ctx.api.dialect, provider);
        let event = attempt.credential_mask().bytes(event);
        keep_observers(client.ctx, body);
        client.send_last_event(event, error).await
    }
}

/// Makes the client's response header from the provider's.
fn client_header(
    ctx: &mut RequestContext,
    mut header: Box<ResponseHeader>,
    run: &AttemptRun,
    body: &ResponseBody,
) -> Box<ResponseHeader> {
    let streams = body.shape.streams;
    ctx.record.streamed = streams;
    let is_whole = !streams && body.is_finished();
    ctx.facts.is_unpriced =
        run.calls_target() && cost::is_unknown(&ctx.prices, &run.attempt, body.summary(), is_whole);
    ctx.facts.lacks_reason = body.summary().is_some_and(|summary| summary.lacks_reason);
    let ctx = &*ctx;
    if body.has_own_type() && header.status == StatusCode::CREATED {
        // The status is the client's API's as well, and OpenAI's has no other for what was made.
        let _ = header.set_status(StatusCode::OK);
    }
    let case = HeaderCase::for_response(ctx, &header);
    let mask = run.attempt.credential_mask();
    edit_response_headers(&mut header, case, |headers| {
        mask.headers(headers);
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
            }
        }
        response_headers::add_gateway_headers(headers, ctx);
    });
    header
}

/// Takes what has observed the response, for the record.
fn keep_observers(ctx: &mut RequestContext, mut body: Box<ResponseBody>) {
    ctx.record.set_original(body.take_original());
    ctx.observers = body.into_observers();
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
        BodyError::Malformed(cause) => Error::invalid_response(
            "The provider's stream cannot be read any further. Retry your request.",
            cause,
        ),
        BodyError::Truncated => Error::invalid_response(
            "The provider closed the stream before the answer was complete. Retry your request.",
            "stream ended without a finish",
        ),
        BodyError::Mismatch => Error::invalid_response(
            "The provider broke its answer off, and no other attempt could go on from there. Retry your request.",
            "the second answer does not fit the first",
        ),
    };
    ForwardEnd::Broken(run.with_provider(error))
}
