//! What a translation cannot carry over is refused or reported: features of both dialects at every provider with a chat of
//! its own. How each is written where the provider has it is tested by the golden files.

use super::Call;
use super::find;
use super::translation::{PrepareOptions, prepare};
use super::translation_notes::TranslationNotes;
use http::Method;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::account::Account;

/// Providers with a chat of their own, each with a model.
pub(super) const TARGETS: [(&str, &str); 7] = [
    ("anthropic", "claude-opus-4-6"),
    ("bedrock", "us.anthropic.claude-opus-4-6-v1"),
    ("bedrock", "us.amazon.nova-2-lite-v1:0"),
    ("google", "gemini-3-pro"),
    ("vertex-ai", "gemini-3-pro"),
    ("cohere", "command-a"),
    // For clients of messages and responses only.
    ("mistral-ai", "mistral-large"),
];

/// What became of one request.
#[derive(Debug)]
struct Outcome {
    /// The body; the param of a refusal.
    sent: Result<String, String>,
    warnings: Vec<String>,
}

impl Outcome {
    fn keeps(&self, marker: &str) -> bool {
        self.sent.as_ref().is_ok_and(|sent| sent.contains(marker))
    }

    fn is_reported(&self) -> bool {
        self.sent.is_err() || !self.warnings.is_empty()
    }
}

fn outcome(operation: Operation, target: (&str, &str), members: &Value) -> Outcome {
    let (provider, model) = target;
    let mut body = match operation {
        Operation::Responses => json!({"model": model, "input": "x"}),
        _ => json!({"model": model, "max_tokens": 3000, "messages": [{"role": "user", "content": "x"}]}),
    };
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let body = Body::parse(body.to_string().into()).unwrap();
    let path = operation.label();
    let call =
        Call { operation, method: &Method::POST, path, query: None, model: Some(model), streamed: false };
    let mut account = Account::default();
    account.cloud_a.region = Some("us-east-1".into());
    account.cloud_b.region = Some("us-central1".into());
    account.cloud_b.project_id = Some("p".into());
    let mut notes = TranslationNotes::default();
    let options = PrepareOptions {
        strict: false,
        stream_usage: false,
        client_betas: None,
        learned: None,
        prompt_cache: None,
    };
    let prepared = prepare(find(provider).unwrap(), &call, &account, Some(&body), options, &mut notes);
    let sent = match prepared {
        Ok(prepared) => Ok(String::from_utf8(prepared.body.unwrap_or_default()).unwrap()),
        Err(error) => Err(error.param.unwrap_or_default()),
    };
    Outcome { sent, warnings: notes.warnings }
}

/// A feature, as members of the body, and what of it stands in a body that keeps it.
type Feature = (&'static str, Value);

#[test]
fn what_a_chat_loses_is_reported() {
    let user = |part: Value| json!({"messages": [{"role": "user", "content": [part, {"type": "text", "text": "q"}]}]});
    let function = |name: &str, strict: bool| {
        json!({"type": "function", "function": {"name": name, "strict": strict, "parameters": {"type": "object",
        "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}}})
    };
    let features: [Feature; 8] = [
        (
            "audio_abc",
            json!({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "audio": {"id": "audio_abc"}},
            {"role": "user", "content": "b"}]}),
        ),
        (
            "\"low\"",
            user(
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}}),
            ),
        ),
        ("bobby", json!({"messages": [{"role": "user", "name": "bobby", "content": "a"}]})),
        (
            "report7",
            user(
                json!({"type": "file", "file": {"filename": "report7.txt", "file_data": "data:text/plain;base64,eA=="}}),
            ),
        ),
        (
            "DESCRIBED",
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "description": "DESCRIBED",
            "schema": {"type": "object", "properties": {}, "additionalProperties": false}}}}),
        ),
        ("\"strict\":true", json!({"tools": [function("f", true), function("g", false)]})),
        ("\"high\"", json!({"web_search_options": {"search_context_size": "high"}})),
        ("between_tools", json!({"thinking": {"type": "between_tools"}})),
    ];
    for (marker, members) in &features {
        for target in &TARGETS[..6] {
            let outcome = outcome(Operation::ChatCompletions, *target, members);
            assert!(outcome.keeps(marker) || outcome.is_reported(), "{marker} {target:?} {outcome:?}");
        }
    }
    // The schema is what all of them have for a description.
    for target in &TARGETS[..6] {
        let (marker, members) = &features[4];
        assert!(outcome(Operation::ChatCompletions, *target, members).keeps(marker), "{target:?}");
    }
    for target in &TARGETS[..6] {
        let plain = json!({"web_search_options": {}, "thinking": {"type": "disabled"}, "tools": [function("f", true)]});
        let outcome = outcome(Operation::ChatCompletions, *target, &plain);
        assert!(!outcome.warnings.iter().any(|warning| warning.contains("thinking.type")), "{outcome:?}");
    }
}

