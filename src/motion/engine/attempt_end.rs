//! Notes how an attempt ended: in the request's record, in its target's latency, at its circuit breaker, and for its layers.
//!
//! Does not decide what follows (`route::plan`).

use super::attempt_run::{AttemptRun, FinalResponse};
use super::attempt_usage::Observed;
use super::request_context::RequestContext;
use judgment::route::outcome::Outcome;
use std::time::Instant;
use words::error::Error;

/// Its response goes to the client from here on.
pub(super) fn committed(ctx: &mut RequestContext, run: &AttemptRun) {
    ctx.facts = run.facts();
    ctx.record.attempt_finished(&run.attempt, ctx.facts.state, run.reason, None);
    if ctx.facts.cache.status.is_hit() {
        ctx.record.is_from_cache();
    }
    if run.is_charged_alone() {
        ctx.record.forwarded();
    }
    // A response made by the gateway, or for another request, says nothing about the target's latency.
    if let Some(memory) = run.attempt.target.state.get().filter(|_| run.calls_target()) {
        let now = Instant::now();
        memory.first_token(now.saturating_duration_since(run.started()), now);
    }
}

/// It failed before its response was committed.
pub(super) fn failed(
    ctx: &mut RequestContext,
    run: &mut AttemptRun,
    outcome: &Outcome,
    response: &FinalResponse,
) {
    let error = match response {
        FinalResponse::Error(error) | FinalResponse::Denied(error) => Some(error),
        _ => None,
    };
    // Denied before any of it was sent: there are hooks that look at it all the same.
    if let FinalResponse::Denied(_) = response
        && let Some(guarded) = run.layers.guarded.take()
    {
        guarded.finish();
    }
    ctx.facts = run.facts();
    ctx.record.attempt_finished(&run.attempt, ctx.facts.state, run.reason, error);
    ctx.record.used(match response {
        // All of it was read: who made the call is charged, whoever else reads it.
        FinalResponse::Provider { body, .. } if !outcome.is_success() && run.is_charged(true) => {
            Observed::of_error(&run.attempt, body)
        }
        _ => run.observed(),
    });
    if let FinalResponse::ProviderError(_, error) = response {
        ctx.record.error_in_success(error.status);
    }
    let now = Instant::now();
    let target = &run.attempt.target;
    // A filter's denial says nothing about the target's latency.
    let counts = !outcome.is_success() && run.calls_target() && !matches!(response, FinalResponse::Denied(_));
    if let Some(memory) = target.state.get().filter(|_| counts) {
        memory.attempt_failed(now.saturating_duration_since(run.started()), now);
    }
    run.layers.ends.end(*outcome);
    ctx.release_unused(target);
    if let Some(permit) = run.permit.take() {
        permit.finish(outcome.breaker_signal(target.policies.breaker.as_ref()), now);
    }
}

/// It was stopped before its response was committed.
pub(super) fn stopped(ctx: &mut RequestContext, run: &AttemptRun, error: &Error) {
    ctx.facts = run.facts();
    ctx.record.attempt_finished(&run.attempt, ctx.facts.state, run.reason, Some(error));
    ctx.record.used(run.observed());
}

/// Another attempt was quicker.
pub(super) fn lost_race(ctx: &mut RequestContext, run: &AttemptRun) {
    ctx.record.lost_race(&run.attempt, run.stream.state(), run.reason);
    ctx.record.used(run.observed());
}
