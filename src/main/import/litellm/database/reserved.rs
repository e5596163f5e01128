//! What limits in LiteLLM and cannot be made here: then no key is made that it limits there.
//!
//! Members of `metadata` that LiteLLM reads itself are no metadata of requests. Not here: limits that are made (`budget`).

use super::super::super::cursor::InputAt;
use super::super::super::import::Import;
use super::budget::Columns;
use words::config::node::NodeKind;

/// What a member of the metadata does in LiteLLM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReservedUse {
    /// Narrows what a key may do: without it no key is made.
    Limits,
    /// More for a while, of a key: `raise`.
    Raises,
    /// The budget of each member of a team.
    MemberBudget,
    /// Anything else.
    Other,
}

/// LiteLLM's own members of metadata.
const RESERVED: [(&str, ReservedUse); 42] = [
    ("model_rpm_limit", ReservedUse::Limits),
    ("model_tpm_limit", ReservedUse::Limits),
    ("model_max_budget", ReservedUse::Limits),
    ("budget_limits", ReservedUse::Limits),
    ("team_member_rpm_limit", ReservedUse::Limits),
    ("team_member_tpm_limit", ReservedUse::Limits),
    ("default_team_member_models", ReservedUse::Limits),
    ("guardrails", ReservedUse::Limits),
    ("policies", ReservedUse::Limits),
    ("enforced_params", ReservedUse::Limits),
    ("allowed_routes", ReservedUse::Limits),
    ("allowed_models", ReservedUse::Limits),
    ("blocked", ReservedUse::Limits),
    ("temp_budget_increase", ReservedUse::Raises),
    ("temp_budget_expiry", ReservedUse::Raises),
    ("team_member_budget_id", ReservedUse::MemberBudget),
    ("team_member_budget", ReservedUse::Other),
    ("team_member_budget_duration", ReservedUse::Other),
    ("team_member_key_duration", ReservedUse::Other),
    ("max_parallel_requests", ReservedUse::Other),
    ("rpm_limit_type", ReservedUse::Other),
    ("tpm_limit_type", ReservedUse::Other),
    ("disable_global_guardrails", ReservedUse::Other),
    ("opted_out_global_guardrails", ReservedUse::Other),
    ("disable_fallbacks", ReservedUse::Other),
    ("tags", ReservedUse::Other),
    ("prompts", ReservedUse::Other),
    ("logging", ReservedUse::Other),
    ("callback_settings", ReservedUse::Other),
    ("litellm_disabled_callbacks", ReservedUse::Other),
    ("secret_manager_settings", ReservedUse::Other),
    ("service_account_id", ReservedUse::Other),
    ("allowed_passthrough_routes", ReservedUse::Other),
    ("allowed_vector_store_indexes", ReservedUse::Other),
    ("allowed_cache_controls", ReservedUse::Other),
    ("model_aliases", ReservedUse::Other),
    ("router_settings", ReservedUse::Other),
    ("soft_budget_alerting_emails", ReservedUse::Other),
    ("spend_logs_metadata", ReservedUse::Other),
    // What policies of an import find owners by.
    (super::people::KEY_USER, ReservedUse::Other),
    ("_user", ReservedUse::Other),
    ("_session", ReservedUse::Other),
];

/// Parts of names whose texts are secrets.
const OF_SECRETS: [&str; 6] = ["secret", "password", "token", "api_key", "apikey", "credential"];

/// Columns that narrow what a key may do, and are made nothing of.
const COLUMNS: [(&str, &str); 3] = [
    ("model_max_budget", "a policy that groups by api_key and model limits each model (docs/limits.md)"),
    ("budget_limits", "a policy that groups by api_key limits as well (docs/limits.md)"),
    ("policies", "guardrails of a workspace, or of the config of a key (docs/guardrails.md)"),
];
const IN_METADATA: &str = "LiteLLM's own, which limits its keys: none is made. Take it out there, or make the keys anew with limits and guardrails of their own \
     (docs/limits.md, docs/guardrails.md)";
const NO_BUDGET: &str = "there is no such budget in the database: no key that it limits is made";

/// What a member of the metadata does in LiteLLM; `None`: it is metadata.
pub fn use_of(name: &str) -> Option<ReservedUse> {
    RESERVED.iter().find(|(reserved, _)| *reserved == name).map(|(_, of)| *of)
}

/// Whether a member of the metadata is likely to have a secret, which must not go with requests.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    OF_SECRETS.iter().any(|part| name.contains(part))
}

/// Looks for limits of a row that nothing is made of: no key is made that depends on its mark.
pub fn judge(import: &mut Import, columns: &Columns<'_>) {
    let mut found: Vec<(InputAt<'_>, String)> = Vec::new();
    if let Some(at) = columns.own.member("budget_id").filter(|_| columns.budget.is_none()) {
        found.push((at, NO_BUDGET.to_owned()));
    }
    for name in ["max_budget", "rpm_limit", "tpm_limit", "tpd_limit"] {
        let Some(at) = columns.member(name) else { continue };
        if at.number().is_none_or(|number| number.is_nan() || number < 0.0) {
            found.push((at, "is no limit that can be counted: no key that it limits is made".to_owned()));
        }
    }
    if let Some(at) = columns.own.member("spend")
        && at.number().is_none_or(f64::is_nan)
    {
        found.push((at, "is no amount: no key whose budget it is of is made".to_owned()));
    }
    for (name, instead) in COLUMNS {
        if let Some(at) = columns.member(name).filter(holds) {
            found.push((at, format!("no key that it limits is made: {instead}")));
        }
    }
    let entries = columns.own.member("metadata").map(|at| at.entries()).unwrap_or_default();
    let limits =
        entries.into_iter().filter(|(name, at)| use_of(name) == Some(ReservedUse::Limits) && holds(at));
    found.extend(limits.map(|(_, at)| (at, IN_METADATA.to_owned())));
    for (at, why) in found {
        import.lose(&columns.mark, &format!("{}: {why}", at.path));
        import.findings.not_taken(&at, why);
    }
}

/// Whether there is something in a value.
fn holds(at: &InputAt<'_>) -> bool {
    match &at.node.kind {
        NodeKind::Null | NodeKind::Bool(false) => false,
        NodeKind::Text(text) => !text.is_empty(),
        NodeKind::Map(entries) => !entries.is_empty(),
        NodeKind::List(items) => !items.is_empty(),
        NodeKind::Bool(true) | NodeKind::Number(_) => true,
    }
}
