//! What a start needs from this machine: certificates that can be used, files that can be written, addresses that are free.
//!
//! Everything is tried, and everything that is wrong is found at once, each at its key. Nothing is created or changed. Not
//! here: what the file alone shows (`settings`), and whether accounts are complete (`route::stored_calls`).

use super::certificate::{Certificate, CertificateFiles};
use super::client_verifier::ClientVerifier;
use memory::net::outbound::peer::TrustRoots;
use memory::net::outbound::presented::PresentedCertificate;
use memory::store::options::Location;
use rustix::fs::{Access, access};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use words::error::Problem;
use words::settings::{AccessLog, AcmeChallenge, CertificateSource, Draft, Listener, ListenerTls, Settings};

/// What becomes of an address that cannot be listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// A problem: the process is about to listen there.
    MustBeFree,
    /// A warning: a running gateway may be the one that listens there.
    ShouldBeFree,
    /// Not looked at: this process listens there, or takes the listeners over.
    Held,
    /// Not looked at: the command does so itself. As with `ShouldBeFree`, nothing is started.
    NotTried,
}

/// A key and what is wrong with its value.
type Finding = (String, String);

/// The folders that the shipped unit makes when it starts the service.
const UNIT_FOLDERS: [&str; 2] = ["/var/log/turnpike", "/run/turnpike"];

/// Adds what is wrong to the draft and returns what is only odd. What the draft has problems with already is not tried.
pub fn run(draft: &mut Draft, addresses: Addresses) -> Vec<Problem> {
    let Some(settings) = draft.settings() else { return Vec::new() };
    let mut problems = Vec::new();
    let mut warnings = Vec::new();
    if draft.is_sound("listen") {
        certificates(settings, &mut problems);
    }
    if draft.is_sound("outbound") {
        source_addresses(settings, &mut problems);
    }
    if draft.is_sound("providers") {
        presented(settings, &mut problems);
    }
    if draft.is_sound("tls") && draft.is_sound("acme") {
        authorities(settings, &mut problems);
    }
    let mut files = Vec::new();
    if draft.is_sound("server") {
        files.extend(process_files(settings));
    }
    if draft.is_sound("store") {
        store(settings, &mut problems);
    }
    if draft.is_sound("access_log") {
        match &settings.access_log {
            AccessLog::File(path) => files.push(("access_log.path", path)),
            AccessLog::Journald => can_reach_journal(&mut problems),
            AccessLog::Stdout | AccessLog::Off => {}
        }
    }
    for (key, path) in files {
        if let Err(why) = can_write(path) {
            // Whoever checks the settings before the service is started for the first time does not have the folders yet.
            let is_started = matches!(addresses, Addresses::MustBeFree | Addresses::Held);
            let is_odd = !is_started && is_made_by_unit(path);
            (if is_odd { &mut warnings } else { &mut problems }).push((key.to_owned(), why));
        }
    }
    let is_tried = matches!(addresses, Addresses::MustBeFree | Addresses::ShouldBeFree);
    if is_tried && draft.is_sound("listen") && draft.is_sound("emulator") {
        let found = if addresses == Addresses::MustBeFree { &mut problems } else { &mut warnings };
        taken_addresses(settings, found);
    }
    if settings.server.upgrade_sock.is_some() {
        let message = "has no effect: `turnpike upgrade` needs no socket. Remove it";
        warnings.push(("server.upgrade_sock".to_owned(), message.to_owned()));
    }
    open_to_anyone(settings, &mut warnings);
    reached_by_authorities(settings, &mut warnings);
    let warnings = warnings.iter().map(|(path, message)| draft.located(path, message)).collect();
    for (path, message) in &problems {
        draft.add(path, message);
    }
    warnings
}

/// Every listener of the process's services, with its key.
pub fn listeners(settings: &Settings) -> impl Iterator<Item = (String, &Listener)> {
    let listen = &settings.listen;
    let data = listen.data.iter().enumerate();
    let data = data.map(|(index, listener)| (format!("listen.data[{index}]"), listener));
    data.chain([("listen.control".to_owned(), &listen.control)])
}

