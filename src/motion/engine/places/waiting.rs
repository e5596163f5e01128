//! Waits for the places of an attempt, while the client may leave.

use super::{PlaceWait, Places};
use crate::engine::client::{Client, Interruption};
use crate::engine::downstream::{Aborted, Downstream};
use crate::engine::downstream_watch::DownstreamWatch;
use crate::engine::keep_alive::Heartbeat;
use judgment::route::deadlines::Deadlines;
use memory::state::slots::{Applicant, NoSlot, Slot};
use std::time::{Duration, Instant};
use words::error::Error;

/// What became of a wait.
pub(in crate::engine) enum Waited {
    Entered(Places),
    /// There is no place: another target may have one.
    Refused(Error),
    /// The process stops.
    Stopped(Error),
}

/// Waits for places, unless the client leaves. A stream that gets comments before its response gets them here, too. `has_other`: another
/// target follows where this one has no place.
///
/// # Errors
/// The client has left.
pub(in crate::engine) async fn wait<D: Downstream>(
    client: &mut Client<'_, D>,
    wait: &PlaceWait,
    has_other: bool,
) -> Result<Waited, Aborted> {
    let began = Instant::now();
    let started = client.ctx.span.started;
    let deadlines = Deadlines::new(&wait.target, started, began, false, client.streamed);
    let mut heartbeat = Heartbeat::new(&deadlines, client.streamed, client.response_started);
    let mut watch = DownstreamWatch::before_sending(client.downstream);
    let entered = {
        let who = Applicant { has_other, ..wait.who };
        let entering = enter(wait, who, began);
        tokio::pin!(entering);
        loop {
            match client.unless_interrupted(&mut watch, heartbeat.due(), &mut entering).await {
                Ok(entered) => break Ok(entered),
                Err(Interruption::Deadline) => {
                    heartbeat.sent();
                    Box::pin(client.send_early_heartbeat()).await?;
                }
                Err(interruption) => break Err(interruption),
            }
        }
    };
    client.ctx.record.queued(began.elapsed());
    let metrics = &client.engine.shared.metrics;
    let provider = wait.target.slug.as_deref().unwrap_or(wait.target.provider.id());
    let refused = match entered {
        Ok(Ok(slots)) => {
            metrics.record_queue_wait(provider, began.elapsed());
            return Ok(Waited::Entered(Places::new(&wait.target, slots, client.streamed)));
        }
        Ok(Err(refused)) => refused,
        Err(Interruption::Stopped(error)) => return Ok(Waited::Stopped(error)),
        Err(Interruption::ClientClosed | Interruption::Deadline) => {
            return Err(client.abort(Error::client_closed()));
        }
    };
    let (reason, why) = match refused {
        NoSlot::Full => ("full", "as many requests wait for it as may"),
        NoSlot::Late => ("late", "no place was free in time"),
        NoSlot::TooLong => ("too_long", "no place is expected to be free in time"),
    };
    metrics.record_queue_refusal(provider, reason);
    Ok(Waited::Refused(Error::target_busy(&wait.target.display_name(), why)))
}

/// All places one after the other, together no longer than the longest of their waits.
///
/// # Errors
/// As many wait as may, it took too long, or it would.
async fn enter(wait: &PlaceWait, who: Applicant, began: Instant) -> Result<Vec<Slot>, NoSlot> {
    let longest = wait.owners.iter().map(|owner| owner.policy.wait).max().unwrap_or(Duration::ZERO);
    let latest = began + longest;
    let deadline = who.deadline.map_or(latest, |deadline| deadline.min(latest));
    let who = Applicant { deadline: Some(deadline), ..who };
    let mut slots = Vec::with_capacity(wait.owners.len());
    for owner in wait.owners.iter() {
        slots.push(owner.slots.enter(owner.policy, who).await?);
    }
    Ok(slots)
}
