//! What each attempt used and cost: reported or counted, for every way an attempt can end, compared with the provider's bill.
//!
//! Not how usage is read (`api::usage`), and not the prices themselves (`price`).

use crate::limited_requests::USAGE;
use crate::support::client::{chat, client, hello, new_trace};
use crate::support::provider::Provider;
use crate::support::settings::{KEY, STANDARD};
use crate::support::sse::events;
use crate::support::{Gateway, gateway};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A chat with a script for the emulator.
fn scripted(gateway: &Gateway, trace: &str, body: &Value, script: &str) -> reqwest::RequestBuilder {
    chat(gateway, trace, body).header("x-emulator-script", script)
}

/// The same for another provider.
fn scripted_at(
    gateway: &Gateway,
    provider: &str,
    trace: &str,
    body: &Value,
    script: &str,
) -> reqwest::RequestBuilder {
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", provider);
    call.header("x-gateway-trace-id", trace).json(body).header("x-emulator-script", script)
}

/// What the emulator charged for the requests with this tag, in order: input and output tokens.
async fn charged(gateway: &Gateway, tag: &str) -> Vec<(u64, u64)> {
    let entries = gateway.emulator_requests(tag).await;
    let tokens = |entry: &Value, name: &str| entry["charged"][name].as_u64().unwrap_or_default();
    entries.iter().map(|entry| (tokens(entry, "input_tokens"), tokens(entry, "output_tokens"))).collect()
}

fn tokens(line: &Value) -> (u64, u64) {
    let count = |name: &str| line["tokens"][name].as_u64().unwrap_or_else(|| panic!("no tokens: {line}"));
    (count("input"), count("output"))
}

/// gpt-4o-mini: 0.15 and 0.60 dollars per million.
fn dollars((input, output): (u64, u64)) -> f64 {
    (input * 150 + output * 600) as f64 / 1e9
}

fn assert_cost(line: &Value, used: (u64, u64)) {
    let cost = line["cost_usd"].as_f64().unwrap_or_else(|| panic!("no cost: {line}"));
    assert!((cost - dollars(used)).abs() < 1e-12, "{cost} for {used:?}: {line}");
    assert_eq!(line["cost_status"], "priced", "{line}");
}

#[tokio::test]
async fn a_stream_is_charged_as_the_provider_does_and_hides_what_only_the_gateway_requested() {
    let gateway = gateway();
    for (provider, script) in
        [("@emulator", "tokens=20"), ("@together-emulator", "tokens=20"), ("@emulator", "tokens=20&chunk=7")]
    {
        let trace = new_trace();
        let tag = new_trace();
        let call = scripted_at(&gateway, provider, &trace, &hello(true), &format!("{script}&tag={tag}"));
        let text = call.send().await.unwrap().text().await.unwrap();
        let events = events(&text);
        assert_eq!(events.last().unwrap().data, "[DONE]", "{text}");
        for event in events.iter().filter(|event| event.data != "[DONE]") {
            let chunk: Value = serde_json::from_str(&event.data).unwrap();
            assert!(chunk["usage"].is_null(), "{provider} {chunk}");
            assert_eq!(chunk["choices"].as_array().map(Vec::len), Some(1), "{provider} {chunk}");
        }
        let line = gateway.access_line(&trace).await;
        assert_eq!(vec![tokens(&line)], charged(&gateway, &tag).await, "{line}");
        assert_eq!(tokens(&line).1, 20);
        assert!(line.get("tokens_estimated").is_none(), "{line}");
        if provider == "@emulator" {
            assert_cost(&line, tokens(&line));
        }
        let sent: Value =
            serde_json::from_str(gateway.emulator_requests(&tag).await[0]["body"].as_str().unwrap()).unwrap();
        assert_eq!(sent["stream_options"], json!({"include_usage": true}));
    }
}

