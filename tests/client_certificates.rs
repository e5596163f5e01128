//! Listeners that want certificates of clients: required and optional ones, what a certificate stands for, revocation while running.
//!
//! And the certificate that the gateway presents to a provider: another gateway with such a listener.
//!
//! Not the listener's own certificate (`tls_listener`).

use crate::support::client::{client, hello, install_ring, new_trace};
use crate::support::gateway::Gateway;
use crate::support::ports;
use crate::support::settings::{KEY, OTHER_KEY, STANDARD};
use crate::support::wait::until;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer, KeyIdMethod,
    KeyPair, KeyUsagePurpose, RevocationReason, RevokedCertParams, SerialNumber, date_time_ymd,
};
use reqwest::{Certificate, Client, Identity};
use serde_json::Value;
use std::path::Path;

/// An authority of clients' certificates.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A client's certificate with its key, PEM.
    fn client(&self, name: &str, serial: u64) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        format!("{}{}", certificate.pem(), key.serialize_pem())
    }

    fn revoke(&self, serials: &[u64], file: &Path) {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: Some(RevocationReason::KeyCompromise),
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2099, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        std::fs::write(file, list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
    }
}

/// A gateway with a listener that requires certificates, and one that only takes them.
struct Setup {
    gateway: Gateway,
    authority: Authority,
    folder: tempfile::TempDir,
    server: String,
    required: u16,
    optional: u16,
}

impl Setup {
    fn new() -> Self {
        install_ring();
        let folder = tempfile::tempdir().unwrap();
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        write("cert.pem", pair.cert.pem());
        write("key.pem", pair.signing_key.serialize_pem());
        let authority = Authority::new("clients");
        write("ca.pem", authority.pem.clone());
        authority.revoke(&[], &folder.path().join("crl.pem"));
        let required = ports::free();
        let optional = ports::free();
        let files = "cert: FOLDER/cert.pem, key: FOLDER/key.pem, client_ca: FOLDER/ca.pem, client_crl: FOLDER/crl.pem";
        let listen = format!(
            "listen:
  data:
    - 127.0.0.1:DATA_PORT
    - {{address: '127.0.0.1:{required}', tls: {{{files}}}}}
    - {{address: '127.0.0.1:{optional}', tls: {{{files}, client_certificates: optional}}}}
  control: 127.0.0.1:CONTROL_PORT
emulator: {{listen: 127.0.0.1:EMULATOR_PORT}}"
        );
        let listen = listen.replace("FOLDER", &folder.path().display().to_string());
        let mapped = "scopes: [administration]}\n  client_certificates: {team-a: tests}\n";
        let standard = STANDARD.replace("scopes: [administration]}\n", mapped);
        let gateway = Gateway::start(&format!("{listen}{standard}default_config: '@emulator'\n"));
        Self { gateway, authority, server: pair.cert.pem(), folder, required, optional }
    }

    /// A client that makes a new connection for each request, and may resume the session of an earlier one.
    fn client(&self, identity: Option<&str>) -> Client {
        let server = Certificate::from_pem(self.server.as_bytes()).unwrap();
        let client = Client::builder().no_proxy().tls_certs_only([server]).pool_max_idle_per_host(0);
        let client = match identity {
            Some(pem) => client.identity(Identity::from_pem(pem.as_bytes()).unwrap()),
            None => client,
        };
        client.build().unwrap()
    }

    /// The status of a chat without a key, or with one, and the name of the key it was counted for.
    async fn chat(&self, client: &Client, port: u16, key: Option<&str>) -> Option<(u16, Value)> {
        let trace = new_trace();
        let call = client.post(format!("https://localhost:{port}/v1/chat/completions")).json(&hello(false));
        let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-trace-id", &trace);
        let call = if let Some(key) = key { call.header("x-gateway-api-key", key) } else { call };
        let status = call.send().await.ok()?.status().as_u16();
        Some((status, self.gateway.access_line(&trace).await["key"].clone()))
    }
}

