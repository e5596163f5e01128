//! Where marks are set, in each format; and that nothing else of a body changes. Sessions in each dialect: `provider::prefixes`.

use super::{MarkForm, Marks, OF_TOOLS};
use crate::provider::translation::{PrepareOptions, prepare};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::{Call, find};
use http::Method;
use proptest::prelude::*;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::operation::Operation;
use words::config::account::Account;
use words::config::policies::MarkTtl;

/// A body without its marks, and where they stood, in the order of the prompt. A list of one text counts as that text, which it is.
pub(in crate::provider) fn taken_out(body: &Body) -> (Value, Vec<String>) {
    let mut value: Value = serde_json::from_slice(body.bytes()).unwrap();
    let mut places = Vec::new();
    take_out(&mut value, "", &mut places);
    places.sort_by_key(|place| {
        (
            place.starts_with("/messages"),
            Vec::from_iter(place.split('/').map(|part| part.parse::<u32>().ok())),
        )
    });
    (value, places)
}

fn take_out(value: &mut Value, at: &str, places: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items
                .iter_mut()
                .enumerate()
                .for_each(|(index, item)| take_out(item, &format!("{at}/{index}"), places));
            items.retain(|item| item.get("cachePoint").is_none());
            let kind = json!("text");
            if let [only] = items.as_slice()
                && only["type"] == kind
                && only.as_object().is_some_and(|only| only.len() == 2)
            {
                *value = only["text"].clone();
            }
        }
        Value::Object(members) => {
            let is_mark = members.contains_key("cachePoint") || members.remove("cache_control").is_some();
            places.extend(is_mark.then(|| at.to_owned()));
            let inner = members.iter_mut().filter(|(name, _)| !OF_TOOLS.contains(&name.as_bytes()));
            inner.for_each(|(name, member)| take_out(member, &format!("{at}/{name}"), places));
        }
        _ => {}
    }
}

fn marks(form: MarkForm) -> Marks {
    Marks { form, ttl: MarkTtl::FiveMinutes, min_tokens: 0 }
}

/// Where a body gets marks; nothing else of it may change.
fn places(form: MarkForm, body: &Value) -> Vec<String> {
    let parse = |bytes: Vec<u8>| taken_out(&Body::parse(bytes.into()).unwrap());
    let Some(marked) = marks(form).placed(body.to_string().as_bytes()) else { return Vec::new() };
    let (rest, places) = parse(marked);
    assert_eq!(rest, parse(body.to_string().into_bytes()).0);
    places
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

#[test]
fn the_end_of_the_system_prompt_and_of_the_last_three_requests_are_marked() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let tool = json!({"name": "f", "input_schema": {"type": "object"}});
    let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": [text("x")]});
    let whole = json!({"tools": [tool], "system": [text("a"), text("b")], "messages": [
        user(json!("one")), assistant(json!("1")),
        user(json!([text("two"), text("2")])), assistant(json!([text("2"), call])), assistant(json!("more")),
        user(json!([result, text("")])), assistant(json!("3")),
        user(json!([text("four")]))]});
    let wanted = ["/system/1", "/messages/2/content/1", "/messages/5/content/0", "/messages/7/content/0"];
    assert_eq!(places(MarkForm::Messages, &whole), wanted);

    let deferred = json!({"name": "g", "defer_loading": true, "input_schema": {}});
    let without = json!({"tools": [tool, tool, deferred], "messages": [user(json!("one"))]});
    assert_eq!(places(MarkForm::Messages, &without), ["/tools/1", "/messages/0/content/0"]);
    // What the model is to go on with is not marked, nor is what may have no mark.
    let thought = json!({"type": "thinking", "thinking": "t", "signature": "s"});
    let prefilled = json!({"system": "s", "messages": [user(json!("one")), assistant(json!([thought]))]});
    assert_eq!(places(MarkForm::Messages, &prefilled), ["/system/0", "/messages/0/content/0"]);
    let late = json!({"messages": [user(json!("one")), {"role": "system", "content": "9 left"}]});
    assert_eq!(places(MarkForm::Messages, &late), ["/messages/0/content/0"]);
    let blank = json!({"system": " \n", "messages": [user(json!("")), user(json!([text(""), thought]))]});
    assert_eq!(places(MarkForm::Messages, &blank), [""; 0]);
    for no_prompt in [json!({}), json!({"messages": "x"}), json!({"messages": []}), json!([])] {
        assert_eq!(places(MarkForm::Messages, &no_prompt), [""; 0]);
    }
}

