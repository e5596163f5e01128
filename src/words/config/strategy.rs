//! The strategy of a config as written: how it chooses among its targets.
//!
//! Only its queries are compiled at this point (`query`). Not here: what the strategy requires of the targets
//! (`target_rules`).

use super::balance::{BalanceBy, Sticky};
use super::failure_class::FailureClass;
use super::level::MAX_TARGETS;
use super::members::{Choice, FLAG, Form, MemberTable, MemberType, STATUSES, form, list, object, see};
use super::pattern::PatternBudget;
use super::query::Query;
use super::read::Cursor;
use crate::json::schema;
use serde_json::Value;

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
    /// A key of our own: the classes of failures on which the next target is tried, besides those statuses. `None`: what the
    /// statuses say alone.
    pub on_errors: Option<Vec<FailureClass>>,
    /// A key of our own: the criterion of load balancing.
    pub by: BalanceBy,
    /// In load balancing: send the same client to the same target.
    pub sticky: Option<Sticky>,
    /// A key of our own: in load balancing, the other targets are tried where the chosen one fails.
    pub failover: bool,
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

/// An inherited key, which `policies` reads here and on the config.
const READ_ELSEWHERE: Form<()> = form(|_| None, schema::free);

impl Strategy {
    pub(super) const DOC: &str = "How one of the targets is chosen.";

    /// `targets` is the `targets` field of the same level, if present: conditions refer to its names. `patterns` counts the
    /// patterns of the whole config.
    pub(super) fn members(
        table: &mut MemberTable<'_>,
        targets: Option<&Cursor<'_>>,
        patterns: &PatternBudget,
    ) -> Option<Self> {
        let default = "In conditional mode: the name of the target when no condition holds.";
        let sticky = "In loadbalance mode: the same client gets the same target.";
        let mode = table.needed("mode", Choice(&Mode::VARIANTS), "The kind of choice.");
        let is_conditional = mode == Some(Mode::Conditional);
        let names = targets.filter(|_| is_conditional).and_then(target_names);
        let condition = object(|table| Condition::members(table, names.as_deref(), patterns));
        let conditions = list(condition, "Uses the target `then` where the query holds.");
        let conditions = table.get("conditions", conditions, "In conditional mode: tried in this order.");
        let default = table.get("default", TargetName(names.as_deref()), default);
        if is_conditional {
            require_conditions(table);
        }
        let statuses = "Statuses on which fallback tries the next target.";
        let on_status_codes = table.get("on_status_codes", STATUSES, statuses);
        let classes = "Classes of failures on which the next target is tried, besides on_status_codes.";
        let on_errors = table.get("on_errors", FailureClass::LIST, classes);
        table.get("cb_config", see("breaker", READ_ELSEWHERE), "As cb_config of the config.");
        if mode.is_some_and(|mode| mode != Mode::LoadBalance) {
            // Silently ignored otherwise.
            table.problem("by", "is for loadbalance mode");
            table.problem("sticky", "is for loadbalance mode");
            table.problem(
                "failover",
                "is for loadbalance mode; in fallback mode targets follow each other anyway",
            );
        }
        let by = Choice(&BalanceBy::VARIANTS);
        let by = table.or("by", by, BalanceBy::Weight, "In loadbalance mode: the criterion.");
        let sticky = table.get("sticky", object(Sticky::members), sticky).flatten();
        let failover = "In loadbalance mode: where the chosen target fails, the others are tried.";
        let failover = table.or("failover", FLAG, false, failover);
        let conditions = conditions.unwrap_or_default();
        Some(Self { mode: mode?, conditions, default, on_status_codes, on_errors, by, sticky, failover })
    }
}

fn require_conditions(table: &MemberTable<'_>) {
    match table.at("conditions") {
        None => table.missing("conditions", "is required in conditional mode"),
        Some(at) if at.node.is_empty_list() => at.problem("must hold at least one condition"),
        Some(_) => {}
    }
    if table.at("default").is_none() {
        table.missing("default", "is required in conditional mode");
    }
}

impl Condition {
    fn members(
        table: &mut MemberTable<'_>,
        names: Option<&[&str]>,
        patterns: &PatternBudget,
    ) -> Option<Self> {
        let query = table.needed("query", see("query", QueryType(patterns)), "All members must hold.");
        let then = table.needed("then", TargetName(names), "The name of a target of this level.");
        Some(Self { query: query?, then: then? })
    }
}

/// A query, whose patterns are counted.
struct QueryType<'p>(&'p PatternBudget);

impl MemberType for QueryType<'_> {
    type Value = Query;

    fn read(&self, at: &Cursor<'_>) -> Option<Query> {
        Query::read(at, self.0)
    }

    fn schema(&self, _: &str) -> Value {
        Query::schema()
    }
}

/// The name of a target: one of these, or any where they cannot be determined.
struct TargetName<'n>(Option<&'n [&'n str]>);

impl MemberType for TargetName<'_> {
    type Value = String;

    fn read(&self, at: &Cursor<'_>) -> Option<String> {
        let name = at.text()?;
        if self.0.is_some_and(|names| !names.contains(&name)) {
            at.problem("must be the name of a target of the same level");
            return None;
        }
        Some(name.to_owned())
    }

    fn schema(&self, doc: &str) -> Value {
        schema::text(doc)
    }
}

/// Names of the targets, taken before the targets are read: a condition may refer to a target that has
/// problems of its own.
fn target_names<'a>(targets: &Cursor<'a>) -> Option<Vec<&'a str>> {
    let items = targets.node.items()?;
    // Targets beyond the maximum are refused anyway, and searching very many for each condition is slow.
    let items = items.iter().take(MAX_TARGETS);
    Some(items.filter_map(|item| item.member("name")?.as_text()).collect())
}
