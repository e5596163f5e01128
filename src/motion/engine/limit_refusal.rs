//! The error that a client gets when a limit refuses its request: which limit, why, and when to try again.
//!
//! Not here: what refuses (`limits`), and how errors are written (`error_response`).

use jiff::Timestamp;
use knowledge::price::money;
use memory::auth::ClientIdentity;
use memory::limits::{Cause, Counted, Limit, LimitKind, LimitScope, MissingFact, Refusal};
use words::error::{Amounts, Error, Kind, LimitDetails};
use words::settings::scopes::Scope;

/// The most limits that one error names.
const MAX_OTHERS: usize = 10;

/// The error for a refusal. `client`: amounts are only for those who may read policies, and see the bucket.
pub(super) fn error(refusal: &Refusal, client: Option<&ClientIdentity>) -> Error {
    let limit = &refusal.limit;
    if refusal.cause == Cause::Unavailable {
        return Error::limits_unavailable(if limit.hard {
            "A hard limit is for this request, and what it counts cannot be read or written now. Such requests are refused \
             meanwhile."
        } else {
            "This gateway cannot read its budgets now, and requests are refused meanwhile (limits.on_store_error: deny)."
        });
    }
    let shows_amounts = client.is_some_and(|client| may_see(client, limit, &refusal.value_key));
    let (kind, error_type, code) = names(refusal.cause, limit.scope);
    let others = refusal.all.iter().filter(|other| (other.id, other.index) != (limit.id, limit.index));
    let details = LimitDetails {
        scope: scope(limit.scope),
        id: limit.record.to_string(),
        name: limit.name.as_deref().map(str::to_owned),
        kind: if limit.is_rate() { "rate" } else { "usage" },
        counts: limit.counts().as_str(),
        unit: unit(limit),
        reset_at: refusal.reset_at.map(|reset_at| format!("{reset_at:.3}")),
        retry_after: retry_after(refusal),
        error_type,
        code,
        amounts: shows_amounts.then(|| Amounts {
            spent: amount(limit.counts(), limit.shown_usage(refusal.spent)),
            limit: amount(limit.counts(), limit.shown_value()),
        }),
        others: others.take(MAX_OTHERS).map(|other| name(other)).collect(),
    };
    Error::limited(kind, message(refusal), details)
}

/// Whether a client may see what is in a bucket: it may read policies, and is not kept to one workspace, or the bucket is its workspace's.
pub(super) fn may_see(client: &ClientIdentity, limit: &Limit, value_key: &str) -> bool {
    let is_own = || limit.is_of_workspace(value_key, client.workspace.unwrap_or_default());
    client.scopes.contains(Scope::PoliciesRead) && (!client.is_bound || is_own())
}

/// The error for a request that lacks a value which a limit with `on_missing: deny` groups by.
pub(super) fn missing(fact: &MissingFact) -> Error {
    let key = &fact.key;
    let what = match key.strip_prefix("metadata.") {
        Some(name) => format!("Send {name:?} in the header x-gateway-metadata"),
        None => "Send a request that has one".to_owned(),
    };
    let message = format!(
        "{} counts for each {key}, and the request has none. {what}, or ask the operator (on_missing).",
        name(&fact.limit)
    );
    Error::invalid_request(key.to_string(), message)
}

/// Kind, `error.type` and `error.code`.
fn names(cause: Cause, scope: LimitScope) -> (Kind, &'static str, &'static str) {
    match (cause, scope) {
        (Cause::Reserved | Cause::Unavailable, _) => {
            (Kind::LimitReserved, "budget_reserved_error", "budget_reserved")
        }
        (Cause::Rate, LimitScope::Policy) => {
            (Kind::LimitRate, "rate_limits_policy_exhaust_error", "rate_limits_policy_exhaust")
        }
        (Cause::Rate, _) => (Kind::LimitRate, "rate_limits_exhaust_error", "05"),
        (_, LimitScope::Policy) => (Kind::LimitSpent, "usage_limits_policy_exhaust_error", "06"),
        (_, LimitScope::Provider) => (Kind::LimitSpent, "virtual_key_exhaust_error", "virtual_key_exhaust"),
        (_, LimitScope::Integration) => {
            (Kind::LimitSpent, "integration_exhaust_error", "integration_exhaust")
        }
        (_, LimitScope::Key | LimitScope::Workspace) => {
            (Kind::LimitSpent, "usage_limits_exhaust_error", "04")
        }
    }
}

