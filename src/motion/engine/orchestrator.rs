//! Runs attempts until a response is committed, and forwards it to its end.
//!
//! The plan picks the targets (`route::plan`); this file decides only *when* to commit: as soon as an attempt's response is
//! committable, or when no attempt is left. `attempt_start` starts an attempt, `hedge` runs a second one beside a slow one, `forward`
//! sends the response to the client, `resume` continues a broken stream.

use super::Engine;
use super::attempt::call::{Kept, NextAttempt, NotStarted};
use super::attempt_end;
use super::attempt_run::{AttemptRun, FinalResponse, Readiness};
use super::attempt_start::Started;
use super::attempt_state::AttemptFacts;
use super::caching::{self, CachedCall, FlightShare};
use super::client::{Client, Interruption};
use super::downstream::{Aborted, Downstream};
use super::downstream_watch::DownstreamWatch;
use super::forward::{Interrupted, forward};
use super::guarding::{self, HOOKS_FAILED, Judged};
use super::hedge;
use super::places::{self, Waited};
use super::request_context::RequestContext;
use super::request_env::RequestEnv;
use bytes::Bytes;
use http::StatusCode;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::deadlines::{Deadlines, TimeoutKind};
use judgment::route::env::RoutingEnv;
use judgment::route::outcome::Outcome;
use judgment::route::plan::{Decision, Plan, Reason};
use judgment::route::target::Target;
use memory::state::targets::CircuitStatus;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::chat::ProviderError;
use words::config::hedge::Hedge;
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
    pub client: Client<'a, D>,
    pub plan: Plan,
    pub env: RequestEnv,
    pub request: Request,
    /// `n`: the number of choices that the client requested.
    pub n: u64,
    /// A dead pooled connection was already replaced once, without counting as a retry; it is not done twice per request.
    pub stale_connection_met: bool,
    /// What one attempt leaves to the next.
    pub kept: Kept,
}

/// The result of an attempt.
enum AttemptResult {
    /// The client has received its whole response.
    Complete,
    /// There is no response, or none that may be sent.
    Failed(Outcome, FinalResponse),
    /// The response broke after a part of it was sent to the client.
    Interrupted(Box<Interrupted>),
    /// No other attempt may be made.
    Final(FinalResponse),
}

/// The latest response, kept in case all later attempts fail without one.
struct LastResponse {
    response: FinalResponse,
    facts: AttemptFacts,
    retries: i32,
}

/// See [`Engine::run`].
pub(super) async fn run<D: Downstream>(
    engine: &Arc<Engine>,
    downstream: &mut D,
    ctx: &mut RequestContext,
    admitted: Box<Admitted>,
) -> Result<(), Aborted> {
    let Admitted { plan, request, env, first: (target, reason), prepared } = *admitted;
    ctx.record.is_single_attempt = plan.is_single_attempt();
    let streamed = request.is_streamed();
    let mut orchestrator = Orchestrator {
        client: Client { engine, downstream, ctx, streamed, response_started: false },
        plan,
        env,
        n: request.outputs(),
        request,
        stale_connection_met: false,
        kept: Kept { prepared, ..Kept::default() },
    };
    let done = orchestrator.run(NextAttempt { target, wait: Duration::ZERO, reason }).await;
    let checked = orchestrator.kept.checked.take();
    guarding::finish(engine, orchestrator.client.ctx, checked);
    done
}

