//! The stored objects as requests use them: compiled from the store's catalog, immutable, replaced as a whole.
//!
//! An object is compiled when it changes, never when a request names it. One that cannot be compiled (made by another version,
//! sealed under a key that is not here) is left out and logged. Not here: reading and writing objects (`store`, `control`).
//!
//! `Catalog::changed_since` gives the records that differ between two catalogs. `Stored::update`, `PromptCompiler` and
//! `StoredKeys::with` compile these and share the rest; property tests hold each equal to compiling everything.
//! `Shared::install_stored` swaps settings, stored objects and keys as one. `Directory` is what one client may name: the
//! settings' providers and configs, then its workspace's, then the organisation's. A provider or config of the store was not written by
//! the operator: its hosts are checked as a client's are, and it never uses the machine's identity.

mod compile;
pub mod mcp_access;
pub mod mcp_apis;
pub mod mcp_bundles;
pub mod mcp_servers;
pub mod prompts;
mod saved_models;
#[cfg(test)]
mod tests;

pub use compile::{account_members, compile_guardrail, guardrail_hook, read_model, read_provider};

use compile::{
    DefaultGuardrails, SavedProvider, compile_config, compile_model, compile_provider, default_guardrails,
};

use crate::auth::DEFAULT_WORKSPACE;
use crate::net::outbound::custom_host::HostRules;
use crate::store::{Catalog, Kind, Record, Status, Store};
use imbl::{HashMap, OrdSet};
use jiff::Timestamp;
use knowledge::price::OwnPrices;
use knowledge::prompt::{PromptLibrary, PromptSet};
use mcp_bundles::{StoredMcpBundle, compile_mcp_bundle};
use mcp_servers::{StoredMcpServer, compile_mcp_server};
use prompts::PromptCompiler;
use saved_models::SavedModels;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use uuid::Uuid;
use words::config::Config;
use words::config::hooks::{Hook, HookPhase};
use words::settings::{ModelNames, StoredProvider};

/// The compiled objects of one moment. A copy shares everything with its original.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    catalog: Arc<Catalog>,
    /// By the id of their record.
    providers: HashMap<Uuid, SavedProvider>,
    /// When providers go out of use.
    expiries: OrdSet<(Timestamp, Uuid)>,
    configs: HashMap<Uuid, Arc<Config>>,
    models: SavedModels,
    guardrails: HashMap<Uuid, Arc<Hook>>,
    mcp_servers: HashMap<Uuid, Arc<StoredMcpServer>>,
    mcp_bundles: HashMap<Uuid, Arc<StoredMcpBundle>>,
    /// By workspace; only of those that have some.
    default_guardrails: HashMap<Uuid, DefaultGuardrails>,
    /// Records that could not be compiled.
    broken: OrdSet<(Kind, Uuid)>,
    prompts: PromptLibrary,
    /// When it was compiled: what has expired by then is not used.
    now: Timestamp,
    /// Since when its revision is in force.
    revision_since: Timestamp,
    /// Counts changes of what configs are compiled from.
    pub routing_generation: u64,
    /// Counts all changes.
    updates: u64,
}

/// What is compiled with: the keys of sealed members, and the rules for hosts.
#[derive(Clone, Copy)]
pub struct CompilerEnv<'a> {
    pub store: &'a Store,
    pub hosts: &'a HostRules,
}

impl Stored {
    #[cfg(test)]
    pub(in crate::state) fn of_catalog(catalog: Arc<Catalog>) -> Self {
        Self { catalog, ..Self::default() }
    }

