//! The state of the running process: one struct, built in `main` and passed as `Arc`.
//!
//! Each part is a small type with a few methods; its lock is private and never held across an await. No
//! statics. Nothing here outlives the process.
//!
//! `Shared` lives as long as the process. `SettingsSnapshot` is one generation of settings with what is computed from them: a
//! request takes it once and uses it to its end, and a reload replaces it whole.

pub mod access_log;
pub mod authentication;
pub mod connection_count;
pub mod credentials;
pub mod data_runtimes;
pub mod directory;
pub mod discovered_hosts;
pub mod drained_providers;
pub mod engine_loads;
pub mod handed_over;
pub mod hedge_budget;
pub mod held_bytes;
pub mod identity_provider;
pub mod jwks;
pub mod kept_items;
pub(crate) mod label_limit;
pub mod large_work;
pub mod learned_forms;
pub mod lifecycle;
pub mod mcp_pending;
pub mod mcp_servers;
pub mod mcp_sessions;
pub mod metrics;
pub mod model_lists;
pub mod node;
pub mod prefix_tables;
pub mod price_feed;
mod process;
pub mod rate;
pub mod refused_calls;
pub mod sent_prompts;
pub mod slots;
pub mod snapshot;
pub mod span_queue;
pub mod sticky_sessions;
pub mod stored;
pub mod system_limits;
pub mod targets;
pub mod tokenizer;

use crate::auth::StoredKeys;
use crate::auth::key_format::KeyHash;
use crate::ledger::Ledger;
use crate::net::outbound::dns::Dns;
use crate::net::outbound::peer_limit::PeerLimit;
use crate::store::{Catalog, Store};
use access_log::AccessLog;
use arc_swap::{ArcSwap, Guard};
use connection_count::ConnectionCount;
use credentials::CredentialCache;
use data_runtimes::DataRuntimes;
use discovered_hosts::DiscoveredHost;
use drained_providers::DrainedProviders;
use engine_loads::EngineLoads;
use hedge_budget::HedgeBudget;
use held_bytes::HeldBytes;
use identity_provider::IdentityProvider;
use jiff::Timestamp;
use jwks::JwksFetcher;
use kept_items::KeptItems;
use knowledge::price::{Overlay, PriceBook};
use large_work::LargeWork;
use learned_forms::LearnedForms;
use lifecycle::Lifecycle;
use mcp_pending::McpPending;
use mcp_servers::McpServers;
use mcp_sessions::McpSessions;
use metrics::Metrics;
use model_lists::ModelLists;
use node::Node;
use parking_lot::Mutex;
use prefix_tables::PrefixTables;
use price_feed::PriceFeed;
use rate::Rate;
use refused_calls::RefusedCalls;
use sent_prompts::SentPrompts;
use slots::SlotRegistry;
use snapshot::SettingsSnapshot;
use span_queue::SpanQueue;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use sticky_sessions::StickySessions;
use stored::CompilerEnv;
use system_limits::SystemLimits;
use targets::TargetRegistry;
use tokenizer::Tokenizer;
use words::settings::{SettingsSource, StoredProvider};

/// Entries of the audit log a second for clients without a good key, so that nobody can fill it from outside.
const MAX_UNKNOWN_CLIENTS: u32 = 10;
/// Entries of the audit log a minute for the refused calls of each other client.
const MAX_REFUSED_CALLS: u32 = 60;

