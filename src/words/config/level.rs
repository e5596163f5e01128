//! One level of a config: its members, and those of the targets below it.
//!
//! Not here: what a strategy requires of its targets (`target_rules`), and which keys a level must have (`required_keys`).

use super::account::{Account, TARGETS_HOST, names};
use super::balance::Price;
use super::failure_class::FailureClass;
use super::hedge::Hedge;
use super::members::{
    self, AtLeast, FLAG, MemberTable, MemberType, STATUSES, TEXT, default_shown, object, see,
};
use super::pattern::PatternBudget;
use super::policies::Policies;
use super::query::Query;
use super::read::{Cursor, ObjectReader};
use super::strategy::Strategy;
use super::{Checks, Config, required_keys, target_rules};
use crate::json::schema;
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::HashSet;

/// Maximum nesting of targets. No real config needs more, and each level costs stack.
pub(super) const MAX_DEPTH: usize = 16;

/// Maximum number of targets in the whole tree.
pub(super) const MAX_TARGETS: usize = 1_000;

/// What clients send in a request's body stands in `override_params` here.
const HINTS: &[(&str, &str)] = &[
    ("model", "a target sets it with override_params: {model: NAME}"),
    ("max_tokens", "a target sets it with override_params: {max_tokens: NUMBER}"),
    (
        "allow_subdomain",
        "what it allows is documented nowhere; custom_hosts of the settings says which hosts may be named",
    ),
    ("temperature", "a target sets it with override_params: {temperature: NUMBER}"),
];

/// Reads a whole config. `stored`: the slugs of the stored providers that are in the same text.
pub(super) fn read(at: &Cursor<'_>, checks: &Checks<'_>, stored: Option<&HashSet<String>>) -> Option<Config> {
    ConfigReader { stored, ..ConfigReader::new(checks, &[]) }.read_level(at, 0)
}

/// State of reading one tree of configs.
struct ConfigReader<'a> {
    checks: &'a Checks<'a>,
    /// Targets counted so far in the whole tree.
    target_count: Cell<usize>,
    patterns: PatternBudget,
    /// The names of providers, for the schema.
    providers: &'a [&'a str],
    /// The slugs of stored providers, for suggestions.
    stored: Option<&'a HashSet<String>>,
}

