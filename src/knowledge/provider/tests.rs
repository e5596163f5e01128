//! Tests every provider against its fixture, `tests/golden/<id>/address.json`, and `docs/providers.md`
//! against the specs.
//!
//! The fixtures are written by hand from the vendors' documentation, not derived from the specs, so the
//! comparison means something. Only the documentation page is generated (`UPDATE_GOLDEN=1`).

use super::adapter::Adapter;
use super::spec::{CustomHost, Host, NativeApi, ProviderSpec};
use super::{
    Call, anthropic, azure, bedrock, cohere, find, google, ids, openai_compatible, url, vertex, workers_ai,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use words::api::operation::Operation;
use words::config::account::Account;
use words::config::node::Node;
use words::config::read::{Cursor, Problems};

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn specs() -> impl Iterator<Item = &'static ProviderSpec> {
    let native = [
        &anthropic::SPEC,
        &azure::FOUNDRY_ROW,
        &azure::OPENAI_ROW,
        &bedrock::SPEC,
        &cohere::SPEC,
        &google::SPEC,
        &vertex::SPEC,
        &workers_ai::SPEC,
    ];
    native.into_iter().chain(openai_compatible::SPECS)
}

/// One `address.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    /// The base URL in the vendor's documentation; absent for a provider without an address of its own.
    base: Option<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// Method, path and query: `POST chat/completions`.
    operation: String,
    #[serde(default = "empty_account")]
    account: serde_json::Value,
    model: Option<String>,
    #[serde(default)]
    streamed: bool,
    /// Headers that the client sent.
    #[serde(default)]
    sent: BTreeMap<String, String>,
    /// The whole URL; absent when the call must fail.
    url: Option<String>,
    /// All headers after `authorize`.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Status and `param` of the error: `400 resource_name`.
    error: Option<String>,
}

/// An account written as in a config target.
fn account(written: &serde_json::Value) -> Account {
    let node = Node::from_json(written.to_string().as_bytes()).unwrap();
    let problems = Problems::default();
    let account = Account::read(&Cursor::root(&node, &problems));
    assert_eq!(problems.into_vec(), [], "{written}");
    account.unwrap()
}

fn empty_account() -> serde_json::Value {
    serde_json::json!({})
}

fn fixture_path(id: &str) -> PathBuf {
    repository().join("tests/golden").join(id).join("address.json")
}

fn fixture(id: &str) -> Fixture {
    let path = fixture_path(id);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{id} has no fixture {}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn check(id: &str, case: &Case) {
    let provider = find(id).unwrap();
    let account = account(&case.account);
    let (method, target) = case.operation.split_once(' ').unwrap();
    let method: Method = method.parse().unwrap();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let operation = Operation::find(&method, path);
    let call = Call {
        operation,
        method: &method,
        path,
        query,
        model: case.model.as_deref(),
        streamed: case.streamed,
    };

    let mut headers: HeaderMap = case
        .sent
        .iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap()))
        .collect();
    let outcome = url(provider, &call, &account)
        .and_then(|url| provider.authorize(&call, &account, &mut headers).map(|()| url));
    let name = format!("{id}: {} {:?}", case.operation, case.url.as_ref().or(case.error.as_ref()));
    match outcome {
        Ok(url) => {
            assert_eq!(Some(url), case.url, "{name}");
            let written: BTreeMap<String, String> = headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
                .collect();
            assert_eq!(written, case.headers, "{name}");
        }
        Err(error) => {
            let status_and_param = format!("{} {}", error.status(), error.param.as_deref().unwrap_or("-"));
            assert_eq!(Some(status_and_param), case.error, "{name}: {error}");
        }
    }
}

#[test]
fn every_provider_matches_its_address_fixture() {
    for spec in specs() {
        let fixture = fixture(spec.id);
        let base = match spec.host {
            Host::Fixed(host) => Some(format!("{host}{}", spec.prefix)),
            Host::Below(domains) => Some(format!("https://{{resource_name}}.{}{}", domains[0], spec.prefix)),
            Host::Custom => None,
            Host::Made(how) => Some(how.to_owned()),
        };
        assert_eq!(base, fixture.base, "{}", spec.id);
        let good = fixture.cases.iter().filter(|case| case.url.is_some()).count();
        assert!(good > 0, "{}: no case with a url", spec.id);
        fixture.cases.iter().for_each(|case| check(spec.id, case));
    }
}

