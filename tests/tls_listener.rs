//! A data listener with TLS: HTTP/2 and HTTP/1.1 by ALPN, and a certificate replaced while running.
//!
//! Not TLS towards providers (`failures`).

use crate::support::client::install_ring;
use crate::support::gateway::Gateway;
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{ports, sse};
use rcgen::{CertifiedKey, KeyPair};
use reqwest::{Certificate, Client, Version};
use serde_json::json;
use std::path::Path;

fn new_pair() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

/// One that expires at the beginning of this year.
fn pair_until(year: i32) -> CertifiedKey<KeyPair> {
    let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let signing_key = KeyPair::generate().unwrap();
    CertifiedKey { cert: params.self_signed(&signing_key).unwrap(), signing_key }
}

fn write(pair: &CertifiedKey<KeyPair>, folder: &Path) {
    std::fs::write(folder.join("cert.pem"), pair.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), pair.signing_key.serialize_pem()).unwrap();
}

/// A client that trusts only this certificate.
fn trusting(pair: &CertifiedKey<KeyPair>, h1_only: bool) -> Client {
    install_ring();
    let authority = Certificate::from_pem(pair.cert.pem().as_bytes()).unwrap();
    let client = Client::builder().no_proxy().tls_certs_only([authority]);
    let client = client.resolve("localhost", ([127, 0, 0, 1], 0).into());
    if h1_only { client.http1_only().build().unwrap() } else { client.build().unwrap() }
}

fn start(folder: &Path, port: u16) -> Gateway {
    let cert = folder.join("cert.pem");
    let key = folder.join("key.pem");
    let listen = format!(
        "listen:
  data: [127.0.0.1:DATA_PORT, {{address: '127.0.0.1:{port}', tls: {{cert: {}, key: {}}}}}]
  control: 127.0.0.1:CONTROL_PORT
emulator: {{listen: 127.0.0.1:EMULATOR_PORT}}",
        cert.display(),
        key.display()
    );
    Gateway::start(&format!("{listen}{STANDARD}"))
}

#[tokio::test]
async fn both_http_versions_are_spoken_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let pair = new_pair();
    let port = ports::free();
    write(&pair, folder.path());
    let gateway = start(folder.path(), port);
    for (h1_only, version) in [(false, Version::HTTP_2), (true, Version::HTTP_11)] {
        for stream in [false, true] {
            let call = trusting(&pair, h1_only).post(format!("https://localhost:{port}/v1/chat/completions"));
            let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
            let body =
                json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": stream});
            let response = call.json(&body).send().await.unwrap();
            assert_eq!((response.status().as_u16(), response.version()), (200, version), "{stream}");
            let text = response.text().await.unwrap();
            assert_eq!(sse::events(&text).is_empty(), !stream, "{text}");
        }
    }
    drop(gateway);
}

#[tokio::test]
async fn a_renewed_certificate_is_served_without_a_restart_and_a_bad_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let old = pair_until(2098);
    let port = ports::free();
    write(&old, folder.path());
    let gateway = start(folder.path(), port);
    let reaches = async |pair: &CertifiedKey<KeyPair>| {
        let call = trusting(pair, true).get(format!("https://localhost:{port}/v1/models"));
        call.send().await.is_ok()
    };
    assert!(reaches(&old).await);
    let expires = async |year: i16| {
        let series =
            format!("turnpike_certificate_expiry_timestamp_seconds{{file=\"{}", folder.path().display());
        let wanted = jiff::civil::date(year, 1, 1).to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
        until("the expiry in the metrics", async || {
            (gateway.metric(&series).await == Some(wanted.as_second() as f64)).then_some(())
        })
        .await;
    };
    expires(2098).await;

    let new = pair_until(2099);
    write(&new, folder.path());
    until("the renewed certificate", async || reaches(&new).await.then_some(())).await;
    assert!(!reaches(&old).await, "the old certificate is still served");
    expires(2099).await;

    std::fs::write(folder.path().join("key.pem"), "no key").unwrap();
    until("the error about the invalid pair", async || {
        let lines = gateway.stderr.lines_with("certificate not reloaded");
        (!lines.is_empty()).then_some(())
    })
    .await;
    assert!(reaches(&new).await, "an invalid pair replaced a valid one");
}
