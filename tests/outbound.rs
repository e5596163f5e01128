//! Outbound proxies: what goes through one, what it is handed, what its failures are for clients and operators.
//!
//! The proxy leads every host to this machine, so that names and addresses of others can be called. Not what a proxy is handed by who
//! named the host (`src/memory/net/outbound/proxied`), nor the variables of the environment one by one (`src/words/settings/outbound`).

use crate::support::client::{client, hello, new_trace};
use crate::support::command::turnpike;
use crate::support::proxy_server::{Leads, ProxyServer};
use crate::support::settings::{KEY, STANDARD};
use crate::support::upstream::Upstream;
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use crate::trust::{Authority, with_tls};
use reqwest::{RequestBuilder, Response};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;
use std::path::Path;

const REFUSED: &str = "HTTP/1.1 403 Not this host\r\ncontent-length: 0\r\n\r\n";
const LOST: &str = "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n";
const UNKNOWN: &str =
    "HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n";

/// Two providers that only the proxy can reach, and `more`.
fn settings(more: &str) -> String {
    let far = "providers:\n  far: {provider: openai, api_key: sk-far, custom_host: 'http://provider.test/v1'}\n  \
               secure: {provider: openai, api_key: KEY, custom_host: 'https://provider.test/v1'}\n";
    let settings = STANDARD.replace("providers:\n", &far.replace("KEY", KEY));
    format!("{settings}{more}\n")
}

fn through(proxy: &ProxyServer) -> String {
    settings(&format!("outbound: {{proxy: 'http://user:canary-pass@127.0.0.1:{}'}}", proxy.port))
}

fn call(gateway: &Gateway, slug: &str, trace: &str) -> RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-trace-id", trace);
    call.header("x-gateway-provider", slug)
}

async fn chat(gateway: &Gateway, slug: &str) -> Response {
    call(gateway, slug, &new_trace()).send().await.unwrap()
}

#[tokio::test]
async fn plain_targets_get_absolute_requests_and_sockets_a_tunnel() {
    let provider = gateway();
    let proxy = ProxyServer::start(Leads::To(provider.ports.emulator)).await;
    let gateway = Gateway::start(&through(&proxy));
    assert_eq!(chat(&gateway, "@far").await.status(), 200);
    let header = proxy.headers().remove(0).to_ascii_lowercase();
    assert!(header.starts_with("post http://provider.test/v1/chat/completions http/1.1\r\n"), "{header}");
    // user:canary-pass
    assert!(header.contains("\r\nproxy-authorization: basic dxnlcjpjyw5hcnktcgfzcw==\r\n"), "{header}");
    assert!(header.contains("\r\nhost: provider.test\r\n"), "{header}");

    // What Pingora proxies natively.
    let download = client().get(format!("{}/proxy/files/x/content", gateway.base_url()));
    let download = download.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@far");
    let _ = download.send().await.unwrap();
    let upload = client().post(format!("{}/proxy/weather/upload", gateway.base_url())).body(vec![7; 1 << 20]);
    let upload = upload.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@far");
    assert_eq!(upload.send().await.unwrap().status(), 200);
    let socket = client().get(format!("{}/realtime?model=m", gateway.base_url()));
    let socket = socket.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@far");
    let socket = socket.header("connection", "upgrade").header("upgrade", "websocket");
    let socket = socket.header("sec-websocket-version", "13");
    let socket = socket.header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let socket = socket.header("x-emulator-script", "latency=100");
    assert_eq!(socket.send().await.unwrap().status(), 101);
    let lines = proxy.lines();
    for wanted in
        ["GET http://provider.test/v1/files/x/content HTTP/1.1", "CONNECT provider.test:80 HTTP/1.1"]
    {
        assert!(lines.iter().any(|line| line == wanted), "{wanted}: {lines:?}");
    }
    // The emulator of the standard settings is on loopback.
    assert_eq!(chat(&gateway, "@emulator").await.status(), 200);
    assert_eq!(proxy.lines().len(), lines.len(), "this machine is reached directly");
}