/// The state that the data plane, the control plane and the background tasks share.
pub struct Shared {
    snapshot: ArcSwap<SettingsSnapshot>,
    /// Held while a snapshot is replaced: settings and stored objects change independently.
    replacing: Mutex<()>,
    /// `None` where it could not be opened at the start.
    store: Option<Arc<Store>>,
    /// Set once, before the first request; never where the settings turn it off.
    ledger: OnceLock<Arc<Ledger>>,
    pub node: Node,
    pub metrics: Metrics,
    pub access_log: AccessLog,
    pub lifecycle: Lifecycle,
    pub data_runtimes: DataRuntimes,
    pub dns: Dns,
    pub peer_limit: PeerLimit,
    pub credentials: CredentialCache,
    /// Fetches the keys of the identity provider (`auth.jwt`).
    pub jwks: JwksFetcher,
    /// Where persons sign in at the console.
    pub identity_provider: IdentityProvider,
    pub mcp_servers: McpServers,
    /// Of servers that clients use through the gateway.
    pub mcp_sessions: McpSessions,
    /// What those servers have requested of clients.
    pub mcp_pending: McpPending,
    pub targets: TargetRegistry,
    /// The places at targets that take only so many attempts at a time.
    pub slots: SlotRegistry,
    /// What model servers have to do, by their own word.
    pub engine_loads: EngineLoads,
    /// Providers that get no new attempts.
    pub drained_providers: DrainedProviders,
    pub sticky_sessions: StickySessions,
    /// Where the beginnings of requests were last sent.
    pub prefix_tables: PrefixTables,
    /// Which prompts were sent where, to tell why a provider's cache has read nothing.
    pub sent_prompts: SentPrompts,
    pub hedge_budget: HedgeBudget,
    pub held_bytes: HeldBytes,
    pub kept_items: KeptItems,
    /// Shared with the requests, whose attempts are made by it.
    pub learned_forms: Arc<LearnedForms>,
    pub large_work: LargeWork,
    pub tokenizer: Tokenizer,
    pub model_lists: ModelLists,
    /// What models cost. Replaced as a whole when the overlay or the catalogue changes.
    pub prices: ArcSwap<PriceBook>,
    /// Reads newer catalogues (`prices.file`, `prices.url`).
    pub price_feed: PriceFeed,
    /// Where spans go; empty where none are sent. Set once, at the start.
    pub spans: OnceLock<SpanQueue>,
    /// The connections of clients, on all data listeners.
    pub connections: ConnectionCount,
    /// Connections beyond the limit, as long as they are refused.
    pub refused_connections: ConnectionCount,
    /// Limits entries of the audit log for clients without a valid key.
    pub unknown_clients: Rate,
    /// Refused calls of clients with a key, of which each writes down only so many.
    pub refused_calls: RefusedCalls,
    /// What the settings of the start were read from.
    pub started_with: SettingsSource,
    /// The settings that have changed since the start, and that only another start takes over.
    pub waiting_for_restart: ArcSwap<Vec<String>>,
    /// As at the start of the process.
    system: SystemLimits,
}

