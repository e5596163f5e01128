//! Hedging: starts a second attempt while the first one is slow. The first committable response wins, and the other
//! attempt stops at once.
//!
//! Only before anything was sent to the client. `state::hedge_budget` limits how many hedges there may be.

use super::attempt::wait::{Interruption, unless_interrupted};
use super::attempt_run::{AttemptRun, Readiness};
use super::caching::{CachedCall, FlightShare};
use super::downstream::{Aborted, Downstream};
use super::downstream_watch::DownstreamWatch;
use super::orchestrator::{NextAttempt, Orchestrator, Started};
use futures_util::future::{Either, select};
use judgment::route::plan::Reason;
use std::time::{Duration, Instant};
use words::config::hedge::Hedge;
use words::error::Error;

impl<D: Downstream> Orchestrator<'_, D> {
    /// Waits for `run` and, if it is slow, for a second attempt as well. On return `run` is the attempt that counts.
    pub(super) async fn race(
        &mut self,
        run: &mut Box<AttemptRun>,
        watch: &mut DownstreamWatch,
        hedge: Hedge,
    ) -> Result<Readiness, Aborted> {
        self.engine.shared.hedge_budget.deposit();
        let until = Some(Instant::now() + Duration::from_millis(hedge.after_ms));
        match unless_interrupted(self.client(watch), until, run.until_committable()).await {
            Ok(readiness) => return Ok(readiness),
            Err(Interruption::Stopped(error)) => return Ok(Readiness::Stopped(error)),
            Err(Interruption::ClientClosed) => return Err(self.client_closed(run)),
            Err(Interruption::Deadline) => {}
        }
        let raced = run.layers.cached.as_ref().map(CachedCall::share);
        match self.start_second(raced, hedge).await {
            Some(second) => self.race_both(run, second, watch).await,
            None => self.wait_for(run, watch).await,
        }
    }

    /// Starts the second attempt, if the plan has a target for it and the budget allows one. It does not join `raced`,
    /// the call of the first attempt.
    async fn start_second(&mut self, raced: Option<FlightShare>, hedge: Hedge) -> Option<Box<AttemptRun>> {
        if !self.plan.can_hedge(&self.env) {
            return None;
        }
        if !self.engine.shared.hedge_budget.try_withdraw(hedge.max_extra_ratio) {
            self.engine.shared.metrics.record_hedge("refused");
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
        }
    }

    async fn race_both(
        &mut self,
        run: &mut Box<AttemptRun>,
        mut second: Box<AttemptRun>,
        watch: &mut DownstreamWatch,
    ) -> Result<Readiness, Aborted> {
        let event = {
            let one = run.until_committable();
            let other = second.until_committable();
            tokio::pin!(one, other);
            match unless_interrupted(self.client(watch), None, select(one, other)).await {
                Ok(Either::Left((readiness, _))) => Ok(Either::Left(readiness)),
                Ok(Either::Right((readiness, _))) => Ok(Either::Right(readiness)),
                Err(interruption) => Err(interruption),
            }
        };
        match event {
            Ok(Either::Left(Readiness::Committable)) => {
                self.engine.shared.metrics.record_hedge("lost");
                self.lost_race(&second);
                Ok(Readiness::Committable)
            }
            Ok(Either::Right(Readiness::Committable)) => {
                self.engine.shared.metrics.record_hedge("won");
                self.lost_race(run);
                let ahead = second.started().saturating_duration_since(run.started());
                self.ctx.record.add_wait(ahead);
                self.plan.set_current(&second.attempt.target);
                *run = second;
                Ok(Readiness::Committable)
            }
            // One of them failed: the other one counts from here on.
            Ok(Either::Left(readiness)) => {
                self.discard(run, readiness);
                self.plan.set_current(&second.attempt.target);
                *run = second;
                self.wait_for(run, watch).await
            }
            Ok(Either::Right(readiness)) => {
                self.discard(&mut second, readiness);
                drop(second);
                self.wait_for(run, watch).await
            }
            Err(Interruption::Stopped(error)) => {
                self.lost_race(&second);
                Ok(Readiness::Stopped(error))
            }
            Err(Interruption::ClientClosed | Interruption::Deadline) => {
                self.lost_race(run);
                Err(self.client_closed(&second))
            }
        }
    }

    fn client_closed(&mut self, run: &AttemptRun) -> Aborted {
        self.note_stopped(run, &Error::client_closed());
        self.abort(Error::client_closed())
    }

    fn lost_race(&mut self, run: &AttemptRun) {
        self.ctx.record.lost_race(&run.attempt, run.stream.state(), run.reason);
        self.ctx.record.used(run.observed());
    }

    /// Notes the failure of one of the two attempts.
    fn discard(&mut self, run: &mut AttemptRun, readiness: Readiness) {
        if let Readiness::Failed(outcome, response) = readiness {
            self.note_failure(run, &outcome, &response);
        }
    }
}
