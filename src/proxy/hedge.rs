//! A second attempt beside one that is slow: the first answer good enough wins, the other stops at once.
//!
//! Only before anything was told to the caller. How many there may be is `state::hedges`'.

use super::failure;
use super::flight::Upload;
use super::orchestrate::{Drive, Running, Turn};
use super::trial::Lost;
use crate::config::rescue::Hedge;
use crate::error::Error;
use crate::route::plan::Reason;
use pingora_core::Result;
use std::time::Duration;
use tokio::time::sleep;

/// Who was good enough first, or why nobody was.
type Won = (Running, std::result::Result<(), Lost>);

/// What happened first.
enum Happened {
    First(std::result::Result<(), Lost>),
    Second(std::result::Result<(), Lost>),
    Slow,
    Left,
    Draining,
}

impl Drive<'_> {
    /// Waits for `first`; when it is slow, for another one beside it.
    pub(super) async fn race(
        &mut self,
        mut first: Running,
        upload: &mut Upload,
        hedge: Hedge,
    ) -> Result<Won> {
        self.gateway.shared.hedge_budget.deposit();
        let happened = {
            let ready = first.trial.ready();
            tokio::select! {
                biased;
                outcome = ready => Happened::First(outcome),
                () = upload.watch(self.session, self.ctx) => Happened::Left,
                () = self.gateway.shared.lifecycle.aborted() => Happened::Draining,
                () = sleep(Duration::from_millis(hedge.after_ms)) => Happened::Slow,
            }
        };
        match happened {
            Happened::First(outcome) => return Ok((first, outcome)),
            Happened::Left => return Err(failure::fail_request(self.ctx, Error::client_closed())),
            Happened::Draining => return Ok((first, Err(Lost::OutOfTime(Error::draining())))),
            Happened::Slow | Happened::Second(_) => {}
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
    async fn second(&mut self, hedge: Hedge) -> Result<Option<Running>> {
        if !self.plan.can_hedge(&self.known) {
            return Ok(None);
        }
        if !self.gateway.shared.hedge_budget.try_withdraw(hedge.max_extra_ratio) {
            self.gateway.shared.metrics.record_hedge("refused");
            return Ok(None);
        }
        let Some(leaf) = self.plan.hedge_target(&mut self.known) else { return Ok(None) };
        let turn = Turn { leaf, wait: Duration::ZERO, why: Reason::Hedge };
        Ok(self.launch(&turn).await?.ok().map(|(running, _)| running))
    }

    async fn both(&mut self, mut first: Running, mut second: Running, upload: &mut Upload) -> Result<Won> {
        let happened = {
            let (one, other) = (first.trial.ready(), second.trial.ready());
            tokio::pin!(one, other);
            tokio::select! {
                biased;
                outcome = &mut one => Happened::First(outcome),
                outcome = &mut other => Happened::Second(outcome),
                () = upload.watch(self.session, self.ctx) => Happened::Left,
                () = self.gateway.shared.lifecycle.aborted() => Happened::Draining,
            }
        };
        match happened {
            Happened::First(Ok(())) => {
                self.gateway.shared.metrics.record_hedge("lost");
                self.ctx.record.lost_race(&second.trial.flight.errand, second.why);
                Ok((first, Ok(())))
            }
            Happened::Second(Ok(())) => {
                self.gateway.shared.metrics.record_hedge("won");
                self.ctx.record.lost_race(&first.trial.flight.errand, first.why);
                let ahead = second.trial.begun().saturating_duration_since(first.trial.begun());
                self.ctx.record.add_wait(ahead);
                self.plan.set_current(&second.trial.flight.errand.attempt.target);
                Ok((second, Ok(())))
            }
            // One of them failed: it is the other's now.
            Happened::First(Err(lost)) => {
                self.forget(first, lost);
                self.plan.set_current(&second.trial.flight.errand.attempt.target);
                self.wait_for(second, upload).await
            }
            Happened::Second(Err(lost)) => {
                self.forget(second, lost);
                self.ctx.attempt_handle = Some(first.trial.flight.errand.clone());
                self.wait_for(first, upload).await
            }
            Happened::Left => Err(failure::fail_request(self.ctx, Error::client_closed())),
            Happened::Draining | Happened::Slow => Ok((first, Err(Lost::OutOfTime(Error::draining())))),
        }
    }

    /// One of two failed; the other one counts.
    fn forget(&mut self, running: Running, lost: Lost) {
        if let Lost::Failed(outcome, last) = lost {
            self.note(running, outcome, &last);
        }
    }
}
