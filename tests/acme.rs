//! Certificates that a real authority (Pebble) issues to listeners: the first one, renewal, an authority that is away, restarts, upgrades.
//!
//! When a certificate is due, and how long is waited after a failure, is tested beside the code (`src/main/acme/schedule.rs`).

use crate::support::Gateway;
use crate::support::client::install_ring;
use crate::support::gateway::guardian;
use crate::support::pebble::{HMAC_KEY, Pebble, PebbleOptions};
use crate::support::ports;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use reqwest::redirect::Policy;
use reqwest::tls::TlsInfo;
use reqwest::{Certificate, Client};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Settings with a listener for these names at `port`.
fn settings(pebble: &Pebble, port: u16, names: &str, challenge: &str) -> String {
    let listen = format!(
        "listen:
  data: [127.0.0.1:DATA_PORT, {{address: '127.0.0.1:{port}', tls: {{acme: [{names}]}}}}]
  control: 127.0.0.1:CONTROL_PORT
emulator: {{listen: 127.0.0.1:EMULATOR_PORT}}
acme:
  terms_of_service_agreed: true
  directory: {}
  ca_file: {}
  {challenge}",
        pebble.directory(),
        pebble.ca_file().display()
    );
    format!("{listen}{STANDARD}")
}

/// The certificate that a client gets which trusts this root; `None`: it does not connect.
async fn certificate(name: &str, port: u16, root: &Certificate) -> Option<Vec<u8>> {
    install_ring();
    let client = Client::builder().no_proxy().tls_certs_only([root.clone()]).tls_info(true);
    presented(client.resolve(name, ([127, 0, 0, 1], 0).into()).build().unwrap(), name, port).await
}

/// The certificate that anyone gets, good or not.
async fn any_certificate(name: &str, port: u16) -> Option<Vec<u8>> {
    install_ring();
    let client = Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).tls_info(true);
    presented(client.resolve(name, ([127, 0, 0, 1], 0).into()).build().unwrap(), name, port).await
}

async fn presented(client: Client, name: &str, port: u16) -> Option<Vec<u8>> {
    let response = client.get(format!("https://{name}:{port}/v1/models")).send().await.ok()?;
    Some(response.extensions().get::<TlsInfo>()?.peer_certificate()?.to_vec())
}

async fn first_certificate(name: &str, port: u16, root: &Certificate) -> Vec<u8> {
    until("the first certificate", async || certificate(name, port, root).await).await
}

async fn orders(gateway: &Gateway, outcome: &str) -> f64 {
    let series = format!("turnpike_certificate_orders_total{{outcome=\"{outcome}\"}}");
    gateway.metric(&series).await.unwrap()
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test]
async fn a_certificate_for_two_names_is_issued_and_kept_over_a_restart() {
    for challenge in ["tls-alpn-01", "http-01"] {
        let Some(pebble) = Pebble::start(PebbleOptions::default()) else { return };
        let is_http = challenge == "http-01";
        let port = if is_http { ports::free() } else { pebble.tls_port };
        let how = match is_http {
            true => format!("redirect_http: true\n  http_listen: 127.0.0.1:{}", pebble.http_port),
            false => "contact: [ops@example.com]".to_owned(),
        };
        let how = format!("challenge: {challenge}\n  {how}");
        let gateway = Gateway::start(&settings(&pebble, port, "a.example, B.example", &how));
        let root = pebble.root().await;
        let first = first_certificate("a.example", port, &root).await;
        assert_eq!(certificate("b.example", port, &root).await.as_ref(), Some(&first), "{challenge}");
        assert_eq!(certificate("c.example", port, &root).await, None, "it is for these names alone");
        until("the count", async || (orders(&gateway, "issued").await == 1.0).then_some(())).await;
        assert_eq!(orders(&gateway, "refused").await, 0.0);
        let kept = files(&gateway.folder().join("data/acme"));
        assert_eq!(kept.len(), 4, "account, certificate, history and lock: {kept:?}");
        for file in &kept {
            let mode = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", file.display());
        }
        let series = "turnpike_certificate_expiry_timestamp_seconds{file=";
        let expires = gateway.metric(series).await.unwrap();
        assert!(expires > jiff::Timestamp::now().as_second() as f64);
        if is_http {
            redirects(pebble.http_port).await;
        } else {
            nothing_is_served_to_an_authority(port).await;
        }

        let gateway = gateway.killed_and_started_again();
        assert_eq!(certificate("a.example", port, &root).await, Some(first), "it is there at once");
        assert!(gateway.stderr.lines_with("ordering it of").is_empty(), "{}", gateway.log());
    }
}

