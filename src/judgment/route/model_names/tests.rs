//! Tests of names: what each becomes, who may use it, and which are near.

use super::*;
use crate::route::admission::Endpoint;
use crate::route::attempt::Attempt;
use crate::route::compile::{Sources, compile};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Uri};
use knowledge::provider;
use memory::auth::IdentityKind;
use serde_json::{Value, json};
use std::time::Instant;
use words::api::body::Body;
use words::api::model_list::ProviderModel;
use words::config::Checks;
use words::settings::{AllowedNames, SecretSources, Settings};

const SETTINGS: &str = "
auth: {keys: [{name: vip, key: tp-vip-0123456789}]}
providers:
  a: {provider: openai, api_key: ka}
  b: {provider: groq, api_key: kb, allowed_models: ['llama*']}
configs:
  two: {strategy: {mode: fallback}, targets: [{provider: '@a', override_params: {model: big}}, {provider: '@b', override_params: {model: llama-3}}]}
  bare: {retry: {attempts: 1}}
models:
  fast: '@a/gpt-4o-mini'
  claude-*: '@a'
  'openai/*': '@a/*'
  claude-secret: {to: '@a/x', keys: [vip]}
  smart: two
  own: {to: {provider: '@a', retry: {attempts: 2}}}
  nowhere: bare
  talk: {to: '@a/m', operations: [embeddings]}
";

fn snapshot(more: &str) -> SettingsSnapshot {
    let named = |name: &str| provider::find(name).map(drop).ok_or_else(|| provider::unknown(name));
    let checks = Checks { provider: &named, account: &provider::check_account, ..Checks::NONE };
    let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
    let settings = Settings::parse(&format!("{SETTINGS}{more}"), &sources, &checks);
    SettingsSnapshot::new(settings.unwrap_or_else(|problems| panic!("{problems:?}")), 0)
}

#[derive(Clone, Copy)]
struct Sent<'a> {
    model: &'a str,
    headers: &'a [(&'static str, &'a str)],
    key: &'a str,
    kind: IdentityKind,
    allowed: Option<&'a [&'a str]>,
    path: &'static str,
    settings: &'a str,
}

const SENT: Sent<'static> = Sent {
    model: "fast",
    headers: &[],
    key: "other",
    kind: IdentityKind::Settings,
    allowed: None,
    path: "/v1/chat/completions",
    settings: "",
};

/// What is sent to each target, as `slug model`; the name of the config; the warnings.
fn attempts(sent: Sent<'_>) -> Result<(Vec<String>, String, Vec<String>), Error> {
    let snapshot = snapshot(sent.settings);
    let mut client = ClientIdentity::anonymous(None);
    client.name = Some(sent.key.into());
    client.kind = sent.kind;
    // Only a key of the settings has its name as its id.
    client.id = (sent.kind == IdentityKind::Settings).then(|| sent.key.into());
    client.defaults.allowed_models = sent.allowed.map(|names| AllowedNames::new(names.iter().copied()));
    let mut headers = HeaderMap::new();
    for (name, value) in sent.headers {
        headers.insert(HeaderName::from_static(name), value.parse().unwrap());
    }
    let headers = GatewayHeaders::read(&headers, &["x-gateway-"]).unwrap();
    let body = json!({"model": sent.model, "messages": [{"role": "user", "content": "Hi"}], "input": "Hi"});
    let body = Body::parse(Bytes::from(body.to_string())).unwrap();
    let uri = Uri::from_static(sent.path);
    let endpoint = Endpoint::find(&Method::POST, uri.path());
    let mut request = Request::new(endpoint, Method::POST, uri, Some(body));
    let namer =
        ModelNamer { snapshot: &snapshot, client: &client, headers: &headers, has_key_default: false };
    request.take_names(&namer)?;
    request.take_names(&namer)?;
    let config = compile(&Sources::new(&snapshot, &headers, Some("k"), &request, None))?;
    let mut found = Vec::new();
    let mut warnings = Vec::new();
    for target in config.targets() {
        let attempt = Attempt::new(Arc::clone(target), &request)?;
        let body: Value = serde_json::from_slice(attempt.body.as_ref().unwrap()).unwrap();
        let model = attempt.model.as_deref().unwrap_or_default();
        assert_eq!(body["model"], model, "the body says the same");
        found.push(format!("{} {model}", target.slug.as_deref().unwrap_or_default()));
        warnings.extend(attempt.warnings);
    }
    let name = config.targets()[0].id.config.clone();
    Ok((found, name, warnings))
}

