//! The strategy of a config as written: how it chooses among its targets.
//!
//! Only its queries are compiled at this point (`query`). Not here: what the strategy requires of the targets
//! (`target_rules`).

use super::MAX_TARGETS;
use super::balance::{BalanceBy, Sticky};
use super::pattern::PatternBudget;
use super::query::Query;
use super::read::{Cursor, ObjectReader};
use super::values::status_codes;

/// `strategy` of a config.
#[derive(Debug, Clone, PartialEq)]
pub struct Strategy {
    pub mode: Mode,
    /// In the order they are tried. Not empty in conditional mode.
    pub conditions: Vec<Condition>,
    /// Name of the target to use when no condition holds; always present in conditional mode.
    pub default: Option<String>,
    /// Response statuses on which fallback tries the next target. `None`: every status that is not 2xx.
    /// Empty: no status.
    pub on_status_codes: Option<Vec<u16>>,
    /// A key of our own: the criterion of load balancing.
    pub by: BalanceBy,
    /// In load balancing: send the same client to the same target.
    pub sticky: Option<Sticky>,
}

/// `strategy.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Single,
    LoadBalance,
    Fallback,
    Conditional,
}

/// One `{query, then}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub query: Query,
    /// Name of a target at the same level.
    pub then: String,
}

impl Mode {
    const VARIANTS: [(&'static str, Self); 4] = [
        ("single", Self::Single),
        ("loadbalance", Self::LoadBalance),
        ("fallback", Self::Fallback),
        ("conditional", Self::Conditional),
    ];

    /// The value as written in a config.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::LoadBalance => "loadbalance",
            Self::Fallback => "fallback",
            Self::Conditional => "conditional",
        }
    }
}

impl Strategy {
    /// Reads `strategy`. `targets` is the `targets` field of the same level, if present: conditions refer to
    /// its names. `patterns` counts the patterns of the whole config.
    pub fn read(at: &Cursor<'_>, targets: Option<&Cursor<'_>>, patterns: &PatternBudget) -> Option<Self> {
        let mut fields = at.fields()?;
        let mode = fields.required(&["mode"]).and_then(|at| at.one_of(&Mode::VARIANTS));
        let names = match mode {
            Some(Mode::Conditional) => targets.and_then(target_names),
            _ => None,
        };
        let conditions = fields.get(&["conditions"]).map(|at| conditions(&at, names.as_deref(), patterns));
        let default = fields.get(&["default"]).and_then(|at| target_name(&at, names.as_deref()));
        if mode == Some(Mode::Conditional) {
            require_conditions(&fields);
        }
        let on_status_codes = fields.get(&["on_status_codes"]).and_then(|at| status_codes(&at));
        // An inherited key, which `policies` reads here and on the config.
        let _ = fields.get(&["cb_config"]);
        if mode.is_some_and(|mode| mode != Mode::LoadBalance) {
            refuse_balance(&fields);
        }
        let by = fields.get(&["by"]).and_then(|at| at.one_of(&BalanceBy::VARIANTS)).unwrap_or_default();
        let sticky = fields.get(&["sticky"]).and_then(|at| Sticky::read(&at)).flatten();
        fields.reject_unknown(&[
            "mode",
            "conditions",
            "default",
            "on_status_codes",
            "cb_config",
            "by",
            "sticky",
        ]);
        Some(Self {
            mode: mode?,
            conditions: conditions.unwrap_or_default(),
            default,
            on_status_codes,
            by,
            sticky,
        })
    }
}

fn require_conditions(fields: &ObjectReader<'_>) {
    match fields.peek(&["conditions"]) {
        None => fields.missing("conditions", "is required in conditional mode"),
        Some(at) if at.node.is_empty_list() => at.problem("must hold at least one condition"),
        Some(_) => {}
    }
    if fields.peek(&["default"]).is_none() {
        fields.missing("default", "is required in conditional mode");
    }
}

/// Refuses the keys of load balancing in the other modes, where they would be silently ignored.
fn refuse_balance(fields: &ObjectReader<'_>) {
    for key in ["by", "sticky"] {
        if let Some(at) = fields.peek(&[key]) {
            at.problem("is for loadbalance mode");
        }
    }
}

fn conditions(at: &Cursor<'_>, names: Option<&[&str]>, patterns: &PatternBudget) -> Vec<Condition> {
    at.list().unwrap_or_default().iter().filter_map(|item| condition(item, names, patterns)).collect()
}

fn condition(at: &Cursor<'_>, names: Option<&[&str]>, patterns: &PatternBudget) -> Option<Condition> {
    let mut fields = at.fields()?;
    let query = fields.required(&["query"]).and_then(|at| Query::read(&at, patterns));
    let then = fields.required(&["then"]).and_then(|at| target_name(&at, names));
    fields.reject_unknown(&["query", "then"]);
    Some(Condition { query: query?, then: then? })
}

/// Reads a target's name. `names` are the existing ones, or `None` if they cannot be determined.
fn target_name(at: &Cursor<'_>, names: Option<&[&str]>) -> Option<String> {
    let name = at.text()?;
    if names.is_some_and(|names| !names.contains(&name)) {
        at.problem("must be the name of a target of the same level");
        return None;
    }
    Some(name.to_owned())
}

/// Names of the targets, taken before the targets are read: a condition may refer to a target that has
/// problems of its own.
fn target_names<'a>(targets: &Cursor<'a>) -> Option<Vec<&'a str>> {
    let items = targets.node.items()?;
    // Targets beyond the maximum are refused anyway, and searching very many for each condition is slow.
    let items = items.iter().take(MAX_TARGETS);
    Some(items.filter_map(|item| item.member("name")?.as_text()).collect())
}
