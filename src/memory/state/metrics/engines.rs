//! The metric families of model servers whose load is read (`engine` of a stored provider), and of hosts that are found (`discover`).
//!
//! The gauges are set at each scrape from the readings. Not the places at them (`places`).

use super::super::discovered_hosts::HostLists;
use super::super::engine_loads::EngineView;
use super::families::{add, counters};
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts, Registry};
use std::collections::BTreeMap;

/// `turnpike_engine_*`, `turnpike_provider_hosts`.
pub(super) struct Engines {
    requests: IntGaugeVec,
    cache_use: GaugeVec,
    reads: IntCounterVec,
    hosts: IntGaugeVec,
}

impl Engines {
    pub fn new(r: &Registry) -> prometheus::Result<Self> {
        let requests = "Requests in a model server, by its own word: running or waiting.";
        let cache_use = "How full the cache of keys and values of a model server is, 0 to 1.";
        let reads = "Times that the metrics of a model server were read: ok or failed.";
        let requests =
            IntGaugeVec::new(Opts::new("turnpike_engine_requests", requests), &["provider", "state"])?;
        let cache_use = GaugeVec::new(Opts::new("turnpike_engine_cache_use", cache_use), &["provider"])?;
        let hosts = "Hosts of a provider that were found (discover).";
        let hosts = IntGaugeVec::new(Opts::new("turnpike_provider_hosts", hosts), &["provider"])?;
        Ok(Self {
            hosts: add(r, hosts)?,
            requests: add(r, requests)?,
            cache_use: add(r, cache_use)?,
            reads: counters(r, "turnpike_engine_reads_total", reads, &["provider", "result"])?,
        })
    }

    /// Sets the gauges to what is now: of servers of one name the sums, and the fuller cache.
    pub fn set(&self, views: &[EngineView]) {
        let mut sums: BTreeMap<&str, (i64, i64, Option<f64>)> = BTreeMap::new();
        for EngineView { slug, reading } in views {
            let (running, waiting, cache_use) = sums.entry(slug).or_default();
            *running = running.saturating_add(reading.running.into());
            *waiting = waiting.saturating_add(reading.waiting.into());
            *cache_use = reading.cache_use.into_iter().chain(*cache_use).reduce(f64::max);
        }
        self.requests.reset();
        self.cache_use.reset();
        for (provider, (running, waiting, cache_use)) in sums {
            self.requests.with_label_values(&[provider, "running"]).set(running);
            self.requests.with_label_values(&[provider, "waiting"]).set(waiting);
            if let Some(share) = cache_use {
                self.cache_use.with_label_values(&[provider]).set(share);
            }
        }
    }

    pub fn set_hosts(&self, lists: &HostLists) {
        self.hosts.reset();
        for (provider, hosts) in lists {
            self.hosts.with_label_values(&[provider]).set(hosts.len() as i64);
        }
    }

    /// Forgets what was counted of a provider that there is no more.
    pub fn forget(&self, provider: &str) {
        for result in ["ok", "failed"] {
            // There may be none.
            let _ = self.reads.remove_label_values(&[provider, result]);
        }
    }

    pub fn was_read(&self, provider: &str, is_read: bool) {
        let result = if is_read { "ok" } else { "failed" };
        self.reads.with_label_values(&[provider, result]).inc();
    }
}
