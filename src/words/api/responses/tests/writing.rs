//! Encoding responses, whole and streamed.

use super::super::{encoder, read};
use super::grammar::{check, context, encode, events_of};
use crate::api::body::Body;
use crate::api::chat::{Event, Finish, Part, ProviderError, Start};
use crate::api::usage::Usage;
use serde_json::{Value, json};

const PLAIN: &str = r#"{"model":"m","input":"i"}"#;

const STOP: Event<'_> = Event::Finish { choice: 0, reason: Finish::Stop, native: "end_turn" };

/// The finished response; checks that stream and whole response agree on it.
fn response(request: &str, events: &[Event<'_>]) -> Value {
    let streamed = check(&encode(true, request, events));
    let whole: Value = serde_json::from_slice(&encode(false, request, events)).unwrap();
    assert_eq!(streamed, whole);
    whole
}

fn start() -> Event<'static> {
    Event::Start(Start { id: Some("msg_up"), model: Some("upstream-model"), created: None })
}

/// A response with reasoning and two calls streamed at once.
fn thinking_and_calls() -> Vec<Event<'static>> {
    vec![
        start(),
        Event::Reasoning { choice: 0, text: "Let me " },
        Event::Reasoning { choice: 0, text: "think." },
        Event::Signature { choice: 0, signature: "EqQB" },
        Event::Redacted { choice: 0, data: "XYZ" },
        Event::Text { choice: 0, text: "One " },
        Event::Text { choice: 0, text: "moment." },
        Event::ToolCall { choice: 0, index: 0, id: "c0", name: "f", signature: Some("SEAL") },
        Event::ToolCall { choice: 0, index: 1, id: "c1", name: "g", signature: None },
        Event::Arguments { choice: 0, index: 1, fragment: "{\"b\":" },
        Event::Arguments { choice: 0, index: 0, fragment: "{\"a\":1}" },
        Event::Arguments { choice: 0, index: 1, fragment: "2}" },
        Event::Finish { choice: 0, reason: Finish::ToolCalls, native: "tool_use" },
        Event::Usage(Usage {
            input: 10,
            output: 7,
            total: 17,
            cached: 4,
            cache_write: 1,
            reasoning: 3,
            ..Usage::default()
        }),
    ]
}

#[test]
fn thinking_and_calls_become_items() {
    let made = response(PLAIN, &thinking_and_calls());
    let output = json!([
        {"id": "rs_0197_0", "type": "reasoning", "encrypted_content": "EqQB", "summary": [{"type": "summary_text", "text": "Let me think."}]},
        {"id": "rs_0197_1", "type": "reasoning", "encrypted_content": "redacted:XYZ", "summary": []},
        {"id": "msg_0197_2", "type": "message", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "One moment."}]},
        {"id": "rs_0197_3", "type": "reasoning", "encrypted_content": "call:SEAL", "summary": []},
        {"id": "fc_0197_4", "type": "function_call", "status": "completed", "arguments": "{\"a\":1}", "call_id": "c0", "name": "f"},
        {"id": "fc_0197_5", "type": "function_call", "status": "completed", "arguments": "{\"b\":2}", "call_id": "c1", "name": "g"},
    ]);
    assert_eq!(made["output"], output);
    assert_eq!(
        (&made["id"], &made["model"], &made["status"]),
        (&json!("resp_0197"), &json!("upstream-model"), &json!("completed"))
    );
    let usage = json!({
        "input_tokens": 10, "input_tokens_details": {"cache_write_tokens": 1, "cached_tokens": 4},
        "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 17,
    });
    assert_eq!(made["usage"], usage);
}

