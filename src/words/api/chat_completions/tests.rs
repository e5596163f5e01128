//! Tests of the encoders (events to bytes) and of parsing request bodies.

use super::*;
use crate::api::body::Body;
use crate::api::chat::{Event, Finish, Part, Role, Source, Start, Tool, ToolChoice};
use crate::api::usage::Usage;
use bytes::Bytes;
use serde_json::{Value, json};

fn context(strict: bool, include_usage: bool) -> EncodeContext {
    EncodeContext {
        id: "7".into(),
        created: 5,
        model: "requested".into(),
        provider: "anthropic",
        strict,
        is_own_dialect: false,
        include_usage,
        request: None,
    }
}

fn events() -> Vec<Event<'static>> {
    vec![
        Event::Start(Start { id: Some("msg_1"), model: Some("claude"), created: None }),
        Event::Reasoning { choice: 0, text: "hm" },
        Event::Signature { choice: 0, signature: "sig" },
        Event::Text { choice: 0, text: "Hi \"you\"" },
        Event::ToolCall { choice: 0, index: 0, id: "t1", name: "look", signature: Some("seal") },
        Event::Arguments { choice: 0, index: 0, fragment: "{\"a\":" },
        Event::Arguments { choice: 0, index: 0, fragment: "1}" },
        Event::Finish { choice: 0, reason: Finish::ToolCalls, native: "tool_use" },
        Event::Usage(Usage { input: 3, output: 4, total: 7, cached: 2, ..Usage::default() }),
        Event::End,
    ]
}

fn encode(streamed: bool, context: EncodeContext) -> String {
    let mut encoder = encoder(streamed, context);
    let mut out = Vec::new();
    for event in events() {
        encoder.write(&event, &mut out);
    }
    encoder.close(&mut out);
    String::from_utf8(out).unwrap()
}

fn chunks(text: &str) -> Vec<Value> {
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn a_strict_stream_has_the_standards_chunks_and_ends_with_done() {
    let text = encode(true, context(true, false));
    assert!(text.ends_with("data: [DONE]\n\n"));
    let chunks = chunks(&text);
    let deltas: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
    assert_eq!(
        json!(deltas),
        json!([
            {"role": "assistant", "content": ""},
            {"content": "Hi \"you\""},
            {"tool_calls": [{"index": 0, "id": "t1", "type": "function", "function": {"name": "look", "arguments": ""}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": "{\"a\":"}}]},
            {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
            {},
        ])
    );
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(last["usage"]["prompt_tokens_details"]["cached_tokens"], 2);
    assert!(chunks.iter().all(|chunk| chunk["id"] == "msg_1" && chunk["created"] == 5));
}

#[test]
fn usage_has_its_own_chunk_only_on_request() {
    let chunks = chunks(&encode(true, context(true, true)));
    let last = chunks.last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(7)));
    assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.get("usage").is_none()));
}

