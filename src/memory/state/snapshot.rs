//! One loaded generation of the settings, with what is computed from them once: service keys by digest, host rules.
//!
//! A reload replaces it as a whole; it is never changed in place.

use super::directory::Directory;
use super::discovered_hosts::HostLists;
use super::stored::Stored;
use crate::auth::{ServiceKeys, StoredKeys, Tokens};
use crate::net::outbound::custom_host::HostRules;
#[cfg(test)]
use crate::store::Catalog;
use http::HeaderName;
use std::sync::Arc;
use uuid::Uuid;
use words::config::reply_headers::ReplyHeaders;
use words::settings::Settings;

/// One generation of settings.
#[derive(Debug, Clone)]
pub struct SettingsSnapshot {
    pub settings: Arc<Settings>,
    pub hosts: Arc<HostRules>,
    /// The objects of the store.
    pub stored: Arc<Stored>,
    /// The hosts of providers that were found (`discover`).
    pub hosts_of: Arc<HostLists>,
    /// Counts how often they were others.
    pub(super) hosts_generation: u64,
    /// Counts reloads; part of [`SettingsSnapshot::routing_generation`].
    pub generation: u64,
    pub service_keys: Arc<ServiceKeys>,
    /// The headers that may carry a trace id.
    pub trace_headers: Vec<HeaderName>,
    /// The names of response headers under further prefixes.
    pub reply_headers: ReplyHeaders,
}

impl SettingsSnapshot {
    pub fn new(settings: Settings, generation: u64) -> Self {
        Self {
            hosts: Arc::new(HostRules::of(&settings)),
            stored: Arc::default(),
            hosts_of: Arc::default(),
            hosts_generation: 0,
            service_keys: Arc::new(ServiceKeys::new(&settings, Arc::default(), tokens(&settings))),
            trace_headers: settings.prefixed_headers("trace-id"),
            reply_headers: ReplyHeaders::new(&settings.header_prefixes),
            settings: Arc::new(settings),
            generation,
        }
    }

    /// This snapshot with other stored objects and keys.
    #[must_use]
    pub(crate) fn with_stored(&self, stored: Arc<Stored>, keys: Arc<StoredKeys>) -> Self {
        let tokens = self.service_keys.tokens().cloned();
        let service_keys = ServiceKeys::new(&self.settings, keys, tokens);
        Self { service_keys: Arc::new(service_keys), stored, ..self.clone() }
    }

    /// This snapshot with other hosts of providers.
    #[must_use]
    pub(crate) fn with_hosts(&self, hosts_of: HostLists) -> Self {
        let hosts_generation = self.hosts_generation + 1;
        Self { hosts_of: Arc::new(hosts_of), hosts_generation, ..self.clone() }
    }

    /// This snapshot with these records, of which nothing is compiled.
    #[cfg(test)]
    pub(crate) fn with_catalog(&self, catalog: Arc<Catalog>) -> Self {
        Self { stored: Arc::new(Stored::of_catalog(catalog)), ..self.clone() }
    }

    /// The providers and configs that a client of `workspace` may name.
    pub fn directory(&self, workspace: Option<Uuid>) -> Directory<'_> {
        Directory { settings: &self.settings, stored: &self.stored, hosts_of: &self.hosts_of, workspace }
    }

    /// Differs from that of every other snapshot under which a config may compile to something else.
    pub fn routing_generation(&self) -> u64 {
        // 2^16 reloads and 2^20 other hosts of providers between two equal ones.
        (self.generation << 48) | ((self.hosts_generation & 0xf_ffff) << 28) | self.stored.routing_generation
    }
}

/// What verifies tokens under these settings; its keys are set by `jwks`.
fn tokens(settings: &Settings) -> Option<Arc<Tokens>> {
    settings.auth.jwt.clone().map(|jwt| Arc::new(Tokens::new(jwt)))
}
