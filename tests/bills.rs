//! What the gateway says that requests cost, held against the provider's bill in every dialect and at every kind of provider: whole,
//! streamed, repeated, hedged, broken off, and left by the client.
//!
//! Every model costs the same here, so that a bill in tokens is a bill in money. Not how usage is read (`usage`, `api::usage`).

use crate::support::client::{client, new_trace};
use crate::support::settings::{KEY, MATRIX, MATRIX_MODELS};
use crate::support::sse::events;
use crate::support::{Gateway, gateway};
use reqwest::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Dollars per million tokens, of all models.
const PRICES: (u64, u64) = (1, 10);

/// The APIs that clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Chat,
    Completions,
    Messages,
    Responses,
    Gemini,
}

const DIALECTS: [Dialect; 5] =
    [Dialect::Chat, Dialect::Completions, Dialect::Messages, Dialect::Responses, Dialect::Gemini];

impl Dialect {
    fn call(self, client: &Client, gateway: &Gateway, model: &str, stream: bool) -> reqwest::RequestBuilder {
        let prompt = "Say hello to the whole world, please.";
        let message = json!([{"role": "user", "content": prompt}]);
        let (path, body) = match self {
            Self::Chat => {
                ("chat/completions", json!({"model": model, "messages": message, "stream": stream}))
            }
            Self::Completions => (
                "completions",
                json!({"model": model, "prompt": prompt, "stream": stream, "max_tokens": 4096}),
            ),
            Self::Messages => (
                "messages",
                json!({"model": model, "messages": message, "stream": stream, "max_tokens": 4096}),
            ),
            Self::Responses => ("responses", json!({"model": model, "input": prompt, "stream": stream})),
            Self::Gemini => {
                let method = if stream { "streamGenerateContent?alt=sse" } else { "generateContent" };
                let model = model.replace('/', "%2F");
                let url = gateway.base_url().replace("/v1", &format!("/v1beta/models/{model}:{method}"));
                let body = json!({"contents": [{"role": "user", "parts": [{"text": prompt}]}]});
                return client.post(url).header("x-gateway-api-key", KEY).json(&body);
            }
        };
        client.post(format!("{}/{path}", gateway.base_url())).header("x-gateway-api-key", KEY).json(&body)
    }
}

/// The providers of the matrix, all at the same prices.
fn started(folder: &tempfile::TempDir) -> Gateway {
    let vendors = [
        "openai",
        "anthropic",
        "google",
        "vertex-ai",
        "bedrock",
        "cohere",
        "azure-openai",
        "azure-ai",
        "mistral-ai",
        "together-ai",
        "groq",
        "deepseek",
    ];
    let mut overlay = String::new();
    for vendor in vendors {
        writeln!(overlay, "{vendor}/*: {{input_mtok: {}, output_mtok: {}}}", PRICES.0, PRICES.1).unwrap();
    }
    let path = folder.path().join("prices.yaml");
    std::fs::write(&path, overlay).unwrap();
    let matrix = MATRIX.replace("tp-tests-0123456789", KEY);
    Gateway::start(&format!("{matrix}prices: {{overlay: '{}'}}\n", path.display()))
}

/// Slug and name of a model of the matrix.
fn parts(model: &str) -> (&str, &str) {
    model.split_once('/').unwrap()
}

/// What the provider charged for the requests with this tag, in dollars, in order.
async fn bill(gateway: &Gateway, tag: &str) -> Vec<f64> {
    let entries = gateway.emulator_requests(tag).await;
    let dollars = |entry: &Value| {
        let tokens = |name: &str| entry["charged"][name].as_u64().unwrap_or_default();
        (tokens("input_tokens") * PRICES.0 + tokens("output_tokens") * PRICES.1) as f64 / 1e6
    };
    entries.iter().map(dollars).collect()
}

