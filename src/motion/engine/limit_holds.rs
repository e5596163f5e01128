//! The limits of one request: holds what it and its attempts may use, and settles it with what they did use.
//!
//! Which limits there are and what they hold is the room `limits`; what a request is expected to use, `usage_estimate`.
//!
//! A request is judged when its first target is chosen, each attempt by the limits of its target. What they hold is settled when
//! the record is made, with what the attempts used. A refused target is `Outcome::Limited`: fallback and balance go on to another
//! one, breakers and retries do not see it. A process without limits compares one pointer.

mod attempt_hold;
mod held_attempt;
mod request_hold;

pub(super) use attempt_hold::{NotHeldAttempt, compile};
pub use held_attempt::{HeldAttempt, SealedAttempt};

use super::Engine;
use super::limit_headers;
use super::limit_refusal;
use super::record::{AttemptRecord, RequestRecord};
use super::request_context::RequestContext;
use super::usage_estimate::UsageEstimate;
use http::{HeaderMap, Method};
use jiff::Timestamp;
use judgment::route::attempt::Request;
use judgment::route::compiled::CompiledConfig;
use judgment::route::target::Target;
use memory::auth::{ClientIdentity, ORGANISATION};
use memory::limits::{
    self, Actual, Advance, Estimate, Facts, Id, LimitSet, Limits, Named, Phase, Remaining, Reservation,
    TargetFacts, Tightest,
};
use memory::state::directory::SavedName;
use request_hold::RequestHold;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;
use uuid::Uuid;
use words::api::operation::Operation;
use words::error::Error;

/// The member of metadata that names the user.
const USER: &str = "_user";

/// What one request holds of its limits. Empty where no limit is for it.
#[derive(Default)]
pub struct LimitHolds {
    /// The limits it is judged by, to its end; `None`: there are none at all.
    set: Option<Arc<LimitSet>>,
    metadata: Metadata,
    config: Option<SavedName>,
    request: Option<RequestHold>,
    /// What is held for it, and other lines of its batch, already.
    pub advance: Option<Arc<Advance>>,
    /// How many choices the request has.
    choices: u64,
    /// Of the attempts that are not settled yet.
    attempts: Vec<HeldOfTarget>,
    tightest: Tightest,
    /// Of the limits that refused the request, or the last target.
    refused: Tightest,
}

/// What an attempt holds of the limits of its target.
struct HeldOfTarget {
    target: Arc<Target>,
    /// How many attempts the request's record had before it: its own is the next one at this target.
    before: usize,
    reservation: Reservation,
}

impl LimitHolds {
    /// Whether an attempt that sends this request is judged: by limits of its target, by hard budgets of the request, or because what is
    /// held of the request is held for another one.
    pub fn judge(&self, request: &Request) -> bool {
        let Some(set) = &self.set else { return false };
        set.has_target_limits() || set.has_hard_budgets() || self.holds_another(request)
    }

    /// Whether what is held of the request is for another one than this.
    pub fn holds_another(&self, request: &Request) -> bool {
        self.request.as_ref().is_some_and(|held| !held.is_for(request))
    }

    /// Keeps the rate limits of a judgment for the response's headers.
    ///
    /// # Errors
    /// The refusal's.
    fn note(
        &mut self,
        held: Result<Option<Reservation>, Box<Refused>>,
    ) -> Result<Option<Reservation>, Error> {
        match held {
            Ok(held) => {
                if let Some(held) = &held {
                    self.tightest = tighter(self.tightest, held.tightest());
                }
                Ok(held)
            }
            Err(refused) => {
                self.refused = refused.tightest;
                Err(refused.error)
            }
        }
    }

