//! Reads the tree of a config object, level by level, and reports all its problems.
//!
//! Not here: how single keys are read (`account`, `strategy`, `policies` and their neighbours).

use super::account::{Account, names};
use super::balance::Price;
use super::hedge::Hedge;
use super::pattern::PatternBudget;
use super::policies::Policies;
use super::read::{Cursor, ObjectReader};
use super::strategy::Strategy;
use super::{Checks, Config, MAX_DEPTH, MAX_TARGETS, required_keys, target_rules, values};
use std::cell::Cell;

/// The keys of a config for "did you mean" suggestions, except those of the account and the inherited ones.
pub(super) const KEYS: &[&str] = &[
    "name",
    "provider",
    "virtual_key",
    "strategy",
    "targets",
    "weight",
    "on_status_codes",
    "hedge",
    "price",
    "prompt_id",
];

/// State of reading one tree of configs.
pub(super) struct ConfigReader<'a> {
    checks: &'a Checks<'a>,
    /// Targets counted so far in the whole tree.
    target_count: Cell<usize>,
    patterns: PatternBudget,
}

impl<'a> ConfigReader<'a> {
    pub(super) fn new(checks: &'a Checks<'a>) -> Self {
        Self { checks, target_count: Cell::new(0), patterns: PatternBudget::default() }
    }

    /// Reads one level: the config itself, or a target `depth` levels below it.
    pub(super) fn read_level(&self, at: &Cursor<'_>, depth: usize) -> Option<Config> {
        let before = at.problem_count();
        let mut fields = at.fields()?;
        if fields.get(&["options"]).is_some() {
            // An older, different format: reporting each of its keys as unknown would not help.
            let message = "This version of config is not supported in this route. \
                           Please migrate to the latest version";
            fields.missing("options", message);
            return None;
        }
        required_keys::check(&fields);
        self.check_provider_and_host(&fields);
        let strategy = fields
            .get(&["strategy"])
            .and_then(|at| Strategy::read(&at, fields.peek(&["targets"]).as_ref(), &self.patterns));
        target_rules::check(&fields, strategy.as_ref());
        let targets = fields.get(&["targets"]).map(|at| self.read_targets(&at, depth + 1));
        let config = Config {
            name: fields.text(&["name"]),
            provider: fields.text(&["provider"]),
            virtual_key: fields.text(&["virtual_key"]).filter(|slug| !slug.is_empty()),
            account: Account::read(&mut fields),
            strategy,
            targets: targets.unwrap_or_default(),
            weight: fields.get(&["weight"]).and_then(|at| values::at_least(&at, 0.0)),
            on_status_codes: fields.get(&["on_status_codes"]).and_then(|at| values::status_codes(&at)),
            policies: Policies::read(&mut fields),
            hedge: fields.get(&["hedge"]).and_then(|at| Hedge::read(&at)),
            price: fields.get(&["price"]).and_then(|at| Price::read(&at)),
            prompt_id: fields.text(&["prompt_id"]),
        };
        if let Some(provider) = config.provider.as_deref().filter(|name| !name.starts_with('@'))
            && at.problem_count() == before
            && let Err(error) = (self.checks.account)(provider, &config.account)
        {
            // Missing keys are not reported: request headers may supply them.
            Account::report(&error, &fields, false);
        }
        let valid_keys: Vec<&str> =
            KEYS.iter().copied().chain(Policies::names()).chain(names::keys()).collect();
        fields.reject_unknown(&valid_keys);
        Some(config)
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