#[test]
fn chats_are_marked_on_texts_and_converse_behind_blocks() {
    let image = json!({"type": "image_url", "image_url": {"url": "https://a.example"}});
    let chat = json!({"messages": [{"role": "system", "content": "s"}, {"role": "developer", "content": ""},
        user(json!([{"type": "text", "text": "a"}, image])),
        {"role": "assistant", "content": null, "tool_calls": []},
        {"role": "tool", "tool_call_id": "a", "content": "x"}]});
    let wanted = ["/messages/0/content/0", "/messages/2/content/0", "/messages/4/content/0"];
    assert_eq!(places(MarkForm::Chat, &chat), wanted);

    let converse = json!({"system": [], "toolConfig": {"tools": [{"toolSpec": {"name": "f"}}]}, "messages": [
        user(json!([{"toolResult": {"toolUseId": "a", "content": [{"json": {"cachePoint": 1}}]}}, {"text": ""}])),
        assistant(json!([{"text": "b"}]))]});
    let with_tools = ["/toolConfig/tools/1", "/messages/0/content/1"];
    let claude = MarkForm::Converse { on_tools: true, for_an_hour: true };
    let nova = MarkForm::Converse { on_tools: false, for_an_hour: false };
    assert_eq!(places(claude, &converse), with_tools);
    assert_eq!(places(nova, &converse), [""; 0], "Nova takes none behind a result of a tool");
    // Claude takes none behind documents, Nova none behind images.
    let media = json!({"messages": [user(json!([{"text": "a"}, {"image": {}}, {"document": {}}]))]});
    assert_eq!(places(claude, &media), ["/messages/0/content/2"]);
    assert_eq!(places(nova, &media), ["/messages/0/content/1"]);
}

#[test]
fn what_is_no_tool_and_what_is_loaded_later_has_no_mark() {
    let words = json!([user(json!("one"))]);
    for tool in [
        json!({}),
        json!("x"),
        json!(null),
        json!({"type": "mcp_toolset", "default_config": {"defer_loading": true}}),
    ] {
        let body = json!({"tools": [tool], "messages": words});
        assert_eq!(places(MarkForm::Messages, &body), ["/messages/0/content/0"], "{body}");
    }
    let wordless = json!({"messages": [user(json!([{"type": "text"}, {"type": "text", "text": null}]))]});
    assert_eq!(places(MarkForm::Messages, &wordless), [""; 0]);
}

#[test]
fn a_request_with_marks_of_its_own_or_too_short_a_one_has_none_set() {
    let mark = json!({"type": "ephemeral"});
    let marked = |control: Value| json!({"system": [{"type": "text", "text": "s", "cache_control": control}], "messages": [user(json!("a"))]});
    assert!(marks(MarkForm::Messages).placed(marked(mark.clone()).to_string().as_bytes()).is_none());
    let set = marks(MarkForm::Messages).placed(marked(Value::Null).to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&set).unwrap()["system"], marked(mark.clone())["system"]);
    for body in [
        json!({"cache_control": mark, "messages": [user(json!("a"))]}),
        json!({"tools": [{"name": "f", "cache_control": mark, "input_schema": {}}], "messages": [user(json!("a"))]}),
        json!({"messages": [user(json!([{"type": "text", "text": "a", "prompt_cache_breakpoint": {"mode": "explicit"}}]))]}),
        json!({"messages": [user(json!([{"type": "tool_result", "tool_use_id": "a",
            "content": [{"type": "text", "text": "a", "cache_control": mark}]}]))]}),
    ] {
        assert!(marks(MarkForm::Messages).placed(body.to_string().as_bytes()).is_none(), "{body}");
    }
    let input = json!({"tools": [{"name": "f", "input_schema": {"properties": {"cache_control": {}}}}], "messages": [
        user(json!("a")), assistant(json!([{"type": "tool_use", "id": "a", "name": "f", "input": {"cache_control": 1}}])),
        user(json!("{\"cache_control\": 1}"))]});
    assert!(marks(MarkForm::Messages).placed(input.to_string().as_bytes()).is_some());
    let twice = br#"{"messages":[{"role":"user","content":"a"}],"messages":[]}"#;
    assert!(marks(MarkForm::Messages).placed(twice).is_none());

    let needs = Marks { min_tokens: 1024, ..marks(MarkForm::Messages) };
    let text = |bytes: usize| json!({"messages": [user(json!("a".repeat(bytes)))]}).to_string();
    assert!(needs.placed(text(1900).as_bytes()).is_none());
    assert!(needs.placed(text(2048).as_bytes()).is_some());
    let image = json!({"messages": [user(json!([{"type": "image", "source": {"type": "url", "url": "https://a.example"}}]))]});
    assert!(needs.placed(image.to_string().as_bytes()).is_some(), "a picture is many tokens");
}