/// What the access line says of each attempt, and of all together.
fn costs(line: &Value) -> (Vec<f64>, f64) {
    let of = |value: &Value| value["cost_usd"].as_f64().unwrap_or_default();
    let attempts = line["attempts"].as_array().into_iter().flatten().map(of).collect();
    (attempts, of(line))
}

fn assert_same(found: f64, wanted: f64, what: &str) {
    assert!((found - wanted).abs() < 1e-12, "{what}: {found} is not the bill of {wanted}");
}

/// No event that only the gateway requested for.
fn assert_hides_usage(text: &str, what: &str) {
    for event in events(text) {
        let Ok(chunk) = serde_json::from_str::<Value>(&event.data) else { continue };
        let is_empty = chunk["choices"].as_array().is_some_and(Vec::is_empty);
        assert!(!is_empty || chunk["usage"].is_null(), "{what}: {}", event.data);
    }
}

/// Scripts for the emulator: a response, and one after a failure that reports usage.
const PLAIN: &str = "tokens=20";
const FAILS_FIRST: &str = "tokens=20&status=503&usage=errors&times=1";

#[tokio::test]
async fn what_is_reported_is_charged_to_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = started(&folder);
    let http = client();
    let mut sum = 0.0;
    for (script, stream) in
        [PLAIN, FAILS_FIRST].into_iter().flat_map(|script| [(script, false), (script, true)])
    {
        let calls = MATRIX_MODELS.iter().flat_map(|model| DIALECTS.map(|dialect| (*model, dialect)));
        // The emulator reports the usage of a stream where that is requested; Mistral always does, and refuses the request.
        let calls = calls.filter(|(model, _)| !stream || parts(model).0 != "@mistral");
        let calls = calls.map(|(model, dialect)| {
            let (slug, name) = parts(model);
            let gateway = &gateway;
            let trace = new_trace();
            let tag = new_trace();
            let config = json!({"provider": slug, "retry": {"attempts": 2, "on_status_codes": [503]}});
            let call =
                dialect.call(&http, gateway, name, stream).header("x-gateway-config", config.to_string());
            let call = call.header("x-gateway-trace-id", &trace);
            let call = call.header("x-emulator-script", format!("{script}&key={tag}&tag={tag}"));
            async move {
                let what = format!("{dialect:?} {model} {script} stream {stream}");
                let response = call.send().await.unwrap();
                let status = response.status();
                let text = response.text().await.unwrap();
                assert_eq!(status, 200, "{what}: {text}");
                if stream {
                    assert_hides_usage(&text, &what);
                }
                let line = gateway.access_line(&trace).await;
                let (attempts, whole) = costs(&line);
                let bill = bill(gateway, &tag).await;
                assert_eq!(bill.len(), 1 + usize::from(script == FAILS_FIRST), "{what}");
                assert_eq!(attempts.len(), bill.len(), "{what}: {line}");
                for (cost, wanted) in attempts.iter().zip(&bill) {
                    assert!(*wanted > 20.0 * 10.0 / 1e6, "{what}: {bill:?}");
                    assert_same(*cost, *wanted, &what);
                }
                assert_same(whole, bill.iter().sum(), &what);
                assert!(line.get("tokens_estimated").is_none(), "{what}: {line}");
                whole
            }
        });
        sum += futures_util::future::join_all(calls).await.into_iter().sum::<f64>();
    }
    let url = format!("{}/_emulator/bill", gateway.emulator_url());
    let whole: Value = client().get(url).send().await.unwrap().json().await.unwrap();
    let tokens = |name: &str| whole[name].as_u64().unwrap();
    let wanted = (tokens("input_tokens") * PRICES.0 + tokens("output_tokens") * PRICES.1) as f64 / 1e6;
    assert!((sum - wanted).abs() < 1e-9, "{sum} {whole}");
}

/// How an exchange ends before its usage was reported.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    /// The client leaves.
    Left,
    /// The provider closes the connection.
    Cut,
    /// Another attempt is faster.
    Outrun,
}