#[tokio::test]
async fn a_client_that_requests_usage_gets_it() {
    let gateway = gateway();
    let trace = new_trace();
    let mut body = hello(true);
    body["stream_options"] = json!({"include_usage": true});
    let text = scripted(&gateway, &trace, &body, "tokens=5").send().await.unwrap().text().await.unwrap();
    let last: Vec<Value> =
        events(&text).iter().filter_map(|event| serde_json::from_str(&event.data).ok()).collect();
    let usage = &last.last().unwrap()["usage"];
    assert_eq!(usage["completion_tokens"], 5, "{text}");
    assert_eq!(tokens(&gateway.access_line(&trace).await).1, 5);
}

#[tokio::test]
async fn filtered_and_resumed_streams_hide_it_too() {
    let gateway = gateway();
    let trace = new_trace();
    let tag = new_trace();
    let config = json!({
        "strategy": {"mode": "fallback"},
        "stream_rescue": "resume",
        "targets": [{"provider": "@emulator"}, {"provider": "@emulator"}]
    });
    let script = format!("tokens=30&fault=cut&after=12&times=1&key={tag}&tag={tag}");
    let call =
        scripted(&gateway, &trace, &hello(true), &script).header("x-gateway-config", config.to_string());
    let text = call.send().await.unwrap().text().await.unwrap();
    assert!(text.trim_end().ends_with("[DONE]"), "{text}");
    let with_usage = |event: &&crate::support::sse::Event| event.data.contains("\"choices\":[]");
    assert_eq!(events(&text).iter().filter(with_usage).count(), 0, "{text}");
    let line = gateway.access_line(&trace).await;
    let bill = charged(&gateway, &tag).await;
    assert_eq!(bill.len(), 2, "{line}");
    // Each attempt is charged its own part: the first is counted, the second reported.
    assert_eq!(tokens(&line), bill[1], "{line}");
    let whole = line["cost_usd"].as_f64().unwrap();
    let own = line["attempts"][1]["cost_usd"].as_f64().unwrap();
    assert!((own - dollars(bill[1])).abs() < 1e-12, "{line}");
    let first = line["attempts"][0]["cost_usd"].as_f64().unwrap();
    assert!(first > 0.0 && (whole - own - first).abs() < 1e-12, "{line}");
}

