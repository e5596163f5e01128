//! Encodes events into messages: both encoders are compared with each other and with the content of the events.

use super::grammar;
use crate::api::body::Body;
use crate::api::chat::{EncodeContext, Event, Finish, ProviderError, Start};
use crate::api::messages::encoder;
use crate::api::operation::Operation;
use crate::api::token_estimate::{self, CountText};
use crate::api::usage::Usage;
use proptest::prelude::*;
use serde_json::{Value, json};

fn context(strict: bool) -> EncodeContext {
    EncodeContext {
        id: "0190".to_owned(),
        created: 0,
        model: "asked-for".to_owned(),
        provider: "test",
        strict,
        is_own_dialect: false,
        include_usage: true,
        request: None,
    }
}

fn encode(events: &[Event<'_>], streamed: bool, strict: bool) -> Vec<u8> {
    let mut encoder = encoder(streamed, context(strict));
    let mut out = Vec::new();
    for event in events {
        encoder.write(event, &mut out);
    }
    encoder.close(&mut out);
    out
}

/// The message from both encoders, which must be the same. Inputs are parsed.
fn encode_both_ways(events: &[Event<'_>], strict: bool) -> Value {
    let stream = encode(events, true, strict);
    let mut streamed = grammar::read(&stream).unwrap_or_else(|error| panic!("{error}\n{}", text(&stream)));
    let whole = encode(events, false, strict);
    let whole: Value = serde_json::from_slice(&whole).unwrap_or_else(|_| panic!("{}", text(&whole)));
    for block in streamed["content"].as_array_mut().unwrap() {
        if let Some(partial) = block["input"]["partial"].as_str() {
            let parsed = serde_json::from_str::<Value>(partial).ok().filter(Value::is_object);
            block["input"] = match partial.trim() {
                "" | "null" => json!({}),
                _ => parsed.unwrap_or_else(|| json!({"INVALID_JSON": partial})),
            };
        }
    }
    assert_eq!(streamed, whole, "stream and whole\n{}", text(&stream));
    whole
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn text_event(text: &str) -> Event<'_> {
    Event::Text { choice: 0, text }
}

fn call<'a>(index: u32, id: &'a str) -> Event<'a> {
    Event::ToolCall { choice: 0, index, id, name: "look", signature: None }
}

fn arguments_event(index: u32, fragment: &str) -> Event<'_> {
    Event::Arguments { choice: 0, index, fragment }
}

fn finish(reason: Finish, native: &str) -> Event<'_> {
    Event::Finish { choice: 0, reason, native }
}

