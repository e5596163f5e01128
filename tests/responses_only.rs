//! Models that take tools only at `/v1/responses`: requests of other dialects go there, whole and streamed, by the table and by
//! what a refusal says.
//!
//! Not each member of the request and each event of the response: `provider::openai_responses` has those, beside the code.

use crate::support::client::{client, new_trace};
use crate::support::gateway;
use crate::support::message::Message;
use crate::support::provider::Provider;
use crate::support::settings::KEY;
use crate::support::sse::events;
use crate::support::upstream::Upstream;
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Notify;

/// Turns of the agent; in each but the last one it calls two tools at once.
const TURNS: usize = 50;

const REFUSAL: &str = "Function tools with reasoning_effort are not supported for this-model in /v1/chat/completions. To use function \
                       tools, use /v1/responses or set reasoning_effort to 'none'.";

fn http(status: &str, kind: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn of_json(body: &Value) -> Vec<u8> {
    http("200 OK", "application/json", &body.to_string())
}

/// A response of these items.
fn response(output: &[Value]) -> Value {
    json!({"id": "resp_1", "object": "response", "created_at": 1_700_000_000, "status": "completed", "model": "gpt-5.6-luna",
        "error": null, "incomplete_details": null, "output": output, "usage": {"input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60}, "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 8},
        "total_tokens": 120}})
}

/// The same as events.
fn response_events(output: &[Value]) -> String {
    let mut list = vec![json!({"type": "response.created", "response": response(&[])})];
    for (index, item) in output.iter().enumerate() {
        let at = json!({"output_index": index, "item_id": item["id"]});
        let mut push = |mut event: Value| {
            event.as_object_mut().unwrap().extend(at.as_object().unwrap().clone());
            list.push(event);
        };
        let mut begun = item.clone();
        begun.as_object_mut().unwrap().remove("encrypted_content");
        if item["type"] == "function_call" {
            begun["arguments"] = json!("");
        }
        push(json!({"type": "response.output_item.added", "item": begun}));
        if let Some(arguments) = item["arguments"].as_str() {
            let (first, second) = arguments.split_at(arguments.len() / 2);
            push(json!({"type": "response.function_call_arguments.delta", "delta": first}));
            push(json!({"type": "response.function_call_arguments.delta", "delta": second}));
            push(json!({"type": "response.function_call_arguments.done", "arguments": arguments}));
        }
        if let Some(text) = item.pointer("/content/0/text") {
            push(json!({"type": "response.output_text.delta", "content_index": 0, "delta": text}));
            push(json!({"type": "response.output_text.done", "content_index": 0, "text": text}));
        }
        push(json!({"type": "response.output_item.done", "item": item}));
    }
    list.push(json!({"type": "response.completed", "response": response(output)}));
    list.iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect()
}

fn call(id: &str, arguments: &Value) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "Bash", "arguments": arguments.to_string()})
}

fn text(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn body_of(message: &Message) -> Value {
    serde_json::from_slice(&message.body).unwrap()
}

fn is_streamed(message: &Message) -> bool {
    body_of(message)["stream"] == true
}

/// What OpenAI does with a model of this kind: these items at `/v1/responses`, the refusal of tools at chat completions.
fn strict(message: &Message, output: &[Value]) -> Vec<u8> {
    let body = body_of(message);
    if message.start.starts_with("POST /v1/responses") {
        if is_streamed(message) {
            return http("200 OK", "text/event-stream", &response_events(output));
        }
        return of_json(&response(output));
    }
    if body["tools"].is_array() && body["reasoning_effort"] != "none" {
        let error = json!({"error": {"message": REFUSAL, "type": "invalid_request_error", "param": "reasoning_effort", "code": null}});
        return http("400 Bad Request", "application/json", &error.to_string());
    }
    of_json(&json!({"id": "c", "object": "chat.completion", "created": 1, "model": body["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "of chat", "refusal": null}, "logprobs": null,
        "finish_reason": "stop"}]}))
}