/// A config may have a target stream where the client requests none: its report is requested all the same.
#[tokio::test]
async fn a_stream_that_a_config_puts_in_is_charged_by_its_report() {
    let gateway = gateway();
    let (trace, tag) = (new_trace(), new_trace());
    let config = json!({"provider": "@emulator", "override_params": {"stream": true}});
    let call = client().post(format!("{}/chat/completions", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-config", config.to_string());
    let call = call.header("x-gateway-trace-id", &trace).json(&hello(false));
    let call = call.header("x-emulator-script", format!("tokens=20&tag={tag}"));
    let text = call.send().await.unwrap().text().await.unwrap();
    let (line, bill) = (gateway.access_line(&trace).await, charged(&gateway, &tag).await);
    assert_eq!(tokens(&line), bill[0], "{line} {text}");
    assert!(line.get("tokens_estimated").is_none(), "{line}");
}

#[tokio::test]
async fn a_client_that_leaves_is_charged_for_what_was_delivered() {
    let gateway = gateway();
    let trace = new_trace();
    let tag = new_trace();
    let call = scripted(&gateway, &trace, &hello(true), &format!("tokens=100&gap=20&tag={tag}"));
    let mut response = call.send().await.unwrap();
    let mut text = String::new();
    while events(&text).len() < 31 {
        text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
    }
    let left = Instant::now();
    drop(response);
    let bill = charged(&gateway, &tag).await;
    assert!(left.elapsed() < Duration::from_secs(1), "the provider went on for {:?}", left.elapsed());
    let line = gateway.access_line(&trace).await;
    let (input, output) = tokens(&line);
    assert_eq!(line["tokens_estimated"], true, "{line}");
    assert!(input > 0 && (28..=100).contains(&output), "{line}");
    assert!(bill[0].1 < 60, "{bill:?}");
    assert_cost(&line, (input, output));
}

#[tokio::test]
async fn a_stream_cut_by_the_provider_is_charged_up_to_there() {
    let gateway = gateway();
    for provider in ["@emulator", "@anthropic-emulator"] {
        let trace = new_trace();
        let tag = new_trace();
        let script = format!("tokens=100&fault=cut&after=43&tag={tag}");
        let call = scripted_at(&gateway, provider, &trace, &hello(true), &script);
        let _broken = call.send().await.unwrap().text().await;
        let line = gateway.access_line(&trace).await;
        let ((input, output), bill) = (tokens(&line), charged(&gateway, &tag).await[0]);
        assert_eq!(line["tokens_estimated"], true, "{line}");
        // The emulator's words are about a token each.
        assert!(output.abs_diff(bill.1) <= bill.1 / 3 + 2 && input > 0, "{bill:?} {line}");
        if provider == "@anthropic-emulator" {
            // Its first event reports the input.
            assert_eq!(input, bill.0, "{line}");
        }
    }
}

#[tokio::test]
async fn without_usage_the_text_is_counted() {
    let gateway = gateway();
    for stream in [false, true] {
        let trace = new_trace();
        let call = scripted(&gateway, &trace, &hello(stream), "tokens=200&usage=none");
        let text = call.send().await.unwrap().text().await.unwrap();
        let line = gateway.access_line(&trace).await;
        let (input, output) = tokens(&line);
        assert_eq!(line["tokens_estimated"], true, "{line}");
        assert!((5..=30).contains(&input) && (150..=300).contains(&output), "{line} {text}");
        assert_cost(&line, (input, output));
    }
}

#[tokio::test]
async fn an_explicit_zero_stays_zero() {
    let gateway = gateway();
    for stream in [false, true] {
        let trace = new_trace();
        let call = scripted(&gateway, &trace, &hello(stream), "tokens=9&usage=zero");
        assert_eq!(call.send().await.unwrap().text().await.map(|text| text.is_empty()).ok(), Some(false));
        let line = gateway.access_line(&trace).await;
        assert_eq!(tokens(&line), (0, 0), "{line}");
        assert!(line.get("tokens_estimated").is_none(), "{line}");
        assert_eq!((&line["cost_usd"], &line["cost_status"]), (&json!(0), &json!("priced")), "{line}");
    }
}

#[tokio::test]
async fn a_failed_attempt_with_usage_is_charged_apart() {
    let gateway = gateway();
    let trace = new_trace();
    let tag = new_trace();
    let config = json!({
        "strategy": {"mode": "fallback"},
        "targets": [{"provider": "@emulator"}, {"provider": "@emulator"}]
    });
    let script = format!("tokens=9&status=500&usage=errors&times=1&key={tag}&tag={tag}");
    let call =
        scripted(&gateway, &trace, &hello(false), &script).header("x-gateway-config", config.to_string());
    assert_eq!(call.send().await.unwrap().status(), 200);
    let line = gateway.access_line(&trace).await;
    let bill = charged(&gateway, &tag).await;
    assert_eq!((bill.len(), tokens(&line)), (2, bill[1]), "{line}");
    let cost = |index: usize| line["attempts"][index]["cost_usd"].as_f64().unwrap();
    assert!((cost(0) - dollars(bill[0])).abs() < 1e-12 && cost(0) > 0.0, "{line}");
    assert!((line["cost_usd"].as_f64().unwrap() - cost(0) - cost(1)).abs() < 1e-12, "{line}");
    // Without usage a failure costs nothing.
    let trace = new_trace();
    let call = scripted(&gateway, &trace, &hello(false), "status=500");
    assert_eq!(call.send().await.unwrap().status(), 500);
    let line = gateway.access_line(&trace).await;
    assert!(line.get("cost_usd").is_none() && line.get("cost_status").is_none(), "{line}");
}

#[tokio::test]
async fn the_loser_of_a_race_is_charged_for_what_it_sent() {
    let gateway = gateway();
    let trace = new_trace();
    let tag = new_trace();
    // The first attempt is held until it is complete, and has sent some of it when the second one is faster.
    let config = json!({
        "strategy": {"mode": "fallback"},
        "hedge": {"after_ms": 300, "max_extra_ratio": 1.0},
        "stream_rescue": "buffer",
        "targets": [{"provider": "@emulator"}, {"provider": "@emulator"}]
    });
    let script = format!("tokens=60&gap=20&times=1&key={tag}&tag={tag}");
    let call =
        scripted(&gateway, &trace, &hello(true), &script).header("x-gateway-config", config.to_string());
    let response = call.send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.text().await.unwrap();
    let line = gateway.access_line(&trace).await;
    let attempts = line["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2, "{line}");
    let lost = attempts.iter().find(|attempt| attempt["error"] == "outrun").unwrap();
    let bill = charged(&gateway, &tag).await;
    let cost = lost["cost_usd"].as_f64().unwrap_or_else(|| panic!("{line}"));
    assert!(cost > dollars((1, 1)) && cost <= dollars((40, bill[0].1 * 2 + 4)), "{bill:?} {line}");
}

#[tokio::test]
async fn a_model_without_a_price_has_no_cost_and_a_header() {
    let gateway = gateway();
    for stream in [false, true] {
        let trace = new_trace();
        let mut body = hello(stream);
        body["model"] = json!("no-price-1");
        let response = chat(&gateway, &trace, &body).send().await.unwrap();
        assert_eq!(response.headers()["x-gateway-cost-status"], "unknown");
        response.text().await.unwrap();
        let line = gateway.access_line(&trace).await;
        assert!(line.get("cost_usd").is_none(), "{line}");
        assert_eq!(line["cost_status"], "unknown", "{line}");
    }
    let response = chat(&gateway, &new_trace(), &hello(false)).send().await.unwrap();
    assert!(!response.headers().contains_key("x-gateway-cost-status"));
    // A list of models is no call of one.
    let call = client().get(format!("{}/files", gateway.base_url())).header("x-gateway-api-key", KEY);
    let response = call.header("x-gateway-provider", "@emulator").send().await.unwrap();
    assert!(!response.headers().contains_key("x-gateway-cost-status"));
    assert!(gateway.metric("turnpike_unpriced_attempts_total{provider=\"openai\"}").await.unwrap() >= 2.0);
    assert!(gateway.metric("turnpike_cost_dollars_total{provider=\"openai\"}").await.unwrap() > 0.0);
    let input = "turnpike_tokens_total{kind=\"input\",provider=\"openai\"}";
    assert!(gateway.metric(input).await.unwrap() > 0.0);
}

#[tokio::test]
async fn settings_leave_streams_alone_or_read_them_to_their_end() {
    let yaml = format!(
        "{}usage: {{stream_usage: false, tokenizer: false, on_disconnect: drain}}\n",
        crate::support::settings::STANDARD
    );
    let gateway = Gateway::start(&yaml);
    let trace = new_trace();
    let tag = new_trace();
    let call = scripted(&gateway, &trace, &hello(true), &format!("tokens=40&gap=10&tag={tag}"));
    let mut response = call.send().await.unwrap();
    response.chunk().await.unwrap().unwrap();
    drop(response);
    let line = gateway.access_line(&trace).await;
    let entry = &gateway.emulator_requests(&tag).await[0];
    let sent: Value = serde_json::from_str(entry["body"].as_str().unwrap()).unwrap();
    assert!(sent.get("stream_options").is_none(), "{sent}");
    // It was read until nothing of it was missing but its end marker.
    assert_eq!(entry["charged"]["output_tokens"], 40, "{entry}");
    assert_eq!(line["tokens_estimated"], true, "{line}");
    assert!(tokens(&line).1.abs_diff(40) <= 20, "{line}");
    // A limit that counts requests needs no usage, one that counts tokens does.
    for (of, wanted) in [("requests", json!(null)), ("tokens", json!({"include_usage": true}))] {
        let policy = json!({"conditions": [{"key": "model", "value": "*"}], "group_by": [{"key": "model"}],
            "type": of, "credit_limit": 1_000_000, "name": of});
        gateway.create(USAGE, &policy).await;
        let tag = new_trace();
        let call = scripted(&gateway, &new_trace(), &hello(true), &format!("tokens=4&tag={tag}"));
        let text = call.send().await.unwrap().text().await.unwrap();
        assert!(!text.contains("\"choices\":[]"), "{text}");
        let entry = &gateway.emulator_requests(&tag).await[0];
        let sent: Value = serde_json::from_str(entry["body"].as_str().unwrap()).unwrap();
        assert_eq!(sent["stream_options"], wanted, "{of}");
    }
}

/// A provider that responds with one body, as JSON or as events.
async fn provider_of(body: String) -> Provider {
    let kind = if body.starts_with('{') { "application/json" } else { "text/event-stream" };
    Provider::start(move |_| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
            .into_bytes()
    })
    .await
}

/// A gateway whose operator pays for this provider: what goes to a client's own host with the client's own key costs nothing.
fn gateway_with(provider: &Provider) -> Gateway {
    let stored =
        format!("  up: {{provider: openai, api_key: sk-own, custom_host: '{}'}}\n", provider.base_url());
    Gateway::start(&STANDARD.replace("providers:\n", &format!("providers:\n{stored}")))
}

/// A request to its provider.
fn at(gateway: &Gateway, method: Method, path: &str, trace: &str) -> reqwest::RequestBuilder {
    let call = client().request(method, format!("{}/{path}", gateway.base_url()));
    let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", "@up");
    call.header("x-gateway-trace-id", trace)
}

#[tokio::test]
async fn searches_of_the_responses_api_are_charged_by_the_piece() {
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}});
    let page = json!({"id": "ws_2", "type": "web_search_call", "status": "completed", "action": {"type": "open_page", "url": "u"}});
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Found.", "annotations": []}]});
    let response = |tool_usage: Value| {
        json!({"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "gpt-4o-mini",
            "output": [search, page, search, message], "tool_usage": tool_usage,
            "usage": {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 100,
                "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 1100}})
    };
    let counted = response(json!({"web_search": {"num_requests": 3}}));
    let events = |response: &Value| {
        let done =
            |item: &Value| json!({"type": "response.output_item.done", "output_index": 0, "item": item});
        let all = [
            json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}}),
            done(&search),
            done(&page),
            done(&search),
            done(&message),
            json!({"type": "response.completed", "response": response}),
        ];
        all.iter()
            .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
            .collect::<String>()
    };
    let shown = response(Value::Null);
    // 10 dollars per thousand searches.
    for (body, stream, searches) in [
        (shown.to_string(), false, 2_u64),
        (counted.to_string(), false, 3),
        (events(&shown), true, 2),
        (events(&counted), true, 3),
    ] {
        let provider = provider_of(body).await;
        let gateway = gateway_with(&provider);
        let trace = new_trace();
        let body = json!({"model": "gpt-4o-mini", "input": "Search.", "stream": stream, "tools": [{"type": "web_search"}]});
        let call = at(&gateway, Method::POST, "responses", &trace).json(&body);
        call.send().await.unwrap().text().await.unwrap();
        let line = gateway.access_line(&trace).await;
        assert_eq!((tokens(&line), &line["web_searches"]), ((1000, 100), &json!(searches)), "{line}");
        let cost = line["cost_usd"].as_f64().unwrap();
        let wanted = dollars((1000, 100)) + searches as f64 * 0.01;
        assert!((cost - wanted).abs() < 1e-12, "{cost} {wanted} {line}");
    }
}

