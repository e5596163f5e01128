//! What a target takes over from the levels above it (reference 4.2).
//!
//! Provider, keys, weight, name and strategy are never inherited. Not the making of the target (`compile`).

use crate::config::Config;
use crate::config::headers::GatewayHeaders;
use crate::config::policy::{Breaker, Retry};
use crate::config::rescue::StreamRescue;
use crate::config::time_limits::TimeLimits;
use crate::state::targets::Rules;
use http::HeaderName;
use std::time::Duration;

/// What a target takes over from the levels above it.
#[derive(Default, Clone)]
pub(super) struct Inherited {
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

impl Inherited {
    /// What reaches the targets of `config`, or itself when it is one (reference 4.2).
    pub fn below(&self, config: &Config) -> Self {
        let mut inherited = self.clone();
        for (name, value) in &config.override_params {
            inherited.override_params.retain(|(known, _)| known != name);
            inherited.override_params.push((name.clone(), value.clone()));
        }
        take(&mut inherited.custom_host, &config.account.custom_host);
        take(&mut inherited.forward_headers, &config.forward_headers);
        take(&mut inherited.request_timeout, &config.request_timeout);
        take(&mut inherited.strict, &config.strict_std_compliance);
        take(&mut inherited.retry, &config.retry);
        take(&mut inherited.rescue, &config.stream_rescue);
        inherited.time_limits = config.time_limits.or(self.time_limits);
        // Clients of the reference write it inside the strategy.
        let breaker = config.strategy.as_ref().and_then(|strategy| strategy.cb_config.as_ref());
        take(&mut inherited.breaker, &breaker.or(config.cb_config.as_ref()).cloned());
        inherited
    }

    /// The rules of the target's circuit breaker.
    pub fn breaker(&self) -> Option<Rules> {
        self.breaker.as_ref().map(|breaker| Rules {
            threshold: breaker.failure_threshold,
            cooldown: Duration::from_millis(breaker.cooldown_ms),
            statuses: breaker.failure_status_codes.clone(),
        })
    }

    /// Headers win over all levels (reference 2.1).
    pub fn under(mut self, asked: &GatewayHeaders<'_>) -> Self {
        take(&mut self.request_timeout, &asked.request_timeout);
        take(&mut self.forward_headers, &asked.forward_headers);
        take(&mut self.strict, &asked.strict_std_compliance);
        self
    }
}

fn take<T: Clone>(into: &mut Option<T>, from: &Option<T>) {
    if from.is_some() {
        into.clone_from(from);
    }
}
