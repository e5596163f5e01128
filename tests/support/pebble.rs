//! A real certificate authority for tests: Pebble, of the makers of Let's Encrypt, with a name server that leads every name to this
//! machine.
//!
//! Killed when its guard is dropped, or by its guardian.

use super::client::install_ring;
use super::gateway::guardian;
use super::ports::free;
use super::wait::until_blocking;
use rcgen::{CertificateParams, KeyPair};
use reqwest::Certificate;
use serde_json::json;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running authority, or one that was stopped and may run again.
pub(crate) struct Pebble {
    /// Where it connects to verify a name: the port of HTTP-01, and that of TLS-ALPN-01.
    pub(crate) http_port: u16,
    pub(crate) tls_port: u16,
    port: u16,
    management: u16,
    dns: u16,
    processes: Vec<Child>,
    guardians: Vec<Child>,
    folder: tempfile::TempDir,
}

/// What it is started with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PebbleOptions {
    /// Seconds for which certificates are good; 0: five years.
    pub(crate) lifetime: u32,
    /// Whether accounts need to be bound to another one: of `kid-1`.
    pub(crate) external_accounts: bool,
}

/// The key of `kid-1`, base64url.
pub(crate) const HMAC_KEY: &str = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W";

impl Pebble {
    /// `None` where it is not installed; CI has it.
    pub(crate) fn start(options: PebbleOptions) -> Option<Self> {
        if Command::new("pebble").arg("-help").stderr(Stdio::null()).stdout(Stdio::null()).status().is_err() {
            assert!(std::env::var_os("CI").is_none(), "CI installs Pebble (.ci/run)");
            eprintln!("SKIPPED with an authority: pebble is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut pebble = Self {
            http_port: free(),
            tls_port: free(),
            port: free(),
            management: free(),
            dns: free(),
            processes: Vec::new(),
            guardians: Vec::new(),
            folder,
        };
        pebble.write_files(options);
        pebble.start_again();
        Some(pebble)
    }

    fn write_files(&self, options: PebbleOptions) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        std::fs::write(self.ca_file(), own.pem()).unwrap();
        std::fs::write(self.folder.path().join("key.pem"), key.serialize_pem()).unwrap();
        let mut config = json!({
            "listenAddress": format!("127.0.0.1:{}", self.port),
            "managementListenAddress": format!("127.0.0.1:{}", self.management),
            "certificate": self.ca_file(),
            "privateKey": self.folder.path().join("key.pem"),
            "httpPort": self.http_port,
            "tlsPort": self.tls_port,
            "externalAccountBindingRequired": options.external_accounts,
            "externalAccountMACKeys": {"kid-1": HMAC_KEY},
        });
        if options.lifetime > 0 {
            config["certificateValidityPeriod"] = options.lifetime.into();
        }
        let config = json!({"pebble": config}).to_string();
        std::fs::write(self.folder.path().join("pebble.json"), config).unwrap();
    }

    /// Starts it again at its ports. It has forgotten all accounts, and its root is another one.
    pub(crate) fn start_again(&mut self) {
        let mut names = Command::new("pebble-challtestsrv");
        let (dns, management) = (format!("127.0.0.1:{}", self.dns), format!("127.0.0.1:{}", free()));
        names.args(["-dns01", &dns, "-management", &management, "-defaultIPv6", ""]);
        names.args(["-http01", "", "-https01", "", "-tlsalpn01", ""]);
        let mut pebble = Command::new("pebble");
        pebble.arg("-config").arg(self.folder.path().join("pebble.json")).args(["-dnsserver", &dns]);
        // Without its pauses of up to 15 seconds. One request in twenty is refused by its nonce, as it is without this.
        pebble.env("PEBBLE_VA_NOSLEEP", "1");
        for command in [&mut names, &mut pebble] {
            let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            self.guardians.push(guardian(process.id()));
            self.processes.push(process);
        }
        for port in [self.port, self.management, self.dns] {
            let listens = until_blocking(|| TcpStream::connect(("127.0.0.1", port)).ok());
            assert!(listens.is_some(), "Pebble did not start");
        }
    }

    /// Ends it as a crash does.
    pub(crate) fn stop(&mut self) {
        for mut process in self.guardians.drain(..).chain(self.processes.drain(..)) {
            let _ended_already = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }

    /// What its own certificate is verified by.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    /// The root of the certificates that it issues.
    pub(crate) async fn root(&self) -> Certificate {
        install_ring();
        let own = Certificate::from_pem(&std::fs::read(self.ca_file()).unwrap()).unwrap();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([own]).build().unwrap();
        let url = format!("https://localhost:{}/roots/0", self.management);
        let pem = client.get(url).send().await.unwrap().text().await.unwrap();
        Certificate::from_pem(pem.as_bytes()).unwrap()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
    }
}
