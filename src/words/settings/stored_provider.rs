//! `providers.<slug>`: the stored providers, which configs and headers refer to as `@slug`.
//!
//! Not here: how a provider uses its account (`provider`), and how a target inherits from the stored provider
//! it names (`route`).

use super::allowed_models::AllowedModels;
use super::discovery::{Discovery, HostSource};
use super::key_limits::KeyLimits;
use super::model_pattern::{ALLOWED_MODELS, AllowedNames};
use super::values::base_url;
use crate::config::Checks;
use crate::config::account::names::CUSTOM_HOST;
use crate::config::account::{Account, OPERATORS_HOST};
use crate::config::members::{self, MemberTable, MemberType, non_empty, object};
use crate::config::policies::Policies;
use crate::config::read::Cursor;
use crate::json::schema;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// A provider and the operator's account with it. Its `custom_host` is trusted.
#[derive(Clone, Default, PartialEq)]
pub struct StoredProvider {
    pub provider: String,
    pub account: Account,
    /// Those of the inherited keys that a stored provider may have; targets that name it inherit them.
    pub policies: Policies,
    /// `None`: all models.
    pub models: Option<Arc<AllowedModels>>,
    /// The names of the models that may be used; `None`: all.
    pub allowed: Option<AllowedNames>,
    /// What all requests together may use of it. Of one of the store its record has them, and this has none.
    pub limits: KeyLimits,
    /// Where its hosts are found, in place of that of `custom_host`. Those of the store have none.
    pub discover: Option<Discovery>,
}

impl StoredProvider {
    /// Whether it may be used for a model.
    pub fn allows(&self, model: &str) -> bool {
        self.models.as_ref().is_none_or(|models| models.allows(model))
            && self.allowed.as_ref().is_none_or(|allowed| allowed.allows(model))
    }

    /// Reads a stored provider, of the file or of the store. `None` when it is not an object; all problems are recorded in `at`.
    pub fn read_members(at: &Cursor<'_>, checks: &Checks<'_>) -> Option<Self> {
        members::read(at, |table| Self::members(table, checks, &[]))
    }

    /// `providers`: all names of providers, for the schema.
    pub(super) fn members(
        table: &mut MemberTable<'_>,
        checks: &Checks<'_>,
        providers: &[&str],
    ) -> Option<Self> {
        let before = table.problem_count();
        let provider = ProviderName { checks, providers };
        let provider = table.needed("provider", provider, "The provider (docs/providers.md).");
        let account = Account::members(table, &OPERATORS_HOST);
        if let Some(host) = table.at(CUSTOM_HOST).and_then(|at| at.node.as_text())
            && let Err(message) = base_url(host)
        {
            table.problem(CUSTOM_HOST, &message);
        }
        let policies = Policies::members_in_provider(table);
        if policies.engine.is_some() && account.custom_host.is_none() {
            table.problem("engine", "needs custom_host");
        }
        let doc = "The models that may be used through it; * is any text (docs/models.md). Default: all.";
        let allowed = table.get("allowed_models", ALLOWED_MODELS, doc);
        let limits = KeyLimits::members(table);
        let discover = "Where hosts like custom_host are found, which come and go.";
        let discover = table.get("discover", object(Discovery::members), discover);
        check_discovery(table, discover.as_ref(), account.custom_host.as_deref());
        let provider = provider.unwrap_or_default();
        let stored = Self { provider, account, policies, models: None, allowed, limits, discover };
        // Skipped after a problem, so that a wrong value is reported only once.
        if table.problem_count() == before
            && let Err(error) = (checks.account)(&stored.provider, &stored.account)
        {
            Account::report(&error, table, true);
        }
        Some(stored)
    }
}

/// What is found stands in the place of the host of `custom_host`.
fn check_discovery(table: &MemberTable<'_>, discover: Option<&Discovery>, custom_host: Option<&str>) {
    let by_addresses = matches!(discover, Some(Discovery { source: HostSource::Dns(_), .. }));
    match custom_host {
        None => table.problem("discover", "needs custom_host: its scheme, port and path"),
        Some(host) if by_addresses && host.starts_with("https") => {
            table.problem(
                "discover",
                "finds addresses, which certificates do not name: use http, or srv or file with names",
            );
        }
        Some(_) => {}
    }
}

/// A provider that there is.
struct ProviderName<'p> {
    checks: &'p Checks<'p>,
    providers: &'p [&'p str],
}

impl MemberType for ProviderName<'_> {
    type Value = String;

    fn read(&self, at: &Cursor<'_>) -> Option<String> {
        let name = non_empty(at)?;
        if name.starts_with('@') {
            at.problem("must be a provider, not the slug of another one");
            return None;
        }
        if let Err(message) = (self.checks.provider)(name) {
            at.problem(message);
        }
        Some(name.to_owned())
    }

    fn schema(&self, doc: &str) -> Value {
        schema::one_of(doc, self.providers.iter().copied())
    }
}

/// Leaves out hosts and parameters: a reference may have put a secret there.
impl fmt::Debug for StoredProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredProvider")
            .field("provider", &self.provider)
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}
