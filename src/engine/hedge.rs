//! A second attempt beside one that is slow: the first answer good enough wins, the other stops at once.
//!
//! Only before anything was told to the caller. How many there may be is `state::hedges`'.

use super::failure;
use super::orchestrator::{AttemptRun, NextAttempt, Orchestrator};
use super::pending_response::AttemptFailure;
use super::upstream_stream::DownstreamWatch;
use crate::config::rescue::Hedge;
use crate::error::Error;
use crate::route::plan::Reason;
use pingora_core::Result;
use std::time::Duration;
use tokio::time::sleep;

/// Who was good enough first, or why nobody was.
type RaceResult = (AttemptRun, std::result::Result<(), AttemptFailure>);

/// What happened first.
enum RaceEvent {
    First(std::result::Result<(), AttemptFailure>),
    Second(std::result::Result<(), AttemptFailure>),
    Slow,
    Left,
    Draining,
}

impl Orchestrator<'_> {
    /// Waits for `first`; when it is slow, for another one beside it.
    pub(crate) async fn race(
        &mut self,
        mut first: AttemptRun,
        upload: &mut DownstreamWatch,
        hedge: Hedge,
    ) -> Result<RaceResult> {
        self.engine.shared.hedge_budget.deposit();
        let happened = {
            let ready = first.trial.ready();
            tokio::select! {
                biased;
                outcome = ready => RaceEvent::First(outcome),
                () = upload.watch(self.session, self.ctx) => RaceEvent::Left,
                () = self.engine.shared.lifecycle.aborted() => RaceEvent::Draining,
                () = sleep(Duration::from_millis(hedge.after_ms)) => RaceEvent::Slow,
            }
        };
        match happened {
            RaceEvent::First(outcome) => return Ok((first, outcome)),
            RaceEvent::Left => return Err(failure::fail_request(self.ctx, Error::client_closed())),
            RaceEvent::Draining => return Ok((first, Err(AttemptFailure::OutOfTime(Error::draining())))),
            RaceEvent::Slow | RaceEvent::Second(_) => {}
        }
        match self.second(hedge).await? {
            Some(second) => self.both(first, second, upload).await,
            None => {
                let errand = first.trial.flight.errand.clone();
                self.ctx.attempt_handle = Some(errand);
                self.wait_for(first, upload).await
            }
        }
    }

    /// Starts the other attempt, where there is one to make and the process may make more.
    async fn second(&mut self, hedge: Hedge) -> Result<Option<AttemptRun>> {
        if !self.plan.can_hedge(&self.known) {
            return Ok(None);
        }
        if !self.engine.shared.hedge_budget.try_withdraw(hedge.max_extra_ratio) {
            self.engine.shared.metrics.record_hedge("refused");
            return Ok(None);
        }
        let Some(leaf) = self.plan.hedge_target(&mut self.known) else { return Ok(None) };
        let turn = NextAttempt { leaf, wait: Duration::ZERO, why: Reason::Hedge };
        Ok(self.launch(&turn).await?.ok().map(|(running, _)| running))
    }

    async fn both(
        &mut self,
        mut first: AttemptRun,
        mut second: AttemptRun,
        upload: &mut DownstreamWatch,
    ) -> Result<RaceResult> {
        let happened = {
            let (one, other) = (first.trial.ready(), second.trial.ready());
            tokio::pin!(one, other);
            tokio::select! {
                biased;
                outcome = &mut one => RaceEvent::First(outcome),
                outcome = &mut other => RaceEvent::Second(outcome),
                () = upload.watch(self.session, self.ctx) => RaceEvent::Left,
                () = self.engine.shared.lifecycle.aborted() => RaceEvent::Draining,
            }
        };
        match happened {
            RaceEvent::First(Ok(())) => {
                self.engine.shared.metrics.record_hedge("lost");
                self.ctx.record.lost_race(&second.trial.flight.errand, second.why);
                Ok((first, Ok(())))
            }
            RaceEvent::Second(Ok(())) => {
                self.engine.shared.metrics.record_hedge("won");
                self.ctx.record.lost_race(&first.trial.flight.errand, first.why);
                let ahead = second.trial.begun().saturating_duration_since(first.trial.begun());
                self.ctx.record.add_wait(ahead);
                self.plan.set_current(&second.trial.flight.errand.attempt.target);
                Ok((second, Ok(())))
            }
            // One of them failed: it is the other's now.
            RaceEvent::First(Err(lost)) => {
                self.forget(first, lost);
                self.plan.set_current(&second.trial.flight.errand.attempt.target);
                self.wait_for(second, upload).await
            }
            RaceEvent::Second(Err(lost)) => {
                self.forget(second, lost);
                self.ctx.attempt_handle = Some(first.trial.flight.errand.clone());
                self.wait_for(first, upload).await
            }
            RaceEvent::Left => Err(failure::fail_request(self.ctx, Error::client_closed())),
            RaceEvent::Draining | RaceEvent::Slow => {
                Ok((first, Err(AttemptFailure::OutOfTime(Error::draining()))))
            }
        }
    }

    /// One of two failed; the other one counts.
    fn forget(&mut self, running: AttemptRun, lost: AttemptFailure) {
        if let AttemptFailure::Failed(outcome, last) = lost {
            self.note(running, outcome, &last);
        }
    }
}
