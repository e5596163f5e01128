//! Requests as they are written for the Responses API, and responses that no recording has.

use super::OpenAiResponses;
use crate::provider::adapter::ChatAdapter;
use crate::provider::translation::{PrepareOptions, PreparedRequest, prepare};
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::{Call, find};
use http::Method;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::chat::Event;
use words::api::operation::Operation;
use words::config::account::{Account, ResponsesModel, ResponsesWhen};

/// A request of a client, prepared for a provider that takes all chats only there.
fn prepared(operation: Operation, body: &Value, strict: bool) -> (PreparedRequest, Vec<String>) {
    let model = body["model"].as_str();
    let body = Body::parse(body.to_string().into()).unwrap();
    let path = if operation == Operation::Messages { "messages" } else { "chat/completions" };
    let call = Call { operation, method: &Method::POST, path, query: None, model, streamed: false };
    let always = ResponsesModel { model: "*".to_owned(), when: ResponsesWhen::Always };
    let account = Account { responses_models: vec![always], ..Account::default() };
    let options =
        PrepareOptions { strict, stream_usage: false, client_betas: None, learned: None, prompt_cache: None };
    let mut notes = TranslationNotes::default();
    let prepared =
        prepare(find("openai").unwrap(), &call, &account, Some(&body), options, &mut notes).unwrap();
    assert_eq!((prepared.operation, prepared.path.as_str()), (Operation::Responses, "/v1/responses"));
    let mut warnings = notes.warnings;
    assert!(warnings.remove(0).starts_with("model: sent to /v1/responses"));
    (prepared, warnings)
}

/// What is sent for a request of a client, and the warnings.
fn written(operation: Operation, body: &Value) -> (Value, Vec<String>) {
    let (prepared, warnings) = prepared(operation, body, true);
    (serde_json::from_slice(&prepared.body.unwrap()).unwrap(), warnings)
}

#[test]
fn a_chat_is_written_as_a_create_request() {
    let (sent, warnings) = written(
        Operation::ChatCompletions,
        &json!({
            "model": "gpt-x", "max_completion_tokens": 900, "stream": true, "stream_options": {"include_usage": true},
            "reasoning_effort": "low", "verbosity": "low", "temperature": 1, "metadata": {"a": "b"}, "user": "u",
            "service_tier": "flex", "prompt_cache_key": "k", "parallel_tool_calls": false, "seed": 7, "logprobs": true, "top_logprobs": 2,
            "stop": ["END"], "made_up": [1],
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "user", "content": [{"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                    {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"}}]},
                {"role": "assistant", "content": "I call.", "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
                    {"id": "call_2", "type": "function", "function": {"name": "f", "arguments": ""}}]},
                {"role": "tool", "tool_call_id": "call_1", "content": "one"},
                {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "two"}]},
                {"role": "user", "content": "go on"}
            ],
            "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
                      {"type": "function", "function": {"name": "g", "strict": true}}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": true}}
        }),
    );
    let wanted = json!({
        "model": "gpt-x",
        "input": [
            {"type": "message", "role": "developer", "content": "a\n\nb"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I call."}]},
            {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{\"a\":1}"},
            {"type": "function_call", "call_id": "call_2", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "one"},
            {"type": "function_call_output", "call_id": "call_2", "output": "two"},
            {"type": "message", "role": "user", "content": "go on"}
        ],
        "tools": [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": false},
            {"type": "function", "name": "g", "parameters": {"type": "object", "properties": {}}, "strict": true}
        ],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": false,
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true}, "verbosity": "low"},
        "max_output_tokens": 900,
        "reasoning": {"effort": "low"},
        "store": false,
        "include": ["reasoning.encrypted_content", "message.output_text.logprobs"],
        "stream": true,
        "temperature": 1, "metadata": {"a": "b"}, "user": "u", "service_tier": "flex", "prompt_cache_key": "k", "top_logprobs": 2,
        "made_up": [1]
    });
    assert_eq!(sent, wanted);
    let dropped = |name| format!("{name}: dropped, the Responses API has no such parameter");
    assert_eq!(warnings, ["stop", "seed"].map(dropped));
}

