//! The settings in force, with what is worked out of them once: service keys by digest, host rules.
//!
//! Replaced as a whole by a reload; never changed in place.

use crate::config::secret::Secret;
use crate::net::outbound::custom_host::HostRules;
use crate::settings::Settings;
use http::HeaderName;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Up to this many keys are cheaper to compare than to digest.
const MAX_COMPARED_KEYS: usize = 8;

/// One generation of settings.
#[derive(Debug)]
pub struct SettingsSnapshot {
    pub settings: Settings,
    pub hosts: HostRules,
    /// Counts reloads; part of the key of everything compiled under these settings.
    pub generation: u64,
    /// Where a service key may stand, one name per accepted prefix.
    pub key_headers: Vec<HeaderName>,
    /// Where a trace id may stand.
    pub trace_headers: Vec<HeaderName>,
    /// Names by the digest of the key: looking a key up never compares it with another byte by byte.
    keys: HashMap<[u8; 32], Arc<str>>,
    /// All keys, when there are few; empty otherwise.
    compared_keys: Vec<(Secret, Arc<str>)>,
}

impl SettingsSnapshot {
    pub fn new(settings: Settings, generation: u64) -> Self {
        let keys = settings
            .service_keys
            .iter()
            .map(|key| (key_digest(key.key.expose()), Arc::from(key.name.as_str())))
            .collect();
        let compared_keys = match settings.service_keys.len() {
            0..=MAX_COMPARED_KEYS => settings
                .service_keys
                .iter()
                .map(|key| (key.key.clone(), Arc::from(key.name.as_str())))
                .collect(),
            _ => Vec::new(),
        };
        let hosts = HostRules::new(&settings.custom_hosts);
        Self {
            key_headers: prefixed(&settings, "api-key"),
            trace_headers: prefixed(&settings, "trace-id"),
            settings,
            hosts,
            generation,
            keys,
            compared_keys,
        }
    }

    /// Whether callers must show a service key.
    pub fn requires_key(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The name of a service key. Few keys are each compared in constant time; many are found by digest, so
    /// that the time does not grow with them.
    pub fn key_name(&self, key: &str) -> Option<Arc<str>> {
        if self.compared_keys.len() == self.keys.len() {
            let matches =
                |entry: &&(Secret, Arc<str>)| bool::from(entry.0.expose().as_bytes().ct_eq(key.as_bytes()));
            return self.compared_keys.iter().find(matches).map(|(_, name)| Arc::clone(name));
        }
        self.keys.get(&key_digest(key)).cloned()
    }
}

fn prefixed(settings: &Settings, suffix: &str) -> Vec<HeaderName> {
    let names = settings.header_prefixes.iter().map(|prefix| format!("{prefix}{suffix}"));
    names.filter_map(|name| HeaderName::try_from(name).ok()).collect()
}

fn key_digest(key: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
    bytes
}