/// The listener of HTTP-01 serves nothing, and sends browsers to the names of the certificates.
async fn redirects(port: u16) {
    let client = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
    let get = async |host: &str, path: &str| {
        let url = format!("http://127.0.0.1:{port}{path}");
        let response = client.get(url).header("host", host).send().await.unwrap();
        let location = response.headers().get("location").map_or("", |to| to.to_str().unwrap()).to_owned();
        (response.status().as_u16(), location)
    };
    assert_eq!(get("a.example", "/v1/x?y=1").await, (308, "https://a.example/v1/x?y=1".to_owned()));
    assert_eq!(get("evil.example", "/").await, (404, String::new()));
    assert_eq!(get("a.example", "/.well-known/acme-challenge/guess").await, (404, String::new()));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n").await.unwrap();
    let mut response = String::new();
    // To the end of the connection, which the request does not ask for.
    stream.read_to_string(&mut response).await.unwrap();
    assert!(response.to_lowercase().contains("connection: close"), "{response}");
}

/// Without an order, the protocol of authorities is none of the listener's.
async fn nothing_is_served_to_an_authority(port: u16) {
    let command = format!(
        "openssl s_client -connect 127.0.0.1:{port} -servername a.example -alpn acme-tls/1 </dev/null 2>&1"
    );
    let output = tokio::task::spawn_blocking(move || Command::new("sh").args(["-c", &command]).output());
    let text = String::from_utf8(output.await.unwrap().unwrap().stdout).unwrap();
    assert!(text.contains("no application protocol"), "{text}");
}

#[tokio::test]
async fn a_certificate_is_renewed_and_serves_on_while_the_authority_is_away() {
    let options = PebbleOptions { lifetime: 12, ..PebbleOptions::default() };
    let Some(mut pebble) = Pebble::start(options) else { return };
    let port = pebble.tls_port;
    let gateway = Gateway::start(&settings(&pebble, port, "a.example", ""));
    let root = pebble.root().await;
    let first = first_certificate("a.example", port, &root).await;
    let second = until("the renewed certificate", async || {
        certificate("a.example", port, &root).await.filter(|one| *one != first)
    })
    .await;

    pebble.stop();
    until("an order that fails", async || (orders(&gateway, "unreachable").await >= 1.0).then_some(())).await;
    let served = any_certificate("a.example", port).await.expect("it serves on");
    assert!(served != first, "{}", gateway.log());
    let log = gateway.stderr.lines_with("not issued (1 in a row");
    assert_eq!(log.len(), 1, "{}", gateway.log());

    // It has forgotten the account, and its root is another one.
    pebble.start_again();
    let root = pebble.root().await;
    let third = first_certificate("a.example", port, &root).await;
    assert!(third != first && third != second);
    assert!(!gateway.stderr.lines_with("does not have the account any more").is_empty(), "{}", gateway.log());
}

#[tokio::test]
async fn an_upgrade_orders_no_second_certificate() {
    let Some(pebble) = Pebble::start(PebbleOptions::default()) else { return };
    let http = format!("challenge: http-01\n  http_listen: 127.0.0.1:{}", pebble.http_port);
    let port = ports::free();
    let gateway = Gateway::start_with(&settings(&pebble, port, "a.example", &http), &|command| {
        command.env("RUNTIME_DIRECTORY", ".");
    });
    let root = pebble.root().await;
    let first = first_certificate("a.example", port, &root).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnpike"));
    command.arg("upgrade").current_dir(gateway.folder()).env("RUNTIME_DIRECTORY", ".");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let id: u32 = text.strip_prefix("process ").unwrap().split(' ').next().unwrap().parse().unwrap();
    let mut ends_with_the_test = guardian(id);
    assert!(gateway.ended().await.success());
    assert_eq!(certificate("a.example", port, &root).await, Some(first));
    // The new process has both listeners of the old one.
    redirects_nothing(pebble.http_port).await;
    assert_eq!(gateway.stderr.lines_with("ordering it of").len(), 1, "{}", gateway.log());
    assert_eq!(orders(&gateway, "issued").await, 1.0);
    drop(ends_with_the_test.stdin.take());
    ends_with_the_test.wait().unwrap();
}

async fn redirects_nothing(port: u16) {
    let client = Client::builder().no_proxy().redirect(Policy::none()).build().unwrap();
    let response = client.get(format!("http://127.0.0.1:{port}/")).header("host", "a.example").send().await;
    assert_eq!(response.unwrap().status(), 404);
}

