//! Hedging: two attempts at once, because the first one is slow. The first committable response wins, and the other attempt stops at once.
//!
//! Only before anything was sent to the client. When a second attempt is started: `orchestrator`; how many there may be:
//! `state::hedge_budget`.

use super::attempt_end;
use super::attempt_run::{AttemptRun, Readiness};
use super::client::{Client, Interruption};
use super::downstream::{Aborted, Downstream};
use super::downstream_watch::DownstreamWatch;
use futures_util::future::{Either, select};
use judgment::route::plan::Plan;

/// Waits for both attempts. On return `run` is the one that counts.
pub(super) async fn race<D: Downstream>(
    client: &mut Client<'_, D>,
    plan: &mut Plan,
    run: &mut Box<AttemptRun>,
    mut second: Box<AttemptRun>,
    watch: &mut DownstreamWatch,
) -> Result<Readiness, Aborted> {
    let event = {
        let one = run.until_committable();
        let other = second.until_committable();
        tokio::pin!(one, other);
        match client.unless_interrupted(watch, None, select(one, other)).await {
            Ok(Either::Left((readiness, _))) => Ok(Either::Left(readiness)),
            Ok(Either::Right((readiness, _))) => Ok(Either::Right(readiness)),
            Err(interruption) => Err(interruption),
        }
    };
    match event {
        Ok(Either::Left(Readiness::Committable)) => {
            client.engine.shared.metrics.record_hedge("lost");
            attempt_end::lost_race(client.ctx, &second);
            Ok(Readiness::Committable)
        }
        Ok(Either::Right(Readiness::Committable)) => {
            client.engine.shared.metrics.record_hedge("won");
            attempt_end::lost_race(client.ctx, run);
            let ahead = second.started().saturating_duration_since(run.started());
            client.ctx.record.add_wait(ahead);
            plan.set_current(&second.attempt.target);
            *run = second;
            Ok(Readiness::Committable)
        }
        // One of them failed: the other one counts from here on.
        Ok(Either::Left(readiness)) => {
            note_failure(client, run, readiness);
            plan.set_current(&second.attempt.target);
            *run = second;
            client.wait_for(run, watch).await
        }
        Ok(Either::Right(readiness)) => {
            note_failure(client, &mut second, readiness);
            drop(second);
            client.wait_for(run, watch).await
        }
        Err(Interruption::Stopped(error)) => {
            attempt_end::lost_race(client.ctx, &second);
            Ok(Readiness::Stopped(error))
        }
        Err(Interruption::ClientClosed | Interruption::Deadline) => {
            attempt_end::lost_race(client.ctx, run);
            Err(client.closed(&second))
        }
    }
}

fn note_failure<D>(client: &mut Client<'_, D>, run: &mut AttemptRun, readiness: Readiness) {
    if let Readiness::Failed(outcome, response) = readiness {
        attempt_end::failed(client.ctx, run, &outcome, &response);
    }
}