/// A request to OpenAI, which the provider of the test plays.
fn request(provider: &Provider, path: &str, trace: &str, body: &Value) -> RequestBuilder {
    request_at(&provider.base_url(), path, trace, body)
}

fn request_at(host: &str, path: &str, trace: &str, body: &Value) -> RequestBuilder {
    let config = json!({"provider": "openai", "api_key": "sk-own-0123456789", "custom_host": host});
    let call = client().post(format!("{}{path}", gateway().data_url())).header("x-gateway-api-key", KEY);
    call.header("x-gateway-config", config.to_string()).header("x-gateway-trace-id", trace).json(body)
}

/// Status, warnings and body.
async fn answer(call: RequestBuilder) -> (u16, String, String) {
    let response = call.send().await.unwrap();
    let status = response.status().as_u16();
    let warnings =
        response.headers().get("x-gateway-warnings").map(|value| value.to_str().unwrap().to_owned());
    (status, warnings.unwrap_or_default(), response.text().await.unwrap())
}

fn functions() -> Value {
    json!([{"type": "function", "function": {"name": "Bash", "parameters": {"type": "object"}}}])
}

fn chat(model: &str, more: &Value) -> Value {
    let mut body =
        json!({"model": model, "messages": [{"role": "user", "content": "x"}], "tools": functions()});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// The blocks of a streamed message, put together as Anthropic's SDK does.
fn message_of(stream: &str) -> (Vec<Value>, Value) {
    let mut blocks: Vec<Value> = Vec::new();
    let mut partial = String::new();
    let mut end = Value::Null;
    for event in events(stream) {
        let data: Value = serde_json::from_str(&event.data).unwrap();
        let delta = &data["delta"];
        match data["type"].as_str().unwrap() {
            "content_block_start" => {
                partial.clear();
                blocks.push(data["content_block"].clone());
            }
            "content_block_delta" => {
                let block = blocks.last_mut().unwrap();
                let mut append = |name: &str| {
                    let text =
                        block[name].as_str().unwrap_or_default().to_owned() + delta[name].as_str().unwrap();
                    block[name] = json!(text);
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => append("text"),
                    "thinking_delta" => append("thinking"),
                    "signature_delta" => block["signature"] = delta["signature"].clone(),
                    _ => partial.push_str(delta["partial_json"].as_str().unwrap()),
                }
            }
            "content_block_stop" => {
                let block = blocks.last_mut().unwrap();
                if block["type"] == "tool_use" {
                    block["input"] = serde_json::from_str(&partial).unwrap();
                }
            }
            "message_delta" => end = data,
            "message_stop" => assert_eq!(end["type"], "message_delta"),
            _ => {}
        }
    }
    (blocks, end)
}

/// The items of one turn of the model.
fn turn(number: usize) -> Vec<Value> {
    let thought = json!({"type": "reasoning", "id": format!("rs_{number}"), "summary": [], "encrypted_content": format!("gAAAAthought{number}")});
    if number + 1 == TURNS {
        return vec![thought, text("Done.")];
    }
    let arguments = |name: &str| json!({"command": format!("echo {name}{number}")});
    vec![
        thought,
        call(&format!("call_{number}_a"), &arguments("a")),
        call(&format!("call_{number}_b"), &arguments("b")),
    ]
}

/// Claude Code at GPT: fifty turns with parallel calls. Each turn the model gets all of its thinking, its calls and their results back,
/// under their ids and in their order, and what it got before is the beginning of it, byte by byte.
#[tokio::test]
async fn an_agent_of_messages_works_through_fifty_turns() {
    let provider = Provider::start(|message| {
        let results = body_of(message)["input"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|item| item["type"] == "function_call_output")
            .count();
        strict(message, &turn(results / 2))
    })
    .await;
    let mut messages = vec![json!({"role": "user", "content": "Work."})];
    for number in 0..TURNS {
        let body = json!({"model": "gpt-5.6-luna", "max_tokens": 4000, "stream": true, "system": [{"type": "text", "text": "You are Claude Code."}],
            "thinking": {"type": "enabled", "budget_tokens": 2000}, "metadata": {"user_id": "u"},
            "tools": [{"name": "Bash", "description": "d", "input_schema": {"type": "object", "properties": {}}}], "messages": messages});
        let (status, warnings, stream) =
            answer(request(&provider, "/v1/messages?beta=true", &new_trace(), &body)).await;
        assert_eq!(status, 200, "turn {number}: {stream}");
        assert!(warnings.starts_with("model: sent to /v1/responses"), "turn {number}: {warnings}");
        let (blocks, end) = message_of(&stream);
        assert_eq!(blocks[0]["type"], "redacted_thinking", "turn {number}: {stream}");
        assert_eq!(end["usage"]["output_tokens"], 20, "turn {number}: {stream}");
        let calls: Vec<&Value> = blocks.iter().filter(|block| block["type"] == "tool_use").collect();
        let results: Vec<Value> = calls
            .iter()
            .map(|call| json!({"type": "tool_result", "tool_use_id": call["id"], "content": format!("ran {}", call["input"]["command"])}))
            .collect();
        if number + 1 == TURNS {
            assert_eq!(
                (&blocks[1]["text"], &end["delta"]["stop_reason"]),
                (&json!("Done."), &json!("end_turn"))
            );
            break;
        }
        assert_eq!(
            (calls.len(), &end["delta"]["stop_reason"]),
            (2, &json!("tool_use")),
            "turn {number}: {stream}"
        );
        messages.push(json!({"role": "assistant", "content": blocks}));
        messages.push(json!({"role": "user", "content": results}));
    }
    keeps_its_history(&provider.received());
}

/// Each turn's input is the turns before it, and begins with the bytes of the input before it.
fn keeps_its_history(received: &[Message]) {
    assert_eq!(received.len(), TURNS);
    let mut wanted = vec![
        json!({"type": "message", "role": "system", "content": "You are Claude Code."}),
        json!({"type": "message", "role": "user", "content": "Work."}),
    ];
    let mut before = String::new();
    for (number, message) in received.iter().enumerate() {
        assert!(message.start.starts_with("POST /v1/responses"), "{}", message.start);
        let body = body_of(message);
        assert_eq!(body["input"], json!(wanted), "turn {number}");
        assert_eq!(
            (&body["store"], &body["include"]),
            (&json!(false), &json!(["reasoning.encrypted_content"]))
        );
        assert_eq!(
            (&body["reasoning"], &body["max_output_tokens"]),
            (&json!({"effort": "low"}), &json!(4000))
        );
        let text = message.text();
        let input = text.split("],\"tools\":").next().unwrap().to_owned();
        assert!(input.starts_with(&before), "turn {number}: the history changed");
        before = input;
        for item in turn(number) {
            let mut sent = item.clone();
            sent.as_object_mut().unwrap().remove("id");
            if item["type"] == "function_call" {
                sent["arguments"] = json!(
                    serde_json::from_str::<Value>(item["arguments"].as_str().unwrap()).unwrap().to_string()
                );
            }
            wanted.push(sent);
        }
        for name in ["a", "b"] {
            wanted.push(json!({"type": "function_call_output", "call_id": format!("call_{number}_{name}"),
                "output": format!("ran \"echo {name}{number}\"")}));
        }
    }
}

/// Chats and Gemini's requests, whole and streamed, with usage, finish and the log of the change.
#[tokio::test]
async fn chats_and_geminis_requests_go_there_too() {
    let output = [text("Look: "), call("call_1", &json!({"a": 1}))];
    let items = output.clone();
    let provider = Provider::start(move |message| strict(message, &items)).await;

    let trace = new_trace();
    let call = request(
        &provider,
        "/v1/chat/completions",
        &trace,
        &chat("gpt-5.6", &json!({"max_completion_tokens": 50})),
    );
    let (status, warnings, body) = answer(call).await;
    let chat_response: Value = serde_json::from_str(&body).unwrap();
    let choice = &chat_response["choices"][0];
    assert_eq!((status, &choice["finish_reason"]), (200, &json!("tool_calls")), "{body}");
    assert_eq!(choice["message"]["content"], "Look: ");
    assert_eq!(
        choice["message"]["tool_calls"],
        json!([{"id": "call_1", "type": "function", "function": {"name": "Bash", "arguments": "{\"a\":1}"}}])
    );
    let usage = &chat_response["usage"];
    assert_eq!(
        [
            &usage["prompt_tokens"],
            &usage["completion_tokens"],
            &usage["prompt_tokens_details"]["cached_tokens"],
            &usage["completion_tokens_details"]["reasoning_tokens"]
        ],
        [&json!(100), &json!(20), &json!(60), &json!(8)]
    );
    assert!(warnings.contains("sent to /v1/responses"), "{warnings}");
    let line = gateway().access_line(&trace).await;
    assert!(line["warnings"].as_str().unwrap().contains("sent to /v1/responses"), "{line}");
    assert_eq!(line["tokens"], json!({"input": 100, "output": 20, "cached": 60, "reasoning": 8}), "{line}");

    let streamed = chat(
        "gpt-5.5",
        &json!({"reasoning_effort": "high", "stream": true, "stream_options": {"include_usage": true}}),
    );
    let (status, _, stream) =
        answer(request(&provider, "/v1/chat/completions", &new_trace(), &streamed)).await;
    assert_eq!(status, 200, "{stream}");
    let chunks = events(&stream);
    assert_eq!(chunks.last().unwrap().data, "[DONE]", "{stream}");
    assert!(
        stream.contains("\"finish_reason\":\"tool_calls\"") && stream.contains("\"prompt_tokens\":100"),
        "{stream}"
    );

    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "x"}]}], "tools": [{"functionDeclarations": [{"name": "Bash"}]}]});
    for path in ["generateContent", "streamGenerateContent?alt=sse"] {
        let call = request(&provider, &format!("/v1beta/models/gpt-5.6-luna:{path}"), &new_trace(), &gemini);
        let (status, _, body) = answer(call).await;
        assert_eq!(status, 200, "{body}");
        assert!(body.contains("\"functionCall\"") && body.contains("\"finishReason\":\"STOP\""), "{body}");
    }
    let received = provider.received();
    assert_eq!(received.len(), 4);
    assert!(received.iter().all(|message| message.start.starts_with("POST /v1/responses ")), "{received:?}");
    assert_eq!(body_of(&received[3])["stream"], true);
}

