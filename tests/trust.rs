//! TLS on both sides: a listener with a renewed certificate, and providers trusted only by `tls.ca_file`.
//!
//! The provider is another gateway with a TLS listener, whose emulator responds.

use crate::support::Gateway;
use crate::support::client::{chat, client, hello, new_trace};
use crate::support::command::turnpike;
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::Path;

/// A certificate authority for the test.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Writes a certificate for 127.0.0.1 and its key as `cert.pem` and `key.pem`.
    fn issue(&self, folder: &Path) {
        self.issue_for(folder, "127.0.0.1");
    }

    /// The same for another name.
    pub(crate) fn issue_for(&self, folder: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        std::fs::write(folder.join("cert.pem"), params.signed_by(&key, &self.0).unwrap().pem()).unwrap();
        std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    }
}

/// A gateway with TLS on its data port; `/readyz` is polled on the control port.
pub(crate) fn with_tls(folder: &Path) -> Gateway {
    let listen = format!(
        "listen:\n  data: [{{address: '127.0.0.1:DATA_PORT', tls: {{cert: {0}/cert.pem, key: {0}/key.pem}}}}]\n  \
         control: 127.0.0.1:CONTROL_PORT\nemulator: {{listen: '127.0.0.1:EMULATOR_PORT'}}\n",
        folder.display()
    );
    Gateway::start(&format!("{listen}{STANDARD}default_config: '@emulator'\n"))
}

#[tokio::test]
async fn a_provider_is_trusted_by_the_given_authorities_alone() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.issue(folder.path());
    let provider = with_tls(folder.path());
    let settings = STANDARD
        .replace(
            "http://127.0.0.1:EMULATOR_PORT/v1",
            &format!("https://127.0.0.1:{}/v1", provider.ports.data),
        )
        .replace("api_key: sk-emulator-0123456789", &format!("api_key: {KEY}"));
    let ca_file = folder.path().join("ca.pem");
    let trusting = format!("{settings}tls: {{ca_file: {}}}\n", ca_file.display());
    let status = async |gateway: &Gateway| {
        chat(gateway, &new_trace(), &hello(false)).send().await.unwrap().status().as_u16()
    };

    std::fs::write(&ca_file, authority.pem()).unwrap();
    assert_eq!(status(&Gateway::start(&trusting)).await, 200);
    std::fs::write(&ca_file, Authority::new().pem()).unwrap();
    assert_eq!(status(&Gateway::start(&trusting)).await, 502, "signed by another authority");
    let plain = Gateway::start(&settings);
    assert_eq!(status(&plain).await, 502, "signed by no built-in authority");
    plain.reload(&trusting);
    until("the warning", async || {
        plain.stderr.lines_with("changes of tls.ca_file take effect after a restart").first().cloned()
    })
    .await;

    std::fs::write(&ca_file, "no certificate").unwrap();
    let file = folder.path().join("turnpike.yaml");
    std::fs::write(&file, format!("tls: {{ca_file: {}}}\n", ca_file.display())).unwrap();
    let end = turnpike(&["run", "-c", file.to_str().unwrap()]);
    assert!(end.code == Some(1) && end.stderr.contains("tls.ca_file"), "{end:?}");
}

#[tokio::test]
async fn a_renewed_certificate_is_served_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = Authority::new();
    let second = Authority::new();
    first.issue(folder.path());
    let gateway = with_tls(folder.path());
    let _ring = client();
    let trusting = |authority: &Authority| {
        let root = reqwest::Certificate::from_pem(authority.pem().as_bytes()).unwrap();
        reqwest::Client::builder().no_proxy().tls_certs_only([root]).build().unwrap()
    };
    let url = format!("https://127.0.0.1:{}/livez", gateway.ports.data);
    let response = trusting(&first).get(&url).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, reqwest::Version::HTTP_2));
    assert!(trusting(&second).get(&url).send().await.is_err());

    second.issue(folder.path());
    until("the new certificate", async || trusting(&second).get(&url).send().await.ok()).await;

    // A renewal that is half done changes nothing.
    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    until("the error", async || gateway.stderr.lines_with("certificate not reloaded").first().cloned()).await;
    assert_eq!(trusting(&second).get(&url).send().await.unwrap().status(), 200);
}
