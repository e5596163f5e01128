//! What the gateway makes of providers' responses, judged by the types that the official SDKs publish.
//!
//! Every recorded response of a provider and every golden one, encoded for each dialect, whole and streamed, must be parsed
//! by the SDK's pydantic types without leniency. The types are in Python, and so is the judge
//! (tests/sdk/strict_responses.py); the translations are made here, in process.
//!
//! Not a check of meaning (`translations`, `messages`, `responses`). Skipped as `sdk` is; recorded responses also where the
//! recordings are not beside the checkout.

use crate::support::packages;
use crate::support::recording::{self, Recording};
use crate::support::report;
use crate::translations::HOSTS;
use http::Method;
use knowledge::provider::translation::{PrepareOptions, Translation, prepare};
use knowledge::provider::translation_notes::TranslationNotes;
use knowledge::provider::{Call, find};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::account::Account;
use words::config::node::Node;
use words::config::read::{Cursor, Problems};

/// The dialects, and their paths below `/v1/`.
pub(crate) const DIALECTS: &[(Operation, &str)] = &[
    (Operation::ChatCompletions, "chat/completions"),
    (Operation::Messages, "messages"),
    (Operation::Responses, "responses"),
    (Operation::GenerateContent, "models/m:generateContent"),
];

/// The account of every provider: what addresses are made of.
const ACCOUNT: &str = r#"{"api_key": "k", "cloud_a_region": "us-east-1", "cloud_b_region": "us-central1",
    "cloud_b_project_id": "p", "resource_name": "r", "deployment_id": "d", "api_version": "v1"}"#;

#[test]
fn responses_parse_strictly_with_the_sdks() {
    const SCRIPT: &str = "strict_responses.py";
    if packages::python("types", SCRIPT).is_none() {
        return;
    }
    let recorded = recording::file().map(|file| recording::all(&std::fs::read_to_string(file).unwrap()));
    if recorded.is_none() {
        report("sdk types: goldens only, no ../shared/traffic/recorded.jsonl beside this checkout");
    }
    let wanted = if recorded.is_some() { 2_500 } else { 200 };
    let recorded = recorded.unwrap_or_default();
    let recorded =
        recorded.iter().filter_map(|recording| Some((provider(recording)?, model(recording), recording)));
    let goldens = goldens();
    let goldens = goldens.iter().map(|(provider, model, golden)| (provider.as_str(), model.clone(), golden));
    let (made, count) = encoded(recorded.chain(goldens));
    assert!(count > wanted, "only {count} responses");
    judge(SCRIPT, &[], &write("responses.jsonl", &made));
}

/// What providers document but neither recordings nor goldens have.
#[test]
fn documented_responses_parse_strictly_with_the_sdks() {
    const SCRIPT: &str = "published_responses.py";
    if packages::python("types", SCRIPT).is_none() {
        return;
    }
    let file = folder().join("documented.jsonl");
    judge(SCRIPT, &[], &file);
    let responses = documented(&std::fs::read_to_string(file).unwrap());
    assert!(responses.len() > 1_000, "only {} responses", responses.len());
    let responses =
        responses.iter().map(|(provider, model, response)| (provider.as_str(), model.clone(), response));
    let (made, _) = encoded(responses);
    judge("strict_responses.py", &[], &write("documented_responses.jsonl", &made));
}

/// Every response in every dialect, whole and streamed, one JSON object a line. Every second one is made for clients
/// that take members that are not in their dialect's standard, every fifth repeats all that a response repeats.
fn encoded<'a>(responses: impl Iterator<Item = (&'a str, String, &'a Recording)>) -> (Vec<u8>, usize) {
    let mut made = Vec::new();
    let mut count = 0;
    for (number, (provider, model, recording)) in responses.enumerate() {
        for (operation, path) in DIALECTS {
            for streamed in [false, true] {
                let call = DialectCall { operation: *operation, path, streamed };
                let strict = number % 2 == 0;
                let response = ProviderResponse { recording, provider, model: &model, strict };
                let Some(body) = response.response_for(&call, number % 5 == 0) else { continue };
                let line = json!({"client": path, "streamed": streamed, "strict": strict,
                    "provider": provider, "id": recording.id, "body": String::from_utf8(body).unwrap()});
                writeln!(made, "{line}").unwrap();
                count += 1;
            }
        }
    }
    (made, count)
}

/// A call in one dialect.
pub(crate) struct DialectCall {
    pub(crate) operation: Operation,
    pub(crate) path: &'static str,
    pub(crate) streamed: bool,
}

/// The provider of a recorded chat that succeeded.
fn provider(recording: &Recording) -> Option<&'static str> {
    let is_host =
        |row: &&(&str, &str, _, _, _)| recording.host.ends_with(row.0) && recording.path.contains(row.1);
    let is_chat = recording.status == 200 && !recording.path.contains("count_tokens");
    HOSTS.iter().find(is_host).filter(|_| is_chat).map(|row| row.2)
}

/// The model as the recorded request has it, in its body or its path.
fn model(recording: &Recording) -> String {
    let body: Option<Value> = recording.request.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let named = body.and_then(|body| Some(body.get("model")?.as_str()?.to_owned()));
    let after = |mark: &str| {
        let (_, rest) = recording.path.split_once(mark)?;
        Some(rest.split('/').next()?.split(":generate").next()?.split(":stream").next()?.replace("%3A", ":"))
    };
    named.or_else(|| after("/models/")).or_else(|| after("/model/")).unwrap_or_else(|| "m".to_owned())
}

