//! Which proxy a host is reached by: `outbound` of the settings, the environment's variables, and providers' own.
//!
//! Not here: how a connection goes through one ([`super::proxied`], [`super::proxy_connector`]), and the requests of the AWS and OTLP
//! crates, which take a [`reqwest::Proxy`] from here.
//!
//! This machine is never behind a proxy, as in Go: `localhost`, loopback and link-local addresses and metadata services are reached
//! directly, unless a provider names its own proxy.

use super::authorities;
use super::custom_host::METADATA_NAMES;
use super::origin::{Host, Origin};
use super::ranges::{Class, Ranges};
use http::HeaderValue;
use rustls::ClientConfig;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use words::config::proxy_url::{ProxyChoice, ProxyUrl};
use words::settings::Settings;
use words::settings::outbound::{NamedProxy, NoProxy};

/// One proxy, ready to be connected to.
pub struct Proxy {
    url: Arc<ProxyUrl>,
    /// Where it listens.
    pub origin: Origin,
    authorization: Option<HeaderValue>,
    tls: Arc<ProxyTls>,
}

/// How proxies with `https://` are verified: as providers are. Built for the first connection.
#[derive(Debug, Default)]
struct ProxyTls {
    ca_file: Option<PathBuf>,
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

/// All proxies of one generation of the settings.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Arc<Proxy>>,
    https: Option<Arc<Proxy>>,
    no_proxy: Arc<NoProxy>,
    tls: Arc<ProxyTls>,
    /// Those that providers name.
    own: Arc<HashMap<Arc<ProxyUrl>, Arc<Proxy>>>,
}

impl Proxies {
    pub fn new(settings: &Settings) -> Self {
        let tls = Arc::new(ProxyTls { ca_file: settings.tls.ca_file.clone(), config: OnceLock::new() });
        let named = |named: &Option<NamedProxy>| {
            named.as_ref().and_then(|named| Proxy::new(&named.proxy, &tls)).map(Arc::new)
        };
        let own = settings.providers.values().filter_map(|stored| match &stored.policies.proxy {
            Some(ProxyChoice::Through(url)) => Some((Arc::clone(url), Arc::new(Proxy::new(url, &tls)?))),
            _ => None,
        });
        Self {
            http: named(&settings.outbound.http),
            https: named(&settings.outbound.https),
            no_proxy: Arc::new(settings.outbound.no_proxy.clone()),
            own: Arc::new(own.collect()),
            tls: Arc::clone(&tls),
        }
    }

    /// The proxy for connections to `origin`. `choice`: what its provider says.
    pub fn for_origin(&self, origin: &Origin, choice: Option<&ProxyChoice>) -> Option<Arc<Proxy>> {
        match choice {
            Some(ProxyChoice::Direct) => return None,
            // Named for exactly this provider: neither its address nor `no_proxy` says otherwise.
            Some(ProxyChoice::Through(url)) => {
                let named = self.own.get(url).cloned();
                return named.or_else(|| Proxy::new(url, &self.tls).map(Arc::new));
            }
            None => {}
        }
        let proxy = if origin.tls { &self.https } else { &self.http }.as_ref()?;
        let (name, ip) = match &origin.host {
            Host::Name(name) => (Some(&**name), None),
            Host::Ip(ip) => (None, Some(*ip)),
        };
        let is_direct = is_local(&origin.host) || self.no_proxy.has(name, ip, origin.port);
        (!is_direct).then(|| Arc::clone(proxy))
    }

    /// The same for clients that are made by other crates.
    pub fn for_reqwest(&self) -> reqwest::Proxy {
        let proxies = self.clone();
        reqwest::Proxy::custom(move |url| {
            let text = format!("{}://{}:{}", url.scheme(), url.host_str()?, url.port_or_known_default()?);
            let origin = Origin::parse(&text, true).ok()?;
            let proxy = proxies.for_origin(&origin, None)?;
            url::Url::parse(proxy.url.full().expose()).ok()
        })
    }
}