fn models(sent: Sent<'_>) -> Vec<String> {
    attempts(sent).unwrap_or_else(|error| panic!("{}", error.message)).0
}

/// Status and message of a refusal.
fn refused(sent: Sent<'_>) -> (u16, String) {
    let error = attempts(sent).expect_err("it is refused");
    assert_eq!(error.param.as_deref(), Some("model"));
    (error.status(), error.message)
}

#[test]
fn a_name_is_sent_as_what_it_stands_for() {
    for (model, wanted) in [
        ("fast", &["a gpt-4o-mini"][..]),
        ("claude-x", &["a claude-x"]),
        ("openai/gpt-5", &["a gpt-5"]),
        ("smart", &["a big", "b llama-3"]),
        ("own", &["a own"]),
        ("@a/fast", &["a fast"]),
    ] {
        assert_eq!(models(Sent { model, ..SENT }), wanted, "{model}");
    }
    // What begins with `@` means what it says, also beside a name for anything.
    let any = Sent { settings: "  '*': '@b'\n", ..SENT };
    assert_eq!(models(Sent { model: "llama-9", ..any }), ["b llama-9"]);
    assert_eq!(models(Sent { model: "@two", ..any }), ["a big", "b llama-3"]);
    let config = |model| attempts(Sent { model, ..SENT }).unwrap().1;
    assert_eq!(config("smart"), "two");
    assert_eq!(config("own"), "models.own");
}

#[test]
fn a_provider_or_config_of_the_headers_takes_precedence() {
    let header = |headers| models(Sent { headers, ..SENT });
    assert_eq!(header(&[("x-gateway-provider", "@a")]), ["a fast"]);
    assert_eq!(header(&[("x-gateway-virtual-key", "a")]), ["a fast"]);
    assert_eq!(header(&[("x-gateway-config", "two")]), ["a big", "b llama-3"]);
    let default = "default_config: '@b'\n";
    assert_eq!(models(Sent { settings: default, ..SENT }), ["a gpt-4o-mini"]);
    assert_eq!(models(Sent { settings: default, model: "llama-4", ..SENT }), ["b llama-4"]);
}

#[test]
fn a_default_config_that_replaces_the_model_is_warned_of() {
    let settings = "default_config: two\n";
    let of_default = |sent: Sent<'_>| -> Vec<String> {
        let (_, _, warnings) = attempts(sent).unwrap();
        warnings.into_iter().filter(|warning| warning.starts_with("the default config")).collect()
    };
    assert_eq!(models(Sent { settings, model: "gpt-x", ..SENT }), ["a big", "b llama-3"]);
    let warnings = of_default(Sent { settings, model: "gpt-x", ..SENT });
    assert_eq!(warnings[0], "the default config has replaced the model \"gpt-x\" by \"big\"");
    for (model, headers) in [("smart", &[][..]), ("@two", &[]), ("gpt-x", &[("x-gateway-config", "two")])] {
        let warnings = of_default(Sent { settings, model, headers, ..SENT });
        assert_eq!(warnings, [""; 0], "{model}");
    }
    let warnings = of_default(Sent { settings, model: "big", ..SENT });
    assert_eq!(warnings.len(), 1, "of the second target alone: {warnings:?}");
}

#[test]
fn a_name_is_for_its_keys_and_operations() {
    let secret = Sent { model: "claude-secret", ..SENT };
    assert_eq!(models(Sent { key: "vip", ..secret }), ["a x"]);
    assert_eq!(
        refused(Sent { key: "vip", kind: IdentityKind::Jwt, ..secret }).0,
        403,
        "anyone may be named so"
    );
    let (status, message) = refused(secret);
    assert!(
        status == 403 && message.contains("claude-secret"),
        "a pattern does not let it through: {message}"
    );
    let talk = Sent { model: "talk", ..SENT };
    assert!(refused(talk).1.contains("operation chat"));
    assert_eq!(models(Sent { path: "/v1/embeddings", ..talk }), ["a m"]);
}

#[test]
fn the_name_of_a_key_that_need_not_be_unique_opens_no_entry() {
    let snapshot = snapshot("");
    let (entry, _) = snapshot.directory(None).model("claude-secret").unwrap();
    let mut client = ClientIdentity::anonymous(None);
    client.id = Some("0192f0c1-0000-7000-8000-000000000001".into());
    client.name = Some("vip".into());
    assert!(!is_for_client(entry, &snapshot, &client), "a key of any workspace may be named so");
    client.id = Some("vip".into());
    assert!(is_for_client(entry, &snapshot, &client));
}