fn certificates(settings: &Settings, found: &mut Vec<Finding>) {
    for (path, listener) in listeners(settings) {
        let Some(ListenerTls { certificate, clients }) = &listener.tls else { continue };
        let read = match certificate {
            CertificateSource::Files { cert, key } => {
                let clients = clients.clone();
                let files =
                    CertificateFiles { cert: cert.clone(), key: key.clone(), clients, is_issued: false };
                Certificate::load(files).map(drop)
            }
            // Without a certificate of the authority the process starts all the same.
            CertificateSource::Acme(_) => {
                clients.as_ref().map_or(Ok(()), |ca| ClientVerifier::load(ca).map(drop))
            }
        };
        if let Err(error) = read {
            found.push((format!("{path}.tls.{}", error.key), error.why));
        }
    }
}

/// Connections can only come from addresses that this machine has.
fn source_addresses(settings: &Settings, found: &mut Vec<Finding>) {
    for ip in &settings.outbound.source_addresses {
        if let Err(why) = UdpSocket::bind((*ip, 0)) {
            found.push(("outbound.source_address".to_owned(), format!("{ip} cannot be used: {why}")));
        }
    }
}

/// What certificate authorities are verified by, and the key of the account with one. With a CA file that is not usable, Pingora would
/// panic when it first connects.
fn authorities(settings: &Settings, found: &mut Vec<Finding>) {
    if settings.acme.external_account.as_ref().is_some_and(|account| account.key().is_none()) {
        let why = "must be base64url, as the authority shows it";
        found.push(("acme.external_account.hmac_key".to_owned(), why.to_owned()));
    }
    for (key, path) in [("tls.ca_file", &settings.tls.ca_file), ("acme.ca_file", &settings.acme.ca_file)] {
        let Some(path) = path else { continue };
        let read = std::fs::read(path).map_err(|why| why.to_string());
        if let Err(why) = read.and_then(|text| TrustRoots::from_pem(&text).map(drop)) {
            found.push((key.to_owned(), format!("{}: {why}", path.display())));
        }
    }
}

/// What is presented to providers with mutual TLS.
fn presented(settings: &Settings, found: &mut Vec<Finding>) {
    for (slug, stored) in &settings.providers {
        let read = stored.policies.client_certificate.as_deref().map(PresentedCertificate::read);
        if let Some(Err((member, why))) = read {
            found.push((format!("providers.{slug}.client_certificate.{member}"), why));
        }
    }
}

fn process_files(settings: &Settings) -> impl Iterator<Item = (&'static str, &PathBuf)> {
    settings.server.pid_file.iter().map(|path| ("server.pid_file", path))
}

/// The URL. Whether there is a database is not a matter of the settings: a start goes on without one.
fn store(settings: &Settings, found: &mut Vec<Finding>) {
    let location = settings.store.url.as_ref().map(|url| Location::parse(url.expose()));
    match location {
        Some(Err(why)) => found.push(("store.url".to_owned(), why)),
        Some(Ok(Location::Postgres(_))) if settings.store.encryption_key.is_none() => {
            let why = "is required with PostgreSQL, the same for all gateways (openssl rand -hex 32)";
            found.push(("store.encryption_key".to_owned(), why.to_owned()));
        }
        _ => {}
    }
}

fn can_reach_journal(found: &mut Vec<Finding>) {
    if let Err(why) = systemd_journal_logger::JournalLog::new() {
        let why = format!("there is no journal to write to ({why}); use stdout or file");
        found.push(("access_log.output".to_owned(), why));
    }
}

/// Whether the folder of a file is missing and will be there under systemd.
fn is_made_by_unit(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.exists());
    folder.is_some_and(|folder| UNIT_FOLDERS.iter().any(|made| folder == Path::new(made)))
}