    /// The objects of `catalog` at `now`, made from `self`: only what has changed is looked at and compiled.
    #[must_use]
    pub fn update(&self, catalog: &Arc<Catalog>, env: CompilerEnv<'_>, now: Timestamp) -> Self {
        let mut next = Self { catalog: Arc::clone(catalog), now, updates: self.updates + 1, ..self.clone() };
        if next.revision() != self.revision() {
            next.revision_since = now;
        }
        let mut prompts = PromptCompiler::new(catalog, &self.prompts, next.updates);
        let mut routing = BTreeSet::new();
        for change in catalog.changed_since(&self.catalog) {
            match change.kind {
                Kind::Provider => {
                    routing.insert((change.kind, change.id));
                    // They use its account.
                    let children = catalog.children(change.kind, change.id);
                    routing.extend(children.map(|child| (child.kind, child.id)));
                }
                Kind::Config
                | Kind::ModelName
                | Kind::Guardrail
                | Kind::McpServer
                | Kind::McpBundle
                | Kind::Workspace => {
                    routing.insert((change.kind, change.id));
                }
                _ => prompts.note(&change),
            }
        }
        let is_changed = next.compile(&routing, env);
        if is_changed || self.has_expired(now) {
            next.routing_generation += 1;
        }
        next.prompts = prompts.finish();
        next
    }

    /// These objects with those that could not be compiled until now, where that has changed: settings may have brought the key that
    /// they are sealed under, or other rules for hosts.
    #[must_use]
    pub fn with_broken_again(&self, env: CompilerEnv<'_>) -> Self {
        let mut next = self.clone();
        if next.compile(&self.broken.iter().copied().collect(), env) {
            next.routing_generation += 1;
        }
        next
    }

    /// Compiles these records anew. Returns whether that changes anything that requests use.
    fn compile(&mut self, records: &BTreeSet<(Kind, Uuid)>, env: CompilerEnv<'_>) -> bool {
        let mut is_changed = false;
        for (kind, id) in records {
            let catalog = Arc::clone(&self.catalog);
            let record = catalog.get(*kind, *id).filter(|record| record.status == Status::Active);
            self.broken.remove(&(*kind, *id));
            is_changed |= match kind {
                Kind::Provider => {
                    let compiled = record.map(|record| compile_provider(record, &catalog, env.store));
                    let compiled = self.usable_one((*kind, *id), record, compiled).flatten();
                    self.set_provider(*id, compiled)
                }
                Kind::Guardrail => {
                    let compiled = record.map(|record| compile_guardrail(record, env.store));
                    let compiled = self.usable_one((*kind, *id), record, compiled);
                    set(&mut self.guardrails, *id, compiled)
                }
                Kind::McpServer => {
                    let compiled =
                        record.map(|record| compile_mcp_server(record, &catalog, env.store, env.hosts));
                    let compiled = self.usable_one((*kind, *id), record, compiled);
                    set(&mut self.mcp_servers, *id, compiled)
                }
                Kind::McpBundle => {
                    let compiled = record.map(|record| compile_mcp_bundle(record));
                    let compiled = self.usable_one((*kind, *id), record, compiled);
                    set(&mut self.mcp_bundles, *id, compiled)
                }
                Kind::ModelName => {
                    let compiled = record.map(|record| compile_model(record, env.store, env.hosts));
                    let compiled = self.usable_one((*kind, *id), record, compiled);
                    let workspace = record.and_then(|record| record.workspace);
                    self.models.set(*id, workspace, compiled)
                }
                Kind::Workspace => {
                    let before = self.default_guardrails.remove(id);
                    let now = record.and_then(|record| default_guardrails(record));
                    self.default_guardrails.extend(now.clone().map(|now| (*id, now)));
                    before != now
                }
                _ => {
                    let compiled = record.map(|record| compile_config(record, env.store, env.hosts));
                    let compiled = self.usable_one((*kind, *id), record, compiled);
                    set(&mut self.configs, *id, compiled)
                }
            };
        }
        self.models.renew();
        is_changed
    }

    /// What was compiled, or nothing and a log line.
    fn usable_one<T>(
        &mut self,
        key: (Kind, Uuid),
        record: Option<&Arc<Record>>,
        compiled: Option<Result<T, String>>,
    ) -> Option<T> {
        match compiled? {
            Ok(compiled) => Some(compiled),
            Err(why) => {
                let slug = record.and_then(|record| record.slug.as_deref()).unwrap_or_default();
                log::warn!(target: "turnpike", "the stored {} {slug} cannot be used: {why}", key.0.as_str());
                self.broken.insert(key);
                None
            }
        }
    }

