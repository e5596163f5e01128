//! Responses with tools of MCP servers that the gateway calls for a model, on the running binary: items, events, approvals, and ids.
//!
//! Chats, and what both have, are `tool_rounds`.

use crate::support::Gateway;
use crate::support::client::client;
use crate::support::expected::data;
use crate::support::mcp_client::{ALL, SETTINGS, save};
use crate::support::mcp_fake::{FakeEra, McpFake, body};
use crate::support::provider::Provider;
use crate::support::round_models::{event_stream, json_response};
use crate::support::settings::KEY;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A model of responses: it calls a tool until there is an output, then says so.
async fn responses_model() -> Provider {
    let number = Arc::new(AtomicU64::new(0));
    Provider::start(move |message| {
        let request = body(message);
        let number = number.fetch_add(1, Ordering::Relaxed);
        let has_output = request["input"].as_array().unwrap().iter().any(|item| item["type"] == "function_call_output");
        let items = match has_output {
            false => vec![
                json!({"type": "reasoning", "id": "rs_1", "summary": []}),
                json!({"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "files__echo",
                    "arguments": "{\"path\":\"a\"}"}),
            ],
            true => vec![json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
                "content": [{"type": "output_text", "text": "Found.", "annotations": []}]})],
        };
        let response = |status: &str, output: &[Value]| {
            json!({"id": format!("resp_{number}"), "object": "response", "created_at": 1, "model": "m", "status": status,
                "output": output, "tools": request["tools"], "tool_choice": "auto",
                "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}})
        };
        if request["stream"] != true {
            return json_response(&response("completed", &items));
        }
        let mut events = vec![
            json!({"type": "response.created", "response": response("in_progress", &[])}),
            json!({"type": "response.in_progress", "response": response("in_progress", &[])}),
        ];
        for (at, item) in items.iter().enumerate() {
            let mut begun = item.clone();
            begun["status"] = json!("in_progress");
            events.push(json!({"type": "response.output_item.added", "output_index": at, "item": begun}));
            if item["type"] == "function_call" {
                let of = json!({"output_index": at, "item_id": item["id"], "delta": item["arguments"], "arguments": item["arguments"]});
                for kind in ["delta", "done"] {
                    let mut event = of.clone();
                    event["type"] = json!(format!("response.function_call_arguments.{kind}"));
                    events.push(event);
                }
            }
            events.push(json!({"type": "response.output_item.done", "output_index": at, "item": item}));
        }
        events.push(json!({"type": "response.completed", "response": response("completed", &items)}));
        for (at, event) in events.iter_mut().enumerate() {
            event["sequence_number"] = json!(at);
        }
        event_stream(&events, "")
    })
    .await
}

async fn respond(gateway: &Gateway, provider: &Provider, body: &Value) -> reqwest::Response {
    let call = client().post(format!("{}/responses", gateway.base_url())).bearer_auth("sk-callers-own-0123");
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "openai");
    call.header("x-gateway-custom-host", provider.base_url()).json(body).send().await.unwrap()
}

fn request(stream: bool, approval: &str, input: &Value) -> Value {
    json!({"model": "m", "stream": stream, "input": input, "store": false,
        "tools": [{"type": "mcp", "server_label": "files", "require_approval": approval, "allowed_tools": ["echo"]}]})
}

