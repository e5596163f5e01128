//! Runs attempts until a response is committed, and forwards it to its end.
//!
//! The plan picks the targets (`route::plan`); this file decides only *when* to commit: as soon as an attempt's response is
//! committable, or when no attempt is left. `forward` sends the response to the client, `resume` continues a broken
//! stream, `hedge` runs a second attempt in parallel with a slow one.

use super::attempt::call::Kept;
use super::attempt::wait::{Client, Interruption, unless_interrupted};
use super::attempt_run::{AttemptRun, FinalResponse, Readiness};
use super::attempt_state::AttemptFacts;
use super::attempt_usage::Observed;
use super::caching;
use super::downstream::{Aborted, Downstream};
use super::downstream_watch::DownstreamWatch;
use super::forward::Interrupted;
use super::guarding::{self, HOOKS_FAILED, Judged};
use super::keep_alive::{self, Heartbeat};
use super::request_context::RequestContext;
use super::request_env::RequestEnv;
use super::{Engine, error_response, response_headers};
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use judgment::route::attempt::{Attempt, Request};
use judgment::route::deadlines::{Deadlines, TimeoutKind};
use judgment::route::outcome::Outcome;
use judgment::route::plan::{Decision, Plan, Reason};
use judgment::route::target::Target;
use pingora_core::protocols::http::HttpTask;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::error::Error;

/// An admitted request and its first target.
pub struct Admitted {
    pub plan: Plan,
    pub request: Request,
    pub env: RequestEnv,
    pub first: (Arc<Target>, Reason),
    /// The first attempt, if it was already made at admission.
    pub prepared: Option<Box<Attempt>>,
}

/// Runs one request.
pub(super) struct Orchestrator<'a, D> {
    pub engine: &'a Arc<Engine>,
    pub downstream: &'a mut D,
    pub ctx: &'a mut RequestContext,
    pub plan: Plan,
    pub env: RequestEnv,
    pub(super) request: Request,
    /// The client requested a stream.
    pub(super) streamed: bool,
    /// `n`: the number of choices that the client requested.
    pub(super) n: u64,
    /// The response header was sent to the client.
    pub response_started: bool,
    /// A dead pooled connection was already replaced once, without counting as a retry; it is not done twice per request.
    pub(super) stale_connection_met: bool,
    /// What one attempt leaves to the next.
    pub(super) kept: Kept,
}

/// The next attempt.
#[derive(Debug, Clone)]
pub(super) struct NextAttempt {
    pub target: Arc<Target>,
    pub wait: Duration,
    pub reason: Reason,
}

/// The result of an attempt.
pub(super) enum AttemptResult {
    /// The client has received its whole response.
    Complete,
    /// There is no response, or none that may be sent.
    Failed(Outcome, FinalResponse),
    /// The response broke after a part of it was sent to the client.
    Interrupted(Box<Interrupted>),
    /// No other attempt may be made.
    Final(FinalResponse),
}

/// The result of starting an attempt.
pub(super) enum Started {
    Running(Box<AttemptRun>, DownstreamWatch),
    Failed(Box<NotStarted>),
}

/// An attempt that was not sent.
pub(super) struct NotStarted {
    pub outcome: Outcome,
    pub response: FinalResponse,
    pub facts: AttemptFacts,
}

/// The latest response, kept in case all later attempts fail without one.
struct LastResponse {
    response: FinalResponse,
    facts: AttemptFacts,
    retries: i32,
}

impl Engine {
    /// Makes attempts until one is committed or none is left, and sends the response to the client.
    ///
    /// # Errors
    /// The client's connection cannot be reused: it is closed, or it carries an incomplete response.
    pub async fn run<D: Downstream>(
        self: &Arc<Self>,
        downstream: &mut D,
        ctx: &mut RequestContext,
        admitted: Box<Admitted>,
    ) -> Result<(), Aborted> {
        let Admitted { plan, request, env, first: (target, reason), prepared } = *admitted;
        ctx.record.is_single_attempt = plan.is_single_attempt();
        let mut orchestrator = Orchestrator {
            engine: self,
            downstream,
            ctx,
            plan,
            env,
            streamed: request.is_streamed(),
            n: request.outputs(),
            request,
            response_started: false,
            stale_connection_met: false,
            kept: Kept { prepared, ..Kept::default() },
        };
        let done = orchestrator.run(NextAttempt { target, wait: Duration::ZERO, reason }).await;
        let checked = orchestrator.kept.checked.take();
        guarding::finish(self, orchestrator.ctx, checked);
        done
    }
}

