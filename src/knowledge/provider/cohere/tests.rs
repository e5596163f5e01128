//! Endpoints other than chat, errors, and recorded responses.
//!
//! Chat requests and streams are tested by `tests/golden/cohere/`.

use super::*;
use crate::provider::adapter::JsonAdapter;
use http::Method;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::chat::{ChatResponse, Event, Finish, ProviderError};
use words::api::tap::Tap;

fn body(json: &Value) -> Body {
    Body::parse(json.to_string().into()).unwrap()
}

/// The body sent upstream for a client's body, and the warnings.
fn sent(exchange: &dyn JsonAdapter, json: &Value) -> Result<(Value, Vec<String>), Error> {
    let body = body(json);
    let method = Method::POST;
    let account = Account::default();
    let model = body.text("model").unwrap_or_default();
    let call = Call {
        operation: Operation::Embeddings,
        method: &method,
        path: "",
        query: None,
        model: Some(&model),
        streamed: false,
    };
    let mut notes = TranslationNotes::default();
    let target = CallTarget { call: &call, account: &account, model: &model, client_betas: None };
    let bytes = exchange.write(Some(&body), &target, &mut notes)?.unwrap();
    Ok((serde_json::from_slice(&bytes).unwrap(), notes.warnings))
}

fn got(exchange: &dyn JsonAdapter, request: &Value, response: &str) -> Value {
    let bytes = exchange.read(response.as_bytes(), Some(&body(request)), "m").unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Decodes a response in chunks of `size` bytes: the response, its error, and whether it reached its end.
fn read(bytes: &[u8], streamed: bool, size: usize) -> (ChatResponse, Option<ProviderError>, bool) {
    let mut response = ChatResponse::default();
    let mut error = None;
    let mut ended = false;
    let mut sink = |event: Event<'_>| {
        match &event {
            Event::Error(provider_error) => error = Some((*provider_error).clone()),
            Event::End => ended = true,
            _ => {}
        }
        response.apply(&event);
    };
    let mut decoder = CohereChat.decoder(streamed);
    bytes.chunks(size.max(1)).for_each(|chunk| decoder.push(chunk, &mut sink));
    decoder.finish(&mut sink);
    (response, error, ended)
}

#[test]
fn embeddings_requests_are_translated() {
    let request = json!({"model": "embed-v4.0", "input": ["a", "b"], "dimensions": 256, "user": "u",
        "encoding_format": "base64", "truncate": "NONE"});
    let (sent_body, warnings) = sent(&embed::Embed, &request).unwrap();
    assert_eq!(
        sent_body,
        json!({"model": "embed-v4.0", "texts": ["a", "b"], "truncate": "NONE", "input_type": "search_document",
            "output_dimension": 256, "embedding_types": ["float"]})
    );
    assert!(warnings.iter().any(|each| each.starts_with("input_type: ")), "{warnings:?}");
    assert!(warnings.iter().any(|each| each.starts_with("user: ")), "{warnings:?}");

    let request = json!({"model": "m", "input": "a", "input_type": "search_query"});
    let (sent_body, warnings) = sent(&embed::Embed, &request).unwrap();
    assert_eq!((&sent_body["texts"], &sent_body["input_type"]), (&json!(["a"]), &json!("search_query")));
    assert!(warnings.is_empty(), "{warnings:?}");

    let request = json!({"model": "m", "input_type": "image", "input": [{"text": "t", "image": {"base64": "QQ=="}},
        "plain", {"image_url": {"url": "https://h/p.png"}}]});
    assert_eq!(
        sent(&embed::Embed, &request).unwrap().0["inputs"],
        json!([
            {"content": [{"type": "text", "text": "t"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}]},
            {"content": [{"type": "text", "text": "plain"}]},
            {"content": [{"type": "image_url", "image_url": {"url": "https://h/p.png"}}]}
        ])
    );
    for (wrong, param) in [
        (json!({"model": "m"}), "input"),
        (json!({"model": "m", "input": [1, 2]}), "input"),
        (json!({"model": "m", "input": [[1], [2]]}), "input"),
        (json!({"model": "m", "input": 7}), "input"),
        (json!({"model": "m", "input": [{"x": 1}]}), "input"),
        (json!({"model": "m", "input": "a", "encoding_format": "hex"}), "encoding_format"),
    ] {
        let error = sent(&embed::Embed, &wrong).unwrap_err();
        assert_eq!((error.status(), error.param.as_deref()), (400, Some(param)), "{wrong}");
    }
}

