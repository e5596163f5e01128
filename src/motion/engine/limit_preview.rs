//! What the limits of a request would decide now, for explanations: those of the request as a whole, and those of its first attempt.
//!
//! Holds and counts nothing. Chosen and estimated as `limit_holds` does for requests that are sent.

use super::limit_holds::{Metadata, RequestFacts, key, only_reads, target_facts};
use super::limit_refusal::{self, amount, scope, unit};
use super::usage_estimate::UsageEstimate;
use jiff::Timestamp;
use judgment::route::attempt::{Attempt, Request};
use judgment::route::compiled::CompiledConfig;
use judgment::route::target::Target;
use knowledge::price::RequestPrices;
use memory::auth::ClientIdentity;
use memory::limits::{CountersFailure, Decision, Facts, Limits, Phase, Preview};
use memory::state::snapshot::SettingsSnapshot;
use serde::Serialize;
use serde_json::value::RawValue;
use std::sync::Arc;
use words::error::Error;

/// A request that would be sent.
pub struct PreviewedRequest<'a> {
    pub snapshot: &'a SettingsSnapshot,
    pub client: &'a Arc<ClientIdentity>,
    pub request: &'a Request,
    pub config: &'a CompiledConfig,
    /// Of the first attempt.
    pub target: &'a Arc<Target>,
    /// The merged metadata, a JSON object.
    pub metadata: Option<&'a RawValue>,
}

/// What its limits would decide.
#[derive(Debug, Default)]
pub struct PreviewedLimits {
    pub decisions: Vec<LimitView>,
    /// What the client would get, if a limit of the request as a whole refuses it. One of the target refuses the target alone.
    pub refusal: Option<Error>,
}

/// What one limit would decide.
#[derive(Debug, Serialize)]
pub struct LimitView {
    /// `request`: refuses the request. `target`: refuses the first target, and the config decides what is next.
    pub of: &'static str,
    pub scope: &'static str,
    /// The record's: a policy, key, workspace, provider or integration.
    pub id: String,
    pub name: Option<String>,
    /// `usage` or `rate`.
    pub kind: &'static str,
    /// `cost`, `tokens` or `requests`.
    #[serde(rename = "type")]
    pub counts: &'static str,
    pub unit: Option<&'static str>,
    pub hard: bool,
    /// `passes`, or why it refuses: `rate`, `reserved`, `unknown_price`, `no_bound`, `unboundable`, `unbounded_searches`, `does_not_fit`, `spent`.
    pub decision: &'static str,
    /// When its window ends; absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<String>,
    /// For those who may read policies.
    #[serde(skip_serializing_if = "Option::is_none", flatten)]
    pub amounts: Option<LimitAmounts>,
}

/// Of a limit's bucket, in dollars, tokens or requests.
#[derive(Debug, Serialize)]
pub struct LimitAmounts {
    /// Which bucket: `metadata._user:ann`; empty where the limit has one.
    pub value_key: String,
    pub limit: f64,
    pub spent: f64,
    /// Of requests under way.
    pub held: f64,
    /// What would be held for this request.
    pub wanted: f64,
}

/// `viewer`: who gets it, which decides what amounts it has.
///
/// # Errors
/// The counters cannot be reached.
pub async fn preview(
    limits: &Limits,
    prices: &RequestPrices,
    of: &PreviewedRequest<'_>,
    viewer: &ClientIdentity,
) -> Result<PreviewedLimits, CountersFailure> {
    let mut found = PreviewedLimits::default();
    if only_reads(of.request) {
        return Ok(found);
    }
    let user = of.request.body.as_ref().and_then(|body| body.text("user"));
    let metadata = Metadata::new(of.metadata, user.as_deref(), of.request.session.as_deref());
    let facts = RequestFacts {
        client: Some(of.client),
        workspace: of.client.workspace.or_else(|| of.snapshot.stored.default_workspace()),
        config: of.config.saved(),
        prompt: of.request.prompt.as_ref().map(|call| &*call.found.prompt.slug),
        operation: of.request.operation,
        metadata: &metadata,
    };
    match decided(limits, prices, of, &facts.at(None), Phase::Request).await? {
        Ok(preview) => {
            found.refusal = preview.refusal.map(|refusal| limit_refusal::error(&refusal, Some(viewer)));
            let views = preview.decisions.iter().map(|decision| view(decision, "request", viewer));
            found.decisions.extend(views);
        }
        Err(missing) => found.refusal = Some(missing),
    }
    // A request that the target cannot serve comes to no limit of it.
    let Ok(attempt) = Attempt::new(Arc::clone(of.target), of.request) else { return Ok(found) };
    let at_target = facts.at(Some(target_facts(of.target, attempt.model.as_deref())));
    if let Ok(preview) = decided(limits, prices, of, &at_target, Phase::Target).await? {
        let views = preview.decisions.iter().map(|decision| view(decision, "target", viewer));
        found.decisions.extend(views);
    }
    Ok(found)
}

/// The decisions of a phase; the inner error: the request lacks a value that a limit insists on.
async fn decided(
    limits: &Limits,
    prices: &RequestPrices,
    of: &PreviewedRequest<'_>,
    facts: &Facts<'_>,
    phase: Phase,
) -> Result<Result<Preview, Error>, CountersFailure> {
    let set = limits.in_force(of.snapshot);
    let selection = match set.select(facts, phase) {
        Ok(selection) => selection,
        Err(fact) => return Ok(Err(limit_refusal::missing(&fact))),
    };
    let now = Timestamp::now();
    let usage = UsageEstimate::new(of.request, of.target, prices, now, true);
    let cost_of = |output: u64| usage.max_cost(output).unwrap_or(i64::MAX);
    let model = of.target.model().or(of.request.model.as_deref()).unwrap_or_default();
    let likely = limits.expected_output(key(Some(of.client)), model, None, 1);
    let estimate = usage.estimate(likely, &cost_of);
    limits.preview(&selection, &estimate, now).await.map(Ok)
}

fn view(decision: &Decision, of: &'static str, client: &ClientIdentity) -> LimitView {
    let limit = &decision.limit;
    let shows_amounts = limit_refusal::may_see(client, limit, &decision.value_key);
    let counts = limit.counts();
    LimitView {
        of,
        scope: scope(limit.scope),
        id: limit.record.to_string(),
        name: limit.name.as_deref().map(str::to_owned),
        kind: if limit.is_rate() { "rate" } else { "usage" },
        counts: counts.as_str(),
        unit: unit(limit),
        hard: limit.hard,
        decision: decision.cause.map_or("passes", |cause| cause.as_str()),
        reset_at: decision.reset_at.map(|reset_at| format!("{reset_at:.3}")),
        amounts: shows_amounts.then(|| LimitAmounts {
            value_key: decision.value_key.to_string(),
            limit: amount(counts, limit.shown_value()),
            spent: amount(counts, limit.shown_usage(decision.spent)),
            held: amount(counts, decision.held),
            wanted: amount(counts, decision.wanted),
        }),
    }
}