#[test]
fn citations_of_documents_are_kept_or_reported() {
    let source = json!({"type": "text", "media_type": "text/plain", "data": "d"});
    let document = json!({"type": "document", "citations": {"enabled": true}, "source": source});
    let members =
        json!({"messages": [{"role": "user", "content": [document, {"type": "text", "text": "q"}]}]});
    for target in TARGETS.into_iter().skip(1) {
        let outcome = outcome(Operation::Messages, target, &members);
        let is_claude = target.1.contains("claude");
        assert_eq!(outcome.keeps(r#""citations":{"enabled":true}"#), is_claude, "{target:?} {outcome:?}");
        assert_eq!(outcome.is_reported(), !is_claude, "{target:?} {outcome:?}");
    }
}

#[test]
fn documents_of_several_parts_are_sent_as_these() {
    let source = json!({"type": "content", "content": [{"type": "text", "text": "WORDS"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}]});
    let document = json!({"type": "document", "title": "TITLE", "source": source});
    let members = json!({"messages": [{"role": "user", "content": [document]}]});
    for target in TARGETS.into_iter().skip(1) {
        let outcome = outcome(Operation::Messages, target, &members);
        for marker in ["TITLE", "WORDS", "QUJD"] {
            assert!(outcome.keeps(marker), "{target:?} {outcome:?}");
        }
    }
}

/// Members that limit searches: the text that shows one, and whether it limits their domains.
fn search_limits() -> Vec<(Operation, &'static str, bool, Value)> {
    let of_openai = |member: &str, value: Value| json!({"tools": [{"type": "web_search", member: value}]});
    let domains = || json!(["only.example"]);
    vec![
        (
            Operation::Messages,
            "only.example",
            true,
            of_anthropic("web_search_20250305", "allowed_domains", domains()),
        ),
        (
            Operation::Messages,
            "only.example",
            true,
            of_anthropic("web_search_20250305", "blocked_domains", domains()),
        ),
        (
            Operation::Messages,
            "only.example",
            true,
            of_anthropic("web_fetch_20250910", "allowed_domains", domains()),
        ),
        (Operation::Messages, "max_uses", false, of_anthropic("web_search_20250305", "max_uses", json!(3))),
        (
            Operation::Messages,
            "Bonn",
            false,
            of_anthropic(
                "web_search_20250305",
                "user_location",
                json!({"type": "approximate", "city": "Bonn"}),
            ),
        ),
        (
            Operation::Responses,
            "only.example",
            true,
            of_openai("filters", json!({"allowed_domains": domains()})),
        ),
        (
            Operation::Responses,
            "Bonn",
            false,
            of_openai("user_location", json!({"type": "approximate", "city": "Bonn"})),
        ),
        (Operation::Responses, "\"high\"", false, of_openai("search_context_size", json!("high"))),
        (Operation::Responses, "external_web_access", false, of_openai("external_web_access", json!(false))),
    ]
}

fn of_anthropic(kind: &str, member: &str, value: Value) -> Value {
    json!({"tools": [{"type": kind, "name": "web_search", member: value}]})
}

#[test]
fn limits_of_searches_are_kept_refused_or_reported() {
    let features = search_limits();
    for (operation, marker, limits_domains, members) in &features {
        let skipped = usize::from(*operation == Operation::Messages);
        for target in TARGETS.into_iter().skip(skipped) {
            let outcome = outcome(*operation, target, members);
            let is_kept = outcome.keeps(marker);
            assert!(is_kept || outcome.is_reported(), "{marker} {target:?} {outcome:?}");
            let searches = outcome.keeps("earch");
            assert!(!limits_domains || is_kept || !searches, "{marker} {target:?} {outcome:?}");
        }
    }
    let claude = TARGETS[0];
    for index in [5, 6] {
        let (_, marker, _, members) = &features[index];
        assert!(outcome(Operation::Responses, claude, members).keeps(marker), "{marker}");
    }
    let blocked = of_anthropic("web_search_20250305", "blocked_domains", json!(["only.example"]));
    let vertex = outcome(Operation::Messages, TARGETS[4], &blocked);
    assert!(vertex.keeps(r#"{"googleSearch":{"excludeDomains":["only.example"]}}"#), "{vertex:?}");
    let google = outcome(Operation::Messages, TARGETS[3], &blocked);
    assert!(!google.keeps("earch") && google.is_reported(), "{google:?}");
}

#[test]
fn a_limit_of_calls_reaches_the_search_or_is_reported() {
    let search = json!({"type": "web_search"});
    let fetch = json!({"type": "web_fetch_20250910", "name": "web_fetch"});
    let limited = |tools: Value| json!({"max_tool_calls": 3, "tools": tools});
    for target in TARGETS {
        let outcome = outcome(Operation::Responses, target, &limited(json!([search])));
        assert_eq!(outcome.keeps(r#""max_uses":3"#), target.0 == "anthropic", "{outcome:?}");
        assert_eq!(outcome.is_reported(), target.0 != "anthropic", "{outcome:?}");
        assert!(!outcome.keeps("max_tool_calls"), "{outcome:?}");
    }
    for tools in [json!([search, fetch]), json!([fetch])] {
        let several = outcome(Operation::Responses, TARGETS[0], &limited(tools));
        assert_eq!(several.warnings, ["max_tool_calls: dropped, Anthropic has no such parameter"]);
    }
}

/// As Claude Code defers tools: its own search names them, and they are declared everywhere.
#[test]
fn deferred_tools_are_declared_and_references_are_text() {
    let tool = |name: &str, is_deferred: bool| json!({"name": name, "defer_loading": is_deferred, "input_schema": {"type": "object"}});
    let reference = |name: &str| json!({"type": "tool_reference", "tool_name": name});
    let members = json!({
        "tools": [tool("ToolSearch", false), tool("found_one", true), tool("found_two", true), tool("other_one", true)],
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "ToolSearch", "input": {"query": "q"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1",
                "content": [reference("found_one"), reference("found_two")]}]},
        ],
    });
    for target in TARGETS.into_iter().skip(1) {
        let outcome = outcome(Operation::Messages, target, &members);
        assert!(
            outcome.keeps("Found, and can be called now: found_one, found_two."),
            "{target:?} {outcome:?}"
        );
        assert!(outcome.keeps("other_one") && !outcome.keeps("tool_reference"), "{target:?} {outcome:?}");
        assert!(!outcome.keeps("defer_loading"), "{target:?} {outcome:?}");
        let about = |warning: &&String| warning.starts_with("tools.defer_loading");
        assert_eq!(outcome.warnings.iter().filter(about).count(), 1, "{target:?} {outcome:?}");
    }
}

/// What Anthropic's own search for tools left in a conversation does not stop it elsewhere.
#[test]
fn a_search_for_tools_of_anthropic_is_left_out() {
    let members = json!({
        "tools": [{"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"},
            {"name": "found_one", "defer_loading": true, "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "tool_search_tool_regex", "input": {"query": "q"}},
                {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "tool_search_tool_search_result",
                    "tool_references": [{"type": "tool_reference", "tool_name": "found_one"}]}},
                {"type": "tool_use", "id": "toolu_1", "name": "found_one", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "y"}]},
        ],
    });
    for target in TARGETS.into_iter().skip(1) {
        let outcome = outcome(Operation::Messages, target, &members);
        assert!(outcome.keeps("found_one") && !outcome.keeps("tool_search"), "{target:?} {outcome:?}");
        assert!(outcome.is_reported(), "{target:?} {outcome:?}");
    }
}

#[test]
fn a_search_of_the_web_is_the_targets_own_or_left_out() {
    let own = |target: (&str, &str)| match target.0 {
        "anthropic" => Some("web_search_20250305"),
        "google" | "vertex-ai" => Some("googleSearch"),
        _ if target.1.contains("nova") => Some("nova_grounding"),
        _ => None,
    };
    let tool = |kind: &str| json!({"tools": [{"type": kind, "name": "web_search"}]});
    for (operation, members) in [
        (Operation::Responses, tool("web_search")),
        (Operation::Responses, tool("web_search_2025_08_26")),
        (Operation::Responses, tool("web_search_preview_2025_03_11")),
        (Operation::Messages, tool("web_search_20260209")),
        (Operation::ChatCompletions, json!({"web_search_options": {}})),
    ] {
        let is_passed_on = |target: (&str, &str)| match operation {
            Operation::Messages => target.0 == "anthropic",
            Operation::ChatCompletions => target.0 == "mistral-ai",
            _ => false,
        };
        for target in TARGETS.into_iter().filter(|target| !is_passed_on(*target)) {
            let outcome = outcome(operation, target, &members);
            match own(target).filter(|own| outcome.keeps(own)) {
                Some(_) => {}
                None => assert!(
                    outcome.sent.is_ok()
                        && outcome.is_reported()
                        && !matches!(target.0, "anthropic" | "google" | "vertex-ai"),
                    "{operation:?} {target:?} {members} {outcome:?}"
                ),
            }
        }
    }
}

#[test]
fn settings_of_googles_search_go_along_to_another_provider() {
    let generate = |settings: Value, provider: &str, model: &str| {
        let body = json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}], "tools": [{"googleSearch": settings}]});
        let body = Body::parse(body.to_string().into()).unwrap();
        let path = format!("models/{model}:generateContent");
        let operation = Operation::GenerateContent;
        let call = Call {
            operation,
            method: &Method::POST,
            path: &path,
            query: None,
            model: Some(model),
            streamed: false,
        };
        let mut notes = TranslationNotes::default();
        let options = PrepareOptions {
            strict: false,
            stream_usage: false,
            client_betas: None,
            learned: None,
            prompt_cache: None,
        };
        let account = Account::default();
        let prepared =
            prepare(find(provider).unwrap(), &call, &account, Some(&body), options, &mut notes).unwrap();
        (String::from_utf8(prepared.body.unwrap()).unwrap(), notes.warnings)
    };
    let (sent, warnings) =
        generate(json!({"excludeDomains": ["no.example"]}), "anthropic", "claude-opus-4-6");
    assert!(sent.contains(r#""blocked_domains":["no.example"]"#), "{sent}");
    assert_eq!(warnings, [""; 0]);
    let range = json!({"timeRangeFilter": {"startTime": "2026-01-01T00:00:00Z"}});
    let (_, warnings) = generate(range, "anthropic", "claude-opus-4-6");
    assert_eq!(warnings, ["tools[0].timeRangeFilter: dropped, Anthropic has no such parameter"]);
}

#[test]
fn refusals_name_what_the_client_sent() {
    let audio = json!({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "flac"}});
    let unknown = json!({"type": "container_upload", "file_id": "f"});
    let text = json!({"type": "text", "text": "x"});
    let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [text, unknown]});
    let call = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
    let user = |content: Value| json!({"role": "user", "content": content});
    let assistant = |content: Value| json!({"role": "assistant", "content": content});
    let cases = [
        (
            Operation::Messages,
            "messages[0].content[1]",
            json!({"system": "s", "messages": [user(json!([text, unknown]))]}),
        ),
        (
            Operation::Messages,
            "messages[2].content[0].content[1]",
            json!({"system": "s", "messages": [user(json!("q")), assistant(json!([call])), user(json!([result]))]}),
        ),
        (
            Operation::ChatCompletions,
            "messages[1].content[1]",
            json!({"messages": [{"role": "system", "content": "s"}, user(json!([text, audio]))]}),
        ),
        (
            Operation::Responses,
            "input[1].content[0]",
            json!({"instructions": "s", "input": [{"role": "user", "content": "x"},
                {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "flac"}}]}]}),
        ),
    ];
    for (operation, place, members) in &cases {
        let outcome = outcome(*operation, ("cohere", "command-a"), members);
        let param = outcome.sent.unwrap_err();
        assert!(param == *place || param == format!("{place}.type"), "{place}: {param}");
    }
}
