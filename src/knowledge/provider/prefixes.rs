//! What was sent of a conversation stays the same in every later turn, at every provider: otherwise no provider's cache of prompts
//! finds the beginning again.
//!
//! Sessions of agents are made at random, in each dialect. Of two turns one after the other, the messages of the first are the
//! beginning of those of the second, byte for byte, and system prompt and tools are the same.

use super::losses::TARGETS;
use super::prompt_marks::taken_out;
use super::translation::{PrepareOptions, prepare};
use super::translation_notes::TranslationNotes;
use super::{Call, find};
use http::Method;
use proptest::prelude::*;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::account::Account;
use words::config::policies::MarkTtl;

/// What a model did and what its client added.
#[derive(Debug, Clone)]
enum Turn {
    Text,
    /// How many calls there are, and the id that is part of each call's.
    Calls(usize, &'static str),
    /// A call whose result is a picture, and words beside it.
    Picture(&'static str),
    /// Claude Code's late system message, behind the user's words.
    LateSystem,
}

/// The ids of several makers.
const IDS: [&str; 4] = [
    "toolu_01",
    "functions.Bash:",
    "call|fc_",
    "a_very_long_id_that_is_repeated_a_very_long_id_that_is_repeated_",
];
const PNG: &str = "iVBORw0KGgo=";

/// Providers to which chats of some dialect are written or passed, besides those with a chat of their own.
const HOSTS: [(&str, &str); 9] = [
    ("openai", "gpt-5.2"),
    // With tools, at the Responses API.
    ("openai", "gpt-5.6"),
    ("groq", "llama-4"),
    ("together-ai", "mistral-small"),
    ("deepseek", "deepseek-chat"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("moonshot", "kimi-k2"),
    ("vllm", "qwen3"),
    ("azure-ai", "claude-sonnet-4-5"),
];

/// Providers whose models cache up to marks.
const MARKED: [(&str, &str); 6] = [
    ("anthropic", "claude-sonnet-4-5"),
    ("vertex-ai", "anthropic.claude-sonnet-4-5"),
    ("azure-ai", "claude-sonnet-4-5"),
    ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("bedrock", "amazon.nova-pro-v1:0"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
];

/// A conversation of some turns. `request`: how many requests came before it, which Claude Code's first line shows.
type Session = fn(&[Turn], usize) -> Value;

fn call_id(id: &str, turn: usize, call: usize) -> String {
    format!("{id}{}", turn * 10 + call)
}

/// `/v1/messages`, as Claude Code writes it.
fn messages(turns: &[Turn], request: usize) -> Value {
    let text = |text: String| json!({"type": "text", "text": text});
    let mut list = vec![
        json!({"role": "user", "content": [text("<system-reminder>a</system-reminder>".into()), text("hi".into())]}),
    ];
    for (number, turn) in turns.iter().enumerate() {
        let thought =
            json!({"type": "thinking", "thinking": format!("t{number}"), "signature": format!("s{number}")});
        let mut blocks = vec![thought, text(format!("words {number}"))];
        let mut added = Vec::new();
        let mut call = |id: &str, index: usize, content: Value| {
            let id = call_id(id, number, index);
            blocks.push(
                json!({"type": "tool_use", "id": id, "name": "Bash.run", "input": {"b": index, "a": 1.0}}),
            );
            added.push(json!({"type": "tool_result", "tool_use_id": id, "content": content}));
        };
        match turn {
            Turn::Calls(count, id) => (0..*count).for_each(|index| call(id, index, json!("done"))),
            Turn::Picture(id) => {
                let source = json!({"type": "base64", "media_type": "image/png", "data": PNG});
                call(id, 0, json!([{"type": "image", "source": source}]));
                added.push(text(format!("see {number}")));
            }
            Turn::Text | Turn::LateSystem => added.push(text(format!("more {number}"))),
        }
        list.push(json!({"role": "assistant", "content": blocks}));
        list.push(json!({"role": "user", "content": added}));
        if matches!(turn, Turn::LateSystem) {
            list.push(
                json!({"role": "system", "content": format!("<total_tokens>{number} left</total_tokens>")}),
            );
        }
    }
    let line = format!("x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch={request:05x};");
    json!({"max_tokens": 3000, "messages": list, "system": [text(line), text("You are.".into())],
        "tools": [{"name": "Bash.run", "description": "d", "input_schema": {"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "number"}}}}],
        "thinking": {"type": "enabled", "budget_tokens": 1024}})
}

/// `/v1/responses`, as Codex writes it.
fn responses(turns: &[Turn], _request: usize) -> Value {
    let message = |role: &str, kind: &str, text: String| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let mut list = vec![
        message("developer", "input_text", "be good".into()),
        message("user", "input_text", "hi".into()),
    ];
    for (number, turn) in turns.iter().enumerate() {
        list.push(json!({"type": "reasoning", "id": format!("rs_{number}"), "summary": [], "encrypted_content": format!("e{number}")}));
        list.push(message("assistant", "output_text", format!("words {number}")));
        let ids: Vec<String> = match turn {
            Turn::Calls(count, id) => (0..*count).map(|index| call_id(id, number, index)).collect(),
            Turn::Picture(id) => vec![call_id(id, number, 0)],
            Turn::Text | Turn::LateSystem => Vec::new(),
        };
        for id in &ids {
            list.push(json!({"type": "function_call", "call_id": id, "name": "shell", "arguments": "{\"b\":1, \"a\": 2}"}));
        }
        for id in &ids {
            let output = match turn {
                Turn::Picture(_) => {
                    json!([{"type": "input_image", "image_url": format!("data:image/png;base64,{PNG}")}])
                }
                _ => json!("done"),
            };
            list.push(json!({"type": "function_call_output", "call_id": id, "output": output}));
        }
        if ids.is_empty() {
            list.push(message("user", "input_text", format!("more {number}")));
        }
    }
    json!({"input": list, "instructions": "You are.", "store": false, "tools": [
        {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}},
        {"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "name": "mcp__a", "tools": [{"type": "function", "name": "b", "parameters": {"type": "object", "properties": {}}}]}]})
}

/// `/v1/chat/completions`.
fn chats(turns: &[Turn], _request: usize) -> Value {
    let mut list =
        vec![json!({"role": "developer", "content": "You are."}), json!({"role": "user", "content": "hi"})];
    for (number, turn) in turns.iter().enumerate() {
        let (count, id) = match turn {
            Turn::Calls(count, id) => (*count, *id),
            Turn::Picture(id) => (1, *id),
            Turn::Text | Turn::LateSystem => (0, ""),
        };
        let mut message =
            json!({"role": "assistant", "content": format!("words {number}"), "reasoning_content": "t"});
        let calls: Vec<Value> = (0..count)
            .map(|index| json!({"id": call_id(id, number, index), "type": "function", "function": {"name": "fs.read", "arguments": "{\"b\":1, \"a\": 2}"}}))
            .collect();
        if count > 0 {
            message["tool_calls"] = json!(calls);
        }
        list.push(message);
        for index in 0..count {
            list.push(json!({"role": "tool", "tool_call_id": call_id(id, number, index), "content": "done"}));
        }
        if count == 0 || matches!(turn, Turn::Picture(_)) {
            list.push(json!({"role": "user", "content": format!("more {number}")}));
        }
    }
    json!({"messages": list, "tools": [
        {"type": "function", "function": {"name": "fs.read", "parameters": {"type": "object", "properties": {}}}}]})
}

/// Gemini's `generateContent`.
fn gemini(turns: &[Turn], _request: usize) -> Value {
    let mut list = vec![json!({"role": "user", "parts": [{"text": "hi"}]})];
    for (number, turn) in turns.iter().enumerate() {
        let count = match turn {
            Turn::Calls(count, _) => *count,
            Turn::Picture(_) => 1,
            Turn::Text | Turn::LateSystem => 0,
        };
        let mut content = vec![json!({"text": format!("words {number}")})];
        content.extend((0..count).map(|index| json!({"functionCall": {"name": "read", "args": {"b": index, "a": 1.0}}, "thoughtSignature": "s"})));
        list.push(json!({"role": "model", "parts": content}));
        let mut added: Vec<Value> = (0..count)
            .map(|_| json!({"functionResponse": {"name": "read", "response": {"result": "done"}}}))
            .collect();
        if added.is_empty() {
            added.push(json!({"text": format!("more {number}")}));
        }
        list.push(json!({"role": "user", "parts": added}));
    }
    json!({"contents": list, "systemInstruction": {"parts": [{"text": "You are."}]},
        "tools": [{"functionDeclarations": [{"name": "read", "parameters": {"type": "OBJECT", "properties": {}}}]}]})
}

/// What a provider gets; `None` where it takes no picture in a result.
fn sent(operation: Operation, target: (&str, &str), request: Value) -> Option<Body> {
    sent_with(operation, target, request, None)
}

fn sent_with(
    operation: Operation,
    target: (&str, &str),
    mut request: Value,
    prompt_cache: Option<MarkTtl>,
) -> Option<Body> {
    let (provider, model) = target;
    let path = match operation {
        Operation::GenerateContent => format!("models/{model}:generateContent"),
        _ => {
            request["model"] = json!(model);
            operation.label().to_owned()
        }
    };
    let body = Body::parse(request.to_string().into()).unwrap();
    let call = Call {
        operation,
        method: &Method::POST,
        path: &path,
        query: None,
        model: Some(model),
        streamed: false,
    };
    let mut account = Account::default();
    account.cloud_a.region = Some("us-east-1".into());
    account.cloud_b.region = Some("us-central1".into());
    account.cloud_b.project_id = Some("p".into());
    account.resource_name = Some("r".into());
    if provider == "vllm" {
        account.custom_host = Some("http://127.0.0.1:1/v1".into());
    }
    let options = PrepareOptions {
        strict: false,
        stream_usage: false,
        client_betas: None,
        learned: None,
        prompt_cache,
    };
    let mut notes = TranslationNotes::default();
    match prepare(find(provider).unwrap(), &call, &account, Some(&body), options, &mut notes) {
        Ok(prepared) => Some(prepared.body.map_or(body, |sent| Body::parse(sent.into()).unwrap())),
        Err(error) if provider == "cohere" && error.message.contains("pictures") => None,
        Err(error) => panic!("{operation:?} {target:?} {error:?}"),
    }
}

/// The members of all vendors that make up a prompt before its messages.
const BEFORE: [&str; 6] =
    ["system", "systemInstruction", "system_instruction", "instructions", "tools", "toolConfig"];
const LISTS: [&str; 3] = ["messages", "contents", "input"];

/// Where the second of two turns does not begin with the first.
fn difference(first: &Body, second: &Body) -> Option<String> {
    for name in BEFORE {
        if first.raw(name) != second.raw(name) {
            return Some(format!("{name}: {:?} and {:?}", first.raw(name), second.raw(name)));
        }
    }
    let name = LISTS.into_iter().find(|name| first.raw(name).is_some()).unwrap();
    let before = first.raw(name).and_then(|list| list.trim_end().strip_suffix(']')).unwrap();
    let after = second.raw(name).unwrap();
    (!after.starts_with(before)).then(|| format!("{name}:\n{before}\nand\n{after}"))
}

fn turn() -> impl Strategy<Value = Turn> {
    let id = || proptest::sample::select(IDS.to_vec());
    prop_oneof![
        Just(Turn::Text),
        Just(Turn::LateSystem),
        (1..4_usize, id()).prop_map(|(count, id)| Turn::Calls(count, id)),
        id().prop_map(Turn::Picture),
    ]
}

/// The order of tools, which is the gateway's where it sets marks, does not count.
fn with_sorted_tools(mut body: Value) -> Value {
    for path in ["/tools", "/toolConfig/tools"] {
        if let Some(tools) = body.pointer_mut(path).and_then(Value::as_array_mut) {
            tools.sort_by_key(Value::to_string);
        }
    }
    body
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn every_turn_begins_with_the_one_before(turns in proptest::collection::vec(turn(), 1..6)) {
        let dialects: [(Operation, Session); 4] = [
            (Operation::Messages, messages),
            (Operation::Responses, responses),
            (Operation::ChatCompletions, chats),
            (Operation::GenerateContent, gemini),
        ];
        for (operation, session) in dialects {
            for target in TARGETS.iter().chain(&HOSTS) {
                // Anthropic's own API gets Claude Code's first line as it is.
                let changes = usize::from(!["anthropic", "azure-ai"].contains(&target.0));
                let Some(mut first) = sent(operation, *target, session(&turns[..0], 0)) else { continue };
                for count in 1..=turns.len() {
                    let Some(second) = sent(operation, *target, session(&turns[..count], count * changes)) else {
                        break;
                    };
                    let difference = difference(&first, &second);
                    prop_assert!(difference.is_none(), "{operation:?} {target:?} {difference:?}");
                    first = second;
                }
            }
        }
    }
    /// Only marks are added; they are at most four, and where one request ended the next one has a mark too.
    #[test]
    fn marks_stay_where_they_were_set(turns in proptest::collection::vec(turn(), 2..7)) {
        let dialects: [(Operation, Session); 4] = [
            (Operation::Messages, messages),
            (Operation::Responses, responses),
            (Operation::ChatCompletions, chats),
            (Operation::GenerateContent, gemini),
        ];
        for ((operation, session), target) in dialects.iter().flat_map(|dialect| MARKED.map(|target| (*dialect, target))) {
            // Its own API of responses, whose marks are not documented.
            if (operation, target.0) == (Operation::Responses, "openrouter") {
                continue;
            }
            let mut before: Vec<String> = Vec::new();
            for count in 0..=turns.len() {
                // Long enough for every provider's cache.
                let request = session(&turns[..count], 0).to_string().replace("You are.", &"You are. ".repeat(300));
                let request: Value = serde_json::from_str(&request).unwrap();
                let Some(plain) = sent(operation, target, request.clone()) else { break };
                let Some(marked) = sent_with(operation, target, request, Some(MarkTtl::Hour)) else { break };
                let [(plain, none), (marked, places)] = [plain, marked].map(|body| taken_out(&body));
                let [plain, marked] = [plain, marked].map(with_sorted_tools);
                let what = format!("{operation:?} {target:?} {places:?} after {before:?}");
                prop_assert_eq!(plain, marked, "{}", what);
                prop_assert!(none.is_empty() && (2..=4).contains(&places.len()), "{}", what);
                if let Some(end) = before.last() {
                    prop_assert!(places.contains(end) && places[0] == before[0], "{}", what);
                }
                before = places;
            }
        }
    }
}
