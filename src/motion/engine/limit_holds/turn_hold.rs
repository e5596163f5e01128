//! Holds what one turn of a realtime session may use: each turn is a request of its own for all limits.
//!
//! It is settled as any other request when its record is made. What a turn is, and how much it may use, `engine::realtime`.

use super::request_hold::RequestHold;
use super::reserving::{Counting, Judging, hold, select};
use super::{Behalf, HeldOfTarget, LimitHolds, RequestFacts, target_facts};
use crate::engine::Engine;
use crate::engine::realtime::first_turn;
use crate::engine::request_context::RequestContext;
use crate::engine::usage_estimate::{TurnUse, UsageEstimate};
use judgment::route::admission::meant::models_in_query;
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use memory::limits::{LimitSet, Phase, Reservation};
use percent_encoding::percent_decode_str;
use std::sync::Arc;
use words::api::operation::Operation;
use words::error::Error;

/// Which limits a turn has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::engine) struct HeldTurn {
    /// Any is for it.
    pub is_limited: bool,
    /// A hard one is.
    pub is_hard: bool,
}

impl LimitHolds {
    /// For a turn of a session.
    pub(in crate::engine) fn of_turn(session: &Behalf) -> Self {
        let Behalf { metadata, config, .. } = session.clone();
        Self { metadata, config, choices: 1, ..Self::default() }
    }
}

/// Whether a request opens a session whose turns are held, and not the session.
pub(super) fn has_turns(request: &Request) -> bool {
    request.operation == Operation::Realtime
}

/// Refuses a session whose first turn would be refused. Nothing stays held: opening a session uses nothing.
///
/// # Errors
/// As [`hold_turn`].
pub(super) async fn try_session(
    engine: &Engine,
    ctx: &mut RequestContext,
    request: &Request,
    target: &Arc<Target>,
) -> Result<(), Error> {
    let named = target.model().or(request.model.as_deref()).map(str::to_owned);
    let model = named.or_else(|| models_in_query(&request.uri).pop());
    let held = hold_turn(engine, ctx, target, model.as_deref(), &first_turn()).await;
    ctx.limits.cancel();
    if held?.is_limited && transcribes(request) {
        return Err(only_transcribes());
    }
    Ok(())
}

/// Whether the query asks for a session that only transcribes.
fn transcribes(request: &Request) -> bool {
    let query = request.uri.query().unwrap_or_default();
    let is_intent = |pair: &str| {
        let pair = percent_decode_str(pair).decode_utf8_lossy();
        pair.split_once('=').is_some_and(|(name, value)| name == "intent" && value == "transcription")
    };
    query.split('&').any(is_intent)
}

/// The error for a session that only transcribes, where limits are for it.
pub(in crate::engine) fn only_transcribes() -> Error {
    Error::not_implemented(
        "A realtime session that only transcribes has no turns that limits could hold, and limits are for this request. Use \
         POST /v1/audio/transcriptions.",
    )
}

/// Judges a turn by all of its limits and holds what it may use, for the context's record to settle.
///
/// # Errors
/// As for any request: 412 and 429 of a limit that refuses it, 400 where it lacks what a limit counts by, 503 without the counters' store.
pub(in crate::engine) async fn hold_turn(
    engine: &Engine,
    ctx: &mut RequestContext,
    target: &Arc<Target>,
    model: Option<&str>,
    turn: &TurnUse,
) -> Result<HeldTurn, Error> {
    let set = engine.limits.in_force(&ctx.snapshot);
    let mut found = HeldTurn::default();
    if set.has_request_limits() {
        let held = {
            let judged = Judged { set: &set, phase: Phase::Request, target, model };
            Box::pin(hold_phase(engine, ctx, &judged, turn, &mut found)).await
        };
        if let Some(reservation) = ctx.limits.note(held)? {
            ctx.limits.request = Some(RequestHold::of_turn(reservation, target));
        }
    }
    if set.has_target_limits() {
        let held = {
            let judged = Judged { set: &set, phase: Phase::Target, target, model };
            Box::pin(hold_phase(engine, ctx, &judged, turn, &mut found)).await
        };
        match ctx.limits.note(held) {
            Ok(None) => {}
            Ok(Some(reservation)) => {
                let target = Arc::clone(target);
                ctx.limits.attempts.push(HeldOfTarget { target, before: 0, reservation });
            }
            Err(error) => {
                ctx.limits.cancel();
                return Err(error);
            }
        }
    }
    Ok(found)
}

/// Who judges a turn.
struct Judged<'a> {
    set: &'a LimitSet,
    phase: Phase,
    target: &'a Arc<Target>,
    model: Option<&'a str>,
}

async fn hold_phase(
    engine: &Engine,
    ctx: &RequestContext,
    judged: &Judged<'_>,
    turn: &TurnUse,
    found: &mut HeldTurn,
) -> Result<Option<Reservation>, Box<super::Refused>> {
    let Judged { set, phase, target, model } = *judged;
    let of_target = (phase == Phase::Target).then(|| target_facts(target, model));
    let facts = RequestFacts::of(ctx).at(of_target);
    let Some(selection) = select(&Judging { set, phase, facts: &facts, replaced: None }, turn.is_made)?
    else {
        return Ok(None);
    };
    let for_hard = selection.limits().any(|limit| limit.hard);
    found.is_limited = true;
    found.is_hard |= for_hard;
    let model = model.unwrap_or_default();
    let usage = UsageEstimate::of_turn(turn, target, model, &ctx.prices, for_hard);
    let counting = Counting { model, requests: 1, is_made: turn.is_made, replaced: None };
    hold(engine, ctx, &selection, &usage, counting).await.map(Some)
}
