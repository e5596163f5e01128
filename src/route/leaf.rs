//! A target ready to be called: provider, account and address decided, nothing optional left open.
//!
//! Made once per config by `tree`, used by every attempt at it.

use crate::config::account::Account;
use crate::net::origin::Origin;
use crate::provider::Provider;
use http::HeaderName;
use std::time::Duration;

/// One callable target.
#[derive(Debug)]
pub struct Leaf {
    /// Where it stands in the config: `config`, `config.targets[1]` (reference 4.3).
    pub index: String,
    pub provider: &'static dyn Provider,
    /// The stored provider it was named by, without the `@`.
    pub slug: Option<String>,
    pub account: Account,
    pub origin: Origin,
    /// Names and JSON values merged over the caller's body.
    pub override_params: Vec<(String, Box<str>)>,
    /// Caller headers that reach the provider whatever they are.
    pub forward_headers: Vec<HeaderName>,
    /// Bounds the time to the answer's head.
    pub request_timeout: Option<Duration>,
}

impl Leaf {
    /// What to call the provider in a message to the caller. An operator's address is not told.
    pub fn spoken(&self) -> String {
        match &self.slug {
            Some(slug) => format!("@{slug}"),
            None => format!("{} at {}", self.provider.id(), self.origin.authority()),
        }
    }

    /// The model `override_params` asks for, when it is a plain string.
    pub fn model(&self) -> Option<&str> {
        let (_, value) = self.override_params.iter().find(|(name, _)| name == "model")?;
        value.strip_prefix('"')?.strip_suffix('"').filter(|text| !text.contains('\\'))
    }
}