    /// Adds what is left of the tightest rate limits to a response's headers, in the place of the provider's own.
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        limit_headers::write(headers, self.tightest);
    }

    /// As [`LimitHolds::add_headers`], for an error: a limit that refused the last target is the tightest.
    pub fn add_refusal_headers(&self, headers: &mut HeaderMap) {
        limit_headers::write(headers, tighter(self.tightest, self.refused));
    }

    /// An attempt failed, and nothing is charged for it.
    pub fn release_attempt(&mut self, target: &Arc<Target>) {
        self.release_further(target);
        if let Some(at) = self.attempts.iter().rposition(|held| Arc::ptr_eq(&held.target, target)) {
            self.attempts.remove(at).reservation.release(Timestamp::now());
        }
    }

    /// An attempt is not made, or nothing is charged for it: what the request holds for it is free for another.
    fn release_further(&mut self, target: &Arc<Target>) {
        if let Some(request) = &mut self.request {
            request.release_attempt(target);
        }
    }

    /// Settles what is held with what the request used, which the estimates of the next ones follow.
    pub fn settle(&mut self, record: &RequestRecord, limits: &Limits) {
        if self.request.is_none() && self.attempts.is_empty() {
            return;
        }
        for attempt in &record.routed.attempts {
            if let Some(used) = &attempt.used {
                let model = attempt.model.as_deref().unwrap_or_default();
                limits.note_output(key(record.client.as_ref()), model, used.usage.output, self.choices);
            }
        }
        let now = Timestamp::now();
        for HeldOfTarget { target, before, reservation } in self.attempts.drain(..) {
            let mut later = record.routed.attempts.iter().skip(before);
            let own = later.find(|attempt| Arc::ptr_eq(&attempt.target, &target));
            settle(reservation, used(own), now);
        }
        let Some(request) = self.request.take() else { return };
        let is_limited = record.response.error.as_ref().is_some_and(|error| error.limit.is_some());
        // The limits of all its targets refused it: it counts nowhere.
        if is_limited && record.routed.attempts.iter().all(|attempt| attempt.time.started.is_none()) {
            return request.cancel(now);
        }
        request.settle(used(&record.routed.attempts), now);
    }

    /// The facts of a request of this context.
    fn facts<'a>(&'a self, ctx: &'a RequestContext, target: Option<TargetFacts<'a>>) -> Facts<'a> {
        let of_request = RequestFacts {
            client: ctx.record.client.as_deref(),
            workspace: ctx.workspace().or_else(|| ctx.snapshot.stored.default_workspace()),
            config: self.config.as_ref(),
            prompt: ctx.record.named.prompt.as_ref().map(|found| &*found.prompt.slug),
            operation: ctx.api.operation,
            metadata: &self.metadata,
        };
        of_request.at(target)
    }
}

/// What limits look at of a request.
pub(super) struct RequestFacts<'a> {
    pub client: Option<&'a ClientIdentity>,
    pub workspace: Option<Uuid>,
    pub config: Option<&'a SavedName>,
    /// The slug of the prompt.
    pub prompt: Option<&'a str>,
    pub operation: Operation,
    pub metadata: &'a Metadata,
}

