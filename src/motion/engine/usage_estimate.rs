//! What a request is expected to use before it is sent: tokens from its size and bounds, money from its target's prices.
//!
//! Not here: what it did use (`record`), and what limits do with the estimate (`limits`).

use super::attempt_usage::makes;
use jiff::Timestamp;
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use knowledge::price::{ExpectedTier, Rating, RequestPrices};
use memory::limits::Estimate;
use std::borrow::Cow;
use words::api::body::Body;
use words::api::operation::{Billing, Operation};
use words::api::{output_bounds, responses, search_bounds, service_tier};

/// Bytes of a body for each token of input, as is likely.
const BYTES_PER_TOKEN: usize = 3;

/// What one turn of a realtime session may use, tokens. Its input is the conversation so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnUse {
    pub input: u64,
    pub max_input: u64,
    pub max_output: u64,
    /// The provider has begun it already, and will charge for it: it counts, and no limit refuses it.
    pub is_made: bool,
}

/// What one request may use at one target.
pub(super) struct UsageEstimate {
    /// Likely tokens of input.
    input: u64,
    /// As many as it can be: each token is a byte at least.
    max_input: u64,
    /// Of all choices together; `None`: the request sets none.
    max_output: Option<u64>,
    choices: u64,
    /// Searches of the web that are billed by the piece; `None`: as many as the provider likes. Read only for hard limits.
    max_searches: Option<u64>,
    /// Whether a limit is to be judged by what the request can use at most.
    for_hard: bool,
    /// Whether its output can be bounded.
    can_be_bounded: bool,
    rating: Rating,
    service_tier: Option<String>,
    /// As [`Attempt::tier_bound`](judgment::route::attempt::Attempt::tier_bound).
    tier_bound: Option<&'static str>,
    at: Timestamp,
}

impl UsageEstimate {
    /// Of a request at `target`. `for_hard`: a limit is to be judged by what the request can use at most.
    pub fn new(
        request: &Request,
        target: &Target,
        prices: &RequestPrices,
        at: Timestamp,
        for_hard: bool,
    ) -> Self {
        let edited = request.may_be_edited_for(target).then(|| request.as_edited_for(target).ok()).flatten();
        let request = edited.as_deref().unwrap_or(request);
        let body = request.body.as_ref();
        // With what a translation adds: input that the client did not send.
        let size = |body: &Body| body.bytes().len() + responses::added_bytes(request.operation, body);
        let bytes = body.map_or(0, size);
        let model = target.model().or(request.model.as_deref()).unwrap_or_default();
        let rating = target.rating(prices, model);
        let service_tier = body.and_then(|body| match body.text("speed") {
            // Anthropic's fast mode has a price of its own, whatever the tier is.
            Some(speed) if speed == "fast" => Some(speed),
            _ => body.text("service_tier"),
        });
        let service_tier = service_tier.map(Cow::into_owned);
        let rating = match rating {
            Rating::Priced(card) if card.lacks(service_tier.as_deref()) => Rating::Unknown,
            _ if manages(request.operation) => Rating::Free,
            _ if request.operation.billing() == Billing::Calls && target.own_prices.is_none() => Rating::Free,
            rating => rating,
        };
        let bills_searches = for_hard && rating.card().is_some_and(|card| card.bills_searches());
        let max_searches = match body {
            Some(body) if bills_searches => search_bounds::bound(request.operation, body, model),
            _ => Some(0),
        };
        Self {
            input: (bytes / BYTES_PER_TOKEN) as u64,
            max_input: bytes as u64,
            // As many searches as the reranker makes of the documents.
            max_output: max_output(request)
                .filter(|_| !rating.card().is_some_and(|card| card.bills_reranks())),
            choices: request.outputs(),
            max_searches,
            for_hard,
            can_be_bounded: request.operation.is_chat() && body.is_some_and(Body::is_object),
            rating,
            service_tier,
            tier_bound: body.and_then(service_tier::bound_of),
            at,
        }
    }