/// Whether a host is this machine, or a service that only this machine can reach.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Name(name) => {
            &**name == "localhost" || name.ends_with(".localhost") || METADATA_NAMES.contains(&&**name)
        }
        Host::Ip(ip) => {
            let ip = ip.to_canonical();
            let is_near = match ip {
                IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local(),
                IpAddr::V6(ip) => ip.is_loopback() || ip.is_unicast_link_local(),
            };
            is_near || Ranges::default().special(ip).is_some_and(|(_, class)| class == Class::Metadata)
        }
    }
}

impl Proxy {
    /// `None` where its host cannot be one of a connection; [`ProxyUrl::parse`] lets none such pass.
    fn new(url: &Arc<ProxyUrl>, tls: &Arc<ProxyTls>) -> Option<Self> {
        let origin = Origin::parse(url.name(), true).ok()?;
        let authorization = match url.authorization() {
            Some(secret) => {
                let mut value = HeaderValue::from_str(secret.expose()).ok()?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Some(Self { url: Arc::clone(url), origin, authorization, tls: Arc::clone(tls) })
    }

    /// `http://proxy.corp:3128`, without credentials.
    pub fn name(&self) -> &str {
        self.url.name()
    }

    /// It for a client that connects to one host only.
    ///
    /// # Errors
    /// The URL cannot be used.
    pub(super) fn for_reqwest(&self) -> reqwest::Result<reqwest::Proxy> {
        let proxy = reqwest::Proxy::all(self.name())?;
        Ok(match &self.authorization {
            Some(value) => proxy.custom_http_auth(value.clone()),
            None => proxy,
        })
    }

    /// What distinguishes its connections from those of other proxies: credentials, too.
    pub(super) fn url(&self) -> &ProxyUrl {
        &self.url
    }

    /// The value of `Proxy-Authorization`.
    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// How its certificate is verified.
    ///
    /// # Errors
    /// The certificate authorities cannot be read.
    pub(super) fn tls(&self) -> Result<Arc<ClientConfig>, String> {
        let config = self
            .tls
            .config
            .get_or_init(|| authorities::client_config(self.tls.ca_file.as_deref()).map(Arc::new));
        config.clone()
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({})", self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::config::Checks;
    use words::settings::SecretSources;

    fn settings(text: &str) -> Settings {
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let checks = Checks::NONE;
        Settings::parse(text, &sources, &checks).unwrap()
    }

    #[test]
    fn this_machine_and_what_is_excepted_are_reached_directly() {
        let settings = settings("outbound: {proxy: 'proxy.corp:3128', no_proxy: [corp, 10.0.0.0/8]}");
        let proxies = Proxies::new(&settings);
        for (url, is_proxied) in [
            ("https://api.example.com", true),
            ("http://api.example.com", true),
            ("https://8.8.8.8", true),
            ("https://llm.corp", false),
            ("http://10.1.2.3", false),
            ("http://localhost:1", false),
            ("http://a.localhost:1", false),
            ("http://127.0.0.1:1", false),
            ("http://[::1]:1", false),
            ("http://[::ffff:127.0.0.1]:1", false),
            ("http://169.254.169.254", false),
            ("http://[fe80::1]", false),
            ("http://[fd00:ec2::254]", false),
            ("http://metadata.google.internal", false),
        ] {
            let origin = Origin::parse(url, true).unwrap();
            assert_eq!(proxies.for_origin(&origin, None).is_some(), is_proxied, "{url}");
            assert!(proxies.for_origin(&origin, Some(&ProxyChoice::Direct)).is_none(), "{url}");
        }
    }

    #[test]
    fn the_proxy_of_a_provider_is_for_all_of_its_hosts() {
        let text =
            "outbound: {no_proxy: ['*']}\nproviders: {a: {provider: openai, proxy: 'http://u:p@own:1'}}\n";
        let settings = settings(text);
        let choice = settings.providers["a"].policies.proxy.clone();
        for url in ["http://127.0.0.1:1", "https://api.example.com"] {
            let origin = Origin::parse(url, true).unwrap();
            let proxies = Proxies::new(&settings);
            let found = proxies.for_origin(&origin, choice.as_ref()).unwrap();
            assert_eq!(
                (found.name(), format!("{found:?}").as_str()),
                ("http://own:1", "Proxy(http://***@own:1)")
            );
        }
    }
}