impl Shared {
    pub fn new(
        snapshot: SettingsSnapshot,
        metrics: Metrics,
        access_log: AccessLog,
        store: Option<Arc<Store>>,
    ) -> Self {
        metrics.settings_loaded(&snapshot.settings.hash, &snapshot.settings.metrics);
        let targets = TargetRegistry::with_counter(metrics.breaker_transitions());
        let started_with = snapshot.settings.source.clone();
        let system = SystemLimits::read();
        let held_bytes = HeldBytes::default();
        held_bytes.set_limit(max_held_bytes(&snapshot, &system));
        let kept_items = KeptItems::new(snapshot.settings.limits.max_kept_items_bytes as u64);
        let credentials = CredentialCache::new(snapshot.settings.tls.ca_file.clone());
        let jwks = JwksFetcher::new(snapshot.settings.tls.ca_file.clone());
        let identity_provider = IdentityProvider::new(snapshot.settings.tls.ca_file.clone());
        let price_feed = PriceFeed::new(snapshot.settings.tls.ca_file.clone());
        let mcp_servers = McpServers::new(snapshot.settings.tls.ca_file.clone());
        let engine_loads = EngineLoads::new(snapshot.settings.tls.ca_file.clone());
        let node = Node::new(&snapshot.settings);
        let shared = Self {
            node,
            snapshot: ArcSwap::from_pointee(snapshot),
            replacing: Mutex::default(),
            store,
            ledger: OnceLock::new(),
            metrics,
            access_log,
            lifecycle: Lifecycle::default(),
            data_runtimes: DataRuntimes::default(),
            dns: Dns::system(),
            peer_limit: PeerLimit::default(),
            credentials,
            jwks,
            identity_provider,
            mcp_servers,
            mcp_sessions: McpSessions::default(),
            mcp_pending: McpPending::default(),
            targets,
            slots: SlotRegistry::default(),
            engine_loads,
            drained_providers: DrainedProviders::default(),
            sticky_sessions: StickySessions::default(),
            prefix_tables: PrefixTables::default(),
            sent_prompts: SentPrompts::default(),
            hedge_budget: HedgeBudget::default(),
            held_bytes,
            kept_items,
            learned_forms: Arc::default(),
            large_work: LargeWork::default(),
            tokenizer: Tokenizer::default(),
            model_lists: ModelLists::default(),
            spans: OnceLock::new(),
            prices: ArcSwap::default(),
            price_feed,
            connections: ConnectionCount::default(),
            refused_connections: ConnectionCount::default(),
            unknown_clients: Rate::new(MAX_UNKNOWN_CLIENTS),
            refused_calls: RefusedCalls::new(MAX_REFUSED_CALLS),
            started_with,
            waiting_for_restart: ArcSwap::default(),
            system,
        };
        shared.install_stored();
        shared
    }

