//! `listen` and `emulator`: the addresses on which clients and operators connect.
//!
//! Not here: opening sockets and reading certificates (`main`, through Pingora).

use super::acme::CertificateNames;
use super::trusted_proxies::{RANGE, TrustedProxies};
use super::values::ADDRESS;
use crate::config::members::{
    self, Choice, FILE, FLAG, Form, MemberTable, MemberType, form, list, non_empty, object, see,
};
use crate::config::node::NodeKind;
use crate::config::read::Cursor;
use crate::json::schema;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// `listen`: the data plane's listeners (at least one) and the control plane's single listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    pub data: Vec<Listener>,
    pub control: Listener,
    /// Host names under which the control port may be called, besides addresses and names without a dot. Lower-case.
    pub control_names: Vec<String>,
    /// Whether `/metrics` needs no key.
    pub open_metrics: bool,
    /// The balancers and proxies before the listeners.
    pub trusted_proxies: TrustedProxies,
    /// Whether the data listeners serve the control API, too.
    pub control_on_data: bool,
}

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,
    pub tls: Option<ListenerTls>,
    /// HTTP/2: by ALPN with TLS, by prior knowledge without.
    pub h2: bool,
    /// Whether each connection begins with the header of the PROXY protocol, which only trusted proxies may send.
    pub proxy_protocol: bool,
}

/// A listener's certificate, and those of its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerTls {
    pub certificate: CertificateSource,
    /// Which certificates clients may present; `None`: none is wanted.
    pub clients: Option<ClientAuthority>,
}

/// Where a listener's certificate is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// PEM files of the chain and its key.
    Files { cert: PathBuf, key: PathBuf },
    /// The authority of `acme` issues it, for these names.
    Acme(Vec<String>),
}

/// PEM files by which the certificates of clients are judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuthority {
    /// The authorities.
    pub ca: PathBuf,
    /// The revocation lists of all of them; `None`: nothing is revoked.
    pub crl: Option<PathBuf>,
    /// Whether a client without a certificate is refused.
    pub is_required: bool,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            data: vec![Listener::loopback(8787)],
            control: Listener::loopback(8788),
            control_names: Vec::new(),
            open_metrics: true,
            trusted_proxies: TrustedProxies::default(),
            control_on_data: true,
        }
    }
}

/// `emulator`: the built-in provider inside this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Emulator {
    /// Off when absent.
    pub listen: Option<SocketAddr>,
}

/// The addresses in use so far, each with the key that gives it. No two listeners may share an address.
#[derive(Default)]
pub(super) struct UsedAddresses(RefCell<HashMap<u16, Vec<(IpAddr, String)>>>);

impl UsedAddresses {
    /// The key that already uses `wanted`. A wildcard address uses its port on all addresses of its family.
    pub(super) fn holder(&self, wanted: SocketAddr) -> Option<String> {
        let clash = |held: IpAddr| {
            let wildcard = held.is_unspecified() || wanted.ip().is_unspecified();
            held == wanted.ip() || (wildcard && held.is_ipv4() == wanted.is_ipv4())
        };
        let used = self.0.borrow();
        let held = used.get(&wanted.port()).filter(|_| wanted.port() != 0)?;
        held.iter().find(|(held, _)| clash(*held)).map(|(_, key)| key.clone())
    }

    fn insert(&self, address: SocketAddr, key: String) {
        self.0.borrow_mut().entry(address.port()).or_default().push((address.ip(), key));
    }

    /// Records the default address of `key`, which the file does not give.
    fn insert_default(&self, table: &MemberTable<'_>, key: &str, wanted: SocketAddr) {
        match self.holder(wanted) {
            Some(holder) => {
                table.missing(key, format!("is not given, and {holder} takes its default {wanted}"));
            }
            None => self.insert(wanted, format!("listen.{key}, which is {wanted} when not given")),
        }
    }
}

/// An address that no other listener has.
impl MemberType for UsedAddresses {
    type Value = SocketAddr;

    fn read(&self, at: &Cursor<'_>) -> Option<SocketAddr> {
        let wanted = ADDRESS.read(at)?;
        match self.holder(wanted) {
            Some(key) => at.problem(format!("clashes with {key}")),
            None => self.insert(wanted, at.path.clone()),
        }
        Some(wanted)
    }

