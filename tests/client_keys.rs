//! Keys where client libraries put them, with nothing else configured at the client: as the service key, and as the
//! provider's key at a gateway without service keys.
//!
//! Not the libraries themselves (`sdk`), nor the gateway's own header (`service_keys`).

use crate::support::Gateway;
use crate::support::client::{client, new_trace};
use crate::support::conversation::{DIALECTS, Dialect, RequestKind, body};
use crate::support::settings::{KEY, OTHER_KEY, PROVIDER_KEY, STANDARD};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// A gateway that needs no header of its own: the key, and a default provider.
fn gateway() -> &'static Gateway {
    static GATEWAY: OnceLock<Gateway> = OnceLock::new();
    GATEWAY.get_or_init(|| Gateway::start(&format!("{STANDARD}default_config: '@emulator'\n")))
}

/// What a client library sends for authentication, with `K` for its key.
struct Library {
    name: &'static str,
    headers: &'static [(&'static str, &'static str)],
    query: &'static str,
}

const fn library(
    name: &'static str,
    headers: &'static [(&'static str, &'static str)],
    query: &'static str,
) -> Library {
    Library { name, headers, query }
}

const LIBRARIES: [Library; 8] = [
    library("openai", &[("authorization", "Bearer K")], ""),
    library("anthropic 0.x and current", &[("x-api-key", "K"), ("anthropic-version", "2023-06-01")], ""),
    library(
        "anthropic, auth_token",
        &[("authorization", "Bearer K"), ("anthropic-version", "2023-06-01")],
        "",
    ),
    library("@ai-sdk/anthropic", &[("x-api-key", "K"), ("anthropic-version", "2023-06-01")], ""),
    library("AzureOpenAI", &[("api-key", "K")], "?api-version=2024-10-21"),
    library("google-genai", &[("x-goog-api-key", "K"), ("x-goog-api-client", "google-genai-sdk/1.0")], ""),
    library("google over REST, older litellm", &[], "?key=K"),
    library("bare Authorization", &[("authorization", "K")], ""),
];

fn send(gateway: &Gateway, library: &Library, key: &str, tag: &str, call: &Call) -> RequestBuilder {
    let query = library.query.replace('K', key);
    let url = format!("{}/{}{query}", gateway.base_url(), call.path);
    let request = client().request(call.method.clone(), url).header("x-emulator-tag", tag);
    let headers = library.headers.iter().map(|(name, value)| (*name, value.replace('K', key)));
    let request = headers.fold(request, |request, (name, value)| request.header(name, value));
    match &call.body {
        Some(body) => request.json(body),
        None => request,
    }
}

struct Call {
    method: Method,
    path: &'static str,
    body: Option<Value>,
}

/// One of each way through the gateway: read, translated, proxied natively, passed through.
fn calls() -> Vec<Call> {
    let chat = || body(Dialect::OpenAi, RequestKind::Plain, "");
    let post = |path, body| Call { method: Method::POST, path, body: Some(body) };
    let get = |path| Call { method: Method::GET, path, body: None };
    vec![
        post("chat/completions", chat()),
        post("messages", body(Dialect::Anthropic, RequestKind::Plain, "")),
        post("proxy/chat/completions", chat()),
        post("unlisted", json!({"a": 1})),
        get("fine_tuning/jobs"),
        get("models/emulator"),
        get("proxy/anything"),
    ]
}

/// All that the provider received with this tag, as text.
async fn received(gateway: &Gateway, tag: &str) -> String {
    let requests = gateway.emulator_requests(tag).await;
    assert_eq!(requests.len(), 1, "{requests:?}");
    requests[0].to_string()
}

#[tokio::test]
async fn every_library_logs_in_with_its_key_alone() {
    let gateway = gateway();
    for library in &LIBRARIES {
        for call in calls() {
            let tag = new_trace();
            let what = format!("{} {}", library.name, call.path);
            let request = send(gateway, library, KEY, &tag, &call).header("x-gateway-trace-id", &tag);
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 200, "{what}: {}", response.text().await.unwrap());
            let received = received(gateway, &tag).await;
            assert!(!received.contains(KEY), "{what}: {received}");
            assert!(received.contains(PROVIDER_KEY), "{what}: {received}");
            let line = gateway.access_line(&tag).await;
            assert_eq!(line["key"], "tests", "{what}");
            assert!(!line.to_string().contains(KEY), "{line}");
        }
    }
}

