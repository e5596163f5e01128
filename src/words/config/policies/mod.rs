//! What targets inherit from the levels above them, as one struct from the config to the target.
//!
//! Each inherited key is one file: how it is read, how it is inherited, what `explain` shows of it. Adding one: the
//! file, and here its module, its field and its place in `KEYS`. Not here: keys that hold for one level only (`name`,
//! `provider`, `weight`, `strategy` ...), and what the values do at run time (`route`, `engine`).
//!
//! The code that needs a key reads `target.policies`: config, stored provider, settings, headers and target all hold the same
//! struct, and everything is merged when the config is compiled, nothing for each request. A key needs a row of `VALUES` in the
//! tests, without which a test fails.

mod breaker;
mod cache;
mod custom_host;
pub mod forward_headers;
mod hook_lists;
pub mod override_params;
mod request_timeout;
mod retry;
mod stream_rescue;
mod strict_std_compliance;
pub mod time_limits;

pub use breaker::BreakerPolicy;
pub use cache::{Cache, CacheMode, Replay};
pub use hook_lists::HookLists;
pub use retry::{DEFAULT_STATUSES, RetryPolicy};
pub use stream_rescue::StreamRescue;
pub use time_limits::TimeLimits;

use super::headers::GatewayHeaders;
use super::read::ObjectReader;
use http::HeaderName;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// What a target inherits. `None` and empty: the level does not say; once compiled, nothing above it does either.
#[derive(Clone, Default, PartialEq)]
pub struct Policies {
    pub breaker: Option<BreakerPolicy>,
    pub cache: Option<Cache>,
    /// Base URL that replaces the provider's own, as written.
    pub custom_host: Option<String>,
    /// Request headers to forward to the provider unchanged. The forwarding code must still leave out the
    /// gateway's own headers and those that frame the message.
    pub forward_headers: Option<Vec<HeaderName>>,
    pub request_hooks: HookLists,
    pub response_hooks: HookLists,
    /// Members to set in the body, in the order written: name and JSON text.
    pub override_params: Vec<(String, Box<str>)>,
    /// Until the response header.
    pub request_timeout: Option<Duration>,
    pub retry: Option<RetryPolicy>,
    pub stream_rescue: Option<StreamRescue>,
    pub strict_std_compliance: Option<bool>,
    pub time_limits: TimeLimits,
}

/// The inherited keys, in the order in which their problems are reported and their values described.
const KEYS: &[PolicyKey] = &[
    retry::KEY,
    breaker::KEY,
    cache::KEY,
    request_timeout::KEY,
    time_limits::KEY,
    stream_rescue::KEY,
    forward_headers::KEY,
    strict_std_compliance::KEY,
    override_params::KEY,
    custom_host::KEY,
    hook_lists::REQUEST,
    hook_lists::RESPONSE,
];

/// One inherited key, or a few that are inherited together.
struct PolicyKey {
    /// Its names in a config, aliases included.
    names: &'static [&'static str],
    /// Reads it from one level of a config.
    read: fn(&mut Policies, &mut ObjectReader<'_>),
    /// Reads it from request headers, where there is a header for it.
    read_headers: Option<fn(&mut Policies, &GatewayHeaders<'_>)>,
    /// Takes from the level above (the second argument) what the level itself leaves open.
    inherit: fn(&mut Policies, &Policies),
    /// Its name and value in an explanation, defaults filled in; nothing that may be secret.
    describe: Option<Describe>,
}

type Describe = fn(&Policies, &DescribeContext) -> (&'static str, Value);

/// What a description depends on besides the policies.
#[derive(Debug, Clone, Copy)]
pub struct DescribeContext {
    /// The settings' timeout for a connection.
    pub connect_timeout: Duration,
    /// The state of the target's circuit.
    pub circuit: &'static str,
}

impl Policies {
    /// Reads one level of a config.
    pub(super) fn read(fields: &mut ObjectReader<'_>) -> Self {
        let mut policies = Self::default();
        for key in KEYS {
            (key.read)(&mut policies, fields);
        }
        policies
    }

    /// What request headers say; headers take precedence over every level of a config.
    pub fn from_headers(headers: &GatewayHeaders<'_>) -> Self {
        let mut policies = Self::default();
        for read_headers in KEYS.iter().filter_map(|key| key.read_headers) {
            read_headers(&mut policies, headers);
        }
        policies
    }

    /// Takes from the level above what this one leaves open.
    pub fn inherit(&mut self, above: &Self) {
        for key in KEYS {
            (key.inherit)(self, above);
        }
    }

    /// Names and values for an explanation, defaults filled in.
    pub fn describe(&self, context: &DescribeContext) -> Vec<(&'static str, Value)> {
        KEYS.iter().filter_map(|key| key.describe).map(|describe| describe(self, context)).collect()
    }

    /// Names of all inherited keys in a config.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        KEYS.iter().flat_map(|key| key.names.iter().copied())
    }
}

/// The level's own value, or else that of the level above.
fn inherit_value<T: Clone>(own: &mut Option<T>, above: &Option<T>) {
    if own.is_none() {
        own.clone_from(above);
    }
}

/// A time in whole milliseconds.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Leaves out hosts, parameters and hooks: they may hold secrets.
impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies")
            .field("retry", &self.retry)
            .field("breaker", &self.breaker)
            .field("request_timeout", &self.request_timeout)
            .field("time_limits", &self.time_limits)
            .field("stream_rescue", &self.stream_rescue)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