#[test]
fn a_key_may_use_the_names_and_models_that_it_lists() {
    let may = |model, allowed: &'static [&'static str], headers: &'static [(&'static str, &'static str)]| {
        match attempts(Sent { model, allowed: Some(allowed), headers, ..SENT }) {
            Ok(_) => true,
            Err(error) if error.status() == 403 => false,
            Err(error) => panic!("{}", error.message),
        }
    };
    let inline = &[("x-gateway-config", r#"{"provider":"@a","override_params":{"model":"big"}}"#)][..];
    for (model, allowed, headers, wanted) in [
        ("fast", &["fast"][..], &[][..], true),
        ("fast", &["gpt-4o*"], &[], true),
        ("fast", &["@a/*"], &[], true),
        ("fast", &["@b/*", "smart"], &[], false),
        ("fast", &[], &[], false),
        // By the name alone, whatever its config does.
        ("smart", &["smart"], &[], true),
        ("@two", &["@two"], &[], true),
        ("smart", &["big"], &[], false),
        // A config that is named otherwise may not send another model.
        ("two", &["two"], &[("x-gateway-config", "two")], false),
        ("@two", &["@two"], inline, false),
        ("gpt-4o-mini", &["gpt-4o-mini"], inline, false),
        ("gpt-4o-mini", &["big"], inline, true),
        ("gpt-4o-mini", &["gpt-4o-mini"], &[("x-gateway-provider", "@a")], true),
        ("gpt-4o", &["gpt-4o-mini"], &[("x-gateway-provider", "@a")], false),
    ] {
        assert_eq!(may(model, allowed, headers), wanted, "{model} {allowed:?} {headers:?}");
    }
}

#[test]
fn a_stored_provider_may_be_for_some_models() {
    assert_eq!(models(Sent { model: "@b/llama-9", ..SENT }), ["b llama-9"]);
    assert_eq!(
        refused(Sent { model: "@b/gpt-4o", ..SENT }),
        (403, "The model gpt-4o may not be used through @b.".into())
    );
}

#[test]
fn paths_below_proxy_are_judged_too() {
    let proxied = Sent { allowed: Some(&["good"]), headers: &[("x-gateway-provider", "@a")], ..SENT };
    let at =
        |path, model| attempts(Sent { path, model, ..proxied }).map(|_| ()).map_err(|error| error.status());
    assert_eq!(at("/v1/proxy/chat/completions", "good"), Ok(()));
    assert_eq!(at("/v1/proxy/chat/completions", "bad"), Err(403));
    assert_eq!(at("/v1/proxy/v1/deployments/bad/chat/completions", "good"), Err(403));
}

#[derive(Clone, Copy)]
struct Judged {
    method: &'static str,
    uri: &'static str,
    body: Option<&'static str>,
    /// `@a` has no list, and the key one of `good`; at `@b` it is the other way round, and `llama*`.
    provider: &'static str,
    upgrades: bool,
}

const JUDGED: Judged = Judged { method: "POST", uri: "", body: None, provider: "@a", upgrades: false };

/// The status of the refusal, if it is one.
fn refusal(sent: Judged) -> Option<u16> {
    let snapshot = snapshot("");
    let mut client = ClientIdentity::anonymous(None);
    client.defaults.allowed_models = (sent.provider == "@a").then(|| AllowedNames::new(["good", "fast"]));
    let mut headers = HeaderMap::new();
    if sent.upgrades {
        headers.insert("upgrade", "websocket".parse().unwrap());
    }
    headers.insert("x-gateway-provider", sent.provider.parse().unwrap());
    let method: Method = sent.method.parse().unwrap();
    let uri = Uri::from_static(sent.uri);
    let endpoint = Endpoint::find(&method, uri.path());
    let is_api = endpoint.mode == RequestMode::Api;
    let body = sent.body.map(|body| {
        let bytes = Bytes::from_static(body.as_bytes());
        Body::parse(bytes.clone()).unwrap_or_else(|_| Body::opaque(bytes))
    });
    let at_once = body.clone().filter(|_| is_api);
    let mut request = Request::new(endpoint, method, uri, at_once);
    request.read_headers(&headers);
    let headers = GatewayHeaders::read(&headers, &["x-gateway-"]).unwrap();
    let namer =
        ModelNamer { snapshot: &snapshot, client: &client, headers: &headers, has_key_default: false };
    request.take_names(&namer).unwrap();
    let config = compile(&Sources::new(&snapshot, &headers, Some("k"), &request, None)).unwrap();
    if let Some(body) = body.filter(|_| !is_api) {
        assert!(request.reads_late(&config), "{}", sent.uri);
        request.set_late_body(body);
    }
    Attempt::new(Arc::clone(&config.targets()[0]), &request).err().map(|error| error.status())
}

#[test]
fn what_names_no_model_is_refused_to_a_key_that_may_use_some() {
    for (method, uri, refused) in [
        ("GET", "/v1/files", None),
        ("POST", "/v1/files", None),
        ("POST", "/v1/audio/transcriptions", Some(403)),
        ("POST", "/v1/batches", Some(403)),
        ("POST", "/v1/unlisted", Some(403)),
        ("GET", "/v1/unlisted", None),
        ("GET", "/v1/realtime?model=good", None),
        ("GET", "/v1/realtime?model=bad", Some(403)),
        ("GET", "/v1/realtime?model=bad&model=good", Some(403)),
    ] {
        assert_eq!(refusal(Judged { method, uri, ..JUDGED }), refused, "{uri}");
    }
}

#[test]
fn a_model_in_path_or_query_does_not_stand_for_that_of_a_body() {
    for (provider, good, bad) in [
        ("@a", r#"{"model":"good"}"#, r#"{"model":"bad"}"#),
        ("@b", r#"{"model":"llama-3"}"#, r#"{"model":"o1"}"#),
    ] {
        for uri in [
            "/v1/proxy/chat/completions",
            "/v1/proxy/chat/completions?model=good",
            "/v1/proxy/chat/completions?model=llama-3",
            "/v1/unlisted?model=good",
        ] {
            let judged = Judged { uri, provider, ..JUDGED };
            assert_eq!(refusal(Judged { body: Some(good), ..judged }), None, "{uri} {provider}");
            assert_eq!(refusal(Judged { body: Some(bad), ..judged }), Some(403), "{uri} {provider}");
            assert_eq!(refusal(Judged { body: Some("no object"), ..judged }), Some(403), "{uri} {provider}");
            assert_eq!(refusal(judged), Some(403), "{uri} {provider}");
        }
    }
    for uri in ["/v1/proxy/models/good/../../chat/completions", "/v1/proxy/deployments/good/x"] {
        assert_eq!(refusal(Judged { uri, ..JUDGED }), Some(403), "{uri}");
        assert_eq!(refusal(Judged { uri, body: Some(r#"{"model":"bad"}"#), ..JUDGED }), Some(403), "{uri}");
    }
    let uri = "/v1/proxy/deployments/good/x";
    assert_eq!(refusal(Judged { uri, body: Some("{}"), ..JUDGED }), None);
}

#[test]
fn a_batch_of_a_file_of_its_provider_names_no_model() {
    const BODY: &str = r#"{"model":"MODEL","input_file_id":"f","endpoint":"/v1/chat/completions","completion_window":"24h"}"#;
    for (provider, model) in [("@a", "good"), ("@a", "fast"), ("@b", "llama-3")] {
        let body: &'static str = BODY.replace("MODEL", model).leak();
        let batch = Judged { uri: "/v1/batches", body: Some(body), provider, ..JUDGED };
        assert_eq!(refusal(batch), Some(403), "{provider} {model}");
    }
}

/// The path and body that `@a` is sent for a form with `bad` as its model.
fn form_sent(path: &'static str, config: &str) -> (String, String) {
    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=model\r\n\r\nbad\r\n--b--\r\n";
    let snapshot = snapshot("");
    let mut form_headers = HeaderMap::new();
    form_headers.insert("content-type", "multipart/form-data; boundary=b".parse().unwrap());
    let mut client = ClientIdentity::anonymous(None);
    client.defaults.allowed_models = Some(AllowedNames::new(["good"]));
    let mut headers = HeaderMap::new();
    headers.insert("x-gateway-config", config.parse().unwrap());
    let headers = GatewayHeaders::read(&headers, &["x-gateway-"]).unwrap();
    let uri = Uri::from_static(path);
    let endpoint = Endpoint::find(&Method::POST, uri.path());
    let body = Body::opaque(Bytes::from_static(FORM.as_bytes()));
    let mut request = Request::new(endpoint, Method::POST, uri, Some(body));
    request.set_form_model(FormModel::find(&form_headers, FORM.as_bytes()));
    let namer =
        ModelNamer { snapshot: &snapshot, client: &client, headers: &headers, has_key_default: false };
    request.take_names(&namer).unwrap();
    let config = compile(&Sources::new(&snapshot, &headers, Some("k"), &request, None)).unwrap();
    match Attempt::new(Arc::clone(&config.targets()[0]), &request) {
        Ok(attempt) => {
            let body = String::from_utf8(attempt.body.unwrap().to_vec()).unwrap();
            (attempt.model.unwrap().to_string(), body)
        }
        Err(error) => (error.status().to_string(), String::new()),
    }
}

#[test]
fn the_model_of_a_form_is_that_which_is_judged() {
    const PLAIN: &str = r#"{"provider":"@a"}"#;
    const FIXED: &str = r#"{"provider":"@a","override_params":{"model":"good"}}"#;
    let path = "/v1/audio/transcriptions";
    assert_eq!(form_sent(path, PLAIN).0, "403");
    for (path, config) in [
        (path, FIXED),
        ("/openai/deployments/@a/good/audio/transcriptions", PLAIN),
        ("/openai/deployments/good/audio/transcriptions", PLAIN),
    ] {
        let (model, body) = form_sent(path, config);
        assert_eq!(model, "good", "{path}");
        assert!(body.contains("\r\n\r\ngood\r\n") && !body.contains("bad"), "{path} {body}");
    }
}

#[test]
fn a_socket_whose_model_is_named_later_is_refused() {
    for (uri, refused) in [
        ("/v1/responses", Some(403)),
        ("/v1/proxy/chat/completions", Some(403)),
        ("/v1/proxy/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent", Some(403)),
        ("/v1/realtime?model=good", None),
    ] {
        let judged = Judged { method: "GET", uri, ..JUDGED };
        assert_eq!(refusal(Judged { upgrades: true, ..judged }), refused, "{uri}");
        assert_eq!(refusal(Judged { upgrades: false, ..judged }), None, "{uri}");
    }
    let body = Some(r#"{"model":"good","messages":[{"role":"user","content":"Hi"}]}"#);
    let chat = Judged { uri: "/v1/chat/completions", body, upgrades: true, ..JUDGED };
    assert_eq!(refusal(chat), None, "an offer of HTTP/2");
}

#[test]
fn an_unknown_name_and_one_without_provider_are_refused() {
    let (status, message) = refused(Sent { model: "fats", ..SENT });
    assert!(status == 404 && message.contains("\"fats\""), "{message}");
    assert!(refused(Sent { model: "nowhere", ..SENT }).1.contains("names no provider"));
}

#[test]
fn near_names_are_those_that_the_key_may_use() {
    let snapshot = snapshot("");
    let lists = ModelLists::default();
    let model = |id: &str| ProviderModel { id: id.into(), created: 0, facts: None };
    let generation = snapshot.routing_generation();
    let listed = Ok([model("gpt-4o"), model("gpt-4o-mini"), model("gpt-4.1"), model("gpt-5")].into());
    lists.insert("a", generation, listed, Instant::now());
    lists.insert("b", generation, Ok([model("gpt-4o")].into()), Instant::now());
    let mut client = ClientIdentity::anonymous(None);
    let near = |client: &ClientIdentity, name: &str| {
        NearNames { snapshot: &snapshot, client, lists: &lists }.to(name)
    };
    assert_eq!(near(&client, "gpt-4o"), ["@a/gpt-4o", "@a/gpt-4o-mini", "@a/gpt-4.1"]);
    assert_eq!(near(&client, "fsat"), ["fast"], "two letters in the wrong order");
    assert_eq!(near(&client, "nome"), [""; 0]);
    assert_eq!(near(&client, &format!("gpt-4o{}", "o".repeat(300))), [""; 0]);
    assert_eq!(near(&client, "fasst"), ["fast"]);
    assert_eq!(near(&client, "claude-secrets"), [""; 0], "it is not for this key");
    client.id = Some("vip".into());
    assert_eq!(near(&client, "claude-secrets"), ["claude-secret"]);
    client.defaults.allowed_models = Some(AllowedNames::new(["@a/gpt-5"]));
    assert_eq!(near(&client, "gpt-4o"), ["@a/gpt-5"]);
    assert_eq!(near(&client, "fasst"), [""; 0]);
}
