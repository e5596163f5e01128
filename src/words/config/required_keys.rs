//! The list of key combinations, at least one of which every config and every target must have.
//!
//! Only presence is checked here; the values are checked where they are read.

use super::account::names::{
    A_ACCESS_KEY_ID, A_AUTH_TYPE, A_ROLE_ARN, A_SECRET_ACCESS_KEY, API_KEY, B_PROJECT_ID, B_REGION,
    B_SERVICE_ACCOUNT, C_AD_TOKEN, C_API_VERSION, C_AUTH_MODE, C_DEPLOYMENT_NAME, C_DEPLOYMENT_TYPE,
    C_ENDPOINT_NAME, C_REGION, CUSTOM_HOST, Names,
};
use super::node::NodeKind;
use super::policies::Policies;
use super::read::ObjectReader;
use std::collections::HashSet;

/// The sets of keys, one of which must accompany `provider`.
const WITH_PROVIDER: &[&[Names]] = &[
    &[API_KEY],
    &[CUSTOM_HOST],
    &[A_ACCESS_KEY_ID, A_SECRET_ACCESS_KEY],
    &[A_ROLE_ARN],
    &[A_AUTH_TYPE],
    &[B_REGION, B_SERVICE_ACCOUNT],
    &[B_REGION, B_PROJECT_ID],
    &[C_DEPLOYMENT_NAME, C_DEPLOYMENT_TYPE, C_REGION, C_API_VERSION],
    &[C_ENDPOINT_NAME, C_DEPLOYMENT_TYPE],
    &[C_AUTH_MODE],
    &[C_AD_TOKEN],
];

/// The combinations without `provider`, besides the inherited keys that are enough.
const ALONE: &[&[Names]] = &[&[&["virtual_key"]], &[&["strategy"], &["targets"]], &[&["prompt_id"]]];

/// Checks one level against the list, and against the rule that `api_key` is required when `provider` is
/// given without `virtual_key` or `custom_host`.
///
/// Cloud credentials of the list replace `api_key`. A provider given as `@slug` needs no key of its own: the
/// stored provider has one, as with `virtual_key`. A provider given together with `strategy`
/// and `targets` is never called and needs none either.
///
/// `stored`: the slugs of the stored providers in the same text. A provider without a key whose name is one of them is meant to be that one.
pub(super) fn check(fields: &ObjectReader<'_>, stored: Option<&HashSet<String>>) {
    let has_all = |names: &&[Names]| names.iter().all(|names| fields.has(names));
    let provider = fields.has(&["provider"]);
    let slug = fields
        .peek(&["provider"])
        .is_some_and(|at| at.node.as_text().is_some_and(|provider| provider.starts_with('@')));
    let reachable = slug || (provider && WITH_PROVIDER.iter().any(has_all));
    if let Some(at) = fields.peek(&["provider"]).filter(|_| !reachable)
        && let Some(slug) = at.node.as_text().filter(|name| stored.is_some_and(|slugs| slugs.contains(*name)))
        && !fields.has(&["virtual_key"])
        && !fields.has(&["targets"])
    {
        at.problem(format!(
            "is the vendor, without a key of its own here; did you mean @{slug}, the stored provider?"
        ));
        return;
    }
    if let Some(at) = fields.peek(&["passthrough"]).filter(|at| at.node.kind == NodeKind::Bool(true)) {
        if provider || fields.has(&["virtual_key"]) {
            at.problem("takes the provider that the request names, so the target must have none of its own");
        }
        return;
    }
    let has_enough = || Policies::enough_names().any(|name| fields.has(&[name]));
    if !reachable && !ALONE.iter().any(has_all) && !has_enough() {
        fields.at.problem(message());
        return;
    }
    let called =
        provider && !fields.has(&["virtual_key"]) && !has_all(&[&["strategy"][..], &["targets"]].as_slice());
    if called && !reachable {
        let message = "is required with provider, unless virtual_key, custom_host or the provider's cloud \
                       credentials are given";
        fields.missing("api_key", message);
    }
}

/// The message for a level without any combination: starts like Portkey's message and lists the
/// accepted combinations.
fn message() -> String {
    let key = |names: &Names| names.first().copied().unwrap_or_default();
    let joined = |names: &&[Names]| names.iter().map(key).collect::<Vec<_>>().join(" + ");
    let with = WITH_PROVIDER.iter().map(|names| format!("provider + {}", joined(names)));
    let others = Policies::enough_names().chain(["passthrough"]).map(str::to_owned);
    let all: Vec<String> = with.chain(ALONE.iter().map(joined)).chain(others).collect();
    format!("Invalid configuration. It must have at least one of: {}", all.join(", "))
}