/// Kills the gateway and starts it again: it orders nothing, and says until when.
async fn waits_after_a_restart(gateway: Gateway) -> Gateway {
    let gateway = gateway.killed_and_started_again();
    until("what it says at the start", async || {
        let lines = gateway.stderr.lines_with("the last order failed, the next is on");
        (!lines.is_empty()).then_some(())
    })
    .await;
    assert!(gateway.stderr.lines_with("ordering it of").is_empty(), "{}", gateway.log());
    gateway
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_is_refused_and_not_ordered_again_at_once() {
    let Some(pebble) = Pebble::start(PebbleOptions::default()) else { return };
    // Nothing listens where the authority connects to.
    let port = ports::free();
    let yaml = settings(&pebble, port, "a.example", "");
    let gateway = Gateway::start(&yaml);
    until("the order", async || (orders(&gateway, "refused").await == 1.0).then_some(())).await;
    let log = gateway.stderr.lines_with("certificate for a.example: not issued (1 in a row");
    assert!(
        log[0].contains("Failed to connect to 127.0.0.1") && log[0].contains("fail in the handshake"),
        "{log:?}"
    );
    assert_eq!(any_certificate("a.example", port).await, None);
    let folder = gateway.folder();
    let doctor = Command::new(env!("CARGO_BIN_EXE_turnpike"))
        .args(["doctor", "-c", "turnpike.yaml"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8(doctor.stdout).unwrap();
    assert!(text.contains("for a.example: the authority has not issued one yet"), "{text}");
    assert!(text.contains("the last order failed, the next is on"), "{text}");
    assert!(text.contains("Failed to connect"), "{text}");

    waits_after_a_restart(gateway).await;
}

#[tokio::test]
async fn an_order_that_a_kill_cuts_off_is_not_ordered_again_at_once() {
    let Some(pebble) = Pebble::start(PebbleOptions::default()) else { return };
    // It takes connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let directory = format!("https://127.0.0.1:{}/dir", silent.local_addr().unwrap().port());
    let yaml = settings(&pebble, pebble.tls_port, "a.example", "");
    let gateway = Gateway::start(&yaml.replace(&pebble.directory(), &directory));
    until("the order", async || (!gateway.stderr.lines_with("ordering it of").is_empty()).then_some(()))
        .await;

    let gateway = waits_after_a_restart(gateway).await;
    assert_eq!(gateway.metric("turnpike_certificate_failed_orders").await, Some(1.0));
}

#[tokio::test]
async fn a_name_that_is_added_does_not_close_the_port_for_the_others() {
    let Some(mut pebble) = Pebble::start(PebbleOptions::default()) else { return };
    let port = pebble.tls_port;
    let gateway = Gateway::start(&settings(&pebble, port, "a.example", ""));
    let root = pebble.root().await;
    let first = first_certificate("a.example", port, &root).await;
    until("the count", async || (orders(&gateway, "issued").await == 1.0).then_some(())).await;
    pebble.stop();
    let file = gateway.folder().join("turnpike.yaml");
    let yaml = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, yaml.replace("acme: [a.example]", "acme: [a.example, b.example]")).unwrap();

    let gateway = gateway.killed_and_started_again();
    assert_eq!(certificate("a.example", port, &root).await, Some(first.clone()), "that of before");
    assert_eq!(certificate("b.example", port, &root).await, None);
    until("an order that fails", async || (orders(&gateway, "unreachable").await >= 1.0).then_some(())).await;
    assert!(!gateway.stderr.lines_with("one of other names is in use").is_empty(), "{}", gateway.log());
    pebble.start_again();
    let root = pebble.root().await;
    let second = first_certificate("b.example", port, &root).await;
    assert_ne!(second, first);
    assert_eq!(certificate("a.example", port, &root).await, Some(second));
}

#[tokio::test]
async fn a_certificate_is_served_where_the_authorities_of_clients_cannot_be_read() {
    let Some(mut pebble) = Pebble::start(PebbleOptions::default()) else { return };
    let port = pebble.tls_port;
    let folder = tempfile::tempdir().unwrap();
    let clients = folder.path().join("clients.pem");
    std::fs::copy(pebble.ca_file(), &clients).unwrap();
    let members = format!("client_ca: {}, client_certificates: optional", clients.display());
    let yaml = settings(&pebble, port, "a.example", "");
    pebble.stop();
    let gateway =
        Gateway::start(&yaml.replace("acme: [a.example]", &format!("acme: [a.example], {members}")));
    until("an order that fails", async || (orders(&gateway, "unreachable").await >= 1.0).then_some(())).await;
    std::fs::write(&clients, "no PEM").unwrap();
    pebble.start_again();
    let root = pebble.root().await;
    let first = first_certificate("a.example", port, &root).await;
    until("the count", async || (orders(&gateway, "issued").await == 1.0).then_some(())).await;
    until("the mistake", async || {
        (!gateway.stderr.lines_with("clients.pem: holds no certificate").is_empty()).then_some(())
    })
    .await;
    // Without a certificate in use it would be ordered again.
    let lines = gateway.stderr.lines_with("issued; the one in use is good until");
    assert_eq!(lines.len(), 1, "{}", gateway.log());
    assert_eq!(certificate("a.example", port, &root).await, Some(first));
    assert_eq!(gateway.metric("turnpike_certificate_failed_orders").await, Some(0.0));
}

#[tokio::test]
async fn an_account_is_bound_to_one_that_the_authority_has() {
    let options = PebbleOptions { external_accounts: true, ..PebbleOptions::default() };
    let Some(pebble) = Pebble::start(options) else { return };
    let external = format!("external_account: {{key_id: kid-1, hmac_key: {HMAC_KEY}}}");
    let gateway = Gateway::start(&settings(&pebble, pebble.tls_port, "a.example", &external));
    first_certificate("a.example", pebble.tls_port, &pebble.root().await).await;
    drop(gateway);
    let gateway = Gateway::start(&settings(&pebble, pebble.tls_port, "a.example", ""));
    until("the order without it", async || (orders(&gateway, "refused").await == 1.0).then_some(())).await;
    assert!(gateway.log().contains("externalAccountRequired"), "{}", gateway.log());
}