    fn schema(&self, doc: &str) -> Value {
        schema::see("address", doc)
    }
}

impl Listen {
    pub(super) const DOC: &str = "The addresses for clients (data) and for operators (control).";

    pub(super) fn members(table: &mut MemberTable<'_>, used: &UsedAddresses) -> Option<Self> {
        const METRICS: Choice<bool> = Choice(&[("open", true), ("key", false)]);
        let default = Self::default();
        let control = "/metrics, /livez, /readyz and the control API. The API requires a key; keep it on loopback or in a private \
                       network all the same.";
        let names = "Host names under which operators call the control port, besides addresses and names without a dot.";
        let metrics = "Whether /metrics needs no key, or one with the scope metrics.read.";
        let trusted = "The balancers and proxies before the gateway. From these addresses alone, X-Forwarded-For, Forwarded and the \
                       PROXY protocol name the client.";
        let on_data = "Whether the data listeners serve the control API as well; without it, only what clients and health checks use.";
        let host_names = list(HOST_NAME, "A host name without scheme and port.");
        let ranges = list(RANGE, "An address or a range.");
        let listen = Self {
            data: table.or("data", DataListeners(used), default.data, "The addresses for clients."),
            control: table.or("control", see("listener", AnyListener(used)), default.control, control),
            control_names: table.get("control_names", host_names, names).unwrap_or_default(),
            open_metrics: table.or("metrics", METRICS, default.open_metrics, metrics),
            trusted_proxies: TrustedProxies::new(
                table.get("trusted_proxies", ranges, trusted).unwrap_or_default(),
            ),
            control_on_data: table.or("control_on_data", FLAG, default.control_on_data, on_data),
        };
        listen.check_trusted(table);
        if table.at("data").is_none() {
            listen.data.iter().for_each(|listener| used.insert_default(table, "data", listener.address));
        }
        if table.at("control").is_none() {
            used.insert_default(table, "control", listen.control.address);
        }
        Some(listen)
    }

    /// Whom a listener with the PROXY protocol believes must be given: it refuses all others.
    fn check_trusted(&self, table: &MemberTable<'_>) {
        const WHY: &str = "is required with proxy_protocol: the addresses from which balancers connect";
        let needs = self.data.iter().chain([&self.control]).any(|listener| listener.proxy_protocol);
        match table.at("trusted_proxies") {
            None if needs => table.missing("trusted_proxies", WHY),
            Some(at) if needs && matches!(&at.node.kind, NodeKind::List(items) if items.is_empty()) => {
                at.problem(WHY);
            }
            _ => {}
        }
    }
}

/// A host name in lower case, without a port.
const HOST_NAME: Form<String> = form(
    |at| {
        let name = non_empty(at)?.to_ascii_lowercase();
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if !is_plain {
            at.problem("must be a host name, such as gateway.internal, without a scheme or port");
        }
        is_plain.then_some(name)
    },
    |doc| schema::pattern(doc, "^[A-Za-z0-9._-]+$", &["gateway.internal"]),
);

/// At least one listener.
struct DataListeners<'u>(&'u UsedAddresses);

impl MemberType for DataListeners<'_> {
    type Value = Vec<Listener>;

    fn read(&self, at: &Cursor<'_>) -> Option<Vec<Listener>> {
        let items = at.list()?;
        if items.is_empty() {
            at.problem("must list at least one listener");
        }
        let listeners: Vec<Listener> =
            items.iter().filter_map(|item| AnyListener(self.0).read(item)).collect();
        (!listeners.is_empty()).then_some(listeners)
    }

    fn schema(&self, doc: &str) -> Value {
        let items = json!({"$ref": "#/$defs/listener"});
        json!({"type": "array", "minItems": 1, "items": items, "description": doc})
    }

    fn written(&self, listeners: &Vec<Listener>) -> Option<Value> {
        Some(listeners.iter().map(|listener| listener.address.to_string()).collect())
    }
}

/// A listener: an address alone, or an object.
pub(super) struct AnyListener<'u>(pub(super) &'u UsedAddresses);