/// What the table does not name passes on, byte by byte.
#[tokio::test]
async fn other_chats_pass_as_they_are() {
    let provider = Provider::start(|message| strict(message, &[text("of responses")])).await;
    let plain = json!({"model": "gpt-5.6", "messages": [{"role": "user", "content": "x"}]});
    for body in [
        plain,
        chat("gpt-5.6", &json!({"reasoning_effort": "none"})),
        chat("gpt-5.5", &json!({"reasoning_effort": "none"})),
    ] {
        let (status, warnings, response) =
            answer(request(&provider, "/v1/chat/completions", &new_trace(), &body)).await;
        assert_eq!((status, warnings.as_str()), (200, ""), "{response}");
        assert!(response.contains("of chat"), "{response}");
        let received = provider.received().pop().unwrap();
        assert_eq!(
            (received.start.as_str(), received.text()),
            ("POST /v1/chat/completions HTTP/1.1", body.to_string())
        );
    }
}

/// A refusal teaches it, and the request is sent again in that form, which is no retry; the next one goes there at once.
#[tokio::test]
async fn a_refusal_teaches_it() {
    let provider = Provider::start(|message| strict(message, &[text("of responses")])).await;
    let path_of = |message: &Message| message.start.split(' ').nth(1).unwrap_or_default().to_owned();
    for (number, body) in
        [chat("gpt-7", &json!({})), chat("gpt-7", &json!({"stream": true}))].iter().enumerate()
    {
        let call = request(&provider, "/v1/chat/completions", &new_trace(), body);
        let response = call.send().await.unwrap();
        assert_eq!(response.headers()["x-gateway-retry-attempt-count"], "0");
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success() && text.contains("of responses"), "{text}");
        let paths: Vec<String> = provider.received().iter().map(path_of).collect();
        let wanted = ["/v1/chat/completions", "/v1/responses", "/v1/responses"];
        assert_eq!(paths, wanted[..2 + number]);
    }
    // It is learned of this model at this host: another one is refused there once more.
    let (status, _, _) =
        answer(request(&provider, "/v1/chat/completions", &new_trace(), &chat("gpt-8", &json!({})))).await;
    assert_eq!((status, provider.received().len()), (200, 5));
    // What the config says of a model counts alone.
    let never = json!({"provider": "openai", "api_key": "k", "custom_host": provider.base_url(), "responses_models": [{"model": "gpt-*", "when": "never"}]});
    let call =
        client().post(format!("{}/chat/completions", gateway().base_url())).header("x-gateway-api-key", KEY);
    let call = call.header("x-gateway-config", never.to_string()).json(&chat("gpt-7", &json!({})));
    let (status, _, body) = answer(call).await;
    assert!(status == 400 && body.contains("use /v1/responses"), "{body}");
    assert_eq!(provider.received().len(), 6);
}