/// The goldens' responses of providers, which hold what recordings lack: provider, model, response.
fn goldens() -> Vec<(String, String, Recording)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folders = |path: &Path| {
        let mut folders: Vec<PathBuf> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
        folders.sort();
        folders
    };
    let mut found = Vec::new();
    for case in folders(&root).iter().flat_map(|provider| folders(provider)) {
        let provider = case.parent().and_then(Path::file_name).unwrap().to_string_lossy().into_owned();
        let request: Value = match std::fs::read(case.join("in.json")) {
            Ok(text) => serde_json::from_slice(&text).unwrap(),
            Err(_) => Value::Null,
        };
        let model = request["model"].as_str().unwrap_or("m").to_owned();
        for (name, streamed) in [("answer.json", false), ("answer.sse", true)] {
            let Ok(body) = std::fs::read(case.join(name)) else { continue };
            let id = format!("golden {}", case.file_name().unwrap().to_string_lossy());
            found.push((provider.clone(), model.clone(), unrecorded(id, body, streamed)));
        }
    }
    found
}

/// Provider, model and response of each generated line.
fn documented(text: &str) -> Vec<(String, String, Recording)> {
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        let response = unrecorded(text("label"), text("body").into_bytes(), line["streamed"] == true);
        (text("provider"), text("model"), response)
    };
    text.lines().map(read).collect()
}

/// A good response that was not recorded.
fn unrecorded(id: String, body: Vec<u8>, streamed: bool) -> Recording {
    Recording {
        id,
        host: String::new(),
        method: String::new(),
        path: String::new(),
        request: None,
        status: 200,
        content_type: String::new(),
        body: body.into(),
        streamed,
    }
}

/// A response of a provider.
struct ProviderResponse<'a> {
    recording: &'a Recording,
    provider: &'a str,
    model: &'a str,
    strict: bool,
}

impl ProviderResponse<'_> {
    /// What a client gets for it; `None` where the provider's bytes pass, or the response is an error.
    fn response_for(&self, call: &DialectCall, full: bool) -> Option<Vec<u8>> {
        let ProviderResponse { recording, provider, model, strict } = *self;
        let provider = find(provider)?;
        let body = Body::parse(client_request(call, model, full).to_string().into()).unwrap();
        let mut notes = TranslationNotes::default();
        let method = Method::POST;
        let DialectCall { operation, path, streamed } = *call;
        let operation = match operation {
            Operation::GenerateContent if streamed => Operation::StreamGenerateContent,
            operation => operation,
        };
        let outgoing = Call { operation, method: &method, path, query: None, model: Some(model), streamed };
        let prepared = prepare(
            provider,
            &outgoing,
            &account(),
            Some(&body),
            PrepareOptions {
                strict,
                stream_usage: false,
                client_betas: None,
                learned: None,
                prompt_cache: None,
            },
            &mut notes,
        )
        .unwrap();
        // What Anthropic's clients get where a filter reads their responses. Goldens are shorter than the types allow.
        let own = || Translation::own_dialect(operation, provider.id(), model, strict, Some(&body));
        let translation = match prepared.translation {
            None if provider.has_gemini(operation, Some(model)) => own()?,
            None if (provider.id(), operation) == ("anthropic", Operation::Messages)
                && !recording.host.is_empty() =>
            {
                own()?
            }
            translation => translation?,
        };
        if translation.is_patch() {
            return None;
        }
        let mut rewriter = translation.rewriter(recording.streamed, "0123456789", 1_800_000_000);
        let mut out = Vec::new();
        rewriter.push(&recording.body, &mut out);
        rewriter.finish(&mut out);
        (rewriter.is_complete() && (rewriter.error().is_none() || streamed)).then_some(out)
    }
}

/// A request of a client. A full one has the members that a response repeats.
fn client_request(call: &DialectCall, model: &str, full: bool) -> Value {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let hello = json!([{"role": "user", "content": "Hello."}]);
    let mut body = match call.operation {
        Operation::Responses => json!({"model": model, "input": "Hello."}),
        Operation::Messages => json!({"model": model, "max_tokens": 100, "messages": hello}),
        Operation::GenerateContent => return json!({"contents": [{"parts": [{"text": "Hello."}]}]}),
        _ => json!({"model": model, "messages": hello}),
    };
    body["stream"] = json!(call.streamed);
    let more = match call.operation {
        Operation::Responses if full => json!({
            "instructions": "Be brief.", "temperature": 0.5, "top_p": 0.5, "max_output_tokens": 100,
            "parallel_tool_calls": false, "metadata": {"a": "b"}, "user": "u",
            "text": {"format": {"type": "json_schema", "name": "s", "schema": schema}},
            "tools": [{"type": "function", "name": "get_weather", "parameters": schema, "strict": true}],
            "tool_choice": {"type": "function", "name": "get_weather"}, "truncation": "disabled"}),
        Operation::ChatCompletions if call.streamed => json!({"stream_options": {"include_usage": true}}),
        _ => json!({}),
    };
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

pub(crate) fn account() -> Account {
    let node = Node::from_json(ACCOUNT.as_bytes()).unwrap();
    let problems = Problems::default();
    Account::read(&Cursor::root(&node, &problems)).unwrap()
}

/// Where the translations are kept, so that a script can be run again by hand.
pub(crate) fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sdk-types");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

pub(crate) fn write(name: &str, lines: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, lines).unwrap();
    path
}

/// Runs a script of tests/sdk over a file. It prints its counts and fails with every class of failure.
pub(crate) fn judge(script: &str, arguments: &[&str], file: &Path) {
    let Some(mut command) = packages::python("types", script) else { return };
    let output = command.args(arguments).arg(file).output().unwrap();
    report(&(String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr)));
    assert!(output.status.success(), "{script} failed, see above");
}