impl<'a> ConfigReader<'a> {
    fn new(checks: &'a Checks<'a>, providers: &'a [&'a str]) -> Self {
        Self {
            checks,
            target_count: Cell::new(0),
            patterns: PatternBudget::new(checks.defers_patterns),
            providers,
            stored: None,
        }
    }

    /// Reads one level: the config itself, or a target `depth` levels below it.
    fn read_level(&self, at: &Cursor<'_>, depth: usize) -> Option<Config> {
        members::read(at, |table| self.members(table, depth))
    }

    fn members(&self, table: &mut MemberTable<'_>, depth: usize) -> Option<Config> {
        if table.undescribed("options").is_some() {
            // An older, different format: reporting each of its keys as unknown would not help.
            let message = "This version of config is not supported in this route. \
                           Please migrate to the latest version";
            table.missing("options", message);
            table.rest();
            return None;
        }
        table.hints(HINTS);
        let before = table.problem_count();
        if let Some(fields) = table.reader() {
            required_keys::check(fields, self.stored);
            self.check_provider_and_host(fields);
        }
        let at = table.at("targets");
        let strategy = object(|table| Strategy::members(table, at.as_ref(), &self.patterns));
        let strategy = table.get("strategy", see("strategy", strategy), Strategy::DOC);
        if let Some(fields) = table.reader() {
            target_rules::check(fields, strategy.as_ref());
        }
        let targets = Targets { reader: self, depth: depth + 1 };
        let targets =
            table.get("targets", targets, "Configs themselves; at most 16 levels deep and 1,000 in all.");
        let weight = default_shown(AtLeast(0.0), 1.0);
        let statuses = "Statuses on which fallback tries the next target.";
        let for_errors = "In a fallback: this target is used after failures of these classes only.";
        let config = Config {
            name: table.get("name", TEXT, "The name by which conditions refer to this target."),
            provider: table.get(
                "provider",
                ProviderName(self.providers),
                "A provider, or @slug of a stored one.",
            ),
            virtual_key: table
                .get(
                    "virtual_key",
                    TEXT,
                    "The slug of a stored provider; the older form of provider: '@slug'.",
                )
                .filter(|slug| !slug.is_empty()),
            account: Account::members(table, &TARGETS_HOST),
            strategy,
            targets: targets.unwrap_or_default(),
            weight: table.get("weight", weight, "Share in load balancing."),
            on_status_codes: table.get("on_status_codes", STATUSES, statuses),
            for_errors: table.get("for_errors", FailureClass::NON_EMPTY_LIST, for_errors),
            policies: Policies::members(table),
            passthrough: table.or("passthrough", FLAG, false, "The request names this target's provider."),
            hedge: table.get("hedge", object(Hedge::members), Hedge::DOC),
            price: table.get("price", object(Price::members), "US dollars per million tokens."),
            prompt_id: table.get(
                "prompt_id",
                TEXT,
                "The prompt that a target renders, in requests to /v1/prompts/{id}/completions.",
            ),
        };
        if table.problem_count() == before {
            self.check_account(&config, table);
        }
        Some(config)
    }

    fn check_account(&self, config: &Config, table: &MemberTable<'_>) {
        if let Some(provider) = config.provider.as_deref().filter(|name| !name.starts_with('@'))
            && let Err(error) = (self.checks.account)(provider, &config.account)
        {
            // Missing keys are not reported: request headers may supply them.
            Account::report(&error, table, false);
        }
    }

    fn read_targets(&self, at: &Cursor<'_>, depth: usize) -> Vec<Config> {
        if depth > MAX_DEPTH {
            at.problem(format!("stands too deep; targets may nest {MAX_DEPTH} levels"));
            return Vec::new();
        }
        let mut targets = Vec::new();
        for item in at.list().unwrap_or_default() {
            let count = self.target_count.get() + 1;
            self.target_count.set(count);
            if count > MAX_TARGETS {
                // Reported once, not for each further target.
                if count == MAX_TARGETS + 1 {
                    item.problem(format!("is one too many; a config may hold {MAX_TARGETS} targets in all"));
                }
                break;
            }
            targets.extend(self.read_level(&item, depth));
        }
        targets
    }

    /// Runs the checks that need other modules: the provider's id and the custom host.
    fn check_provider_and_host(&self, fields: &ObjectReader<'_>) {
        let provider = fields.peek(&["provider"]);
        if let Some((at, id)) = provider.as_ref().and_then(|at| Some((at, at.node.as_text()?))) {
            match id.strip_prefix('@') {
                Some("") => at.problem("must name a stored provider after the @"),
                Some(_) => {}
                None => self.report(at, (self.checks.provider)(id)),
            }
        }
        let host = fields.peek(names::CUSTOM_HOST);
        if let Some((at, host)) = host.as_ref().and_then(|at| Some((at, at.node.as_text()?)))
            && !host.is_empty()
        {
            self.report(at, (self.checks.custom_host)(host));
        }
    }

    fn report(&self, at: &Cursor<'_>, verdict: Result<(), String>) {
        if let Err(message) = verdict {
            at.problem(message);
        }
    }
}

/// The targets of a level, which are `depth` levels below the config.
struct Targets<'r> {
    reader: &'r ConfigReader<'r>,
    depth: usize,
}

impl MemberType for Targets<'_> {
    type Value = Vec<Config>;

    fn read(&self, at: &Cursor<'_>) -> Option<Vec<Config>> {
        Some(self.reader.read_targets(at, self.depth))
    }

    fn schema(&self, doc: &str) -> Value {
        schema::list(doc, schema::see("config", ""))
    }
}

/// One of these providers, or the slug of a stored one. The reader has checked it when it is read.
struct ProviderName<'p>(&'p [&'p str]);

impl MemberType for ProviderName<'_> {
    type Value = String;

    fn read(&self, at: &Cursor<'_>) -> Option<String> {
        at.text().map(str::to_owned)
    }

    fn schema(&self, doc: &str) -> Value {
        let slug = json!({"type": "string", "pattern": "^@."});
        json!({"anyOf": [{"enum": self.0}, slug, {"$ref": "#/$defs/reference"}], "description": doc})
    }
}

/// The definitions of a config object, which refer to each other; `providers` are all names of providers.
pub(crate) fn definitions(providers: &[&str]) -> Vec<(&'static str, Value)> {
    let reader = ConfigReader::new(&Checks::NONE, providers);
    let doc = "How a request is routed (docs/config.md).";
    let config = members::schema(doc, |table| reader.members(table, 0));
    let strategy = members::schema(Strategy::DOC, |table| Strategy::members(table, None, &reader.patterns));
    let own = [("config", config), ("strategy", strategy), ("query", Query::schema())];
    own.into_iter().chain(Policies::definitions()).collect()
}