/// A stream that breaks, or that fails, ends with an error and never as if it were whole.
#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error() {
    let whole = response_events(&[text("Hello there.")]);
    let begun = whole.split("event: response.completed").next().unwrap().to_owned();
    let failed = json!({"type": "response.failed", "response": {"id": "r", "status": "failed", "output": [],
        "error": {"code": "server_error", "message": "Out of order."}}});
    let failed = format!("event: response.failed\ndata: {failed}\n\n");
    for (rest, why) in [(String::new(), "error"), (failed, "Out of order.")] {
        let begun =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{begun}");
        let is_read = Arc::new(Notify::new());
        let reader = Arc::clone(&is_read);
        let upstream = Upstream::start(move |mut connection| {
            let begun = begun.clone();
            let rest = rest.clone();
            let is_read = Arc::clone(&is_read);
            async move {
                connection.request().await;
                connection.write(&begun).await;
                is_read.notified().await;
                connection.write(&rest).await;
            }
        })
        .await;
        let body = chat("gpt-5.6", &json!({"stream": true}));
        let mut response =
            request_at(&upstream.url(), "/v1/chat/completions", &new_trace(), &body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let mut stream = String::new();
        while let Ok(Some(chunk)) = response.chunk().await {
            stream.push_str(&String::from_utf8_lossy(&chunk));
            if stream.contains("Hello there.") {
                reader.notify_one();
            }
        }
        let last = events(&stream).pop().unwrap();
        assert!(last.data.contains("\"error\"") && last.data.contains(why), "{stream}");
        assert!(!stream.contains("[DONE]"), "{stream}");
    }
    // Before any content it is a failing status.
    let failed = json!({"id": "r", "status": "failed", "output": [], "error": {"code": "rate_limit_exceeded", "message": "Slow down."}});
    let provider = Provider::start(move |_| of_json(&failed)).await;
    let (status, _, body) =
        answer(request(&provider, "/v1/chat/completions", &new_trace(), &chat("gpt-5.6", &json!({})))).await;
    assert!(status == 429 && body.contains("Slow down."), "{status} {body}");
}

#[tokio::test]
async fn explain_shows_where_it_goes() {
    let gateway = gateway();
    let config = json!({"provider": "openai", "api_key": "sk-own-0123456789"}).to_string();
    let question = json!({"headers": {"x-gateway-api-key": KEY, "x-gateway-config": config}, "body": chat("gpt-5.6", &json!({}))});
    let call = gateway.control(reqwest::Method::POST, "/v1/explain");
    let explained: Value = call.body(question.to_string()).send().await.unwrap().json().await.unwrap();
    let request = &explained["request"];
    assert_eq!(
        (&request["path"], &request["translated"]),
        (&json!("/v1/responses"), &json!(true)),
        "{explained}"
    );
    assert!(request["warnings"][0].as_str().unwrap().contains("sent to /v1/responses"), "{explained}");
}
