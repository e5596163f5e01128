//! Makes attempts until one is kept: the driver that obeys the plan.
//!
//! Nothing is decided here but when the caller is told: not before an answer is good enough (`trial`), or
//! none is left. Sending it is `relay`'s, going on in a broken stream `rescue`'s, a second attempt beside a
//! slow one `hedge`'s.

use super::pending_response::{AttemptFailure, FinalResponse, PendingResponse};
use super::request_context::{AttemptHandle, RequestContext};
use super::request_env::RequestEnv;
use super::response_body::ResponsePolicy;
use super::resume::Resume;
use super::upstream_stream::{DownstreamWatch, UpstreamStream};
use super::{Engine, credentials, failure, response};
use crate::config::rescue::StreamRescue;
use crate::error::{Error, Kind};
use crate::route::attempt::{Attempt, Request};
use crate::route::deadlines::{Deadlines, TimeoutKind};
use crate::route::outcome::Outcome;
use crate::route::plan::{Decision, Plan, Reason};
use crate::route::target::Target;
use crate::state::targets::{BreakerSignal, Permit};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant as Clock, sleep, sleep_until};

/// A comment that keeps a silent stream's connection alive.
pub(crate) const HEARTBEAT: Bytes = Bytes::from_static(b": keep-alive\n\n");

/// What a failure adds to a target's measured latency.
const FAILED: Duration = Duration::from_secs(10);

/// One request under way.
pub(crate) struct Orchestrator<'a> {
    pub engine: &'a Engine,
    pub session: &'a mut Session,
    pub ctx: &'a mut RequestContext,
    pub plan: Plan,
    pub request: Request,
    pub known: RequestEnv,
    /// The first attempt, where it was made already. Boxed, as what follows is: both are rare, and a drive is moved.
    pub made: Option<Box<Attempt>>,
    /// The caller has the head of its answer.
    pub begun: bool,
    /// The stream that must be gone on with.
    pub rescue: Option<Box<Resume>>,
    /// A dead connection was met, and replaced free of charge: not again for this request.
    pub stale: bool,
}

/// The next try.
#[derive(Debug, Clone)]
pub(crate) struct NextAttempt {
    pub leaf: Arc<Target>,
    pub wait: Duration,
    pub why: Reason,
}

/// What became of a turn.
pub(crate) enum AttemptResult {
    /// The caller has its answer, or was told why not.
    Done,
    /// Nothing, or not all of it: what comes next is the plan's to say.
    Failed(Outcome, FinalResponse),
    /// Another turn, which the plan has given already.
    RetryAs(NextAttempt),
    /// Nothing more may be tried.
    Final(FinalResponse),
}

/// A trial, and the breaker's note of it.
pub(crate) struct AttemptRun {
    /// Boxed: it goes through many hands, and a future keeps room for it at each.
    pub trial: Box<PendingResponse>,
    pub visit: Option<Permit>,
    pub why: Reason,
}