#[tokio::test]
async fn what_reads_is_not_charged_and_what_makes_a_batch_has_an_unknown_cost() {
    let usage = json!({"id": "x", "object": "batch", "model": "gpt-4o-mini",
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}});
    let provider = provider_of(usage.to_string()).await;
    let gateway = gateway_with(&provider);
    for (method, path, wanted) in [
        (Method::POST, "proxy/some/other/api", Some("priced")),
        // A chat that the provider has stored.
        (Method::GET, "chat/completions/chatcmpl-1", None),
        (Method::GET, "batches/batch_1", None),
        (Method::POST, "batches/batch_1/cancel", None),
        (Method::GET, "proxy/batches/batch_1", None),
        (Method::POST, "proxy/messages/batches/batch_1/cancel", None),
        // What it reports is what all its requests have used so far.
        (Method::POST, "proxy/messages/batches", Some("unknown")),
    ] {
        let trace = new_trace();
        let call = at(&gateway, method.clone(), path, &trace);
        let call = if method == Method::POST { call.json(&json!({"model": "gpt-4o-mini"})) } else { call };
        assert_eq!(call.send().await.unwrap().status(), 200, "{path}");
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["cost_status"].as_str(), wanted, "{method} {path} {line}");
    }
}

#[tokio::test]
async fn input_tokens_of_a_response_are_counted_by_the_provider_or_here() {
    let gateway = gateway();
    for (provider, is_estimated) in [("@emulator", false), ("@anthropic-emulator", true)] {
        let trace = new_trace();
        let call = client().post(format!("{}/responses/input_tokens", gateway.base_url()));
        let call = call.header("x-gateway-api-key", KEY).header("x-gateway-provider", provider);
        let body = json!({"model": "gpt-4o-mini", "input": "How many tokens are in this sentence?"});
        let response = call.header("x-gateway-trace-id", &trace).json(&body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        let warns = response
            .headers()
            .get("x-gateway-warnings")
            .is_some_and(|text| text.to_str().unwrap().contains("estimated"));
        assert_eq!(warns, is_estimated, "{provider}");
        let count: Value = response.json().await.unwrap();
        assert_eq!(count["object"], "response.input_tokens");
        let tokens = count["input_tokens"].as_u64().unwrap();
        assert!((5..=25).contains(&tokens), "{provider} {count}");
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["operation"], "responses_input_tokens");
        assert!(line.get("cost_status").is_none(), "{line}");
    }
    let call = client()
        .post(format!("{}/responses/input_tokens", gateway.base_url()))
        .header("x-gateway-api-key", KEY);
    let response = call
        .header("x-gateway-provider", "@emulator")
        .json(&json!({"input": "No model."}))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 200, "the published schema requires nothing");
}