/// The items of a response, sent back as input, yield what the provider sent.
#[test]
fn signatures_round_trip_into_the_next_request() {
    let made = response(PLAIN, &thinking_and_calls());
    let next = json!({"model": "m", "input": made["output"]}).to_string();
    let body = Body::parse(next.into()).unwrap();
    let request = read(&body).unwrap();
    assert_eq!(request.messages.len(), 1);
    let [
        Part::Reasoning { text, signature: Some(signature) },
        Part::Redacted { data },
        Part::Text { .. },
        Part::ToolCall(first),
        Part::ToolCall(second),
    ] = request.messages[0].content.as_slice()
    else {
        panic!("{:?}", request.messages)
    };
    assert_eq!((text.as_ref(), signature.as_ref(), data.as_ref()), ("Let me think.", "EqQB", "XYZ"));
    assert_eq!((first.signature.as_deref(), second.signature.as_deref()), (Some("SEAL"), None));
}

#[test]
fn one_call_ends_before_the_next_begins_when_its_arguments_are_all_there() {
    let mut events = vec![start()];
    for index in 0..2 {
        events.push(Event::ToolCall { choice: 0, index, id: "c", name: "f", signature: None });
        events.push(Event::Arguments { choice: 0, index, fragment: "{\"a\":" });
        events.push(Event::Arguments { choice: 0, index, fragment: "1}" });
    }
    events.push(STOP);
    let kinds: Vec<(String, Option<u64>)> = events_of(&encode(true, PLAIN, &events))
        .iter()
        .map(|event| {
            (event["type"].as_str().unwrap().replace("response.", ""), event["output_index"].as_u64())
        })
        .collect();
    let call = [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ];
    let mut wanted = vec![("created".to_owned(), None), ("in_progress".to_owned(), None)];
    wanted.extend((0..2).flat_map(|at| call.map(|kind| (kind.to_owned(), Some(at)))));
    wanted.push(("completed".to_owned(), None));
    assert_eq!(kinds, wanted);
}

#[test]
fn request_settings_are_repeated_with_the_apis_defaults() {
    let made = response(PLAIN, &[start(), STOP]);
    let wanted = json!({
        "id": "resp_0197", "object": "response", "created_at": 1_700_000_000, "status": "completed",
        "incomplete_details": null, "model": "upstream-model", "output": [], "background": false, "completed_at": null,
        "error": null, "frequency_penalty": 0.0, "instructions": null, "max_output_tokens": null, "max_tool_calls": null,
        "metadata": {}, "parallel_tool_calls": true, "presence_penalty": 0.0, "previous_response_id": null,
        "prompt_cache_key": null, "prompt_cache_retention": null, "reasoning": {"effort": null, "summary": null},
        "safety_identifier": null, "store": false, "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"}, "tool_choice": "auto", "tools": [],
        "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "service_tier": "default",
    });
    assert_eq!(made, wanted);
    let request = r#"{"model":"m","input":"i","temperature":0.50,"store":true,"truncation":"auto","user":"u","top_p":null,
        "instructions":"be","metadata":{"k":"v"},"reasoning":{"effort":"low"},"text":{"verbosity":"low"},
        "tools":[{"type":"function","name":"f"},{"type":"web_search"}],"tool_choice":{"type":"function","name":"f"}}"#;
    let text = String::from_utf8(encode(false, request, &[start(), STOP])).unwrap();
    assert!(text.contains(r#""temperature":0.50"#), "digits are kept: {text}");
    let made: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&made["store"], &made["truncation"], &made["top_p"]),
        (&json!(false), &json!("disabled"), &json!(1.0))
    );
    assert_eq!((&made["instructions"], &made["user"]), (&json!("be"), &json!("u")));
    assert_eq!(made["reasoning"], json!({"effort": "low", "summary": null}));
    assert_eq!(made["text"], json!({"verbosity": "low", "format": {"type": "text"}}));
    let function =
        json!({"type": "function", "name": "f", "description": null, "parameters": null, "strict": false});
    assert_eq!(made["tools"], json!([function, {"type": "web_search"}]));
}

