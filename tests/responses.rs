//! Recorded responses of real chat-only providers, translated by the running gateway for clients of
//! `/v1/responses`: the content is preserved, whole and streamed in any chunks, and each object and event is
//! valid by OpenAI's published schema.
//!
//! The gateway's own list says which providers those are. The grammar of a stream is unit-tested in the
//! dialect. Without the recordings beside the checkout the test is skipped.

use crate::support::client::client;
use crate::support::emulator::Emulator;
use crate::support::expected::{ChatContent, data, message, parsed};
use crate::support::recording;
use crate::support::report;
use crate::support::schemas::Strict;
use crate::support::settings::KEY;
use crate::support::{Gateway, gateway};
use crate::translations::{HOSTS, Trip, compare, settings, summary, trips};
use futures_util::{StreamExt, stream};
use http::Method;
use knowledge::provider::adapter::Adapter;
use knowledge::provider::{Call, find};
use reqwest::Client;
use serde_json::{Value, json};
use words::api::operation::Operation;
use words::config::account::Account;

/// Requests in flight at a time.
const AT_ONCE: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recorded_responses_translate_to_the_responses_api() {
    let Some(file) = recording::file() else {
        return report("SKIPPED: responses: no ../shared/traffic beside this checkout");
    };
    let recordings = recording::all(&std::fs::read_to_string(&file).unwrap());
    let schemas = Strict::load().unwrap();
    let emulator = Emulator::start(Some(&file));
    let gateway = Gateway::start(&settings(emulator.port));
    let mut trips = trips(&recordings);
    trips.retain(|trip| only_chats(trip.provider));
    let client = client();
    let travel = |trip| travel(&client, &gateway, &schemas, trip);
    let problems: Vec<String> = stream::iter(&trips).map(travel).buffer_unordered(AT_ONCE).concat().await;
    let count = problems.len();
    assert!(problems.is_empty(), "{count} problems in {} trips:\n{}", trips.len(), problems.join("\n"));
    assert!(trips.len() > 150, "only {} trips were made", trips.len());
    report(&summary("responses", &trips));
}

/// Whether the gateway sends this provider a chat request when a client calls the Responses API.
fn only_chats(provider: &str) -> bool {
    let call = Call {
        operation: Operation::Responses,
        method: &Method::POST,
        path: "responses",
        query: None,
        model: Some("m"),
        streamed: false,
    };
    let kind = find(provider).map(|provider| provider.adapter(&call, &Account::default()));
    matches!(kind, Some(Ok(Adapter::Chat(_))))
}

