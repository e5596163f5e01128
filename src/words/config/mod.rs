//! The config object as written (`docs/config.md`): how a request wants to be routed.
//!
//! One pass reads and checks it and collects *all* problems with their paths. Not here: what a config means
//! at run time (`route` compiles it).
//!
//! Example: `{"strategy":{"mode":"fallback"},"targets":[{"provider":"nope","api_key":"k","wieght":1}]}` gives
//! two problems, one at `targets[0].provider` from [`Checks::provider`] and `targets[0].wieght: unknown key;
//! did you mean weight?`.

pub mod account;
pub mod balance;
pub mod headers;
pub mod hedge;
pub mod hooks;
pub mod node;
pub mod pattern;
pub mod policies;
pub mod query;
pub mod read;
pub mod reply_headers;
mod required_keys;
pub mod secret;
pub(crate) mod sparse;
pub mod strategy;
mod target_rules;
#[cfg(test)]
mod tests;
pub mod unused_keys;
pub mod values;

use account::{Account, names};
use balance::Price;
use hedge::Hedge;
use node::Node;
use pattern::PatternBudget;
use policies::Policies;
use read::{Cursor, ObjectReader, Problems};
use std::cell::Cell;
use std::fmt;
use strategy::Strategy;

use crate::error::{Error, Problem};

/// Maximum nesting of targets. No real config needs more, and each level costs stack.
const MAX_DEPTH: usize = 16;

/// Maximum number of targets in the whole tree.
const MAX_TARGETS: usize = 1_000;

/// A config object or one of its targets: both have the same fields.
#[derive(Clone, Default, PartialEq)]
pub struct Config {
    /// The name by which `conditions[].then` and `default` refer to this target.
    pub name: Option<String>,
    /// A plain provider id, or `@slug` of a stored provider.
    pub provider: Option<String>,
    /// The slug of a stored provider; the older form of `provider: "@slug"`.
    pub virtual_key: Option<String>,
    /// Credentials and addressing; `custom_host` has passed [`Checks::custom_host`].
    pub account: Account,
    pub strategy: Option<Strategy>,
    /// Not empty when the strategy is other than `single`; ignored without a strategy.
    pub targets: Vec<Config>,
    /// Share in load balancing, at least 0.
    pub weight: Option<f64>,
    /// Response statuses on which fallback tries the next target; the strategy's own list takes precedence.
    pub on_status_codes: Option<Vec<u16>>,
    /// What targets inherit from here.
    pub policies: Policies,
    /// A key of our own; only in a config with targets.
    pub hedge: Option<Hedge>,
    /// A key of our own; used for balancing by price.
    pub price: Option<Price>,
    pub prompt_id: Option<String>,
}

/// Checks that need knowledge from other modules, passed in as functions. The text of an `Err` becomes the
/// problem reported for that value; it must not repeat secrets.
#[derive(Clone, Copy)]
pub struct Checks<'a> {
    /// Whether this provider exists. Called for plain ids only; `@slug` is looked up when the config runs.
    pub provider: &'a dyn Fn(&str) -> Result<(), String>,
    /// Whether this provider can authenticate with this account. Called for plain ids only; the error's
    /// `param` is the key that is wrong or missing.
    pub account: &'a dyn Fn(&str, &Account) -> Result<(), Error>,
    /// Whether a client may direct the gateway to this base URL.
    pub custom_host: &'a dyn Fn(&str) -> Result<(), String>,
}

impl Config {
    /// Reads a config from JSON text.
    ///
    /// # Errors
    /// All problems, each with its path; malformed JSON is one problem at the root.
    pub fn from_json(text: &[u8], checks: &Checks<'_>) -> Result<Self, Vec<Problem>> {
        let problems = Problems::default();
        let node = match Node::from_json(text) {
            Ok(node) => node,
            Err(error) => {
                problems.push("", None, format!("You need to pass a valid json: {error}"));
                return Err(problems.into_vec());
            }
        };
        match Self::read(&Cursor::root(&node, &problems), checks) {
            Some(config) => Ok(config),
            None => Err(problems.into_vec()),
        }
    }

    /// Reads a config from a tree. Returns `None` when there are problems, which are then recorded in `at`.
    pub fn read(at: &Cursor<'_>, checks: &Checks<'_>) -> Option<Self> {
        let before = at.problem_count();
        let config = ConfigReader { checks, target_count: Cell::new(0), patterns: PatternBudget::default() }
            .read_level(at, 0)?;
        (at.problem_count() == before).then_some(config)
    }
}

/// The keys of a config for "did you mean" suggestions, except those of the account and the inherited ones.
const KEYS: &[&str] = &[
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
struct ConfigReader<'a> {
    checks: &'a Checks<'a>,
    /// Targets counted so far in the whole tree.
    target_count: Cell<usize>,
    patterns: PatternBudget,
}

impl ConfigReader<'_> {
    /// Reads one level: the config itself, or a target `depth` levels below it.
    fn read_level(&self, at: &Cursor<'_>, depth: usize) -> Option<Config> {
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

/// Shows names only: parameters, hosts and hook contents may hold secrets.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("name", &self.name)
            .field("provider", &self.provider)
            .field("mode", &self.strategy.as_ref().map(|strategy| strategy.mode))
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}