#[tokio::test]
async fn tls_goes_through_one_tunnel_and_is_verified_for_the_provider() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, authority.pem()).unwrap();
    for (name, status) in [("provider.test", 200), ("other.test", 502)] {
        authority.issue_for(folder.path(), name);
        let provider = with_tls(folder.path());
        let proxy = ProxyServer::start(Leads::To(provider.ports.data)).await;
        let gateway =
            Gateway::start(&format!("{}tls: {{ca_file: {}}}\n", through(&proxy), ca_file.display()));
        for _ in 0..3 {
            assert_eq!(chat(&gateway, "@secure").await.status(), status, "{name}");
        }
        let lines = proxy.lines();
        assert!(lines.iter().all(|line| line == "CONNECT provider.test:443 HTTP/1.1"), "{lines:?}");
        if status == 200 {
            assert_eq!(lines.len(), 1, "the connection is used again");
        }
    }
}

#[tokio::test]
async fn a_proxy_may_have_tls_itself() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, authority.pem()).unwrap();
    authority.issue_for(folder.path(), "127.0.0.1");
    let chain = CertificateDer::from_pem_file(folder.path().join("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.path().join("key.pem")).unwrap();
    let _ring = client();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![chain], key).unwrap();
    authority.issue_for(folder.path(), "provider.test");
    let provider = with_tls(folder.path());
    let proxy = ProxyServer::with_tls(Leads::To(provider.ports.data), config).await;
    let gateway = Gateway::start(&settings(&format!(
        "outbound: {{proxy: 'https://127.0.0.1:{}'}}\ntls: {{ca_file: {}}}",
        proxy.port,
        ca_file.display()
    )));
    for _ in 0..3 {
        assert_eq!(chat(&gateway, "@secure").await.status(), 200);
    }
    assert_eq!(proxy.lines(), ["CONNECT provider.test:443 HTTP/1.1"], "the connection is used again");
}

#[tokio::test]
async fn what_a_proxy_refuses_is_named_retried_and_counted() {
    for (answer, slug, shown) in [
        (REFUSED, "@secure", "refused the connection (403)"),
        (LOST, "@secure", "could not connect to it (502)"),
        (UNKNOWN, "@secure", "(407)"),
        // A forwarding proxy answers in the provider's place.
        (UNKNOWN, "@far", "(407)"),
    ] {
        let proxy = ProxyServer::start(Leads::Refuses(answer)).await;
        let gateway = Gateway::start(&through(&proxy));
        let trace = new_trace();
        let response = call(&gateway, slug, &trace).send().await.unwrap();
        assert_eq!(response.status(), 502);
        let body: Value = response.json().await.unwrap();
        let message = body["error"]["message"].as_str().unwrap();
        assert_eq!(body["error"]["code"], "proxy_refused", "{body}");
        assert!(message.contains(&proxy.url()) && message.contains(shown), "{message}");
        let line = gateway.access_line(&trace).await.to_string();
        assert!(line.contains("proxy_refused") && !line.contains("canary-pass"), "{line}");
        assert!(!message.contains("canary-pass") && !gateway.log().contains("canary-pass"));
        let metrics = gateway.metrics().await;
        assert!(metrics.contains("proxy_refused"), "{metrics}");

        let config = format!(
            r#"{{"strategy":{{"mode":"fallback"}},"targets":[{{"provider":"{slug}"}},{{"provider":"@emulator"}}]}}"#
        );
        let before = proxy.lines().len();
        let falling = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
        let falling = falling.header("x-gateway-api-key", KEY).header("x-gateway-config", config);
        assert_eq!(falling.send().await.unwrap().status(), 200, "the next target is reached directly");
        assert_eq!(proxy.lines().len(), before + 1);
    }
}

#[tokio::test]
async fn a_proxy_that_is_down_is_another_error() {
    let gone = crate::support::ports::Ports::free().data;
    let gateway = Gateway::start(&settings(&format!("outbound: {{proxy: '127.0.0.1:{gone}'}}")));
    for slug in ["@far", "@secure"] {
        let response = chat(&gateway, slug).await;
        assert_eq!(response.status(), 502);
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["code"], "proxy_unreachable", "{body}");
        assert!(body.to_string().contains(&format!("http://127.0.0.1:{gone}")), "{body}");
    }
}

