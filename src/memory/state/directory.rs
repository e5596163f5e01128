//! The providers and configs that a client may name: those of the settings, and the stored ones of its workspace.
//!
//! A name of the settings takes precedence: the control plane gives it to no stored object. Only looks up.

use super::discovered_hosts::{DiscoveredHost, HostLists};
use super::stored::Stored;
use crate::store::Kind;
use knowledge::price::OwnPrices;
use std::sync::Arc;
use uuid::Uuid;
use words::config::Config;
use words::config::balance::BalanceBy;
use words::config::hooks::{Hook, HookPhase};
use words::settings::{ModelEntry, ModelNames, Settings, StoredProvider};

/// What one client may name.
#[derive(Debug, Clone, Copy)]
pub struct Directory<'a> {
    pub settings: &'a Settings,
    pub stored: &'a Stored,
    /// The hosts of providers of the settings that were found.
    pub hosts_of: &'a HostLists,
    /// The client's workspace.
    pub workspace: Option<Uuid>,
}

/// What names a saved config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedName {
    pub slug: Arc<str>,
    /// Of its record; `None` for one of the settings.
    pub id: Option<Uuid>,
}

/// The records of a stored provider; both are `None` for one of the settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProviderIds {
    pub provider: Option<Uuid>,
    /// The integration it is made of, or itself.
    pub integration: Option<Uuid>,
}

/// Where a provider or config is defined, and so who defined it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinedIn {
    /// The operator, in the settings file: trusted.
    Settings,
    /// A key of the control plane: its hosts are checked as a client's are.
    Store,
}

impl<'a> Directory<'a> {
    /// The provider that `@slug` means.
    pub fn provider(self, slug: &str) -> Option<(&'a StoredProvider, DefinedIn)> {
        match self.settings.providers.get(slug) {
            Some(provider) => Some((provider, DefinedIn::Settings)),
            None => Some((self.stored.provider(self.workspace, slug)?, DefinedIn::Store)),
        }
    }

    /// The hosts of a provider that were found, and how one of them is chosen; `None`: it has that of its `custom_host`.
    pub fn hosts(self, slug: &str) -> Option<(&'a [DiscoveredHost], BalanceBy)> {
        let discover = self.settings.providers.get(slug)?.discover.as_ref()?;
        let hosts = self.hosts_of.get(slug).filter(|hosts| !hosts.is_empty())?;
        Some((hosts, discover.by))
    }

    /// The prices that the provider with this slug has of its own. Those of the settings file have none: their prices are in the
    /// overlay.
    pub fn own_prices(self, slug: &str) -> Option<&'a Arc<OwnPrices>> {
        if self.settings.providers.contains_key(slug) {
            None
        } else {
            self.stored.own_prices(self.workspace, slug)
        }
    }

    /// The saved config with this id.
    pub fn config(self, id: &str) -> Option<(&'a Config, DefinedIn)> {
        match self.settings.configs.get(id) {
            Some(config) => Some((config, DefinedIn::Settings)),
            None => Some((self.stored.config(self.workspace, id)?, DefinedIn::Store)),
        }
    }

    /// The entry of `models` that means this name. Whole names count before those with a `*`; then the settings', the workspace's and
    /// the organisation's, in this order.
    pub fn model(self, name: &str) -> Option<(&'a Arc<ModelEntry>, DefinedIn)> {
        let whole = self.model_tables().find_map(|(names, by)| Some((names.whole(name)?, by)));
        whole.or_else(|| self.model_tables().find_map(|(names, by)| Some((names.pattern(name)?, by))))
    }

    /// All entries of `models`. One whose name comes a second time means nothing.
    pub fn models(self) -> impl Iterator<Item = &'a Arc<ModelEntry>> {
        self.model_tables().flat_map(|(names, _)| names.iter())
    }

    fn model_tables(self) -> impl Iterator<Item = (&'a ModelNames, DefinedIn)> {
        let workspace = self.workspace.and_then(|id| self.stored.models(Some(id)));
        let stored = workspace.into_iter().chain(self.stored.models(None));
        let stored = stored.map(|names| (&**names, DefinedIn::Store));
        std::iter::once((&self.settings.models, DefinedIn::Settings)).chain(stored)
    }

    /// The saved guardrail with this slug or id.
    pub fn guardrail(self, slug: &str) -> Option<Arc<Hook>> {
        self.stored.guardrail(self.workspace, slug).cloned()
    }

    /// The saved guardrails that run on every request or response of the workspace, before those of a config.
    pub fn default_guardrails(self, phase: HookPhase) -> &'a [String] {
        self.stored.default_guardrails(self.workspace, phase)
    }

    /// The slug and id of the saved config that is named by either.
    pub fn config_name(self, id: &str) -> SavedName {
        let record = if self.settings.configs.contains_key(id) {
            None
        } else {
            self.stored.record(Kind::Config, self.workspace, id)
        };
        let slug = record.and_then(|record| record.slug.as_deref()).unwrap_or(id);
        SavedName { slug: slug.into(), id: record.map(|record| record.id) }
    }

    /// The records of the provider that `@slug` means.
    pub fn provider_ids(self, slug: &str) -> ProviderIds {
        let is_stored = !self.settings.providers.contains_key(slug);
        let record = is_stored.then(|| self.stored.record(Kind::Provider, self.workspace, slug)).flatten();
        ProviderIds {
            provider: record.map(|record| record.id),
            // One record may be both; a provider that is no integration has no limits as one.
            integration: record.map(|record| record.parent.unwrap_or(record.id)),
        }
    }

    /// All providers by slug.
    pub fn providers(self) -> impl Iterator<Item = (&'a str, &'a StoredProvider)> {
        let own = self.settings.providers.iter().map(|(slug, provider)| (slug.as_str(), provider));
        own.chain(self.stored.providers(self.workspace).map(|(slug, provider)| (slug, &**provider)))
    }

    /// All saved configs by id or slug.
    pub fn configs(self) -> impl Iterator<Item = (&'a str, &'a Config)> {
        let own = self.settings.configs.iter().map(|(id, config)| (id.as_str(), config));
        own.chain(self.stored.configs(self.workspace).map(|(slug, config)| (slug, &**config)))
    }
}
