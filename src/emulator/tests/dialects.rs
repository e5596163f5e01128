//! Whole responses and errors of each dialect.

use super::client::{Server, events};
use base64::Engine;
use serde_json::json;

fn hello() -> serde_json::Value {
    json!([{"role": "user", "content": "Hello there"}])
}

#[tokio::test]
async fn chat_completions_have_openais_shape() {
    let server = Server::start().await;
    let response = server
        .post_ok("/v1/chat/completions", json!({"model": "emulator?tokens=12", "messages": hello(), "n": 2}))
        .await;
    assert_eq!(response["object"], "chat.completion");
    assert_eq!(response["model"], "emulator");
    assert_eq!(response["choices"].as_array().unwrap().len(), 2);
    let choice = &response["choices"][1];
    assert_eq!(choice["message"]["content"], "The quick brown fox jumps over the lazy dog. The quick");
    assert_eq!((&choice["finish_reason"], &choice["index"]), (&json!("stop"), &json!(1)));
    assert_eq!(response["usage"]["completion_tokens"], 24);
    assert_eq!(response["usage"]["prompt_tokens"], 5);

    let body = json!({"model": "emulator", "messages": hello(), "max_completion_tokens": 3});
    let response = server.post_ok("/openai/deployments/x/chat/completions", body).await;
    assert_eq!(response["choices"][0]["finish_reason"], "length");
    let body = json!({"model": "emulator", "messages": hello(), "stop": [" fox"]});
    let response = server.post_ok("/chat/completions", body).await;
    assert_eq!(response["choices"][0]["message"]["content"], "The quick brown");
    let body = json!({"model": "emulator-echo", "messages": hello()});
    let response = server.post_ok("/v1/chat/completions", body).await;
    assert_eq!(response["choices"][0]["message"]["content"], "Hello there");
}

