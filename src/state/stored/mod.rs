//! The stored objects as requests use them: compiled from the store's catalog, immutable, replaced as a whole.
//!
//! An object is compiled when it changes, never when a request names it. One that cannot be compiled (made by another version,
//! sealed under a key that is not here) is left out and logged. Not here: reading and writing objects (`store`, `control`).

mod compile;
pub mod prompts;
#[cfg(test)]
mod tests;

pub use compile::{account_members, read_provider};

use compile::{SavedProvider, compile_config, compile_provider};

use crate::auth::DEFAULT_WORKSPACE;
use crate::config::Config;
use crate::net::outbound::custom_host::HostRules;
use crate::prompt::{PromptLibrary, PromptSet};
use crate::settings::StoredProvider;
use crate::store::{Catalog, Kind, Record, Status, Store};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// The compiled objects of one moment.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    catalog: Arc<Catalog>,
    /// By the id of their record.
    providers: HashMap<Uuid, SavedProvider>,
    configs: HashMap<Uuid, Arc<Config>>,
    prompts: PromptLibrary,
    /// When it was compiled: what has expired by then is not used.
    now: Timestamp,
    /// Counts changes of what configs are compiled from.
    pub routing_generation: u64,
}

impl Stored {
    /// The objects of `catalog` at `now`. What has not changed since `self` is taken from it.
    #[must_use]
    pub fn update(&self, catalog: &Arc<Catalog>, store: &Store, hosts: &HostRules, now: Timestamp) -> Self {
        let mut next = Self {
            catalog: Arc::clone(catalog),
            now,
            routing_generation: self.routing_generation,
            prompts: prompts::compile(catalog, (&self.prompts, &self.catalog)),
            ..Self::default()
        };
        let mut is_changed = self.has_expired(now);
        for record in active(catalog, Kind::Provider) {
            let is_same = self.is_unchanged(catalog, record);
            let compiled = match self.providers.get(&record.id).filter(|_| is_same) {
                Some(before) => Some(before.clone()),
                None if is_same && self.is_no_provider(record) => None,
                None => {
                    is_changed = true;
                    logged(record, compile_provider(record, catalog, store)).flatten()
                }
            };
            next.providers.extend(compiled.map(|compiled| (record.id, compiled)));
        }
        for record in active(catalog, Kind::Config) {
            let before = self.configs.get(&record.id).filter(|_| self.is_unchanged(catalog, record));
            let compiled = before.cloned().or_else(|| {
                is_changed = true;
                logged(record, compile_config(record, store, hosts)).map(Arc::new)
            });
            next.configs.extend(compiled.map(|compiled| (record.id, compiled)));
        }
        let is_smaller =
            next.providers.len() < self.providers.len() || next.configs.len() < self.configs.len();
        if is_changed || is_smaller {
            next.routing_generation += 1;
        }
        next
    }

    /// Whether the record, and the one it belongs to, are those that were compiled before.
    fn is_unchanged(&self, catalog: &Catalog, record: &Arc<Record>) -> bool {
        let is_same = |kind, id, now: Option<&Arc<Record>>| match (self.catalog.get(kind, id), now) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            _ => false,
        };
        let parent = record.parent.is_none_or(|id| is_same(record.kind, id, catalog.get(record.kind, id)));
        parent && is_same(record.kind, record.id, Some(record))
    }

    /// Whether the record was looked at before and is no provider, or cannot be used.
    fn is_no_provider(&self, record: &Record) -> bool {
        self.catalog.get(record.kind, record.id).is_some() && !self.providers.contains_key(&record.id)
    }

    /// Whether a provider has gone out of use since this was compiled.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.next_expiry().is_some_and(|expiry| expiry <= now)
    }

    /// When the next provider goes out of use.
    fn next_expiry(&self) -> Option<Timestamp> {
        self.providers.values().filter_map(|saved| saved.expires_at).filter(|expiry| *expiry > self.now).min()
    }

    /// The prompts and partials that a client of `workspace` may name.
    pub fn prompts(&self, workspace: Option<Uuid>) -> Option<&Arc<PromptSet>> {
        self.prompts.set(workspace.or_else(|| self.default_workspace())?)
    }

    /// The provider with this slug that a client of `workspace` may use: the workspace's, else the organisation's.
    pub fn provider(&self, workspace: Option<Uuid>, slug: &str) -> Option<&Arc<StoredProvider>> {
        self.usable_provider(self.named(Kind::Provider, workspace, slug)?)
    }

    fn usable_provider(&self, record: &Record) -> Option<&Arc<StoredProvider>> {
        let saved = self.providers.get(&record.id)?;
        saved.expires_at.is_none_or(|expiry| expiry > self.now).then_some(&saved.provider)
    }

    /// The config with this slug or id that a client of `workspace` may use.
    pub fn config(&self, workspace: Option<Uuid>, name: &str) -> Option<&Arc<Config>> {
        self.configs.get(&self.named(Kind::Config, workspace, name)?.id)
    }

    /// The slugs of the providers that a client of `workspace` may use, with the providers.
    pub fn providers(&self, workspace: Option<Uuid>) -> impl Iterator<Item = (&str, &Arc<StoredProvider>)> {
        self.usable(Kind::Provider, workspace)
            .filter_map(|record| Some((record.slug.as_deref()?, self.usable_provider(record)?)))
    }

    /// The slugs of the configs that a client of `workspace` may use, with the configs.
    pub fn configs(&self, workspace: Option<Uuid>) -> impl Iterator<Item = (&str, &Arc<Config>)> {
        self.usable(Kind::Config, workspace)
            .filter_map(|record| Some((record.slug.as_deref()?, self.configs.get(&record.id)?)))
    }

    fn usable(&self, kind: Kind, workspace: Option<Uuid>) -> impl Iterator<Item = &Arc<Record>> {
        let is_usable =
            move |record: &&Arc<Record>| record.workspace.is_none() || record.workspace == workspace;
        active(&self.catalog, kind).filter(is_usable)
    }

    fn named(&self, kind: Kind, workspace: Option<Uuid>, name: &str) -> Option<&Arc<Record>> {
        if let Ok(id) = Uuid::try_parse(name) {
            let record = self.catalog.get(kind, id)?;
            return (record.workspace.is_none() || record.workspace == workspace).then_some(record);
        }
        let own = workspace.and_then(|workspace| self.catalog.by_slug(kind, Some(workspace), name));
        own.or_else(|| self.catalog.by_slug(kind, None, name))
    }

    /// All current records.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The workspace with this slug.
    pub fn workspace(&self, slug: &str) -> Option<Uuid> {
        self.catalog.by_slug(Kind::Workspace, None, slug).map(|record| record.id)
    }

    /// The workspace of clients that belong to none in particular.
    pub fn default_workspace(&self) -> Option<Uuid> {
        self.workspace(DEFAULT_WORKSPACE)
    }
}

fn active(catalog: &Catalog, kind: Kind) -> impl Iterator<Item = &Arc<Record>> {
    catalog.all(kind).filter(|record| record.status == Status::Active)
}

/// The compiled object, or nothing and a log line.
fn logged<T>(record: &Record, compiled: Result<T, String>) -> Option<T> {
    match compiled {
        Ok(compiled) => Some(compiled),
        Err(why) => {
            let (kind, slug) = (record.kind.as_str(), record.slug.as_deref().unwrap_or_default());
            log::warn!(target: "turnpike", "the stored {kind} {slug} cannot be used: {why}");
            None
        }
    }
}