#[test]
fn embeddings_responses_have_openais_shape() {
    let response = r#"{"id":"1","embeddings":{"float":[[0.10,-2.5],[1e-3,0]],"int8":[[1,2],[3,4]]},
        "texts":["a","b"],"meta":{"billed_units":{"input_tokens":7,"image_tokens":2}}}"#;
    let out = got(&embed::Embed, &json!({"input": ["a", "b"]}), response);
    assert_eq!(
        out,
        json!({"object": "list", "model": "m", "provider": "cohere",
            "data": [{"object": "embedding", "index": 0, "embedding": [0.10, -2.5]},
                {"object": "embedding", "index": 1, "embedding": [1e-3, 0]}],
            "usage": {"prompt_tokens": 9, "total_tokens": 9}})
    );
    // Verified with numpy: 0.1 and -2.5 as 32-bit little-endian floats.
    let out = got(&embed::Embed, &json!({"encoding_format": "base64"}), response);
    assert_eq!(out["data"][0]["embedding"], "zczMPQAAIMA=");
    // Another embedding type, and the shape of v1.
    let out = got(&embed::Embed, &json!({}), r#"{"embeddings":{"float":null,"uint8":[[7]]}}"#);
    assert_eq!(out["data"][0]["embedding"], json!([7]));
    let out = got(&embed::Embed, &json!({}), r#"{"embeddings":[[0.5]]}"#);
    assert_eq!(out["data"][0]["embedding"], json!([0.5]));
    assert_eq!(embed::Embed.read(b"<html>", None, "m").unwrap_err().status, 502);
}

#[test]
fn rerank_returns_documents_on_request() {
    let request = json!({"model": "rerank-v3.5", "query": "q", "top_n": 1, "return_documents": true,
        "documents": ["a", {"text": "b"}, {"title": "c"}], "rank_fields": ["title"]});
    let (sent_body, warnings) = sent(&rerank::Rerank, &request).unwrap();
    assert_eq!(
        sent_body,
        json!({"model": "rerank-v3.5", "query": "q", "top_n": 1, "documents": ["a", "b", "{\"title\":\"c\"}"]})
    );
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let response = r#"{"id":"7","results":[{"index":1,"relevance_score":0.990},{"index":9,"relevance_score":0.1}],
        "meta":{"billed_units":{"search_units":1}}}"#;
    assert_eq!(
        got(&rerank::Rerank, &request, response),
        json!({"object": "list", "id": "7", "model": "m", "provider": "cohere",
            "results": [{"index": 1, "relevance_score": 0.990, "document": {"text": "b"}},
                {"index": 9, "relevance_score": 0.1}],
            "usage": {"search_units": 1}, "meta": {"billed_units": {"search_units": 1}}})
    );
    let out = got(&rerank::Rerank, &json!({"documents": ["a", "b"]}), response);
    assert_eq!(out["results"][0].get("document"), None);
    assert_eq!(sent(&rerank::Rerank, &json!({"documents": "a"})).unwrap_err().status(), 400);
}

#[test]
fn models_are_listed_in_openais_shape() {
    let response = r#"{"models":[{"name":"command-a-03-2025","endpoints":["chat"],"finetuned":false}],
        "next_page_token":null}"#;
    let model = json!({"id": "command-a-03-2025", "object": "model", "created": 0, "owned_by": "cohere"});
    assert_eq!(got(&models::Models, &json!({}), response), json!({"object": "list", "data": [model]}));
    let one = r#"{"name":"command-a-03-2025","context_length":256000}"#;
    assert_eq!(got(&models::OneModel, &json!({}), one), model);
}