#[test]
fn missing_apis_go_through_chat() {
    let adapter_of = |id: &str, operation: &str, custom_host: Option<&str>| {
        let (method, path) = operation.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let operation = Operation::find(&method, path);
        let account = Account { custom_host: custom_host.map(str::to_owned), ..Account::default() };
        let call = Call { operation, method: &method, path, query: None, model: None, streamed: false };
        match find(id).unwrap().adapter(&call, &account) {
            Ok(Adapter::Passthrough(None)) => "same".to_owned(),
            Ok(Adapter::Passthrough(Some(_))) => "patched".to_owned(),
            Ok(Adapter::Chat(_)) => "chat".to_owned(),
            Ok(Adapter::Json(_)) => "exchange".to_owned(),
            Err(error) => format!("{} {}", error.status(), error.message),
        }
    };
    for (id, operation, custom_host, wanted) in [
        ("openai", "POST chat/completions", None, "same"),
        ("openai", "POST responses", None, "same"),
        ("openai", "GET responses/r", None, "same"),
        ("openai", "POST messages", None, "chat"),
        ("openai", "POST messages/count_tokens", None, "chat"),
        ("groq", "POST chat/completions", None, "patched"),
        ("groq", "POST responses", None, "same"),
        ("groq", "POST completions", None, "chat"),
        ("deepseek", "POST messages", None, "same"),
        // The custom host is the address of the chat; DeepSeek's messages have another prefix.
        ("deepseek", "POST messages", Some("https://h"), "chat"),
        ("openrouter", "POST messages", Some("https://h"), "same"),
        ("deepseek", "POST messages/count_tokens", None, "chat"),
        ("vllm", "POST messages/count_tokens", Some("http://h"), "same"),
        ("mistral-ai", "POST messages", None, "chat"),
        ("mistral-ai", "POST responses", None, "chat"),
        ("mistral-ai", "POST embeddings", None, "same"),
        ("voyage", "POST rerank", None, "exchange"),
        ("voyage", "POST embeddings", None, "patched"),
        ("jina", "POST rerank", None, "same"),
        ("jina", "POST messages", None, "same"),
        ("together-ai", "POST completions", None, "same"),
    ] {
        assert_eq!(adapter_of(id, operation, custom_host), wanted, "{id} {operation} {custom_host:?}");
    }
    for operation in
        ["GET responses/r", "DELETE responses/r", "POST responses/r/cancel", "GET responses/r/input_items"]
    {
        for id in ["groq", "mistral-ai"] {
            let outcome = adapter_of(id, operation, None);
            assert!(
                outcome.starts_with("400 ") && outcome.contains("keeps none"),
                "{id} {operation}: {outcome}"
            );
        }
    }
}

#[test]
fn no_address_fixture_is_left_without_its_provider() {
    for entry in std::fs::read_dir(repository().join("tests/golden")).unwrap() {
        let id = entry.unwrap().file_name().into_string().unwrap();
        if fixture_path(&id).exists() {
            assert_eq!(find(&id).map(|provider| provider.id()), Some(id.as_str()));
        }
    }
}

#[test]
fn ids_and_aliases_are_unique_and_found() {
    let mut unique = BTreeSet::new();
    for spec in specs() {
        for name in spec.aliases.iter().chain([&spec.id]) {
            assert!(unique.insert(*name), "{name} stands twice");
            let legal =
                |each: char| each.is_ascii_lowercase() || each.is_ascii_digit() || "-.".contains(each);
            assert!(!name.is_empty() && name.chars().all(legal), "{name}");
            assert_eq!(find(name).unwrap().id(), spec.id);
        }
    }
    assert_eq!(ids().count(), specs().count());
    for name in ["", "OpenAI", "openai ", "@openai", "nobody"] {
        assert!(find(name).is_none(), "{name}");
    }
}

#[test]
fn every_spec_is_well_formed() {
    for spec in specs() {
        let id = spec.id;
        let sourced = spec.source.starts_with("https://");
        assert!(sourced, "{id}: source {:?}", spec.source);
        if let Host::Fixed(host) = spec.host {
            assert!(
                host.starts_with("https://") && !host.trim_start_matches("https://").contains('/'),
                "{id}"
            );
        }
        let custom = match spec.custom_host {
            CustomHost::Base => "",
            CustomHost::Prefixed(prefix) | CustomHost::Server(prefix) => prefix,
        };
        let elsewhere = spec.other_prefixes.iter().map(|(_, prefix)| *prefix);
        for prefix in elsewhere.chain([spec.prefix, custom]).filter(|prefix| !prefix.is_empty()) {
            assert!(prefix.starts_with('/') && !prefix.ends_with('/'), "{id}: {prefix}");
            let placeholders = ["{resource_name}", "{deployment}"];
            let segments = prefix.split('/').filter(|segment| !placeholders.contains(segment));
            segments.for_each(|segment| assert!(!segment.contains(['{', '}']), "{id}: {segment}"));
        }
        for name in spec.headers.iter().map(|(name, _)| *name).chain([spec.key.header]) {
            assert_eq!(name, name.to_ascii_lowercase(), "{id}: from_static panics on upper case");
        }
        assert!(!spec.note.contains('|') && !spec.note.ends_with('.'), "{id}: {}", spec.note);
    }
}

