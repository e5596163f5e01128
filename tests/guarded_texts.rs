//! Which text of a response guardrails judge: one text for each choice, whatever it is cut by and however the provider sends it.
//!
//! The same response is sent whole, through windows and held back, and must be judged alike.

use crate::guardrails::{Answer, CHAT, none_of, send, send_to, with};
use crate::stages::{COMPLETIONS, MESSAGE_EVENTS, RESPONSES, WHOLE_CHAT, chat_events, provider, text_of};
use crate::support::Gateway;
use crate::support::provider::Provider;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use serde_json::{Value, json};

pub(crate) const MESSAGES: &str = "/v1/messages";
pub(crate) const GEMINI: &str = "/v1beta/models/m:generateContent";
pub(crate) const GEMINI_EVENTS: &str = "/v1beta/models/m:streamGenerateContent?alt=sse";
const GENERIC: &str = "/v1/proxy/v1/something/new";

/// One piece of a response.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Piece {
    Text(&'static str),
    Reasoning,
    Call,
    /// Something else that its dialect has between texts.
    Other,
}
use Piece::{Call, Other, Reasoning, Text};

pub(crate) fn events(list: &[Value]) -> String {
    list.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn chat_stream(pieces: &[Piece]) -> String {
    let delta = |piece: &Piece| match piece {
        Text(text) => json!({"content": text}),
        Reasoning => json!({"reasoning_content": "hm"}),
        Call => {
            json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})
        }
        Other => json!({"refusal": "r"}),
    };
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    };
    let mut list: Vec<Value> = pieces.iter().map(|piece| chunk(delta(piece), Value::Null)).collect();
    list.push(chunk(json!({}), "stop".into()));
    events(&list) + "data: [DONE]\n\n"
}

fn message_stream(pieces: &[Piece]) -> String {
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let message = json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage});
    let mut list = vec![json!({"type": "message_start", "message": message})];
    for (index, piece) in pieces.iter().enumerate() {
        let (block, delta) = match piece {
            Text(text) => (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text})),
            Call => (
                json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}),
                json!({"type": "input_json_delta", "partial_json": "{}"}),
            ),
            _ => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                json!({"type": "thinking_delta", "thinking": "hm"}),
            ),
        };
        list.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        list.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        list.push(json!({"type": "content_block_stop", "index": index}));
    }
    list.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}));
    list.push(json!({"type": "message_stop"}));
    let named =
        list.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    named.collect()
}

fn message(texts: &[&str]) -> String {
    let content: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": "end_turn", "usage": usage})
        .to_string()
}

fn gemini_stream(pieces: &[Piece]) -> String {
    let part = |piece: &Piece| match piece {
        Text(text) => json!({"text": text}),
        Reasoning => json!({"text": "hm", "thought": true}),
        Call => json!({"functionCall": {"name": "f", "args": {}}}),
        Other => json!({"text": "", "thoughtSignature": "abc"}),
    };
    let candidate = |piece: &Piece| json!({"content": {"role": "model", "parts": [part(piece)]}, "index": 0});
    let mut list: Vec<Value> =
        pieces.iter().map(|piece| json!({"candidates": [candidate(piece)], "modelVersion": "m"})).collect();
    list.last_mut().unwrap()["candidates"][0]["finishReason"] = "STOP".into();
    events(&list)
}

fn response_stream(pieces: &[Piece]) -> String {
    let place = json!({"item_id": "i", "output_index": 0, "content_index": 0});
    let event = |piece: &Piece| match piece {
        Text(text) => with(&place, json!({"type": "response.output_text.delta", "delta": text})),
        Reasoning => {
            json!({"type": "response.reasoning_summary_text.delta", "item_id": "r", "output_index": 1, "delta": "hm"})
        }
        Call => {
            json!({"type": "response.function_call_arguments.delta", "item_id": "f", "output_index": 2, "delta": "{}"})
        }
        Other => json!({"type": "response.in_progress", "response": {"id": "r", "output": []}}),
    };
    let text: String =
        pieces.iter().filter_map(|piece| if let Text(text) = piece { Some(*text) } else { None }).collect();
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    let item = json!({"type": "message", "id": "i", "role": "assistant", "content": [part]});
    let mut list: Vec<Value> = pieces.iter().map(event).collect();
    list.push(with(&place, json!({"type": "response.output_text.done", "text": text})));
    let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2});
    list.push(json!({"type": "response.completed", "response": {"id": "r", "object": "response", "status": "completed", "output": [item], "usage": usage}}));
    events(&list)
}

