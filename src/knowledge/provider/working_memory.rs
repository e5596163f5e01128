//! How much memory it takes to translate a chat or to change it in places: bodies of very many tiny pieces, at every provider
//! with a format of its own, measured by the allocator. It must be no more than is counted for it, and all that is allocated on the
//! way must grow with the body and not with its square. Not here: the memory of the process (`tests/held_memory.rs`).

use super::Call;
use super::find;
use super::losses::TARGETS;
use super::translation::{PrepareOptions, prepare, working_memory};
use super::translation_notes::TranslationNotes;
use http::Method;
use std::ops::Range;
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::account::Account;

/// Just above a power of two, where lists that grow by doubling waste most.
const COUNT: usize = 16_400;

/// Calls without a result: more are refused.
const MISSING: usize = 1_000;

/// All that is allocated and given back on the way, in sizes of what is counted.
const MAX_ALLOCATED: usize = 10;

/// A list of pieces, as JSON without its brackets.
fn list(places: Range<usize>, piece: impl Fn(usize) -> String) -> String {
    places.map(piece).collect::<Vec<_>>().join(",")
}

/// As [`list`], in reverse: results that come in the other order than their calls.
fn reversed(places: Range<usize>, piece: impl Fn(usize) -> String) -> String {
    places.rev().map(piece).collect::<Vec<_>>().join(",")
}