#[tokio::test]
async fn chat_calls_tools_and_speaks_json() {
    let server = Server::start().await;
    let schema =
        json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}});
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": schema}}]);
    let mut body =
        json!({"model": "emulator", "messages": hello(), "tools": tools, "tool_choice": "required"});
    let response = server.post_ok("/v1/chat/completions", body.clone()).await;
    let choice = &response["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], json!(null));
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "weather");
    assert_eq!(call["function"]["arguments"], r#"{"city":"quick brown","days":1}"#);

    body["messages"] = json!([{"role": "user", "content": "x"}, {"role": "tool", "content": "sunny"}]);
    let response = server.post_ok("/v1/chat/completions", body).await;
    assert_eq!(response["choices"][0]["finish_reason"], "stop");

    let format = json!({"type": "json_schema", "json_schema": {"name": "w", "schema": schema}});
    let body = json!({"model": "emulator", "messages": hello(), "response_format": format});
    let response = server.post_ok("/v1/chat/completions", body).await;
    assert_eq!(response["choices"][0]["message"]["content"], r#"{"city":"quick brown","days":1}"#);
}

#[tokio::test]
async fn anthropic_messages_have_anthropics_shape() {
    let server = Server::start().await;
    let response = server
        .post_ok("/v1/messages", json!({"model": "emulator", "max_tokens": 4, "messages": hello(), "thinking": {"type": "enabled", "budget_tokens": 1024}}))
        .await;
    assert_eq!(response["content"][0]["type"], "thinking");
    assert_eq!(response["content"][1]["text"], "The quick brown fox");
    assert_eq!(response["stop_reason"], "max_tokens");
    let tools = json!([{"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]);
    let body = json!({"model": "emulator", "max_tokens": 99, "messages": hello(), "tools": tools, "tool_choice": {"type": "any"}});
    let response = server.post_ok("/v1/messages", body).await;
    assert_eq!(response["stop_reason"], "tool_use");
    assert_eq!(response["content"][0]["input"], json!({"city": "quick brown"}));
    let body = json!({"model": "emulator", "messages": hello(), "system": "be brief"});
    assert_eq!(server.post_ok("/v1/messages/count_tokens", body).await, json!({"input_tokens": 7}));
}

fn tool_prompt() -> &'static str {
    "Please call the tool."
}

fn city() -> serde_json::Value {
    json!({"type": "object", "properties": {"city": {"type": "string"}}})
}

#[tokio::test]
async fn gemini_has_googles_shape() {
    let server = Server::start().await;
    let path = "/v1beta/models/gemini-2.5-flash%3Ftokens=4:generateContent";
    let hello = json!([{"role": "user", "parts": [{"text": "Hello there"}]}]);
    let response = server.post_ok(path, json!({"contents": hello})).await;
    let candidate = &response["candidates"][0];
    assert_eq!(candidate["content"]["parts"][0]["text"], "The quick brown fox");
    assert_eq!(
        (&candidate["finishReason"], &response["modelVersion"]),
        (&json!("STOP"), &json!("gemini-2.5-flash"))
    );
    assert_eq!(response["usageMetadata"]["candidatesTokenCount"], 4);

    let wish = json!([{"role": "user", "parts": [{"text": tool_prompt()}]}]);
    let schema = json!({"type": "OBJECT", "properties": {"city": {"type": "STRING"}}});
    let tools = json!([{"functionDeclarations": [{"name": "weather", "parameters": schema}]}]);
    let mut body = json!({"contents": wish, "tools": tools});
    let path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse";
    let (_, text) = server.post(path, body.clone()).await;
    let events_of_stream = events(&text);
    let call = &events_of_stream[0]["candidates"][0]["content"]["parts"][0]["functionCall"];
    assert_eq!(call, &json!({"name": "weather", "args": {"city": "quick brown"}}));
    assert_eq!(events_of_stream.last().unwrap()["candidates"][0]["finishReason"], "STOP");

    // Without `alt=sse` the same responses are items of one list.
    let (status, text) =
        server.post("/v1beta/models/gemini-2.5-flash:streamGenerateContent", body.clone()).await;
    let list: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    assert_eq!((status, list.len()), (200, events_of_stream.len()));
    assert_eq!(list.last().unwrap()["candidates"][0]["finishReason"], "STOP");

    // Thoughts are shown on request; the first call is signed.
    let mut thinking = body.clone();
    thinking["generationConfig"] = json!({"thinkingConfig": {"includeThoughts": true}});
    let (_, text) = server.post(path, thinking.clone()).await;
    let whole = server.post_ok("/v1beta/models/gemini-2.5-flash:generateContent", thinking).await;
    let parts = |response: &serde_json::Value| response["candidates"][0]["content"]["parts"].clone();
    let streamed = events(&text);
    assert_eq!(parts(&whole), json!([parts(&streamed[0])[0], parts(&streamed[1])[0]]));
    assert!(parts(&whole)[0]["thought"] == true && parts(&whole)[1]["thoughtSignature"].is_string());
    assert!(whole["usageMetadata"]["thoughtsTokenCount"].as_u64().unwrap() > 0);

    let contents = body["contents"].as_array_mut().unwrap();
    contents
        .push(json!({"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {}}}]}));
    let (_, text) = server.post(path, body).await;
    assert_eq!(events(&text).len(), 49, "text after a tool result, and the end");
    let (status, text) =
        server.post("/v1beta/models/m%3Fstatus=429:generateContent", json!({"contents": hello})).await;
    assert_eq!(status, 429);
    assert!(text.contains("RESOURCE_EXHAUSTED"), "{text}");
}

#[tokio::test]
async fn bedrock_converse_has_amazons_shape() {
    let server = Server::start().await;
    let hello = json!([{"role": "user", "content": [{"text": "Hello there"}]}]);
    let body = json!({"messages": hello, "inferenceConfig": {"maxTokens": 4}});
    let response = server.post_ok("/model/amazon.nova-lite-v1%3A0/converse", body).await;
    assert_eq!(response["output"]["message"]["content"][0]["text"], "The quick brown fox");
    assert_eq!(
        (&response["stopReason"], &response["usage"]["outputTokens"]),
        (&json!("max_tokens"), &json!(4))
    );

    let tools = json!([{"toolSpec": {"name": "weather", "inputSchema": {"json": city()}}}]);
    let wish = json!([{"role": "user", "content": [{"text": tool_prompt()}]}]);
    let body = json!({"messages": wish, "toolConfig": {"tools": tools}});
    let response = server.post_ok("/model/m/converse", body.clone()).await;
    assert_eq!(
        response["output"]["message"]["content"][0]["toolUse"]["input"],
        json!({"city": "quick brown"})
    );
    let response = server.http.post(server.url("/model/m/converse-stream")).json(&body).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/vnd.amazon.eventstream");
    let mut bytes = response.bytes().await.unwrap();
    let mut kinds = Vec::new();
    let mut input = String::new();
    while !bytes.is_empty() {
        let frame = aws_smithy_eventstream::frame::read_message_from(&mut bytes).unwrap();
        let kind = frame.headers().iter().find(|header| header.name().as_str() == ":event-type").unwrap();
        kinds.push(kind.value().as_string().unwrap().as_str().to_owned());
        let payload: serde_json::Value = serde_json::from_slice(frame.payload()).unwrap();
        input += payload.pointer("/delta/toolUse/input").and_then(|chunk| chunk.as_str()).unwrap_or_default();
    }
    assert_eq!(input, r#"{"city":"quick brown"}"#);
    kinds.dedup();
    let blocks = ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop"];
    assert_eq!(kinds, [&blocks[..], &["messageStop", "metadata"]].concat());

    let body = json!({"messages": hello});
    let refused =
        server.http.post(server.url("/model/m%3Fstatus=429/converse")).json(&body).send().await.unwrap();
    assert_eq!(refused.headers()["x-amzn-errortype"], "ThrottlingException");
    let failing = server.url("/model/m%3Ffault=error_event&after=1/converse-stream");
    let failing = server.http.post(failing).json(&body).send().await.unwrap().bytes().await.unwrap();
    assert!(failing.windows(23).any(|window| window == b"internalServerException"));
}

#[tokio::test]
async fn cohere_chat_has_coheres_shape() {
    let server = Server::start().await;
    let body = json!({"model": "command-a", "messages": hello(), "max_tokens": 4});
    let response = server.post_ok("/v2/chat", body).await;
    assert_eq!(response["message"]["content"][0]["text"], "The quick brown fox");
    assert_eq!(
        (&response["finish_reason"], &response["usage"]["tokens"]["output_tokens"]),
        (&json!("MAX_TOKENS"), &json!(4))
    );

    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": city()}}]);
    let wish = json!([{"role": "user", "content": tool_prompt()}]);
    let mut body = json!({"model": "command-a", "messages": wish, "tools": tools});
    let response = server.post_ok("/v2/chat", body.clone()).await;
    assert_eq!(response["finish_reason"], "TOOL_CALL");
    assert_eq!(response["message"]["tool_calls"][0]["function"]["arguments"], r#"{"city":"quick brown"}"#);
    body["stream"] = true.into();
    let (_, text) = server.post("/v2/chat", body).await;
    let events_of_stream = events(&text);
    let deltas = events_of_stream
        .iter()
        .filter_map(|event| event.pointer("/delta/message/tool_calls/function/arguments")?.as_str());
    assert_eq!(deltas.collect::<String>(), r#"{"city":"quick brown"}"#);
    assert_eq!(events_of_stream.last().unwrap()["delta"]["finish_reason"], "TOOL_CALL");

    let (status, text) = server.post("/v2/chat", json!({"model": "missing-x", "messages": hello()})).await;
    assert_eq!(status, 404);
    assert!(text.starts_with(r#"{"message":"model 'missing-x'"#), "{text}");
}

#[tokio::test]
async fn completions_embeddings_and_models_respond() {
    let server = Server::start().await;
    let body = json!({"model": "emulator", "prompt": ["One", "Two"], "echo": true, "max_tokens": 2});
    let response = server.post_ok("/v1/completions", body).await;
    assert_eq!(response["choices"][1]["text"], "TwoThe quick");
    assert_eq!(response["choices"][1]["finish_reason"], "length");

    let body = json!({"model": "emulator", "input": ["a fox", "a dog"], "dimensions": 8});
    let response = server.post_ok("/v1/embeddings", body.clone()).await;
    let floats: Vec<f32> = serde_json::from_value(response["data"][1]["embedding"].clone()).unwrap();
    assert_eq!(floats.len(), 8);
    let mut body = body;
    body["encoding_format"] = "base64".into();
    let response = server.post_ok("/v1/embeddings", body).await;
    let bytes = response["data"][1]["embedding"].as_str().unwrap();
    let bytes = base64::engine::general_purpose::STANDARD.decode(bytes).unwrap();
    let expected: Vec<u8> = floats.iter().flat_map(|float| float.to_le_bytes()).collect();
    assert_eq!(bytes, expected);

    assert_eq!(server.fetch("/v1/models").await["data"][0]["id"], "emulator");
    assert_eq!(server.fetch("/v1/models/meta%2Fllama").await["id"], "meta/llama");
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "a table")]
async fn what_a_provider_refuses_is_refused_in_its_dialect() {
    let server = Server::start().await;
    for (path, body, status, pointer, expected) in [
        ("/v1/chat/completions", json!({"messages": hello()}), 400, "/error/param", "model"),
        ("/v1/chat/completions", json!({"model": "m"}), 400, "/error/param", "messages"),
        (
            "/v1/chat/completions",
            json!({"model": "m", "messages": []}),
            400,
            "/error/type",
            "invalid_request_error",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "m", "messages": hello(), "n": 0}),
            400,
            "/error/param",
            "n",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "missing-x", "messages": hello()}),
            404,
            "/error/code",
            "model_not_found",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "m?speed=1", "messages": hello()}),
            400,
            "/error/message",
            "emulator script: no key `speed`",
        ),
        (
            "/v1/chat/completions",
            json!({"model": "m?status=429", "messages": hello()}),
            429,
            "/error/code",
            "rate_limit_exceeded",
        ),
        ("/v1/completions", json!({"model": "m"}), 400, "/error/param", "prompt"),
        (
            "/v1/embeddings",
            json!({"model": "m", "input": "x", "encoding_format": "y"}),
            400,
            "/error/param",
            "encoding_format",
        ),
        ("/v1/responses", json!({"model": "m"}), 400, "/error/param", "input"),
        (
            "/v1/messages",
            json!({"model": "m", "messages": hello()}),
            400,
            "/error/type",
            "invalid_request_error",
        ),
        (
            "/v1/messages",
            json!({"model": "missing-x", "max_tokens": 1, "messages": hello()}),
            404,
            "/error/type",
            "not_found_error",
        ),
        (
            "/v1/messages",
            json!({"model": "m?status=529", "max_tokens": 1, "messages": hello()}),
            529,
            "/error/type",
            "overloaded_error",
        ),
    ] {
        let (got, text) = server.post(path, body.clone()).await;
        let response: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(got, status, "{body} {text}");
        assert_eq!(response.pointer(pointer).unwrap(), expected, "{body} {text}");
    }
}

#[tokio::test]
async fn small_dialects_have_their_shapes() {
    let server = Server::start().await;
    let body = json!({"model": "m", "query": "quick fox", "documents": ["slow cat", "a quick fox", "a fox"], "top_n": 2});
    let response = server.post_ok("/v1/rerank", body).await;
    assert_eq!(response["results"][0], json!({"index": 1, "relevance_score": 1.0}));
    assert_eq!(response["results"].as_array().unwrap().len(), 2);
    let response = server.post_ok("/v1/moderations", json!({"input": ["hello", "kill"]})).await;
    assert_eq!(response["results"][0]["flagged"], false);
    assert_eq!(response["results"][1]["categories"]["violence"], true);
    let response = server.post_ok("/v1/images/generations", json!({"prompt": "a fox", "n": 2})).await;
    assert_eq!(response["data"].as_array().unwrap().len(), 2);
    let body = json!({"model": "m", "input": "hello", "voice": "alloy"});
    let speech = server.http.post(server.url("/v1/audio/speech")).json(&body).send().await.unwrap();
    assert_eq!(speech.headers()["content-type"], "audio/mpeg");
    assert_eq!(speech.bytes().await.unwrap().len(), 1510);
}

#[tokio::test]
async fn unknown_paths_echo_the_request() {
    let server = Server::start().await;
    let request = server.http.put(server.url("/v2/any/thing?a=1&b")).header("X-Fox", "brown").body("hi");
    let response: serde_json::Value = request.send().await.unwrap().json().await.unwrap();
    assert_eq!(response["method"], "PUT");
    assert_eq!((&response["path"], &response["query"]), (&json!("/v2/any/thing"), &json!("a=1&b")));
    assert_eq!((&response["body_bytes"], &response["body_text"]), (&json!(2), &json!("hi")));
    assert!(response["headers"].as_array().unwrap().contains(&json!(["x-fox", "brown"])));
    let sse = server.http.get(server.url("/any?sse=3")).send().await.unwrap().text().await.unwrap();
    assert_eq!(sse, "data: {\"n\":0}\n\ndata: {\"n\":1}\n\ndata: {\"n\":2}\n\n");
}