pub(super) const fn scope(scope: LimitScope) -> &'static str {
    match scope {
        LimitScope::Policy => "policy",
        LimitScope::Key => "api_key",
        LimitScope::Workspace => "workspace",
        LimitScope::Provider => "virtual_key",
        LimitScope::Integration => "integration",
    }
}

pub(super) const fn unit(limit: &Limit) -> Option<&'static str> {
    match limit.kind {
        LimitKind::Rate { unit, .. } => Some(unit.as_str()),
        LimitKind::Usage { .. } => None,
    }
}

/// Money in dollars, else as it is.
pub(super) fn amount(counts: Counted, value: i64) -> f64 {
    match counts {
        Counted::Cost => money::dollars(value),
        Counted::Tokens | Counted::Requests => value as f64,
    }
}

/// Of what heals by itself: whole seconds, at least one. A spent budget says when it begins anew in a header of its own.
fn retry_after(refusal: &Refusal) -> Option<u32> {
    let seconds = refusal.retry_after.as_secs() + u64::from(refusal.retry_after.subsec_nanos() > 0);
    let heals = matches!(refusal.cause, Cause::Rate | Cause::Reserved);
    heals.then(|| u32::try_from(seconds.max(1)).unwrap_or(u32::MAX))
}

/// The limit in a message: whose it is, and its name or id.
fn name(limit: &Limit) -> String {
    let named = match &limit.name {
        Some(name) => format!("{name:?}"),
        None => limit.record.to_string(),
    };
    match (limit.scope, limit.is_rate()) {
        (LimitScope::Policy, true) => format!("The rate limit policy {named}"),
        (LimitScope::Policy, false) => format!("The usage limit policy {named}"),
        (LimitScope::Key, true) => "The rate limit of this API key".to_owned(),
        (LimitScope::Key, false) => "The usage limit of this API key".to_owned(),
        (LimitScope::Workspace, true) => "The rate limit of this workspace".to_owned(),
        (LimitScope::Workspace, false) => "The usage limit of this workspace".to_owned(),
        (LimitScope::Provider, true) => format!("The rate limit of the provider {named}"),
        (LimitScope::Provider, false) => format!("The usage limit of the provider {named}"),
        (LimitScope::Integration, true) => format!("The rate limit of the integration {named}"),
        (LimitScope::Integration, false) => format!("The usage limit of the integration {named}"),
    }
}

fn message(refusal: &Refusal) -> String {
    let limit = &refusal.limit;
    let name = name(limit);
    let counts = limit.counts().as_str();
    let until = match refusal.reset_at {
        Some(reset_at) => format!("It begins anew at {}.", second(reset_at)),
        None => "It does not begin anew by itself: ask the operator to raise or reset it.".to_owned(),
    };
    match (refusal.cause, limit.scope) {
        (Cause::Rate, _) => format!(
            "{name} is reached: {} {counts} ({}). Try again in {} s.",
            limit.value(),
            unit(limit).unwrap_or_default(),
            retry_after(refusal).unwrap_or(1)
        ),
        (Cause::Reserved | Cause::Unavailable, _) => format!(
            "What is left of {} ({counts}) is reserved for requests in flight. Try again in a second.",
            lower(&name)
        ),
        (Cause::UnknownPrice, _) => format!(
            "{name} is a hard limit on cost, and the price of this model is not known. Choose a model with a price, or have the \
             operator declare one (settings `prices`, see docs/prices.md)."
        ),
        (Cause::NoBound, _) => format!(
            "{name} is a hard limit, and the request sets no bound to its output. Send max_completion_tokens (or max_tokens)."
        ),
        (Cause::Unboundable, _) => format!(
            "{name} is a hard limit, and the gateway knows no bound of what such a request uses: it is for chats, completions, messages, \
             responses and embeddings. Other requests need a limit that is not hard."
        ),
        (Cause::UnboundedSearches, _) => format!(
            "{name} is a hard limit on cost, and for this request the provider may search the web as often as it likes, at a price for each \
             search. Send max_tool_calls (Responses API) or max_uses of the tool (Messages API), or no search tool."
        ),
        (Cause::DoesNotFit, _) => does_not_fit(&name, counts, &until),
        (Cause::Spent, LimitScope::Key) => {
            format!("API Key Usage Limit Exceeded ({counts}). {until} Error Code: 04")
        }
        (Cause::Spent, LimitScope::Workspace) => {
            format!("Workspace Usage Limit Exceeded ({counts}). {until} Error Code: 04")
        }
        (Cause::Spent, _) if limit.hard => does_not_fit(&name, counts, &until),
        (Cause::Spent, _) => format!("{name} ({counts}) is spent. {until}"),
    }
}