impl MemberType for AnyListener<'_> {
    type Value = Listener;

    fn read(&self, at: &Cursor<'_>) -> Option<Listener> {
        match at.node.kind {
            NodeKind::Text(_) => Some(Listener::plain(self.0.read(at)?)),
            _ => members::read(at, |table| Listener::members(table, self.0)),
        }
    }

    fn schema(&self, doc: &str) -> Value {
        let listener = members::schema(doc, |table| Listener::members(table, self.0));
        json!({"anyOf": [{"$ref": "#/$defs/address"}, listener]})
    }

    fn written(&self, listener: &Listener) -> Option<Value> {
        Some(listener.address.to_string().into())
    }
}

impl Listener {
    fn loopback(port: u16) -> Self {
        Self::plain(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// The names in its certificate, where an authority issues it.
    pub fn acme_names(&self) -> Option<&[String]> {
        match &self.tls.as_ref()?.certificate {
            CertificateSource::Acme(names) => Some(names),
            CertificateSource::Files { .. } => None,
        }
    }

    /// One without TLS.
    pub fn plain(address: SocketAddr) -> Self {
        Self { address, tls: None, h2: true, proxy_protocol: false }
    }

    fn members(table: &mut MemberTable<'_>, used: &UsedAddresses) -> Option<Self> {
        let tls = "The certificate: PEM files of the chain and its key, which are reloaded when they change, or names for which the \
                   authority of acme issues one.";
        let address = table.needed("address", used, "IP:PORT.");
        let tls = table.get("tls", object(ListenerTls::members), tls);
        let h2 = table.or("h2", FLAG, true, "HTTP/2: by ALPN with TLS, by prior knowledge without.");
        let proxied = "Whether each connection begins with the header of the PROXY protocol, version 1 or 2, before TLS. Connections \
                       from others than listen.trusted_proxies are closed.";
        let proxy_protocol = table.or("proxy_protocol", FLAG, false, proxied);
        Some(Self { address: address?, tls, h2, proxy_protocol })
    }
}

impl Emulator {
    pub(super) const DOC: &str = "The built-in provider for demos and tests. Not for production.";

    pub(super) fn members(table: &mut MemberTable<'_>, used: &UsedAddresses) -> Option<Self> {
        Some(Self { listen: table.get("listen", used, "Where it listens; off when absent.") })
    }
}

impl ListenerTls {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        const EITHER: &str =
            "and acme exclude each other: files, or names for which an authority issues a certificate";
        let cert = table.get("cert", FILE, "The certificate chain.");
        let key = table.get("key", FILE, "The private key.");
        let names =
            "In place of cert and key: the names for which the authority of acme issues the certificate.";
        let names = table.get("acme", CertificateNames, names);
        let clients = ClientAuthority::members(table);
        let is_issued = table.at("acme").is_some();
        for file in ["cert", "key"] {
            match table.at(file) {
                Some(at) if is_issued => at.problem(EITHER),
                None if !is_issued => table.missing(file, "is required"),
                _ => {}
            }
        }
        table.keyword(
            "if",
            || json!({"type": "object", "required": ["acme"], "properties": {"acme": {"type": "array"}}}),
        );
        table.keyword("then", || json!({"properties": {"cert": {"type": "null"}, "key": {"type": "null"}}}));
        table.keyword("else", || json!({"required": ["cert", "key"]}));
        let certificate = match names {
            Some(names) => CertificateSource::Acme(names),
            None => CertificateSource::Files { cert: cert?, key: key? },
        };
        Some(Self { certificate, clients })
    }
}

impl ClientAuthority {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        const REQUIRED: Choice<bool> = Choice(&[("required", true), ("optional", false)]);
        const NEEDS_CA: &str = "needs client_ca, the authorities of the clients' certificates";
        let ca =
            "The authorities of clients' certificates (mutual TLS). Without it no certificate is wanted.";
        let crl = "Revocation lists, one of each authority that issues certificates of clients.";
        let wanted = "Whether a client without a certificate is refused, as with client_ca alone. auth.client_certificates says which key a certificate stands for.";
        let ca = table.get("client_ca", FILE, ca);
        let crl = table.get("client_crl", FILE, crl);
        let is_required = table.get("client_certificates", REQUIRED, wanted).unwrap_or(true);
        if ca.is_none() && table.at("client_ca").is_none() {
            table.problem("client_crl", NEEDS_CA);
            table.problem("client_certificates", NEEDS_CA);
        }
        Some(Self { ca: ca?, crl, is_required })
    }
}