impl<D: Downstream> Orchestrator<'_, D> {
    async fn run(&mut self, first: NextAttempt) -> Result<(), Aborted> {
        let mut next = first;
        let mut last_response = None;
        loop {
            if let Some(error) = self.wait(&next).await? {
                return Box::pin(self.send_final(FinalResponse::Error(error))).await;
            }
            self.client.ctx.record.retries = self.plan.retry_count();
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
            let retries = self.client.ctx.record.retries;
            let decision = self.plan.next(&outcome, &mut self.env);
            self.client.ctx.record.retries = self.plan.retry_count();
            match decision {
                Decision::Attempt { target, wait, reason } => next = NextAttempt { target, wait, reason },
                Decision::Return => return Box::pin(self.send_last(response, last_response)).await,
            }
            if !matches!(response, FinalResponse::Error(_)) {
                last_response =
                    Some(LastResponse { response, facts: self.client.ctx.facts.clone(), retries });
            }
        }
    }

    /// Waits before an attempt, unless the client leaves. `Some`: the reason why no other attempt may be made.
    async fn wait(&mut self, next: &NextAttempt) -> Result<Option<Error>, Aborted> {
        let started = self.client.ctx.span.started;
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
        self.client.engine.shared.metrics.record_retry_wait(wait);
        self.client.ctx.record.add_wait(wait);
        let mut watch = DownstreamWatch::default();
        let until = Some(Instant::now() + wait);
        match self.client.unless_interrupted(&mut watch, until, pending::<()>()).await {
            Ok(()) | Err(Interruption::Deadline) => Ok(None),
            Err(Interruption::ClientClosed) => Err(self.client.abort(Error::client_closed())),
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
        let (mut run, mut watch) = match self.start_in_turn(next).await? {
            Ok(running) => running,
            Err(result) => return Ok(Some(result)),
        };
        let may_hedge = self.kept.resume.is_none() && self.client.ctx.api.operation.is_hedgeable();
        let readiness = match self.plan.hedge().filter(|_| may_hedge && !self.plan.is_last()) {
            Some(hedge) => Box::pin(self.race(&mut run, &mut watch, hedge)).await?,
            None => self.client.wait_for(&mut run, &mut watch).await?,
        };
        self.stale_connection_met |= run.stream.stale_connection_met();
        if let Readiness::Failed(outcome, response) = &readiness
            && !matches!(outcome, Outcome::TimedOut)
        {
            if may_repeat && run.reads_along() {
                self.client.ctx.limits.release_attempt(&run.attempt.target);
                return Ok(None);
            }
            if run.is_from_cache()
                && !self.kept.ignores_stored
                && !matches!(response, FinalResponse::Denied(_))
            {
                caching::remove_unreadable(&self.client.engine.caching, self.client.ctx, &run.cache);
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
            Readiness::Committable => {
                match forward(&mut self.client, self.kept.resume.as_deref(), run, watch).await? {
                    Some(interrupted) => AttemptResult::Interrupted(interrupted),
                    None => AttemptResult::Complete,
                }
            }
            Readiness::Failed(outcome, response) => self.attempt_failed(*run, outcome, response),
            Readiness::Stopped(error) => {
                run.note_failed_call();
                attempt_end::stopped(self.client.ctx, &run, &error);
                self.return_rewriter(*run);
                AttemptResult::Final(FinalResponse::Error(error))
            }
        }))
    }

    /// Starts an attempt, as soon as its target has a place for it. `Err`: what came of it instead.
    async fn start_in_turn(
        &mut self,
        next: &NextAttempt,
    ) -> Result<Result<(Box<AttemptRun>, DownstreamWatch), AttemptResult>, Aborted> {
        loop {
            let started = self.start(next).await;
            // Where the cache has responded meanwhile, it needs none.
            self.kept.places = None;
            let waiting = match started {
                Started::Running(run, watch) => return Ok(Ok((run, watch))),
                Started::Failed(not_started) => {
                    let NotStarted { outcome, response, facts } = *not_started;
                    self.client.ctx.facts = facts;
                    return Ok(Err(AttemptResult::Failed(outcome, response)));
                }
                Started::Queued(waiting) => waiting,
            };
            let has_other = self.plan.has_other_for_busy(&self.env);
            match Box::pin(places::wait(&mut self.client, &waiting, has_other)).await? {
                // Its circuit may have opened meanwhile.
                Waited::Entered(_) if self.is_open_meanwhile(next) => {
                    let error =
                        Error::target_busy(&next.target.display_name(), "its circuit has opened meanwhile");
                    return Ok(Err(self.has_no_place(next, error)));
                }
                Waited::Entered(places) => self.kept.places = Some(places),
                Waited::Stopped(error) => return Ok(Err(AttemptResult::Final(FinalResponse::Error(error)))),
                Waited::Refused(error) => return Ok(Err(self.has_no_place(next, error))),
            }
        }
    }

    fn is_open_meanwhile(&self, next: &NextAttempt) -> bool {
        let is_open = matches!(self.env.circuit(&next.target), CircuitStatus::Open { .. });
        is_open && self.plan.has_other(&self.env)
    }

    /// An attempt was not sent, because there is no place for it. Where it was to continue a broken stream, the client gets the error that
    /// broke it.
    fn has_no_place(&mut self, next: &NextAttempt, error: Error) -> AttemptResult {
        let record = &mut self.client.ctx.record;
        record.attempt_unsupported(&next.target, next.reason, &self.request, &error);
        self.client.ctx.facts = AttemptFacts::default();
        let error = self.kept.resume.as_ref().map_or(error, |resume| resume.error());
        AttemptResult::Failed(Outcome::Busy, FinalResponse::Error(error))
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
            let judging = guarded.judge_response(run, self.client.ctx.api.dialect, shows_results);
            match self.client.unless_interrupted(watch, None, judging).await {
                Ok(judged) => Some(judged),
                Err(Interruption::Stopped(error)) => Some(Judged::Denied(error)),
                Err(_) => None,
            }
        };
        let Some(judged) = judged else {
            return Err(self.client.closed(run));
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
        let may_repeat = self.kept.resume.is_none() && !self.client.response_started;
        let repeats = may_repeat && self.plan.repeats(&outcome, &self.env);
        self.client.ctx.record.retries = self.plan.retry_count();
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

    fn attempt_failed(
        &mut self,
        mut run: AttemptRun,
        outcome: Outcome,
        response: FinalResponse,
    ) -> AttemptResult {
        if !matches!(response, FinalResponse::Denied(_)) {
            run.note_failed_call();
        }
        attempt_end::failed(self.client.ctx, &mut run, &outcome, &response);
        let before = run
            .layers
            .guarded
            .as_ref()
            .filter(|_| !outcome.is_success())
            .and_then(|guarded| guarded.for_error()?.to_json());
        self.client.ctx.reply.hook_results = before.map(Into::into);
        let is_form_refused = self.learn_form(&run.attempt, &response);
        self.return_rewriter(run);
        let outcome = match &mut self.kept.resume {
            _ if is_form_refused => Outcome::FormRefused,
            Some(resume) => resume.classify(outcome),
            None => outcome,
        };
        AttemptResult::Failed(outcome, response)
    }

    /// Whether a target's refusal says that it takes the request only in another form, in which it is sent again; once for each target.
    fn learn_form(&mut self, attempt: &Attempt, response: &FinalResponse) -> bool {
        let FinalResponse::Provider { header, body } = response else { return false };
        if header.status.is_success() || self.kept.reformed.contains(&attempt.target.path) {
            return false;
        }
        let refusal = ProviderError::read(header.status.as_u16(), body);
        let is_refused = attempt.learn_form(&self.request, &refusal);
        if is_refused {
            self.kept.reformed.push(attempt.target.path.clone());
        }
        is_refused
    }

    /// Takes the rewriter of the client's stream back from an attempt that could not resume it, for the next attempt.
    fn return_rewriter(&mut self, run: AttemptRun) {
        if let Some(resume) = &mut self.kept.resume {
            resume.return_rewriter(run.into_rewriter());
        }
    }

    /// Sends the response of the last attempt. If that attempt got none, sends the latest response a provider gave before.
    async fn send_last(
        &mut self,
        response: FinalResponse,
        last: Option<LastResponse>,
    ) -> Result<(), Aborted> {
        match last {
            Some(last) if matches!(response, FinalResponse::Error(_)) && !self.client.response_started => {
                self.client.ctx.facts = last.facts;
                self.client.ctx.record.retries = last.retries;
                self.send_final(last.response).await
            }
            _ => self.send_final(response).await,
        }
    }

    /// Sends the final response when no attempt is left.
    async fn send_final(&mut self, response: FinalResponse) -> Result<(), Aborted> {
        self.client.send_final(response, self.kept.resume.as_deref_mut()).await
    }

    /// Continues a broken stream with another attempt if the plan has one; otherwise ends it.
    async fn resume_from(&mut self, interrupted: Interrupted) -> Result<Option<NextAttempt>, Aborted> {
        let decision = self.plan.next(&Outcome::Interrupted, &mut self.env);
        let Decision::Attempt { target, wait, reason } = decision else {
            let is_resumed = self.kept.resume.is_some();
            return interrupted.end(&mut self.client, is_resumed).await.map(|()| None);
        };
        let before = self.kept.resume.take().map(|resume| *resume);
        match interrupted.into_resume(self.client.ctx, before) {
            Ok(resume) => {
                self.kept.resume = Some(Box::new(resume));
                let reason = if reason == Reason::Retry { reason } else { Reason::Rescue };
                Ok(Some(NextAttempt { target, wait, reason }))
            }
            Err(error) => self.send_final(FinalResponse::Error(error)).await.map(|()| None),
        }
    }

    /// Waits for `run` and, if it is slow, for a second attempt as well. On return `run` is the attempt that counts.
    async fn race(
        &mut self,
        run: &mut Box<AttemptRun>,
        watch: &mut DownstreamWatch,
        hedge: Hedge,
    ) -> Result<Readiness, Aborted> {
        self.client.engine.shared.hedge_budget.deposit();
        let until = Some(Instant::now() + Duration::from_millis(hedge.after_ms));
        match self.client.unless_interrupted(watch, until, run.until_committable()).await {
            Ok(readiness) => return Ok(readiness),
            Err(Interruption::Stopped(error)) => return Ok(Readiness::Stopped(error)),
            Err(Interruption::ClientClosed) => return Err(self.client.closed(run)),
            Err(Interruption::Deadline) => {}
        }
        let raced = run.layers.cached.as_ref().map(CachedCall::share);
        match self.start_second(raced, hedge).await {
            Some(second) => hedge::race(&mut self.client, &mut self.plan, run, second, watch).await,
            None => self.client.wait_for(run, watch).await,
        }
    }

    /// Starts a second attempt, if the plan has a target for it and the budget allows one. It does not join `raced`, the call of the first
    /// attempt.
    async fn start_second(&mut self, raced: Option<FlightShare>, hedge: Hedge) -> Option<Box<AttemptRun>> {
        if !self.plan.can_hedge(&self.env) {
            return None;
        }
        let shared = &self.client.engine.shared;
        if !shared.hedge_budget.try_withdraw(hedge.max_extra_ratio) {
            shared.metrics.record_hedge("refused");
            return None;
        }
        let target = self.plan.hedge_target(&mut self.env)?;
        let next = NextAttempt { target, wait: Duration::ZERO, reason: Reason::Hedge };
        self.kept.raced = raced;
        let started = self.start(&next).await;
        self.kept.raced = None;
        match started {
            Started::Running(run, _) => Some(run),
            Started::Failed(_) => None,
            Started::Queued(_) => {
                // Where others wait, none is made beside the first. Its target may be the next one all the same.
                self.plan.take_back_hedge();
                self.client.engine.shared.metrics.record_hedge("refused");
                None
            }
        }
    }
}