fn does_not_fit(name: &str, counts: &str, until: &str) -> String {
    format!(
        "{name} ({counts}) is a hard limit, and what is left of it does not pay for this request. Send a shorter one or a lower \
         max_completion_tokens. {until}"
    )
}

fn second(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// A sentence's first word inside another one.
fn lower(text: &str) -> String {
    text.replacen("The ", "the ", 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::limits::{RateOf, RateUnit, Reset, Tightest, UsageOf};
    use std::sync::Arc;
    use std::time::Duration;
    use uuid::Uuid;

    fn refusal(scope: LimitScope, kind: LimitKind, cause: Cause) -> Refusal {
        let limit = Arc::new(Limit { name: Some("team a".into()), ..Limit::new(Uuid::nil(), scope, kind) });
        Refusal {
            all: vec![Arc::clone(&limit)],
            limit,
            cause,
            reset_at: Some("2026-05-11T00:00:00Z".parse().unwrap()),
            retry_after: Duration::from_millis(1_200),
            spent: 2_500_000_000,
            held: 0,
            value_key: "".into(),
            tightest: Tightest::default(),
        }
    }

    #[test]
    fn each_refusal_has_the_status_and_code_of_the_reference() {
        use Cause::{Rate, Reserved, Spent, Unavailable, UnknownPrice};
        use LimitScope::{Integration, Key, Policy, Provider, Workspace};
        let usage = LimitKind::Usage {
            of: UsageOf::Cost,
            credit: 2_000_000_000,
            alert_at: None,
            reset: Reset::Never,
        };
        let rate = LimitKind::Rate { of: RateOf::Requests, unit: RateUnit::Minute, value: 2 };
        for (scope, kind, cause, status, code, retry_after) in [
            (Policy, usage, Spent, 412, "06", None),
            (Policy, usage, UnknownPrice, 412, "06", None),
            (Key, usage, Spent, 412, "04", None),
            (Workspace, usage, Spent, 412, "04", None),
            (Provider, usage, Spent, 412, "virtual_key_exhaust", None),
            (Integration, usage, Spent, 412, "integration_exhaust", None),
            (Policy, usage, Reserved, 429, "budget_reserved", Some(2)),
            (Policy, rate, Rate, 429, "rate_limits_policy_exhaust", Some(2)),
            (Key, rate, Rate, 429, "05", Some(2)),
            (Policy, usage, Unavailable, 503, "", Some(1)),
        ] {
            let error = error(&refusal(scope, kind, cause), None);
            let limit = error.limit.as_deref();
            let found = (error.status(), limit.map_or("", |limit| limit.code), error.retry_after());
            assert_eq!(found, (status, code, retry_after), "{scope:?} {cause:?}");
            assert_eq!(error.is_final(), status == 412);
            assert_eq!(limit.and_then(|limit| limit.amounts), None, "amounts are not for everybody");
        }
    }

    #[test]
    fn amounts_are_in_the_limits_own_unit() {
        let usage = LimitKind::Usage {
            of: UsageOf::Cost,
            credit: 2_000_000_000,
            alert_at: None,
            reset: Reset::Never,
        };
        let mut client = ClientIdentity::anonymous(None);
        client.scopes = [Scope::PoliciesRead].into_iter().collect();
        client.is_bound = false;
        let refused = refusal(LimitScope::Policy, usage, Cause::Spent);
        let bound = ClientIdentity { is_bound: true, workspace: Some(Uuid::from_u128(1)), ..client.clone() };
        let to_bound = error(&refused, Some(&bound));
        assert_eq!(to_bound.limit.and_then(|limit| limit.amounts), None, "of all workspaces");
        let error = error(&refused, Some(&client));
        let amounts = error.limit.and_then(|limit| limit.amounts);
        assert_eq!(amounts, Some(Amounts { spent: 2.5, limit: 2.0 }));
        assert_eq!(
            error.message,
            "The usage limit policy \"team a\" (cost) is spent. It begins anew at 2026-05-11T00:00:00Z."
        );
    }
}
