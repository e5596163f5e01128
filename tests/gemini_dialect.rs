//! Gemini's API for clients: Google's own bytes at Google, translated at every other dialect of the emulator.
//!
//! Not its SDK (`sdk`), nor single members (`api::gemini`), nor failures, which are those of all dialects (`failures`,
//! `broken_responses`).

use crate::support::client::client;
use crate::support::gateway::Gateway;
use crate::support::settings::KEY;
use crate::support::sse::events;
use crate::support::upstream::Upstream;
use crate::support::{gateway, settings};
use parking_lot::Mutex;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use std::sync::Arc;

/// A model of each dialect of the emulator.
const MODELS: [&str; 6] = [
    "@google-emulator/gemini-2.5-flash",
    "@emulator/gpt-4o-mini",
    "@anthropic-emulator/claude-sonnet-4-5",
    "@together-emulator/openai%2Fgpt-oss-120b",
    "@bedrock-emulator/anthropic.claude-sonnet-4-5-20250929-v1:0",
    "@cohere-emulator/command-a-03-2025",
];

fn post(gateway: &Gateway, path: &str) -> RequestBuilder {
    let root = gateway.base_url().trim_end_matches("/v1").to_owned();
    client().post(format!("{root}{path}")).bearer_auth(KEY)
}

fn get(gateway: &Gateway, path: &str) -> RequestBuilder {
    let root = gateway.base_url().trim_end_matches("/v1").to_owned();
    client().get(format!("{root}{path}")).bearer_auth(KEY)
}

