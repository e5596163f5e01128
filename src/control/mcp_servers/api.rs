//! An API as an MCP server: the document that a request saves, and what it is by its document.
//!
//! How a document is read is `words::api::openapi`'s. Nothing is fetched: neither a document nor what one refers to.

use crate::field::{Field, Type, optional, required};
use crate::records::time;
use memory::net::outbound::custom_host::HostRules;
use memory::net::outbound::origin::Origin;
use memory::state::stored::mcp_apis::{OPENAPI as MEMBER, StoredApi, read_api};
use memory::store::Record;
use serde_json::{Map, Value, json};
use words::api::openapi::document::MAX_DOCUMENT;
use words::config::read::Problems;
use words::settings::ModelPattern;

const PATTERNS: Type = Type::List(&Type::Name(256), 0, 500);
const OPERATIONS: Type = Type::Object(&[
    optional("allow", PATTERNS, "Names of tools, each with at most one `*`. All where absent."),
    optional("deny", PATTERNS, "Those that are none, before `allow`."),
]);

pub(super) const OPENAPI: Type = Type::Object(&[
    required(
        "document",
        Type::AnyOf(&[Type::Text(MAX_DOCUMENT), Type::AnyObject]),
        "OpenAPI 3.0 or 3.1, as an object or as text in JSON or YAML, of at most 1 MiB. Other documents that it refers to are not fetched.",
    ),
    optional("operations", OPERATIONS, "Which operations become tools: at most 500."),
]);
pub(super) const DOC: &str = "An API in the place of a server that speaks MCP: its operations are the tools, and the gateway calls them.";

const LEFT: Type = Type::Object(&[
    required("operation", Type::Text(2048), "`POST /files`."),
    required("why", Type::Text(2048), "Why no tool can be made of it."),
]);
pub(super) const LEFT_OUT: Field =
    optional("left_out", Type::List(&LEFT, 0, 500), "Of an API: its operations that are no tools.");

/// Checks the document that `body` has, and puts the URL there that it names where no other is.
pub(super) fn check(
    sent: &Map<String, Value>,
    body: &mut Map<String, Value>,
    rules: &HostRules,
    problems: &Problems,
) {
    check_patterns(sent, problems);
    let read = read_api(body);
    if let Some(Err(found)) = &read {
        for problem in found {
            problems.push(format!("{MEMBER}.document{}", problem.path), None, problem.message.clone());
        }
    }
    let has_url = |members: &Map<String, Value>| members.get("url").is_some_and(Value::is_string);
    if has_url(sent) || has_url(body) {
        return;
    }
    match read {
        Some(Ok(document)) => match document.server_url {
            Some(url) => set_url(url, body, rules, problems),
            None => {
                problems.push("url", None, "is required: the document names no server by an absolute URL");
            }
        },
        // What is wrong with it is in the list.
        Some(Err(_)) => {}
        None => problems.push("url", None, "is required"),
    }
}

fn set_url(url: String, body: &mut Map<String, Value>, rules: &HostRules, problems: &Problems) {
    match Origin::parse(&url, false).and_then(|origin| rules.check_name(&origin)) {
        Ok(()) => drop(body.insert("url".to_owned(), url.into())),
        Err(why) => problems.push(format!("{MEMBER}.document.servers[0].url"), None, why),
    }
}

fn check_patterns(sent: &Map<String, Value>, problems: &Problems) {
    let operations = sent.get(MEMBER).and_then(|api| api.get("operations"));
    for list in ["allow", "deny"] {
        let patterns = operations.and_then(|operations| operations.get(list)).and_then(Value::as_array);
        for (at, pattern) in patterns.into_iter().flatten().enumerate() {
            if pattern.as_str().is_none_or(|pattern| ModelPattern::parse(pattern).is_none()) {
                let path = format!("{MEMBER}.operations.{list}[{at}]");
                problems.push(path, None, super::check::PATTERN_RULE);
            }
        }
    }
}

/// A server as lists have it.
pub(super) fn without_document(mut shown: Value) -> Value {
    if let Some(api) = shown.get_mut(MEMBER).and_then(Value::as_object_mut) {
        api.remove("document");
    }
    shown
}

/// The operations that are no tools.
pub(super) fn left_out(api: &StoredApi) -> Value {
    api.left_out.iter().map(|left| json!({"operation": left.operation, "why": left.why})).collect()
}

/// What an API is by its document, as the metadata of a server has it.
pub(super) fn metadata(api: &StoredApi, record: &Record) -> Value {
    let text = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
    json!({
        "server_name": text(&api.title),
        "server_version": text(&api.version),
        "protocol_version": null,
        "capability_flags": {"tools": true},
        "title": text(&api.title),
        "description": null,
        "icons": [],
        "tools": api.names(),
        "prompts": [],
        "resources": [],
        "sync_status": "synced",
        "last_synced_at": time(record.updated_at),
        "sync_error": null,
    })
}
