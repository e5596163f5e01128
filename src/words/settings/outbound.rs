//! `outbound`: how the gateway's own connections leave the machine: by which proxy, from which address, over which IP.
//!
//! The usual variables of the environment name proxies where the file does not. Not here: connecting (`net`), and the proxy of one
//! provider (`policies::proxy`).

use super::allow_rule::AllowRule;
use crate::config::members::{Choice, Form, MemberTable, form, list};
use crate::config::node::NodeKind;
use crate::config::proxy_url::{PROXY, ProxyChoice, ProxyUrl};
use crate::config::read::Cursor;
use crate::error::Problem;
use crate::json::schema;
use ipnet::IpNet;
use serde_json::json;
use std::net::IpAddr;
use std::sync::Arc;

/// `outbound`, with what the environment adds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outbound {
    /// What the file says of proxies; `None`: the environment may name some.
    choice: Option<ProxyChoice>,
    /// Whether the file says what goes direct.
    has_no_proxy: bool,
    /// For `http://` addresses.
    pub http: Option<NamedProxy>,
    /// For `https://` addresses.
    pub https: Option<NamedProxy>,
    pub no_proxy: NoProxy,
    /// The addresses of this machine that connections come from: at most one of each IP version.
    pub source_addresses: Vec<IpAddr>,
    pub ip: IpVersions,
    pub resolver: NameResolver,
}

/// A proxy, and the setting or variable that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedProxy {
    pub proxy: Arc<ProxyUrl>,
    pub from: &'static str,
}

/// Which addresses of a host are connected to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IpVersions {
    #[default]
    Any,
    V4,
    V6,
}

impl IpVersions {
    /// Whether connections to this address are made.
    pub fn has(self, ip: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => ip.is_ipv4(),
            Self::V6 => ip.is_ipv6(),
        }
    }

    /// `IPv4` or `IPv6`, where it is one of them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "IPv4 or IPv6",
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }
}

/// What turns names into addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameResolver {
    /// The gateway itself, from `/etc/resolv.conf` and `/etc/hosts`.
    #[default]
    Own,
    /// The system's `getaddrinfo`, with all that `/etc/nsswitch.conf` names.
    System,
}

/// The hosts that are connected to directly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy {
    all: bool,
    rules: Vec<AllowRule>,
}

impl NoProxy {
    /// Adds an entry: `*`, a host (with all below it), `.suffix`, `*.suffix`, an address or a range; each but `*` with an optional
    /// port.
    ///
    /// # Errors
    /// What is wrong with it.
    fn add(&mut self, entry: &str) -> Result<(), String> {
        let entry = entry.trim();
        if entry == "*" {
            self.all = true;
            return Ok(());
        }
        if let Some(suffix) = entry.strip_prefix('.') {
            self.rules.push(AllowRule::parse(&format!("*.{suffix}"))?);
            return Ok(());
        }
        // 10.1.2.3/8 is what curl and Go take as 10.0.0.0/8.
        let net = entry.parse::<IpNet>().map(|net| net.trunc().to_string());
        let rule = AllowRule::parse(net.as_deref().unwrap_or(entry))?;
        let has_names_below = !rule.is_net() && !entry.starts_with("*.");
        self.rules.push(rule);
        if has_names_below {
            self.rules.push(AllowRule::parse(&format!("*.{entry}"))?);
        }
        Ok(())
    }

    /// As the environment has it: entries with commas or spaces between them; what is none is left out.
    fn from_text(text: &str) -> Self {
        let mut found = Self::default();
        for entry in text.split([',', ' ', '\t']).filter(|entry| !entry.is_empty()) {
            let _ = found.add(entry);
        }
        found
    }

    /// Whether a host, given by name or by address, is connected to directly.
    pub fn has(&self, name: Option<&str>, ip: Option<IpAddr>, port: u16) -> bool {
        let fits = |rule: &AllowRule| {
            rule.port.is_none_or(|only| only == port)
                && (name.is_some_and(|name| rule.matches_name(name))
                    || ip.is_some_and(|ip| rule.contains_address(ip.to_canonical())))
        };
        self.all || self.rules.iter().any(fits)
    }
}

/// The variables for `http://` and for `https://` addresses, the first that is set decides. Lower case goes before, as in curl.
const HTTP_VARIABLES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];
const HTTPS_VARIABLES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
const NO_PROXY_VARIABLES: [&str; 2] = ["no_proxy", "NO_PROXY"];

const DIRECT: Form<String> = form(|at| at.text().map(str::to_owned), schema::text);

const SOURCE: Form<Vec<IpAddr>> = form(source_addresses, |doc| {
    let address = json!({"type": "string"});
    json!({
        "description": doc,
        "examples": ["10.0.0.5"],
        "anyOf": [address, {"type": "array", "items": address}],
    })
});