#[test]
fn a_truncated_response_is_incomplete_with_its_reason() {
    for (reason, incomplete_reason) in
        [(Finish::Length, "max_output_tokens"), (Finish::ContentFilter, "content_filter")]
    {
        let events = [
            start(),
            Event::Text { choice: 0, text: "Once" },
            Event::Finish { choice: 0, reason, native: "x" },
        ];
        let made = response(PLAIN, &events);
        assert_eq!(
            (&made["status"], &made["output"][0]["status"]),
            (&json!("incomplete"), &json!("incomplete"))
        );
        assert_eq!(made["incomplete_details"], json!({"reason": incomplete_reason}));
        let last = events_of(&encode(true, PLAIN, &events)).pop().unwrap();
        assert_eq!(last["type"], "response.incomplete");
    }
}

#[test]
fn logprobs_accompany_their_text_on_request() {
    let probability = r#"{"content":[{"token":"Hi","logprob":-0.10,"bytes":null}],"refusal":null}"#;
    let events = [
        start(),
        Event::Text { choice: 0, text: "Hi" },
        Event::Logprobs { choice: 0, json: probability },
        Event::Text { choice: 0, text: "!" },
        STOP,
    ];
    let request = r#"{"model":"m","input":"i","include":["message.output_text.logprobs"]}"#;
    let expected = json!([{"token": "Hi", "bytes": [72, 105], "logprob": -0.1, "top_logprobs": []}]);
    assert_eq!(response(request, &events)["output"][0]["content"][0]["logprobs"], expected);
    let deltas: Vec<Value> = events_of(&encode(true, request, &events))
        .into_iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| json!([event["delta"], event["logprobs"]]))
        .collect();
    assert_eq!(deltas, [json!(["Hi", expected]), json!(["!", []])]);
    assert_eq!(response(PLAIN, &events)["output"][0]["content"][0]["logprobs"], json!([]));
}

#[test]
fn pictures_searches_citations_and_refusals_have_their_items() {
    let citation = r#"{"type":"url_citation","url_citation":{"url":"https://a.example/","title":"A","start_index":0,"end_index":3}}"#;
    let search = r#"{"type":"server_tool_use","id":"s","name":"web_search","input":{"query":"tea"}}"#;
    let events = [
        start(),
        Event::Block { choice: 0, json: search },
        Event::Block { choice: 0, json: r#"{"type":"web_search_tool_result","content":[]}"# },
        Event::Text { choice: 0, text: "Tea" },
        Event::Annotation { choice: 0, json: citation },
        Event::Refusal { choice: 0, text: "No more." },
        Event::Media { choice: 0, media_type: "image/jpeg", data: "/9j/AA" },
        Event::Media { choice: 0, media_type: "audio/wav", data: "UklG" },
        STOP,
    ];
    let output = json!([
        {"id": "ws_0197_0", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "tea"}},
        {"id": "msg_0197_1", "type": "message", "status": "completed", "role": "assistant", "content": [
            {"type": "output_text", "logprobs": [], "text": "Tea", "annotations": [
                {"type": "url_citation", "url": "https://a.example/", "title": "A", "start_index": 0, "end_index": 3}]},
            {"type": "refusal", "refusal": "No more."}]},
        {"id": "ig_0197_2", "type": "image_generation_call", "status": "completed", "output_format": "jpeg", "result": "/9j/AA"},
    ]);
    assert_eq!(response(PLAIN, &events)["output"], output);
}