/// Claude Code's marks: on the system's text, a tool, a result and what the assistant said.
#[test]
fn cache_marks_become_the_apis_own() {
    let mark = json!({"type": "ephemeral"});
    let marked = |model: &str| {
        json!({"model": model, "max_tokens": 900,
            "system": [{"type": "text", "text": "s", "cache_control": mark}],
            "tools": [{"name": "f", "input_schema": {"type": "object"}, "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://a.example/a.png"}, "cache_control": mark}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "one", "cache_control": mark}]}]})
    };
    let explicit = json!({"mode": "explicit"});
    let (sent, warnings) = written(Operation::Messages, &marked("gpt-5.6"));
    assert_eq!(
        sent["input"],
        json!([
            {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "s", "prompt_cache_breakpoint": explicit}]},
            {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "https://a.example/a.png",
                "detail": "auto", "prompt_cache_breakpoint": explicit}]},
            {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1",
                "output": [{"type": "input_text", "text": "one", "prompt_cache_breakpoint": explicit}]}
        ])
    );
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("cache_control: dropped from tools, messages"), "{warnings:?}");
    let (sent, warnings) = written(Operation::Messages, &marked("gpt-5.5"));
    assert!(!sent.to_string().contains("prompt_cache_breakpoint"), "{sent}");
    assert_eq!(warnings, ["cache_control: dropped, this provider caches by itself or not at all"]);
    let chat = |model: &str| {
        let text = json!({"type": "text", "text": "x", "prompt_cache_breakpoint": explicit});
        json!({"model": model, "messages": [{"role": "user", "content": [text]}]})
    };
    let (sent, warnings) = written(Operation::ChatCompletions, &chat("gpt-5.6"));
    assert_eq!(sent["input"][0]["content"][0]["prompt_cache_breakpoint"], explicit);
    assert_eq!(warnings, [""; 0]);
    let (_, warnings) = written(Operation::ChatCompletions, &chat("gpt-5.5"));
    assert_eq!(warnings, ["prompt_cache_breakpoint: dropped, this provider caches by itself or not at all"]);
}

#[test]
fn a_message_keeps_its_thinking_pictures_and_searches() {
    let (sent, warnings) = written(
        Operation::Messages,
        &json!({
            "model": "gpt-x", "max_tokens": 900, "system": "s",
            "thinking": {"type": "enabled", "budget_tokens": 8000, "display": "summarized"},
            "tools": [{"name": "f", "input_schema": {"type": "object"}},
                      {"type": "web_search_20250305", "name": "web_search", "max_uses": 3, "allowed_domains": ["a.example"]},
                      {"type": "bash_20250124", "name": "bash"}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
            "messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "gAAAAhm"},
                    {"type": "redacted_thinking", "data": "gAAAAred"},
                    {"type": "thinking", "thinking": "of Claude", "signature": "EqQB"},
                    {"type": "tool_use", "id": "call_1", "name": "f", "input": {}},
                    {"type": "tool_use", "id": "call_2", "name": "f", "input": {"b": 2}}]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "is_error": true, "content": "no"},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": [{"type": "text", "text": "see"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]}]},
                // Cut off while it thought: refused alone.
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "lone", "signature": "gAAAAlone"}]},
                {"role": "user", "content": "and?"}
            ]
        }),
    );
    assert_eq!(
        sent["input"],
        json!([
            {"type": "message", "role": "system", "content": "s"},
            {"type": "message", "role": "user", "content": "x"},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAAAhm"},
            {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAred"},
            {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "call_2", "name": "f", "arguments": "{\"b\":2}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "Error: no"},
            {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "see"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}]},
            {"type": "message", "role": "user", "content": "and?"}
        ])
    );
    assert_eq!(
        sent["tools"][1],
        json!({"type": "web_search", "filters": {"allowed_domains": ["a.example"]}})
    );
    assert_eq!(sent["tools"].as_array().unwrap().len(), 2);
    assert_eq!(sent["reasoning"], json!({"effort": "medium", "summary": "auto"}));
    assert_eq!((&sent["tool_choice"], &sent["parallel_tool_calls"]), (&json!("required"), &json!(false)));
    let all = warnings.join("; ");
    assert!(all.contains("tools[1].max_uses: dropped, the Responses API has no such parameter"), "{all}");
    assert!(all.contains("tools[2]: left out") && all.contains("earlier thinking left out"), "{all}");
}

#[test]
fn the_few_tools_that_are_allowed_are_named() {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
    let (sent, _) = written(
        Operation::ChatCompletions,
        &json!({"model": "gpt-x", "messages": [{"role": "user", "content": "x"}], "tools": [tool("f"), tool("g")],
            "web_search_options": {"search_context_size": "low", "user_location": {"type": "approximate", "approximate": {"city": "Bonn"}}},
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tool("g")]}}}),
    );
    assert_eq!(
        sent["tool_choice"],
        json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]})
    );
    assert_eq!(
        sent["tools"][2],
        json!({"type": "web_search", "search_context_size": "low", "user_location": {"type": "approximate", "city": "Bonn"}})
    );
}

