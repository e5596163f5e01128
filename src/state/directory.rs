//! The providers and configs that a client may name: those of the settings, and the stored ones of its workspace.
//!
//! A name of the settings takes precedence: the control plane gives it to no stored object. Only looks up.

use super::stored::Stored;
use crate::config::Config;
use crate::settings::{Settings, StoredProvider};
use uuid::Uuid;

/// What one client may name.
#[derive(Debug, Clone, Copy)]
pub struct Directory<'a> {
    pub settings: &'a Settings,
    pub stored: &'a Stored,
    /// The client's workspace.
    pub workspace: Option<Uuid>,
}

/// Who made a provider or config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The operator, in the settings file: trusted.
    Settings,
    /// A key of the control plane: its hosts are checked as a client's are.
    Store,
}

impl<'a> Directory<'a> {
    /// The provider that `@slug` means.
    pub fn provider(self, slug: &str) -> Option<(&'a StoredProvider, Origin)> {
        match self.settings.providers.get(slug) {
            Some(provider) => Some((provider, Origin::Settings)),
            None => Some((self.stored.provider(self.workspace, slug)?, Origin::Store)),
        }
    }

    /// The saved config with this id.
    pub fn config(self, id: &str) -> Option<(&'a Config, Origin)> {
        match self.settings.configs.get(id) {
            Some(config) => Some((config, Origin::Settings)),
            None => Some((self.stored.config(self.workspace, id)?, Origin::Store)),
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
