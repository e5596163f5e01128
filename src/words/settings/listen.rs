//! `listen` and `emulator`: the addresses on which clients and operators connect.
//!
//! Not here: opening sockets and reading certificates (`main`, through Pingora).

use super::values::{address, non_empty};
use crate::config::node::Kind;
use crate::config::read::{Cursor, ObjectReader};
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
}

/// One listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,
    pub tls: Option<TlsFiles>,
    /// HTTP/2: by ALPN with TLS, by prior knowledge without.
    pub h2: bool,
}

/// PEM files of a listener's certificate chain and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Default for Listen {
    fn default() -> Self {
        Self {
            data: vec![Listener::loopback(8787)],
            control: Listener::loopback(8788),
            control_names: Vec::new(),
            open_metrics: true,
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
pub(super) struct UsedAddresses(HashMap<u16, Vec<(IpAddr, String)>>);

impl UsedAddresses {
    /// The key that already uses `wanted`. A wildcard address uses its port on all addresses of its family.
    fn holder(&self, wanted: SocketAddr) -> Option<&str> {
        let clash = |held: IpAddr| {
            let wildcard = held.is_unspecified() || wanted.ip().is_unspecified();
            held == wanted.ip() || (wildcard && held.is_ipv4() == wanted.is_ipv4())
        };
        let held = self.0.get(&wanted.port()).filter(|_| wanted.port() != 0)?;
        held.iter().find(|(held, _)| clash(*held)).map(|(_, key)| key.as_str())
    }

    fn insert(&mut self, address: SocketAddr, key: String) {
        self.0.entry(address.port()).or_default().push((address.ip(), key));
    }

    fn read(&mut self, at: &Cursor<'_>) -> Option<SocketAddr> {
        let wanted = address(at)?;
        match self.holder(wanted) {
            Some(key) => at.problem(format!("clashes with {key}")),
            None => self.insert(wanted, at.path.clone()),
        }
        Some(wanted)
    }

    /// Records the default address of `key`, which the file does not give.
    fn default(&mut self, fields: Option<&ObjectReader<'_>>, key: &str, wanted: SocketAddr) {
        match (self.holder(wanted), fields) {
            (Some(holder), Some(fields)) => {
                fields.missing(key, format!("is not given, and {holder} takes its default {wanted}"));
            }
            _ => self.insert(wanted, format!("listen.{key}, which is {wanted} when not given")),
        }
    }
}

impl Listen {
    pub(super) fn read(fields: Option<ObjectReader<'_>>, used: &mut UsedAddresses) -> Self {
        let defaults = Self::default();
        let Some(mut fields) = fields else {
            defaults.data.iter().for_each(|listener| used.default(None, "data", listener.address));
            used.default(None, "control", defaults.control.address);
            return defaults;
        };
        let (data, control) = (fields.get(&["data"]), fields.get(&["control"]));
        let given = (data.is_some(), control.is_some());
        let data = data.and_then(|at| Self::data(&at, used)).unwrap_or(defaults.data);
        let control = control.and_then(|at| Listener::read(&at, used)).unwrap_or(defaults.control);
        if !given.0 {
            data.iter().for_each(|listener| used.default(Some(&fields), "data", listener.address));
        }
        if !given.1 {
            used.default(Some(&fields), "control", control.address);
        }
        let names = fields.get(&["control_names"]).and_then(|at| at.list()).unwrap_or_default();
        let control_names = names.iter().filter_map(host_name).collect();
        let metrics = fields.get(&["metrics"]).and_then(|at| at.one_of(&[("open", true), ("key", false)]));
        fields.reject_unknown(&["data", "control", "control_names", "metrics"]);
        Self { data, control, control_names, open_metrics: metrics.unwrap_or(true) }
    }

    fn data(at: &Cursor<'_>, used: &mut UsedAddresses) -> Option<Vec<Listener>> {
        let items = at.list()?;
        if items.is_empty() {
            at.problem("must list at least one listener");
        }
        let listeners: Vec<Listener> = items.iter().filter_map(|at| Listener::read(at, used)).collect();
        (!listeners.is_empty()).then_some(listeners)
    }
}

/// A host name in lower case, without a port.
fn host_name(at: &Cursor<'_>) -> Option<String> {
    let name = non_empty(at)?.to_ascii_lowercase();
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !is_plain {
        at.problem("must be a host name, such as gateway.internal, without a scheme or port");
    }
    is_plain.then_some(name)
}

impl Listener {
    fn loopback(port: u16) -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), tls: None, h2: true }
    }

    /// Reads a listener, which is either an address alone or an object.
    fn read(at: &Cursor<'_>, used: &mut UsedAddresses) -> Option<Self> {
        if let Kind::Text(_) = at.node.kind {
            return Some(Self { address: used.read(at)?, tls: None, h2: true });
        }
        let mut fields = at.fields()?;
        let address = fields.required(&["address"]).and_then(|at| used.read(&at));
        let tls = fields.get(&["tls"]).and_then(|at| at.fields()).and_then(TlsFiles::read);
        let h2 = fields.flag(&["h2"]).unwrap_or(true);
        fields.reject_unknown(&["address", "tls", "h2"]);
        Some(Self { address: address?, tls, h2 })
    }
}

impl Emulator {
    pub(super) fn read(mut fields: ObjectReader<'_>, used: &mut UsedAddresses) -> Self {
        let listen = fields.get(&["listen"]).and_then(|at| used.read(&at));
        fields.reject_unknown(&["listen"]);
        Self { listen }
    }
}

impl TlsFiles {
    fn read(mut fields: ObjectReader<'_>) -> Option<Self> {
        let cert = fields.required(&["cert"]).and_then(|at| non_empty(&at).map(PathBuf::from));
        let key = fields.required(&["key"]).and_then(|at| non_empty(&at).map(PathBuf::from));
        fields.reject_unknown(&["cert", "key"]);
        Some(Self { cert: cert?, key: key? })
    }
}