fn events(bytes: &str, streamed: bool) -> Vec<String> {
    let mut decoder = OpenAiResponses.decoder(streamed);
    let mut log = Vec::new();
    let mut take = |event: Event<'_>| log.push(format!("{event:?}"));
    decoder.push(bytes.as_bytes(), &mut take);
    decoder.finish(&mut take);
    log
}

/// A stream of these events.
fn stream(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_response_that_failed_is_an_error_with_its_status() {
    let response = |status: &str, more: Value| {
        let mut response = json!({"id": "r", "object": "response", "status": status, "output": []});
        response.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        response
    };
    let limit = json!({"error": {"code": "rate_limit_exceeded", "message": "Slow down."}});
    let server = json!({"error": {"code": "server_error", "message": "No."}});
    let failed = |more: &Value| {
        stream(&[json!({"type": "response.failed", "response": response("failed", more.clone())})])
    };
    for (bytes, streamed, status, message) in [
        (failed(&limit), true, 429, "Slow down."),
        (failed(&server), true, 502, "No."),
        (response("failed", limit.clone()).to_string(), false, 429, "Slow down."),
        (
            stream(&[
                json!({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": null}),
            ]),
            true,
            429,
            "Slow down.",
        ),
        (
            stream(&[
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": "Bad."}}),
            ]),
            true,
            400,
            "Bad.",
        ),
        (
            json!({"error": {"type": "invalid_request_error", "message": "Bad."}}).to_string(),
            false,
            400,
            "Bad.",
        ),
        (
            response("queued", json!({})).to_string(),
            false,
            502,
            "The provider's answer cannot be read: the response is not finished.",
        ),
        (
            "<html>bad gateway</html>".to_owned(),
            false,
            502,
            "The provider's answer cannot be read: it is not JSON: bad gateway.",
        ),
    ] {
        let log = events(&bytes, streamed);
        let last = log.last().unwrap();
        assert!(
            last.starts_with(&format!("Error(ProviderError {{ status: {status}, message: \"{message}\"")),
            "{bytes}: {log:?}"
        );
        assert!(!log.iter().any(|event| event.starts_with("Finish")), "{log:?}");
    }
}

#[test]
fn a_response_that_was_cut_off_has_the_reason() {
    for (reason, finish) in
        [("max_output_tokens", "Length"), ("content_filter", "ContentFilter"), ("other", "Length")]
    {
        let response = json!({"id": "r", "status": "incomplete", "incomplete_details": {"reason": reason},
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hel"}]}]});
        let event = json!({"type": "response.incomplete", "response": response});
        for log in [events(&response.to_string(), false), events(&stream(&[event]), true)] {
            let finish = format!("Finish {{ choice: 0, reason: {finish}, native: \"{reason}\" }}");
            assert!(log.contains(&finish), "{log:?}");
            assert_eq!(log.last().unwrap(), "End");
        }
    }
}

#[test]
fn interleaved_calls_refusals_and_parts_of_a_summary_are_kept_apart() {
    let call = |index: u64, id: &str| {
        json!({"type": "response.output_item.added", "output_index": index,
            "item": {"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "f", "arguments": ""}})
    };
    let arguments = |index: u64, delta: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta});
    let summary = |part: u64, delta: &str| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": part, "delta": delta});
    let done = json!({"type": "response.output_item.done", "output_index": 0,
        "item": {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA1"}});
    let custom = json!({"type": "custom_tool_call", "call_id": "c", "name": "p", "input": "raw \"x\""});
    let log = events(
        &stream(&[
            json!({"type": "response.created", "response": {"id": "r", "model": "m", "created_at": 5, "output": []}}),
            summary(0, "a"),
            summary(0, "b"),
            summary(1, "c"),
            done,
            call(1, "one"),
            call(2, "two"),
            arguments(2, "{\"b\":"),
            arguments(1, "{}"),
            arguments(2, "2}"),
            json!({"type": "response.refusal.delta", "output_index": 3, "delta": "No."}),
            json!({"type": "response.made_up", "message": "not an error"}),
            json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "service_tier": "default",
                "output": [{"type": "reasoning"}, {"type": "function_call"}, {"type": "function_call"},
                    {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}, custom],
                "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}}),
        ]),
        true,
    );
    let text: Vec<&str> = log.iter().map(String::as_str).collect();
    assert_eq!(
        text[..15],
        [
            r#"Start(Start { id: Some("r"), model: Some("m"), created: Some(5) })"#,
            r#"Reasoning { choice: 0, text: "a" }"#,
            r#"Reasoning { choice: 0, text: "b" }"#,
            r#"Reasoning { choice: 0, text: "\n\n" }"#,
            r#"Reasoning { choice: 0, text: "c" }"#,
            r#"Signature { choice: 0, signature: "gAAAA1" }"#,
            r#"ToolCall { choice: 0, index: 0, id: "one", name: "f", signature: None }"#,
            r#"ToolCall { choice: 0, index: 1, id: "two", name: "f", signature: None }"#,
            r#"Arguments { choice: 0, index: 1, fragment: "{\"b\":" }"#,
            r#"Arguments { choice: 0, index: 0, fragment: "{}" }"#,
            r#"Arguments { choice: 0, index: 1, fragment: "2}" }"#,
            r#"Refusal { choice: 0, text: "No." }"#,
            r#"ToolCall { choice: 0, index: 2, id: "c", name: "p", signature: None }"#,
            r#"Arguments { choice: 0, index: 2, fragment: "{\"input\":\"raw \\\"x\\\"\"}" }"#,
            r#"Member { name: "service_tier", json: "\"default\"" }"#,
        ]
    );
    assert_eq!(text.len(), 18, "usage, finish and end: {text:?}");
}

#[test]
fn the_input_of_a_whole_freeform_call_has_any_length() {
    let input = "x".repeat((16 << 20) + 1);
    let call = json!({"type": "custom_tool_call", "call_id": "c", "name": "p", "input": input});
    let log = events(&json!({"id": "r", "status": "completed", "output": [call]}).to_string(), false);
    let arguments = log.iter().find(|event| event.starts_with("Arguments")).unwrap();
    assert!(arguments.len() > input.len());
}

/// A turn as the provider answers it, with its thinking encrypted, and as the client of each dialect sends it back.
#[test]
fn encrypted_thinking_goes_to_the_client_and_comes_back() {
    let tools = json!([{"type": "function", "function": {"name": "f"}}]);
    let response = json!({"id": "r", "model": "gpt-x", "status": "completed", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAAA1"},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAAA2"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}]});
    let client_response = |operation, body: &Value| -> Value {
        let (prepared, _) = prepared(operation, body, false);
        let mut rewriter = prepared.translation.unwrap().rewriter(false, "1", 0);
        let mut out = Vec::new();
        rewriter.push(response.to_string().as_bytes(), &mut out);
        rewriter.finish(&mut out);
        assert!(rewriter.is_complete() && rewriter.error().is_none());
        serde_json::from_slice(&out).unwrap()
    };
    let first = json!({"role": "user", "content": "x"});
    let wanted = json!([
        {"type": "message", "role": "user", "content": "x"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAAA1"},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA2"},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "r"}]);

    let mut body = json!({"model": "gpt-x", "max_tokens": 99, "messages": [first], "tools": [{"name": "f", "input_schema": {"type": "object"}}]});
    let message = client_response(Operation::Messages, &body);
    assert_eq!(message["stop_reason"], "tool_use");
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "r"}]});
    body["messages"] = json!([first, {"role": "assistant", "content": message["content"]}, result]);
    assert_eq!(written(Operation::Messages, &body).0["input"], wanted);

    let mut body = json!({"model": "gpt-x", "messages": [first], "tools": tools});
    let chat = client_response(Operation::ChatCompletions, &body);
    assert_eq!(chat["choices"][0]["finish_reason"], "tool_calls");
    let result = json!({"role": "tool", "tool_call_id": "call_1", "content": "r"});
    body["messages"] = json!([first, chat["choices"][0]["message"], result]);
    assert_eq!(written(Operation::ChatCompletions, &body).0["input"], wanted);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, streamed: bool) {
        events(&String::from_utf8_lossy(&bytes), streamed);
    }

    #[test]
    fn any_json_is_survived(text in r#"(\{|\}|\[|\]|"output":|"item":|"content":|"type":|"text":|"output_index":|"response":|"reasoning"|"message"|"response.completed"|"a"|1|-1|null|,|data: |\n)*"#) {
        events(&text, true);
        events(&text, false);
    }
}