#[tokio::test]
async fn what_is_not_reported_is_charged_about_as_it_is_billed() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = started(&folder);
    let http = client();
    for ending in [Ending::Left, Ending::Cut, Ending::Outrun] {
        let calls = MATRIX_MODELS.iter().map(|model| {
            let (gateway, (slug, name)) = (&gateway, parts(model));
            let trace = new_trace();
            let tag = new_trace();
            let script = match ending {
                Ending::Left => "tokens=300&gap=10",
                Ending::Cut => "tokens=100&fault=cut&after=60",
                Ending::Outrun => "tokens=100&gap=20&times=1",
            };
            let config = match ending {
                Ending::Outrun => json!({
                    "strategy": {"mode": "fallback"}, "stream_rescue": "buffer",
                    "hedge": {"after_ms": 800, "max_extra_ratio": 1.0},
                    "targets": [{"provider": slug}, {"provider": slug}]
                }),
                _ => json!({"provider": slug}),
            };
            let call =
                Dialect::Chat.call(&http, gateway, name, true).header("x-gateway-config", config.to_string());
            let call = call.header("x-gateway-trace-id", &trace);
            let call = call.header("x-emulator-script", format!("{script}&key={tag}&tag={tag}"));
            async move {
                let what = format!("{ending:?} {model}");
                let mut response = call.send().await.unwrap();
                assert_eq!(response.status(), 200, "{what}");
                let mut text = String::new();
                while let Ok(Some(chunk)) = response.chunk().await {
                    text.push_str(std::str::from_utf8(&chunk).unwrap());
                    if ending == Ending::Left && events(&text).len() > 50 {
                        break;
                    }
                }
                drop(response);
                assert_hides_usage(&text, &what);
                let line = gateway.access_line(&trace).await;
                let (attempts, whole) = costs(&line);
                let bill = bill(gateway, &tag).await;
                assert_eq!(attempts.len(), bill.len(), "{what}: {line}");
                for (cost, wanted) in attempts.iter().zip(&bill) {
                    // The emulator's words are about a token each, and its prompts have no frame around them.
                    let off = (cost - wanted).abs();
                    assert!(
                        *cost > 0.0 && off <= wanted * 0.35 + 250e-6,
                        "{what}: {cost} for {wanted}: {line}"
                    );
                }
                assert_same(whole, attempts.iter().sum(), &what);
                match ending {
                    Ending::Outrun => assert_eq!(attempts.len(), 2, "{what}: {line}"),
                    _ => assert_eq!(line["tokens_estimated"], true, "{what}: {line}"),
                }
            }
        });
        futures_util::future::join_all(calls).await;
    }
}

#[tokio::test]
async fn no_provider_shows_usage_that_was_not_requested() {
    let gateway = gateway();
    let http = client();
    let mut refused = BTreeSet::new();
    let mut requested = 0;
    for provider in knowledge::provider::ids() {
        let trace = new_trace();
        let tag = new_trace();
        let call = Dialect::Chat.call(&http, &gateway, "gpt-4o-mini", true).bearer_auth("sk-own");
        let call = call.header("x-gateway-provider", provider).header("x-gateway-trace-id", &trace);
        let call = call.header("x-gateway-custom-host", format!("{}/v1", gateway.emulator_url()));
        let response = call.header("x-emulator-script", format!("tokens=9&tag={tag}")).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        if status != 200 {
            refused.insert(provider);
            continue;
        }
        assert_hides_usage(&text, provider);
        let entry = &gateway.emulator_requests(&tag).await[0];
        if entry["body"].as_str().unwrap().contains("include_usage") {
            requested += 1;
            let line = gateway.access_line(&trace).await;
            assert_eq!(line["tokens"]["output"], 9, "{provider}: {line}");
            assert!(line.get("tokens_estimated").is_none(), "{provider}: {line}");
        }
    }
    // It needs a project and a region.
    assert_eq!(refused.into_iter().collect::<Vec<_>>(), ["vertex-ai"]);
    assert!(requested > 30, "{requested}");
}
