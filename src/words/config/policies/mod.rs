//! What targets inherit from the levels above them, as one struct from the config to the target.
//!
//! Each inherited key is one file: its members in a config and in a stored provider, its header, how it is inherited, and what `explain` shows.
//! Adding one: the file, its module and its line in `inherited!` here, a row of `VALUES` in the tests. [`from_headers`] sees to it that the
//! cache of compiled configs tells requests with different headers apart. Not here: keys of one level only (`name`, `weight` ...), and
//! what the values do at run time (`route`, `engine`), which reads `target.policies`: merged when the config is compiled.

mod breaker;
mod cache;
mod client_certificate;
mod concurrency;
mod custom_host;
mod default_params;
mod drop_params;
mod engine;
mod forward_headers;
mod from_headers;
mod hook_lists;
mod mcp_tools;
mod override_params;
mod policy_key;
mod priority;
mod prompt_cache;
mod proxy;
mod request_timeout;
mod retry;
mod stream_rescue;
mod strict_std_compliance;
pub mod time_limits;

pub use breaker::BreakerPolicy;
pub use cache::{Cache, CacheMode, Replay};
pub use client_certificate::CertificateFiles;
pub use concurrency::{Concurrency, MaxSlots, SlotPolicy};
pub use engine::EnginePolicy;
pub use from_headers::HeaderPolicies;
pub(super) use from_headers::RawPolicyHeaders;
pub use hook_lists::HookLists;
pub use mcp_tools::McpToolCaller;
pub use priority::Priority;
pub(crate) use priority::VARIANTS as PRIORITIES;
pub use prompt_cache::{MarkMode, MarkTtl, PromptCachePolicy, TtlRule};
pub use retry::{DEFAULT_STATUSES, RetryPolicy};
pub use stream_rescue::StreamRescue;
pub use time_limits::TimeLimits;

use super::members::MemberTable;
use super::proxy_url::ProxyChoice;
use crate::json::path::JsonPath;
use http::HeaderName;
use policy_key::PolicyKey;
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use time_limits::millis;

/// The struct of all inherited keys, and the table of them: a line is a field, and what is done with it.
macro_rules! inherited {
    ($($(#[$doc:meta])* $field:ident: $of:ty = $key:path,)*) => {
        /// What a target inherits. `None` and empty: the level does not say; once compiled, nothing above it does either.
        #[derive(Clone, Default, PartialEq)]
        pub struct Policies {
            $($(#[$doc])* pub $field: $of,)*
        }

        /// The inherited keys, in the order in which their problems are reported and their values described.
        const KEYS: &[PolicyKey] = &[$($key,)*];
    };
}

inherited! {
    retry: Option<RetryPolicy> = retry::KEY,
    breaker: Option<BreakerPolicy> = breaker::KEY,
    cache: Option<Cache> = cache::KEY,
    prompt_cache: Option<PromptCachePolicy> = prompt_cache::KEY,
    mcp_tools: Option<McpToolCaller> = mcp_tools::KEY,
    request_timeout: Option<Duration> = request_timeout::KEY,
    time_limits: TimeLimits = time_limits::KEY,
    stream_rescue: Option<StreamRescue> = stream_rescue::KEY,
    concurrency: Concurrency = concurrency::KEY,
    priority: Option<Priority> = priority::KEY,
    /// Request headers to forward unchanged, without the gateway's own and those that frame the message.
    forward_headers: Option<Vec<HeaderName>> = forward_headers::KEY,
    strict_std_compliance: Option<bool> = strict_std_compliance::KEY,
    default_params: Vec<(String, Box<str>)> = default_params::KEY,
    /// Members to set in the body, in the order written: name and JSON text.
    override_params: Vec<(String, Box<str>)> = override_params::KEY,
    drop_params: Option<Vec<JsonPath>> = drop_params::KEY,
    /// Base URL that replaces the provider's own, as written.
    custom_host: Option<String> = custom_host::KEY,
    /// Of the stored provider in the settings file, as the next one: no config has it.
    proxy: Option<ProxyChoice> = proxy::KEY,
    client_certificate: Option<Arc<CertificateFiles>> = client_certificate::KEY,
    /// Of the stored provider: no config has it.
    engine: Option<EnginePolicy> = engine::KEY,
    request_hooks: HookLists = hook_lists::REQUEST,
    response_hooks: HookLists = hook_lists::RESPONSE,
}

/// What a description depends on besides the policies.
#[derive(Debug, Clone, Copy)]
pub struct DescribeContext {
    /// The settings' timeout for a connection.
    pub connect_timeout: Duration,
    /// The state of the target's circuit.
    pub circuit: &'static str,
}

impl Policies {
    /// Adds them to the members of one level of a config.
    pub(super) fn members(table: &mut MemberTable<'_>) -> Self {
        let mut policies = Self::default();
        for key in KEYS {
            (key.members)(&mut policies, table);
        }
        policies
    }

    /// Adds those of them that a stored provider may have to its members.
    pub(crate) fn members_in_provider(table: &mut MemberTable<'_>) -> Self {
        let mut policies = Self::default();
        for members in KEYS.iter().filter_map(|key| key.in_provider) {
            members(&mut policies, table);
        }
        policies
    }

    /// Names of those of which a config may consist.
    pub(super) fn enough_names() -> impl Iterator<Item = &'static str> {
        KEYS.iter().flat_map(|key| key.enough.iter().copied())
    }

    /// The definitions that their schemas refer to.
    pub(super) fn definitions() -> impl Iterator<Item = (&'static str, Value)> {
        KEYS.iter().flat_map(|key| key.definitions.iter().map(|(name, schema)| (*name, schema())))
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
}

/// The level's own value, or else that of the level above.
fn inherit_value<T: Clone>(own: &mut Option<T>, above: &Option<T>) {
    if own.is_none() {
        own.clone_from(above);
    }
}

/// Leaves out hosts, parameters and hooks: they may hold secrets.
impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies")
            .field("retry", &self.retry)
            .field("breaker", &self.breaker)
            .field("request_timeout", &self.request_timeout)
            .field("time_limits", &self.time_limits)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