#[tokio::test]
async fn a_certificate_is_demanded_and_stands_for_a_key() {
    let setup = Setup::new();
    let team = setup.client(Some(&setup.authority.client("team-a", 7)));
    let tests = || Some((200, Value::from("tests")));
    assert_eq!(setup.chat(&team, setup.required, None).await, tests());
    assert_eq!(setup.chat(&team, setup.optional, None).await, tests());
    // A key in the request counts alone, a wrong one as well.
    assert_eq!(setup.chat(&team, setup.required, Some(OTHER_KEY)).await, Some((200, Value::from("others"))));
    assert_eq!(setup.chat(&team, setup.required, Some("wrong")).await, Some((401, Value::Null)));
    // The control plane at this port.
    let own =
        team.get(format!("https://localhost:{}/v1/api-keys/self", setup.required)).send().await.unwrap();
    assert_eq!(own.status(), 200);
    let own: Value = own.json().await.unwrap();
    assert_eq!(own["name"], "tests", "{own}");
    let missing =
        team.get(format!("https://localhost:{}/v1/logs/a/b/c", setup.required)).send().await.unwrap();
    assert_eq!(missing.status(), 404);
    // A browser presents its certificate for the pages of all origins.
    for path in ["api-keys/self", "logs/a/b/c"] {
        let of_page = team.get(format!("https://localhost:{}/v1/{path}", setup.required));
        assert_eq!(of_page.header("origin", "https://other.example").send().await.unwrap().status(), 401);
    }
    let of_page = team.post(format!("https://localhost:{}/v1/chat/completions", setup.required));
    let of_page = of_page.header("origin", "https://other.example").header("content-type", "text/plain");
    let of_page = of_page.header("x-gateway-provider", "@emulator").body(hello(false).to_string());
    assert_eq!(of_page.send().await.unwrap().status(), 401);
    // Another name stands for no key.
    let other = setup.client(Some(&setup.authority.client("team-b", 8)));
    assert_eq!(setup.chat(&other, setup.required, None).await, Some((401, Value::Null)));
    assert_eq!(setup.chat(&other, setup.required, Some(OTHER_KEY)).await, Some((200, Value::from("others"))));
    // Without a certificate, and with one of another authority.
    let none = setup.client(None);
    assert_eq!(setup.chat(&none, setup.required, Some(OTHER_KEY)).await, None);
    assert_eq!(setup.chat(&none, setup.optional, Some(OTHER_KEY)).await, Some((200, Value::from("others"))));
    let foreign = setup.client(Some(&Authority::new("clients").client("team-a", 7)));
    for port in [setup.required, setup.optional] {
        assert_eq!(setup.chat(&foreign, port, Some(OTHER_KEY)).await, None);
    }
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_without_a_restart_and_a_bad_list_changes_nothing() {
    let setup = Setup::new();
    let revoked = setup.client(Some(&setup.authority.client("team-a", 7)));
    let good = setup.client(Some(&setup.authority.client("team-a", 8)));
    assert_eq!(setup.chat(&revoked, setup.required, None).await.unwrap().0, 200);
    let list = setup.folder.path().join("crl.pem");
    setup.authority.revoke(&[7], &list);
    // Also where it resumes its earlier session.
    for port in [setup.required, setup.optional] {
        until("the certificate to be refused", async || {
            setup.chat(&revoked, port, None).await.is_none().then_some(())
        })
        .await;
        assert_eq!(setup.chat(&good, port, None).await.unwrap().0, 200);
    }
    std::fs::write(list, "no list").unwrap();
    until("the error about the invalid list", async || {
        (!setup.gateway.stderr.lines_with("holds no revocation list").is_empty()).then_some(())
    })
    .await;
    assert_eq!(setup.chat(&revoked, setup.required, None).await, None);
    assert_eq!(setup.chat(&good, setup.required, None).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_provider_gets_the_certificate_of_its_settings_and_no_other_does() {
    let setup = Setup::new();
    let folder = setup.folder.path();
    let identity = setup.authority.client("team-a", 9);
    let (certificate, key) = identity.split_at(identity.find("-----BEGIN PRIVATE KEY").unwrap());
    std::fs::write(folder.join("gateway.pem"), certificate).unwrap();
    std::fs::write(folder.join("gateway.key"), key).unwrap();
    let host = format!(
        "provider: openai, api_key: {OTHER_KEY}, custom_host: 'https://localhost:{}/v1'",
        setup.required
    );
    let files = format!("cert: {0}/gateway.pem, key: {0}/gateway.key", folder.display());
    let providers =
        format!("providers:\n  certified: {{{host}, client_certificate: {{{files}}}}}\n  bare: {{{host}}}\n");
    let standard = STANDARD.replace("providers:\n", &providers);
    let outer = Gateway::start(&format!("{standard}tls: {{ca_file: {}/cert.pem}}\n", folder.display()));
    for (provider, expected) in [("@certified", 200), ("@bare", 502), ("@certified", 200)] {
        let call = client().post(format!("{}/chat/completions", outer.base_url())).json(&hello(true));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", provider);
        let response = call.header("x-gateway-trace-id", new_trace()).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        assert_eq!(status, expected, "{provider}: {text}\n{}", outer.log());
    }
}
