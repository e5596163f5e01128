//! The client of a request under way: waits while it may leave, and sends it what it gets.
//!
//! Decides neither what is sent nor what follows (`orchestrator`, `forward`).

use super::attempt_end;
use super::attempt_run::{AttemptRun, FinalResponse, Readiness};
use super::downstream::{Aborted, Downstream};
use super::downstream_watch::DownstreamWatch;
use super::keep_alive::{self, Heartbeat};
use super::request_context::RequestContext;
use super::resume::Resume;
use super::{Engine, error_response, response_headers};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use pingora_core::protocols::http::HttpTask;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::{sleep, sleep_until};
use words::api::chat::ProviderError;
use words::api::operation::{Operation, Terminator};
use words::error::{Error, Kind};

const EVENT_PREFIX: &[u8] = b"data: ";
/// How long bytes take at most to be read by a client that waits for them.
const ARRIVAL: Duration = Duration::from_millis(30);

/// The client of one request, and how much of a response it has.
pub(super) struct Client<'a, D> {
    pub engine: &'a Arc<Engine>,
    pub downstream: &'a mut D,
    pub ctx: &'a mut RequestContext,
    /// It requested a stream.
    pub streamed: bool,
    /// The response header was sent to it.
    pub response_started: bool,
}

/// Why a wait ended before what it was for.
pub(super) enum Interruption {
    /// The client has left: nothing can be sent to it.
    ClientClosed,
    /// The client sends its body too slowly, or the process stops: what the client is told.
    Stopped(Error),
    Deadline,
}

