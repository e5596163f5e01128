//! What a web page needs of the data port: CORS by the settings, HEAD, OPTIONS and `Allow`.
//!
//! Not realtime keys (`realtime`), nor pages at the control port (`control`).

use crate::support::client::{client, new_trace};
use crate::support::conversation::{Dialect, RequestKind, body};
use crate::support::provider::Provider;
use crate::support::settings::{KEY, STANDARD};
use crate::support::{Gateway, gateway, raw};
use http::HeaderMap;
use reqwest::{Method, RequestBuilder, Response};
use std::sync::OnceLock;

const PAGE: &str = "https://app.example.com";
const OTHER_PAGE: &str = "https://evil.example";

fn with_cors() -> &'static Gateway {
    static GATEWAY: OnceLock<Gateway> = OnceLock::new();
    let cors = format!("cors: {{origins: ['{PAGE}', 'http://localhost:3000'], max_age_seconds: 60}}\n");
    GATEWAY.get_or_init(|| Gateway::start(&format!("{STANDARD}{cors}default_config: '@emulator'\n")))
}

/// Requests with every kind of response: by the engine, streamed, proxied natively, refused, of the control routes.
fn calls(gateway: &Gateway) -> Vec<(&'static str, RequestBuilder, u16)> {
    let call = |method: Method, path: &str| {
        client().request(method, format!("{}/{path}", gateway.base_url())).header("x-gateway-api-key", KEY)
    };
    let chat = |kind| call(Method::POST, "chat/completions").json(&body(Dialect::OpenAi, kind, ""));
    let messages = body(Dialect::Anthropic, RequestKind::Plain, "");
    vec![
        ("chat", chat(RequestKind::Plain), 200),
        ("stream", chat(RequestKind::Streamed), 200),
        ("translated", call(Method::POST, "messages").json(&messages), 200),
        ("native", call(Method::GET, "fine_tuning/jobs"), 200),
        ("passthrough", call(Method::GET, "proxy/anything"), 200),
        ("unread", call(Method::POST, "unlisted").body("text"), 200),
        ("provider's error", chat(RequestKind::Plain).header("x-emulator-script", "status=429"), 429),
        (
            "native error",
            call(Method::GET, "fine_tuning/jobs").header("x-emulator-script", "status=500"),
            500,
        ),
        ("no key", client().get(format!("{}/models", gateway.base_url())), 401),
        ("bad body", call(Method::POST, "chat/completions").body("{"), 400),
        ("unknown slug", call(Method::GET, "models").header("x-gateway-provider", "@nobody"), 400),
        ("wrong method", call(Method::PATCH, "models"), 405),
        ("control route", call(Method::GET, "health"), 200),
        ("unbuilt", call(Method::POST, "secret-references").body("{}"), 501),
        ("refused control route", call(Method::POST, "virtual-keys").body("{}"), 400),
        ("head", call(Method::HEAD, "models"), 200),
    ]
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

fn varies_by_origin(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all("vary").iter().flat_map(|value| value.to_str().unwrap().split(','));
    values.any(|name| name.trim().eq_ignore_ascii_case("origin"))
}

#[tokio::test]
async fn a_listed_page_may_read_every_response() {
    let gateway = with_cors();
    for origin in [Some(PAGE), Some("http://localhost:3000"), Some(OTHER_PAGE), None] {
        for (what, call, status) in calls(gateway) {
            let call = origin.into_iter().fold(call, |call, origin| call.header("origin", origin));
            let response = call.send().await.unwrap();
            let headers = response.headers();
            assert_eq!(response.status(), status, "{what}");
            let allowed = origin.filter(|origin| *origin != OTHER_PAGE);
            assert_eq!(header(headers, "access-control-allow-origin"), allowed, "{what} {headers:?}");
            let exposed = allowed.map(|_| "*");
            assert_eq!(header(headers, "access-control-expose-headers"), exposed, "{what}");
            assert!(!headers.contains_key("access-control-allow-credentials"), "{what}");
            assert!(varies_by_origin(headers), "{what} {headers:?}");
            assert!(headers.contains_key("x-gateway-trace-id"), "{what}");
        }
    }
}

async fn preflight(gateway: &Gateway, path: &str, origin: &str) -> Response {
    let call = client().request(Method::OPTIONS, format!("{}{path}", gateway.data_url()));
    let call = call.header("origin", origin).header("access-control-request-method", "POST");
    let names = "authorization,content-type,x-gateway-provider,x-stainless-os";
    let call = call.header("access-control-request-headers", names);
    call.header("access-control-request-private-network", "true").send().await.unwrap()
}

#[tokio::test]
async fn a_preflight_is_answered_without_a_key() {
    let gateway = with_cors();
    for path in ["/v1/chat/completions", "/v1/unlisted/a", "/v1/proxy/x", "/v1/health", "/v1/virtual-keys"] {
        let response = preflight(gateway, path, PAGE).await;
        let headers = response.headers();
        assert_eq!(response.status(), 204, "{path}");
        assert_eq!(header(headers, "access-control-allow-origin"), Some(PAGE));
        assert_eq!(
            header(headers, "access-control-allow-methods"),
            Some("GET, HEAD, POST, PUT, PATCH, DELETE")
        );
        let names = "authorization,content-type,x-gateway-provider,x-stainless-os";
        assert_eq!(header(headers, "access-control-allow-headers"), Some(names));
        assert_eq!(header(headers, "access-control-allow-private-network"), Some("true"));
        assert_eq!(header(headers, "access-control-max-age"), Some("60"));
        assert!(varies_by_origin(headers), "{headers:?}");
    }
    let response = preflight(gateway, "/v1/chat/completions", OTHER_PAGE).await;
    assert_eq!(response.status(), 204);
    let named = response.headers().keys().find(|name| name.as_str().starts_with("access-control-"));
    assert_eq!(named, None, "{:?}", response.headers());
}

#[tokio::test]
async fn no_provider_is_called_for_a_preflight() {
    let gateway = with_cors();
    let tag = new_trace();
    let trace = new_trace();
    let url = format!("{}/chat/completions", gateway.base_url());
    let call = client().request(Method::OPTIONS, url).header("origin", PAGE);
    let call = call.header("access-control-request-method", "POST").header("x-emulator-tag", &tag);
    assert_eq!(call.header("x-gateway-trace-id", &trace).send().await.unwrap().status(), 204);
    let line = gateway.access_line(&trace).await;
    assert_eq!((&line["status"], &line["operation"]), (&204.into(), &"control".into()), "{line}");
    let url = format!("{}/_emulator/requests?tag={tag}", gateway.emulator_url());
    assert_eq!(client().get(url).send().await.unwrap().text().await.unwrap().trim(), "[]");
}

/// Off by default; and a provider that lets every page read its responses does not speak for the gateway.
#[tokio::test]
async fn without_settings_no_page_may() {
    let own = gateway();
    let response = preflight(&own, "/v1/chat/completions", PAGE).await;
    assert_eq!(
        (response.status().as_u16(), response.headers().get("access-control-allow-origin")),
        (204, None)
    );
    let provider = Provider::start(|_| {
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\naccess-control-allow-origin: *\r\n\
          access-control-allow-credentials: true\r\nvary: accept\r\ncontent-length: 27\r\n\r\n{\"object\":\"list\",\"data\":[]}"
            .to_vec()
    })
    .await;
    for (gateway, allowed) in [(&*own, None), (with_cors(), Some(PAGE))] {
        for path in ["files", "proxy/files", "models"] {
            let call = client().get(format!("{}/{path}", gateway.base_url())).header("origin", PAGE);
            let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "openai");
            let call = call.bearer_auth("k").header("x-gateway-custom-host", provider.base_url());
            let response = call.send().await.unwrap();
            let headers = response.headers();
            assert_eq!(response.status(), 200, "{path}");
            assert_eq!(header(headers, "access-control-allow-origin"), allowed, "{path} {headers:?}");
            assert!(!headers.contains_key("access-control-allow-credentials"), "{path} {headers:?}");
            assert_eq!(headers.get_all("vary").iter().next().unwrap(), "accept");
        }
    }
}

#[tokio::test]
async fn all_pages_may_if_the_settings_allow_it() {
    let gateway =
        Gateway::start(&format!("{STANDARD}cors: {{origins: ['*']}}\ndefault_config: '@emulator'\n"));
    for (what, call, _) in calls(&gateway) {
        let response = call.header("origin", OTHER_PAGE).send().await.unwrap();
        let headers = response.headers();
        assert_eq!(header(headers, "access-control-allow-origin"), Some("*"), "{what}");
        assert!(!varies_by_origin(headers), "{what}");
    }
    let response = preflight(&gateway, "/v1/messages", "null").await;
    assert_eq!(header(response.headers(), "access-control-allow-origin"), Some("*"));
}

/// A reload changes who may.
#[tokio::test]
async fn pages_are_listed_anew_by_a_reload() {
    let gateway = Gateway::start(STANDARD);
    assert!(
        preflight(&gateway, "/v1/models", PAGE).await.headers().get("access-control-allow-origin").is_none()
    );
    gateway.reload(&format!("{STANDARD}cors: {{origins: ['{PAGE}']}}\n"));
    crate::support::wait::until("the reload", async || {
        preflight(&gateway, "/v1/models", PAGE)
            .await
            .headers()
            .contains_key("access-control-allow-origin")
            .then_some(())
    })
    .await;
}

#[tokio::test]
async fn options_lists_the_methods_of_a_path() {
    let gateway = gateway();
    let all = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
    for (path, allow) in [
        ("/v1/chat/completions", "GET, HEAD, POST, PUT, DELETE, OPTIONS"),
        ("/v1/proxy/chat/completions", all),
        ("/v1/anything", all),
        ("/", all),
        ("*", all),
        ("/v1/health", "GET,HEAD"),
    ] {
        let request = format!("OPTIONS {path} HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n");
        let response = raw::send(gateway.ports.data, request.as_bytes()).await;
        let response = String::from_utf8(response).unwrap();
        assert!(response.starts_with("HTTP/1.1 204"), "{path}: {response}");
        assert!(
            response.to_lowercase().contains(&format!("allow: {}\r\n", allow.to_lowercase())),
            "{response}"
        );
        assert!(response.ends_with("\r\n\r\n"), "{response}");
    }
    let control = client().request(Method::OPTIONS, format!("{}/v1/targets", gateway.control_url()));
    let response = control.send().await.unwrap();
    assert_eq!((response.status().as_u16(), header(response.headers(), "allow")), (204, Some("GET,HEAD")));
}

/// HEAD is GET without the body, also where the list is translated, and the provider sees a GET.
#[tokio::test]
async fn head_has_the_headers_of_get() {
    crate::support::client::install_ring();
    let gateway = gateway();
    let h2 = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
    for (slug, path, received) in [
        ("@emulator", "models", "GET"),
        ("@anthropic-emulator", "models", "GET"),
        ("@emulator", "files", "GET"),
        ("@emulator", "files/none/content", "GET"),
        ("@emulator", "proxy/anything", "HEAD"),
        ("@emulator", "anything", "HEAD"),
    ] {
        for client in [client(), h2.clone()] {
            let tag = new_trace();
            let url = format!("{}/{path}", gateway.base_url());
            let send = |method: Method, tag: &str| {
                let call = client.request(method, &url).header("x-gateway-api-key", KEY);
                call.header("x-gateway-provider", slug).header("x-emulator-tag", tag).send()
            };
            let get = send(Method::GET, &new_trace()).await.unwrap();
            let head = send(Method::HEAD, &tag).await.unwrap();
            assert_eq!(head.status(), get.status(), "{slug} {path}");
            assert_eq!(
                head.headers().get("content-type"),
                get.headers().get("content-type"),
                "{slug} {path}"
            );
            assert_eq!(head.bytes().await.unwrap().len(), 0, "{slug} {path}");
            let requests = gateway.emulator_requests(&tag).await;
            assert_eq!(requests[0]["method"], received, "{slug} {path}");
        }
    }
    // The connection carries the next request.
    let mut connection = raw::Raw::connect(gateway.ports.data).await;
    let head = |method: &str| {
        format!(
            "{method} /v1/models HTTP/1.1\r\nhost: g\r\nx-gateway-api-key: {KEY}\r\nx-gateway-provider: @emulator\r\n\r\n"
        )
    };
    for method in ["HEAD", "HEAD", "GET"] {
        connection.write(head(method).as_bytes()).await.unwrap();
        let response = connection.read_response_to(method).await;
        assert!(response.starts_with("HTTP/1.1 200"), "{method} {response}");
        assert_eq!(response.ends_with("\r\n\r\n"), method == "HEAD", "{response}");
    }
}

/// Sends these bytes; returns the beginning of the response.
async fn head_of(gateway: &Gateway, bytes: &str) -> String {
    let port = gateway.data_url().rsplit(':').next().unwrap().parse().unwrap();
    let mut connection = raw::Raw::connect(port).await;
    connection.write(bytes.as_bytes()).await.unwrap();
    String::from_utf8_lossy(&connection.read_some().await).into_owned()
}

/// A simple request is sent without a preflight: the page cannot read the response, but the provider would be called.
#[tokio::test]
async fn without_keys_pages_of_other_origins_call_no_provider() {
    let yaml = format!("{STANDARD}cors: {{origins: ['{PAGE}']}}\ndefault_config: '@emulator'\n");
    let (before, after) = yaml.split_once("auth:\n").unwrap();
    let open = Gateway::start(&format!("{before}{}", &after[after.find("providers:").unwrap()..]));
    let own = open.data_url();
    let body = r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"hi"}]}"#;
    for (origin, status) in [
        (None, 200),
        (Some(PAGE), 200),
        (Some(own.as_str()), 200),
        (Some(OTHER_PAGE), 403),
        (Some("null"), 403),
        (Some("http://127.0.0.1:1"), 403),
    ] {
        for (method, path, media) in [
            (Method::POST, "chat/completions", "text/plain"),
            (Method::POST, "unlisted", "text/plain"),
            (Method::DELETE, "files/file-1", "text/plain"),
        ] {
            let tag = new_trace();
            let call = client().request(method, format!("{}/{path}", open.base_url())).body(body);
            let call = call.header("content-type", media).header("x-emulator-tag", &tag);
            let response = origin
                .into_iter()
                .fold(call, |call, origin| call.header("origin", origin))
                .send()
                .await
                .unwrap();
            let got = response.status().as_u16();
            assert_eq!(got == 403, status == 403, "{origin:?} {path}: {got}");
            let log = client().get(format!("{}/_emulator/requests?tag={tag}", open.emulator_url()));
            let log = log.send().await.unwrap().text().await.unwrap();
            assert_eq!(log.trim() == "[]", status == 403, "{origin:?} {path}: {log}");
            if status == 403 {
                let error: serde_json::Value = response.json().await.unwrap();
                assert_eq!(
                    (&error["error"]["code"], &error["error"]["param"]),
                    (&"forbidden".into(), &"origin".into())
                );
            }
        }
        // What only reads passes, a websocket is more than that.
        let read = client().get(format!("{}/models", open.base_url()));
        let read = origin.into_iter().fold(read, |call, origin| call.header("origin", origin));
        assert_eq!(read.send().await.unwrap().status(), 200, "{origin:?}");
        let port = own.rsplit(':').next().unwrap();
        let origin_line = origin.map(|origin| format!("origin: {origin}\r\n")).unwrap_or_default();
        let head = format!(
            "GET /v1/realtime?model=m HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{origin_line}\r\n"
        );
        let response = head_of(&open, &head).await;
        assert_eq!(response.starts_with("HTTP/1.1 403"), status == 403, "{origin:?}: {response}");
    }
    // With a key it is the key that decides.
    let call =
        client().post(format!("{}/chat/completions", gateway().base_url())).header("origin", OTHER_PAGE);
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@emulator");
    assert_eq!(
        call.header("content-type", "application/json").body(body).send().await.unwrap().status(),
        200
    );
}

#[tokio::test]
async fn refusals_before_a_request_is_parsed_can_be_read_by_a_listed_page() {
    let gateway = with_cors();
    let many = "a: b\r\n".repeat(300);
    for (origin, allowed) in [(PAGE, true), (OTHER_PAGE, false)] {
        for rest in [many.as_str(), &format!("x: {}\r\n", "y".repeat(70_000))] {
            let head =
                format!("POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\norigin: {origin}\r\n{rest}\r\n");
            let response = head_of(gateway, &head).await.to_lowercase();
            assert!(response.starts_with("http/1.1 431"), "{response}");
            let line = format!("access-control-allow-origin: {PAGE}\r\n");
            assert_eq!(response.contains(&line), allowed, "{response}");
            assert!(response.contains("vary: origin\r\n"), "{response}");
        }
    }
}
