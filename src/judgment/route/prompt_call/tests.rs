//! Tests of requests to prompts: what is sent to which target, and what is refused.

use crate::route::admission::Endpoint;
use crate::route::attempt::{Attempt, Request};
use crate::route::compile::{Sources, compile};
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use knowledge::prompt::{Prompt, PromptSet, PromptVersion, VersionBody};
use knowledge::provider;
use memory::state::snapshot::SettingsSnapshot;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::Checks;
use words::config::headers::GatewayHeaders;
use words::error::Error;
use words::settings::{SecretSources, Settings};

const SETTINGS: &str = "providers:\n  a: {provider: openai, api_key: ka}\n  b: {provider: groq, api_key: kb}\n  \
                        c: {provider: openai, api_key: kc}\n";

fn snapshot(more: &str) -> SettingsSnapshot {
    let named = |name: &str| provider::find(name).map(drop).ok_or_else(|| provider::unknown(name));
    let checks = Checks { provider: &named, account: &provider::check_account, ..Checks::NONE };
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    SettingsSnapshot::new(Settings::parse(&format!("{SETTINGS}{more}"), &sources, &checks).unwrap(), 0)
}

/// `pp-a`, a chat at `@a`; `pp-b`, a chat at `@b`; `pp-t`, a text at `@a`; `pp-m`, a chat whose model names `@c`.
fn prompts() -> Arc<PromptSet> {
    let mut set = PromptSet::default();
    let chat = |text: &str| json!([{"role": "user", "content": text}]).to_string();
    for (slug, body) in [
        (
            "pp-a",
            json!({"string": chat("a {{q}}"), "model": "gpt-4o", "virtual_key": "a", "parameters": {"n": 2, "stream": true}}),
        ),
        (
            "pp-b",
            json!({"string": chat("b {{q}}"), "model": "llama", "virtual_key": "@b", "parameters": {"top_p": 0.5}}),
        ),
        ("pp-t", json!({"string": "t {{q}}", "model": "davinci", "virtual_key": "a"})),
        ("pp-m", json!({"string": chat("m {{q}}"), "model": "@c/gpt-4o"})),
        ("pp-n", json!({"string": chat("n"), "model": "gpt-4o"})),
    ] {
        let body: VersionBody = serde_json::from_str(&body.to_string()).unwrap();
        let version = Arc::new(PromptVersion::new(Uuid::now_v7(), 1, &body));
        let versions = [(1, version)].into();
        let id = Uuid::now_v7();
        let slug = slug.to_owned();
        set.put(Arc::new(Prompt { id, slug, published: 1, versions, labels: HashMap::new() }));
    }
    Arc::new(set)
}

struct Call<'a> {
    path: &'a str,
    config: Option<&'a str>,
    headers: &'a [(&'static str, &'a str)],
    body: Value,
    settings: &'a str,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self {
            path: "/v1/prompts/pp-a/completions",
            config: None,
            headers: &[],
            body: json!({"variables": {"q": "x"}}),
            settings: "",
        }
    }
}

/// What is sent to each target of the config: slug, path and body.
fn sent(call: &Call<'_>) -> Result<Vec<(String, String, Value)>, Error> {
    let snapshot = snapshot(call.settings);
    let uri = Uri::try_from(call.path).unwrap();
    let endpoint = Endpoint::find(&Method::POST, uri.path());
    let body = Body::parse(Bytes::from(call.body.to_string())).unwrap();
    let request = Request::new(endpoint, Method::POST, uri, Some(body)).rendered(Some(&prompts()))?;
    let mut headers = HeaderMap::new();
    if let Some(config) = call.config {
        headers.insert("x-gateway-config", config.parse().unwrap());
    }
    for (name, value) in call.headers {
        headers.insert(*name, value.parse().unwrap());
    }
    let gateway_headers = GatewayHeaders::read(&headers, &snapshot.settings.header_prefixes)?;
    let config = compile(&Sources::new(&snapshot, &gateway_headers, Some("kx"), &request, None))?;
    request.check(&config)?;
    let attempts = config.targets().iter().map(|target| {
        let attempt = Attempt::new(Arc::clone(target), &request)?;
        assert_eq!(attempt.operation, request.operation);
        let body = serde_json::from_slice(&attempt.body.unwrap()).unwrap();
        Ok((target.slug.clone().unwrap_or_else(|| target.provider.id().to_owned()), attempt.path, body))
    });
    attempts.collect()
}