impl<D: Downstream> Orchestrator<'_, D> {
    async fn run(&mut self, first: NextAttempt) -> Result<(), Aborted> {
        let mut next = first;
        let mut last_response = None;
        loop {
            if let Some(error) = self.wait(&next).await? {
                return Box::pin(self.send_final(FinalResponse::Error(error))).await;
            }
            self.ctx.record.retries = self.plan.retry_count();
            let (outcome, response) = match Box::pin(self.attempt(&next)).await? {
                AttemptResult::Complete => return Ok(()),
                AttemptResult::Final(response) => return Box::pin(self.send_final(response)).await,
                AttemptResult::Interrupted(interrupted) => {
                    match Box::pin(self.resume_from(*interrupted)).await? {
                        Some(attempt) => next = attempt,
                        None => return Ok(()),
                    }
                    continue;
                }
                AttemptResult::Failed(outcome, response) => (outcome, response),
            };
            let retries = self.ctx.record.retries;
            let decision = self.plan.next(&outcome, &mut self.env);
            self.ctx.record.retries = self.plan.retry_count();
            match decision {
                Decision::Attempt { target, wait, reason } => next = NextAttempt { target, wait, reason },
                Decision::Return => return Box::pin(self.send_last(response, last_response)).await,
            }
            if !matches!(response, FinalResponse::Error(_)) {
                last_response = Some(LastResponse { response, facts: self.ctx.facts.clone(), retries });
            }
        }
    }

    /// Waits before an attempt, unless the client leaves. `Some`: the reason why no other attempt may be made.
    async fn wait(&mut self, next: &NextAttempt) -> Result<Option<Error>, Aborted> {
        let started = self.ctx.span.started;
        let total = Deadlines::total(&next.target, started);
        if total.is_some_and(|total| Instant::now() + next.wait >= total) {
            let deadlines = Deadlines::new(&next.target, started, started, false, false);
            return Ok(Some(deadlines.timeout_error(TimeoutKind::Total, &next.target, started)));
        }
        if next.wait.is_zero() {
            return Ok(None);
        }
        Box::pin(self.back_off(next.wait)).await
    }

    async fn back_off(&mut self, wait: Duration) -> Result<Option<Error>, Aborted> {
        self.engine.shared.metrics.record_retry_wait(wait);
        self.ctx.record.add_wait(wait);
        let mut watch = DownstreamWatch::default();
        let until = Some(Instant::now() + wait);
        match unless_interrupted(self.client(&mut watch), until, pending::<()>()).await {
            Ok(()) | Err(Interruption::Deadline) => Ok(None),
            Err(Interruption::ClientClosed) => Err(self.abort(Error::client_closed())),
            Err(Interruption::Stopped(error)) => Ok(Some(error)),
        }
    }

    /// Makes one attempt at a target, and forwards its response if it is committable.
    async fn attempt(&mut self, next: &NextAttempt) -> Result<AttemptResult, Aborted> {
        let mut may_repeat = true;
        self.kept.ignores_stored = false;
        loop {
            match self.attempt_once(next, may_repeat).await? {
                Some(result) => return Ok(result),
                // It has read along with another request's call, which failed: it makes one itself, or waits for one more. Or what the cache had
                // cannot be decoded.
                None => may_repeat = false,
            }
        }
    }

    /// `None`: it is to be made again. The call of another request, which this one has read, has failed, with `may_repeat` only; or what the cache
    /// had cannot be decoded.
    async fn attempt_once(
        &mut self,
        next: &NextAttempt,
        may_repeat: bool,
    ) -> Result<Option<AttemptResult>, Aborted> {
        let (mut run, mut watch) = match self.start(next).await {
            Started::Running(run, watch) => (run, watch),
            Started::Failed(not_started) => {
                let NotStarted { outcome, response, facts } = *not_started;
                self.ctx.facts = facts;
                return Ok(Some(AttemptResult::Failed(outcome, response)));
            }
        };
        let may_hedge = self.kept.resume.is_none() && self.ctx.api.operation.is_hedgeable();
        let readiness = match self.plan.hedge().filter(|_| may_hedge && !self.plan.is_last()) {
            Some(hedge) => Box::pin(self.race(&mut run, &mut watch, hedge)).await?,
            None => self.wait_for(&mut run, &mut watch).await?,
        };
        self.stale_connection_met |= run.stream.stale_connection_met();
        if let Readiness::Failed(outcome, response) = &readiness
            && !matches!(outcome, Outcome::TimedOut)
        {
            if may_repeat && run.reads_along() {
                return Ok(None);
            }
            if run.is_from_cache()
                && !self.kept.ignores_stored
                && !matches!(response, FinalResponse::Denied(_))
            {
                caching::remove_unreadable(&self.engine.caching, self.ctx, &run.cache);
                self.kept.ignores_stored = true;
                return Ok(None);
            }
        }
        let readiness = match readiness {
            Readiness::Committable if run.layers.guarded.is_some() => {
                Box::pin(self.judge(&mut run, &mut watch)).await?
            }
            readiness => readiness,
        };
        Ok(Some(match readiness {
            Readiness::Committable => self.forward(run, watch).await?,
            Readiness::Failed(outcome, response) => self.attempt_failed(*run, outcome, response),
            Readiness::Stopped(error) => {
                run.note_failed_call();
                self.note_stopped(&run, &error);
                self.return_rewriter(*run);
                AttemptResult::Final(FinalResponse::Error(error))
            }
        }))
    }

    /// The client, for a wait.
    pub fn client<'c>(&'c mut self, watch: &'c mut DownstreamWatch) -> Client<'c, D> {
        Client { engine: self.engine, downstream: self.downstream, watch, ctx: self.ctx }
    }

    /// Has the hooks judge a response that may be committed.
    async fn judge(
        &mut self,
        run: &mut AttemptRun,
        watch: &mut DownstreamWatch,
    ) -> Result<Readiness, Aborted> {
        let Some(mut guarded) = run.layers.guarded.take() else { return Ok(Readiness::Committable) };
        let shows_results = !run.attempt.target.policies.is_strict() && self.kept.resume.is_none();
        let judged = {
            let judging = guarded.judge_response(run, self.ctx.api.dialect, shows_results);
            match unless_interrupted(self.client(watch), None, judging).await {
                Ok(judged) => Some(judged),
                Err(Interruption::Stopped(error)) => Some(Judged::Denied(error)),
                Err(_) => None,
            }
        };
        let Some(judged) = judged else {
            self.note_stopped(run, &Error::client_closed());
            return Err(self.abort(Error::client_closed()));
        };
        run.layers.guarded = Some(guarded);
        let status = match judged {
            Judged::Denied(error) => {
                let outcome = Outcome::from_status(error.status());
                return Ok(Readiness::Failed(outcome, FinalResponse::Denied(error)));
            }
            Judged::Passes { has_failed } => has_failed.then_some(HOOKS_FAILED),
        };
        if let Some(cached) = run.layers.cached.as_mut().filter(|_| status.is_some()) {
            cached.set_flawed();
        }
        let Some(status) = status.and_then(|status| StatusCode::from_u16(status).ok()) else {
            return Ok(Readiness::Committable);
        };
        let outcome = Outcome::from_status(status.as_u16());
        let may_repeat = self.kept.resume.is_none() && !self.response_started;
        let repeats = may_repeat && self.plan.repeats(&outcome, &self.env);
        self.ctx.record.retries = self.plan.retry_count();
        let Some((header, body)) = run.response().filter(|(header, _)| header.status == StatusCode::OK)
        else {
            return Ok(Readiness::Committable);
        };
        // A status from 200 to 599 is always valid.
        let _ = header.set_status(status);
        if repeats && body.is_finished() {
            let header = Box::new(header.clone());
            let body = Bytes::from(body.take_ready());
            Ok(Readiness::Failed(outcome, FinalResponse::Provider { header, body }))
        } else {
            Ok(Readiness::Committable)
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
                match unless_interrupted(self.client(watch), heartbeat.due(), &mut ready).await {
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
        self.note_stopped(run, &Error::client_closed());
        Err(aborted)
    }

    /// Records a failed attempt: in the request's record, in the target's latency, at its circuit breaker and for its layers.
    pub fn note_failure(&mut self, run: &mut AttemptRun, outcome: &Outcome, response: &FinalResponse) {
        let target = &run.attempt.target;
        let error = match response {
            FinalResponse::Error(error) | FinalResponse::Denied(error) => Some(error),
            _ => None,
        };
        // Denied before any of it was sent: there are hooks that look at it all the same.
        if let FinalResponse::Denied(_) = response
            && let Some(guarded) = run.layers.guarded.take()
        {
            guarded.finish();
        }
        self.ctx.facts = run.facts();
        self.ctx.record.attempt_finished(&run.attempt, self.ctx.facts.state, run.reason, error);
        self.ctx.record.used(match response {
            // All of it was read: who made the call is charged, whoever else reads it.
            FinalResponse::Provider { body, .. } if !outcome.is_success() && run.is_charged(true) => {
                Observed::of_error(body)
            }
            _ => run.observed(),
        });
        if let FinalResponse::ProviderError(_, error) = response {
            self.ctx.record.error_in_success(error.status);
        }
        let now = Instant::now();
        // A filter's denial says nothing about the target's latency.
        let counts =
            !outcome.is_success() && run.calls_target() && !matches!(response, FinalResponse::Denied(_));
        if let Some(memory) = target.state.get().filter(|_| counts) {
            memory.attempt_failed(now.saturating_duration_since(run.started()), now);
        }
        run.layers.ends.end(*outcome);
        self.ctx.release_unused(target);
        if let Some(permit) = run.permit.take() {
            permit.finish(outcome.breaker_signal(target.policies.breaker.as_ref()), now);
        }
    }

    /// Records an attempt that was stopped before its response was committed.
    pub fn note_stopped(&mut self, run: &AttemptRun, error: &Error) {
        self.ctx.facts = run.facts();
        self.ctx.record.attempt_finished(&run.attempt, run.stream.state(), run.reason, Some(error));
        self.ctx.record.used(run.observed());
    }

    fn attempt_failed(
        &mut self,
        mut run: AttemptRun,
        outcome: Outcome,
        response: FinalResponse,
    ) -> AttemptResult {
        if !matches!(response, FinalResponse::Denied(_)) {
            run.note_failed_call();
        }
        self.note_failure(&mut run, &outcome, &response);
        let before = run
            .layers
            .guarded
            .as_ref()
            .filter(|_| !outcome.is_success())
            .and_then(|guarded| guarded.before());
        self.ctx.reply.hook_results = before.map(|results| results.to_string().into());
        self.return_rewriter(run);
        let outcome = match &mut self.kept.resume {
            Some(resume) => resume.classify(outcome),
            None => outcome,
        };
        AttemptResult::Failed(outcome, response)
    }

    /// Takes the rewriter of the client's stream back from an attempt that could not resume it, for the next attempt.
    fn return_rewriter(&mut self, run: AttemptRun) {
        if let Some(resume) = &mut self.kept.resume {
            resume.return_rewriter(run.into_rewriter());
        }
    }

    /// Starts the response with an SSE comment before the provider has responded, if the config requests that.
    async fn send_early_heartbeat(&mut self) -> Result<(), Aborted> {
        let mut parts = Vec::with_capacity(2);
        if !self.response_started {
            let header = response_headers::early_header(self.ctx).map_err(|error| self.abort(error))?;
            parts.push(HttpTask::Header(Box::new(header), false));
            self.response_started = true;
            self.ctx.record.streamed = true;
        }
        parts.push(HttpTask::Body(Some(keep_alive::bytes(self.ctx.api.operation)), false));
        self.send(parts).await
    }

    /// Sends a batch of response parts to the client.
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

    /// Records why the client's connection cannot be used any more.
    pub fn abort(&mut self, error: Error) -> Aborted {
        self.ctx.failure = Some(error);
        Aborted
    }

    /// Sends the response of the last attempt. If that attempt got none, sends the latest response a provider gave before.
    async fn send_last(
        &mut self,
        response: FinalResponse,
        last: Option<LastResponse>,
    ) -> Result<(), Aborted> {
        match last {
            Some(last) if matches!(response, FinalResponse::Error(_)) && !self.response_started => {
                self.ctx.facts = last.facts;
                self.ctx.record.retries = last.retries;
                self.send_final(last.response).await
            }
            _ => self.send_final(response).await,
        }
    }

    /// Sends the final response when no attempt is left.
    async fn send_final(&mut self, response: FinalResponse) -> Result<(), Aborted> {
        if self.response_started {
            let (provider_error, error) = response.into_error();
            return self.end_stream(&provider_error, error).await;
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
}