impl<D: Downstream> Client<'_, D> {
    /// Waits for `work` while the client may leave, the process may stop and a deadline may pass: the one place where an attempt waits for
    /// several things at once. If `work` is ready together with something else, it counts. Dropping the result's future drops `work`: pass
    /// a pinned reference to go on waiting for it.
    ///
    /// # Errors
    /// What came first.
    pub(crate) async fn unless_interrupted<T>(
        &mut self,
        watch: &mut DownstreamWatch,
        deadline: Option<Instant>,
        work: impl Future<Output = T>,
    ) -> Result<T, Interruption> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            slow = watch.client_closed(self.downstream, self.ctx) => {
                Err(slow.map_or(Interruption::ClientClosed, Interruption::Stopped))
            }
            () = self.engine.shared.lifecycle.aborted() => Err(Interruption::Stopped(Error::draining())),
            () = passed(deadline) => Err(Interruption::Deadline),
        }
    }

    /// Waits for one attempt, and stops if the client leaves.
    pub async fn wait_for(
        &mut self,
        run: &mut AttemptRun,
        watch: &mut DownstreamWatch,
    ) -> Result<Readiness, Aborted> {
        let mut heartbeat = Heartbeat::new(&run.deadlines, self.streamed, self.response_started);
        let aborted = {
            let ready = run.until_committable();
            tokio::pin!(ready);
            loop {
                match self.unless_interrupted(watch, heartbeat.due(), &mut ready).await {
                    Ok(readiness) => return Ok(readiness),
                    Err(Interruption::Stopped(error)) => return Ok(Readiness::Stopped(error)),
                    Err(Interruption::ClientClosed) => break self.abort(Error::client_closed()),
                    Err(Interruption::Deadline) => {
                        heartbeat.sent();
                        if let Err(aborted) = Box::pin(self.send_early_heartbeat()).await {
                            break aborted;
                        }
                    }
                }
            }
        };
        attempt_end::stopped(self.ctx, run, &Error::client_closed());
        Err(aborted)
    }

    /// Notes that the client has left while this attempt was awaited.
    pub fn closed(&mut self, run: &AttemptRun) -> Aborted {
        attempt_end::stopped(self.ctx, run, &Error::client_closed());
        self.abort(Error::client_closed())
    }

    /// Records why the client's connection cannot be used any more.
    pub fn abort(&mut self, error: Error) -> Aborted {
        self.ctx.failure = Some(error);
        Aborted
    }

    /// Sends a batch of response parts.
    pub async fn send(&mut self, parts: Vec<HttpTask>) -> Result<(), Aborted> {
        for part in &parts {
            if let HttpTask::Body(Some(chunk), _) = part {
                self.ctx.record.body_sent(chunk);
                self.ctx.record.traffic.first_byte.get_or_insert_with(Instant::now);
            }
        }
        let sent = self.downstream.send(parts).await;
        sent.map_err(|error| self.abort(error))
    }

    /// Starts the response with an SSE comment before the provider has responded, if the config requests that.
    pub(super) async fn send_early_heartbeat(&mut self) -> Result<(), Aborted> {
        let mut parts = Vec::with_capacity(2);
        if !self.response_started {
            let header = response_headers::early_header(self.ctx).map_err(|error| self.abort(error))?;
            parts.push(HttpTask::Header(Box::new(header), false));
            self.response_started = true;
            self.ctx.record.streamed = true;
        }
        parts.push(HttpTask::Body(Some(keep_alive::bytes(self.ctx.api.operation, false)), false));
        self.send(parts).await
    }

    /// Sends the final response when no attempt is left. `resume`: of the stream that was to be continued.
    pub(crate) async fn send_final(
        &mut self,
        response: FinalResponse,
        resume: Option<&mut Resume>,
    ) -> Result<(), Aborted> {
        if self.response_started {
            let (provider_error, error) = response.into_error();
            return self.end_stream(&provider_error, error, resume).await;
        }
        match response {
            FinalResponse::Error(error) | FinalResponse::Denied(error) => {
                error_response::send(self.downstream, self.ctx, error).await
            }
            FinalResponse::Provider { mut header, body } => {
                // The body may have been read only in part.
                header.remove_header(&TRANSFER_ENCODING);
                // A number is always a valid header value.
                let _ = header.insert_header(CONTENT_LENGTH, body.len());
                response_headers::adopt_request_id(&mut header, &body, self.ctx);
                response_headers::response_filter(&mut header, self.ctx);
                let mut body = Some(body);
                response_headers::response_body_filter(&mut body, true, self.ctx);
                response_headers::add_hook_results(&mut header, &mut body, self.ctx);
                let parts = vec![HttpTask::Header(header, false), HttpTask::Body(body, true)];
                let sent = self.downstream.send(parts).await;
                sent.map_err(|error| self.abort(error))
            }
            FinalResponse::ProviderError(header, error) => {
                let parts = response_headers::provider_error(header, &error, self.ctx);
                self.send(parts).await
            }
        }
    }

    /// Ends a stream that was already started with an error event. `resume`: where it was to be continued.
    pub(crate) async fn end_stream(
        &mut self,
        provider_error: &ProviderError,
        error: Error,
        resume: Option<&mut Resume>,
    ) -> Result<(), Aborted> {
        let mut out = Vec::new();
        match resume.and_then(Resume::take_rewriter) {
            Some(mut rewriter) => {
                self.engine.shared.metrics.record_rescue("failed");
                rewriter.fail(provider_error, &mut out);
                self.ctx.observers.rewriter = Some(rewriter);
            }
            None => {
                let provider = self.ctx.facts.attempt.as_ref().map(|attempt| attempt.target.provider.id());
                provider_error.event(self.ctx.api.dialect, provider, 0, &mut out);
            }
        }
        self.send_last_event(Bytes::from(out), error).await
    }

    /// Sends the event that ends a stream because of an error.
    pub(crate) async fn send_last_event(&mut self, event: Bytes, error: Error) -> Result<(), Aborted> {
        let operation = self.ctx.api.operation;
        // A list is one document: without its end, the error in it could not be read.
        let is_denied_list = error.kind == Kind::HooksFailed && operation == Operation::ListGenerateContent;
        if operation.terminator() == Terminator::EndOfBody && !is_denied_list {
            // The dialect marks no end, and its clients do not all read errors in a stream: only a body that breaks off cannot
            // be taken for a complete one.
            if operation == Operation::StreamGenerateContent {
                self.send_bare_error(&event).await?;
            }
            self.send(vec![HttpTask::Body(Some(event), false)]).await?;
            return Err(self.abort(error));
        }
        self.ctx.failure = Some(error);
        if !self.downstream.body_is_complete() {
            self.downstream.close_after_response();
        }
        self.send(vec![HttpTask::Body(Some(event), true)]).await
    }

    /// Sends an error as Google does, before the event with it. The library in Gemini CLI (@google/genai 1.30, `processStreamResponse`)
    /// sees no other error in a stream, and this one only if it arrives by itself: hence the pauses. Readers of events skip the line.
    async fn send_bare_error(&mut self, event: &Bytes) -> Result<(), Aborted> {
        let Some(error) = bare(event) else { return Ok(()) };
        sleep(ARRIVAL).await;
        self.send(vec![HttpTask::Body(Some(error), false)]).await?;
        sleep(ARRIVAL).await;
        Ok(())
    }
}

/// Google's own form of an error in a stream: its JSON alone, without `data:`.
fn bare(event: &Bytes) -> Option<Bytes> {
    event.starts_with(EVENT_PREFIX).then(|| event.slice(EVENT_PREFIX.len()..))
}

/// Returns when a deadline has passed; never where there is none.
async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(at) => sleep_until(at.into()).await,
        None => pending().await,
    }
}