fn kinds(response: &Value) -> Vec<&str> {
    response["output"].as_array().unwrap().iter().map(|item| item["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_response_has_the_items_of_its_calls() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Sessionless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = responses_model().await;
    let first = request(false, "never", &json!("Find it."));
    let answer: Value = respond(&gateway, &provider, &first).await.json().await.unwrap();
    assert_eq!(kinds(&answer), ["mcp_list_tools", "reasoning", "mcp_call", "message"], "{answer}");
    let call = &answer["output"][2];
    assert_eq!(
        (&call["name"], &call["server_label"], &call["status"]),
        (&json!("echo"), &json!("files"), &json!("completed"))
    );
    assert_eq!((&call["output"], &call["error"]), (&json!(r#"{"path":"a"}"#), &Value::Null));
    assert_eq!((&answer["tools"], &answer["usage"]["total_tokens"]), (&first["tools"], &json!(30)));
    let second = body(&provider.received()[1]);
    let items: Vec<&Value> = second["input"].as_array().unwrap().iter().map(|item| &item["type"]).collect();
    // The provider does not store the response, so it knows no reasoning without its content, and no ids.
    assert_eq!(items, ["message", "function_call", "function_call_output"]);
    assert_eq!(second["input"][1].get("id"), None);

    // The client's next turn has the items of this one.
    let mut input = answer["output"].as_array().unwrap().clone();
    input.retain(|item| item["type"] != "reasoning");
    input.push(json!({"role": "user", "content": "Again."}));
    let next = request(false, "never", &json!(input));
    let answer: Value = respond(&gateway, &provider, &next).await.json().await.unwrap();
    assert_eq!(kinds(&answer), ["message"], "its list is known, and the result is there: {answer}");
    let sent = body(&provider.received()[2])["input"].clone();
    let sent: Vec<&Value> = sent.as_array().unwrap().iter().map(|item| &item["type"]).collect();
    assert_eq!(
        sent,
        [&json!("function_call"), &json!("function_call_output"), &json!("message"), &Value::Null]
    );
}

#[tokio::test]
async fn a_streamed_response_has_the_events_of_its_calls() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = responses_model().await;
    let text =
        respond(&gateway, &provider, &request(true, "never", &json!("Find it."))).await.text().await.unwrap();
    let events = data(text.as_bytes());
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.mcp_list_tools.in_progress",
            "response.mcp_list_tools.completed",
            "response.output_item.done",
            "response.output_item.added",
            "response.output_item.done",
            "response.output_item.added",
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            "response.mcp_call.completed",
            "response.output_item.done",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed",
        ],
        "{text}"
    );
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], at, "{event}");
    }
    let places: Vec<u64> = events
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["output_index"].as_u64().unwrap())
        .collect();
    assert_eq!(places, [0, 1, 2, 3]);
    let response = &events.last().unwrap()["response"];
    let of = response["output"].as_array().unwrap();
    assert_eq!(
        (of.len(), &of[2]["output"], &response["usage"]["total_tokens"]),
        (4, &json!(r#"{"path":"a"}"#), &json!(30))
    );
    assert!(!text.contains("files__echo"), "{text}");
}

#[tokio::test]
async fn a_call_waits_for_approval() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = responses_model().await;
    let user = json!({"role": "user", "content": "Find it."});
    let answer: Value =
        respond(&gateway, &provider, &request(false, "always", &json!([user]))).await.json().await.unwrap();
    assert_eq!(kinds(&answer), ["mcp_list_tools", "reasoning", "mcp_approval_request"], "{answer}");
    let waiting = &answer["output"][2];
    assert_eq!((&waiting["name"], &waiting["arguments"]), (&json!("echo"), &json!(r#"{"path":"a"}"#)));
    assert!(server.received("tools/call").is_empty());

    let answer_to = |approve: bool| {
        let word = json!({"type": "mcp_approval_response", "approval_request_id": waiting["id"], "approve": approve});
        json!([user, answer["output"][0], waiting, word])
    };
    for stream in [false, true] {
        let response = respond(&gateway, &provider, &request(stream, "always", &answer_to(true))).await;
        let text = response.text().await.unwrap();
        let whole: Value = match stream {
            true => data(text.as_bytes()).last().unwrap()["response"].clone(),
            false => serde_json::from_str(&text).unwrap(),
        };
        assert_eq!(kinds(&whole), ["mcp_call", "message"], "{text}");
        assert_eq!(whole["output"][0]["output"], r#"{"path":"a"}"#);
    }
    assert_eq!(server.received("tools/call").len(), 2);
    let refused: Value = respond(&gateway, &provider, &request(false, "always", &answer_to(false)))
        .await
        .json()
        .await
        .unwrap();
    assert_eq!(kinds(&refused), ["message"], "{refused}");
    let sent = body(&provider.received().pop().unwrap())["input"].clone();
    assert_eq!(sent[2]["output"], "Error: The user has refused this call.");
    assert_eq!(server.received("tools/call").len(), 2);
    let unknown = json!([{"type": "mcp_approval_response", "approval_request_id": "mcpr_00aa11_2_c9", "approve": true}]);
    assert_eq!(respond(&gateway, &provider, &request(false, "always", &unknown)).await.status(), 400);
}

#[tokio::test]
async fn what_was_approved_is_called_once() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = responses_model().await;
    let mut input = vec![json!({"role": "user", "content": "Find it."})];
    let first: Value =
        respond(&gateway, &provider, &request(false, "always", &json!(input))).await.json().await.unwrap();
    let waiting = first["output"][2].clone();
    let word =
        json!({"type": "mcp_approval_response", "approval_request_id": waiting["id"], "approve": true});
    input.extend([waiting.clone(), word]);
    let second: Value =
        respond(&gateway, &provider, &request(false, "always", &json!(input))).await.json().await.unwrap();
    let items = second["output"].as_array().unwrap().clone();
    let call = items.iter().find(|item| item["type"] == "mcp_call").unwrap();
    assert_eq!(call["approval_request_id"], waiting["id"], "{second}");
    input.extend(items.into_iter().chain([json!({"role": "user", "content": "Again."})]));
    let third = respond(&gateway, &provider, &request(false, "always", &json!(input))).await;
    assert_eq!((third.status().as_u16(), server.received("tools/call").len()), (200, 1));
    let sent = body(&provider.received().pop().unwrap())["input"].clone();
    let of = |kind: &str| sent.as_array().unwrap().iter().filter(|item| item["type"] == kind).count();
    assert_eq!((of("function_call"), of("function_call_output")), (1, 1), "{sent}");
}

#[tokio::test]
async fn a_stream_of_rounds_has_one_id_from_which_the_next_goes_on() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = responses_model().await;
    let mut stored = request(true, "never", &json!("Find it."));
    stored["store"] = json!(true);
    let text = respond(&gateway, &provider, &stored).await.text().await.unwrap();
    let ids: Vec<Value> =
        data(text.as_bytes()).iter().filter_map(|event| event["response"].get("id").cloned()).collect();
    assert_eq!(ids, ["resp_0", "resp_0", "resp_0"], "{text}");
    let next = json!({"model": "m", "input": [{"role": "user", "content": "Again."}], "previous_response_id": "resp_0"});
    assert_eq!(respond(&gateway, &provider, &next).await.status(), 200);
    assert_eq!(body(&provider.received().pop().unwrap())["previous_response_id"], "resp_1");
    stored["max_tool_calls"] = json!(0);
    let text = respond(&gateway, &provider, &stored).await.text().await.unwrap();
    let numbers: Vec<u64> =
        data(text.as_bytes()).iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted() && text.contains("response.mcp_call.failed"), "{text}");
    assert_eq!(server.received("tools/call").len(), 1);
}

#[tokio::test]
async fn each_approval_is_for_the_call_of_its_item() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = responses_model().await;
    // Two requests, whose calls have one id for the model.
    let mut input = Vec::new();
    for text in ["one", "two"] {
        let user = json!([{"role": "user", "content": text}]);
        let answer: Value =
            respond(&gateway, &provider, &request(false, "always", &user)).await.json().await.unwrap();
        let mut waiting = answer["output"][2].clone();
        waiting["arguments"] = json!({ "path": text }).to_string().into();
        input.push(waiting);
    }
    assert_ne!(input[0]["id"], input[1]["id"]);
    input.push(
        json!({"type": "mcp_approval_response", "approval_request_id": input[1]["id"], "approve": true}),
    );
    // One of the provider's own.
    input.push(json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_682d498e3bd4819196a0ce16", "approve": true}));
    let answer: Value =
        respond(&gateway, &provider, &request(false, "always", &json!(input))).await.json().await.unwrap();
    assert_eq!(answer["output"][1]["arguments"], r#"{"path":"two"}"#, "{answer}");
    assert_eq!(body(&server.received("tools/call")[0])["params"]["arguments"]["path"], "two");
    let sent = body(&provider.received().pop().unwrap())["input"].clone();
    let sent = sent.as_array().unwrap();
    assert!(sent.iter().any(|item| item["type"] == "mcp_approval_response"), "{sent:?}");
    let output = |text: &str| {
        sent.iter().filter(|item| item["output"].as_str().is_some_and(|output| output.contains(text))).count()
    };
    assert_eq!((output("not approved"), output("two")), (1, 1), "{sent:?}");
}

#[tokio::test]
async fn results_that_no_round_was_sent_go_with_the_next_request() {
    let gateway = Gateway::start(SETTINGS);
    let server = McpFake::start(FakeEra::Stateless).await;
    save(&gateway, "files", &server.url(), &ALL()).await;
    let provider = Provider::start(|_| {
        let call = |id: &str, name: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": "{}"});
        json_response(&json!({"id": "resp_a", "object": "response", "status": "completed", "created_at": 1, "model": "m",
            "output": [call("c1", "files__echo"), call("c2", "mine")], "tools": []}))
    })
    .await;
    let mut first = request(false, "never", &json!("Both."));
    first["store"] = json!(true);
    let answer: Value = respond(&gateway, &provider, &first).await.json().await.unwrap();
    assert_eq!(kinds(&answer), ["mcp_list_tools", "mcp_call", "function_call"], "{answer}");
    let own = json!({"type": "function_call_output", "call_id": "c2", "output": "mine"});
    let next = json!({"model": "m", "input": [own], "previous_response_id": "resp_a"});
    assert_eq!(respond(&gateway, &provider, &next).await.status(), 200);
    let sent = body(&provider.received().pop().unwrap());
    let ids: Vec<&Value> = sent["input"].as_array().unwrap().iter().map(|item| &item["call_id"]).collect();
    assert_eq!((ids, &sent["previous_response_id"]), (vec![&json!("c1"), &json!("c2")], &json!("resp_a")));
}
