//! A cache of compiled configs, so that repeated requests do not parse their config again.
//!
//! The key is every value of the request that a config is compiled from, and the generation of the settings.
//! Bounded by weight; an entry unused for a minute is dropped, also while no request comes ([`ConfigCache::drop_expired`]).
//! Entries hold credentials for as long as they live.

use super::compile::{Sources, compile};
use super::compiled::CompiledConfig;
use foldhash::quality::RandomState;
use moka::sync::Cache;
use std::sync::Arc;
use std::time::Duration;
use words::error::Error;

/// Capacity in bytes, by the estimate of the weigher below; an inline config is part of its key.
const MAX_BYTES: u64 = 16 << 20;
/// Approximate bytes of one target, in addition to the key.
const TARGET_BYTES: usize = 2048;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The cache of compiled configs.
#[derive(Debug, Clone)]
pub struct ConfigCache {
    cache: Cache<String, Arc<CompiledConfig>, RandomState>,
}

impl Default for ConfigCache {
    fn default() -> Self {
        Self::with_idle_timeout(IDLE_TIMEOUT)
    }
}

impl ConfigCache {
    fn with_idle_timeout(idle_timeout: Duration) -> Self {
        let cache = Cache::builder()
            .max_capacity(MAX_BYTES)
            .weigher(|key: &String, config: &Arc<CompiledConfig>| {
                let bytes = key.len() + TARGET_BYTES * config.targets().len() + config.patterns().bytes;
                u32::try_from(bytes).unwrap_or(u32::MAX)
            })
            .time_to_idle(idle_timeout)
            .build_with_hasher(RandomState::default());
        Self { cache }
    }

    /// Drops the entries whose time is over; otherwise only the next uses of the cache do.
    pub fn drop_expired(&self) {
        self.cache.run_pending_tasks();
    }

    /// The compiled config that was kept under this key ([`Sources::key`]).
    pub fn find(&self, key: Option<&str>) -> Option<Arc<CompiledConfig>> {
        key.and_then(|key| self.cache.get(key))
    }

    /// Compiles the config of `sources` and keeps it under `key`, if there is one.
    ///
    /// # Errors
    /// As [`compile`]. Failures are not kept.
    pub fn compile(&self, sources: &Sources<'_>, key: Option<String>) -> Result<Arc<CompiledConfig>, Error> {
        let config = Arc::new(compile(sources)?);
        if let Some(key) = key {
            self.cache.insert(key, Arc::clone(&config));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::tests::{target, with_headers, with_sources};
    use http::{HeaderMap, HeaderName};
    use words::config::policies::Policies;

    #[test]
    fn an_unused_config_is_dropped_while_no_request_comes() {
        for (idle_timeout, is_dropped) in [(Duration::ZERO, true), (IDLE_TIMEOUT, false)] {
            let cache = ConfigCache::with_idle_timeout(idle_timeout);
            let compile = |sources: &Sources<'_>| cache.compile(sources, Some("key".to_owned())).unwrap();
            let config = Arc::downgrade(&with_sources(&target(""), compile));
            assert_eq!(config.strong_count(), 1, "the cache keeps it");
            // What is removed is freed when no thread, of any test, can be reading the cache any more.
            let ended = (0..1_000_000).any(|turn| {
                cache.drop_expired();
                std::thread::yield_now();
                config.strong_count() == 0 || turn > 1000 && !is_dropped
            });
            assert!(ended, "{idle_timeout:?}");
            assert_eq!(config.strong_count() == 0, is_dropped, "{idle_timeout:?}");
        }
    }

    /// Values of headers of inherited keys: at least two different ones that each of them takes.
    const VALUES: [&str; 10] = ["low", "normal", "1", "2", "true", "false", "x-a", "x-b", "auto", "off"];

    #[test]
    fn requests_that_differ_in_the_header_of_an_inherited_key_have_different_keys() {
        let with = |sent: Option<(&str, &str)>| {
            let mut headers = HeaderMap::new();
            headers.insert("x-gateway-config", target("").parse().unwrap());
            if let Some((name, value)) = sent {
                let name = HeaderName::try_from(format!("x-gateway-{name}")).unwrap();
                headers.insert(name, value.parse().unwrap());
            }
            with_headers(&headers, |sources| {
                let policies = sources.gateway_headers.policies.as_ref();
                let policies = policies.map(|sent| sent.policies().clone()).unwrap_or_default();
                (sources.key(1).unwrap(), policies)
            })
        };
        let mut tested = 0;
        let absent = with(None).unwrap();
        for name in Policies::header_names() {
            let sent = VALUES.iter().filter_map(|value| with(Some((name, value))).ok());
            let all: Vec<(String, Policies)> = std::iter::once(absent.clone()).chain(sent).collect();
            let mut distinct: Vec<&Policies> = Vec::new();
            for (key, policies) in &all {
                if !distinct.contains(&policies) {
                    distinct.push(policies);
                }
                for (other, others) in &all {
                    assert!(policies == others || key != other, "{name}: one key for two values: {key}");
                }
            }
            assert!(distinct.len() > 2, "{name}: VALUES needs two values that it takes");
            tested += 1;
        }
        assert!(tested >= 4, "{tested}");
    }

    #[test]
    fn the_lines_of_one_header_are_not_those_of_another() {
        let key = |lines: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, value.parse().unwrap());
            }
            with_headers(&headers, |sources| sources.key(1).unwrap()).unwrap()
        };
        let forward = "x-gateway-forward-headers";
        let timeout = "x-gateway-request-timeout";
        let keys = [
            key(&[]),
            key(&[(forward, "x-a,x-b")]),
            key(&[(forward, "x-a"), (forward, "x-b")]),
            key(&[(forward, "x-a"), (timeout, "1")]),
            key(&[(timeout, "1")]),
        ];
        for (index, one) in keys.iter().enumerate() {
            assert!(keys.iter().skip(index + 1).all(|other| one != other), "{one}");
        }
        assert_eq!(key(&[(timeout, "1"), (forward, "x-a")]), keys[3], "the order of headers does not matter");
    }
}
