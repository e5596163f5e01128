//! The rules of `docs/request-rules.md` for requests on the unified routes, against the running gateway: a 400 that
//! names the `param`.
//!
//! Not every rule (unit tests have them): one of each kind per operation, that they are checked before a
//! provider gets the request, and what must not be validated.

use crate::support::client::{client, new_trace};
use crate::support::gateway;
use crate::support::settings::KEY;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

const USER: &str = r#"[{"role":"user","content":"a"}]"#;

/// Path, body (`USER` stands for a valid list of messages), and the invalid field.
const REFUSED: &[(&str, &str, &str)] = &[
    ("chat/completions", r#"{"messages":USER}"#, "model"),
    ("chat/completions", r#"{"model":"m"}"#, "messages"),
    ("chat/completions", r#"{"model":"m","messages":null}"#, "messages"),
    ("chat/completions", r#"{"model":"m","messages":[]}"#, "messages"),
    ("chat/completions", r#"{"model":"m","messages":"a"}"#, "messages"),
    ("chat/completions", r#"{"model":"m","messages":[{"content":"a"}]}"#, "messages[0].role"),
    ("chat/completions", r#"{"model":"m","messages":[{"role":"robot"}]}"#, "messages[0].role"),
    ("chat/completions", r#"{"model":1,"messages":USER}"#, "model"),
    ("chat/completions", r#"{"model":"m","messages":USER,"temperature":2.1}"#, "temperature"),
    ("chat/completions", r#"{"model":"m","messages":USER,"top_p":-0.1}"#, "top_p"),
    ("chat/completions", r#"{"model":"m","messages":USER,"n":0}"#, "n"),
    ("chat/completions", r#"{"model":"m","messages":USER,"n":129}"#, "n"),
    ("chat/completions", r#"{"model":"m","messages":USER,"n":1.5}"#, "n"),
    ("chat/completions", r#"{"model":"m","messages":USER,"presence_penalty":3}"#, "presence_penalty"),
    ("chat/completions", r#"{"model":"m","messages":USER,"frequency_penalty":-2.5}"#, "frequency_penalty"),
    ("chat/completions", r#"{"model":"m","messages":USER,"logit_bias":{"50256":101}}"#, "logit_bias.50256"),
    ("chat/completions", r#"{"model":"m","messages":USER,"stop":["a","b","c","d","e"]}"#, "stop"),
    (
        "chat/completions",
        r#"{"model":"m","messages":USER,"logprobs":true,"top_logprobs":21}"#,
        "top_logprobs",
    ),
    ("chat/completions", r#"{"model":"m","messages":USER,"top_logprobs":2}"#, "top_logprobs"),
    ("chat/completions", r#"{"model":"m","messages":USER,"stream":"yes"}"#, "stream"),
    ("chat/completions", r#"{"model":"m","messages":USER,"stream_options":{}}"#, "stream_options"),
    ("chat/completions", r#"{"model":"m","messages":USER,"functions":[]}"#, "functions"),
    ("chat/completions", r#"{"model":"m","messages":USER,"tools":["search"]}"#, "tools[0]"),
    (
        "chat/completions",
        r#"{"model":"m","messages":USER,"tools":[{"type":"crystal_ball"}]}"#,
        "tools[0].type",
    ),
    ("chat/completions", r#"{"model":"m","messages":USER,"tool_choice":"sometimes"}"#, "tool_choice"),
    ("chat/completions", r#"{"model":"m","messages":USER,"function_call":"sometimes"}"#, "function_call"),
    ("chat/completions", r#"{"model":"m","messages":USER,"stop":["a",5]}"#, "stop[1]"),
    (
        "chat/completions",
        r#"{"model":"m","messages":USER,"parallel_tool_calls":"no"}"#,
        "parallel_tool_calls",
    ),
    ("completions", r#"{"model":"m","prompt":["a",1]}"#, "prompt[1]"),
    ("responses", r#"{"model":"m","input":"a","truncation":"always"}"#, "truncation"),
    ("responses", r#"{"model":"m","input":"a","tools":[{"type":"crystal_ball"}]}"#, "tools[0].type"),
    (
        "batches",
        r#"{"input_file_id":"f","completion_window":"immediate","endpoint":"/v1/embeddings"}"#,
        "completion_window",
    ),
    ("completions", r#"{"model":"m"}"#, "prompt"),
    ("completions", r#"{"model":"m","prompt":"a","logprobs":6}"#, "logprobs"),
    ("completions", r#"{"model":"m","prompt":"a","best_of":21}"#, "best_of"),
    ("embeddings", r#"{"input":"a"}"#, "model"),
    ("embeddings", r#"{"model":"m"}"#, "input"),
    ("responses", r#"{"input":"a"}"#, "model"),
    ("responses", r#"{"model":"m","input":"a","temperature":3}"#, "temperature"),
    ("images/generations", r#"{"model":"m"}"#, "prompt"),
    ("audio/speech", r#"{"model":"m","input":"a"}"#, "voice"),
    ("moderations", r#"{"model":"m"}"#, "input"),
    ("rerank", r#"{"model":"m","query":"a"}"#, "documents"),
    ("batches", r#"{"completion_window":"24h","endpoint":"/v1/embeddings"}"#, "input_file_id"),
    (
        "batches",
        r#"{"input_file_id":"f","completion_window":"1h","endpoint":"/v1/embeddings"}"#,
        "completion_window",
    ),
    ("batches", r#"{"input_file_id":"f","completion_window":"24h","endpoint":"/v1/files"}"#, "endpoint"),
    ("fine_tuning/jobs", r#"{"model":"m","suffix":"s","method":{}}"#, "training_file"),
    (
        "fine_tuning/jobs",
        r#"{"model":"m","training_file":"f","suffix":"s","method":{},"integrations":[{},{},{},{},{},{}]}"#,
        "integrations",
    ),
];

/// Queries of GET requests and the invalid parameter.
const REFUSED_QUERIES: &[(&str, &str)] = &[
    ("batches?limit=0", "limit"),
    ("batches?limit=101", "limit"),
    ("batches?limit=ten", "limit"),
    ("fine_tuning/jobs/ftjob-1/checkpoints?limit=0", "limit"),
    ("responses/resp_1?include=everything", "include"),
    ("responses/resp_1?include[]=message.input_image.image_url&include[]=all", "include"),
];

/// Requests that must pass: fields without a rule, and nulls.
const PASSES: &[(&str, &str)] = &[
    ("chat/completions", r#"{"model":"m","messages":USER,"no_such_field":{"a":[1]},"top_k":40,"min_p":0.1}"#),
    (
        "chat/completions",
        r#"{"model":"m","messages":USER,"tools":[{"type":"web_search_2030","x":1},{"type":"function","function":{"name":"f"}}]}"#,
    ),
    ("chat/completions", r#"{"model":"m","messages":USER,"tool_choice":"any","reasoning_effort":"ultra"}"#),
    (
        "chat/completions",
        r#"{"model":"m","messages":USER,"temperature":null,"n":null,"stop":null,"tools":null}"#,
    ),
    (
        "chat/completions",
        r#"{"model":"m","messages":[{"role":"user","content":[{"type":"hologram","x":1}]}]}"#,
    ),
    (
        "chat/completions",
        r#"{"model":"m","messages":USER,"temperature":2,"top_p":1,"n":128,"stop":["a","b","c","d"]}"#,
    ),
    ("responses", r#"{"model":"m","input":[{"type":"unheard_of"}],"tools":[{"type":"computer_use_2030"}]}"#),
    ("embeddings", r#"{"model":"m","input":"a","task":"search"}"#),
];

async fn post(path: &str, body: &str, tag: &str) -> (StatusCode, Value) {
    let gateway = gateway();
    let call = client().post(format!("{}/{path}", gateway.base_url())).header("x-gateway-api-key", KEY);
    let call = call.header("x-gateway-provider", "@emulator").header("x-emulator-tag", tag);
    let call = call.header("content-type", "application/json").body(body.replace("USER", USER));
    let response = call.send().await.unwrap();
    (response.status(), response.json().await.unwrap_or_default())
}

#[tokio::test]
async fn a_broken_rule_names_its_param_and_is_not_forwarded() {
    let tag = new_trace();
    for (path, body, param) in REFUSED {
        let (status, response) = post(path, body, &tag).await;
        assert_eq!(status, 400, "{path} {body}: {response}");
        assert_eq!(response["error"]["param"], *param, "{path} {body}: {response}");
        assert_eq!(response["error"]["type"], "invalid_request_error", "{path} {body}");
        let message = response["error"]["message"].as_str().unwrap();
        assert!(message.len() > 20, "{path} {body}: {message}");
    }
    let messages = r#"{"model":"m","messages":USER}"#;
    let (status, response) = post("messages", messages, &tag).await;
    assert_eq!(
        (status.as_u16(), &response["type"], &response["error"]["type"]),
        (400, &"error".into(), &"invalid_request_error".into())
    );
    assert!(response["error"]["message"].as_str().unwrap().contains("max_tokens"), "{response}");
    // The valid request shows that the tag works: no earlier one reached the provider.
    let (status, _) = post("embeddings", r#"{"model":"m","input":"a"}"#, &tag).await;
    assert_eq!(status, 200);
    assert_eq!(gateway().emulator_requests(&tag).await.len(), 1);
}

#[tokio::test]
async fn an_invalid_query_names_its_param() {
    let gateway = gateway();
    for (path, param) in REFUSED_QUERIES {
        let call = client().get(format!("{}/{path}", gateway.base_url())).header("x-gateway-api-key", KEY);
        let response = call.header("x-gateway-provider", "@emulator").send().await.unwrap();
        assert_eq!(response.status(), 400, "{path}");
        let response: Value = response.json().await.unwrap();
        assert_eq!(response["error"]["param"], *param, "{path}: {response}");
    }
}

#[tokio::test]
async fn unlisted_fields_pass() {
    for (path, body) in PASSES {
        let tag = new_trace();
        let (status, response) = post(path, body, &tag).await;
        assert_eq!(status, 200, "{path} {body}: {response}");
        let got = gateway().emulator_requests(&tag).await;
        assert_eq!(got[0]["body"], body.replace("USER", USER), "{path}");
    }
}

#[tokio::test]
async fn the_proxy_route_validates_nothing() {
    for (path, body, _) in REFUSED {
        let tag = new_trace();
        post(&format!("proxy/{path}"), body, &tag).await;
        let got = gateway().emulator_requests(&tag).await;
        assert_eq!(got.len(), 1, "{path} {body}");
        assert_eq!(got[0]["body"], body.replace("USER", USER), "{path}");
    }
    for (path, _) in REFUSED_QUERIES {
        let gateway = gateway();
        let url = format!("{}/proxy/{path}", gateway.base_url());
        let call = client().request(Method::GET, url).header("x-gateway-api-key", KEY);
        let response = call.header("x-gateway-provider", "@emulator").send().await.unwrap();
        assert!(
            response.headers().contains_key("x-gateway-last-used-option-index"),
            "{path}: {}",
            response.status()
        );
    }
}

#[tokio::test]
async fn fields_set_by_the_config_are_not_required_in_the_body() {
    let gateway = gateway();
    for (config, body) in [
        (r#"{"provider":"@emulator","override_params":{"model":"set"}}"#, r#"{"messages":USER}"#),
        (
            r#"{"provider":"@emulator","override_params":{"temperature":0.5}}"#,
            r#"{"model":"m","messages":USER,"temperature":9}"#,
        ),
    ] {
        let call = client()
            .post(format!("{}/chat/completions", gateway.base_url()))
            .header("x-gateway-api-key", KEY);
        let call = call.header("x-gateway-config", config).header("content-type", "application/json");
        let response = call.body(body.replace("USER", USER)).send().await.unwrap();
        assert_eq!(response.status(), 200, "{config} {body}: {}", response.text().await.unwrap());
    }
}

#[tokio::test]
async fn functions_are_served_by_vendors_that_have_only_tools() {
    let gateway = gateway();
    let send = async |provider: &str, messages: &Value, streamed: bool| {
        let call = client()
            .post(format!("{}/chat/completions", gateway.base_url()))
            .header("x-gateway-api-key", KEY);
        let function = json!({"name": "look_up", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}});
        let body = json!({"model": "m", "functions": [function], "messages": messages, "stream": streamed});
        let response = call.header("x-gateway-provider", provider).json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200, "{provider}");
        response.text().await.unwrap()
    };
    for provider in ["@anthropic-emulator", "@google-emulator", "@bedrock-emulator", "@cohere-emulator"] {
        let mut messages = json!([{"role": "user", "content": "Call the tool look_up."}]);
        let whole: Value = serde_json::from_str(&send(provider, &messages, false).await).unwrap();
        let choice = &whole["choices"][0];
        assert_eq!(choice["finish_reason"], "function_call", "{provider} {whole}");
        assert_eq!(choice["message"]["function_call"]["name"], "look_up", "{provider} {whole}");
        let streamed = send(provider, &messages, true).await;
        assert!(streamed.contains(r#""function_call":{"name":"look_up""#), "{provider} {streamed}");
        assert!(streamed.contains(r#""finish_reason":"function_call""#), "{provider} {streamed}");
        let turn = messages.as_array_mut().unwrap();
        turn.push(choice["message"].clone());
        turn.push(json!({"role": "function", "name": "look_up", "content": "42"}));
        let last: Value = serde_json::from_str(&send(provider, &messages, false).await).unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], "stop", "{provider} {last}");
    }
}