#[tokio::test]
async fn all_costs_together_are_the_providers_bill() {
    let gateway = Gateway::start(crate::support::settings::STANDARD);
    let calls = (0..40).map(|number| {
        let script =
            ["tokens=5", "tokens=50", "status=429&times=1", "tokens=7&usage=errors&status=503&times=2"];
        let trace = new_trace();
        let script = format!("{}&key={trace}", script[number % 4]);
        let call = scripted(&gateway, &trace, &hello(number % 3 == 0), &script);
        let call = call.header(
            "x-gateway-config",
            r#"{"provider":"@emulator","retry":{"attempts":3,"on_status_codes":[429,503]}}"#,
        );
        async move {
            call.send().await.unwrap().text().await.unwrap();
            trace
        }
    });
    let mut sum = 0.0;
    for trace in futures_util::future::join_all(calls).await {
        let line = gateway.access_line(&trace).await;
        sum += line["cost_usd"].as_f64().unwrap_or_default();
    }
    let url = format!("{}/_emulator/bill", gateway.emulator_url());
    let bill: Value = client().get(url).send().await.unwrap().json().await.unwrap();
    let tokens = |name: &str| bill[name].as_u64().unwrap();
    let wanted = dollars((tokens("input_tokens"), tokens("output_tokens")));
    assert!((sum - wanted).abs() < 1e-9, "{sum} {wanted} {bill}");
    let total = gateway.metric("turnpike_cost_dollars_total{provider=\"openai\"}").await.unwrap();
    assert!((total - wanted).abs() < 1e-9, "{total} {wanted}");
}
