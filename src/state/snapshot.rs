//! One loaded generation of the settings, with what is computed from them once: service keys by digest, host rules.
//!
//! A reload replaces it as a whole; it is never changed in place.

use crate::auth::{ServiceKeys, Tokens};
use crate::config::reply_headers::ReplyHeaders;
use crate::net::outbound::custom_host::HostRules;
use crate::settings::Settings;
use http::HeaderName;
use std::sync::Arc;

/// One generation of settings.
#[derive(Debug)]
pub struct SettingsSnapshot {
    pub settings: Settings,
    pub hosts: HostRules,
    /// Counts reloads; part of the key of everything compiled under these settings.
    pub generation: u64,
    pub service_keys: ServiceKeys,
    /// The headers that may carry a trace id.
    pub trace_headers: Vec<HeaderName>,
    /// The names of response headers under further prefixes.
    pub reply_headers: ReplyHeaders,
}

impl SettingsSnapshot {
    pub fn new(settings: Settings, generation: u64) -> Self {
        Self {
            hosts: HostRules::new(&settings.custom_hosts),
            service_keys: ServiceKeys::new(&settings, Arc::default(), tokens(&settings)),
            trace_headers: settings.prefixed_headers("trace-id"),
            reply_headers: ReplyHeaders::new(&settings.header_prefixes),
            settings,
            generation,
        }
    }
}

/// What verifies tokens under these settings; its keys are set by `jwks`.
fn tokens(settings: &Settings) -> Option<Arc<Tokens>> {
    settings.auth.jwt.clone().map(|jwt| Arc::new(Tokens::new(jwt)))
}