impl Orchestrator<'_> {
    /// Makes attempts until one is kept or none is left.
    ///
    /// # Errors
    /// The last failure (noted in the context), or the caller's leaving.
    pub async fn run(mut self, first: NextAttempt) -> Result<()> {
        let mut turn = first;
        let mut answered = None;
        loop {
            if let Some(error) = self.past_total(&turn) {
                return Box::pin(self.tell(FinalResponse::Error(error))).await;
            }
            if !turn.wait.is_zero()
                && let Some(error) = Box::pin(self.pause(turn.wait)).await?
            {
                return Box::pin(self.tell(FinalResponse::Error(error))).await;
            }
            self.ctx.record.retries = self.plan.retry_count();
            let (outcome, last) = match Box::pin(self.attempt(&turn)).await? {
                AttemptResult::Done => return Ok(()),
                AttemptResult::RetryAs(next) => {
                    turn = next;
                    continue;
                }
                AttemptResult::Final(last) => return Box::pin(self.tell(last)).await,
                AttemptResult::Failed(outcome, last) => (outcome, last),
            };
            let retries = self.ctx.record.retries;
            let step = self.plan.next(&outcome, &mut self.known);
            self.ctx.record.retries = self.plan.retry_count();
            match step {
                Decision::Attempt { target: leaf, wait, reason: why } => {
                    turn = NextAttempt { leaf, wait, why }
                }
                Decision::Return => return Box::pin(self.tell_last(last, answered)).await,
            }
            if !matches!(last, FinalResponse::Error(_)) {
                answered = Some((last, self.ctx.attempt_handle.clone(), retries));
            }
        }
    }

    /// The last word is a provider's, where one of them had any.
    async fn tell_last(
        &mut self,
        last: FinalResponse,
        answered: Option<(FinalResponse, Option<AttemptHandle>, i32)>,
    ) -> Result<()> {
        match answered {
            Some((answer, errand, retries)) if matches!(last, FinalResponse::Error(_)) && !self.begun => {
                (self.ctx.attempt_handle, self.ctx.record.retries) = (errand, retries);
                self.tell(answer).await
            }
            _ => self.tell(last).await,
        }
    }

    /// The failure, when the next try could not even begin before the request must be over.
    fn past_total(&self, turn: &NextAttempt) -> Option<Error> {
        let patience = Deadlines::new(&turn.leaf, self.ctx.started, false, false);
        let late = patience.total_deadline.is_some_and(|total| Instant::now() + turn.wait >= total);
        late.then(|| patience.timeout_error(TimeoutKind::Total, &turn.leaf, self.ctx.started))
    }

    /// Waits, while the caller does. `Some`: why nothing more may be tried.
    async fn pause(&mut self, wait: Duration) -> Result<Option<Error>> {
        self.engine.shared.metrics.record_retry_wait(wait);
        self.ctx.record.add_wait(wait);
        tokio::select! {
            () = sleep(wait) => Ok(None),
            () = super::upstream_stream::stays(self.session) => Err(failure::fail_request(self.ctx, Error::client_closed())),
            () = self.engine.shared.lifecycle.aborted() => Ok(Some(Error::draining())),
        }
    }

    /// One attempt at a target, and its answer on the way to the caller when it is good.
    async fn attempt(&mut self, turn: &NextAttempt) -> Result<AttemptResult> {
        let (running, mut upload) = match self.launch(turn).await? {
            Ok(launched) => launched,
            Err(came) => return Ok(came),
        };
        let hedges =
            self.rescue.is_none() && !running.trial.flight.feeds_live && self.ctx.operation.is_hedgeable();
        let hedge = self.plan.hedge().filter(|_| hedges);
        let (running, outcome) = match hedge {
            Some(hedge) => Box::pin(self.race(running, &mut upload, hedge)).await?,
            None => self.wait_for(running, &mut upload).await?,
        };
        self.stale |= running.trial.flight.errand.state.read(|noted| noted.bypass_pool);
        match outcome {
            Ok(()) => self.relay(running, upload).await,
            Err(AttemptFailure::Failed(outcome, last)) => Ok(self.lost(running, outcome, last)),
            Err(AttemptFailure::OutOfTime(error)) => {
                self.ctx.record.attempt_finished(&running.trial.flight.errand, running.why, Some(&error));
                self.give_back(running.trial);
                Ok(AttemptResult::Final(FinalResponse::Error(error)))
            }
        }
    }

    /// Starts an attempt. `Err`: it could not be started.
    pub async fn launch(
        &mut self,
        turn: &NextAttempt,
    ) -> Result<std::result::Result<(AttemptRun, DownstreamWatch), AttemptResult>> {
        let prepared = self.prepare(turn).await?;
        let errand = match prepared {
            Ok(errand) => errand,
            Err(came) => return Ok(Err(came)),
        };
        if errand.attempt.local_response.is_some() {
            Box::pin(response::send_local(self.session, self.ctx)).await?;
            return Ok(Err(AttemptResult::Done));
        }
        let visit =
            turn.leaf.breaker.as_ref().map(|_| self.known.target_state(&turn.leaf).enter(Instant::now()));
        let (flight, upload) = UpstreamStream::launch(self.engine, self.session, self.ctx, errand);
        let trial = self.trial(flight, &turn.leaf);
        Ok(Ok((AttemptRun { trial: Box::new(trial), visit, why: turn.why }, upload)))
    }

    /// Makes the attempt from the request, and fetches what it needs.
    async fn prepare(
        &mut self,
        turn: &NextAttempt,
    ) -> Result<std::result::Result<AttemptHandle, AttemptResult>> {
        let made = match &mut self.rescue {
            Some(rescue) => rescue.attempt(&turn.leaf, &self.request),
            None => match self.made.take() {
                Some(made) => Ok(*made),
                None => Attempt::new(Arc::clone(&turn.leaf), &self.request),
            },
        };
        let errand = match made {
            Ok(mut attempt) => {
                if self.plan.all_circuits_open() {
                    attempt
                        .warnings
                        .push("cb_config: every circuit is open, the least bad target was tried".to_owned());
                }
                AttemptHandle::new(Arc::new(attempt))
            }
            // What the caller hears of is the break, not that nobody could mend it.
            Err(error) if self.rescue.is_some() => {
                let broke = self.rescue.as_ref().map_or(error, |rescue| rescue.error());
                return Ok(Err(AttemptResult::Failed(
                    Outcome::Unsupported(broke.status()),
                    FinalResponse::Error(broke),
                )));
            }
            Err(error) => {
                self.ctx.record.attempt_unsupported(&turn.leaf, turn.why, &error);
                self.ctx.attempt_handle = None;
                return Ok(Err(AttemptResult::Failed(
                    Outcome::Unsupported(error.status()),
                    FinalResponse::Error(error),
                )));
            }
        };
        errand.state.update(|noted| noted.bypass_pool = self.stale);
        self.ctx.attempt_handle = Some(errand.clone());
        let total = Deadlines::new(&turn.leaf, self.ctx.started, false, false).total_deadline;
        let limit =
            turn.leaf.request_timeout.map(|limit| Instant::now() + limit).into_iter().chain(total).min();
        match credentials::acquire_credentials(self.engine, self.session, self.ctx, &errand, limit).await {
            Ok(()) => Ok(Ok(errand)),
            Err(error) => {
                self.ctx.record.attempt_finished(&errand, turn.why, Some(&error));
                let outcome = match error.kind {
                    Kind::RequestTimeout => Outcome::TimedOut,
                    Kind::CredentialsUnavailable | Kind::Unreachable => Outcome::Failed,
                    _ => Outcome::Unsupported(error.status()),
                };
                Ok(Err(AttemptResult::Failed(outcome, FinalResponse::Error(error))))
            }
        }
    }

    fn trial(&mut self, flight: UpstreamStream, leaf: &Target) -> PendingResponse {
        let has_other = !flight.feeds_live && self.plan.has_other(&self.known);
        let has_more = !flight.feeds_live && self.plan.may_continue(&self.known);
        let streamed = self.request.body.as_ref().is_some_and(|body| body.is_true("stream"));
        let patience = Deadlines::new(leaf, self.ctx.started, has_other, streamed);
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let expected = ResponsePolicy {
            operation: self.ctx.operation,
            mode: self.ctx.mode,
            careful: self.plan.may_repeat() || leaf.time_limits.first_token.is_some(),
            choices: self.request.body.as_ref().and_then(|body| body.read("n")).unwrap_or(1),
            keeps: has_more && streamed && patience.rescue == StreamRescue::Resume,
            trace_id: self.ctx.trace_id.clone(),
            created,
        };
        let trial = PendingResponse::new(flight, patience, expected, self.ctx.started);
        match self.rescue.as_mut().and_then(|rescue| rescue.rewriter()) {
            Some(rewriter) => trial.resuming(rewriter),
            None => trial,
        }
    }

    /// Waits for one attempt, and listens to the caller meanwhile.
    pub async fn wait_for(
        &mut self,
        mut running: AttemptRun,
        upload: &mut DownstreamWatch,
    ) -> Result<(AttemptRun, std::result::Result<(), AttemptFailure>)> {
        let patience = running.trial.patience;
        let streamed = self.request.body.as_ref().is_some_and(|body| body.is_true("stream"));
        let mut beats = Heartbeat::new(&patience, streamed, self.begun);
        let outcome = {
            let ready = running.trial.ready();
            tokio::pin!(ready);
            loop {
                tokio::select! {
                    biased;
                    outcome = &mut ready => break outcome,
                    () = upload.watch(self.session, self.ctx) => {
                        return Err(failure::fail_request(self.ctx, Error::client_closed()));
                    }
                    () = self.engine.shared.lifecycle.aborted() => {
                        break Err(AttemptFailure::OutOfTime(Error::draining()));
                    }
                    () = beats.next() => Box::pin(self.beat_early()).await?,
                }
            }
        };
        Ok((running, outcome))
    }

    /// Notes a failed attempt for everyone who wants to know.
    pub fn note(
        &mut self,
        running: AttemptRun,
        outcome: Outcome,
        last: &FinalResponse,
    ) -> Box<PendingResponse> {
        let AttemptRun { trial, visit, why } = running;
        let errand = &trial.flight.errand;
        let error = match last {
            FinalResponse::Error(error) => Some(error),
            _ => None,
        };
        self.ctx.record.attempt_finished(errand, why, error);
        if let FinalResponse::Fault(_, fault) = last {
            self.ctx.record.error_in_success(fault.status);
        }
        if let (Some(target), false) = (errand.attempt.target.state.get(), outcome.is_success()) {
            // Or a target that only fails would look quicker than one that answers.
            let now = Instant::now();
            target.first_token(now.saturating_duration_since(trial.begun()) + FAILED, now);
        }
        if let Outcome::Response { status, .. } = outcome {
            credentials::invalidate(self.engine, errand, status);
        }
        if let Some(visit) = visit {
            visit.finish(blame(&errand.attempt.target, &outcome), Instant::now());
        }
        trial
    }

    /// A failed attempt, and what may come of it.
    fn lost(&mut self, running: AttemptRun, outcome: Outcome, last: FinalResponse) -> AttemptResult {
        let trial = self.note(running, outcome, &last);
        let errand = trial.flight.errand.clone();
        let once = trial.flight.feeds_live;
        self.give_back(trial);
        if let (Some(rescue), Outcome::Response { status, .. }) = (&mut self.rescue, &outcome)
            && rescue.was_refused(*status)
        {
            let leaf = Arc::clone(&errand.attempt.target);
            return AttemptResult::RetryAs(NextAttempt { leaf, wait: Duration::ZERO, why: Reason::Retry });
        }
        if once { AttemptResult::Final(last) } else { AttemptResult::Failed(outcome, last) }
    }

    /// A rescue that failed hands its rewriter back, for the next one.
    fn give_back(&mut self, trial: Box<PendingResponse>) {
        if let Some(rescue) = &mut self.rescue {
            rescue.put_back(trial.into_rewriter());
        }
    }

    /// Begins the answer with a comment, before it is known what it will be: the config asks for it.
    pub async fn beat_early(&mut self) -> Result<()> {
        let mut tasks = Vec::with_capacity(2);
        if !self.begun {
            let head = response::early_header(self.ctx)?;
            tasks.push(HttpTask::Header(Box::new(head), false));
            self.begun = true;
            self.ctx.record.streamed = true;
        }
        tasks.push(HttpTask::Body(Some(HEARTBEAT), false));
        self.write(tasks).await
    }

    /// Writes to the caller.
    pub async fn write(&mut self, tasks: Vec<HttpTask>) -> Result<()> {
        for task in &tasks {
            if let HttpTask::Body(Some(chunk), _) = task {
                self.ctx.record.bytes_out += chunk.len() as u64;
                self.ctx.record.first_byte.get_or_insert_with(Instant::now);
            }
        }
        match self.session.write_response_tasks(tasks).await {
            Ok(_) => Ok(()),
            Err(error) => {
                let error = failure::translate(&error.into_down(), None);
                Err(failure::fail_request(self.ctx, error))
            }
        }
    }

    /// Nothing is left to try: the caller gets what there is.
    async fn tell(&mut self, last: FinalResponse) -> Result<()> {
        if self.begun {
            return self.end_with(last.into_fault()).await;
        }
        match last {
            FinalResponse::Error(error) => Err(failure::fail_request(self.ctx, error)),
            FinalResponse::Answer { mut head, body } => {
                // It may have been given up before its end.
                head.remove_header(&TRANSFER_ENCODING);
                head.insert_header(CONTENT_LENGTH, body.len())?;
                response::response_filter(&mut head, self.ctx);
                let mut body = Some(body);
                response::response_body_filter(&mut body, true, self.ctx);
                self.session
                    .write_response_tasks(vec![HttpTask::Header(head, false), HttpTask::Body(body, true)])
                    .await?;
                Ok(())
            }
            FinalResponse::Fault(head, fault) => {
                let tasks = response::provider_error(head, &fault, self.ctx)?;
                self.write(tasks).await
            }
        }
    }
}