    fn set_provider(&mut self, id: Uuid, provider: Option<SavedProvider>) -> bool {
        let expiry = provider.as_ref().and_then(|saved| saved.expires_at);
        let is_there = provider.is_some();
        let before = match provider {
            Some(provider) => self.providers.insert(id, provider),
            None => self.providers.remove(&id),
        };
        if let Some(expiry) = before.as_ref().and_then(|saved| saved.expires_at) {
            self.expiries.remove(&(expiry, id));
        }
        self.expiries.extend(expiry.map(|expiry| (expiry, id)));
        is_there || before.is_some()
    }

    /// Whether a provider has gone out of use since this was compiled.
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.next_expiry().is_some_and(|expiry| expiry <= now)
    }

    /// When the next provider goes out of use.
    fn next_expiry(&self) -> Option<Timestamp> {
        let later = (Bound::Excluded((self.now, Uuid::max())), Bound::Unbounded);
        self.expiries.range(later).next().map(|(expiry, _)| *expiry)
    }

    /// The prompts and partials that a client of `workspace` may name.
    pub fn prompts(&self, workspace: Option<Uuid>) -> Option<&Arc<PromptSet>> {
        self.prompts.set(workspace.or_else(|| self.default_workspace())?)
    }

    /// The provider with this slug that a client of `workspace` may use: the workspace's, else the organisation's.
    pub fn provider(&self, workspace: Option<Uuid>, slug: &str) -> Option<&Arc<StoredProvider>> {
        self.usable_provider(workspace, self.record(Kind::Provider, workspace, slug)?)
    }

    fn usable_provider(&self, workspace: Option<Uuid>, record: &Record) -> Option<&Arc<StoredProvider>> {
        let saved = self.providers.get(&record.id).filter(|saved| saved.is_for(workspace))?;
        saved.expires_at.is_none_or(|expiry| expiry > self.now).then_some(&saved.provider)
    }

    /// The prices of that provider's own, if it has any.
    pub fn own_prices(&self, workspace: Option<Uuid>, slug: &str) -> Option<&Arc<OwnPrices>> {
        let record = self.record(Kind::Provider, workspace, slug)?;
        self.providers.get(&record.id)?.own_prices.as_ref()
    }

    /// The providers that are model servers whose load is read, of all workspaces: record, slug, provider.
    pub fn engines(&self) -> impl Iterator<Item = (Uuid, &str, &Arc<StoredProvider>)> {
        let in_use = |saved: &&SavedProvider| saved.expires_at.is_none_or(|expiry| expiry > self.now);
        self.providers.iter().filter_map(move |(id, saved)| {
            saved.provider.policies.engine.as_ref()?;
            let slug = self.catalog.get(Kind::Provider, *id)?.slug.as_deref()?;
            Some(saved).filter(in_use).map(|saved| (*id, slug, &saved.provider))
        })
    }

    /// The config with this slug or id that a client of `workspace` may use.
    pub fn config(&self, workspace: Option<Uuid>, name: &str) -> Option<&Arc<Config>> {
        self.configs.get(&self.record(Kind::Config, workspace, name)?.id)
    }

    /// The names of models of one workspace, or (`None`) of the organisation.
    pub fn models(&self, workspace: Option<Uuid>) -> Option<&Arc<ModelNames>> {
        self.models.of(workspace)
    }

    /// The guardrail with this slug or id that a client of `workspace` may use.
    pub fn guardrail(&self, workspace: Option<Uuid>, name: &str) -> Option<&Arc<Hook>> {
        self.guardrails.get(&self.record(Kind::Guardrail, workspace, name)?.id)
    }

    /// The guardrails that run on every request (before) or response (after) of a workspace, by slug or id.
    pub fn default_guardrails(&self, workspace: Option<Uuid>, phase: HookPhase) -> &[String] {
        // Most stores have none.
        if self.default_guardrails.is_empty() {
            return &[];
        }
        let found = workspace.and_then(|workspace| self.default_guardrails.get(&workspace));
        found.map_or(&[], |found| found.of(phase))
    }

    /// The slugs of the providers that a client of `workspace` may use, with the providers.
    pub fn providers(&self, workspace: Option<Uuid>) -> impl Iterator<Item = (&str, &Arc<StoredProvider>)> {
        self.usable(Kind::Provider, workspace).filter_map(move |record| {
            Some((record.slug.as_deref()?, self.usable_provider(workspace, record)?))
        })
    }

    /// The slugs of the configs that a client of `workspace` may use, with the configs.
    pub fn configs(&self, workspace: Option<Uuid>) -> impl Iterator<Item = (&str, &Arc<Config>)> {
        self.usable(Kind::Config, workspace)
            .filter_map(|record| Some((record.slug.as_deref()?, self.configs.get(&record.id)?)))
    }

    /// The MCP servers that a client of `workspace` may use, by slug.
    pub fn mcp_servers(&self, workspace: Option<Uuid>) -> Vec<Arc<StoredMcpServer>> {
        let workspace = workspace.or_else(|| self.default_workspace());
        let usable = self.usable(Kind::McpServer, workspace);
        let mut found: Vec<_> =
            usable.filter_map(|record| self.mcp_servers.get(&record.id).cloned()).collect();
        found.sort_by(|one, other| (&one.slug, one.id).cmp(&(&other.slug, other.id)));
        found
    }

    /// The slugs of the MCP servers of which only approved definitions are used, whatever their workspace is.
    pub fn approving_mcp_servers(&self) -> impl Iterator<Item = &str> {
        self.mcp_servers.values().filter(|server| server.needs_approval()).map(|server| server.slug.as_str())
    }

    /// The bundle of MCP servers with this slug: the workspace's, else the organisation's.
    pub fn mcp_bundle(&self, workspace: Option<Uuid>, slug: &str) -> Option<Arc<StoredMcpBundle>> {
        let workspace = workspace.or_else(|| self.default_workspace());
        let found = self.record(Kind::McpBundle, workspace, slug)?;
        self.mcp_bundles.get(&found.id).cloned()
    }

    /// The MCP server of this record, if it can be used.
    pub fn mcp_server(&self, id: Uuid) -> Option<Arc<StoredMcpServer>> {
        self.mcp_servers.get(&id).cloned()
    }

    fn usable(&self, kind: Kind, workspace: Option<Uuid>) -> impl Iterator<Item = &Arc<Record>> {
        let is_usable =
            move |record: &&Arc<Record>| record.workspace.is_none() || record.workspace == workspace;
        active(&self.catalog, kind).filter(is_usable)
    }

    /// The record with this slug or id that a client of `workspace` may use: the workspace's, else the organisation's.
    pub fn record(&self, kind: Kind, workspace: Option<Uuid>, name: &str) -> Option<&Arc<Record>> {
        if let Ok(id) = Uuid::try_parse(name) {
            let record = self.catalog.get(kind, id)?;
            return (record.workspace.is_none() || record.workspace == workspace).then_some(record);
        }
        let own = workspace.and_then(|workspace| self.catalog.by_slug(kind, Some(workspace), name));
        own.or_else(|| self.catalog.by_slug(kind, None, name))
    }

    /// The number of the last write to the store that is in force; 0 before anything was read.
    pub fn revision(&self) -> u64 {
        self.catalog.position
    }

    /// Since when the revision is in force; `None` before anything was read.
    pub fn revision_since(&self) -> Option<Timestamp> {
        (self.revision() > 0).then_some(self.revision_since)
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

/// Puts what was compiled of a record into its map, or takes it out. Returns whether that changes anything.
fn set<T>(map: &mut HashMap<Uuid, Arc<T>>, id: Uuid, compiled: Option<T>) -> bool {
    match compiled {
        Some(compiled) => {
            map.insert(id, Arc::new(compiled));
            true
        }
        None => map.remove(&id).is_some(),
    }
}

fn active(catalog: &Catalog, kind: Kind) -> impl Iterator<Item = &Arc<Record>> {
    catalog.all(kind).filter(|record| record.status == Status::Active)
}
