//! Custom hosts named by clients: which are refused in any spelling, which the operator allows, and that
//! refused ones are never dialled.
//!
//! Not each address range (`src/memory/net`), nor hosts a provider redirects to (`response_passthrough`).

use crate::support::client::{client, hello, new_trace};
use crate::support::gateway::Gateway;
use crate::support::settings::{KEY, STANDARD};
use crate::support::upstream::Upstream;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Private, reserved and metadata hosts, in spellings a parser may not recognise.
const REFUSED: &[&str] = &[
    "127.0.0.1",
    "127.0.0.2",
    "localhost",
    "LOCALHOST",
    "foo.localhost",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "0",
    "0.0.0.0",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fd00::1]",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "169.254.1.1",
    "224.0.0.1",
    "255.255.255.255",
    "metadata",
    "metadata.google.internal",
    "instance-data",
    "db.internal",
    "printer.local",
    "a.corp",
    "[fd00:ec2::254]",
    "１２７.0.0.1",
    "127。0。0。1",
    "user@127.0.0.1",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
];

/// The standard settings, but with all private hosts refused except those `rules` allow.
fn closed(rules: &str) -> String {
    STANDARD.replace("  allow_private: true\n", &format!("  allow: [{rules}]\n"))
}

fn gateway() -> &'static Gateway {
    static GATEWAY: OnceLock<Gateway> = OnceLock::new();
    GATEWAY.get_or_init(|| Gateway::start(&closed("")))
}

fn by_header(gateway: &Gateway, host: &str) -> RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
    let call = call.header("x-gateway-api-key", KEY).header("authorization", "Bearer sk-caller");
    call.header("x-gateway-provider", "openai").header("x-gateway-custom-host", host)
}

fn by_config(gateway: &Gateway, config: &Value) -> RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
    call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string())
}

async fn listening() -> Upstream {
    Upstream::start(|mut line| async move {
        line.request().await;
        line.send_json("{\"reached\": true}").await;
    })
    .await
}

#[tokio::test]
async fn private_hosts_are_refused_in_every_spelling_and_never_dialled() {
    let gateway = gateway();
    let upstream = listening().await;
    let port = upstream.port;
    for host in REFUSED {
        let url = format!("http://{host}:{port}/v1");
        let header = reqwest::header::HeaderValue::from_bytes(url.as_bytes()).unwrap();
        let call = by_header(gateway, "x").header("x-emulator-tag", "none");
        let (_, request) = call.build_split();
        let mut request = request.unwrap();
        request.headers_mut().insert("x-gateway-custom-host", header);
        let response = client().execute(request).await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert_eq!(status, 400, "{host}: {body}");
        assert_eq!(body["error"]["param"], "x-gateway-custom-host", "{host}: {body}");

        for config in [
            json!({"provider": "openai", "api_key": "sk-1", "custom_host": url}),
            json!({"strategy": {"mode": "single"}, "targets":
                [{"provider": "openai", "api_key": "sk-1", "custom_host": url}]}),
        ] {
            let response = by_config(gateway, &config).send().await.unwrap();
            let status = response.status();
            let body: Value = response.json().await.unwrap();
            assert_eq!(
                (status.as_u16(), &body["error"]["code"]),
                (400, &json!("invalid_config")),
                "{host}: {body}"
            );
            let path = body["error"]["problems"][0]["path"].as_str().unwrap();
            assert!(path.ends_with("custom_host"), "{host}: {body}");
        }
    }
    assert_eq!(upstream.connections(), 0, "a refused host was dialled");
}

#[tokio::test]
async fn non_http_urls_are_refused() {
    let gateway = gateway();
    for host in [
        "ftp://example.com",
        "file:///etc/passwd",
        "example.com",
        "//example.com",
        "http://",
        "unix:/x",
        "http://a b",
    ] {
        let response = by_header(gateway, host).send().await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert_eq!(
            (status.as_u16(), &body["error"]["param"]),
            (400, &json!("x-gateway-custom-host")),
            "{host} {body}"
        );
    }
}

