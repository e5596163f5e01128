//! Holds what one attempt may use, by the request that it sends.
//!
//! An attempt that sends what is held for the request as a whole, to the target that it is held for, takes that. For any other (a hook has
//! changed it, a stream is continued, another target) the request is held anew; where an attempt before it is under way or charged, it is
//! held by itself. Limits of the target hold each attempt.

use super::request_hold::Bound;
use super::reserving::{Judging, reserve};
use super::{HeldAttempt, HeldOfTarget, RequestFacts, target_facts};
use crate::engine::Engine;
use crate::engine::prepare::prepare;
use crate::engine::request_context::RequestContext;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::target::Target;
use memory::limits::{LimitSet, Phase, Reservation};
use std::sync::Arc;
use words::error::Error;

/// Why an attempt may not be sent.
pub(in crate::engine) enum NotHeldAttempt {
    Refused(Error),
    /// A limit has room for less output only, and the attempt cannot be made again with that bound.
    TooLong,
}

/// Judges an attempt by the limits of its target and by those of the request, and holds what it may use. `request`: what it was made
/// of. `may_fit`: it may be made again with a lower bound of its output, where a limit demands that.
///
/// # Errors
/// As for [`super::reserve_request`]. The target is refused, not the request.
pub(in crate::engine) async fn hold_attempt(
    engine: &Engine,
    ctx: &mut RequestContext,
    request: &Request,
    attempt: Box<Attempt>,
    may_fit: bool,
) -> Result<HeldAttempt, NotHeldAttempt> {
    let is_charged = ctx.is_charged();
    let is_judged = ctx.limits.judge(&attempt.target, request, is_charged);
    let Some(set) = ctx.limits.set.clone().filter(|_| is_judged) else {
        if let Some(held) = &mut ctx.limits.request {
            held.take(&attempt.target, request, is_charged);
        }
        return Ok(HeldAttempt::new(attempt));
    };
    let target = Arc::clone(&attempt.target);
    let output = Box::pin(hold_of_all(engine, ctx, &set, request, &attempt)).await;
    let Some(output) = output.map_err(NotHeldAttempt::Refused)? else {
        return Ok(HeldAttempt::new(attempt));
    };
    let fitted = if may_fit {
        let mut bounded = request.clone();
        bounded.bound_output(output);
        prepare(&engine.shared, &target, &bounded, &mut ctx.load.held).await.map_err(NotHeldAttempt::Refused)
    } else {
        Err(NotHeldAttempt::TooLong)
    };
    fitted.map(HeldAttempt::new).inspect_err(|_| ctx.limits.release_attempt(&target))
}

/// Returns what its output must be bounded to, in tokens.
async fn hold_of_all(
    engine: &Engine,
    ctx: &mut RequestContext,
    set: &LimitSet,
    request: &Request,
    attempt: &Attempt,
) -> Result<Option<u64>, Error> {
    let target = &attempt.target;
    let is_charged = ctx.is_charged();
    let bound = ctx.limits.request.as_mut().map(|held| held.take(target, request, is_charged));
    let of_request = match bound {
        None => None,
        Some(Bound::ByRequest(output)) => output,
        Some(Bound::Anew) => hold_anew(engine, ctx, set, request, target).await?,
        Some(Bound::Further) => hold_further(engine, ctx, set, request, target).await?,
    };
    let of_target = if set.has_target_limits() {
        hold_of_target(engine, ctx, set, request, attempt).await
    } else {
        Ok(None)
    };
    let of_target = of_target.inspect_err(|_| ctx.limits.release_further(target))?;
    Ok(of_request.into_iter().chain(of_target).min())
}

/// Holds another attempt than the one that is held: limits of the request as a whole judge what it uses anew. The request itself stays
/// counted.
async fn hold_anew(
    engine: &Engine,
    ctx: &mut RequestContext,
    set: &LimitSet,
    request: &Request,
    target: &Arc<Target>,
) -> Result<Option<u64>, Error> {
    let Some(mut before) = ctx.limits.request.take() else { return Ok(None) };
    ctx.limits.choices = request.outputs();
    let held = {
        let facts = RequestFacts::of(ctx).at(None);
        let replaced = Some(before.replaced());
        let judging = Judging { set, phase: Phase::Request, facts: &facts, replaced };
        Box::pin(reserve(engine, ctx, judging, request, target)).await
    };
    let held = ctx.limits.note(held);
    let before = ctx.limits.request.insert(before);
    Ok(before.renew(held?, target, request))
}

/// Holds an attempt in the limits of its target. Returns what its output must be bounded to, in tokens.
async fn hold_of_target(
    engine: &Engine,
    ctx: &mut RequestContext,
    set: &LimitSet,
    request: &Request,
    attempt: &Attempt,
) -> Result<Option<u64>, Error> {
    let target = Arc::clone(&attempt.target);
    let held = {
        let of_target = target_facts(&target, attempt.model.as_deref());
        let facts = RequestFacts::of(ctx).at(Some(of_target));
        let judging = Judging { set, phase: Phase::Target, facts: &facts, replaced: None };
        Box::pin(reserve(engine, ctx, judging, request, &target)).await
    };
    let Some(reservation) = ctx.limits.note(held)? else { return Ok(None) };
    let output = reservation.fitted_output();
    let before = ctx.record.attempt_count();
    ctx.limits.attempts.push(HeldOfTarget { target, before, reservation });
    Ok(output)
}

/// Holds an attempt beside or after one that may be charged in the limits of the request as a whole. Returns what its output must be bounded
/// to, in tokens.
async fn hold_further(
    engine: &Engine,
    ctx: &mut RequestContext,
    set: &LimitSet,
    request: &Request,
    target: &Arc<Target>,
) -> Result<Option<u64>, Error> {
    let reservation = if set.counts_usage_of_requests() {
        let facts = RequestFacts::of(ctx).at(None);
        let judging = Judging { set, phase: Phase::Further, facts: &facts, replaced: None };
        let held = Box::pin(reserve(engine, ctx, judging, request, target)).await;
        ctx.limits.note(held)?
    } else {
        None
    };
    let output = reservation.as_ref().and_then(Reservation::fitted_output);
    if let Some(held) = &mut ctx.limits.request {
        held.add_further(target, reservation);
    }
    Ok(output)
}
