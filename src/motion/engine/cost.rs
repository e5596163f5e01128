//! What the attempts of a request cost.
//!
//! The prices are those in force when the request began. Not here: the arithmetic (`price`).

use super::attempt_usage::{billing, is_unmeasured, spoken};
use super::record::{AttemptRecord, AttemptUsage, UsageSource};
use jiff::Timestamp;
use judgment::route::attempt::Attempt;
use judgment::route::target::Target;
use knowledge::price::{Charge, Cost, CostStatus, Rating, RequestPrices};
use std::sync::Arc;
use words::api::operation::Billing;
use words::api::tap::ResponseSummary;

/// Prices what one attempt used.
pub(super) fn price(prices: &RequestPrices, attempt: &mut AttemptRecord, is_batch: bool, at: Timestamp) {
    if let Some(used) = &mut attempt.used {
        if let Some(ceiling) = used.ceiling.take() {
            let model =
                attempt.model.as_deref().or(used.response_model.as_deref()).unwrap_or_default().to_owned();
            ceiling.apply(used, prices, attempt.target.provider.id(), &model);
        }
        used.cost = Some(of_usage(prices, &attempt.target, is_batch, attempt.model.as_deref(), used, at));
    }
}

/// What one use of a target costs. `is_batch`: it came in a provider's batch job.
pub(super) fn of_usage(
    prices: &RequestPrices,
    target: &Target,
    is_batch: bool,
    model: Option<&str>,
    used: &AttemptUsage,
    at: Timestamp,
) -> Cost {
    if target.is_clients_own {
        return Cost::free(Arc::clone(prices.version()));
    }
    let response_model = used.response_model.as_deref();
    let cost = prices.cost(&Charge {
        vendor: target.provider.id(),
        model: model.or(response_model).unwrap_or_default(),
        response_model,
        own: target.own_prices.as_deref(),
        usage: &used.usage,
        service_tier: used.service_tier.as_deref(),
        is_batch,
        at,
    });
    let is_measured = used.source != UsageSource::Unmeasured || cost.status == CostStatus::Free;
    if is_measured { cost } else { Cost::unknown(Arc::clone(prices.version()), cost.rates_hash) }
}

/// What all attempts of a request cost together; `None` if nothing is charged.
pub(super) fn of_request(attempts: &[AttemptRecord]) -> Option<Cost> {
    let mut costs = attempts.iter().filter_map(AttemptRecord::cost);
    let first = costs.next()?.clone();
    Some(costs.fold(first, |sum, cost| sum.plus(cost)))
}

/// Whether a response of this attempt costs something, and nobody knows what: it has no price, or does not say what it used. `is_whole`:
/// all of the response was read that will be.
pub(super) fn is_unknown(
    prices: &RequestPrices,
    attempt: &Attempt,
    response: Option<&ResponseSummary>,
    is_whole: bool,
) -> bool {
    if billing(attempt) == Billing::None || attempt.local_count.is_some() {
        return false;
    }
    let rate = |model: &str| attempt.target.rating(prices, model);
    let requested = attempt.model.as_deref();
    let responded = response.and_then(|response| response.model.as_deref());
    let rating = match requested.map(rate) {
        Some(rating) if responded.is_none() || !matches!(rating, Rating::Unknown) => rating,
        _ => rate(responded.unwrap_or_default()),
    };
    match rating {
        Rating::Unknown => true,
        Rating::Free => false,
        Rating::Priced(card) => {
            let is_unmeasured = response.is_some_and(|response| is_unmeasured(attempt, response, is_whole));
            is_unmeasured || (spoken(attempt).is_some() && !card.bills_characters())
        }
    }
}
