//! Responses without a recording: every vendor's form of a call, thinking, a finish or an error.

use super::{CHAT_PATCH, Decoded, read_at_all_cuts};
use crate::provider::adapter::ResponsePatch;
use serde_json::{Value, json};
use words::api::chat::Finish;
use words::api::chat::response::ContentPart;

/// A stream of these JSON texts, ended by `[DONE]`.
fn stream(chunks: &[&str]) -> String {
    let events: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    events + "data: [DONE]\n\n"
}

/// Decodes a stream whose first choice has these deltas.
fn deltas(deltas: &[&str]) -> Decoded {
    let chunk = |delta: &&str| format!(r#"{{"id":"x","choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let chunks: Vec<String> = deltas.iter().map(chunk).collect();
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    read_at_all_cuts(stream(&chunks).as_bytes(), true)
}

fn calls(decoded: &Decoded) -> Vec<(u32, &str, &str, &str)> {
    let parts = decoded.response.choices.iter().flat_map(|choice| &choice.parts);
    let call = |part: &'_ ContentPart| matches!(part, ContentPart::ToolCall { .. });
    parts
        .filter(|part| call(part))
        .filter_map(|part| match part {
            ContentPart::ToolCall { index, id, name, arguments, .. } => {
                Some((*index, id.as_str(), name.as_str(), arguments.as_str()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn call_fragments_are_joined() {
    // OpenAI's form, with two interleaved calls.
    let decoded = deltas(&[
        r#"{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\""}}]}"#,
        r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}},{"index":0,"function":{"arguments":":1}"}}]}"#,
    ]);
    assert_eq!(calls(&decoded), [(0, "a", "f", "{\"x\":1}"), (1, "b", "g", "{}")]);
    // The vendor's index starts anywhere; the name is repeated or empty.
    let decoded = deltas(&[
        r#"{"tool_calls":[{"index":3,"id":"a","function":{"name":"f","arguments":null}}]}"#,
        r#"{"tool_calls":[{"index":3,"id":"","function":{"name":"","arguments":"{\"x\":"}}]}"#,
        r#"{"tool_calls":[{"index":3,"id":"a","function":{"name":"f","arguments":"2}"}}]}"#,
    ]);
    assert_eq!(calls(&decoded), [(0, "a", "f", "{\"x\":2}")]);
    // No index: matched by id, otherwise the last call.
    let decoded = deltas(&[
        r#"{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"function":{"arguments":"}"}}]}"#,
        r#"{"tool_calls":[{"id":"b","function":{"name":"g","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"id":"b","function":{"arguments":"}"}}]}"#,
    ]);
    assert_eq!(calls(&decoded), [(0, "a", "f", "{}"), (1, "b", "g", "{}")]);
    // Every index is 0, with different ids: whole calls.
    let decoded = deltas(&[
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}]}"#,
    ]);
    assert_eq!(calls(&decoded), [(0, "a", "f", "{\"x\":1}"), (1, "b", "f", "{\"x\":2}")]);
    // Texts as indices, one id for all.
    let decoded = deltas(&[
        r#"{"tool_calls":[{"index":"1","id":"a","function":{"name":"f","arguments":"{"}},{"index":"2","id":"a","function":{"name":"f","arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"index":"1","function":{"arguments":"}"}},{"index":"2","function":{"arguments":"\"x\":1}"}}]}"#,
    ]);
    assert_eq!(calls(&decoded), [(0, "a", "f", "{}"), (1, "", "f", "{\"x\":1}")]);
    // The id first and the name later; neither id nor index; arguments as an object.
    let decoded = deltas(&[
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}"#,
    ]);
    assert_eq!(calls(&decoded), [(0, "a", "f", "{}")]);
    let decoded = deltas(&[
        r#"{"tool_calls":[{"function":{"name":"f","arguments":{"x": 1.0}}},{"function":{"name":"g"}}]}"#,
    ]);
    assert_eq!(calls(&decoded), [(0, "", "f", "{\"x\": 1.0}"), (1, "", "g", "")]);
    // OpenAI's retired form.
    let decoded = deltas(&[
        r#"{"function_call":{"name":"f","arguments":"{\"x\""}}"#,
        r#"{"function_call":{"arguments":":1}"}}"#,
    ]);
    assert_eq!(calls(&decoded), [(0, "", "f", "{\"x\":1}")]);
}