/// A provider of this vendor that responds with `sent`, and the target that is it.
pub(crate) async fn speaking(vendor: &str, sent: &str) -> (Provider, Value) {
    let provider = provider(sent).await;
    let host = format!("http://127.0.0.1:{}{}", provider.port, if vendor == "google" { "" } else { "/v1" });
    (provider, json!({"provider": vendor, "api_key": "k", "custom_host": host}))
}

pub(crate) fn body(path: &str, stream: bool) -> Value {
    let mut body = match path {
        GEMINI | GEMINI_EVENTS => return json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
        RESPONSES => json!({"model": "m", "input": "hi"}),
        COMPLETIONS => json!({"model": "m", "prompt": "hi"}),
        _ => json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
    };
    if stream {
        body["stream"] = true.into();
    }
    body
}

pub(crate) fn is_denied(answer: &Answer) -> bool {
    answer.text.contains("guardrail checks")
}

/// The same checks through windows and held back.
pub(crate) fn both_ways(guardrails: &Value) -> [Value; 2] {
    let mut held = guardrails.clone();
    held[0]["stream"] = "buffer".into();
    [guardrails.clone(), held]
}

#[tokio::test]
async fn nothing_between_two_texts_hides_what_they_are_together() {
    type Stream = fn(&[Piece]) -> String;
    let streams: [(&str, &str, Stream); 7] = [
        ("openai", CHAT, chat_stream),
        ("anthropic", MESSAGES, message_stream),
        ("anthropic", CHAT, message_stream),
        ("openai", MESSAGES, chat_stream),
        ("google", GEMINI_EVENTS, gemini_stream),
        ("google", CHAT, gemini_stream),
        ("openai", RESPONSES, response_stream),
    ];
    for (vendor, path, stream) in streams {
        for between in [Reasoning, Call, Other] {
            if (vendor, path, between) == ("openai", MESSAGES, Other) {
                // A refusal is text in a message, so that the client gets another one.
                continue;
            }
            let (_bomb, target) = speaking(vendor, &stream(&[Text("a bo"), between, Text("mb x")])).await;
            for guardrails in both_ways(&none_of("bomb", true)) {
                let config = with(&target, json!({"output_guardrails": guardrails}));
                let answer = send(path, &config, &body(path, true)).await;
                assert!(is_denied(&answer), "{vendor} {path} {between:?} {guardrails}: {}", answer.text);
                assert!(
                    !["a bo", "mb x"].iter().any(|text| answer.text.contains(text)),
                    "{path}: {}",
                    answer.text
                );
            }
            let (_card, target) =
                speaking(vendor, &stream(&[Text("card 4111 1111 "), between, Text("1111 1111 ok")])).await;
            for guardrails in both_ways(&json!([{"pii": {"redact": true, "categories": ["CREDIT_CARD"]}}])) {
                let config = with(&target, json!({"output_guardrails": guardrails}));
                let answer = send(path, &config, &body(path, true)).await;
                assert_eq!(answer.status, 200, "{vendor} {path} {between:?} {guardrails}: {}", answer.text);
                assert!(
                    !answer.text.contains("1111"),
                    "{vendor} {path} {between:?} {guardrails}: {}",
                    answer.text
                );
            }
        }
    }
}