impl<'a> RequestFacts<'a> {
    /// The facts of the request as a whole, or of an attempt at this target.
    pub fn at(&self, target: Option<TargetFacts<'a>>) -> Facts<'a> {
        let api_key = self.client.and_then(|client| {
            client.key_id.map(Id::Record).or_else(|| client.id.as_deref().map(Id::Settings))
        });
        Facts {
            organisation: Some(ORGANISATION),
            workspace: self.workspace,
            api_key,
            config: self.config.map(|saved| Named {
                slug: &saved.slug,
                id: saved.id.map_or(Id::Settings(&saved.slug), Id::Record),
            }),
            prompt: self.prompt,
            endpoint_type: Some(self.operation.reference_name()),
            metadata: self.metadata,
            target,
        }
    }
}

/// What limits look at of an attempt's target.
pub(super) fn target_facts<'a>(target: &'a Target, model: Option<&'a str>) -> TargetFacts<'a> {
    TargetFacts {
        model,
        provider: target.provider.id(),
        virtual_key: target
            .slug
            .as_deref()
            .map(|slug| Named { slug, id: target.ids.provider.map_or(Id::Settings(slug), Id::Record) }),
        integration: target.ids.integration,
    }
}

impl Engine {
    /// Judges a request by the limits that are for it as a whole, and holds what it may use. `first`: the target of its first
    /// attempt, whose prices count.
    ///
    /// # Errors
    /// 412 and 429 of a limit that refuses it, 400 where it lacks what a limit counts by, 503 without the counters' store.
    pub async fn reserve_request(
        &self,
        ctx: &mut RequestContext,
        request: &mut Request,
        config: &CompiledConfig,
        first: &Arc<Target>,
    ) -> Result<(), Error> {
        let set = self.limits.in_force(&ctx.snapshot);
        if (!set.has_request_limits() && !set.has_target_limits())
            || ctx.offline.is_unlimited
            || only_reads(request)
        {
            return Ok(());
        }
        let user = request.body.as_ref().and_then(|body| body.text("user"));
        ctx.limits.metadata = Metadata::new(ctx.record.named.metadata.as_deref(), user.as_deref());
        ctx.limits.config = config.saved().cloned();
        ctx.limits.choices = request.outputs();
        if set.has_request_limits() {
            let held = {
                let facts = ctx.limits.facts(ctx, None);
                let judging = Judging { set: &set, phase: Phase::Request, facts: &facts };
                self.reserve(ctx, &judging, request, first).await
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
    async fn reserve(
        &self,
        ctx: &RequestContext,
        judging: &Judging<'_>,
        request: &Request,
        target: &Arc<Target>,
    ) -> Result<Option<Reservation>, Box<Refused>> {
        // What a batch job has given is paid for: it counts in budgets, and nothing refuses it.
        let Judging { set, phase, facts } = *judging;
        let is_made = ctx.offline.given.is_some();
        let selection = if is_made {
            set.select_budgets(facts, phase)
        } else {
            set.select(facts, phase).map_err(|fact| {
                let error = limit_refusal::missing(&fact);
                Box::new(Refused { error, tightest: Tightest::default() })
            })?
        };
        if selection.is_empty() {
            return Ok(None);
        }
        let for_hard = selection.limits().any(|limit| limit.hard);
        let usage = UsageEstimate::new(request, target, &ctx.prices, Timestamp::now(), for_hard);
        let cost_of = |output: u64| usage.max_cost(output).unwrap_or(i64::MAX);
        let model = target.model().or(request.model.as_deref()).unwrap_or_default();
        let likely = self.limits.expected_output(key(ctx.record.client.as_ref()), model, None, 1);
        // The request itself was counted when it was held as a whole.
        let requests = u64::from(phase != Phase::Further);
        let estimate = Estimate { requests, is_made, ..usage.estimate(likely, &cost_of) };
        // Read again: a large body takes a while, and windows are short.
        let now = Timestamp::now();
        match self.limits.reserve(&selection, &estimate, ctx.limits.advance.as_deref(), now).await {
            Ok(reservation) => Ok(Some(reservation)),
            Err(refusal) => {
                let cause = refusal.cause.as_str();
                self.shared.metrics.record_limit_refusal(refusal.limit.scope.as_str(), cause);
                let error = limit_refusal::error(&refusal, ctx.record.client.as_deref());
                Err(Box::new(Refused { error, tightest: refusal.tightest }))
            }
        }
    }
}

impl RequestContext {
    /// An attempt at this target failed: what it holds is released, unless the provider charges for it.
    pub fn release_unused(&mut self, target: &Arc<Target>) {
        if self.record.last_is_unused() {
            self.limits.release_attempt(target);
        }
    }
}

/// Which limits judge: those of a set that, in one phase, are for these facts.
struct Judging<'a> {
    set: &'a LimitSet,
    phase: Phase,
    facts: &'a Facts<'a>,
}

/// A refusal, and the rate limits for the headers of its response.
struct Refused {
    error: Error,
    tightest: Tightest,
}

/// Whose requests are alike: those of one key.
pub(super) fn key(client: Option<&Arc<ClientIdentity>>) -> &str {
    client.and_then(|client| client.id.as_deref()).unwrap_or_default()
}

/// Whether it reads what is kept at a provider: clients whose limits are spent still may.
pub(super) fn only_reads(request: &Request) -> bool {
    use Operation as O;
    request.method == Method::GET
        && matches!(
            request.operation,
            O::FilesList
                | O::FilesGet
                | O::FilesContent
                | O::BatchesList
                | O::BatchesGet
                | O::BatchesOutput
                | O::FineTuningList
                | O::FineTuningGet
                | O::FineTuningEvents
                | O::FineTuningCheckpoints
                | O::ResponsesGet
                | O::ResponsesInputItems
                | O::Models
                | O::ModelsGet
        )
}

/// Of each kind the limit with less left.
fn tighter(one: Tightest, other: Tightest) -> Tightest {
    let less = |one: Option<Remaining>, other: Option<Remaining>| match (one, other) {
        (Some(one), Some(other)) => Some(if other.remaining < one.remaining { other } else { one }),
        (one, other) => one.or(other),
    };
    Tightest { requests: less(one.requests, other.requests), tokens: less(one.tokens, other.tokens) }
}

/// What attempts used together; `None`: nothing is charged for any.
fn used<'a>(attempts: impl IntoIterator<Item = &'a AttemptRecord>) -> Option<Actual> {
    let mut sum: Option<Actual> = None;
    for attempt in attempts {
        let Some(used) = &attempt.used else { continue };
        let before = sum.unwrap_or(Actual { requests: 1, tokens: Some(0), cost: None });
        let tokens = used.is_measured().then(|| used.usage.input.saturating_add(used.usage.output));
        let cost = attempt.cost().and_then(|cost| cost.nanodollars);
        sum = Some(Actual {
            requests: 1,
            tokens: before.tokens.zip(tokens).map(|(one, other)| one.saturating_add(other)),
            cost: match (before.cost, cost) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            },
        });
    }
    sum
}

fn settle(reservation: Reservation, used: Option<Actual>, now: Timestamp) {
    match used {
        Some(actual) => reservation.settle(actual, now),
        None => reservation.release(now),
    }
}

/// The merged metadata of a request; `user` of its body stands in for `_user`.
#[derive(Debug, Default)]
pub(super) struct Metadata(Vec<(String, String)>);

impl Metadata {
    pub fn new(json: Option<&RawValue>, user: Option<&str>) -> Self {
        if json.is_none() && user.is_none() {
            return Self::default();
        }
        let members: Option<Map<String, Value>> = json.and_then(|json| serde_json::from_str(json.get()).ok());
        let text = |value: Value| match value {
            Value::String(text) => Some(text),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            _ => None,
        };
        let mut members: Vec<(String, String)> =
            members.into_iter().flatten().filter_map(|(name, value)| Some((name, text(value)?))).collect();
        if let Some(user) = user.filter(|_| !members.iter().any(|(name, _)| name == USER)) {
            members.push((USER.to_owned(), user.to_owned()));
        }
        Self(members)
    }
}

impl limits::Metadata for Metadata {
    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_the_body_stands_in_for_the_one_of_the_metadata() {
        let json = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        for (metadata, user, wanted) in [
            (Some(r#"{"_user":"ann"}"#), Some("bob"), Some("ann")),
            (Some(r#"{"team":"a"}"#), Some("bob"), Some("bob")),
            (Some(r#"{"_user":7}"#), None, Some("7")),
            (Some(r#"{"_user":null}"#), Some("bob"), Some("bob")),
            (None, Some("bob"), Some("bob")),
            (None, None, None),
        ] {
            let raw = metadata.map(json);
            let metadata = Metadata::new(raw.as_deref(), user);
            assert_eq!(limits::Metadata::value(&metadata, USER), wanted, "{raw:?}");
        }
    }
}