/// What is sent of a client's body, and whether it is the client's own bytes.
fn sent(provider: &str, model: &str, operation: Operation, body: &Value, marks: Option<MarkTtl>) -> Value {
    let mut account = Account::default();
    account.cloud_a.region = Some("us-east-1".into());
    let body = Body::parse(body.to_string().into()).unwrap();
    let path = operation.label();
    let call =
        Call { operation, method: &Method::POST, path, query: None, model: Some(model), streamed: false };
    let options = PrepareOptions {
        strict: false,
        stream_usage: false,
        client_betas: None,
        learned: None,
        prompt_cache: marks,
    };
    let mut notes = TranslationNotes::default();
    let prepared =
        prepare(find(provider).unwrap(), &call, &account, Some(&body), options, &mut notes).unwrap();
    serde_json::from_slice(prepared.body.as_deref().unwrap_or(body.bytes())).unwrap()
}

#[test]
fn tools_of_translated_chats_have_an_order_of_their_own_and_counted_tokens_no_marks() {
    let words = "word ".repeat(3000);
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    let chat = |names: [&str; 3], content: Value| json!({"model": "claude-sonnet-4-5", "tools": names.map(tool), "messages": [user(content)]});
    let one = chat(["b", "c", "a"], json!(words));
    let other = chat(["c", "a", "b"], json!(words));
    let model = "claude-sonnet-4-5";
    let names = |body: &Value, ttl| {
        let sent = sent("anthropic", model, Operation::ChatCompletions, body, ttl);
        Vec::from_iter(
            sent["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()),
        )
    };
    let auto = Some(MarkTtl::FiveMinutes);
    assert_eq!(
        (names(&one, auto), names(&other, auto)),
        (names(&other, auto), ["a", "b", "c"].map(String::from).to_vec())
    );
    assert_eq!(names(&one, None), ["b", "c", "a"]);
    let marked = json!([{"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}]);
    assert_eq!(names(&chat(["b", "c", "a"], marked), auto), ["b", "c", "a"]);

    let messages = json!({"model": model, "max_tokens": 9, "messages": [user(json!(words))]});
    let hour = sent("anthropic", model, Operation::Messages, &messages, Some(MarkTtl::Hour));
    let wanted =
        json!([{"type": "text", "text": words, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]);
    assert_eq!(hour["messages"][0]["content"], wanted);
    assert_eq!(sent("anthropic", model, Operation::CountTokens, &messages, auto), messages);
    // Who caches by itself gets none, and neither does a model that is not known to take cache points.
    for (provider, model) in [
        ("openai", "gpt-5.2"),
        ("openrouter", "openai/gpt-5.2"),
        ("bedrock", "qwen.qwen3-32b-v1:0"),
        ("bedrock", "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a"),
        ("google", "gemini-2.5-pro"),
    ] {
        let with = sent(provider, model, Operation::Messages, &messages, auto);
        assert_eq!(with, sent(provider, model, Operation::Messages, &messages, None), "{provider} {model}");
    }
}

/// The blocks of a turn: of the model, then of the user.
fn blocks() -> impl Strategy<Value = (Vec<Value>, Vec<Value>)> {
    let text = |text: &'static str| json!({"type": "text", "text": text});
    let of_model = prop_oneof![
        Just(text("words")),
        Just(json!({"type": "thinking", "thinking": "t", "signature": "s"})),
        Just(json!({"type": "tool_use", "id": "a", "name": "f", "input": {"a": 1}})),
    ];
    let of_user = prop_oneof![
        3 => Just(text("words")),
        1 => Just(text("")),
        3 => Just(json!({"type": "tool_result", "tool_use_id": "a", "content": "x"})),
    ];
    (prop::collection::vec(of_model, 1..30), prop::collection::vec(of_user, 1..30))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2))]

    /// However many blocks a turn adds, what the request before has written has a mark of the next one at its very end.
    #[test]
    fn each_request_finds_what_the_one_before_has_written(turns in prop::collection::vec(blocks(), 100)) {
        let mut messages = vec![user(json!("begin"))];
        let mut before: Vec<String> = Vec::new();
        for (of_model, of_user) in turns {
            messages.extend([assistant(json!(of_model)), user(json!(of_user))]);
            let body = json!({"system": "s", "messages": messages});
            let now = places(MarkForm::Messages, &body);
            prop_assert!(now.len() <= 4 && now[0] == "/system/0", "{:?}", now);
            for place in now.iter().skip(1) {
                let block = body.pointer(place).cloned().unwrap_or_default();
                let is_forbidden = block["type"] == "thinking" || block["text"] == "";
                prop_assert!(!is_forbidden, "{} {}", place, block);
            }
            if let Some(end) = before.last() {
                prop_assert!(now.contains(end), "{:?} after {:?}", now, before);
            }
            before = now;
        }
    }
}