#[test]
fn provider_members_are_written_unless_strict() {
    let events = [
        start(),
        Event::Member { name: "system_fingerprint", json: r#""fp""# },
        Event::Member { name: "service_tier", json: r#""priority""# },
        Event::Member { name: "output", json: "7" },
        STOP,
    ];
    let made = response(PLAIN, &events);
    assert_eq!((&made["system_fingerprint"], &made["service_tier"]), (&json!("fp"), &json!("priority")));
    assert_eq!(made["output"], json!([]));
    let mut strict = encoder(false, crate::api::chat::EncodeContext { strict: true, ..context(PLAIN) });
    let mut out = Vec::new();
    events.iter().for_each(|event| strict.write(event, &mut out));
    strict.close(&mut out);
    let made: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((made.get("system_fingerprint"), &made["service_tier"]), (None, &json!("priority")));
}

#[test]
fn an_unrecognized_tier_is_not_repeated() {
    let events = [start(), Event::Member { name: "service_tier", json: r#""standard""# }, STOP];
    assert_eq!(response(PLAIN, &events)["service_tier"], "default");
}

#[test]
fn a_failed_whole_response_is_an_error_body() {
    let mut encoder = encoder(false, context(PLAIN));
    let mut out = Vec::new();
    encoder.write(&start(), &mut out);
    encoder.fail(&ProviderError::new(529, "overloaded").with_kind("overloaded_error"), &mut out);
    let body: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(body["error"]["message"], "overloaded");
    assert_eq!(body["provider"], "anthropic");
}

/// Also while both calls are open.
#[test]
fn calls_come_back_as_the_client_declared_their_tools() {
    let request = json!({"model": "m", "input": "i", "tools": [
        {"type": "namespace", "name": "mcp__files", "tools": [{"type": "function", "name": "read"}]},
        {"type": "custom", "name": "apply_patch"},
    ]});
    let events = [
        start(),
        Event::ToolCall { choice: 0, index: 0, id: "c0", name: "apply_patch", signature: None },
        Event::Arguments { choice: 0, index: 0, fragment: "{\"inp" },
        Event::ToolCall { choice: 0, index: 1, id: "c1", name: "mcp__files__read", signature: None },
        Event::Arguments { choice: 0, index: 0, fragment: "ut\":\"a\\nb\"}" },
        Event::Arguments { choice: 0, index: 1, fragment: "{}" },
        Event::Finish { choice: 0, reason: Finish::ToolCalls, native: "tool_use" },
    ];
    let made = response(&request.to_string(), &events);
    assert_eq!(
        made["output"],
        json!([
            {"id": "ctc_0197_0", "type": "custom_tool_call", "status": "completed", "input": "a\nb", "call_id": "c0", "name": "apply_patch"},
            {"id": "fc_0197_1", "type": "function_call", "status": "completed", "arguments": "{}", "call_id": "c1", "name": "read",
             "namespace": "mcp__files"},
        ])
    );
    let streamed = String::from_utf8(encode(true, &request.to_string(), &events)).unwrap();
    assert!(streamed.contains("event: response.custom_tool_call_input.delta"), "{streamed}");
    assert!(streamed.contains("event: response.custom_tool_call_input.done"), "{streamed}");
}

#[test]
fn a_call_of_the_clients_search_is_one_item() {
    let request =
        json!({"model": "m", "input": "i", "tools": [{"type": "tool_search", "execution": "client"}]});
    let call = |arguments: &[&'static str]| {
        let call = Event::ToolCall { choice: 0, index: 0, id: "c0", name: "tool_search", signature: None };
        let fragment = |fragment: &&'static str| Event::Arguments { choice: 0, index: 0, fragment };
        let mut events = vec![start(), call];
        events.extend(arguments.iter().map(fragment));
        events.push(Event::Finish { choice: 0, reason: Finish::ToolCalls, native: "tool_use" });
        response(&request.to_string(), &events)["output"].clone()
    };
    let item = |arguments: Value| {
        json!([{"id": "tsc_0197_0", "type": "tool_search_call", "status": "completed", "call_id": "c0", "execution": "client",
            "arguments": arguments}])
    };
    assert_eq!(call(&["{\"query\":", "\"tea\"}"]), item(json!({"query": "tea"})));
    assert_eq!(call(&["tea"]), item(json!({})));
}

/// Google names its searches beside the text, at the end.
#[test]
fn searches_of_google_are_items_behind_the_text() {
    let grounding = r#"{"webSearchQueries":["tea","green tea"],"groundingChunks":[{"web":{"uri":"https://a.example/"}}]}"#;
    let events = [
        start(),
        Event::Text { choice: 0, text: "Tea." },
        Event::Member { name: "grounding_metadata", json: grounding },
        STOP,
    ];
    let output = response(PLAIN, &events)["output"].clone();
    let kinds: Vec<_> =
        output.as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["message", "web_search_call", "web_search_call"]);
    assert_eq!(output[2]["action"], json!({"type": "search", "query": "green tea"}));
}