#[test]
fn thinking_is_read_in_every_spelling() {
    let parts = |message: &str| {
        let body = format!(r#"{{"choices":[{{"message":{message},"finish_reason":"stop"}}]}}"#);
        let decoded = read_at_all_cuts(body.as_bytes(), false);
        assert!(decoded.ended && decoded.error.is_none());
        decoded.response.choices[0].parts.clone()
    };
    let thought = |text: &str, signature: Option<&str>| ContentPart::Reasoning {
        text: text.to_owned(),
        signature: signature.map(str::to_owned),
    };
    let text = |text: &str| ContentPart::Text(text.to_owned());
    for spelling in [
        r#"{"reasoning_content":"t","content":"c"}"#,
        r#"{"reasoning":"t","content":"c"}"#,
        r#"{"reasoning":"t","reasoning_content":"t","content":"c"}"#,
        r#"{"reasoning":"t","reasoning_details":[{"type":"reasoning.text","text":"t"}],"content":"c"}"#,
        r#"{"reasoning":"t","reasoning_details":[],"content":"c"}"#,
        r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"c"}]}"#,
        r#"{"content":[{"type":"reasoning","summary":[{"type":"summary_text","text":"t"}]},{"type":"text","text":"c"}]}"#,
    ] {
        assert_eq!(parts(spelling), [thought("t", None), text("c")], "{spelling}");
    }
    let sealed = r#"{"reasoning":"t","content":"c","reasoning_details":[{"type":"reasoning.text","text":"t","signature":"s"}]}"#;
    assert_eq!(parts(sealed), [thought("t", Some("s")), text("c")]);
    let blocks = r#"{"reasoning_content":"t","thinking_blocks":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"}],"content":"c"}"#;
    assert_eq!(parts(blocks), [thought("t", Some("s")), ContentPart::Redacted("d".into()), text("c")]);
    let detail = r#"{"type":"reasoning.encrypted","data":"d","id":"r"}"#;
    let encrypted = format!(r#"{{"reasoning":"t","content":"c","reasoning_details":[{detail}]}}"#);
    assert_eq!(parts(&encrypted), [thought("t", None), ContentPart::Redacted(detail.into()), text("c")]);
    // Tags are plain text.
    assert_eq!(parts(r#"{"content":"<think>t</think>c"}"#), [text("<think>t</think>c")]);
}

#[test]
fn every_finish_reason_is_understood() {
    let finish = |reason: &str| {
        let body = stream(&[&format!(
            r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}},"finish_reason":"{reason}"}}]}}"#
        )]);
        let decoded = read_at_all_cuts(body.as_bytes(), true);
        (
            decoded.response.choices[0].finish.clone().map(|(finish, _)| finish),
            decoded.error.map(|error| error.status),
        )
    };
    for (reason, wanted) in [
        ("stop", Finish::Stop),
        ("eos", Finish::Stop),
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("length", Finish::Length),
        ("model_length", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("MAX_TOKENS", Finish::Length),
        ("tool_calls", Finish::ToolCalls),
        ("function_call", Finish::ToolCalls),
        ("tool_use", Finish::ToolCalls),
        ("content_filter", Finish::ContentFilter),
        ("sensitive", Finish::ContentFilter),
        ("SAFETY", Finish::ContentFilter),
    ] {
        assert_eq!(finish(reason), (Some(wanted), None), "{reason}");
    }
    for (reason, status) in
        [("error", 502), ("network_error", 502), ("abort", 502), ("insufficient_system_resource", 503)]
    {
        assert_eq!(finish(reason), (None, Some(status)), "{reason}");
    }
}