fn chat(messages: &str) -> String {
    format!(r#"{{"model":"m","max_tokens":9,"messages":[{messages}]}}"#)
}

fn with_members(members: &str) -> String {
    chat(r#"{"role":"user","content":"a"}"#).replacen('{', &format!("{{{members},"), 1)
}

/// In the dialect of messages, and in that of chat completions where it has the same shape.
fn messages() -> Vec<(&'static str, String)> {
    let user = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let turn = |n: usize| match n % 2 {
        0 => user("a"),
        _ => r#"{"role":"assistant","content":"b"}"#.to_owned(),
    };
    let part = |_| r#"{"type":"text","text":"a"}"#.to_owned();
    vec![
        ("messages of one role", list(0..COUNT, |_| user("a"))),
        ("turns", list(0..COUNT, turn)),
        ("longer turns", list(0..COUNT, |_| user(&"a".repeat(200)))),
        ("system messages", list(0..COUNT, |_| r#"{"role":"system","content":"a"}"#.to_owned())),
        ("parts", format!(r#"{{"role":"user","content":[{}]}}"#, list(0..COUNT, part))),
    ]
}

fn chats() -> Vec<(&'static str, String)> {
    let call =
        |n| format!(r#"{{"id":"c{n}","type":"function","function":{{"name":"f{n}","arguments":"{{}}"}}}}"#);
    let result = |n| format!(r#"{{"role":"tool","tool_call_id":"c{n}","content":"1"}}"#);
    let assistant = |calls: String| format!(r#"{{"role":"assistant","tool_calls":[{calls}]}}"#);
    let user = r#"{"role":"user","content":"x"}"#;
    let long = "n".repeat(60);
    let tool = |n| format!(r#"{{"type":"function","function":{{"name":"{long}{n}"}}}}"#);
    let member = |n| format!(r#""m{n}":1"#);
    let rest = format!(r#"{{"type":"function","function":{{"name":"f",{}}}}}"#, list(0..4_000, member));
    let several = [rest.as_str(); 4].join(",");
    vec![
        ("calls", {
            let calls = list(0..COUNT, call);
            let results = reversed(0..COUNT, result);
            chat(&format!("{user},{},{results}", assistant(calls)))
        }),
        ("calls without results", {
            let turns = list(0..MISSING, |n| format!("{},{user}", assistant(call(n))));
            chat(&format!("{user},{turns}"))
        }),
        ("members", with_members(&list(0..4_000, member))),
        ("tools", with_members(&format!(r#""tools":[{}]"#, list(0..COUNT, tool)))),
        ("descriptions of a schema", {
            // An object with more than 4,096 members is not rewritten.
            let twice = list(0..2_000, |_| r#""description":"a","minimum":1"#.to_owned());
            let function = format!(r#"{{"name":"f","strict":true,"parameters":{{{twice}}}}}"#);
            with_members(&format!(r#""tools":[{{"type":"function","function":{function}}}]"#))
        }),
        ("betas", with_members(&format!(r#""betas":"{}""#, list(0..COUNT, |n| format!("b{n}"))))),
        ("members of a tool", with_members(&format!(r#""tools":[{several}]"#))),
    ]
}

/// As Anthropic's SDKs write them.
fn blocks() -> Vec<(&'static str, String)> {
    let call = |n| format!(r#"{{"type":"tool_use","id":"c{n}","name":"f","input":{{}}}}"#);
    let result = |n| format!(r#"{{"type":"tool_result","tool_use_id":"c{n}","content":"1"}}"#);
    let calls = list(0..COUNT, call);
    let results = reversed(0..COUNT, result);
    let document = |_| {
        let source = r#"{"type":"text","media_type":"text/plain","data":"x"}"#;
        format!(r#"{{"type":"document","title":"a","source":{source}}}"#)
    };
    let turn = |role: &str, content: String| format!(r#"{{"role":"{role}","content":[{content}]}}"#);
    vec![
        ("calls", chat(&format!("{},{}", turn("assistant", calls), turn("user", results)))),
        ("documents", chat(&turn("user", list(0..COUNT, document)))),
        ("texts of a document", {
            let text = "a".repeat(50);
            let texts = list(0..COUNT, |_| format!(r#"{{"type":"text","text":"{text}"}}"#));
            let source = format!(r#"{{"type":"content","content":[{texts}]}}"#);
            chat(&turn("user", format!(r#"{{"type":"document","title":"a","source":{source}}}"#)))
        }),
    ]
}

fn gemini() -> Vec<(&'static str, String)> {
    let call = |n| format!(r#"{{"functionCall":{{"id":"c{n}","name":"f"}}}}"#);
    let result = |n| format!(r#"{{"functionResponse":{{"id":"c{n}","name":"f","response":{{}}}}}}"#);
    let content = |role: &str, parts: String| format!(r#"{{"role":"{role}","parts":[{parts}]}}"#);
    let text = || r#"{"text":"a"}"#.to_owned();
    let body = |contents: String| format!(r#"{{"contents":[{contents}]}}"#);
    let calls = list(0..COUNT, call);
    let results = reversed(0..COUNT, result);
    vec![
        ("contents", body(list(0..COUNT, |_| content("user", text())))),
        ("parts", body(content("user", list(0..COUNT, |_| text())))),
        ("calls", body(format!("{},{}", content("model", calls), content("user", results)))),
        ("calls without results", {
            let calls = list(0..MISSING, |_| r#"{"functionCall":{"name":"f"}}"#.to_owned());
            body(format!("{},{}", content("model", calls), content("user", text())))
        }),
        ("a wide schema", {
            let members = list(0..COUNT, |n| format!(r#""k{n}":1"#));
            let tool = format!(r#"{{"name":"f","parameters":{{"$comment":1,{members}}}}}"#);
            let tools = format!(r#"[{{"functionDeclarations":[{tool}]}}]"#);
            format!(r#"{{"contents":[{}],"tools":{tools}}}"#, content("user", text()))
        }),
    ]
}

fn bodies() -> Vec<(&'static str, Operation, String)> {
    let of = |operation, bodies: Vec<(&'static str, String)>| {
        bodies.into_iter().map(move |(name, body)| (name, operation, body))
    };
    let wrapped = || messages().into_iter().map(|(name, list)| (name, chat(&list))).collect();
    let items = messages().into_iter().filter(|(name, _)| *name != "parts");
    let thoughts = list(0..COUNT, |_| format!(r#"{{"type":"summary_text","text":"{}"}}"#, "a".repeat(50)));
    let thoughts = format!(r#"{{"type":"reasoning","id":"rs_1","summary":[{thoughts}]}}"#);
    let thoughts =
        format!(r#"{thoughts},{{"role":"assistant","content":"b"}},{{"role":"user","content":"a"}}"#);
    let items = items.chain([("thoughts", thoughts)]);
    let items = items.map(|(name, list)| (name, format!(r#"{{"model":"m","input":[{list}]}}"#))).collect();
    of(Operation::ChatCompletions, wrapped())
        .chain(of(Operation::ChatCompletions, chats()))
        .chain(of(Operation::Messages, wrapped()))
        .chain(of(Operation::Messages, blocks()))
        .chain(of(Operation::Responses, items))
        .chain(of(Operation::GenerateContent, gemini()))
        .collect()
}

#[test]
fn no_more_memory_is_taken_than_is_counted() {
    let account = {
        let mut account = Account::default();
        account.cloud_a.region = Some("us-east-1".into());
        account.cloud_b.region = Some("us-central1".into());
        account.cloud_b.project_id = Some("p".into());
        account
    };
    let mut over = Vec::new();
    let mut most = 0;
    let mut translated = 0;
    for (name, operation, body) in bodies() {
        let counted = working_memory(body.as_bytes());
        let body = Body::parse(body.into()).unwrap();
        for (provider, model) in TARGETS.into_iter().chain([("openai", "gpt-5")]) {
            let path = match operation {
                Operation::GenerateContent => "models/m:generateContent",
                _ => operation.label(),
            };
            let method = &Method::POST;
            let model = Some(model);
            let call = Call { operation, method, path, query: None, model, streamed: false };
            let options = PrepareOptions {
                strict: false,
                stream_usage: false,
                client_betas: None,
                learned: None,
                prompt_cache: None,
            };
            let mut notes = TranslationNotes::default();
            let mut sent = false;
            let taken = allocation_counter::measure(|| {
                let prepared =
                    prepare(find(provider).unwrap(), &call, &account, Some(&body), options, &mut notes);
                sent = prepared.is_ok_and(|prepared| prepared.body.is_some());
            });
            let all = usize::try_from(taken.bytes_total).unwrap();
            if all > MAX_ALLOCATED * counted {
                over.push(format!(
                    "{name} of {operation:?} to {provider}: {all} bytes in all, {counted} counted"
                ));
            }
            let taken = usize::try_from(taken.bytes_max).unwrap();
            translated += usize::from(sent);
            most = most.max(taken * 100 / counted);
            if taken > counted {
                over.push(format!("{name} of {operation:?} to {provider}: {taken} of {counted} bytes"));
            }
        }
    }
    assert!(over.is_empty(), "{over:#?}");
    assert!(translated > 100, "{translated}");
    assert!(most > 60, "far more is counted than is taken: at most {most} % of it");
}
