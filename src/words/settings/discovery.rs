//! `providers.<slug>.discover`: where the hosts of a provider of one's own are found, which come and go. Providers of the settings have it.
//!
//! Not here: finding them (`memory::state::discovered_hosts`), and the choice among them (`route`).

use super::values::is_host_name;
use crate::config::balance::BalanceBy;
use crate::config::members::{Choice, FILE, Form, MemberTable, Time, form, non_empty};
use crate::json::schema;
use std::path::PathBuf;
use std::time::Duration;

/// Where hosts are found, how often it is looked, and how one of them is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    pub source: HostSource,
    pub interval: Duration,
    /// `strategy.by` among the hosts, where the provider is no member of a load balance.
    pub by: BalanceBy,
}

/// What names the hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostSource {
    /// All addresses of a name.
    Dns(String),
    /// The targets of a service's records (RFC 2782), with their ports and weights.
    Srv(String),
    /// A file: lines, or a JSON list.
    File(PathBuf),
}

const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
const INTERVAL: Time = Time::new(1, 500, 3_600_000);
const ONE_SOURCE: &str = "give one of dns, srv and file";

const NAME: Form<String> = form(
    |at| {
        let name = non_empty(at)?;
        if !is_host_name(name) {
            at.problem("must be a name in DNS, such as engines.internal");
        }
        Some(name.to_owned())
    },
    |doc| {
        schema::pattern(
            doc,
            "^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\\.?$",
            &["engines.internal"],
        )
    },
);

impl Discovery {
    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let dns = "A name: each of its addresses is a host, with the port of custom_host.";
        let srv = "A name with SRV records: each is a host with its port and weight; of several priorities the first counts.";
        let file = "A file: a HOST or HOST:PORT in each line, or a JSON list of them, or of objects with targets as Prometheus has them.";
        let interval = "Milliseconds from one look to the next. Default: 10000.";
        let by = "How one of the hosts is chosen, as strategy.by; in a load balance its own counts. Default: least_busy.";
        let dns = table.get("dns", NAME, dns);
        let srv = table.get("srv", NAME, srv);
        let file = table.get("file", FILE, file);
        let interval = table.get("interval_ms", INTERVAL, interval);
        let by = table.get("by", Choice(&BalanceBy::VARIANTS), by).unwrap_or(BalanceBy::LeastBusy);
        let given: Vec<&str> =
            ["dns", "srv", "file"].into_iter().filter(|name| table.at(*name).is_some()).collect();
        match given.as_slice() {
            [] => table.missing("dns", "is required, or srv or file"),
            [_] => {}
            [_, second, ..] => table.problem(*second, ONE_SOURCE),
        }
        let source = dns.map(HostSource::Dns).or(srv.map(HostSource::Srv)).or(file.map(HostSource::File))?;
        Some(Self { source, interval: interval.unwrap_or(DEFAULT_INTERVAL), by })
    }
}