#[test]
fn errors_inside_a_response_are_errors() {
    let whole = |json: &str| read(json.as_bytes(), false, 7);
    for (payload, status, message) in [
        (r#"{"finish_reason":"ERROR","message":{"content":[{"type":"text","text":"ha"}]}}"#, 500, "failed"),
        (r#"{"finish_reason":"TIMEOUT","message":{"content":[]}}"#, 504, "took too long"),
        (r#"{"id":"x","message":"no such thing"}"#, 502, "no such thing"),
        (r#"{"id":"x"}"#, 502, "no message"),
        ("<html>bad gateway</html>", 502, "cannot be read"),
        ("\u{fffd}", 502, "cannot be read"),
        ("", 502, "cannot be read"),
    ] {
        let (response, error, ended) = whole(payload);
        let error = error.unwrap_or_else(|| panic!("{payload}"));
        assert_eq!(error.status, status, "{payload}");
        assert!(error.message.contains(message), "{payload}: {}", error.message);
        assert!(response.choices.is_empty() && !ended, "{payload}");
    }
    let streamed = |tail: &str| {
        let start = "data: {\"type\":\"message-start\",\"id\":\"1\"}\n\n\
                    data: {\"type\":\"content-delta\",\"delta\":{\"message\":{\"content\":{\"text\":\"a\"}}}}\n\n";
        read(format!("{start}{tail}").as_bytes(), true, 5)
    };
    for (tail, status, message) in [
        (
            "data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\",\"error\":\"out of memory\"}}",
            500,
            "out of memory",
        ),
        ("data: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"TIMEOUT\"}}\n\n", 504, "too long"),
        ("data: {\"type\":\"message-end\",\"delta\":{\"error\":\"cut\"}}\n\n", 502, "cut"),
        (
            "data: {\"message\":\"too many tokens\"}\n\ndata: {\"type\":\"message-end\"}\n\n",
            502,
            "too many tokens",
        ),
        ("event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"busy\"}}\n\n", 502, "busy"),
        ("data: <html>\n\n", 502, "cannot be read"),
    ] {
        let (response, error, ended) = streamed(tail);
        let error = error.unwrap_or_else(|| panic!("{tail}"));
        assert_eq!(error.status, status, "{tail}");
        assert!(error.message.contains(message), "{tail}: {}", error.message);
        assert!(response.choices[0].finish.is_none() && !ended, "{tail}");
    }
    // A stream that just stops has neither a finish reason nor an error of its own.
    for tail in ["", "data: {\"type\":\"message-en", "data: {\"type\":\"message-end\",\"delta\":{}}"] {
        let (response, error, _) = streamed(tail);
        assert!(error.is_none() && response.choices[0].finish.is_none(), "{tail}");
        assert_eq!(response.choices[0].text().as_deref(), Some("a"));
    }
}

#[test]
fn paths_keep_their_version_for_any_custom_host() {
    let path = |host: Option<&str>, operation, path: &str, query: Option<&str>| {
        let account = Account { custom_host: host.map(str::to_owned), ..Account::default() };
        let call = Call { operation, method: &Method::POST, path, query, model: None, streamed: false };
        crate::provider::url(&Cohere, &call, &account).unwrap()
    };
    let chat = Operation::ChatCompletions;
    for host in ["http://h", "http://h/", "http://h/v2", "http://h/v1/"] {
        assert_eq!(path(Some(host), chat, "chat/completions", Some("beta=true")), "http://h/v2/chat");
        assert_eq!(path(Some(host), Operation::Models, "models", None), "http://h/v1/models?page_size=1000");
    }
    let proxy = |to, query| path(None, Operation::Passthrough, to, query);
    assert_eq!(proxy("tokenize", None), "https://api.cohere.com/v1/tokenize");
    assert_eq!(proxy("v2/embed", Some("a=b")), "https://api.cohere.com/v2/embed?a=b");
    let call = |operation| Call {
        operation,
        method: &Method::POST,
        path: "x",
        query: None,
        model: None,
        streamed: false,
    };
    let refused = Cohere.adapter(&call(Operation::Speech), &Account::default()).unwrap_err();
    assert_eq!(refused.status(), 501);
}

/// Real responses, when the recordings exist next to this checkout.
#[test]
fn recorded_responses_are_decoded_as_recorded() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(file) else {
        return println!("SKIPPED: no ../shared/traffic/recorded.jsonl beside this checkout");
    };
    let mut chats = 0;
    let mut embeddings = 0;
    for line in text.lines().filter(|line| line.contains("api.cohere.com")) {
        let recording: Value = serde_json::from_str(line).unwrap();
        let id = &recording["id"];
        let response = &recording["response"];
        if recording["status"] != 200 {
            let error = ProviderError::read(404, response.to_string().as_bytes());
            assert_eq!(json!(error.message), response["message"], "{id}");
            continue;
        }
        if recording["uri"].as_str().unwrap().ends_with("/v2/chat") {
            chats += 1;
            check_chat(&id.to_string(), response);
        } else if recording["uri"].as_str().unwrap().ends_with("/v2/embed") {
            embeddings += 1;
            let out = got(&embed::Embed, &json!({}), &response.to_string());
            for (index, vector) in response["embeddings"]["float"].as_array().unwrap().iter().enumerate() {
                assert_eq!(&out["data"][index]["embedding"], vector, "{id}");
            }
            let billed = &response["meta"]["billed_units"]["input_tokens"];
            assert_eq!(&out["usage"]["prompt_tokens"], billed, "{id}");
        }
    }
    println!("cohere: {chats} chats and {embeddings} embeddings read as recorded");
    assert!(chats > 0 && embeddings > 0);
}

fn check_chat(id: &str, response: &Value) {
    let (decoded, error, ended) = read(response.to_string().as_bytes(), false, 11);
    assert!(error.is_none() && ended, "{id}: {error:?}");
    assert_eq!(json!(decoded.id), response["id"], "{id}");
    let choice = &decoded.choices[0];
    let message = &response["message"];
    let texts =
        message["content"].as_array().into_iter().flatten().map(|part| part["text"].as_str().unwrap());
    assert_eq!(choice.text().unwrap_or_default(), texts.collect::<String>(), "{id}");
    assert_eq!(json!(choice.reasoning()), message["tool_plan"], "{id}");
    let calls = choice.parts.iter().filter_map(|part| match part {
        words::api::chat::response::ContentPart::ToolCall { id, name, arguments, .. } => {
            let function = json!({"name": name, "arguments": arguments});
            Some(json!({"id": id, "type": "function", "function": function}))
        }
        _ => None,
    });
    let calls: Vec<Value> = calls.collect();
    assert_eq!(calls, message["tool_calls"].as_array().cloned().unwrap_or_default(), "{id}");
    let wanted = match response["finish_reason"].as_str().unwrap() {
        "TOOL_CALL" => Finish::ToolCalls,
        "MAX_TOKENS" => Finish::Length,
        _ => Finish::Stop,
    };
    assert_eq!(choice.finish.as_ref().unwrap().0, wanted, "{id}");
    let usage = decoded.usage.unwrap();
    let tokens = &response["usage"]["tokens"];
    assert_eq!(json!([usage.input, usage.output]), json!([tokens["input_tokens"], tokens["output_tokens"]]));
    assert_eq!(usage.cached, response["usage"]["cached_tokens"].as_u64().unwrap_or_default(), "{id}");
    let mut tap = Tap::new(Operation::Passthrough, false, true, None);
    tap.push(response.to_string().as_bytes());
    assert_eq!(tap.summary().usage, decoded.usage, "{id}: as it passes");
    assert_eq!(json!(tap.summary().finish), response["finish_reason"], "{id}: as it passes");
}