#[test]
fn a_whole_response_with_everything() {
    let usage =
        Usage { input: 110, output: 30, cached: 80, cache_write: 20, reasoning: 9, ..Usage::default() };
    let annotation =
        r#"{"type":"url_citation","url_citation":{"url":"https://a.b","title":"T","start_index":0}}"#;
    let search = r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "x"}}"#;
    let found = "{\"type\":\"web_search_tool_result\",\n \"tool_use_id\":\"srvtoolu_1\",\"content\":[]}";
    let events = [
        Event::Start(Start { id: Some("msg_01"), model: Some("m-1"), created: None }),
        Event::Reasoning { choice: 0, text: "Hm" },
        Event::Reasoning { choice: 0, text: "m." },
        Event::Signature { choice: 0, signature: "sig" },
        Event::Redacted { choice: 0, data: "xxx" },
        Event::Block { choice: 0, json: search },
        Event::Block { choice: 0, json: found },
        text_event("It "),
        text_event("is."),
        Event::Annotation { choice: 0, json: annotation },
        text_event(" So."),
        call(0, "call_1"),
        arguments_event(0, "{\"a\":"),
        arguments_event(0, "1.0}"),
        finish(Finish::ToolCalls, "tool_calls"),
        Event::Usage(usage),
    ];
    let citation = json!({"type": "web_search_result_location", "url": "https://a.b", "title": "T",
        "cited_text": "", "encrypted_index": ""});
    let wanted = json!({
        "id": "msg_01", "type": "message", "role": "assistant", "model": "m-1",
        "content": [
            {"type": "thinking", "thinking": "Hmm.", "signature": "sig"},
            {"type": "redacted_thinking", "data": "xxx"},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
            {"type": "text", "text": "It is.", "citations": [citation]},
            {"type": "text", "text": " So."},
            {"type": "tool_use", "id": "call_1", "name": "look", "input": {"a": 1.0}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 80,
            "output_tokens": 30, "output_tokens_details": {"thinking_tokens": 9}},
    });
    assert_eq!(encode_both_ways(&events, true), wanted);
    assert!(text(&encode(&events, false, true)).contains(r#"{"a":1.0}"#), "digits stay as written");
}

#[test]
fn a_stream_begins_with_the_estimate_of_its_input_unless_the_provider_has_sent_it() {
    let input = |usage: Option<u64>| {
        let request =
            json!({"model": "m", "messages": [{"role": "user", "content": "one two three"}]}).to_string();
        let request = Body::parse(request.into()).unwrap();
        let estimate = token_estimate::input(Operation::Messages, &request, &CountText::ByRule);
        let mut encoder = encoder(true, EncodeContext { request: Some(request), ..context(true) });
        let mut out = Vec::new();
        encoder.write(&Event::Start(Start::default()), &mut out);
        if let Some(input) = usage {
            encoder.write(&Event::Usage(Usage { input, ..Usage::default() }), &mut out);
        }
        encoder.write(&text_event("Hi"), &mut out);
        encoder.write(&Event::Usage(Usage { input: 60, cached: 20, ..Usage::default() }), &mut out);
        encoder.write(&finish(Finish::Stop, "stop"), &mut out);
        encoder.close(&mut out);
        let out = text(&out);
        let lines = out.lines().filter_map(|line| line.strip_prefix("data: "));
        let events: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
        let last = &events[events.len() - 2];
        let first = events[0]["message"]["usage"]["input_tokens"].as_u64().unwrap();
        assert_eq!(last["usage"]["input_tokens"], 40);
        (first, estimate)
    };
    for usage in [None, Some(0)] {
        let (first, estimate) = input(usage);
        assert!(first == estimate && first > 3, "{first} {estimate}");
    }
    assert_eq!(input(Some(50)).0, 50);
}

#[test]
fn a_streams_bytes() {
    let usage = Usage { input: 5, output: 2, ..Usage::default() };
    let events = [
        Event::Start(Start { id: Some("chatcmpl-1"), ..Start::default() }),
        Event::Usage(Usage { input: 5, ..Usage::default() }),
        text_event("Hi"),
        finish(Finish::Stop, "stop"),
        Event::Usage(usage),
    ];
    let wanted = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_0190","type":"message","role":"assistant","model":"asked-for","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

"#;
    assert_eq!(text(&encode(&events, true, true)), wanted);
}

#[test]
fn why_it_stopped() {
    let cases = [
        (Finish::Stop, "stop", "end_turn"),
        (Finish::Stop, "COMPLETE", "end_turn"),
        (Finish::Stop, "STOP_SEQUENCE", "stop_sequence"),
        (Finish::Stop, "pause_turn", "pause_turn"),
        (Finish::Length, "length", "max_tokens"),
        (Finish::Length, "model_context_window_exceeded", "model_context_window_exceeded"),
        (Finish::ToolCalls, "end_turn", "tool_use"),
        (Finish::ToolCalls, "STOP", "tool_use"),
        (Finish::ContentFilter, "SAFETY", "refusal"),
        (Finish::ContentFilter, "guardrail_intervened", "refusal"),
    ];
    for (reason, native, wanted) in cases {
        assert_eq!(encode_both_ways(&[finish(reason, native)], true)["stop_reason"], wanted, "{native}");
    }
    let refused = [Event::Refusal { choice: 0, text: "No." }, finish(Finish::Stop, "stop")];
    let response = encode_both_ways(&refused, true);
    assert_eq!(
        (&response["stop_reason"], &response["content"][0]["text"]),
        (&json!("refusal"), &json!("No."))
    );
    // Complete, without a finish reason.
    assert_eq!(encode_both_ways(&[text_event("x")], true)["stop_reason"], "end_turn");
    assert_eq!(encode_both_ways(&[call(0, "c"), arguments_event(0, "{}")], true)["stop_reason"], "tool_use");
    let stopped =
        [Event::Member { name: "stop_sequence", json: "\"END\"" }, finish(Finish::Stop, "stop_sequence")];
    assert_eq!(encode_both_ways(&stopped, true)["stop_sequence"], "END");
}

#[test]
fn interleaved_calls_become_consecutive_blocks() {
    let events = [
        call(0, "a"),
        call(1, "b"),
        arguments_event(1, "{\"b\""),
        arguments_event(0, "{\"a\":\"}"),
        text_event("Wait."),
        arguments_event(1, ":2}"),
        arguments_event(0, "{\"}"),
        arguments_event(0, " and what is behind it"),
        call(2, "c"),
        arguments_event(2, "{}"),
        finish(Finish::ToolCalls, "tool_calls"),
    ];
    let wanted = json!([
        {"type": "tool_use", "id": "a", "name": "look", "input": {"a": "}{"}},
        {"type": "tool_use", "id": "b", "name": "look", "input": {"b": 2}},
        {"type": "text", "text": "Wait."},
        {"type": "tool_use", "id": "c", "name": "look", "input": {}},
    ]);
    assert_eq!(encode_both_ways(&events, true)["content"], wanted);
    // A complete call holds nothing back: the second one is written at once.
    let mut encoder = encoder(true, context(true));
    let mut out = Vec::new();
    for event in [call(0, "a"), arguments_event(0, "{}"), call(1, "b"), arguments_event(1, "{\"x\":")] {
        encoder.write(&event, &mut out);
    }
    assert!(text(&out).ends_with("\"partial_json\":\"{\\\"x\\\":\"}}\n\n"), "{}", text(&out));
}

#[test]
fn malformed_arguments_are_never_passed_on_as_input() {
    for broken in ["{\"a\": 1", "[1]", "\"x\"", "not JSON", "{\"a\":}"] {
        let events = [call(0, "a"), arguments_event(0, broken), finish(Finish::Length, "length")];
        let response = encode_both_ways(&events, true);
        assert_eq!(response["content"][0]["input"], json!({"INVALID_JSON": broken}));
        assert_eq!(response["stop_reason"], "max_tokens");
    }
}

#[test]
fn a_call_signature_round_trips_as_thinking() {
    let signed_call = Event::ToolCall { choice: 0, index: 0, id: "a", name: "look", signature: Some("c2ln") };
    let events = [
        Event::Reasoning { choice: 0, text: "Hm." },
        signed_call,
        arguments_event(0, "{\"x\":1}"),
        Event::ToolCall { choice: 0, index: 1, id: "b", name: "look", signature: None },
        arguments_event(1, "{}"),
        Event::ToolCall { choice: 0, index: 2, id: "c", name: "look", signature: Some("MTE=") },
        finish(Finish::ToolCalls, "STOP"),
    ];
    let response = encode_both_ways(&events, true);
    let body = json!({"model": "m", "messages": [{"role": "assistant", "content": response["content"]}]});
    let body = crate::api::body::Body::parse(body.to_string().into()).unwrap();
    let request = crate::api::messages::read(&body).unwrap();
    use crate::api::chat::Part;
    let parts: Vec<(String, Option<&str>)> = request.messages[0]
        .content
        .iter()
        .map(|part| match part {
            Part::Reasoning { text, signature } => (text.to_string(), signature.as_deref()),
            Part::ToolCall(call) => (call.id.to_string(), call.signature.as_deref()),
            _ => panic!("{part:?}"),
        })
        .collect();
    let wanted = [("Hm.", None), ("a", Some("c2ln")), ("b", None), ("c", Some("MTE="))];
    assert_eq!(parts, wanted.map(|(text, signature)| (text.to_owned(), signature)));
}

#[test]
fn pictures_are_included_or_noted() {
    let events = [text_event("Look: "), Event::Media { choice: 0, media_type: "image/png", data: "AAAA" }];
    let shown =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    assert_eq!(encode_both_ways(&events, false)["content"][1], shown);
    let spoken = encode_both_ways(&events, true)["content"][0]["text"].as_str().unwrap().to_owned();
    assert!(spoken.starts_with("Look: [image/png, 3 bytes: left out"), "{spoken}");
}

#[test]
fn left_out_audio_is_noted_once_behind_the_text() {
    let piece = Event::Media { choice: 0, media_type: "audio/pcm", data: "AAAA" };
    let events = [text_event("Hel"), piece.clone(), text_event("lo"), piece];
    let content = encode_both_ways(&events, true)["content"].clone();
    assert_eq!(content[0]["text"], "Hello");
    assert!(content[1]["text"].as_str().unwrap().starts_with("[audio/pcm: left out"), "{content}");
    assert_eq!(content.as_array().unwrap().len(), 2);
}

#[test]
fn blocks_of_other_providers_are_left_out() {
    let search = r#"{"type":"server_tool_use","id":"s","name":"google_search_web","input":{"q":"x"}}"#;
    let found = r#"{"type":"google_search_web_tool_result","tool_use_id":"s","content":{}}"#;
    let code = r#"{"type":"server_tool_use","id":"c","name":"code_execution","input":{}}"#;
    let image = r#"{"type":"image","source":{"type":"url","url":"https://a.example/b.png"}}"#;
    let events = [search, found, code, image].map(|json| Event::Block { choice: 0, json });
    let kinds = |strict: bool| -> Vec<String> {
        let response = encode_both_ways(&events, strict);
        let blocks = response["content"].as_array().unwrap().iter();
        blocks
            .map(|block| block["name"].as_str().or(block["text"].as_str()).unwrap_or("-").to_owned())
            .collect()
    };
    assert_eq!(kinds(true), ["code_execution", "[image: https://a.example/b.png]"]);
    assert_eq!(kinds(false), ["google_search_web", "-", "code_execution", "-"]);
}

#[test]
fn cache_tokens_are_part_of_the_prompt_and_counted_once() {
    // Input, read, written; then what is reported: the rest, read, written.
    let cases = [
        ([100, 30, 20], [50, 30, 20]),
        ([100, 80, 80], [20, 80, 0]),
        ([100, 60, 90], [10, 60, 30]),
        ([100, 100, 100], [0, 100, 0]),
        ([10, 200, 0], [0, 10, 0]),
        ([10, 0, 300], [0, 0, 10]),
        ([0, 0, 0], [0, 0, 0]),
    ];
    for ([input, cached, cache_write], [rest, read, written]) in cases {
        let usage = Usage { input, cached, cache_write, output: 1, ..Usage::default() };
        let events = [Event::Usage(usage), finish(Finish::Stop, "stop")];
        let usage = encode_both_ways(&events, true)["usage"].clone();
        assert_eq!(usage["input_tokens"], rest, "{input} {cached} {cache_write}");
        assert_eq!(usage["cache_read_input_tokens"], read, "{input} {cached} {cache_write}");
        assert_eq!(usage["cache_creation_input_tokens"], written, "{input} {cached} {cache_write}");
    }
}

#[test]
fn the_service_tier_is_one_of_anthropics_or_absent() {
    let cases = [
        ("default", json!("standard")),
        ("on_demand", json!("standard")),
        ("priority", json!("priority")),
        ("batch", json!("batch")),
        ("flex", Value::Null),
        ("performance", Value::Null),
    ];
    for (tier, wanted) in cases {
        let tier = json!(tier).to_string();
        let events = [Event::Member { name: "service_tier", json: &tier }, finish(Finish::Stop, "stop")];
        assert_eq!(encode_both_ways(&events, true)["usage"]["service_tier"], wanted, "{tier}");
    }
}

#[test]
fn members_are_placed_as_the_dialect_requires() {
    let events = [
        Event::Member { name: "container", json: r#"{"id":"c"}"# },
        Event::Member { name: "context_management", json: r#"{"applied_edits":[]}"# },
        Event::Member { name: "service_tier", json: r#""default""# },
        Event::Member { name: "content", json: "7" },
        Event::Member { name: "citations", json: r#"["https://a.b"]"# },
        finish(Finish::Stop, "stop"),
    ];
    let strict = encode_both_ways(&events, true);
    assert_eq!(strict["container"]["id"], "c");
    assert_eq!(strict["usage"]["service_tier"], "standard");
    assert_eq!((&strict["content"], &strict["citations"]), (&json!([]), &Value::Null));
    assert_eq!(encode_both_ways(&events, false)["citations"], json!(["https://a.b"]));
    let stream = text(&encode(&events, true, true));
    assert!(stream.contains(r#""stop_sequence":null,"container":{"id":"c"}},"usage""#), "{stream}");
}

#[test]
fn a_broken_response_ends_in_an_error() {
    let provider_error = ProviderError::new(529, "too much").with_kind("overloaded_error");
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"too much"}}"#;
    for (streamed, wanted) in [(true, format!("event: error\ndata: {error}\n\n")), (false, error.to_owned())]
    {
        let mut encoder = encoder(streamed, context(true));
        encoder.write(&text_event("x"), &mut Vec::new());
        let mut out = Vec::new();
        encoder.fail(&provider_error, &mut out);
        assert_eq!(text(&out), wanted);
    }
}

/// An event that owns its strings.
#[derive(Debug, Clone)]
enum Any {
    Text(u32, String),
    Refusal(String),
    Reasoning(String),
    Signature(String),
    Redacted(String),
    Call(u32, Option<String>),
    Arguments(u32, String),
    Media(String),
    Annotation(String),
    Block(String),
    Usage(u64),
    Member(String, String),
    Finish(u8),
    Start,
}

impl Any {
    fn event(&self) -> Event<'_> {
        match self {
            Any::Text(choice, text) => Event::Text { choice: *choice, text },
            Any::Refusal(text) => Event::Refusal { choice: 0, text },
            Any::Reasoning(text) => Event::Reasoning { choice: 0, text },
            Any::Signature(signature) => Event::Signature { choice: 0, signature },
            Any::Redacted(data) => Event::Redacted { choice: 0, data },
            Any::Call(index, signature) => {
                let signature = signature.as_deref();
                Event::ToolCall { choice: 0, index: *index, id: "id", name: "name", signature }
            }
            Any::Arguments(index, fragment) => Event::Arguments { choice: 0, index: *index, fragment },
            Any::Media(media_type) => Event::Media { choice: 0, media_type, data: "AAAA" },
            Any::Annotation(json) => Event::Annotation { choice: 0, json },
            Any::Block(json) => Event::Block { choice: 0, json },
            Any::Usage(count) => {
                Event::Usage(Usage { input: *count, cached: 7, output: 1, ..Usage::default() })
            }
            Any::Member(name, json) => Event::Member { name, json },
            Any::Finish(which) => {
                let reason = match which {
                    0 => Finish::Stop,
                    1 => Finish::Length,
                    2 => Finish::ToolCalls,
                    _ => Finish::ContentFilter,
                };
                Event::Finish { choice: 0, reason, native: "" }
            }
            Any::Start => Event::Start(Start { id: Some("msg_x"), model: None, created: None }),
        }
    }
}

fn any_event() -> impl Strategy<Value = Any> {
    let json = prop::sample::select(vec![
        r#"{"type":"url_citation","url_citation":{"url":"u"}}"#,
        r#"{"type":"char_location","cited_text":"x"}"#,
        r#"{"type":"server_tool_use","id":"s","name":"n","input":{"a":[1, 2]}}"#,
        "{\"type\":\"mcp_tool_result\",\r\n\"content\":[{\"type\":\"text\"}]}",
        "{}",
        "[1]",
        "7",
        "nothing",
    ]);
    let json = json.prop_map(str::to_owned).boxed();
    let fragment =
        prop::sample::select(vec!["{", "}", "{}", "\"", "\\", "[", "]", "{\"a\":1}", " ", "x", ""]);
    prop_oneof![
        4 => (0..2u32, any::<String>()).prop_map(|(choice, text)| Any::Text(choice, text)),
        1 => any::<String>().prop_map(Any::Refusal),
        3 => any::<String>().prop_map(Any::Reasoning),
        2 => "[a-z]{0,3}".prop_map(Any::Signature),
        1 => any::<String>().prop_map(Any::Redacted),
        4 => (0..3u32, prop::option::of("[a-z]{0,3}")).prop_map(|(index, signature)| Any::Call(index, signature)),
        8 => (0..3u32, fragment).prop_map(|(index, text)| Any::Arguments(index, text.to_owned())),
        1 => prop::sample::select(vec!["image/png", "audio/wav", ""]).prop_map(|kind| Any::Media(kind.to_owned())),
        1 => json.clone().prop_map(Any::Annotation),
        2 => json.clone().prop_map(Any::Block),
        1 => any::<u64>().prop_map(Any::Usage),
        1 => ("[a-z_]{1,12}", json).prop_map(|(name, json)| Any::Member(name, json)),
        1 => (0..4u8).prop_map(Any::Finish),
    ]
}

/// Calls with their arguments in chunks, and the order in which the calls send them.
fn interleaved() -> impl Strategy<Value = (Vec<(String, Vec<String>)>, Vec<usize>)> {
    let input = prop::collection::btree_map("[a-z{}\\\\\"]{1,4}", "[ -~äé]{0,8}", 0..3);
    let call = (input, prop::collection::vec(0..60usize, 0..4)).prop_map(|(input, mut cuts)| {
        let text = json!(input).to_string();
        cuts.retain(|&cut| cut < text.len() && text.is_char_boundary(cut));
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let chunks = cuts.windows(2).map(|cut| text.get(cut[0]..cut[1]).unwrap().to_owned()).collect();
        (text, chunks)
    });
    (prop::collection::vec(call, 1..5), prop::collection::vec(0..5usize, 0..40))
}

proptest! {
    #[test]
    fn any_events_make_a_message(events in prop::collection::vec(any_event(), 0..40), with_start: bool, strict: bool) {
        let start = with_start.then_some(Any::Start);
        let events: Vec<Event<'_>> = start.iter().chain(&events).map(Any::event).collect();
        let response = encode_both_ways(&events, strict);
        let texts = |kind: &str, name: &str| -> String {
            let blocks = response["content"].as_array().unwrap().iter();
            blocks.filter(|block| block["type"] == kind).filter_map(|block| block[name].as_str()).collect()
        };
        let spoken: String = events.iter().map(|event| match event {
            Event::Text { choice: 0, text } | Event::Refusal { text, .. } => (*text).to_owned(),
            Event::Media { media_type, .. } if strict && !media_type.starts_with("audio/") => {
                crate::api::messages::vocabulary::omission_note(media_type, Some(4))
            }
            _ => String::new(),
        }).collect();
        let is_audio = |event: &&Event<'_>| {
            matches!(event, Event::Media { media_type, .. } if media_type.starts_with("audio/"))
        };
        let audio = events.iter().find(is_audio).filter(|_| strict).map(|event| match event {
            Event::Media { media_type, .. } => crate::api::messages::vocabulary::omission_note(media_type, None),
            _ => String::new(),
        });
        prop_assert_eq!(texts("text", "text"), spoken + &audio.unwrap_or_default());
        let thought: String = events.iter().map(|event| match event {
            Event::Reasoning { text, .. } => *text,
            _ => "",
        }).collect();
        prop_assert_eq!(texts("thinking", "thinking"), thought);
    }

    #[test]
    fn calls_are_complete_in_any_order((calls, order) in interleaved()) {
        let mut left: Vec<_> = calls.iter().map(|(_, chunks)| chunks.iter()).collect();
        let mut started = 0;
        let mut events = Vec::new();
        let rest = (0..calls.len()).flat_map(|at| std::iter::repeat_n(at, 8));
        for at in order.into_iter().chain(rest).filter(|&at| at < calls.len()) {
            // Calls start in order, as with every provider.
            while started <= at {
                events.push(call(started as u32, "id"));
                started += 1;
            }
            if let Some(chunk) = left[at].next() {
                events.push(arguments_event(at as u32, chunk));
            }
        }
        events.push(finish(Finish::ToolCalls, ""));
        let response = encode_both_ways(&events, true);
        let inputs: Vec<&Value> = response["content"].as_array().unwrap().iter().map(|block| &block["input"]).collect();
        let wanted: Vec<Value> = calls.iter().map(|(text, _)| serde_json::from_str(text).unwrap()).collect();
        prop_assert_eq!(inputs, wanted.iter().collect::<Vec<_>>());
    }
}

/// Google names its searches beside the text; Anthropic's clients read blocks.
#[test]
fn searches_of_google_are_blocks_behind_the_text() {
    let grounding = r#"{"webSearchQueries":["tea","green tea"],"groundingChunks":[{"web":{"uri":"https://a.example/","title":"A"}}]}"#;
    let events = [
        Event::Start(Start::default()),
        text_event("Tea."),
        Event::Member { name: "grounding_metadata", json: grounding },
        Event::Finish { choice: 0, reason: Finish::Stop, native: "STOP" },
    ];
    let message = encode_both_ways(&events, true);
    let content = message["content"].as_array().unwrap();
    let id = format!("srvtoolu_other_{}", message["id"].as_str().unwrap());
    assert_eq!(
        content[1],
        json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "tea; green tea"}})
    );
    let result = json!({"type": "web_search_result", "url": "https://a.example/", "title": "A", "encrypted_content": "", "page_age": null});
    assert_eq!(content[2], json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [result]}));
    assert_eq!(content.len(), 3);
    // In the next request they are no part of the conversation.
    let body =
        json!({"model": "m", "max_tokens": 9, "messages": [{"role": "assistant", "content": content}]});
    let body = crate::api::body::Body::parse(body.to_string().into()).unwrap();
    assert_eq!(crate::api::messages::read(&body).unwrap().messages[0].content.len(), 1);
}