#[test]
fn extensions_are_written_only_when_not_strict() {
    let whole: Value = serde_json::from_str(&encode(false, context(false, false))).unwrap();
    let message = &whole["choices"][0]["message"];
    assert_eq!(
        message["content_blocks"],
        json!([
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "text", "text": "Hi \"you\""},
        ])
    );
    assert_eq!(message["tool_calls"][0]["function"]["thought_signature"], "seal");
    let strict: Value = serde_json::from_str(&encode(false, context(true, false))).unwrap();
    assert_eq!(
        strict,
        json!({
            "id": "msg_1", "object": "chat.completion", "created": 5, "model": "claude",
            "choices": [{"index": 0, "logprobs": null, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": "Hi \"you\"", "refusal": null,
                "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{\"a\":1}"}}],
            }}],
            "usage": {
                "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7,
                "prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 0},
                "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0,
                    "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0},
            },
        })
    );
    assert_eq!((&message["reasoning_content"], &whole["provider"]), (&json!("hm"), &json!("anthropic")));
    assert_eq!(whole["usage"]["cache_read_input_tokens"], 2);
    let own = EncodeContext { is_own_dialect: true, ..context(true, false) };
    let own: Value = serde_json::from_str(&encode(false, own)).unwrap();
    let message = &own["choices"][0]["message"];
    assert_eq!((&message["reasoning_content"], message.get("content_blocks")), (&json!("hm"), None));
    assert_eq!(own.get("provider"), None);
    let streamed = encode(true, context(false, false));
    assert!(streamed.contains(r#""content_blocks":[{"index":0,"delta":{"signature":"sig"}}]"#), "{streamed}");
    assert!(
        streamed.contains(r#""content_blocks":[{"index":1,"delta":{"text":"Hi \"you\""}}]"#),
        "{streamed}"
    );
}

#[test]
fn a_strict_response_has_a_note_in_place_of_an_image() {
    let write = |streamed, strict| {
        let mut encoder = encoder(streamed, context(strict, false));
        let mut out = Vec::new();
        encoder.write(&Event::Text { choice: 0, text: "Look:" }, &mut out);
        encoder.write(&Event::Media { choice: 0, media_type: "image/png", data: "AAAA" }, &mut out);
        encoder.write(&Event::Finish { choice: 0, reason: Finish::Stop, native: "" }, &mut out);
        encoder.close(&mut out);
        String::from_utf8(out).unwrap()
    };
    for streamed in [false, true] {
        let strict = write(streamed, true);
        let loose = write(streamed, false);
        assert!(strict.contains("image/png, 3 bytes: left out") && !strict.contains("images"), "{strict}");
        assert!(loose.contains(r#""type":"image_url""#) && !loose.contains("left out"), "{loose}");
    }
}

#[test]
fn a_body_is_read_with_its_digits_and_its_order() {
    let text = json!({
        "model": "m", "seed": 9_007_199_254_740_993_u64, "max_tokens": 10, "stop": "x",
        "messages": [
            {"role": "developer", "content": "be"},
            {"role": "user", "content": [
                {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"}},
                {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
            ]},
            {"role": "assistant", "content": "t", "content_blocks": [
                {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "t"}],
             "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "42"},
        ],
    });
    let body = Body::parse(Bytes::from(text.to_string())).unwrap();
    let request = read(&body).unwrap();
    assert_eq!(request.params.get("seed").unwrap().get(), "9007199254740993");
    assert_eq!(request.max_tokens.unwrap().get(), "10");
    assert_eq!(request.stop, ["x"]);
    let [developer, user, assistant, tool] = &request.messages[..] else { panic!("four messages") };
    assert_eq!((developer.role, developer.text().as_ref()), (Role::Developer, "be"));
    assert!(matches!(&user.content[0], Part::Text { cache_control: Some(_), .. }));
    assert!(
        matches!(&user.content[1], Part::Image(image) if matches!(&image.source, Source::Data { media_type, data } if media_type == "image/png" && data == "AAAA"))
    );
    assert!(matches!(&user.content[2], Part::File(file) if file.name.as_deref() == Some("a.pdf")));
    assert!(matches!(&user.content[3], Part::Audio { .. }));
    assert!(
        matches!(&assistant.content[0], Part::Reasoning { signature: Some(signature), .. } if signature == "s")
    );
    assert!(matches!(&assistant.content[1], Part::Text { .. }));
    assert!(matches!(&assistant.content[2], Part::ToolCall(call) if call.name == "f"));
    assert_eq!(
        (tool.role, tool.tool_call_id.as_deref(), tool.text().as_ref()),
        (Role::Tool, Some("c"), "42")
    );
}

/// Mistral's reasoning models return a list in `thinking`, and clients send it back unchanged.
#[test]
fn thinking_is_read_as_a_string_and_as_a_list() {
    let reasoning = |thinking: &str| {
        let part = format!(r#"{{"type":"thinking","thinking":{thinking}}}"#);
        let text = format!(r#"{{"messages":[{{"role":"assistant","content":[{part}]}}]}}"#);
        let body = Body::parse(Bytes::from(text)).unwrap();
        let request = read(&body).map_err(|error| error.param.unwrap_or_default())?;
        match request.messages[0].content.as_slice() {
            [Part::Reasoning { text, .. }] => Ok(text.to_string()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(reasoning(r#""a\nb""#), Ok("a\nb".to_owned()));
    let list = r#"[{"type":"text","text":"a\n"},{"type":"reference","reference_ids":[1]},{"type":"text","text":"b"}]"#;
    assert_eq!(reasoning(list), Ok("a\nb".to_owned()));
    assert_eq!(reasoning("null"), Ok(String::new()));
    assert_eq!(reasoning("7"), Err("messages[0].content[0].thinking".to_owned()));
}

#[test]
fn errors_name_the_param() {
    for (text, param) in [
        (r#"{"messages":[{"role":"me","content":"x"}]}"#, "messages[0].role"),
        (r#"{"messages":[{"role":"user","content":7}]}"#, "messages[0].content"),
        (
            r#"{"messages":[{"role":"user","content":[{"type":"image_url"}]}]}"#,
            "messages[0].content[0].image_url",
        ),
        (r#"{"tools":[{"type":"function","function":{}}]}"#, "tools[0].function.name"),
        (r#"{"tool_choice":"some"}"#, "tool_choice"),
        (r#"{"response_format":{"type":"xml"}}"#, "response_format.type"),
        (r#"{"stop":3}"#, "stop"),
    ] {
        let body = Body::parse(Bytes::from(text)).unwrap();
        assert_eq!(read(&body).unwrap_err().param.as_deref(), Some(param), "{text}");
    }
}

/// OpenAI's SDK joins the lists of several deltas by the `index` of their members, and fails where there is none.
#[test]
fn annotations_are_one_delta_and_images_have_an_index() {
    let mut encoder = encoder(true, context(false, false));
    let mut out = Vec::new();
    for event in [
        Event::Annotation { choice: 0, json: r#"{"a":1}"# },
        Event::Media { choice: 0, media_type: "image/png", data: "AAAA" },
        Event::Text { choice: 0, text: "Hi" },
        Event::Media { choice: 0, media_type: "image/png", data: "BBBB" },
        Event::Annotation { choice: 0, json: r#"{"a":2}"# },
        Event::Finish { choice: 0, reason: Finish::Stop, native: "" },
    ] {
        encoder.write(&event, &mut out);
    }
    encoder.close(&mut out);
    let chunks = chunks(std::str::from_utf8(&out).unwrap());
    let deltas = |name: &str| -> Vec<Value> {
        let of_chunk = |chunk: &Value| chunk["choices"][0]["delta"].get(name).cloned();
        chunks.iter().filter_map(of_chunk).collect()
    };
    assert_eq!(deltas("annotations"), [json!([{"a": 1}, {"a": 2}])]);
    let indexes: Vec<Value> = deltas("images").iter().map(|images| images[0]["index"].clone()).collect();
    assert_eq!(indexes, [0, 1]);
    let end = &chunks[chunks.len() - 2..];
    assert!(end[0]["choices"][0]["delta"]["annotations"].is_array(), "{end:?}");
    assert_eq!(end[1]["choices"][0]["finish_reason"], "stop");
}

#[test]
fn functions_are_tools_and_their_calls_come_back_as_function_calls() {
    let body = |members: Value| {
        let mut body = json!({"model": "m", "functions": [{"name": "look", "parameters": {"type": "object"}}],
        "function_call": {"name": "look"}, "messages": [
            {"role": "assistant", "content": null, "function_call": {"name": "look", "arguments": "{}"}},
            {"role": "function", "name": "look", "content": "1"},
        ]});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        Body::parse(Bytes::from(body.to_string())).unwrap()
    };
    let functions = body(json!({}));
    let request = read(&functions).unwrap();
    assert!(
        matches!(&request.tools[..], [Tool::Function { name, parameters: Some(_), .. }] if name == "look")
    );
    assert!(matches!(&request.tool_choice, Some(ToolChoice::Function(name)) if name == "look"));
    assert_eq!(request.parallel_tool_calls, Some(false));
    assert!(matches!(&request.messages[0].content[..], [Part::ToolCall(call)] if call.id == "call_0"));
    for (members, param) in [
        (json!({"functions": [{}]}), "functions[0].name"),
        (json!({"functions": {}}), "functions"),
        (json!({"function_call": {}}), "function_call.name"),
    ] {
        assert_eq!(read(&body(members)).unwrap_err().param.as_deref(), Some(param));
    }

    let with = |body: &Body| EncodeContext { request: Some(body.clone()), ..context(true, false) };
    let whole: Value = serde_json::from_str(&encode(false, with(&functions))).unwrap();
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["function_call"], json!({"name": "look", "arguments": "{\"a\":1}"}));
    assert_eq!(
        (&choice["finish_reason"], choice["message"].get("tool_calls")),
        (&json!("function_call"), None)
    );
    let text = encode(true, with(&functions));
    let chunks = chunks(&text);
    let deltas = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"].get("function_call").cloned());
    assert_eq!(
        deltas.collect::<Vec<_>>(),
        [
            json!({"name": "look", "arguments": ""}),
            json!({"arguments": "{\"a\":"}),
            json!({"arguments": "1}"})
        ]
    );
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "function_call");
    assert!(!text.contains("tool_calls"), "{text}");
    // Whoever offers tools as well gets calls of tools.
    let both = body(json!({"tools": [{"type": "function", "function": {"name": "look"}}]}));
    assert!(encode(true, with(&both)).contains(r#""tool_calls":[{"#));
}