fn hello() -> Value {
    json!({"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]})
}

async fn value(response: Response) -> Value {
    let status = response.status();
    let text = response.text().await.unwrap();
    assert_eq!(status, 200, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn text(response: &Value) -> String {
    let parts = response["candidates"][0]["content"]["parts"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

#[tokio::test]
async fn every_provider_answers_whole_streamed_and_as_a_list() {
    let gateway = gateway();
    for model in MODELS {
        let path = format!("/v1beta/models/{model}");
        let whole =
            value(post(&gateway, &format!("{path}:generateContent")).json(&hello()).send().await.unwrap())
                .await;
        assert_eq!(whole["candidates"][0]["finishReason"], "STOP", "{model}: {whole}");
        assert!(whole["usageMetadata"]["totalTokenCount"].as_u64().unwrap() > 0, "{model}: {whole}");
        let whole_text = text(&whole);
        assert!(!whole_text.is_empty(), "{model}: {whole}");

        let stream = post(&gateway, &format!("{path}:streamGenerateContent?alt=sse")).json(&hello());
        let stream = stream.send().await.unwrap();
        let media = stream.headers()["content-type"].to_str().unwrap().to_owned();
        assert!(media.starts_with("text/event-stream"), "{model}: {media}");
        let chunks: Vec<Value> = events(&stream.text().await.unwrap())
            .iter()
            .map(|event| {
                assert_eq!(event.name, "", "{model}");
                serde_json::from_str(&event.data).unwrap()
            })
            .collect();
        let (last, before) = chunks.split_last().unwrap();
        assert_eq!(chunks.iter().map(text).collect::<String>(), whole_text, "{model}");
        assert_eq!(last["candidates"][0]["finishReason"], "STOP", "{model}");
        assert!(before.iter().all(|chunk| chunk["candidates"][0].get("finishReason").is_none()), "{model}");

        let list = post(&gateway, &format!("{path}:streamGenerateContent")).json(&hello());
        let list = list.send().await.unwrap();
        assert_eq!(list.headers()["content-type"], "application/json; charset=UTF-8", "{model}");
        let list = value(list).await;
        let elements = list.as_array().unwrap();
        assert_eq!(elements.iter().map(text).collect::<String>(), whole_text, "{model}");
        assert_eq!(elements.len(), chunks.len(), "{model}: an element for each event");

        let count = post(&gateway, &format!("{path}:countTokens")).json(&hello()).send().await.unwrap();
        assert!(value(count).await["totalTokens"].as_u64().unwrap() > 2, "{model}");
    }
}

#[tokio::test]
async fn embeddings_and_models_have_geminis_shape() {
    let gateway = gateway();
    let content = |text: &str| json!({"parts": [{"text": text}]});
    for model in ["@google-emulator/gemini-embedding-001", "@emulator/text-embedding-3-small"] {
        let path = format!("/v1beta/models/{model}");
        let one =
            json!({"content": content("a"), "outputDimensionality": 4, "model": format!("models/{model}")});
        let embedding = post(&gateway, &format!("{path}:embedContent")).json(&one).send().await.unwrap();
        assert_eq!(value(embedding).await["embedding"]["values"].as_array().unwrap().len(), 4, "{model}");
        let batch = json!({"requests": [one, {"content": content("b"), "outputDimensionality": 4, "model": format!("models/{model}")}]});
        let batch = post(&gateway, &format!("{path}:batchEmbedContents")).json(&batch).send().await.unwrap();
        let batch = value(batch).await;
        assert_eq!(batch["embeddings"].as_array().unwrap().len(), 2, "{model}: {batch}");
    }
    for slug in ["@emulator", "@google-emulator", "@anthropic-emulator"] {
        for (path, member) in [("models?pageSize=50", "/models/0/name"), ("models/emulator", "/name")] {
            let call = get(&gateway, &format!("/v1beta/{path}")).header("x-gateway-provider", slug);
            let response = value(call.send().await.unwrap()).await;
            let name = response.pointer(member).unwrap().as_str().unwrap();
            assert!(name.starts_with("models/") && !name.contains('@'), "{slug}: {response}");
        }
    }
}

#[tokio::test]
async fn the_gateways_own_models_have_geminis_shape_and_names_that_work() {
    let gateway = gateway();
    let list = value(get(&gateway, "/v1beta/models").send().await.unwrap()).await;
    let names: Vec<&str> =
        list["models"].as_array().unwrap().iter().map(|model| model["name"].as_str().unwrap()).collect();
    for name in [
        "models/@emulator/emulator",
        "models/@google-emulator/emulator",
        "models/@anthropic-emulator/emulator",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
        let one = value(get(&gateway, &format!("/v1beta/{name}")).send().await.unwrap()).await;
        assert_eq!(one["name"], name);
        let answer = post(&gateway, &format!("/v1beta/{name}:generateContent")).json(&hello());
        assert!(!text(&value(answer.send().await.unwrap()).await).is_empty(), "{name}");
    }
    let missing = get(&gateway, "/v1beta/models/@emulator/nothing").send().await.unwrap();
    assert_eq!(missing.status(), 404);
    assert_eq!(missing.json::<Value>().await.unwrap()["error"]["status"], "NOT_FOUND");
}

#[tokio::test]
async fn errors_of_any_google_path_have_googles_shape() {
    let gateway = gateway();
    for path in
        ["/v1beta/files", "/v1beta/cachedContents/a", "/v1beta1/projects/p/locations/l/endpoints/e:predict"]
    {
        let response = get(&gateway, path).header("x-gateway-provider", "@nobody").send().await.unwrap();
        assert_eq!(response.status(), 400, "{path}");
        let body: Value = response.json().await.unwrap();
        assert_eq!(
            (&body["error"]["status"], &body["error"]["code"]),
            (&json!("INVALID_ARGUMENT"), &json!(400)),
            "{path}: {body}"
        );
        let root = gateway.base_url().trim_end_matches("/v1").to_owned();
        let response = client().get(format!("{root}{path}")).bearer_auth("sk-unknown").send().await.unwrap();
        assert_eq!(response.json::<Value>().await.unwrap()["error"]["status"], "UNAUTHENTICATED", "{path}");
    }
}

#[tokio::test]
async fn a_list_is_sent_element_by_element_and_a_broken_one_has_no_end() {
    let gateway = gateway();
    for model in ["@google-emulator/gemini-2.5-flash", "@anthropic-emulator/claude-sonnet-4-5"] {
        let call = post(&gateway, &format!("/v1beta/models/{model}:streamGenerateContent")).json(&hello());
        let mut response = call.header("x-emulator-script", "fault=cut&after=5").send().await.unwrap();
        assert_eq!(response.status(), 200, "{model}");
        let mut list = String::new();
        let broken = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => list.push_str(std::str::from_utf8(&chunk).unwrap()),
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        assert!(broken, "{model}: {list}");
        // With the bracket that is missing it is a list: some text, and the error.
        let elements: Vec<Value> = serde_json::from_str(&format!("{list}]")).unwrap();
        let (last, before) = elements.split_last().unwrap();
        assert!(before.iter().map(text).collect::<String>().len() > 4, "{model}: {list}");
        assert!(last["error"]["code"].is_u64(), "{model}: {list}");
    }
    let call = post(&gateway, "/v1beta/models/@google-emulator/gemini-2.5-flash:streamGenerateContent");
    let refused = call.header("x-emulator-script", "status=429").json(&hello()).send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.json::<Value>().await.unwrap()["error"]["status"], "RESOURCE_EXHAUSTED");
}

/// Gemini CLI (with @google/genai 1.30) retries for an error that arrives alone and without `data:`, as Google sends it, and for no
/// other; readers of events get it as an event.
#[tokio::test]
async fn a_broken_stream_ends_with_the_error_alone_and_as_an_event() {
    let gateway = gateway();
    for model in ["@google-emulator/gemini-2.5-flash", "@anthropic-emulator/claude-sonnet-4-5"] {
        let call =
            post(&gateway, &format!("/v1beta/models/{model}:streamGenerateContent?alt=sse")).json(&hello());
        let mut response = call.header("x-emulator-script", "fault=cut&after=5").send().await.unwrap();
        let mut chunks = Vec::new();
        while let Ok(chunk) = response.chunk().await {
            let chunk = chunk.unwrap_or_else(|| panic!("{model}: the body has an end"));
            chunks.push(String::from_utf8(chunk.to_vec()).unwrap());
        }
        let [.., bare, last] = chunks.as_slice() else { panic!("{model}: {chunks:?}") };
        let bare: Value = serde_json::from_str(bare).unwrap_or_else(|error| panic!("{error}: {chunks:?}"));
        assert_eq!(bare["error"]["code"], 502, "{model}: {bare}");
        let event = events(&chunks.concat()).pop().unwrap_or_else(|| panic!("{model}: {chunks:?}"));
        assert_eq!(serde_json::from_str::<Value>(&event.data).unwrap(), bare, "{model}: {last}");
        let message = bare["error"]["message"].as_str().unwrap();
        assert!(message.ends_with("Retry your request."), "{model}: {message}");
    }
}

/// Sends a request to a provider of ours; returns the first line and the body of what it got, and the response.
async fn forwarded(path: &str, config: &Value, body: &str, sent: &str) -> (String, String, String) {
    let request = Arc::new(Mutex::new(String::new()));
    let observed = Arc::clone(&request);
    let sent = sent.to_owned();
    let upstream = Upstream::start(move |mut connection| {
        let observed = Arc::clone(&observed);
        let sent = sent.clone();
        async move {
            while let Some(request) = connection.request().await {
                *observed.lock() = request;
                if sent.starts_with("data") {
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length:";
                    connection.write(&format!("{head} {}\r\n\r\n{sent}", sent.len())).await;
                } else {
                    connection.send_json(&sent).await;
                }
            }
        }
    })
    .await;
    let mut config = config.clone();
    config["provider"] = "google".into();
    config["api_key"] = "AIza-callers-own".into();
    config["custom_host"] = format!("http://127.0.0.1:{}", upstream.port).into();
    let call = post(&gateway(), path).header("x-gateway-config", config.to_string());
    let response =
        call.header("content-type", "application/json").body(body.to_owned()).send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let got = response.text().await.unwrap();
    let request = request.lock().clone();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("AIza-callers-own") && !head.contains(KEY), "{head}");
    (head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned(), body.to_owned(), got)
}

#[tokio::test]
async fn at_google_the_bytes_are_the_clients_and_the_providers() {
    let plain = json!({});
    let body = r#"{ "contents":[{"parts":[{"text":"a","unheardOf":1.0}]}], "futureMember" : {"x":[1.50]} }"#;
    let response = r#"{"candidates":[{"content":{"parts":[{"text":"b","thoughtSignature":"c2lnbg=="}],"role":"model"},"finishReason":"STOP","futureMember":1.50}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4,"totalTokenCount":7}}"#;
    let stream = format!("data: {response}\r\n\r\n");
    for (path, sent, line) in [
        ("/v1beta/models/m:generateContent", response, "POST /v1beta/models/m:generateContent"),
        ("/v1/models/m:generateContent?key=x", response, "POST /v1beta/models/m:generateContent"),
        (
            "/v1beta1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse",
            stream.as_str(),
            "POST /v1beta/models/m:streamGenerateContent?alt=sse",
        ),
        ("/v1beta/models/m:countTokens", r#"{"totalTokens":3,"x":1.0}"#, "POST /v1beta/models/m:countTokens"),
    ] {
        let (first, forwarded, got) = forwarded(path, &plain, body, sent).await;
        assert_eq!(first, line);
        assert_eq!(forwarded, body, "{path}");
        assert_eq!(got, sent, "{path}");
    }
    // A list is made of the events that Google sends, with their bytes.
    let (first, _, got) = forwarded("/v1beta/models/m:streamGenerateContent", &plain, body, &stream).await;
    assert_eq!(first, "POST /v1beta/models/m:streamGenerateContent?alt=sse");
    assert_eq!(got, format!("[{response}\n]"));
    // What a config overrides goes to its place.
    let config = json!({"override_params": {"model": "other", "temperature": 0.5}});
    let (first, forwarded, _) = forwarded("/v1beta/models/m:generateContent", &config, body, response).await;
    assert_eq!(first, "POST /v1beta/models/other:generateContent");
    assert!(
        forwarded.starts_with(r#"{ "contents":[{"parts":[{"text":"a","unheardOf":1.0}]}]"#),
        "{forwarded}"
    );
    assert!(forwarded.contains(r#""generationConfig":{"temperature":0.5}"#), "{forwarded}");
}

#[tokio::test]
async fn usage_of_what_passes_is_in_the_access_line() {
    let gateway = gateway();
    for (method, operation) in [
        ("generateContent", "generate_content"),
        ("streamGenerateContent?alt=sse", "stream_generate_content"),
        ("streamGenerateContent", "list_generate_content"),
    ] {
        let trace = crate::support::client::new_trace();
        let path = format!("/v1beta/models/@google-emulator/gemini-2.5-flash:{method}");
        let call = post(&gateway, &path).header("x-gateway-trace-id", &trace).json(&hello());
        call.send().await.unwrap().bytes().await.unwrap();
        let line = gateway.access_line(&trace).await;
        assert_eq!(line["operation"], operation, "{line}");
        assert_eq!(line["model"], "gemini-2.5-flash", "{line}");
        assert!(line["tokens"]["output"].as_u64().unwrap_or_default() > 0, "{line}");
    }
}

#[tokio::test]
async fn a_broken_stream_goes_on_at_another_provider() {
    let gateway = gateway();
    for (first, second) in [
        ("@google-emulator", "@anthropic-emulator"),
        ("@anthropic-emulator", "@google-emulator"),
        ("@emulator", "@bedrock-emulator"),
    ] {
        let target = |slug: &str, script: &str| {
            let model = match slug {
                "@google-emulator" => "gemini-2.0-flash",
                "@emulator" => "gpt-4o-mini",
                _ => "claude-3-5-haiku-20241022",
            };
            json!({"provider": slug, "override_params": {"model": format!("{model}?{script}")}})
        };
        let config = json!({"strategy": {"mode": "fallback"}, "stream_rescue": "resume",
            "targets": [target(first, "fault=cut&after=4&tokens=40"), target(second, "tokens=40")]});
        let call = post(&gateway, "/v1beta/models/asked-for:streamGenerateContent?alt=sse").json(&hello());
        let response = call.header("x-gateway-config", config.to_string()).send().await.unwrap();
        let stream = response.text().await.unwrap();
        let chunks: Vec<Value> =
            events(&stream).iter().map(|event| serde_json::from_str(&event.data).unwrap()).collect();
        let whole_text: String = chunks.iter().map(text).collect();
        assert_eq!(whole_text, crate::faults::case::sample_text(40), "{first} {second}: {stream}");
        assert_eq!(chunks.last().unwrap()["candidates"][0]["finishReason"], "STOP", "{stream}");
    }
}

#[tokio::test]
async fn errors_have_googles_shape_wherever_they_come_from() {
    let gateway = Gateway::start(settings::STANDARD);
    let root = gateway.base_url().trim_end_matches("/v1").to_owned();
    let no_key = client().post(format!("{root}/v1beta/models/m:generateContent")).json(&hello());
    let unreadable = post(&gateway, "/v1beta/models/@emulator/m:generateContent").body("{");
    let of_provider = |slug: &str| {
        post(&gateway, &format!("/v1beta/models/{slug}/m%3Fstatus=429:generateContent")).json(&hello())
    };
    for (call, status, word) in [
        (no_key, 401, "UNAUTHENTICATED"),
        (unreadable, 400, "INVALID_ARGUMENT"),
        (post(&gateway, "/v1beta/models/@nobody/m:generateContent").json(&hello()), 400, "INVALID_ARGUMENT"),
        (
            post(&gateway, "/v1beta/models/@emulator/m:generateContent").json(&json!({})),
            400,
            "INVALID_ARGUMENT",
        ),
        (of_provider("@emulator"), 429, "RESOURCE_EXHAUSTED"),
        (of_provider("@anthropic-emulator"), 429, "RESOURCE_EXHAUSTED"),
        (of_provider("@google-emulator"), 429, "RESOURCE_EXHAUSTED"),
    ] {
        let response = call.send().await.unwrap();
        assert_eq!(response.status(), status);
        let body: Value = response.json().await.unwrap();
        assert_eq!(
            (&body["error"]["code"], &body["error"]["status"]),
            (&json!(status), &json!(word)),
            "{body}"
        );
        assert!(!body["error"]["message"].as_str().unwrap().is_empty(), "{body}");
    }
}