#[test]
fn failures_inside_a_response_become_errors() {
    let content_chunk = r#"{"choices":[{"index":0,"delta":{"content":"x"}}]}"#;
    for (event, status, message) in [
        (r#"data: {"error":{"message":"no","type":"server_error","code":500}}"#, 500, "no"),
        (r#"data: {"error":{"message":"no","type":"rate_limit_exceeded"}}"#, 429, "no"),
        (r#"data: {"error":"no"}"#, 502, "no"),
        (r#"data: {"object":"error","message":"no","type":"invalid_request_error"}"#, 400, "no"),
        ("event: error\ndata: {\"error\":{\"message\":\"no\",\"status_code\":400}}", 400, "no"),
        ("event: error\ndata: {\"message\":\"no\"}", 502, "no"),
        (r#"data: {"detail":"no"}"#, 502, "no"),
        (
            r#"data: {"id":"x","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":"server_error","message":"no"}}"#,
            502,
            "no",
        ),
        (
            r#"data: {"choices":[{"index":0,"delta":{},"error":{"code":502,"message":"no"},"finish_reason":"stop"}]}"#,
            502,
            "no",
        ),
        (r#"data: {"base_resp":{"status_code":1002,"status_msg":"no"}}"#, 429, "no"),
        ("data: {\"choices\":[{", 502, "The provider's answer cannot be read: it is not JSON."),
        ("data: 17", 502, "The provider's answer cannot be read: it is not JSON."),
    ] {
        let body = format!("data: {content_chunk}\n\n{event}\n\ndata: [DONE]\n\n");
        let decoded = read_at_all_cuts(body.as_bytes(), true);
        let error = decoded.error.unwrap_or_else(|| panic!("{event}"));
        assert_eq!((error.status, error.message.as_str()), (status, message), "{event}");
        assert_eq!(decoded.response.choices[0].text().as_deref(), Some("x"), "{event}");
        assert_eq!(decoded.response.choices[0].finish, None, "{event}");
    }
}

#[test]
fn a_body_that_is_no_response_is_an_error() {
    let page = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>";
    for (body, streamed, expected) in [
        (page, false, "it is not JSON: 502 Bad Gateway nginx"),
        (page, true, "it is not JSON: 502 Bad Gateway nginx"),
        ("", false, "it is empty"),
        ("{\"choices\":[", false, "not JSON"),
        ("[1,2]", false, "no chat completion"),
        ("{}", false, "no chat completion"),
        (r#"{"error":{"message":"told whole"}}"#, true, "told whole"),
        (r#"{"error":{"message":"told whole"}}"#, false, "told whole"),
        (r#"{"message":"no such route"}"#, false, "no such route"),
        (r#"{"choices":null,"base_resp":{"status_code":1004,"status_msg":"no key"}}"#, false, "no key"),
        ("\u{0}\u{1}", false, "not JSON"),
    ] {
        let error = read_at_all_cuts(body.as_bytes(), streamed).error.unwrap_or_else(|| panic!("{body:?}"));
        assert!(error.message.contains(expected), "{body:?}: {}", error.message);
    }
    assert!(read_at_all_cuts(b"\xff\xfe{", false).error.is_some());
    // A whole response with a stream's content type is a response.
    let whole = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    assert_eq!(read_at_all_cuts(whole.as_bytes(), true).response.choices[0].text().as_deref(), Some("hi"));
    // A stream of comments only, and a stream that was cut: no end is made up.
    let none = read_at_all_cuts(b": OPENROUTER PROCESSING\n\n", true);
    assert!(!none.ended && none.error.is_none());
    let cut =
        b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[{\"ind";
    let cut = read_at_all_cuts(cut, true);
    assert!(!cut.ended && cut.error.is_none() && cut.response.choices[0].finish.is_none());
}

#[test]
fn an_end_that_is_marked_without_a_reason_is_an_end() {
    let whole = r#"{"choices":[{"message":{"content":"hi"}}]}"#;
    let chunk = r#"{"choices":[{"index":0,"delta":{"content":"hi"}}]}"#;
    let cut = format!("data: {chunk}\n\n");
    let empty = stream(&[r#"{"id":"x","choices":[{"index":0,"delta":{"role":"assistant"}}]}"#]);
    for (body, is_streamed, is_finished) in [
        (whole, false, true),
        (stream(&[chunk]).as_str(), true, true),
        (cut.as_str(), true, false),
        (empty.as_str(), true, false),
        (stream(&[]).as_str(), true, false),
    ] {
        let decoded = read_at_all_cuts(body.as_bytes(), is_streamed);
        assert!(decoded.error.is_none(), "{body}");
        let finish = decoded.response.choices.first().and_then(|choice| choice.finish.as_ref());
        assert_eq!(finish.is_some(), is_finished, "{body}");
    }
}

#[test]
fn usage_is_found_wherever_it_stands() {
    let figures = r#"{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}"#;
    for chunk in [
        format!(r#"{{"choices":[],"usage":{figures}}}"#),
        format!(r#"{{"usage":{figures}}}"#),
        format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}],"usage":{figures}}}"#),
        format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop","usage":{figures}}}]}}"#),
        format!(r#"{{"choices":[],"x_groq":{{"id":"r","usage":{figures}}}}}"#),
    ] {
        let usage = read_at_all_cuts(stream(&[&chunk]).as_bytes(), true).response.usage.unwrap();
        assert_eq!((usage.input, usage.output, usage.total), (3, 4, 7), "{chunk}");
    }
}

#[test]
fn several_choices_pictures_sound_and_further_members_are_emitted() {
    let body = json!({
        "id": "i", "model": "m", "created": 5.7, "object": "chat.completion", "provider": "Google",
        "system_fingerprint": "fp", "citations": ["https://a"],
        "choices": [
            {"message": {"role": "assistant", "content": "one", "images": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
            ]}, "finish_reason": "stop", "logprobs": {"content": [], "refusal": null}},
            {"index": 1, "message": {"content": null, "refusal": "I will not", "audio": {
                "id": "a", "data": "UklGRgAA", "transcript": "hello", "expires_at": 1
            }, "annotations": [{"type": "url_citation"}]}, "finish_reason": "stop"}
        ]
    });
    let response = read_at_all_cuts(body.to_string().as_bytes(), false).response;
    assert_eq!(response.created, Some(5));
    let names: Vec<&str> = response.members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["citations", "system_fingerprint"]);
    let media = |kind: &str, data: &str| ContentPart::Media { media_type: kind.into(), data: data.into() };
    let [first, second] = response.choices.as_slice() else { panic!("two choices") };
    assert_eq!(first.parts, [ContentPart::Text("one".into()), media("image/png", "AAAA")]);
    assert_eq!(first.logprobs.len(), 1);
    assert_eq!(
        second.parts,
        [
            ContentPart::Refusal("I will not".into()),
            ContentPart::Text("hello".into()),
            media("audio/wav", "UklGRgAA")
        ]
    );
    assert_eq!(second.annotations.len(), 1);
}

#[test]
fn a_whole_message_with_each_delta_is_emitted_once() {
    // Perplexity.
    let chunk = |content: &str, so_far: &str| {
        json!({"choices": [{"index": 0, "delta": {"content": content}, "message": {"content": so_far}}]})
            .to_string()
    };
    let last = json!({"object": "chat.completion.done", "choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]});
    let decoded =
        read_at_all_cuts(stream(&[&chunk("a", "a"), &chunk("b", "ab"), &last.to_string()]).as_bytes(), true);
    assert_eq!(decoded.response.choices[0].text().as_deref(), Some("ab"));
}

#[test]
fn deviations_from_openais_shape_are_patched() {
    for (streamed, broken, patched) in [
        (
            true,
            r#"{"id":"x", "object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]}]},"finish_reason":null}]}"#,
            r#"{"id":"x", "object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":null,"reasoning_content":"t"},"finish_reason":null}]}"#,
        ),
        (
            true,
            r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"","reasoning":"t","tool_calls":null}}],"x_groq":{"usage":{"prompt_tokens":1.0}}}"#,
            r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"reasoning":"t","reasoning_content":"t"},"finish_reason":null}],"x_groq":{"usage":{"prompt_tokens":1.0}},"usage":{"prompt_tokens":1.0}}"#,
        ),
        (
            true,
            r#"{"object":"chat.completion.chunk","choices":[{"delta":{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":{"x":1.0}}}]},"finish_reason":"model_length"}]}"#,
            r#"{"object":"chat.completion.chunk","choices":[{"delta":{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1.0}"}}]},"finish_reason":"length","index":0,"native_finish_reason":"model_length"}]}"#,
        ),
        (
            false,
            r#"{"id":"x","object":"chat.completion","service_tier":"on_demand","choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"prompt_tokens_details":null}}"#,
            r#"{"id":"x","object":"chat.completion","service_tier":"default","choices":[{"index":0,"message":{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"},"type":"function"}],"content":null,"refusal":null},"finish_reason":"tool_calls","native_finish_reason":"stop"}],"usage":{"prompt_tokens":1},"native_service_tier":"on_demand"}"#,
        ),
    ] {
        let got = String::from_utf8(CHAT_PATCH.patch(broken.as_bytes(), streamed).unwrap()).unwrap();
        assert_eq!(got, patched);
        assert!(
            CHAT_PATCH.patch(patched.as_bytes(), streamed).is_none(),
            "patching twice changes nothing: {patched}"
        );
    }
    // An error has OpenAI's words, and patching it twice changes nothing.
    let error = r#"{"error":{"message":"no","code":503}}"#;
    let patched = CHAT_PATCH.patch(error.as_bytes(), true).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&patched),
        r#"{"error":{"message":"no","code":"server_is_overloaded","type":"server_error","param":null,"provider_code":"503"}}"#
    );
    assert!(CHAT_PATCH.patch(&patched, true).is_none());
    // An error given as a finish reason becomes an error.
    let failed =
        r#"{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"error"}]}"#;
    let parsed: Value = serde_json::from_slice(&CHAT_PATCH.patch(failed.as_bytes(), true).unwrap()).unwrap();
    assert!(parsed["error"]["message"].is_string() && parsed["choices"][0]["finish_reason"].is_null());
    for untouched in ["[DONE]", "", "nonsense", r#"{"error":"no"}"#, r#"{"choices":null}"#, "[]"] {
        let object = r#"{"object":"chat.completion.chunk","choices":[]}"#;
        assert!(CHAT_PATCH.patch(object.as_bytes(), true).is_none());
        assert_eq!(
            CHAT_PATCH.patch(untouched.as_bytes(), true).filter(|_| untouched != r#"{"choices":null}"#),
            None
        );
    }
}

#[test]
fn damaged_responses_do_not_panic() {
    let whole = r#"{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"content":[{"type":"thinking","thinking":[{"text":"t"}]}],"tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}],"reasoning_details":[{"type":"reasoning.text","text":"é"}]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#;
    let streamed = stream(&[&whole.replace("\"message\"", "\"delta\""), whole]);
    let mut seed = 7_u64;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    for _ in 0..2_000 {
        for (body, streamed) in [(whole, false), (streamed.as_str(), true)] {
            let mut body = body.as_bytes().to_vec();
            for _ in 0..=next(3) {
                let at = next(body.len());
                let byte = *b"\"{}[],:0n\\\xff\n".get(next(12)).unwrap();
                match next(3) {
                    0 => body[at] = byte,
                    1 => body.insert(at, byte),
                    _ => body.truncate(at.max(1)),
                }
            }
            let decoded = super::read(&super::OPENAI_CHAT, &body, streamed, &mut || next(40) + 1);
            assert!(streamed || decoded.ended != decoded.error.is_some(), "a whole response ends or fails");
            if let Some(patched) = CHAT_PATCH.patch(&body, streamed) {
                serde_json::from_slice::<Value>(&patched).unwrap();
            }
        }
    }
}

#[test]
fn a_message_next_to_deltas_is_emitted_once() {
    let text = |decoded: &Decoded| decoded.response.choices[0].text();
    // A whole response with an empty delta (Perplexity).
    let whole = r#"{"id":"x","choices":[{"index":0,"finish_reason":"stop",
        "message":{"role":"assistant","content":"Paris."},"delta":{"role":"assistant","content":""}}]}"#;
    assert_eq!(text(&read_at_all_cuts(whole.as_bytes(), false)).as_deref(), Some("Paris."));
    // A stream whose chunks have the whole message so far.
    let chunk = |delta: &str, message: &str, finish: &str| {
        format!(
            r#"{{"id":"x","choices":[{{"index":0,"delta":{{"content":"{delta}"}},"message":{{"content":"{message}"}},"finish_reason":{finish}}}]}}"#
        )
    };
    let chunks =
        [chunk("Par", "Par", "null"), chunk("is.", "Paris.", "null"), chunk("", "Paris.", "\"stop\"")];
    let chunks = chunks.each_ref().map(String::as_str);
    let decoded = read_at_all_cuts(stream(&chunks).as_bytes(), true);
    assert_eq!(text(&decoded).as_deref(), Some("Paris."));
    // A stream that has the text in the last message only.
    let chunks = [chunk("", "", "null"), chunk("", "Paris.", "\"stop\"")];
    let chunks = chunks.each_ref().map(String::as_str);
    let decoded = read_at_all_cuts(stream(&chunks).as_bytes(), true);
    assert_eq!(text(&decoded).as_deref(), Some("Paris."));
}

#[test]
fn a_transcript_is_emitted_once() {
    let text = |decoded: &Decoded| decoded.response.choices[0].text();
    let whole = json!({"choices": [{"finish_reason": "stop", "message": {
        "content": "Hello", "audio": {"data": "UklGRgAA", "transcript": "Hello"}
    }}]});
    assert_eq!(text(&read_at_all_cuts(whole.to_string().as_bytes(), false)).as_deref(), Some("Hello"));
    let decoded = deltas(&[
        r#"{"content":"Hel","audio":{"data":"AAAA","transcript":"Hel"}}"#,
        r#"{"content":"lo","audio":{"data":"AAAA","transcript":"lo"}}"#,
    ]);
    assert_eq!(text(&decoded).as_deref(), Some("Hello"));
    let decoded = deltas(&[
        r#"{"audio":{"transcript":"Hel"}}"#,
        r#"{"audio":{"transcript":"lo"}}"#,
        r#"{"content":"Hello"}"#,
        r#"{"content":" (end)"}"#,
    ]);
    assert_eq!(text(&decoded).as_deref(), Some("Hello (end)"));
}

#[test]
fn a_call_without_a_name_is_an_error() {
    let chunk = |delta: &str| {
        format!(r#"{{"id":"x","choices":[{{"index":0,"delta":{delta},"finish_reason":"tool_calls"}}]}}"#)
    };
    for nameless in [
        r#"{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}"#,
        r#"{"tool_calls":[{"index":0,"function":{"name":"","arguments":"{\"q\":1}"}}]}"#,
    ] {
        let decoded = read_at_all_cuts(stream(&[&chunk(nameless)]).as_bytes(), true);
        assert!(decoded.error.as_ref().unwrap().message.contains("no name"), "{nameless}");
    }
    // Nothing at all is no call.
    let decoded = read_at_all_cuts(stream(&[&chunk(r#"{"tool_calls":[{"index":0}]}"#)]).as_bytes(), true);
    assert!(decoded.error.is_none() && calls(&decoded).is_empty());
}
