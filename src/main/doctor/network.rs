//! The hosts of the providers of the settings: whether their names have addresses and, where wanted, whether a connection is accepted.
//!
//! Names are resolved as the gateway does, and connections take its proxies. Nothing is sent. Not the providers of the store.

use super::finding::Finding;
use knowledge::provider;
use memory::net::outbound::dns::Dns;
use memory::net::outbound::origin::Origin;
use memory::state::snapshot::SettingsSnapshot;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use words::settings::Settings;

/// For a name to be resolved.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// A host that is called, by its own name or through a proxy.
struct Called {
    origin: Origin,
    /// The name of the proxy that is called in its place.
    proxy: Option<String>,
    /// The stored providers that have it.
    slugs: Vec<String>,
}

/// A finding for each host of the stored providers.
pub async fn providers(settings: &Settings, connect: bool) -> Vec<Finding> {
    let snapshot = SettingsSnapshot::new(settings.clone(), 0);
    let mut found = Vec::new();
    let hosts = hosts(settings, &snapshot, &mut found);
    let dns = Dns::system();
    for called in hosts.values() {
        found.push(host(called, &dns, &snapshot, connect).await);
    }
    found
}

/// The hosts by address. One whose address this shell does not know is reported.
fn hosts(
    settings: &Settings,
    snapshot: &SettingsSnapshot,
    found: &mut Vec<Finding>,
) -> BTreeMap<String, Called> {
    let mut hosts: BTreeMap<String, Called> = BTreeMap::new();
    for (slug, stored) in &settings.providers {
        let Some(vendor) = provider::find(&stored.provider) else { continue };
        let base = match &stored.account.custom_host {
            Some(host) => Ok(host.clone()),
            None => vendor.base_url(&stored.account).map(|base| base.into_owned()).map_err(|why| why.message),
        };
        let origin = match base.and_then(|base| Origin::parse(&base, true)) {
            Ok(origin) => origin,
            Err(why) => {
                let text = format!("the address of @{slug} is not seen from here: {why}");
                found.push(Finding::warn(
                    "provider",
                    text,
                    "call it with the variables and credentials of the service",
                ));
                continue;
            }
        };
        let proxies = &snapshot.hosts.outbound.proxies;
        let proxy = proxies.for_origin(&origin, stored.policies.proxy.as_ref());
        let (origin, proxy) = match proxy {
            Some(proxy) => (proxy.origin.clone(), Some(proxy.name().to_owned())),
            None => (origin, None),
        };
        let key = format!("{} {}", origin.authority(), proxy.is_some());
        let called = hosts.entry(key).or_insert_with(|| Called { origin, proxy, slugs: Vec::new() });
        called.slugs.push(format!("@{slug}"));
    }
    hosts
}

async fn host(called: &Called, dns: &Dns, snapshot: &SettingsSnapshot, connect: bool) -> Finding {
    const CHECK: &str = "provider";
    let origin = &called.origin;
    let whose = called.slugs.join(", ");
    let what = match &called.proxy {
        Some(proxy) => format!("proxy {proxy} of {whose}"),
        None => format!("{} of {whose}", origin.authority()),
    };
    let todo = "look at the DNS and the routes of this machine (resolvectl query HOST), and at outbound in the settings";
    let addresses = match timeout(LOOKUP_TIMEOUT, dns.addresses(origin, &snapshot.hosts)).await {
        Ok(Ok(addresses)) => addresses,
        Ok(Err(why)) => return Finding::fail(CHECK, format!("{what}: {why}"), todo),
        Err(_) => {
            let text = format!("{what}: no answer of the DNS within {} s", LOOKUP_TIMEOUT.as_secs());
            return Finding::fail(CHECK, text, todo);
        }
    };
    let shown: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
    if !connect {
        return Finding::ok(CHECK, format!("{what} has the addresses {}", shown.join(" ")));
    }
    let limit = snapshot.settings.limits.connect_timeout;
    let mut last = String::new();
    for address in addresses.iter() {
        last = match timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(_)) => return Finding::ok(CHECK, format!("{what} accepts connections at {address}")),
            Ok(Err(why)) => format!("{address}: {why}"),
            Err(_) => format!("{address}: no connection within {} ms", limit.as_millis()),
        };
    }
    Finding::fail(CHECK, format!("{what} accepts no connection ({last})"), todo)
}
