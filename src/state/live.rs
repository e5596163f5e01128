//! The settings in force, with what is worked out of them once: service keys by digest, host rules.
//!
//! Replaced as a whole by a reload; never changed in place.

use crate::config::secret::Secret;
use crate::net::custom_host::HostRules;
use crate::settings::Settings;
use http::HeaderName;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Up to this many keys are cheaper to compare than to digest.
const FEW: usize = 8;

/// One generation of settings.
#[derive(Debug)]
pub struct Live {
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
    few: Vec<(Secret, Arc<str>)>,
}

impl Live {
    pub fn new(settings: Settings, generation: u64) -> Self {
        let keys = settings
            .service_keys
            .iter()
            .map(|key| (digest_of(key.key.expose()), Arc::from(key.name.as_str())))
            .collect();
        let few = match settings.service_keys.len() {
            0..=FEW => settings
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
            few,
        }
    }

    /// Whether callers must show a service key.
    pub fn wants_key(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The name of a service key. Few keys are each compared in constant time; many are found by digest, so
    /// that the time does not grow with them.
    pub fn key_name(&self, key: &str) -> Option<Arc<str>> {
        if self.few.len() == self.keys.len() {
            let same =
                |known: &&(Secret, Arc<str>)| bool::from(known.0.expose().as_bytes().ct_eq(key.as_bytes()));
            return self.few.iter().find(same).map(|(_, name)| Arc::clone(name));
        }
        self.keys.get(&digest_of(key)).cloned()
    }
}

fn prefixed(settings: &Settings, word: &str) -> Vec<HeaderName> {
    let names = settings.header_prefixes.iter().map(|prefix| format!("{prefix}{word}"));
    names.filter_map(|name| HeaderName::try_from(name).ok()).collect()
}

fn digest_of(key: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, key.as_bytes()).as_ref());
    bytes
}