/// Whether a failure is the target's: not what the caller did wrong, not our own limits.
pub(crate) fn blame(leaf: &Target, outcome: &Outcome) -> BreakerSignal {
    match outcome {
        _ if outcome.is_success() => BreakerSignal::Success,
        Outcome::Response { status, .. } => match &leaf.breaker {
            Some(rules) if rules.is_failure(*status) => BreakerSignal::Failure,
            _ => BreakerSignal::Ignored,
        },
        Outcome::TimedOut | Outcome::Failed | Outcome::Interrupted => BreakerSignal::Failure,
        Outcome::Unsupported(_) => BreakerSignal::Ignored,
    }
}

/// The clock of comments before the answer.
pub(crate) struct Heartbeat {
    every: Option<Duration>,
    at: Instant,
}

impl Heartbeat {
    /// `streamed`: the caller asked for a stream, nobody else can be sent comments; `begun`: it has got
    /// some of it.
    pub fn new(patience: &Deadlines, streamed: bool, begun: bool) -> Self {
        let every = patience.heartbeat.filter(|_| streamed && (begun || patience.early_heartbeat));
        Self { every, at: Instant::now() + every.unwrap_or_default() }
    }

    /// Waits for the next one; forever where there are none.
    pub async fn next(&mut self) {
        let Some(every) = self.every else { return std::future::pending().await };
        sleep_until(Clock::from_std(self.at)).await;
        self.at += every;
    }
}