    /// Of a turn of a realtime session at `target`.
    pub fn of_turn(
        turn: &TurnUse,
        target: &Target,
        model: &str,
        prices: &RequestPrices,
        for_hard: bool,
    ) -> Self {
        Self {
            input: turn.input,
            max_input: turn.max_input,
            max_output: Some(turn.max_output),
            choices: 1,
            max_searches: Some(0),
            for_hard,
            can_be_bounded: false,
            rating: target.rating(prices, model),
            service_tier: None,
            tier_bound: None,
            at: Timestamp::now(),
        }
    }

    /// The estimate, with `cost_of` of [`Self::max_cost`]. `likely_output`: what one choice without a bound is expected to be.
    pub fn estimate<'a>(&self, likely_output: u64, cost_of: &'a (dyn Fn(u64) -> i64 + Sync)) -> Estimate<'a> {
        let likely = likely_output.saturating_mul(self.choices);
        let output = self.max_output.unwrap_or(likely).min(likely);
        Estimate {
            requests: 1,
            input_tokens: self.input,
            max_input_tokens: self.max_input,
            output_tokens: output,
            max_output_tokens: self.max_output,
            outputs: self.choices,
            cost: self.likely_cost(output),
            max_cost: self.max_output.filter(|_| self.for_hard).and_then(|output| self.max_cost(output)),
            searches_freely: self.max_searches.is_none(),
            can_be_bounded: self.can_be_bounded,
            is_free: matches!(self.rating, Rating::Free),
            cost_of: matches!(self.rating, Rating::Priced(_)).then_some(cost_of),
            is_made: false,
        }
    }

    /// Nanodollars of the most input with this much output, with all searches, at the dearest service tier that the response may report;
    /// `None` where price or searches have no bound.
    pub fn max_cost(&self, output: u64) -> Option<i64> {
        let tier = self.tier_bound.map_or(ExpectedTier::Any, ExpectedTier::UpTo);
        self.cost(self.max_input, output, self.max_searches?, tier)
    }

    fn likely_cost(&self, output: u64) -> Option<i64> {
        self.cost(self.input, output, 0, ExpectedTier::Named(self.service_tier.as_deref()))
    }

    /// Never nothing: only a declared price is.
    fn cost(&self, input: u64, output: u64, searches: u64, tier: ExpectedTier<'_>) -> Option<i64> {
        let Rating::Priced(card) = &self.rating else { return None };
        Some(card.estimate(input, output, searches, tier, self.at)?.max(1))
    }
}

/// Whether it only ends or deletes something, which costs nothing: with a budget that is spent, what costs something must still be stopped.
pub(super) fn manages(operation: Operation) -> bool {
    use Operation as O;
    matches!(
        operation,
        O::ResponsesCancel | O::ResponsesDelete | O::BatchesCancel | O::FineTuningCancel | O::FilesDelete
    )
}

/// The bound of the output, of all choices together; `None`: it has none, or none that the gateway can read.
fn max_output(request: &Request) -> Option<u64> {
    use Operation as O;
    match request.operation {
        // What is said on a socket is in no body. Whoever reads a stored object asks for none.
        O::Realtime => return None,
        O::Passthrough if request.switches_protocols && request.body.is_none() => return None,
        _ if !makes(&request.method) => return Some(0),
        O::Embeddings | O::EmbedContent | O::BatchEmbedContents | O::Rerank | O::Moderations => {
            return Some(0);
        }
        O::CountTokens
        | O::GeminiCountTokens
        | O::ResponsesInputTokens
        | O::FilesUpload
        | O::McpCall
        | O::BatchesCancel => return Some(0),
        O::FineTuningCancel | O::ResponsesCancel => return Some(0),
        _ => {}
    }
    let body = request.body.as_ref()?;
    output_bounds::bound_of_all(request.operation, body)
}
