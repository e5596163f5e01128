//! Judges requests by their limits, and reserves what they may use.
//!
//! What was reserved is kept and settled in `limit_holds`; what an attempt holds, `attempt_hold`.

use super::request_hold::RequestHold;
use super::turn_hold::{has_turns, try_session};
use super::{Metadata, Refused, RequestFacts, key, only_reads};
use crate::engine::Engine;
use crate::engine::limit_refusal;
use crate::engine::request_context::RequestContext;
use crate::engine::usage_estimate::UsageEstimate;
use jiff::Timestamp;
use judgment::route::attempt::Request;
use judgment::route::compiled::CompiledConfig;
use judgment::route::target::Target;
use memory::limits::{Estimate, Facts, LimitSet, Phase, Reservation, Selection, Tightest};
use std::sync::Arc;
use words::error::Error;

/// Which limits judge: those of a set that, in one phase, are for these facts.
pub(super) struct Judging<'a> {
    pub set: &'a LimitSet,
    pub phase: Phase,
    pub facts: &'a Facts<'a>,
    /// What is held of tokens and costs for another attempt, in whose place this is held.
    pub replaced: Option<&'a mut Reservation>,
}

/// Judges a request by the limits that are for it as a whole, and holds what it may use. `first`: the target of its first
/// attempt, whose prices count.
///
/// # Errors
/// 412 and 429 of a limit that refuses it, 400 where it lacks what a limit counts by, 503 without the counters' store.
pub(in crate::engine) async fn reserve_request(
    engine: &Engine,
    ctx: &mut RequestContext,
    request: &mut Request,
    config: &CompiledConfig,
    first: &Arc<Target>,
) -> Result<(), Error> {
    let set = engine.limits.in_force(&ctx.snapshot);
    if !set.has_request_limits() && !set.has_target_limits() {
        return Ok(());
    }
    let user = request.body.as_ref().and_then(|body| body.text("user"));
    ctx.limits.metadata =
        Metadata::new(ctx.record.named.metadata.as_deref(), user.as_deref(), request.session.as_deref());
    ctx.limits.config = config.saved().cloned();
    // What the gateway sends for it may be under limits all the same.
    if ctx.offline.is_unlimited || only_reads(request) {
        return Ok(());
    }
    ctx.limits.choices = request.outputs();
    if request.switches_protocols && has_turns(request) {
        return try_session(engine, ctx, request, first).await;
    }
    if set.has_request_limits() {
        let held = {
            let facts = RequestFacts::of(ctx).at(None);
            let judging = Judging { set: &set, phase: Phase::Request, facts: &facts, replaced: None };
            reserve(engine, ctx, judging, request, first).await
        };
        if let Some(reservation) = ctx.limits.note(held)? {
            if let Some(output) = reservation.fitted_output() {
                request.bound_output(output);
            }
            ctx.limits.request = Some(RequestHold::new(reservation, first, request));
        }
    }
    ctx.limits.set = Some(set);
    Ok(())
}

/// Holds what a request may use of the limits that judge it; `None`: none does.
pub(super) async fn reserve(
    engine: &Engine,
    ctx: &RequestContext,
    judging: Judging<'_>,
    request: &Request,
    target: &Arc<Target>,
) -> Result<Option<Reservation>, Box<Refused>> {
    // What a batch job has given is paid for: it counts in budgets, and nothing refuses it.
    let is_made = ctx.offline.given.is_some();
    let Some(mut selection) = select(&judging, is_made)? else { return Ok(None) };
    let Judging { phase, replaced, .. } = judging;
    if phase == Phase::Further {
        selection.leave_out_clamped(ctx.limits.request.iter().flat_map(RequestHold::reservations));
        if selection.is_empty() {
            return Ok(None);
        }
    }
    let for_hard = selection.limits().any(|limit| limit.hard);
    let usage = UsageEstimate::new(request, target, &ctx.prices, Timestamp::now(), for_hard);
    let model = target.model().or(request.model.as_deref()).unwrap_or_default();
    // The request itself was counted when it was held as a whole at first.
    let requests = u64::from(phase != Phase::Further && replaced.is_none());
    let counting = Counting { model, requests, is_made, replaced };
    hold(engine, ctx, &selection, &usage, counting).await.map(Some)
}

/// The limits that judge; `None`: none does. `is_made`: budgets only count.
pub(super) fn select<'a>(
    judging: &Judging<'a>,
    is_made: bool,
) -> Result<Option<Selection<'a>>, Box<Refused>> {
    let Judging { set, phase, facts, .. } = *judging;
    let selection = if is_made {
        set.select_budgets(facts, phase)
    } else {
        set.select(facts, phase).map_err(|fact| {
            let error = limit_refusal::missing(&fact);
            Box::new(Refused { error, tightest: Tightest::default() })
        })?
    };
    Ok((!selection.is_empty()).then_some(selection))
}

/// How what is held counts.
pub(super) struct Counting<'a> {
    pub model: &'a str,
    /// How many requests it is.
    pub requests: u64,
    pub is_made: bool,
    /// As of [`Judging`].
    pub replaced: Option<&'a mut Reservation>,
}

/// Holds what is expected to be used of the selected limits.
pub(super) async fn hold(
    engine: &Engine,
    ctx: &RequestContext,
    selection: &Selection<'_>,
    usage: &UsageEstimate,
    counting: Counting<'_>,
) -> Result<Reservation, Box<Refused>> {
    let Counting { model, requests, is_made, replaced } = counting;
    let cost_of = |output: u64| usage.max_cost(output).unwrap_or(i64::MAX);
    let likely = engine.limits.expected_output(key(ctx.record.client.as_ref()), model, None, 1);
    let estimate = Estimate { requests, is_made, ..usage.estimate(likely, &cost_of) };
    // Read again: a large body takes a while, and windows are short.
    let now = Timestamp::now();
    let advance = ctx.limits.advance.as_deref();
    let held = match replaced {
        Some(replaced) => engine.limits.renew(replaced, selection, &estimate, advance, now).await,
        None => engine.limits.reserve(selection, &estimate, advance, now).await,
    };
    match held {
        Ok(reservation) => Ok(reservation),
        Err(refusal) => {
            let cause = refusal.cause.as_str();
            engine.shared.metrics.record_limit_refusal(refusal.limit.scope.as_str(), cause);
            let error = limit_refusal::error(&refusal, ctx.record.client.as_deref());
            Err(Box::new(Refused { error, tightest: refusal.tightest }))
        }
    }
}