async fn travel(client: &Client, gateway: &Gateway, schemas: &Strict, trip: &Trip<'_>) -> Vec<String> {
    let Trip { recording, provider, shape, cut } = trip;
    let streamed = recording.streamed;
    let body =
        json!({"model": "asked-model", "stream": streamed, "input": "Hello.", "instructions": "Be brief."});
    let call = client.post(format!("{}/responses", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-replay-id", &recording.id);
    let call = call.header("x-gateway-provider", format!("@recorded-{provider}"));
    let call = cut.iter().fold(call, |call, (name, value)| call.header(*name, *value));
    let http_response = call.json(&body).send().await.unwrap();
    let status = http_response.status().as_u16();
    let body = http_response.bytes().await.unwrap();
    let wanted = ChatContent::from_recording(recording, *shape);
    let mut problems = Vec::new();
    if status != recording.status {
        problems.push(format!("status {status}, not {}", recording.status));
    } else if status >= 400 {
        let got: Value = serde_json::from_slice(&body).unwrap_or_default();
        if Some(message(&got)) != wanted.error || !got["error"]["message"].is_string() {
            problems.push(format!("error {got}, not {:?}", wanted.error));
        }
    } else if streamed {
        let events = data(&body);
        let last = events.last().cloned().unwrap_or_default();
        // Check both the deltas and the final response object.
        problems.extend(compare(&gathered(&events), &wanted));
        if wanted.error.is_none() {
            problems.extend(compare(&read(&last["response"]), &wanted));
        }
        problems.extend(events.iter().flat_map(|event| schemas.event(event)));
    } else {
        let response = serde_json::from_slice(&body).unwrap_or_default();
        problems.extend(compare(&read(&response), &wanted));
        problems.extend(schemas.response(&response));
    }
    let start: String = String::from_utf8_lossy(&body).chars().take(200).collect();
    let named = |problem| format!("{provider} {} {cut:?}: {problem} <- {start}", recording.id);
    problems.into_iter().map(named).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The content of a Response object.
fn read(response: &Value) -> ChatContent {
    let mut content = ChatContent::default();
    for item in response["output"].as_array().into_iter().flatten() {
        for part in item["content"].as_array().into_iter().flatten() {
            content.text += text(&part["text"]);
        }
        for part in item["summary"].as_array().into_iter().flatten() {
            content.reasoning += text(&part["text"]);
        }
        if item["type"] == "function_call" {
            content.tools.push((text(&item["name"]).to_owned(), parsed(text(&item["arguments"]))));
        }
    }
    read_end(&mut content, response);
    content
}

/// Parses the finish reason and the tokens.
fn read_end(content: &mut ChatContent, response: &Value) {
    content.finish = match (text(&response["status"]), text(&response["incomplete_details"]["reason"])) {
        ("completed", _) if !content.tools.is_empty() => "tool_calls",
        ("completed", _) => "stop",
        ("incomplete", "max_output_tokens") => "length",
        ("incomplete", other) => other,
        (other, _) => other,
    }
    .to_owned();
    let usage = &response["usage"];
    let count = |name: &str| usage[name].as_u64();
    content.tokens = count("input_tokens").zip(count("output_tokens"));
}

/// The content of a stream's deltas.
fn gathered(events: &[Value]) -> ChatContent {
    let mut content = ChatContent::default();
    for event in events {
        match text(&event["type"]) {
            "response.output_text.delta" => content.text += text(&event["delta"]),
            "response.reasoning_summary_text.delta" => content.reasoning += text(&event["delta"]),
            "response.function_call_arguments.done" => {
                content.tools.push((text(&event["name"]).to_owned(), parsed(text(&event["arguments"]))));
            }
            "response.completed" | "response.incomplete" => read_end(&mut content, &event["response"]),
            "error" => content.error = Some(message(event)),
            _ => {}
        }
    }
    content
}

#[tokio::test]
async fn unstored_responses_can_be_neither_fetched_nor_continued() {
    let gateway = gateway();
    let client = client();
    let call = |method: Method, path: &str| {
        let call = client.request(method, format!("{}/{path}", gateway.base_url()));
        call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@anthropic-emulator")
    };
    for (method, path) in [
        (Method::GET, "responses/resp_1"),
        (Method::DELETE, "responses/resp_1"),
        (Method::POST, "responses/resp_1/cancel"),
        (Method::GET, "responses/resp_1/input_items"),
    ] {
        let response = call(method.clone(), path).send().await.unwrap();
        assert_eq!(response.status(), 400, "{method} {path}");
        let body: Value = response.json().await.unwrap();
        assert!(text(&body["error"]["message"]).contains("keeps no responses"), "{body}");
    }
    let continuation = json!({"model": "m", "input": "i", "previous_response_id": "resp_1"});
    let response = call(Method::POST, "responses").json(&continuation).send().await.unwrap();
    assert_eq!(response.status(), 400);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"]["param"], "previous_response_id");
    let long = json!({"model": "claude-sonnet-4-5", "input": "i", "truncation": "auto"});
    let response = call(Method::POST, "responses").json(&long).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let warnings = response.headers()["x-gateway-warnings"].to_str().unwrap().to_owned();
    assert!(warnings.contains("truncation"), "{warnings}");
    assert!(HOSTS.iter().any(|(_, _, provider, ..)| only_chats(provider)));
}

/// A client that believes its responses stored refers to their items. What it refers to is as if it had been sent.
#[tokio::test]
async fn references_to_earlier_items_are_understood() {
    let gateway = gateway();
    let client = client();
    let call = |key: &str, slug: &str, body: &Value| {
        let call = client.post(format!("{}/responses", gateway.base_url())).json(body);
        call.header("x-gateway-api-key", key).header("x-gateway-provider", slug.to_owned())
    };
    let model = "claude-sonnet-4-5";
    let thinking = json!({"effort": "low", "summary": "auto"});
    let user = |text: &str| json!({"role": "user", "content": text});
    for stream in [false, true] {
        let first = json!({"model": model, "input": "Hello", "reasoning": thinking, "stream": stream});
        let text = call(KEY, "@anthropic-emulator", &first).send().await.unwrap().text().await.unwrap();
        let response: Value = if stream {
            data(text.as_bytes()).last().unwrap()["response"].clone()
        } else {
            serde_json::from_str(&text).unwrap()
        };
        let output = response["output"].as_array().unwrap();
        let kinds: Vec<&str> = output.iter().map(|item| item["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["reasoning", "message"], "{response}");
        let spoken = output[1]["content"][0]["text"].as_str().unwrap();
        let signature = output[0]["encrypted_content"].as_str().unwrap();
        let references = output.iter().map(|item| json!({"type": "item_reference", "id": item["id"]}));
        let input: Vec<Value> = [user("Hello")].into_iter().chain(references).chain([user("And?")]).collect();
        let next = json!({"model": model, "input": input, "reasoning": thinking});
        let tag = crate::support::client::new_trace();
        let tagged = call(KEY, "@anthropic-emulator", &next).header("x-emulator-tag", &tag);
        let answer = tagged.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
        let sent = gateway.emulator_requests(&tag).await[0]["body"].to_string();
        assert!(sent.contains(spoken) && sent.contains(signature), "{sent}");
        // Nobody else's.
        let others =
            call(crate::support::settings::OTHER_KEY, "@anthropic-emulator", &next).send().await.unwrap();
        assert_eq!(others.status(), 400);
        // A provider with a Responses API of its own, which has not made them, gets them, too.
        let tag = crate::support::client::new_trace();
        let _ = call(KEY, "@emulator", &next).header("x-emulator-tag", &tag).send().await.unwrap();
        let sent = gateway.emulator_requests(&tag).await[0]["body"].to_string();
        assert!(sent.contains(spoken) && !sent.contains("item_reference"), "{sent}");
    }
    // Unless the client wants nothing kept.
    let first = json!({"model": model, "input": "Hello", "store": false});
    let response: Value =
        call(KEY, "@anthropic-emulator", &first).send().await.unwrap().json().await.unwrap();
    let id = &response["output"][0]["id"];
    let next = json!({"model": model, "input": [{"type": "item_reference", "id": id}, user("And?")]});
    assert_eq!(call(KEY, "@anthropic-emulator", &next).send().await.unwrap().status(), 400);
}
