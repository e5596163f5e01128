//! What a target takes over from the levels above it (reference 4.2).
//!
//! Provider, keys, weight, name and strategy are never inherited. Not the making of the target (`compile`).

use crate::config::Config;
use crate::config::headers::GatewayHeaders;
use crate::config::policy::{Breaker, Retry};
use crate::config::rescue::StreamRescue;
use crate::config::time_limits::TimeLimits;
use crate::state::targets::BreakerPolicy;
use http::HeaderName;
use std::time::Duration;

/// What a target takes over from the levels above it.
#[derive(Default, Clone)]
pub(super) struct Policies {
    pub override_params: Vec<(String, Box<str>)>,
    pub custom_host: Option<String>,
    pub forward_headers: Option<Vec<HeaderName>>,
    pub request_timeout: Option<u64>,
    pub strict: Option<bool>,
    pub retry: Option<Retry>,
    pub breaker: Option<Breaker>,
    pub time_limits: TimeLimits,
    pub rescue: Option<StreamRescue>,
}

impl Policies {
    /// What reaches the targets of `config`, or itself when it is one (reference 4.2).
    pub fn inherit(&self, config: &Config) -> Self {
        let mut policies = self.clone();
        for (name, value) in &config.override_params {
            policies.override_params.retain(|(key, _)| key != name);
            policies.override_params.push((name.clone(), value.clone()));
        }
        take(&mut policies.custom_host, &config.account.custom_host);
        take(&mut policies.forward_headers, &config.forward_headers);
        take(&mut policies.request_timeout, &config.request_timeout);
        take(&mut policies.strict, &config.strict_std_compliance);
        take(&mut policies.retry, &config.retry);
        take(&mut policies.rescue, &config.stream_rescue);
        policies.time_limits = config.time_limits.or(self.time_limits);
        // Clients of the reference write it inside the strategy.
        let breaker = config.strategy.as_ref().and_then(|strategy| strategy.cb_config.as_ref());
        take(&mut policies.breaker, &breaker.or(config.cb_config.as_ref()).cloned());
        policies
    }

    /// The rules of the target's circuit breaker.
    pub fn breaker(&self) -> Option<BreakerPolicy> {
        self.breaker.as_ref().map(|breaker| BreakerPolicy {
            threshold: breaker.failure_threshold,
            cooldown: Duration::from_millis(breaker.cooldown_ms),
            statuses: breaker.failure_status_codes.clone(),
        })
    }

    /// Headers win over all levels (reference 2.1).
    pub fn with_headers(mut self, gateway_headers: &GatewayHeaders<'_>) -> Self {
        take(&mut self.request_timeout, &gateway_headers.request_timeout);
        take(&mut self.forward_headers, &gateway_headers.forward_headers);
        take(&mut self.strict, &gateway_headers.strict_std_compliance);
        self
    }
}

fn take<T: Clone>(into: &mut Option<T>, from: &Option<T>) {
    if from.is_some() {
        into.clone_from(from);
    }
}