#[tokio::test]
async fn the_allow_list_opens_only_what_it_names() {
    let open = listening().await;
    let other = listening().await;
    // rule, host, whether it is reachable
    let port = open.port;
    let elsewhere = other.port;
    let rows = [
        (format!("'127.0.0.1:{port}'"), format!("127.0.0.1:{port}"), true),
        (format!("'127.0.0.1:{port}'"), format!("2130706433:{port}"), true),
        (format!("'127.0.0.1:{port}'"), format!("[::ffff:127.0.0.1]:{port}"), true),
        (format!("'127.0.0.1:{port}'"), format!("127.0.0.1:{elsewhere}"), false),
        ("127.0.0.0/30".to_owned(), format!("127.0.0.1:{port}"), true),
        ("127.0.0.0/30".to_owned(), format!("127.0.0.9:{elsewhere}"), false),
        ("127.0.0.0/30".to_owned(), format!("10.0.0.1:{elsewhere}"), false),
        ("localhost".to_owned(), format!("localhost:{port}"), true),
        ("localhost".to_owned(), format!("127.0.0.1:{elsewhere}"), false),
        ("127.0.0.1/32".to_owned(), "169.254.169.254:80".to_owned(), false),
    ];
    for (rule, host, reached) in rows {
        let gateway = Gateway::start(&closed(&rule));
        let response = by_header(&gateway, &format!("http://{host}/v1")).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert_eq!(status == 200 && text.contains("reached"), reached, "{rule} {host}: {status} {text}");
        assert_eq!(status == 400, !reached, "{rule} {host}: {status} {text}");
    }
    assert_eq!(other.connections(), 0, "a host that is not listed was dialled");
}

#[tokio::test]
async fn a_reload_closes_what_it_opened() {
    let upstream = listening().await;
    let gateway = Gateway::start(STANDARD);
    let status_of_request =
        async || by_header(&gateway, &upstream.url()).send().await.unwrap().status().as_u16();
    assert_eq!(status_of_request().await, 200);
    gateway.reload(&closed(""));
    crate::support::wait::until("the stricter rules", async || {
        (status_of_request().await == 400).then_some(())
    })
    .await;
    let dialled = upstream.connections();
    assert_eq!(status_of_request().await, 400);
    assert_eq!(upstream.connections(), dialled, "the pooled connection or a new one was used");
}

/// The operator's own file is trusted: stored providers and saved configs may use any host.
#[tokio::test]
async fn operator_hosts_are_trusted_and_client_hosts_are_not() {
    let upstream = listening().await;
    let saved = format!(
        "configs:\n  cf-own: {{provider: openai, api_key: sk-1, custom_host: '{}'}}\n",
        upstream.url()
    );
    let gateway = Gateway::start(&closed("").replace("configs:\n", &saved));
    let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
    let call = call.header("x-gateway-api-key", KEY);
    let by_slug = call.try_clone().unwrap().header("x-gateway-provider", "@emulator");
    assert_eq!(by_slug.send().await.unwrap().status(), 200);
    let by_id = call.try_clone().unwrap().header("x-gateway-config", "cf-own");
    assert!(by_id.send().await.unwrap().text().await.unwrap().contains("reached"));
    assert_eq!(by_header(&gateway, &upstream.url()).send().await.unwrap().status(), 400);
    assert_eq!(upstream.connections(), 1);
}

/// An operator's key is never sent to a host that a client named.
#[tokio::test]
async fn a_stored_key_is_not_sent_to_a_clients_host() {
    let upstream = listening().await;
    let gateway = Gateway::start(STANDARD);
    let host = upstream.url();
    let keyed = "configs:\n  cf-keyed: {provider: openai, api_key: sk-operator}\n";
    let with_key = Gateway::start(&STANDARD.replace("configs:\n", keyed));
    let rows = [
        (&gateway, json!({"provider": "@emulator", "custom_host": host}), None),
        (&gateway, json!({"virtual_key": "emulator", "custom_host": host}), None),
        (
            &gateway,
            json!({"custom_host": host, "strategy": {"mode": "single"}, "targets": [{"provider": "@emulator"}]}),
            None,
        ),
        (&gateway, json!({"provider": "@emulator"}), Some(&host)),
        (&with_key, json!("cf-keyed"), Some(&host)),
    ];
    for (gateway, config, host) in rows {
        let text = config.as_str().map_or_else(|| config.to_string(), str::to_owned);
        let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", text);
        let call = host.into_iter().fold(call, |call, host| call.header("x-gateway-custom-host", host));
        let response = call.header("x-gateway-trace-id", new_trace()).send().await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert_eq!(status, 400, "{config}: {body}");
        assert!(body["error"]["message"].as_str().unwrap().contains("custom host"), "{config}: {body}");
    }
    assert_eq!(upstream.connections(), 0, "a key was sent to a client's host");
}
