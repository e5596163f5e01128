//! What a started process says of itself: version, file, what is served where, and one request to try.
//!
//! For people when standard error is a terminal, else as log lines. Holds no key.

use memory::state::snapshot::SettingsSnapshot;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use words::error::Problem;
use words::settings::{DefaultConfig, Listener, Settings, StoredProvider};

/// The texts of one start.
#[derive(Debug, Clone)]
pub struct Announcement {
    /// Version and settings file.
    title: String,
    /// What is served, and where.
    services: Vec<(&'static str, String)>,
    /// A command to try.
    curl: String,
    /// What is odd about the settings; the log has it already.
    warnings: Vec<String>,
}

impl Announcement {
    /// `administrator_key`: the file with the one that this start has made.
    pub fn new(
        file: &Path,
        snapshot: &SettingsSnapshot,
        warnings: &[Problem],
        administrator_key: Option<&Path>,
    ) -> Self {
        let settings = &snapshot.settings;
        let warnings = warnings.iter().map(ToString::to_string).collect();
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let title = format!(
            "turnpike {} (process {}) with {} ({})",
            env!("CARGO_PKG_VERSION"),
            std::process::id(),
            file.display(),
            settings.hash
        );
        let keys = match settings.auth.keys.len() {
            _ if !snapshot.service_keys.are_required() => "no service key needed".to_owned(),
            0 => "with a service key of the store".to_owned(),
            1 => "with the service key of auth.keys".to_owned(),
            count => format!("with one of {count} service keys"),
        };
        let listen = &settings.listen;
        let mut services: Vec<_> = listen
            .data
            .iter()
            .map(|data| ("data", format!("{}/v1 for clients, {keys}", url(data))))
            .collect();
        let control = url(&listen.control);
        let console = if settings.console.is_enabled { "/console/ in a browser, " } else { "" };
        services.push((
            "control",
            format!("{control} for operators: {console}/metrics, /readyz, the API below /v1 with a key"),
        ));
        if let Some(key) = administrator_key {
            let key = key.display();
            services.push((
                "key",
                format!("{key} has the key that administrates the control port. Keep it elsewhere, and delete the file."),
            ));
        }
        if let Some(address) = settings.emulator.listen {
            services
                .push(("emulator", format!("http://{address} the built-in provider, no model behind it")));
        }
        services.extend(settings.outbound.described().into_iter().map(|line| ("proxy", line)));
        let names = names(settings.providers.keys().map(|slug| format!("@{slug}")));
        services.push(("providers", names));
        if !settings.configs.is_empty() {
            services.push(("configs", self::names(settings.configs.keys().cloned())));
        }
        if let Some(default) = &settings.default_config {
            let name = match default {
                DefaultConfig::Saved(id) => id.clone(),
                DefaultConfig::Slug(slug) => format!("@{slug}"),
            };
            services.push(("default", format!("{name} (default_config)")));
        }
        Self { title, services, curl: curl(settings), warnings }
    }

    /// For a terminal.
    pub fn for_people(&self) -> String {
        let mut out = format!("\n{}\n", self.title);
        for (name, text) in &self.services {
            // Writing into a String cannot fail.
            let _ = writeln!(out, "  {name:10} {text}");
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "  WARNING    {warning}");
        }
        let _ = writeln!(out, "Try:\n  {}\nStop with Ctrl-C.\n", self.curl);
        out
    }

    /// For a log, a line each.
    pub fn lines(&self) -> Vec<String> {
        let services = self.services.iter().map(|(name, text)| format!("{name}: {text}"));
        let curl = format!("try: {}", self.curl);
        [self.title.clone()].into_iter().chain(services).chain([curl]).collect()
    }
}

/// The first names of a list, and how many more there are.
fn names(names: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 10;
    let count = names.len();
    match count {
        0 => return "none stored: clients name a provider and send its key".to_owned(),
        1..=SHOWN => {}
        _ => {
            let shown: Vec<String> = names.take(SHOWN).collect();
            return format!("{} and {} more", shown.join(" "), count - SHOWN);
        }
    }
    names.collect::<Vec<String>>().join(" ")
}

/// The base address under which a listener is reached from this machine.
fn url(listener: &Listener) -> String {
    let scheme = if listener.tls.is_some() { "https" } else { "http" };
    let ip = match listener.address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(ip, listener.address.port()))
}

/// A request that works with these settings, except for the key or model that only the operator knows.
fn curl(settings: &Settings) -> String {
    let Some(listener) = settings.listen.data.first() else { return String::new() };
    // The certificate is for a name, and this is an address.
    let insecure = if listener.tls.is_some() { "-k " } else { "" };
    let mut out =
        format!("curl {insecure}{}/v1/chat/completions -H 'content-type: application/json'", url(listener));
    let prefix = settings.header_prefixes.first().map_or("x-gateway-", String::as_str);
    if !settings.auth.keys.is_empty() {
        let _ = write!(out, " -H '{prefix}api-key: YOUR_SERVICE_KEY'");
    }
    let provider = match &settings.default_config {
        Some(DefaultConfig::Saved(_)) => None,
        Some(DefaultConfig::Slug(slug)) => settings.providers.get(slug),
        None => match settings.providers.iter().next() {
            Some((slug, stored)) => {
                let _ = write!(out, " -H '{prefix}provider: @{slug}'");
                Some(stored)
            }
            None => {
                let _ = write!(
                    out,
                    " -H '{prefix}provider: openai' -H \"authorization: Bearer $OPENAI_API_KEY\""
                );
                None
            }
        },
    };
    let model = provider.map_or("MODEL", |stored| model(stored, settings));
    let model = if settings.default_config.is_some() && provider.is_none() { "demo" } else { model };
    let body = serde_json::json!({"model": model, "messages": [{"role": "user", "content": "Hello"}]});
    let _ = write!(out, " -d '{body}'");
    out
}

/// A model for a stored provider: any for the built-in one, and for one whose settings name the model.
fn model(stored: &StoredProvider, settings: &Settings) -> &'static str {
    let port = settings.emulator.listen.map(|address| format!(":{}/", address.port()));
    let host = stored.account.custom_host.as_deref();
    let is_emulator = host.zip(port).is_some_and(|(host, port)| host.contains(&port));
    let sets_model = stored.policies.override_params.iter().any(|(name, _)| name == "model");
    if is_emulator || sets_model { "demo" } else { "MODEL" }
}
