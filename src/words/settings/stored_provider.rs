//! `providers.<slug>`: the stored providers, which configs and headers refer to as `@slug`.
//!
//! Not here: how a provider uses its account (`provider`), and how a target inherits from the stored provider
//! it names (`route`).

use super::allowed_models::AllowedModels;
use super::values::base_url;
use crate::config::Checks;
use crate::config::account::Account;
use crate::config::account::names::{self, CUSTOM_HOST};
use crate::config::members::non_empty;
use crate::config::policies::Policies;
use crate::config::read::{Cursor, ObjectReader};
use std::fmt;
use std::sync::Arc;

/// A provider and the operator's account with it. Its `custom_host` is trusted.
#[derive(Clone, PartialEq)]
pub struct StoredProvider {
    pub provider: String,
    pub account: Account,
    /// Those of the inherited keys that a stored provider may have; targets that name it inherit them.
    pub policies: Policies,
    /// `None`: all models.
    pub models: Option<Arc<AllowedModels>>,
}

impl StoredProvider {
    /// Reads a stored provider, of the file or of the store. `None` when it is not an object; all problems are recorded in `at`.
    pub fn read_members(at: &Cursor<'_>, checks: &Checks<'_>) -> Option<Self> {
        let before = at.problem_count();
        let mut fields = at.fields()?;
        let provider = fields.required(&["provider"]).and_then(|at| Self::provider(&at, checks));
        let account = Account::read(&mut fields);
        Self::check_host(&fields);
        let stored = Self {
            provider: provider.unwrap_or_default(),
            account,
            policies: Policies::read_in_provider(&mut fields),
            models: None,
        };
        // Skipped after a problem, so that a wrong value is reported only once.
        if at.problem_count() == before
            && let Err(error) = (checks.account)(&stored.provider, &stored.account)
        {
            Account::report(&error, &fields, true);
        }
        let valid_keys: Vec<&str> =
            ["provider"].into_iter().chain(Policies::names_in_provider()).chain(names::keys()).collect();
        fields.reject_unknown(&valid_keys);
        Some(stored)
    }

    fn provider(at: &Cursor<'_>, checks: &Checks<'_>) -> Option<String> {
        let name = non_empty(at)?;
        if name.starts_with('@') {
            at.problem("must be a provider, not the slug of another one");
            return None;
        }
        if let Err(message) = (checks.provider)(name) {
            at.problem(message);
        }
        Some(name.to_owned())
    }

    fn check_host(fields: &ObjectReader<'_>) {
        let host = fields.peek(CUSTOM_HOST);
        if let Some((at, text)) = host.as_ref().and_then(|at| Some((at, at.node.as_text()?)))
            && let Err(message) = base_url(text)
        {
            at.problem(message);
        }
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
