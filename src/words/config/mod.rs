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
pub mod failure_class;
pub mod headers;
pub mod hedge;
pub mod hooks;
mod level;
pub(crate) mod members;
pub mod node;
pub mod pattern;
pub mod policies;
pub mod proxy_url;
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

pub(crate) use level::definitions;

use crate::error::{Error, Problem};
use account::Account;
use balance::Price;
use failure_class::FailureClass;
use hedge::Hedge;
use node::Node;
use policies::Policies;
use read::{Cursor, Problems};
use std::collections::HashSet;
use std::fmt;
use strategy::{Mode, Strategy};

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
    /// A key of our own: in fallback, this target is used after failures of these classes only.
    pub for_errors: Option<Vec<FailureClass>>,
    /// The provider is the one that the request names, in a header or before its model.
    pub passthrough: bool,
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
    /// The tables of patterns are made when the config is compiled for its first request: it was checked when it was saved.
    pub defers_patterns: bool,
}

impl Checks<'static> {
    /// No checks.
    pub const NONE: Self = Self {
        provider: &|_| Ok(()),
        account: &|_, _| Ok(()),
        custom_host: &|_| Ok(()),
        defers_patterns: false,
    };
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
        Self::read_with(at, checks, None)
    }

    /// As [`Config::read`], in a text that has stored providers with these slugs, which are suggested.
    pub fn read_with(at: &Cursor<'_>, checks: &Checks<'_>, slugs: Option<&HashSet<String>>) -> Option<Self> {
        let before = at.problem_count();
        let config = level::read(at, checks, slugs)?;
        (at.problem_count() == before).then_some(config)
    }
}

impl Config {
    /// Whether all patterns of its conditions can be matched without work.
    pub fn has_made_patterns(&self) -> bool {
        let strategy = self.strategy.iter().filter(|strategy| strategy.mode == Mode::Conditional);
        let conditions = strategy.flat_map(|strategy| &strategy.conditions);
        let mut own = conditions.map(|condition| condition.query.is_made());
        own.all(|is_made| is_made) && self.targets.iter().all(Self::has_made_patterns)
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
