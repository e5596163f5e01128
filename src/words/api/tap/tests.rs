//! Tests of the tap with small streams of each dialect, and with every recording of a provider that uses one of them.
//! The recordings are outside the checkout; without them that test is skipped with a note.

use super::*;
use proptest::prelude::*;
use serde_json::Value;
use std::path::Path as FilePath;

fn tapped(operation: Operation, streamed: bool, chunks: &[&[u8]]) -> ResponseSummary {
    let length = chunks.iter().map(|chunk| chunk.len()).sum();
    let mut tap = Tap::new(operation, streamed, !streamed, Some(length));
    let firsts = chunks.iter().filter(|chunk| tap.push(chunk)).count();
    let pushed = tap.summary().content;
    tap.finish();
    assert_eq!(firsts, usize::from(pushed), "the first content is reported exactly once");
    tap.summary().clone()
}

fn streamed(text: &str) -> ResponseSummary {
    let whole = tapped(Operation::Passthrough, true, &[text.as_bytes()]);
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(tapped(Operation::Passthrough, true, &bytes), whole, "byte by byte {text}");
    whole
}

#[test]
fn the_first_content_is_where_a_user_sees_something() {
    let cases = [
        (r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#, false),
        (r#"{"choices":[{"delta":{"content":null,"reasoning_details":[]}}]}"#, false),
        (r#"{"choices":[]}"#, false),
        (r#"{"choices":[{"delta":{"content":"a\n"}}]}"#, true),
        (r#"{"choices":[{"delta":{"content":[{"type":"thinking"}]}}]}"#, true),
        (r#"{"choices":[{"delta":{"reasoning_content":"a"}}]}"#, true),
        (r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#, true),
        (r#"{"choices":[{"text":"a"}]}"#, true),
        (r#"{"choices":[{"text":""}]}"#, false),
        (r#"{"type":"content_block_start","content_block":{"type":"text","text":""}}"#, false),
        (r#"{"type":"content_block_start","content_block":{"type":"tool_use","name":"f"}}"#, true),
        (r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":""}}"#, false),
        (r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#, true),
        (r#"{"type":"response.output_item.added","item":{"type":"reasoning"}}"#, false),
        (r#"{"type":"response.output_item.added","item":{"type":"function_call"}}"#, true),
        (r#"{"type":"response.output_text.delta","delta":"a\""}"#, true),
        (r#"{"type":"response.output_text.delta","delta":""}"#, false),
        (r#"{"type":"speech.audio.delta","audio":"AAAA"}"#, true),
        (r#"{"type":"message_start","message":{"content":[],"stop_reason":null}}"#, false),
        (r#"{"type":"message_start","message":{"content":[{"type":"tool_use","name":"f"}]}}"#, true),
        (r#"{"type": "ping"}"#, false),
        (r#"{"error":{"message":"no"}}"#, false),
        (r#"{"candidates":[{"content":{"parts":[{"text":""}]}}]}"#, false),
        (r#"{"candidates":[{"content":{"role":"model"}}]}"#, false),
        (r#"{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}"#, true),
        (r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}"#, true),
        (r#"{"type":"message-start","id":"x"}"#, false),
        (r#"{"type":"content-delta","delta":{"message":{"content":{"text":"a"}}}}"#, true),
    ];
    for (data, wanted) in cases {
        assert_eq!(streamed(&format!("data: {data}\n\n")).content, wanted, "{data}");
    }
}

#[test]
fn errors_in_a_stream_are_detected_in_every_dialect() {
    let cases = [
        (
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
            "overloaded_error",
        ),
        ("data: {\"error\":{\"code\":429,\"type\":\"x\"}}\n\n", "429"),
        ("data: {\"error\":\"out of memory\"}\n\n", "error"),
        (
            "data: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"m\",\"sequence_number\":3}\n\n",
            "server_error",
        ),
        (
            "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"rate_limit_exceeded\"}}}\n\n",
            "rate_limit_exceeded",
        ),
        (
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[],\"error\" : {\"code\":null,\"type\":\"late\"}}\n\n",
            "late",
        ),
    ];
    for (text, wanted) in cases {
        assert_eq!(streamed(text).error.as_deref(), Some(wanted), "{text}");
    }
}

#[test]
fn an_answer_that_a_filter_withheld_is_marked() {
    let chunk = |finishes: &[&str]| {
        let choices: Vec<String> = finishes
            .iter()
            .map(|finish| format!("{{\"delta\":{{}},\"finish_reason\":\"{finish}\"}}"))
            .collect();
        format!("data: {{\"choices\":[{}]}}\n\n", choices.join(","))
    };
    for (stream, wanted) in [
        (chunk(&["stop"]), false),
        (chunk(&["length"]), false),
        (chunk(&["content_filter"]), true),
        (chunk(&["stop", "content_filter"]), true),
        (format!("{}{}", chunk(&["content_filter"]), chunk(&["stop"])), true),
        ("data: {\"candidates\":[{\"finishReason\":\"STOP\"},{\"finishReason\":\"SAFETY\"}]}\n\n".to_owned(), true),
        ("data: {\"promptFeedback\":{\"blockReason\":\"PROHIBITED_CONTENT\"},\"candidates\":[]}\n\n".to_owned(), true),
        ("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\"}}\n\n".to_owned(), true),
        ("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n".to_owned(), false),
    ] {
        assert_eq!(streamed(&stream).is_filtered, wanted, "{stream}");
    }
}

#[test]
fn a_finish_or_an_end_mark_completes_a_stream_and_nothing_else_does() {
    let content = "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"finish_reason\\\":\\\"stop\\\"\"},\"finish_reason\":null}],\"usage\":null}\n\n";
    let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\": \"stop\"}]}\n\n";
    let cut = streamed(content);
    assert!(!cut.is_complete() && cut.finish.is_none() && cut.content);
    let finished = streamed(&[content, finish].concat());
    assert!(finished.is_complete() && !finished.ended);
    assert_eq!(finished.finish.as_deref(), Some("stop"));
    assert!(streamed("data: [DONE]").ended);
    let chat = |text: &str| tapped(Operation::ChatCompletions, true, &[text.as_bytes()]);
    let marked = chat(&[content, "data: [DONE]\n\n"].concat());
    assert!(marked.is_complete_for(Operation::ChatCompletions) && marked.lacks_reason);
    assert!(!marked.is_complete_for(Operation::Messages), "its end always has a reason");
    for (text, is_complete) in
        [("data: [DONE]\n\n", false), (content, false), (&*[content, finish].concat(), true)]
    {
        let summary = chat(text);
        assert_eq!(summary.is_complete_for(Operation::ChatCompletions), is_complete, "{text}");
        assert!(!summary.lacks_reason, "{text}");
    }
    assert!(streamed("data: {\"type\":\"message_stop\"  }\n\n").ended);
    let incomplete = streamed(
        "data: {\"type\":\"response.incomplete\",\"response\":{\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}}}\n\n",
    );
    assert!(incomplete.ended);
    assert_eq!(incomplete.finish.as_deref(), Some("max_output_tokens"));
    // Anthropic's whole message in its first event, and a premature stop reason without content.
    let start = |content: &str| {
        streamed(&format!(
            "data: {{\"type\":\"message_start\",\"message\":{{\"content\":{content},\"stop_reason\":\"tool_use\"}}}}\n\n"
        ))
    };
    assert_eq!(start(r#"[{"type":"tool_use","name":"f","input":{}}]"#).finish.as_deref(), Some("tool_use"));
    assert_eq!(start("[]").finish, None);
}

/// Usage as input and output, model, finish, whether it is complete.
type Gist<'a> = (Option<(u64, u64)>, Option<&'a str>, Option<&'a str>, bool);

fn gist(summary: &ResponseSummary) -> Gist<'_> {
    let usage = summary.usage.map(|usage| (usage.input, usage.output));
    (usage, summary.model.as_deref(), summary.finish.as_deref(), summary.is_complete())
}

#[test]
fn native_responses_are_understood() {
    let gemini = r#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],
        "usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":2},"modelVersion":"g"}"#;
    let cases = [
        (gemini.to_owned(), (Some((3, 2)), Some("g"), Some("STOP"), true)),
        (format!("[{gemini}\n,\r\n{gemini}]"), (Some((3, 2)), Some("g"), Some("STOP"), true)),
        (
            r#"{"output":{"message":{"content":[{"text":"stopReason"}]}},"stopReason":"end_turn",
                "usage":{"inputTokens":3,"outputTokens":2,"totalTokens":5}}"#
                .to_owned(),
            (Some((3, 2)), None, Some("end_turn"), true),
        ),
        (
            r#"{"id":"c","finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":3,"output_tokens":2}}}"#
                .to_owned(),
            (Some((3, 2)), None, Some("COMPLETE"), true),
        ),
        (
            r#"{"embeddings":{},"meta":{"billed_units":{"input_tokens":3}}}"#.to_owned(),
            (Some((3, 0)), None, None, true),
        ),
        (
            r#"{"promptFeedback":{"blockReason":"OTHER"},"usageMetadata":{"promptTokenCount":3}}"#.to_owned(),
            (Some((3, 0)), None, Some("OTHER"), true),
        ),
    ];
    for (text, wanted) in &cases {
        let whole = tapped(Operation::Passthrough, false, &[text.as_bytes()]);
        assert_eq!(gist(&whole), *wanted, "{text}");
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(tapped(Operation::Passthrough, false, &bytes), whole, "byte by byte {text}");
    }
}

#[test]
fn native_streams_are_understood() {
    let gemini = concat!(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}],",
        "\"usageMetadata\":{\"promptTokenCount\":3},\"modelVersion\":\"g\"}\r\n\r\n",
        "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],",
        "\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":2}}\r\n\r\n",
    );
    assert_eq!(gist(&streamed(gemini)), (Some((3, 2)), Some("g"), Some("STOP"), true));
    let blocked = "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n";
    assert_eq!(gist(&streamed(blocked)), (None, None, Some("SAFETY"), true));
    let cohere = concat!(
        "event: content-delta\ndata: {\"type\":\"content-delta\",\"delta\":{}}\n\n",
        "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"COMPLETE\",",
        "\"usage\":{\"billed_units\":{\"input_tokens\":1},\"tokens\":{\"input_tokens\":3,\"output_tokens\":2}}}}\n\n",
    );
    assert_eq!(gist(&streamed(cohere)), (Some((3, 2)), None, Some("COMPLETE"), true));
}

/// Members of an object have no order, and some servers sort them.
#[test]
fn typed_events_are_understood_wherever_their_type_stands() {
    let responses = concat!(
        "data: {\"delta\":\"a\",\"type\":\"response.output_text.delta\"}\n\n",
        "data: {\"response\":{\"model\":\"g\",\"output\":[],\"status\":\"completed\",",
        "\"usage\":{\"input_tokens\":3,\"output_tokens\":2}},\"type\":\"response.completed\"}\n\n",
    );
    let summary = streamed(responses);
    assert_eq!(gist(&summary), (Some((3, 2)), Some("g"), Some("completed"), true));
    assert!(summary.ended && summary.content);
    let messages = concat!(
        "data: {\"message\":{\"content\":[],\"model\":\"g\",\"usage\":{\"input_tokens\":3}},\"type\":\"message_start\"}\n\n",
        "data: {\"delta\":{\"text\":\"a\",\"type\":\"text_delta\"},\"index\":0,\"type\":\"content_block_delta\"}\n\n",
        "data: {\"delta\":{\"stop_reason\":\"end_turn\"},\"type\":\"message_delta\",\"usage\":{\"output_tokens\":2}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );
    assert_eq!(gist(&streamed(messages)), (Some((3, 2)), Some("g"), Some("end_turn"), true));
    // An error without a member `error`, amid chunks.
    let failing = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"type\":\"error\",\"message\":\"no\"}\n\n";
    assert!(streamed(failing).error.is_some());
}

#[test]
fn opaque_bodies_report_only_their_first_byte() {
    let mut tap = Tap::new(Operation::Speech, false, false, None);
    assert!(!tap.push(b""));
    assert!(tap.push(b"\xff\xfb"));
    assert!(!tap.push(b"{\"usage\":{\"prompt_tokens\":1}}"));
    tap.finish();
    let wanted = ResponseSummary { content: true, is_unread: true, ..ResponseSummary::default() };
    assert_eq!(tap.summary(), &wanted);
}

#[test]
fn usage_at_the_end_of_a_large_response_is_found() {
    let image = "A".repeat(3 << 20);
    let text = format!(
        r#"{{"data":[{{"b64_json":"{image}"}}],"usage":{{"input_tokens":5,"output_tokens":7,"total_tokens":12}}}}"#
    );
    let chunks: Vec<&[u8]> = text.as_bytes().chunks(16 << 10).collect();
    let usage = tapped(Operation::Images, false, &chunks).usage.unwrap();
    assert_eq!((usage.input, usage.output, usage.total), (5, 7, 12));
}

#[test]
fn one_odd_member_does_not_cost_the_others() {
    let summary = streamed(
        "data: {\"model\":7,\"error\":null,\"choices\":[{\"delta\":\"x\"}],\"usage\":{\"prompt_tokens\":3}}\n\n",
    );
    assert_eq!(summary.usage.map(|usage| usage.input), Some(3));
    assert_eq!((summary.model, summary.error), (None, None));
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                prop::sample::select(vec![
                    "data: {", "}\n\n", "\"usage\":{", "\"error\":", "event: message_delta\n",
                    "\"choices\":[{", "\"delta\":{\"content\":\"", "{\"type\":\"", "[DONE]",
                ])
                .prop_map(|piece| piece.as_bytes().to_vec()),
            ],
            0..30,
        ),
        stream: bool,
    ) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let cut = tapped(Operation::Passthrough, stream, &pieces);
        prop_assert_eq!(tapped(Operation::Passthrough, stream, &[&pieces.concat()]), cut);
    }
}

const HOSTS: &[&str] = &[
    "api.openai.com",
    "api.groq.com",
    "api.mistral.ai",
    "openrouter.ai",
    "api.deepseek.com",
    "api.cerebras.ai",
    "router.huggingface.co",
    "api.z.ai",
    "api.anthropic.com",
];

#[derive(serde::Deserialize)]
struct Recording {
    id: String,
    host: String,
    uri: String,
    response: Value,
    sse: Option<String>,
}

fn recordings() -> Option<Vec<Recording>> {
    let path = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("SKIPPED: tap recordings: no recorded traffic beside this checkout");
        return None;
    };
    let all = text.lines().map(|line| serde_json::from_str::<Recording>(line).expect("a recording"));
    Some(all.filter(|recording| HOSTS.contains(&recording.host.as_str())).collect())
}

fn operation(uri: &str) -> Operation {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let ends = [
        ("/chat/completions", Operation::ChatCompletions),
        ("/messages", Operation::Messages),
        ("/responses", Operation::Responses),
        ("/embeddings", Operation::Embeddings),
    ];
    ends.iter()
        .find(|(end, _)| path.ends_with(end))
        .map_or(Operation::Passthrough, |(_, operation)| *operation)
}

/// The counts of a usage object, read in the simplest way.
fn expected_usage(usage: &Value) -> Option<Usage> {
    let number = |pointers: &[&str]| pointers.iter().find_map(|path| usage.pointer(path)?.as_u64());
    let value = |pointers: &[&str]| number(pointers).unwrap_or(0);
    number(&["/prompt_tokens", "/completion_tokens", "/input_tokens", "/output_tokens"])?;
    let cache_tokens = value(&["/cache_read_input_tokens"]) + value(&["/cache_creation_input_tokens"]);
    let input = value(&["/prompt_tokens", "/input_tokens"]) + cache_tokens;
    let output = value(&["/completion_tokens", "/output_tokens"]);
    let details = ["/prompt_tokens_details", "/input_tokens_details"];
    let nested = |name: &str| details.map(|parent| format!("{parent}/{name}"));
    let nested = |name: &str| value(&nested(name).each_ref().map(String::as_str));
    Some(Usage {
        input,
        output,
        total: number(&["/total_tokens"]).unwrap_or(input + output),
        cached: [
            nested("cached_tokens"),
            value(&["/cache_read_input_tokens"]),
            value(&["/num_cached_tokens", "/cached_tokens"]),
        ]
        .into_iter()
        .max()?,
        cache_write: nested("cache_write_tokens") + value(&["/cache_creation_input_tokens"]),
        reasoning: value(&[
            "/completion_tokens_details/reasoning_tokens",
            "/output_tokens_details/reasoning_tokens",
            "/output_tokens_details/thinking_tokens",
        ]),
        cache_write_1h: value(&["/cache_creation/ephemeral_1h_input_tokens"]),
        input_audio: nested("audio_tokens"),
        output_audio: value(&["/completion_tokens_details/audio_tokens"]),
        input_image: nested("image_tokens"),
        output_image: value(&["/completion_tokens_details/image_tokens"]),
        input_video: nested("video_tokens"),
        cached_audio: 0,
        cached_image: 0,
        web_searches: value(&[
            "/server_tool_use/web_search_requests",
            "/server_tool_use_details/web_search_requests",
        ]),
        rerank_searches: 0,
        characters: 0,
    })
}

/// Every event's data, parsed whole; `[DONE]` is null.
fn events(sse: &str) -> Vec<Value> {
    let data = sse.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap_or(Value::Null)).collect()
}

/// What a full parse of every event finds: usage, model, finish, whether there is an error.
fn full_parse(events: &[Value]) -> (Option<Usage>, Option<String>, Option<String>, bool) {
    let mut usage = serde_json::Map::new();
    let mut model = None;
    let mut finish = None;
    let mut error = false;
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    for event in events {
        for path in ["", "/message", "/response"] {
            let Some(object) = event.pointer(path) else { continue };
            usage.extend(object.get("usage").and_then(Value::as_object).cloned().into_iter().flatten());
            model = model.or_else(|| text(object.get("model")));
            error |= object.get("error").is_some_and(|error| !error.is_null());
        }
        let status = text(event.pointer("/response/status").or(event.get("status")));
        let ends = [
            text(event.pointer("/choices/0/finish_reason")),
            text(event.pointer("/delta/stop_reason")),
            text(event.get("stop_reason")),
            // One recording was made by hand and has the status `complete`, which the API does not have.
            status.filter(|status| ["completed", "incomplete", "failed"].contains(&status.as_str())),
        ];
        finish = ends.into_iter().flatten().next().or(finish);
    }
    (expected_usage(&Value::Object(usage)), model, finish, error)
}

/// The text in chunks of 1 to 97 bytes, the same ones for the same seed.
fn cut(text: &[u8], mut seed: u64) -> Vec<&[u8]> {
    let mut rest = text;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (chunk, after) = rest.split_at(rest.len().min(1 + (seed >> 33) as usize % 97));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

#[test]
fn recordings_are_summarized_as_by_a_full_parse() {
    let Some(recordings) = recordings() else { return };
    let mut streams = 0;
    let mut whole = 0;
    let mut with_usage = 0;
    for (seed, recording) in recordings.iter().enumerate() {
        let id = &recording.id;
        let operation = operation(&recording.uri);
        let (text, wanted) = match &recording.sse {
            Some(sse) => (sse.clone(), full_parse(&events(sse))),
            None => (recording.response.to_string(), full_parse(std::slice::from_ref(&recording.response))),
        };
        let streamed = recording.sse.is_some();
        let summary = tapped(operation, streamed, &[text.as_bytes()]);
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(tapped(operation, streamed, &bytes), summary, "{id} byte by byte");
        for seed in [seed, seed + 1000, seed + 2000] {
            let chunks = cut(text.as_bytes(), seed as u64);
            assert_eq!(tapped(operation, streamed, &chunks), summary, "{id} at random cuts");
        }

        assert_eq!(summary.usage, wanted.0, "{id}");
        assert_eq!(summary.model, wanted.1, "{id}");
        assert_eq!(summary.error.is_some(), wanted.3, "{id}");
        assert!(summary.content, "{id}");
        if streamed {
            streams += 1;
            assert_eq!(summary.finish, wanted.2, "{id}");
            assert_eq!(summary.events as usize, events(&text).len(), "{id}");
            // The two streams that break off with an error are Groq's.
            assert_eq!(summary.ended, !text.contains("event: error\n"), "{id}");
        } else {
            whole += 1;
            assert!(summary.ended, "{id}");
            if operation != Operation::Passthrough {
                assert_eq!(summary.finish, wanted.2, "{id}");
            }
        }
        with_usage += usize::from(summary.usage.is_some());
    }
    eprintln!("{streams} streams and {whole} whole responses, {with_usage} of them with usage");
    assert!(streams > 0 && whole > 0);
}