/// What is not changed keeps its place, so that a message is the one that its model wrote.
#[tokio::test]
async fn what_stands_between_texts_keeps_its_place() {
    let (_upstream, target) =
        speaking("anthropic", &message_stream(&[Text("it is a bo"), Call, Text("at, and more of it")])).await;
    let config = with(&target, json!({"output_guardrails": none_of("bomb", true)}));
    let answer = send(MESSAGES, &config, &body(MESSAGES, true)).await;
    let data = answer.text.lines().filter_map(|line| line.strip_prefix("data: "));
    let mut blocks: Vec<String> = Vec::new();
    for event in data.map(|data| serde_json::from_str::<Value>(data).unwrap()) {
        match event["type"].as_str() {
            Some("content_block_start") => {
                blocks.push(event["content_block"]["type"].as_str().unwrap().to_owned() + ":");
            }
            Some("content_block_delta") => {
                let text = event["delta"]["text"].as_str().unwrap_or_default();
                blocks.last_mut().unwrap().push_str(text);
            }
            _ => {}
        }
    }
    assert_eq!(blocks, ["text:it is a bo", "tool_use:", "text:at, and more of it"], "{}", answer.text);
}

/// The texts of a response are one text with nothing between them, whole, through windows and held back.
#[tokio::test]
async fn several_blocks_are_judged_as_one_text_in_every_form() {
    let regex = |rule: &str| json!([{"id": "g", "regexMatch": {"rule": rule, "not": true}, "deny": true}]);
    let word_count =
        |least: u32| json!([{"id": "g", "wordCount": {"minWords": least, "maxWords": 9}, "deny": true}]);
    for (guardrails, texts, denied) in [
        (regex(r"\bbomb"), ["foo", "bomb"], false),
        (regex(r"\bbomb"), ["foo ", "bomb"], true),
        (regex(r"bomb\b"), ["bomb", "foo"], false),
        (regex("a bomb"), ["a bo", "mb"], true),
        (word_count(2), ["foo", "bar"], true),
        (word_count(1), ["foo", "bar"], false),
    ] {
        let pieces = texts.map(Text);
        let parts: Vec<Value> = texts.iter().map(|text| json!({"text": text})).collect();
        let gemini =
            json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]})
                .to_string();
        for (vendor, path, streamed, sent) in [
            ("anthropic", MESSAGES, false, message(&texts)),
            ("anthropic", CHAT, false, message(&texts)),
            ("anthropic", MESSAGES, true, message_stream(&pieces)),
            ("anthropic", CHAT, true, message_stream(&pieces)),
            ("google", GEMINI, false, gemini.clone()),
            ("google", CHAT, false, gemini),
            ("google", GEMINI_EVENTS, true, gemini_stream(&pieces)),
            ("openai", RESPONSES, true, response_stream(&pieces)),
        ] {
            let (_upstream, target) = speaking(vendor, &sent).await;
            for guardrails in both_ways(&guardrails) {
                let config = with(&target, json!({"output_guardrails": guardrails}));
                let answer = send(path, &config, &body(path, streamed)).await;
                let case = format!("{vendor} {path} {streamed} {texts:?} {guardrails}: {}", answer.text);
                assert_eq!(is_denied(&answer), denied, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn what_stands_in_two_blocks_of_a_whole_response_is_changed_in_both() {
    let texts = ["the card 4111 1111 ", "1111 1111, and so on"];
    let parts = texts.map(|text| json!({"text": text}));
    let gemini =
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
    let blocks = texts.map(|text| json!({"type": "output_text", "text": text, "annotations": []}));
    let mut response = crate::own_dialects::response_object();
    response["output"][2]["content"] = json!(blocks);
    let redacts = json!([{"pii": {"redact": true, "categories": ["CREDIT_CARD"]}}]);
    for (vendor, path, sent, place) in [
        ("anthropic", MESSAGES, message(&texts), "/content/{}/text"),
        ("google", GEMINI, gemini.to_string(), "/candidates/0/content/parts/{}/text"),
        ("openai", RESPONSES, response.to_string(), "/output/2/content/{}/text"),
    ] {
        let (_upstream, target) = speaking(vendor, &sent).await;
        let config = with(&target, json!({"output_guardrails": redacts}));
        let answer = send(path, &config, &body(path, false)).await;
        let got = ["0", "1"].map(|index| answer.json().pointer(&place.replace("{}", index)).cloned());
        let wanted = ["the card {{CREDIT_CARD}}", ", and so on"].map(|text| Some(Value::from(text)));
        assert_eq!(got, wanted, "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_response_without_text_is_judged_the_same_whole_and_streamed() {
    let contains = |fails: bool| json!([{"id": "g", "contains": {"operator": "none", "words": ["bomb"], "failOnError": fails}, "deny": true}]);
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let whole = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    for (streamed, sent) in [(false, whole.to_string()), (true, chat_stream(&[Call]))] {
        let (_upstream, target) = speaking("openai", &sent).await;
        for fails in [false, true] {
            for guardrails in both_ways(&contains(fails)) {
                let config = with(&target, json!({"output_guardrails": guardrails}));
                let answer = send(CHAT, &config, &body(CHAT, streamed)).await;
                assert_eq!(is_denied(&answer), fails, "{streamed} {guardrails}: {}", answer.text);
            }
        }
    }
}

/// A stream that was held back is sent as it was read: what no check has seen is not in it.
#[tokio::test]
async fn what_no_check_has_read_is_not_sent_of_a_held_back_stream() {
    let choice = |member: &str| {
        format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{{\"index\":0,{member},\"finish_reason\":null}}]}}\n\n"
        )
    };
    for hidden in [
        choice(r#""delta":{"content":"a bomb","content":"fine"}"#),
        choice(r#""delta":{"content":"fine","content":"a bomb"}"#),
        choice(r#""delta":{"content":"fine"},"text":"a bomb""#),
        choice(r#""delta":{"content":"fine"},"message":{"content":"a bomb"}"#),
        format!(": a bomb\n\n{}", choice(r#""delta":{"content":"fine"}"#)),
        format!("Data: a bomb\n\n{}", choice(r#""delta":{"content":"fine"}"#)),
    ] {
        let (_upstream, target) = speaking("openai", &(hidden.clone() + &chat_stream(&[]))).await;
        for guardrails in both_ways(&none_of("bomb", true)) {
            let config = with(&target, json!({"output_guardrails": guardrails}));
            let answer = send(CHAT, &config, &body(CHAT, true)).await;
            assert_eq!(answer.status, 200, "{hidden} {guardrails}: {}", answer.text);
            assert!(!answer.text.contains("a bomb"), "{hidden} {guardrails}: {}", answer.text);
        }
    }
}

/// What is spoken is text: whole as in a stream. And whichever choice has it.
#[tokio::test]
async fn every_choice_and_its_transcript_are_judged_the_same_whole_and_streamed() {
    let chunk = |index: u32, delta: Value, finish: Value| {
        let choice = json!({"index": index, "delta": delta, "finish_reason": finish});
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
    };
    let whole = |messages: &[Value]| {
        let choices = messages.iter().enumerate();
        let choices = choices
            .map(|(index, message)| json!({"index": index, "message": message, "finish_reason": "stop"}));
        json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": choices.collect::<Vec<_>>()})
            .to_string()
    };
    let spoken =
        |text: &str| json!({"audio": {"id": "a", "data": "AAAA", "expires_at": 1, "transcript": text}});
    let stream = |deltas: &[(u32, Value)]| {
        let mut list: Vec<Value> =
            deltas.iter().map(|(index, delta)| chunk(*index, delta.clone(), Value::Null)).collect();
        list.extend((0..2).map(|index| chunk(index, json!({}), "stop".into())));
        events(&list) + "data: [DONE]\n\n"
    };
    let [fine, first, second] =
        ["fine", "a bo", "mb"].map(|text| json!({"role": "assistant", "content": text}));
    let voiced = with(&json!({"role": "assistant", "content": null}), spoken("a bomb"));
    for (word, denied) in [("bomb", true), ("absent", false)] {
        for (streamed, sent) in [
            (false, whole(&[fine.clone(), json!({"role": "assistant", "content": "a bomb"})])),
            (true, stream(&[(0, fine.clone()), (1, first.clone()), (1, second.clone())])),
            (false, whole(&[fine.clone(), voiced.clone()])),
            (false, whole(std::slice::from_ref(&voiced))),
            (true, stream(&[(0, fine.clone()), (1, spoken("a bo")), (1, spoken("mb"))])),
        ] {
            let (_upstream, target) = speaking("openai", &sent).await;
            for guardrails in both_ways(&none_of(word, true)) {
                let config = with(&target, json!({"output_guardrails": guardrails}));
                let answer = send(CHAT, &config, &body(CHAT, streamed)).await;
                assert_eq!(is_denied(&answer), denied, "{sent} {guardrails}: {}", answer.text);
                assert!(!denied || !answer.text.contains("a bomb"), "{sent} {guardrails}: {}", answer.text);
            }
        }
    }
    let redacted = json!([{"regexReplace": {"rule": "bomb", "redactText": "XXX"}}]);
    let (_upstream, target) = speaking("openai", &whole(&[fine, voiced])).await;
    let answer = send(CHAT, &with(&target, json!({"output_guardrails": redacted})), &body(CHAT, false)).await;
    assert_eq!(answer.json()["choices"][1]["message"]["audio"]["transcript"], "a XXX", "{}", answer.text);
}

/// Servers differ in how they write a message of the Responses API. The same response is sent as a document, and as the last event of a
/// stream.
#[tokio::test]
async fn every_shape_of_an_output_is_judged_the_same_whole_and_streamed() {
    let message =
        |content: Value| json!({"output": [{"type": "message", "role": "assistant", "content": content}]});
    for shape in [
        message("a bomb 4111 1111 1111 1111".into()),
        message(json!([{"type": "text", "text": "a bomb 4111 1111 1111 1111"}])),
        message(json!([{"text": "a bomb 4111 1111 1111 1111"}])),
        json!({"output": [], "output_text": "a bomb 4111 1111 1111 1111"}),
        json!({"output": [{"type": "message", "content": [{"type": "output_text", "text": ""}]}],
            "output_text": "a bomb 4111 1111 1111 1111"}),
    ] {
        let usage = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2});
        let about =
            json!({"id": "r", "object": "response", "status": "completed", "model": "m", "usage": usage});
        let whole = with(&about, shape.clone());
        let stream = events(&[json!({"type": "response.completed", "response": whole})]);
        for (streamed, sent) in [(false, whole.to_string()), (true, stream)] {
            let (_upstream, target) = speaking("openai", &sent).await;
            for guardrails in both_ways(&none_of("bomb", true)) {
                let config = with(&target, json!({"output_guardrails": guardrails}));
                let answer = send(RESPONSES, &config, &body(RESPONSES, streamed)).await;
                assert!(is_denied(&answer), "{streamed} {shape} {guardrails}: {}", answer.text);
                assert!(!answer.text.contains("a bomb"), "{streamed} {shape}: {}", answer.text);
            }
            let redacts = json!([{"pii": {"redact": true, "categories": ["CREDIT_CARD"]}}]);
            for guardrails in both_ways(&redacts) {
                let config = with(&target, json!({"output_guardrails": guardrails}));
                let answer = send(RESPONSES, &config, &body(RESPONSES, streamed)).await;
                let case = format!("{streamed} {shape} {guardrails}: {}", answer.text);
                assert_eq!(answer.status, 200, "{case}");
                assert!(answer.text.contains("a bomb {{CREDIT_CARD}}"), "{case}");
                assert!(!answer.text.contains("4111 1111"), "{case}");
            }
        }
    }
}

/// Lists of stored responses within each other were read by recursion, which ended the process.
#[tokio::test]
async fn a_response_that_is_nested_deeply_is_passed_on() {
    let nested = r#"{"output":0,"data":["#.repeat(20_000) + &"]}".repeat(20_000);
    let (_upstream, target) = speaking("openai", &nested).await;
    for hooks in [
        json!({"input_guardrails": none_of("absent", true)}),
        json!({"output_guardrails": none_of("absent", true)}),
    ] {
        let answer = send(GENERIC, &with(&target, hooks.clone()), &body(GENERIC, false)).await;
        assert_eq!(answer.status, 200, "{hooks}: {:.200}", answer.text);
    }
}

/// A provider that sends `body` with this content type.
async fn typed(media: &str, body: &str) -> (Provider, Value) {
    let length = body.len();
    let header = format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n");
    let bytes = [header.as_bytes(), body.as_bytes()].concat();
    let upstream = Provider::start(move |_| bytes.clone()).await;
    let target = json!({"provider": "openai", "api_key": "k", "custom_host": upstream.base_url()});
    (upstream, target)
}

#[tokio::test]
async fn a_whole_response_is_judged_whatever_its_provider_calls_it() {
    let with_mark = format!("\u{feff}{WHOLE_CHAT}");
    let surrogate = WHOLE_CHAT.replace("hello world", r"\ud800 hello world");
    for (path, media, sent) in [
        (CHAT, "text/event-stream", chat_events(&["hello", " world"])),
        (CHAT, "text/plain", WHOLE_CHAT.to_owned()),
        (CHAT, "application/json", with_mark.clone()),
        (CHAT, "application/json", surrogate.clone()),
        (GENERIC, "text/plain", WHOLE_CHAT.to_owned()),
        (GENERIC, "application/json", with_mark),
        (GENERIC, "application/json", surrogate),
    ] {
        let (_upstream, target) = typed(media, &sent).await;
        for (word, status) in [("world", 446), ("absent", 200)] {
            let config = with(&target, json!({"output_guardrails": none_of(word, true)}));
            let answer = send(path, &config, &body(path, false)).await;
            assert_eq!(answer.status, status, "{path} {media} {sent}: {}", answer.text);
            assert_eq!(answer.text.contains("hello world"), status == 200, "{path} {media}: {}", answer.text);
        }
    }
}

#[tokio::test]
async fn a_whole_response_that_cannot_be_read_is_denied_where_hooks_decide() {
    for (media, sent) in [
        ("application/x-ndjson", "{\"message\":{\"content\":\"hello\"}}\n{\"done\":true}\n"),
        ("application/json", "[{\"content\":\"hello\"}]"),
        ("text/plain", "hello"),
        ("application/json", "{\"choices\":[{\"message\":{\"content\":\"hello\"}}"),
    ] {
        let (_upstream, target) = typed(media, sent).await;
        for (deny, status) in [(true, 446), (false, 200)] {
            let config = with(&target, json!({"output_guardrails": none_of("absent", deny)}));
            let answer = send(GENERIC, &config, &body(GENERIC, false)).await;
            assert_eq!(answer.status, status, "{media} {sent}: {}", answer.text);
            assert_eq!(answer.text.contains("hello"), !deny, "{media} {sent}: {}", answer.text);
        }
    }
    // There is nothing in it.
    let (_upstream, target) = typed("text/plain", "").await;
    let config = with(&target, json!({"output_guardrails": none_of("absent", true)}));
    let answer = send(GENERIC, &config, &body(GENERIC, false)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

#[tokio::test]
async fn what_was_redacted_is_restored_before_the_response_is_checked() {
    let redacts = json!([
        {"id": "one", "pii": {"redact": true, "restore": true, "categories": ["EMAIL_ADDRESS"]}},
        {"id": "adds", "regexReplace": {"rule": "BOSS", "redactText": "boss@example.com"}},
        {"id": "two", "pii": {"redact": true, "restore": true}},
    ]);
    let echo = "{{EMAIL_ADDRESS_1}} and {{EMAIL_ADDRESS_2}}";
    let streamed_echo = chat_events(&["{{EMAIL_ADD", "RESS_1}} and {{EMAIL_ADDRESS_2", "}}"]);
    for (streamed, sent) in [(false, WHOLE_CHAT.replace("hello world", echo)), (true, streamed_echo)] {
        let (upstream, target) = speaking("openai", &sent).await;
        let mut request = body(CHAT, streamed);
        request["messages"][0]["content"] = "ann@example.com, BOSS".into();
        for guardrails in both_ways(&none_of("boss@example.com", true)) {
            let config = with(&target, json!({"input_guardrails": redacts, "output_guardrails": guardrails}));
            let answer = send(CHAT, &config, &request).await;
            assert!(is_denied(&answer), "{streamed} {guardrails}: {}", answer.text);
            assert!(!answer.text.contains("ann@"), "{streamed} {guardrails}: {}", answer.text);
        }
        let config = with(&target, json!({"input_guardrails": redacts}));
        let answer = send(CHAT, &config, &request).await;
        assert_eq!(text_of(&answer.text), "ann@example.com and boss@example.com", "{}", answer.text);
        let got = String::from_utf8(upstream.received()[0].body.clone()).unwrap();
        assert!(got.contains("{{EMAIL_ADDRESS_1}}, {{EMAIL_ADDRESS_2}}"), "{got}");
    }
}

#[tokio::test]
async fn asynchronous_hooks_run_on_what_is_denied() {
    let gateway = Gateway::start(STANDARD);
    let name = "turnpike_guardrail_checks_total{check=\"default.wordCount\",verdict=\"passed\"}";
    let counts = json!({"id": "later", "wordCount": {"minWords": 1, "maxWords": 9}, "async": true});
    let denies = |word: &str| json!([none_of(word, true)[0], counts]);
    let mut wanted = 0.0;
    for (streamed, sent) in [(false, WHOLE_CHAT.to_owned()), (true, chat_events(&["hello", " world"]))] {
        let (_upstream, target) = speaking("openai", &sent).await;
        let mut cases = vec![
            json!({"input_guardrails": denies("hi")}),
            json!({"output_guardrails": both_ways(&denies("world"))[1]}),
        ];
        if !streamed {
            cases.push(json!({"output_guardrails": denies("world")}));
            cases.push(json!({"input_guardrails": [counts], "output_guardrails": none_of("world", true)}));
        }
        for more in cases {
            let answer = send_to(&gateway, CHAT, &with(&target, more.clone()), &body(CHAT, streamed)).await;
            assert_eq!(answer.status, 446, "{more}: {}", answer.text);
            wanted += 1.0;
            until("the hook in the background", async || {
                (gateway.metric(name).await == Some(wanted)).then_some(())
            })
            .await;
        }
    }
}

/// A stream of the Responses API whose delta is no text, and one with half a character.
#[tokio::test]
async fn a_text_of_a_stream_that_cannot_be_read_does_not_pass() {
    let stream = response_stream(&[Text("hello world")]);
    for sent in [
        stream.replace(r#""delta":"hello world""#, r#""delta":["hello world"]"#),
        stream.replace("hello world", r"\ud800 hello world"),
        MESSAGE_EVENTS.replace("hello", r"\ud800 hello"),
    ] {
        let (vendor, path) =
            if sent.contains("message_start") { ("anthropic", MESSAGES) } else { ("openai", RESPONSES) };
        let (_upstream, target) = speaking(vendor, &sent).await;
        let config = with(&target, json!({"output_guardrails": none_of("world", true)}));
        let answer = send(path, &config, &body(path, true)).await;
        // Results have the word by itself.
        let is_sent = ["hello world", " world"].iter().any(|text| answer.text.contains(text));
        assert!(!is_sent, "{sent}: {}", answer.text);
    }
}

/// A request that a parallel hook denies is sent to no server of a hook that nothing waits for.
#[tokio::test]
async fn what_a_parallel_hook_denies_reaches_no_asynchronous_webhook() {
    let hooks = provider(r#"{"verdict":true}"#).await;
    let url = format!("http://127.0.0.1:{}/", hooks.port);
    for (streamed, sent) in [(false, WHOLE_CHAT.to_owned()), (true, chat_events(&["hello", " world"]))] {
        let (_upstream, target) = speaking("openai", &sent).await;
        let denies = with(&none_of("hi", true)[0], json!({"parallel": true}));
        let log = json!({"default.log": {"logURL": url}, "async": true});
        let more = json!({"input_guardrails": [denies, log], "output_guardrails": [log]});
        let before = hooks.received().len();
        let answer = send(CHAT, &with(&target, more), &body(CHAT, streamed)).await;
        assert_eq!(answer.status, 446, "{streamed}: {}", answer.text);
        until("the log", async || (hooks.received().len() > before).then_some(())).await;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        let received = hooks.received();
        let calls = received.get(before..).unwrap_or_default();
        assert_eq!(calls.len(), 1, "the response was not looked at");
        let got = String::from_utf8_lossy(&calls[0].body).into_owned();
        assert!(got.contains("\"withheld\"") && !got.contains("\"hi\""), "{streamed}: {got}");
    }
}
