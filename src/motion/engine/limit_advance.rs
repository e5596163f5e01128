//! Holds the budgets of a batch in advance: what its lines are expected to use together.
//!
//! Estimated line by line as `limit_holds` does for the requests that they become. Not here: how it is held (`limits::advance`).

use super::Engine;
use super::limit_holds::{Metadata, RequestFacts, key};
use super::limit_refusal;
use super::request_context::RequestContext;
use super::usage_estimate::UsageEstimate;
use jiff::Timestamp;
use judgment::route::attempt::Request;
use judgment::route::compiled::CompiledConfig;
use judgment::route::target::Target;
use knowledge::price::RequestPrices;
use memory::auth::ClientIdentity;
use memory::limits::{Advance, AdvanceEstimate, Cause, Estimate, LimitSet, Phase};
use std::sync::Arc;
use words::error::Error;

/// Why a batch's budgets are not held.
#[derive(Debug)]
pub(crate) enum NotHeld {
    /// Others hold the rest, and may not use it.
    Reserved(Box<Error>),
    /// A budget is used up, or what is left of it is too little.
    Refused(Box<Error>),
}

/// The limits in force, if there are budgets among them.
pub fn budgets(engine: &Engine) -> Option<Arc<LimitSet>> {
    let set = engine.limits.in_force(&engine.shared.settings_arc());
    set.has_budgets().then_some(set)
}

/// Adds what a request is expected to use at this target, its first one, to the sum of its batch.
pub(super) fn add(
    engine: &Engine,
    ctx: &RequestContext,
    request: &Request,
    config: &CompiledConfig,
    first: &Arc<Target>,
    sum: &mut AdvanceEstimate,
) {
    let set = engine.limits.in_force(&ctx.snapshot);
    let user = request.body.as_ref().and_then(|body| body.text("user"));
    let metadata =
        Metadata::new(ctx.record.named.metadata.as_deref(), user.as_deref(), request.session.as_deref());
    let facts = RequestFacts {
        client: ctx.record.client.as_deref(),
        workspace: ctx.workspace().or_else(|| ctx.snapshot.stored.default_workspace()),
        config: config.saved(),
        prompt: None,
        operation: ctx.api.operation,
        metadata: &metadata,
    };
    let facts = facts.at(None);
    // A line without a value that a limit insists on is refused when it is sent.
    let Ok(selection) = set.select(&facts, Phase::Request) else { return };
    let now = Timestamp::now();
    let prices = RequestPrices::new(engine.shared.prices.load_full());
    let usage = UsageEstimate::new(request, first, &prices, now, true);
    let cost_of = |output: u64| usage.max_cost(output).unwrap_or(i64::MAX);
    let model = first.model().or(request.model.as_deref()).unwrap_or_default();
    let likely = engine.limits.expected_output(key(ctx.record.client.as_ref()), model, None, 1);
    let estimate: Estimate<'_> = usage.estimate(likely, &cost_of);
    engine.limits.add_to_advance(sum, &selection, &estimate, now);
}

/// Holds what a batch of this client is expected to use.
///
/// # Errors
/// A budget has no room for it.
pub fn hold(
    engine: &Engine,
    sum: &AdvanceEstimate,
    client: Option<&ClientIdentity>,
) -> Result<Advance, NotHeld> {
    engine.limits.advance(sum, Timestamp::now()).map_err(|refusal| {
        engine.shared.metrics.record_limit_refusal(refusal.limit.scope.as_str(), refusal.cause.as_str());
        let error = Box::new(limit_refusal::error(&refusal, client));
        match refusal.cause {
            Cause::Reserved => NotHeld::Reserved(error),
            _ => NotHeld::Refused(error),
        }
    })
}