fn content(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

#[test]
fn a_prompt_is_sent_as_a_chat_to_its_own_provider() {
    let call =
        Call { body: json!({"variables": {"q": "x"}, "temperature": 1, "stream": true}), ..Call::default() };
    let body = json!({"n": 2, "model": "gpt-4o", "messages": content("a x"), "temperature": 1, "stream": true,
        "stream_options": {"include_usage": true}});
    assert_eq!(sent(&call).unwrap(), [("a".to_owned(), "/v1/chat/completions".to_owned(), body)]);
    let call = Call { path: "/v1/prompts/pp-a%401/completions?x=1", ..Call::default() };
    let body = json!({"n": 2, "model": "gpt-4o", "messages": content("a x")});
    assert_eq!(sent(&call).unwrap(), [("a".to_owned(), "/v1/chat/completions?x=1".to_owned(), body)]);
}

#[test]
fn a_text_prompt_is_sent_as_a_completion() {
    let call = Call { path: "/v1/prompts/pp-t@latest/completions", ..Call::default() };
    let body = json!({"model": "davinci", "prompt": "t x"});
    assert_eq!(sent(&call).unwrap(), [("a".to_owned(), "/v1/completions".to_owned(), body)]);
}

#[test]
fn the_provider_is_the_configs_or_that_of_the_model_or_the_prompts() {
    let slug = |call: Call<'_>| sent(&call).map(|sent| sent[0].0.clone());
    let config = Some(r#"{"virtual_key":"c"}"#);
    assert_eq!(slug(Call { config, ..Call::default() }).unwrap(), "c");
    let config = Some(r#"{"cache":{"mode":"simple"}}"#);
    assert_eq!(slug(Call { config, ..Call::default() }).unwrap(), "a");
    let headers = &[("x-gateway-provider", "@b"), ("x-gateway-virtual-key", "b")];
    assert_eq!(slug(Call { headers, ..Call::default() }).unwrap(), "a");
    let body = json!({"variables": {}, "model": "@c/gpt-5"});
    let sent_to_c = sent(&Call { body, ..Call::default() }).unwrap();
    assert_eq!((sent_to_c[0].0.as_str(), &sent_to_c[0].2["model"]), ("c", &json!("gpt-5")));
    let of_model = sent(&Call { path: "/v1/prompts/pp-m/completions", ..Call::default() }).unwrap();
    assert_eq!((of_model[0].0.as_str(), &of_model[0].2["model"]), ("c", &json!("gpt-4o")));
    let path = "/v1/prompts/pp-n/completions";
    assert_eq!(slug(Call { path, headers, ..Call::default() }).unwrap(), "b");
    assert!(slug(Call { path, ..Call::default() }).unwrap_err().message.starts_with("No provider was named"));
    let settings = "default_config: \"@c\"\n";
    assert_eq!(slug(Call { settings, ..Call::default() }).unwrap(), "a");
    assert_eq!(slug(Call { path, settings, ..Call::default() }).unwrap(), "c");
}

#[test]
fn targets_may_have_prompts_of_their_own() {
    let config = r#"{"strategy":{"mode":"fallback"},"override_params":{"top_p":1},"targets":[{"request_timeout":9000},
        {"prompt_id":"pp-b"},{"prompt_id":"pp-b@1","virtual_key":"c","override_params":{"model":"m"}},{"prompt_id":"pp-m"}]}"#;
    let call = Call {
        config: Some(&config.replace('\n', "")),
        body: json!({"variables": {"q": "x"}, "temperature": 0}),
        ..Call::default()
    };
    let found = sent(&call).unwrap();
    let row = |slug: &str, body: Value| (slug.to_owned(), body);
    let wanted = [
        row(
            "a",
            json!({"n": 2, "model": "gpt-4o", "messages": content("a x"), "temperature": 0, "top_p": 1}),
        ),
        row("b", json!({"model": "llama", "messages": content("b x"), "temperature": 0, "top_p": 1})),
        row("c", json!({"model": "m", "messages": content("b x"), "temperature": 0, "top_p": 1})),
        row("c", json!({"model": "gpt-4o", "messages": content("m x"), "temperature": 0, "top_p": 1})),
    ];
    let found: Vec<(String, Value)> = found.into_iter().map(|(slug, _, body)| (slug, body)).collect();
    assert_eq!(found, wanted);
    // One above all targets holds for those that have none.
    let config = r#"{"prompt_id":"pp-b","strategy":{"mode":"fallback"},"targets":[{"request_timeout":9000},{"prompt_id":"pp-a"}]}"#;
    let found = sent(&Call { config: Some(config), ..Call::default() }).unwrap();
    assert_eq!((found[0].0.as_str(), found[1].0.as_str()), ("b", "a"));
    assert_eq!(found[0].2["messages"], content("b x"));
}

#[test]
fn what_is_wrong_is_refused() {
    let config = |config: &'static str| Call { config: Some(config), ..Call::default() };
    let path = |path: &'static str| Call { path, ..Call::default() };
    for (call, status, wanted) in [
        (path("/v1/prompts/pp-x/completions"), 404, "Invalid prompt id: there is no prompt \"pp-x\""),
        (
            path("/v1/prompts/pp-a@prod/completions"),
            404,
            "Invalid prompt id: no version of \"pp-a\" has the label \"prod\"",
        ),
        (Call { body: json!({}), ..Call::default() }, 400, "variables must be a JSON object"),
        (config(r#"{"prompt_id":"pp-x"}"#), 400, "Following prompt_id are not valid: pp-x"),
        (
            config(
                r#"{"strategy":{"mode":"fallback"},"targets":[{"prompt_id":"pp-x"},{"prompt_id":"pp-b@7"}]}"#,
            ),
            400,
            "Following prompt_id are not valid: pp-x, pp-b@7",
        ),
        (config(r#"{"prompt_id":"pp-t"}"#), 400, "a chat and a text"),
        (Call { body: json!({"variables": {}, "temperature": "x"}), ..Call::default() }, 400, "temperature"),
    ] {
        let error = sent(&call).unwrap_err();
        assert_eq!((error.status(), error.message.contains(wanted)), (status, true), "{}", error.message);
    }
}

#[test]
fn a_prompt_of_the_config_has_no_effect_where_none_is_rendered() {
    let call = Call {
        path: "/v1/chat/completions",
        config: Some(r#"{"prompt_id":"pp-x","virtual_key":"a"}"#),
        body: json!({"model": "m", "messages": content("x")}),
        ..Call::default()
    };
    let wanted = json!({"model": "m", "messages": content("x")});
    assert_eq!(sent(&call).unwrap(), [("a".to_owned(), "/v1/chat/completions".to_owned(), wanted)]);
}

#[test]
fn no_other_path_is_rendered() {
    for path in
        ["/v1/proxy/prompts/pp-a/completions", "/v1/prompts/pp-a/x/completions", "/v1/chat/completions"]
    {
        let uri = Uri::try_from(path).unwrap();
        let endpoint = Endpoint::find(&Method::POST, path);
        let body = Body::parse(Bytes::from_static(b"{\"variables\":{}}")).unwrap();
        let request =
            Request::new(endpoint, Method::POST, uri, Some(body)).rendered(Some(&prompts())).unwrap();
        assert!(request.prompt.is_none(), "{path}");
    }
    assert_eq!(Operation::find(&Method::GET, "prompts/pp-a/completions"), Operation::Passthrough);
}