    /// What outlives the process.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    /// What was done and what it cost. `None` where the settings turn it off.
    pub fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.ledger.get()
    }

    /// Has the records of requests kept from now on. The first ledger stays.
    pub fn set_ledger(&self, ledger: Arc<Ledger>) {
        let _ = self.ledger.set(ledger);
    }

    /// The settings in force. Load them once per request: a reload replaces them as a whole.
    pub fn settings(&self) -> Guard<Arc<SettingsSnapshot>> {
        self.snapshot.load()
    }

    /// The settings in force, for use across awaits.
    pub fn settings_arc(&self) -> Arc<SettingsSnapshot> {
        self.snapshot.load_full()
    }

    /// The most downstream connections at a time: `limits.max_connections`, or its default.
    pub fn max_connections(&self) -> usize {
        let configured = self.settings().settings.limits.max_connections;
        configured.unwrap_or_else(|| self.system.max_connections())
    }

    /// Drops expired entries of the caches, which do so by themselves only when they are used.
    pub fn drop_expired(&self, now: Instant) {
        self.dns.drop_expired();
        self.credentials.drop_expired();
        self.mcp_servers.drop_expired();
        self.mcp_sessions.drop_expired(now);
        self.sticky_sessions.drop_expired(now);
        self.prefix_tables.drop_expired();
        self.kept_items.drop_expired();
        self.learned_forms.drop_expired();
        self.model_lists.drop_expired(now);
        if let Some(tokens) = self.settings().service_keys.tokens() {
            tokens.drop_expired();
        }
    }

    /// Puts new settings in force. The stored objects stay.
    pub fn install(&self, snapshot: SettingsSnapshot) {
        let _one = self.replacing.lock();
        self.metrics.settings_loaded(&snapshot.settings.hash, &snapshot.settings.metrics);
        self.held_bytes.set_limit(max_held_bytes(&snapshot, &self.system));
        if let (Some(tokens), Some(before)) =
            (snapshot.service_keys.tokens(), self.settings().service_keys.tokens())
        {
            tokens.take_over(before);
        }
        let before = self.snapshot.load();
        let keys = Arc::clone(before.service_keys.stored());
        let stored = match &self.store {
            Some(store) => {
                Arc::new(before.stored.with_broken_again(CompilerEnv { store, hosts: &snapshot.hosts }))
            }
            None => Arc::clone(&before.stored),
        };
        let hosts = discovered_hosts::kept(&before, &snapshot);
        self.snapshot.store(Arc::new(snapshot.with_stored(stored, keys).with_hosts(hosts)));
        self.jwks.settings_changed();
        self.price_feed.settings_changed();
    }

    /// Puts the hosts of a provider in force that were found, where they are others than before.
    /// `provider`: as it was looked for.
    pub(crate) fn install_hosts(&self, slug: &str, provider: &StoredProvider, hosts: Arc<[DiscoveredHost]>) {
        let _one = self.replacing.lock();
        let before = self.snapshot.load_full();
        let is_same = before.hosts_of.get(slug).map_or(hosts.is_empty(), |before| *before == hosts);
        let now = before.settings.providers.get(slug);
        let is_wanted = now.is_some_and(|now| discovered_hosts::is_found_as(now, provider));
        if is_same || !is_wanted {
            return;
        }
        let names: Vec<&str> = hosts.iter().map(|host| &*host.authority).collect();
        log::info!(target: "turnpike", "provider {slug}: its hosts are {}", names.join(", "));
        let mut lists = (*before.hosts_of).clone();
        lists.insert(slug.to_owned(), hosts);
        self.snapshot.store(Arc::new(before.with_hosts(lists)));
    }

    /// Puts the operator's own prices in force. The catalogue stays.
    pub fn install_overlay(&self, overlay: Overlay) {
        let overlay = Arc::new(overlay);
        self.prices.rcu(|book| book.with_overlay(Arc::clone(&overlay)));
    }

    /// `before` with the objects of a catalog that is not in force, for the checks of changes that are written later. `has_new_keys`:
    /// whether service keys differ as well.
    pub fn preview(
        &self,
        before: &SettingsSnapshot,
        catalog: &Arc<Catalog>,
        has_new_keys: bool,
    ) -> SettingsSnapshot {
        let Some(store) = &self.store else { return before.clone() };
        let env = CompilerEnv { store, hosts: &before.hosts };
        let stored = Arc::new(before.stored.update(catalog, env, Timestamp::now()));
        if !has_new_keys {
            return SettingsSnapshot { stored, ..before.clone() };
        }
        let (keys, _) = before.service_keys.stored().with(catalog);
        before.with_stored(stored, Arc::new(keys))
    }

    /// Makes the stored objects available to requests: everything that the store has when this is called. Calls at the same time share
    /// the work: one takes all changes, and the others, which waited for it, have nothing left to do.
    pub fn install_stored(&self) {
        let Some(store) = &self.store else { return };
        let _one = self.replacing.lock();
        let before = self.snapshot.load_full();
        let catalog = store.catalog();
        let now = Timestamp::now();
        if Arc::ptr_eq(&catalog, before.stored.catalog()) && !before.stored.has_expired(now) {
            return;
        }
        let env = CompilerEnv { store, hosts: &before.hosts };
        let stored = before.stored.update(&catalog, env, now);
        let before_keys = before.service_keys.stored();
        let before_keys = match store.pepper().filter(|_| !before_keys.has_pepper()) {
            Some(pepper) => Arc::new(StoredKeys::new(Some(KeyHash::new(pepper.as_bytes())))),
            None => Arc::clone(before_keys),
        };
        let (keys, unreadable) = before_keys.with(&catalog);
        if !unreadable.is_empty() {
            log::warn!(target: "turnpike", "{} stored service keys cannot be read and are unknown", unreadable.len());
        }
        self.snapshot.store(Arc::new(before.with_stored(Arc::new(stored), Arc::new(keys))));
    }
}

/// `limits.max_held_bytes`, or its default.
fn max_held_bytes(snapshot: &SettingsSnapshot, system: &SystemLimits) -> usize {
    snapshot.settings.limits.max_held_bytes.unwrap_or_else(|| system.max_held_bytes())
}
