//! The settings in force, with what is worked out of them once: service keys by digest, host rules.
//!
//! Replaced as a whole by a reload; never changed in place.

use crate::auth::ServiceKeys;
use crate::net::outbound::custom_host::HostRules;
use crate::settings::Settings;
use http::HeaderName;

/// One generation of settings.
#[derive(Debug)]
pub struct SettingsSnapshot {
    pub settings: Settings,
    pub hosts: HostRules,
    /// Counts reloads; part of the key of everything compiled under these settings.
    pub generation: u64,
    pub service_keys: ServiceKeys,
    /// Where a trace id may stand.
    pub trace_headers: Vec<HeaderName>,
}

impl SettingsSnapshot {
    pub fn new(settings: Settings, generation: u64) -> Self {
        Self {
            hosts: HostRules::new(&settings.custom_hosts),
            service_keys: ServiceKeys::new(&settings),
            trace_headers: settings.prefixed_headers("trace-id"),
            settings,
            generation,
        }
    }
}