/// Whether a file can be written, or created in its folder.
fn can_write(path: &Path) -> Result<(), String> {
    let shown = path.display();
    if path.is_dir() {
        return Err(format!("{shown} is a folder; give the path of a file in it"));
    }
    let user = rustix::process::geteuid().as_raw();
    if path.exists() {
        return access(path, Access::WRITE_OK)
            .map_err(|why| format!("{shown}: the user of this process ({user}) may not write it ({why})"));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(format!(
            "{shown}: there is no folder {folder}; create it (the systemd unit makes {})",
            UNIT_FOLDERS.join(" and ")
        ));
    }
    access(folder, Access::WRITE_OK | Access::EXEC_OK).map_err(|why| {
        let folder = folder.display();
        format!("{shown}: the user of this process ({user}) may not create files in {folder} ({why})")
    })
}

/// Addresses on which this process could not listen now. Pingora would retry silently for half a minute, and meanwhile the
/// readiness check would mistake the other process's listener for our own.
fn taken_addresses(settings: &Settings, found: &mut Vec<Finding>) {
    let services = listeners(settings).map(|(path, listener)| (path, listener.address));
    let acme = settings.acme_http().map(|address| ("acme.http_listen".to_owned(), address));
    let emulator = settings.emulator.listen.map(|address| ("emulator.listen".to_owned(), address));
    for (path, address) in services.chain(acme).chain(emulator) {
        if let Err(why) = can_listen(address) {
            found.push((path, why));
        }
    }
}

/// # Errors
/// Why it cannot be listened on now.
pub fn can_listen(address: SocketAddr) -> Result<(), String> {
    TcpListener::bind(address).map(drop).map_err(|why| cannot_listen(address, &why))
}

/// Why an address cannot be listened on, and what to do.
pub fn cannot_listen(address: SocketAddr, why: &io::Error) -> String {
    let advice = match why.kind() {
        ErrorKind::AddrInUse => "; stop the process that listens there, or give another port",
        ErrorKind::AddrNotAvailable => "; this machine has no such address",
        ErrorKind::PermissionDenied => {
            "; ports below 1024 need CAP_NET_BIND_SERVICE (the comments of the systemd unit show it)"
        }
        _ => "",
    };
    format!("cannot listen on {address}: {why}{advice}")
}

/// Where an authority must be able to connect, from the internet.
fn reached_by_authorities(settings: &Settings, found: &mut Vec<Finding>) {
    if !settings.uses_acme() {
        return;
    }
    let of = |port: u16, key: &str| {
        let why = format!(
            "the certificate authority connects to port {port} of each name, and nothing here listens there: it has to be forwarded to \
             this gateway ({key})"
        );
        ("acme.challenge".to_owned(), why)
    };
    match settings.acme.challenge {
        AcmeChallenge::TlsAlpn01 => {
            let mut listeners = listeners(settings);
            if !listeners.any(|(_, listener)| listener.tls.is_some() && listener.address.port() == 443) {
                found.push(of(443, "a listener with TLS"));
            }
        }
        AcmeChallenge::Http01 if settings.acme.http_listen.port() != 80 => {
            found.push(of(80, "acme.http_listen"));
        }
        AcmeChallenge::Http01 => {}
    }
}

/// Ports that anyone may use who reaches them.
fn open_to_anyone(settings: &Settings, found: &mut Vec<Finding>) {
    for (path, listener) in listeners(settings) {
        let address = listener.address;
        if address.ip().is_loopback() {
            continue;
        }
        if path == "listen.control" && settings.listen.open_metrics {
            found.push((
                path,
                format!(
                    "OPEN TO ANYONE: the control port shows /metrics without a key, and {address} is not a loopback address. \
                     Use 127.0.0.1, or listen.metrics: key"
                ),
            ));
        } else if path != "listen.control" && settings.auth.keys.is_empty() && settings.auth.jwt.is_none() {
            found.push((
                path,
                format!(
                    "OPEN TO ANYONE: auth.keys is empty, and {address} is not a loopback address; unless the store has a key \
                     that may call, whoever reaches it can spend your providers' keys. Give auth.keys"
                ),
            ));
        }
    }
}