impl Outbound {
    pub(super) const DOC: &str = "How the gateway's own connections leave the machine (docs/outbound.md). Proxies of the environment count, too.";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        const VERSIONS: Choice<IpVersions> =
            Choice(&[("any", IpVersions::Any), ("v4", IpVersions::V4), ("v6", IpVersions::V6)]);
        const RESOLVERS: Choice<NameResolver> =
            Choice(&[("own", NameResolver::Own), ("system", NameResolver::System)]);
        let proxy = "The proxy for all HTTP: http(s)://[user:password@]host:port; none: not even one of the environment \
                     (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY).";
        let direct = "Hosts without a proxy, in place of NO_PROXY: names with all below them, .suffix, addresses, ranges, *, each \
                      with an optional :port.";
        let source = "Addresses of this machine that connections come from: one, or one of each IP version.";
        let choice = table.get("proxy", PROXY, proxy);
        let entries = table.get("no_proxy", list(DIRECT, "A host, suffix, address or range."), direct);
        let has_no_proxy = entries.is_some();
        let mut no_proxy = NoProxy::default();
        for (index, entry) in entries.unwrap_or_default().iter().enumerate() {
            if let Err(why) = no_proxy.add(entry)
                && let Some(at) = table.at("no_proxy").and_then(|at| at.list()?.get(index).cloned())
            {
                at.problem(why);
            }
        }
        let named = match &choice {
            Some(ProxyChoice::Through(proxy)) => {
                Some(NamedProxy { proxy: Arc::clone(proxy), from: "outbound.proxy" })
            }
            _ => None,
        };
        Some(Self {
            choice,
            has_no_proxy,
            http: named.clone(),
            https: named,
            no_proxy,
            source_addresses: table.get("source_address", SOURCE, source).unwrap_or_default(),
            ip: table.or("ip", VERSIONS, IpVersions::Any, "Over which IP connections to names are made."),
            resolver: table.or(
                "dns",
                RESOLVERS,
                NameResolver::Own,
                "What resolves names: the gateway, or the system's getaddrinfo.",
            ),
        })
    }

    /// The proxies in force, without credentials: for which addresses each is, and what names it.
    pub fn described(&self) -> Vec<String> {
        let line = |named: &NamedProxy, addresses: &str| {
            format!("{} for {addresses} addresses ({})", named.proxy, named.from)
        };
        match (&self.http, &self.https) {
            (Some(http), Some(https)) if http == https => vec![line(http, "http:// and https://")],
            (http, https) => {
                let http = http.iter().map(|named| line(named, "http://"));
                http.chain(https.iter().map(|named| line(named, "https://"))).collect()
            }
        }
    }

    /// Takes what the file leaves open from the environment. Returns what is wrong with its variables.
    pub(super) fn read_environment(&mut self, env: &dyn Fn(&str) -> Option<String>) -> Vec<Problem> {
        let set = |name: &&'static str| {
            env(name).filter(|value| !value.trim().is_empty()).map(|value| (*name, value))
        };
        if !self.has_no_proxy
            && let Some((_, text)) = NO_PROXY_VARIABLES.iter().find_map(set)
        {
            self.no_proxy = NoProxy::from_text(&text);
        }
        let mut problems: Vec<Problem> = Vec::new();
        if self.choice.is_some() {
            return problems;
        }
        let mut read = |variables: &[&'static str]| {
            let (from, url) = variables.iter().find_map(set)?;
            match ProxyUrl::parse(&url) {
                Ok(proxy) => Some(NamedProxy { proxy: Arc::new(proxy), from }),
                Err(why) => {
                    let message = format!(
                        "{from} of the environment {why}. Correct it, or name a proxy (or none) in the settings"
                    );
                    let problem = Problem { path: "outbound.proxy".to_owned(), message, place: None };
                    if !problems.contains(&problem) {
                        problems.push(problem);
                    }
                    None
                }
            }
        };
        self.http = read(&HTTP_VARIABLES);
        self.https = read(&HTTPS_VARIABLES);
        problems
    }
}

fn source_addresses(at: &Cursor<'_>) -> Option<Vec<IpAddr>> {
    let items = if matches!(at.node.kind, NodeKind::List(_)) { at.list()? } else { vec![at.clone()] };
    let mut found: Vec<IpAddr> = Vec::new();
    for item in items {
        let Ok(ip) = item.text()?.parse::<IpAddr>() else {
            item.problem("must be an IP address of this machine");
            continue;
        };
        if found.iter().any(|other| other.is_ipv4() == ip.is_ipv4()) {
            item.problem("must be the only address of its IP version");
        }
        found.push(ip);
    }
    Some(found)
}

#[cfg(test)]
mod tests;