#[tokio::test]
async fn a_wrong_key_is_called_unknown_wherever_it_is() {
    let gateway = gateway();
    for library in &LIBRARIES {
        let Library { name, headers, .. } = library;
        for call in calls() {
            let response = send(gateway, library, "sk-wrong-1", "none", &call).send().await.unwrap();
            let status = response.status();
            let text = response.text().await.unwrap();
            assert_eq!(status, 401, "{name} {}: {text}", call.path);
            assert!(text.contains("Unknown service key in "), "{name}: {text}");
            let place = headers.first().map_or("key", |(name, _)| *name);
            assert!(text.contains(&format!("in {place}.")) && !text.contains("sk-wrong-1"), "{name}: {text}");
        }
    }
    for call in calls() {
        let url = format!("{}/{}", gateway.base_url(), call.path);
        let response = client().request(call.method, url).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        assert!(response.text().await.unwrap().contains("No service key."), "{}", call.path);
    }
}

/// Also where the config forwards the header, and where the parameter has another name.
#[tokio::test]
async fn no_service_key_reaches_a_provider_in_any_place() {
    let gateway = gateway();
    let forwarding = r#"{"provider": "@emulator", "forward_headers": ["x-api-key", "api-key", "x-goog-api-key", "authorization", "referer"]}"#;
    for call in calls() {
        let tag = new_trace();
        let encoded = OTHER_KEY.replace('-', "%2D");
        let query = format!("limit=2&key={OTHER_KEY}&token={encoded}&after=a&any=x{KEY}x");
        let url = format!("{}/{}?{query}", gateway.base_url(), call.path);
        let request = client().request(call.method.clone(), url).header("x-goog-api-key", OTHER_KEY);
        let request = request.header("x-api-key", KEY).header("api-key", "sk-callers-own");
        let request = request.header("referer", format!("https://page.example/?key={KEY}"));
        let request = request.header("x-gateway-config", forwarding).header("x-emulator-tag", &tag);
        let request = call.body.iter().fold(request, |request, body| request.json(body));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{}: {}", call.path, response.text().await.unwrap());
        let received = received(gateway, &tag).await;
        assert!(!received.contains(KEY) && !received.contains(OTHER_KEY), "{received}");
        assert!(!received.contains(&encoded) && received.contains("limit=2&after=a"), "{received}");
    }
}

/// Whatever header the client's library has, the provider gets the key in its own.
#[tokio::test]
async fn without_service_keys_it_is_the_providers_key() {
    let yaml = STANDARD.replace(
        "auth:\n  keys:\n    - {name: tests, key: tp-tests-0123456789}\n    - {name: others, key: tp-others-0123456789}\n    - \
         {name: operator, key: tp-operator-0123456789, scopes: [administration]}\n",
        "",
    );
    assert!(!yaml.contains("auth:"));
    let gateway = Gateway::start(&yaml);
    let url = gateway.emulator_url();
    for (provider, host, header, value) in [
        ("openai", format!("{url}/v1"), "authorization", "Bearer sk-callers-own"),
        ("anthropic", format!("{url}/v1"), "x-api-key", "sk-callers-own"),
        ("google", url.clone(), "x-goog-api-key", "sk-callers-own"),
        ("together-ai", format!("{url}/v1"), "authorization", "Bearer sk-callers-own"),
    ] {
        for library in &LIBRARIES {
            // On these paths a parameter may be the provider's own, and stays one.
            let is_header = !library.query.contains("key=");
            for dialect in DIALECTS {
                let path = if dialect == Dialect::OpenAi { "chat/completions" } else { "messages" };
                let tag = new_trace();
                let body = Some(body(dialect, RequestKind::Plain, ""));
                let call = Call { method: Method::POST, path, body };
                let request = send(&gateway, library, "sk-callers-own", &tag, &call);
                let request = request.header("x-gateway-provider", provider);
                let request = request.header("x-gateway-custom-host", &host);
                assert_eq!(request.send().await.unwrap().status(), 200, "{provider} {}", library.name);
                let requests = gateway.emulator_requests(&tag).await;
                let headers = requests[0]["headers"].as_array().unwrap();
                let sent = headers.iter().filter(|pair| pair[1].as_str().unwrap().contains("sk-callers-own"));
                let sent: Vec<String> = sent
                    .map(|pair| format!("{}: {}", pair[0], pair[1]).replace('"', "").to_lowercase())
                    .collect();
                let wanted = is_header.then(|| format!("{header}: {}", value.to_lowercase()));
                assert_eq!(sent, Vec::from_iter(wanted), "{provider} {}", library.name);
            }
        }
    }
}
