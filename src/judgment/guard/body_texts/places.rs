//! Generated tests: every dialect with every place where a text can hide from who judges it.
//!
//! A conversation is written once, in steps, and each dialect says how a step stands in its body; steps that it does not have are skipped.

use super::super::arguments::leaves;
use super::super::check_kind;
use super::super::checks::testing::run;
use super::super::finding::Change;
use super::super::judged::Selection;
use super::super::subject::Subject;
use serde_json::{Value, json};
use words::api::operation::Operation;
use words::config::hooks::JudgedScope;

pub(super) const SECRET: &str = "KESTREL";
pub(super) const REDACTED: &str = "a \"b\"";

/// One message or item of a conversation.
#[derive(Debug, Clone, Copy)]
enum Step {
    User(&'static str),
    /// A part behind a picture, in the same message.
    Part(&'static str),
    System(&'static str),
    Assistant(&'static str),
    /// A call of the model with this text in its arguments.
    Call(&'static str),
    Result(&'static str),
    Thought,
    /// A thought of the model with this text, which no signature proves.
    Thinks(&'static str),
    Refuses(&'static str),
    /// A message in which nothing stands.
    Empty,
    /// An item that the gateway does not know.
    Unknown,
    /// A participant of this name.
    Named(&'static str),
}
use Step::{Assistant, Call, Empty, Named, Part, Refuses, Result, System, Thinks, Thought, Unknown, User};

struct Dialect {
    name: &'static str,
    operation: Operation,
    step: fn(Step) -> Option<Value>,
    body: fn(Vec<Value>) -> Value,
}

fn message(role: &str, content: Value) -> Option<Value> {
    Some(json!({"role": role, "content": content}))
}

fn chat(step: Step) -> Option<Value> {
    let text = |text: &str| json!({"type": "text", "text": text});
    match step {
        User(words) => message("user", words.into()),
        Part(words) => {
            message("user", json!([{"type": "image_url", "image_url": {"url": "data:"}}, text(words)]))
        }
        System(words) => message("developer", words.into()),
        Assistant(words) => message("assistant", words.into()),
        Call(words) => {
            let arguments = json!({"n": 1, "deep": [{"to": words}]}).to_string();
            let call =
                json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
            Some(json!({"role": "assistant", "content": null, "tool_calls": [call]}))
        }
        Result(words) => Some(json!({"role": "tool", "tool_call_id": "c", "content": words})),
        Thought => chat(Thinks("hm")),
        Thinks(words) => Some(json!({"role": "assistant", "reasoning_content": words})),
        Refuses(words) => Some(json!({"role": "assistant", "content": null, "refusal": words})),
        Empty => message("user", json!([text(" ")])),
        Unknown => None,
        Named(name) => Some(json!({"role": "user", "name": name, "content": "fine"})),
    }
}

fn anthropic(step: Step) -> Option<Value> {
    match step {
        Part(words) => {
            message("user", json!([{"type": "image", "source": {}}, {"type": "text", "text": words}]))
        }
        System(words) => message("system", words.into()),
        Call(words) => message(
            "assistant",
            json!([{"type": "tool_use", "id": "t", "name": "f", "input": {"deep": [words]}}]),
        ),
        Result(words) => {
            let content = json!([{"type": "text", "text": words}]);
            message("user", json!([{"type": "tool_result", "tool_use_id": "t", "content": content}]))
        }
        Thought => anthropic(Thinks("hm")),
        Thinks(words) => {
            message("assistant", json!([{"type": "thinking", "thinking": words, "signature": ""}]))
        }
        Unknown => message("user", json!([{"type": "zzz"}])),
        Named(_) | Refuses(_) => None,
        step => chat(step),
    }
}

fn responses(step: Step) -> Option<Value> {
    let item = |role: &str, kind: &str, text: &str| message(role, json!([{"type": kind, "text": text}]));
    match step {
        User(words) => item("user", "input_text", words),
        Part(words) => message(
            "user",
            json!([{"type": "input_image", "image_url": "data:"}, {"type": "input_text", "text": words}]),
        ),
        System(words) => item("developer", "input_text", words),
        Assistant(words) => item("assistant", "output_text", words),
        Call(words) => {
            let arguments = json!({"to": [words]}).to_string();
            Some(json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}))
        }
        Result(words) => Some(json!({"type": "function_call_output", "call_id": "c", "output": words})),
        Thought => Some(json!({"type": "reasoning", "summary": []})),
        Thinks(words) => {
            Some(json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": words}]}))
        }
        Refuses(words) => message("assistant", json!([{"type": "refusal", "refusal": words}])),
        Empty => message("user", json!([])),
        Unknown => Some(json!({"type": "item_reference", "id": "x"})),
        Named(_) => None,
    }
}

fn gemini(step: Step) -> Option<Value> {
    let content = |role: &str, parts: Value| Some(json!({"role": role, "parts": parts}));
    match step {
        User(words) => content("user", json!([{"text": words}])),
        Part(words) => {
            content("user", json!([{"inlineData": {"mimeType": "image/png", "data": ""}}, {"text": words}]))
        }
        Assistant(words) => content("model", json!([{"text": words}])),
        Call(words) => {
            content("model", json!([{"functionCall": {"name": "f", "args": {"deep": {"to": words}}}}]))
        }
        Result(words) => {
            content("user", json!([{"functionResponse": {"name": "f", "response": {"deep": [words]}}}]))
        }
        Thought => gemini(Thinks("hm")),
        Thinks(words) => content("model", json!([{"text": words, "thought": true}])),
        Empty => content("user", json!([{"text": ""}])),
        Unknown => content("user", json!([{"zzz": {}}])),
        System(_) | Named(_) | Refuses(_) => None,
    }
}

/// Texts alone: those of prompts and inputs are judged, however many.
fn text(step: Step) -> Option<Value> {
    if let User(words) = step { Some(words.into()) } else { None }
}

const DIALECTS: [Dialect; 10] = [
    Dialect {
        name: "chat",
        operation: Operation::ChatCompletions,
        step: chat,
        body: |list| json!({"model": "m", "messages": list}),
    },
    Dialect {
        name: "messages",
        operation: Operation::Messages,
        step: anthropic,
        body: |list| json!({"model": "m", "messages": list}),
    },
    Dialect {
        name: "count_tokens",
        operation: Operation::CountTokens,
        step: anthropic,
        body: |list| json!({"model": "m", "messages": list}),
    },
    Dialect {
        name: "responses",
        operation: Operation::Responses,
        step: responses,
        body: |list| json!({"model": "m", "input": list}),
    },
    Dialect {
        name: "gemini",
        operation: Operation::GenerateContent,
        step: gemini,
        body: |list| json!({"contents": list}),
    },
    Dialect {
        name: "gemini's count",
        operation: Operation::GeminiCountTokens,
        step: gemini,
        body: |list| json!({"generateContentRequest": {"contents": list}}),
    },
    Dialect {
        name: "generic",
        operation: Operation::Passthrough,
        step: chat,
        body: |list| json!({"model": "m", "messages": list}),
    },
    Dialect {
        name: "generic responses",
        operation: Operation::Passthrough,
        step: responses,
        body: |list| json!({"model": "m", "input": list}),
    },
    Dialect {
        name: "completions",
        operation: Operation::Completions,
        step: text,
        body: |list| json!({"model": "m", "prompt": list}),
    },
    Dialect {
        name: "embeddings",
        operation: Operation::Embeddings,
        step: text,
        body: |list| json!({"model": "m", "input": list}),
    },
];

/// What the model has not had yet. Each has the secret in one step.
fn new() -> Vec<Vec<Step>> {
    vec![
        vec![User(SECRET)],
        vec![User(SECRET), User("fine")],
        vec![Part(SECRET)],
        vec![User(SECRET), System("fine")],
        vec![System(SECRET), User("fine")],
        vec![User("fine"), System(SECRET)],
        // A prefill, and what stands before it.
        vec![User(SECRET), Assistant("Sure")],
        vec![User("fine"), Assistant(SECRET)],
        vec![User("fine"), Call(SECRET)],
        vec![User("fine"), Assistant("fine"), User(SECRET), Assistant("Sure")],
        // Several results, and words among them.
        vec![User("fine"), Call("fine"), Result(SECRET), Result("fine")],
        vec![User("fine"), Call("fine"), Result("fine"), Result(SECRET)],
        vec![User("fine"), Call("fine"), Result("fine"), User(SECRET)],
        vec![User("fine"), Call("fine"), User(SECRET), Result("fine")],
        vec![User("fine"), Assistant("fine"), User(SECRET), System("fine"), User("fine")],
        // Behind what is no turn.
        vec![User(SECRET), Thought, User("fine")],
        vec![User(SECRET), Thought],
        vec![User(SECRET), Empty],
        vec![User(SECRET), Assistant("Sure"), Empty],
        vec![User(SECRET), Unknown],
        vec![User(SECRET), Call("fine")],
        vec![Named(SECRET)],
        vec![Named(SECRET), User("fine")],
        // What the client says that the model thought, or did not want to do.
        vec![User("fine"), Thinks(SECRET)],
        vec![User("fine"), Thinks(SECRET), User("fine")],
        vec![User("fine"), Refuses(SECRET)],
    ]
}

/// What stands before the model's last turn.
fn earlier() -> Vec<Vec<Step>> {
    vec![
        vec![User(SECRET), Assistant("fine"), User("fine")],
        vec![System(SECRET), User("fine"), Assistant("fine"), User("fine")],
        vec![User("fine"), Call(SECRET), Result("fine")],
        vec![User("fine"), Call("fine"), Result(SECRET), Assistant("fine"), User("fine")],
        vec![User("fine"), Assistant(SECRET), User("fine")],
        vec![Named(SECRET), Assistant("fine"), User("fine")],
        vec![User("fine"), Thinks(SECRET), Call("fine"), Result("fine")],
        vec![User("fine"), Refuses(SECRET), User("fine")],
    ]
}

/// The conversation in each dialect that has all of its steps.
fn bodies(steps: &[Step]) -> Vec<(&'static Dialect, String)> {
    let written = |dialect: &'static Dialect| {
        let list: Option<Vec<Value>> = steps.iter().map(|step| (dialect.step)(*step)).collect();
        Some((dialect, (dialect.body)(list?).to_string()))
    };
    DIALECTS.iter().filter_map(written).collect()
}

fn subject(dialect: &Dialect, body: &str, scope: JudgedScope) -> Subject {
    let mut subject = Subject::of_request(dialect.operation, body);
    subject.select(Selection { scope, ..Selection::default() });
    subject
}

pub(super) fn is_denied(subject: &Subject) -> bool {
    let contains = check_kind("contains").unwrap();
    !run(contains, json!({"operator": "none", "words": [SECRET]}), subject).verdict
}

#[test]
fn what_is_new_is_judged_wherever_it_stands() {
    let mut judged = 0;
    for steps in new() {
        for (dialect, body) in bodies(&steps) {
            for scope in [JudgedScope::New, JudgedScope::All] {
                assert!(is_denied(&subject(dialect, &body, scope)), "{} {scope:?}: {body}", dialect.name);
                judged += 1;
            }
        }
    }
    assert!(judged > 250, "{judged}");
}

#[test]
fn what_is_not_new_is_judged_by_the_scope_of_all_and_counted_by_the_other() {
    for steps in earlier() {
        for (dialect, body) in bodies(&steps) {
            let new = subject(dialect, &body, JudgedScope::New);
            // Of a body of unknown shape all that is no earlier message is judged.
            if !(dialect.operation == Operation::Passthrough && is_denied(&new)) {
                assert!(!is_denied(&new), "{}: {body}", dialect.name);
                assert!(json!(new.judged())["left_out"].is_object(), "{}: {body}", dialect.name);
            }
            let all = subject(dialect, &body, JudgedScope::All);
            assert!(is_denied(&all), "{}: {body}", dialect.name);
            assert_eq!(json!(all.judged())["left_out"], Value::Null, "{}: {body}", dialect.name);
        }
    }
}

/// What is judged can be changed where it stands: nothing of the secret is left, and all else is as it was.
#[test]
fn every_place_is_changed_where_it_stands() {
    let replace = check_kind("regexReplace").unwrap();
    for steps in new().into_iter().chain(earlier()) {
        let without: Vec<Step> = steps.iter().map(|step| redacted(*step)).collect();
        for ((dialect, body), (_, wanted)) in bodies(&steps).into_iter().zip(bodies(&without)) {
            let mut changed = subject(dialect, &body, JudgedScope::New);
            let finding = run(replace, json!({"rule": SECRET, "redactText": REDACTED}), &changed);
            assert!(changed.apply(&finding.change), "{}: {body}", dialect.name);
            let of = |json: &str| serde_json::from_str::<Value>(json).unwrap();
            assert_eq!(of(&changed.source), of(&wanted), "{}: {body}", dialect.name);
        }
    }
}

fn redacted(step: Step) -> Step {
    match step {
        User(SECRET) => User(REDACTED),
        Part(SECRET) => Part(REDACTED),
        System(SECRET) => System(REDACTED),
        Assistant(SECRET) => Assistant(REDACTED),
        Call(SECRET) => Call(REDACTED),
        Result(SECRET) => Result(REDACTED),
        Named(SECRET) => Named(REDACTED),
        Thinks(SECRET) => Thinks(REDACTED),
        Refuses(SECRET) => Refuses(REDACTED),
        step => step,
    }
}

/// Declarations of tools and names of files are judged, and read, where a hook wants them.
#[test]
fn declarations_and_names_of_files_are_judged_by_choice() {
    let tools = Selection { tools: true, ..Selection::default() };
    let files = Selection { files: true, ..Selection::default() };
    for (operation, body, wanted) in [
        (
            Operation::ChatCompletions,
            json!({"messages": [], "tools": [{"type": "function", "function": {"name": "f", "description": SECRET}}]}),
            tools,
        ),
        (
            Operation::Messages,
            json!({"messages": [], "tools": [{"name": "f", "input_schema": {"properties": {"a": {"description": SECRET}}}}]}),
            tools,
        ),
        (Operation::Responses, json!({"input": "a", "tools": [{"type": "function", "name": SECRET}]}), tools),
        (
            Operation::Responses,
            json!({"input": [{"type": "additional_tools", "tools": [{"name": SECRET}]}]}),
            tools,
        ),
        (
            Operation::GenerateContent,
            json!({"contents": [], "tools": [{"functionDeclarations": [{"name": "f", "description": SECRET}]}]}),
            tools,
        ),
        (
            Operation::ChatCompletions,
            json!({"messages": [], "response_format": {"json_schema": {"schema": {"description": SECRET}}}}),
            tools,
        ),
        (
            Operation::ChatCompletions,
            json!({"messages": [{"role": "user", "content": [{"type": "file", "file": {"filename": SECRET}}]}]}),
            files,
        ),
        (
            Operation::Responses,
            json!({"input": [{"role": "user", "content": [{"type": "input_file", "filename": SECRET}]}]}),
            files,
        ),
        (
            Operation::GenerateContent,
            json!({"contents": [{"parts": [{"fileData": {"fileUri": "u", "displayName": SECRET}}]}]}),
            files,
        ),
    ] {
        assert_by_choice(operation, &body, wanted);
    }
}

/// All that a model reads of tools, and of what it is told beside messages.
#[test]
fn schemas_examples_and_instructions_are_judged_with_the_tools() {
    let tools = Selection { tools: true, ..Selection::default() };
    for (operation, body) in [
        (
            Operation::Messages,
            json!({"messages": [], "context_management": {"edits": [{"type": "compact_20260112", "instructions": SECRET}]}}),
        ),
        (Operation::Messages, json!({"messages": [], "tools": [{"input_examples": [{"a": SECRET}]}]})),
        (
            Operation::Messages,
            json!({"messages": [], "tools": [{"input_schema": {"properties": {"a": {"enum": [SECRET]}}}}]}),
        ),
        (
            Operation::ChatCompletions,
            json!({"messages": [], "tools": [{"function": {"parameters": {"properties": {"a": {"const": SECRET}}}}}]}),
        ),
        (
            Operation::Responses,
            json!({"input": "a", "tools": [{"type": "mcp", "server_description": SECRET}]}),
        ),
        (
            Operation::Responses,
            json!({"input": "a", "tools": [{"type": "custom", "format": {"type": "grammar", "definition": SECRET}}]}),
        ),
        (
            Operation::Responses,
            json!({"input": "a", "tools": [{"type": "shell", "environment": {"skills": [{"description": SECRET}]}}]}),
        ),
    ] {
        assert_by_choice(operation, &body, tools);
    }
}

fn assert_by_choice(operation: Operation, body: &Value, wanted: Selection) {
    for (selection, denied) in [(Selection::default(), false), (wanted, true)] {
        let mut subject = Subject::of_request(operation, &body.to_string());
        subject.select(selection);
        assert_eq!(is_denied(&subject) && subject.text().is_some(), denied, "{body} {selection:?}");
    }
}

/// What the model reads besides messages each time, whatever the scope.
#[test]
fn documents_of_a_chat_are_judged_and_changed() {
    for documents in [
        json!([SECRET]),
        json!([{"id": "1", "data": SECRET}]),
        json!([{"id": "1", "data": {"text": SECRET}}]),
        json!([{"data": {"title": SECRET, "snippet": "a"}}]),
        json!([{"id": SECRET}]),
        json!([{"text": SECRET}]),
    ] {
        let messages = json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]);
        let body = json!({"model": "m", "messages": messages, "documents": documents});
        let mut subject = Subject::of_request(Operation::ChatCompletions, &body.to_string());
        assert!(is_denied(&subject), "{body}");
        let texts = subject.texts.iter().map(|text| Some(text.text.replace(SECRET, REDACTED))).collect();
        assert!(subject.apply(&Change::Texts(texts)), "{body}");
        assert!(!subject.source.contains(SECRET), "{}", subject.source);
    }
}

/// A check of a text's form does not read arguments as text, and says that there is none.
#[test]
fn checks_of_form_read_prose_alone() {
    let call =
        json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": r#"{"a":"b c d"}"#}});
    let answer = |content: Value| {
        let message = json!({"role": "assistant", "content": content, "tool_calls": [call]});
        let body = json!({"choices": [{"index": 0, "message": message}]});
        Subject::of_request(Operation::ChatCompletions, "{}").with_response(&body.to_string())
    };
    let counts = check_kind("wordCount").unwrap();
    let range = json!({"minWords": 2, "maxWords": 2});
    assert!(run(counts, range.clone(), &answer("two words".into())).verdict);
    let finding = run(counts, range, &answer(Value::Null));
    assert!(finding.error.is_some() && !finding.verdict);
    assert_eq!(answer("two words".into()).text(), Some("two words\na\nb c d"));
    assert_eq!(json!(answer(Value::Null).judged()), json!({"texts": {"arguments": 2}}));
}

/// The arguments of answers in each dialect: judged for each choice, and changed where they stand.
#[test]
fn the_arguments_of_every_dialects_answers_are_judged_and_changed() {
    let arguments = json!({"to": SECRET}).to_string();
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
    let message = |call: &Value| json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let fine = json!({"index": 0, "message": {"role": "assistant", "content": "fine"}});
    for (body, place) in [
        (
            json!({"choices": [{"index": 0, "message": message(&call)}]}),
            "/choices/0/message/tool_calls/0/function/arguments",
        ),
        (
            json!({"choices": [fine, {"index": 1, "message": message(&call)}]}),
            "/choices/1/message/tool_calls/0/function/arguments",
        ),
        (
            json!({"choices": [{"message": message(&json!({"type": "custom", "custom": {"name": "f", "input": format!("to {SECRET}")}}))}]}),
            "/choices/0/message/tool_calls/0/custom/input",
        ),
        (
            json!({"choices": [{"message": {"content": null, "function_call": {"name": "f", "arguments": arguments}}}]}),
            "/choices/0/message/function_call/arguments",
        ),
        (
            json!({"content": [{"type": "text", "text": "a"}, {"type": "tool_use", "input": {"to": SECRET}}]}),
            "/content/1/input/to",
        ),
        (json!({"output": [{"type": "function_call", "arguments": arguments}]}), "/output/0/arguments"),
        (
            json!({"output": [{"type": "custom_tool_call", "input": format!("to {SECRET}")}]}),
            "/output/0/input",
        ),
        (json!({"output": [{"type": "mcp_call", "arguments": arguments}]}), "/output/0/arguments"),
        (
            json!({"output": [{"type": "local_shell_call", "action": {"command": ["echo", SECRET]}}]}),
            "/output/0/action/command/1",
        ),
        (
            json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"to": SECRET}}}]}}]}),
            "/candidates/0/content/parts/0/functionCall/args/to",
        ),
    ] {
        let mut subject =
            Subject::of_request(Operation::ChatCompletions, "{}").with_response(&body.to_string());
        let others = subject.other_choices();
        assert!(is_denied(&subject) || others.iter().any(is_denied), "{body}");
        let texts = subject.texts.iter().map(|text| Some(text.text.replace(SECRET, "\"*\""))).collect();
        assert!(subject.apply(&Change::Texts(texts)), "{body}");
        let changed: Value = serde_json::from_str(&subject.source).unwrap();
        let changed = changed.pointer(place).and_then(Value::as_str).unwrap().to_owned();
        let texts = leaves(&changed).map(|leaves| leaves.last().unwrap().text.clone());
        assert!(["\"*\"", "to \"*\""].contains(&texts.as_deref().unwrap_or(&changed)), "{body}: {changed}");
    }
}