/// `docs/providers.md`, generated from the specs.
fn page() -> String {
    let mut page = String::from(
        "# Providers\n\n\
         Generated from the provider rows (`UPDATE_GOLDEN=1 cargo test provider`); do not edit.\n\n\
         The client's path is appended to the base URL: `POST /v1/chat/completions` with provider `groq` becomes\n\
         `https://api.groq.com/openai/v1/chat/completions`. A custom host replaces the base URL. If the\n\
         column *Custom host* has a prefix, both `http://host` and `http://host/v1` work: the prefix is added\n\
         unless the custom host already ends in a version segment. With *(server)*, paths outside the endpoint\n\
         list are appended to the custom host directly (`/v1/api/chat` at the gateway is `http://host/api/chat`).\n\
         With a custom host, no provider needs a key.\n\n\
         The column *Own APIs* lists the APIs a provider has in addition to chat completions: `messages`, `count_tokens`,\n\
         `completions`, `responses` (*stateless*: responses are not stored). Those not listed are translated to its chat\n\
         completions (`count_tokens` is estimated); a provider without chat gets every path unchanged.\n\n\
         | Id | Aliases | Base URL | Custom host | Key | Own APIs | Notes | Source |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut specs: Vec<&ProviderSpec> = specs().collect();
    specs.sort_by_key(|spec| spec.id);
    for spec in specs {
        let base = match spec.host {
            Host::Fixed(host) => format!("`{host}{}`", spec.prefix),
            Host::Below(domains) => format!("`https://{{resource_name}}.{}{}`", domains[0], spec.prefix),
            Host::Custom => "custom host required".to_owned(),
            Host::Made(how) => format!("`{how}`"),
        };
        let custom = match spec.custom_host {
            CustomHost::Base => "base URL".to_owned(),
            CustomHost::Prefixed(prefix) => format!("+ `{prefix}`"),
            CustomHost::Server(prefix) => format!("+ `{prefix}` (server)"),
        };
        let optional = if spec.key.required { "" } else { ", optional" };
        let key = format!("`{}: {}<key>`{optional}", spec.key.header, spec.key.prefix);
        let aliases = spec.aliases.iter().map(|alias| format!("`{alias}`")).collect::<Vec<_>>().join(", ");
        let id = spec.id;
        let note = spec.note;
        let source = spec.source;
        let source = if source.starts_with("https://") { format!("<{source}>") } else { source.to_owned() };
        let own = own_apis(spec);
        writeln!(page, "| `{id}` | {aliases} | {base} | {custom} | {key} | {own} | {note} | {source} |")
            .unwrap();
    }
    page
}

/// The column *Own APIs* of one vendor.
fn own_apis(spec: &ProviderSpec) -> String {
    if spec.id == anthropic::SPEC.id {
        return "`messages`, `count_tokens`".to_owned();
    }
    if spec.chat.is_none() {
        return "no chat".to_owned();
    }
    let label = |api: &NativeApi| match api {
        NativeApi::Messages => "`messages`",
        NativeApi::CountTokens => "`count_tokens`",
        NativeApi::Completions => "`completions`",
        NativeApi::Responses => "`responses` (stateless)",
        NativeApi::StoredResponses => "`responses`",
        NativeApi::InputTokens => "`responses/input_tokens`",
        NativeApi::Compaction => "`responses/compact`",
        NativeApi::CompactionTriggers => "items `compaction_trigger`",
    };
    spec.native_apis.iter().map(label).collect::<Vec<_>>().join(", ")
}

#[test]
fn the_documentation_page_matches_the_specs() {
    let path = repository().join("docs/providers.md");
    let page = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    // Not assert_eq, which would print two whole pages.
    assert!(page == committed, "docs/providers.md is behind: UPDATE_GOLDEN=1 cargo test provider");
}