#[tokio::test]
async fn the_environment_names_proxies_and_a_provider_its_own() {
    let provider = gateway();
    let proxy = ProxyServer::start(Leads::To(provider.ports.emulator)).await;
    let own = ProxyServer::start(Leads::To(provider.ports.emulator)).await;
    let more = format!(
        "  own: {{provider: openai, custom_host: 'http://127.0.0.1:9/v1', proxy: '{}'}}\n  \
           direct: {{provider: openai, custom_host: 'http://direct.test/v1', proxy: none}}\n  \
           excepted: {{provider: openai, custom_host: 'http://a.excepted.test/v1'}}\nconfigs:\n",
        own.url()
    );
    let yaml = settings("").replacen("configs:\n", &more, 1);
    let gateway = Gateway::start_with(&yaml, &|command| {
        command.env("HTTP_PROXY", proxy.url()).env("NO_PROXY", "excepted.test");
    });
    assert_eq!(chat(&gateway, "@far").await.status(), 200);
    assert_eq!(proxy.lines(), ["POST http://provider.test/v1/chat/completions HTTP/1.1"]);
    assert_eq!(chat(&gateway, "@own").await.status(), 200, "also at an address of this machine");
    assert_eq!(own.lines(), ["POST http://127.0.0.1:9/v1/chat/completions HTTP/1.1"]);
    for slug in ["@direct", "@excepted", "@secure"] {
        let body: Value = chat(&gateway, slug).await.json().await.unwrap();
        assert_eq!(body["error"]["code"], "upstream_unreachable", "{slug}: {body}");
    }
    assert_eq!((proxy.lines().len(), own.lines().len()), (1, 1));

    // A reload changes it.
    gateway.reload(
        &yaml.replace("custom_hosts:\n", &format!("outbound: {{proxy: '{}'}}\ncustom_hosts:\n", own.url())),
    );
    until("the other proxy", async || {
        let _ = chat(&gateway, "@far").await;
        (own.lines().len() > 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn clients_hosts_are_checked_before_the_proxy_hears_of_them() {
    let provider = gateway();
    let proxy = ProxyServer::start(Leads::To(provider.ports.emulator)).await;
    let yaml = through(&proxy).replace("  allow_private: true\n", "  allow: [opened.test]\n");
    let gateway = Gateway::start(&yaml);
    let status = async |host: &str| {
        let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
        let call = call.header("x-gateway-api-key", KEY).bearer_auth("sk-caller");
        let call = call.header("x-gateway-provider", "openai").header("x-gateway-custom-host", host);
        call.send().await.unwrap().status().as_u16()
    };
    for refused in
        ["http://10.0.0.1/v1", "http://169.254.169.254/v1", "http://db.corp/v1", "https://[fd00::1]"]
    {
        assert_eq!(status(refused).await, 400, "{refused}");
    }
    // A name that the gateway cannot resolve cannot be checked.
    assert_eq!(status("http://unknown.example.invalid-tld-of-tests/v1").await, 502);
    assert_eq!(proxy.lines(), [""; 0]);
    assert_eq!(status("http://9.9.9.9:81/v1").await, 200);
    assert_eq!(status("http://opened.test/v1").await, 200);
    let wanted = ["CONNECT 9.9.9.9:81 HTTP/1.1", "POST http://opened.test/v1/chat/completions HTTP/1.1"];
    assert_eq!(proxy.lines(), wanted);
}

#[tokio::test]
async fn the_gateways_own_requests_go_through_it_too() {
    let proxy = ProxyServer::start(Leads::Refuses(REFUSED)).await;
    let more = format!(
        "prices: {{url: 'https://prices.test/data.json'}}\ntelemetry: {{otlp: {{endpoint: 'http://traces.test:4318'}}}}\n\
         outbound: {{proxy: 'http://user:canary-pass@127.0.0.1:{}'}}",
        proxy.port
    );
    let yaml = settings(&more).replace(
        "auth:\n",
        "auth:\n  jwt: {jwks_url: 'https://keys.test/jwks', issuer: 'https://issuer.test', audience: turnpike}\n",
    );
    let gateway = Gateway::start(&yaml);
    let _ = chat(&gateway, "@emulator").await;
    for line in [
        "CONNECT prices.test:443 HTTP/1.1",
        "CONNECT keys.test:443 HTTP/1.1",
        "POST http://traces.test:4318/v1/traces HTTP/1.1",
    ] {
        until(line, async || proxy.lines().iter().any(|sent| sent == line).then_some(())).await;
    }
    let sent = proxy.headers();
    let has_credentials =
        |header: &String| header.to_ascii_lowercase().contains("\r\nproxy-authorization: basic ");
    assert!(sent.iter().all(has_credentials), "{sent:?}");
    until("the log", async || {
        gateway
            .stderr
            .lines_with(&format!("through the proxy http://127.0.0.1:{}", proxy.port))
            .first()
            .cloned()
    })
    .await;
    assert!(!gateway.log().contains("canary-pass"));
}

#[tokio::test]
async fn connections_come_from_the_source_address() {
    let upstream = Upstream::start(|mut line| async move {
        line.request().await;
        let from = line.peer();
        line.send_json(&format!("{{\"from\": \"{from}\"}}")).await;
    })
    .await;
    let more = format!(
        "  near: {{provider: openai, custom_host: 'http://127.0.0.1:{}/v1'}}\nconfigs:\n",
        upstream.port
    );
    let yaml = settings("outbound: {source_address: 127.0.0.2}").replacen("configs:\n", &more, 1);
    let gateway = Gateway::start(&yaml);
    let body = chat(&gateway, "@near").await.text().await.unwrap();
    assert!(body.contains("127.0.0.2"), "{body}");
}

#[tokio::test]
async fn check_shows_proxies_without_credentials_and_refuses_addresses_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("turnpike.yaml");
    std::fs::write(&file, "outbound: {proxy: 'http://user:canary-pass@proxy.test:3128'}\n").unwrap();
    let end = turnpike(&["check", "-c", file.to_str().unwrap()]);
    assert!(
        end.stdout.contains(
            "proxy: http://***@proxy.test:3128 for http:// and https:// addresses (outbound.proxy)"
        ),
        "{end:?}"
    );
    assert!(!format!("{end:?}").contains("canary-pass"), "{end:?}");
    std::fs::write(&file, "outbound: {source_address: 192.0.2.1, proxy: 'socks5://user:canary-pass@h:1'}\n")
        .unwrap();
    let end = turnpike(&["check", "-c", file.to_str().unwrap()]);
    assert!(end.code == Some(1) && end.stderr.contains("SOCKS"), "{end:?}");
    assert!(!format!("{end:?}").contains("canary-pass"), "{end:?}");
    std::fs::write(&file, "outbound: {source_address: 192.0.2.1}\n").unwrap();
    let end = turnpike(&["check", "-c", file.to_str().unwrap()]);
    assert!(end.code == Some(1) && end.stderr.contains("outbound.source_address: 192.0.2.1"), "{end:?}");
}

/// Whoever adds a way out adds it to the proxies: these are all places that connect to anything with HTTP.
#[test]
fn every_http_client_of_the_gateway_takes_the_proxies() {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                // The emulator is a server; what tests call is on loopback.
                folders.extend((name != "emulator" && name != "tests").then_some(path));
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.extend(ways_out(&path));
            }
        }
    }
    found.sort();
    // What a command in a shell calls is the gateway itself, and takes the proxies of that shell.
    let of_commands = "src/main/object_api.rs: Client::builder()";
    // The demo calls itself on loopback, and no proxy.
    let of_demo = "src/main/demo/traffic.rs: Client::builder()";
    for own in [of_commands, of_demo] {
        let before = found.len();
        found.retain(|place| !place.ends_with(own));
        assert_eq!(found.len() + 1, before, "{own} is there");
    }
    let wanted = [
        "src/main/span_exporter.rs: Client::builder()",
        "src/memory/net/outbound/peer.rs: HttpPeer::new(",
        "src/memory/net/outbound/side_client.rs: Client::builder()",
        "src/motion/batch/blobs/location.rs: Client::builder()",
    ];
    let is_as_wanted = found.iter().zip(wanted).all(|(found, wanted)| found.ends_with(wanted));
    assert!(found.len() == wanted.len() && is_as_wanted, "{found:#?}");
    for place in &found {
        let file = place.split(": ").next().unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        assert!(["for_reqwest()", "ProxyConnector"].iter().any(|part| text.contains(part)), "{place}");
    }
}

/// The lines of a file that make a client or a peer.
fn ways_out(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let product = text.split("#[cfg(test)]").next().unwrap();
    let made = ["Client::builder()", "Client::new()", "HttpPeer::new(", "HttpConnector::new("];
    let made = made.iter().filter(|made| {
        product.lines().any(|line| line.contains(**made) && !line.trim_start().starts_with("//"))
    });
    made.map(|made| format!("{}: {made}", path.display())).collect()
}
