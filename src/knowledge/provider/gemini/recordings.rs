//! Decodes Gemini's recorded responses (whole, byte by byte, at odd cuts) and compares the result with the
//! recordings.
//!
//! The expected values are read from the JSON without the decoder's own types: only that makes the comparison
//! worthwhile.

use super::decoder::GeminiDecoder;
use crate::provider::translation::Translation;
use serde_json::Value;
use std::path::Path;
use words::api::chat::response::{ChatResponse, ContentPart};
use words::api::chat::{Decoder, Event, Finish};
use words::api::operation::Operation;
use words::api::tap::Tap;

/// The content of a response, by either reading.
#[derive(Debug, Default, PartialEq)]
struct Observed {
    text: String,
    reasoning: String,
    /// Name, arguments, signature.
    calls: Vec<(String, Value, Option<String>)>,
    /// Signatures outside of calls and blocks.
    signatures: Vec<String>,
    blocks: usize,
    finish: Option<String>,
    /// Input, output, total, cached, reasoning, audio input.
    usage: Option<[u64; 6]>,
    model: Option<String>,
    id: Option<String>,
    error: Option<(u16, String)>,
}

fn decoded(bytes: &[u8], streamed: bool, size: usize) -> Observed {
    let mut decoder = GeminiDecoder::new(streamed);
    let mut response = ChatResponse::default();
    let mut observed = Observed::default();
    let mut finishes = 0;
    let mut take = |event: Event<'_>| {
        assert!(observed.error.is_none(), "an event after the error: {event:?}");
        match event {
            Event::Error(error) => observed.error = Some((error.status, error.message.clone())),
            Event::Signature { signature, .. } => observed.signatures.push(signature.to_owned()),
            Event::Finish { .. } => finishes += 1,
            _ => {}
        }
        response.apply(&event);
    };
    for chunk in bytes.chunks(size) {
        decoder.push(chunk, &mut take);
    }
    decoder.finish(&mut take);
    assert!(finishes <= 1);
    observed.model = response.model;
    observed.id = response.id;
    let usage = response.usage;
    observed.usage = usage.map(|usage| {
        [usage.input, usage.output, usage.total, usage.cached, usage.reasoning, usage.input_audio]
    });
    assert!(response.choices.len() <= 1);
    let Some(choice) = response.choices.first() else { return observed };
    observed.text = choice.text().unwrap_or_default();
    observed.reasoning = choice.reasoning().unwrap_or_default();
    observed.finish = choice.finish.as_ref().map(|(_, native)| native.clone());
    for part in &choice.parts {
        match part {
            ContentPart::ToolCall { name, arguments, signature, .. } => {
                let arguments = serde_json::from_str(arguments).unwrap();
                observed.calls.push((name.clone(), arguments, signature.clone()));
            }
            ContentPart::Block(json) => {
                assert!(serde_json::from_str::<Value>(json).unwrap()["type"].is_string());
                observed.blocks += 1;
            }
            _ => {}
        }
    }
    observed
}

/// The tap must observe the same in a response that passes through as the decoder emits.
fn check_tap(bytes: &[u8], streamed: bool, wanted: &Observed, id: &str) {
    for size in [bytes.len(), 7] {
        let mut tap = Tap::new(Operation::Passthrough, streamed, !streamed, Some(bytes.len()));
        for chunk in bytes.chunks(size) {
            tap.push(chunk);
        }
        tap.finish();
        let summary = tap.summary();
        let usage = summary.usage.map(|usage| {
            [usage.input, usage.output, usage.total, usage.cached, usage.reasoning, usage.input_audio]
        });
        assert_eq!(usage, wanted.usage, "{id}: tapped");
        assert_eq!((&summary.model, &summary.finish), (&wanted.model, &wanted.finish), "{id}: tapped");
        assert!(summary.content && summary.is_complete(), "{id}: tapped");
    }
}

/// What a client of Gemini's dialect gets where the response is decoded and encoded again must say the same.
fn check_encoded_again(bytes: &[u8], is_stream: bool, wanted: &Observed, id: &str) {
    for streams in [false, true] {
        let operation = if streams { Operation::StreamGenerateContent } else { Operation::GenerateContent };
        let own = Translation::own_dialect(operation, "google", "m", true, None).unwrap();
        let mut rewriter = own.rewriter(is_stream, "made", 0);
        let mut out = Vec::new();
        rewriter.push(bytes, &mut out);
        rewriter.finish(&mut out);
        assert!(rewriter.is_complete() && rewriter.error().is_none(), "{id}");
        let mut again = decoded(&out, streams, out.len());
        // A blocked prompt is a candidate without content then, whose refusal has become its text.
        let is_empty = wanted.text.is_empty() && wanted.calls.is_empty() && wanted.blocks == 0;
        if is_empty && wanted.finish.as_deref() != Some("STOP") {
            again.text.clear();
            again.finish.clone_from(&wanted.finish);
        }
        // Not in the dialect of other providers, so not in the neutral form: which input was audio.
        if let (Some(again), Some(wanted)) = (&mut again.usage, &wanted.usage) {
            again[5] = wanted[5];
        }
        assert_eq!(again, *wanted, "{id}: encoded again, streamed: {streams}");
    }
}

fn recorded(chunks: &[Value]) -> Observed {
    let mut observed = Observed::default();
    for chunk in chunks {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        observed.model = observed.model.or_else(|| text(&chunk["modelVersion"]));
        observed.id = observed.id.or_else(|| text(&chunk["responseId"]));
        if let Some(usage) = usage(&chunk["usageMetadata"]) {
            observed.usage = Some(usage);
        }
        if chunk["promptFeedback"]["blockReason"].is_string() {
            observed.finish = text(&chunk["promptFeedback"]["blockReason"]);
        }
        let Some(candidate) = chunk["candidates"].get(0) else { continue };
        observed.finish = text(&candidate["finishReason"]).or(observed.finish);
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            let signature = text(&part["thoughtSignature"]);
            if part["functionCall"].is_object() {
                let call = &part["functionCall"];
                let args = if call["args"].is_null() { serde_json::json!({}) } else { call["args"].clone() };
                observed.calls.push((text(&call["name"]).unwrap(), args, signature));
                continue;
            }
            match part["text"].as_str() {
                Some(text) if part["thought"] == true => observed.reasoning.push_str(text),
                Some(text) => observed.text.push_str(text),
                None => {
                    observed.blocks += 1;
                    continue;
                }
            }
            observed.signatures.extend(signature);
        }
    }
    observed
}

fn usage(counts: &Value) -> Option<[u64; 6]> {
    let count = |name: &str| counts[name].as_u64().unwrap_or_default();
    counts["totalTokenCount"].as_u64()?;
    let audio = counts["promptTokensDetails"].as_array().into_iter().flatten();
    let audio =
        audio.filter(|share| share["modality"] == "AUDIO").filter_map(|share| share["tokenCount"].as_u64());
    let input = count("promptTokenCount") + count("toolUsePromptTokenCount");
    let output = count("candidatesTokenCount") + count("thoughtsTokenCount");
    assert_eq!(input + output, count("totalTokenCount"), "{counts}");
    Some([
        input,
        output,
        count("totalTokenCount"),
        count("cachedContentTokenCount"),
        count("thoughtsTokenCount"),
        audio.sum(),
    ])
}

#[test]
fn recorded_responses_are_decoded_faithfully() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        return eprintln!("SKIPPED: gemini recordings: no recorded traffic beside this checkout");
    };
    let [mut whole, mut streamed, mut failed] = [0; 3];
    for line in text.lines() {
        let recording: Value = serde_json::from_str(line).unwrap();
        let [host, uri] = ["host", "uri"].map(|name| recording[name].as_str().unwrap());
        if !host.ends_with("googleapis.com") || !uri.to_ascii_lowercase().contains("generatecontent") {
            continue;
        }
        let id = recording["id"].as_str().unwrap();
        let status = recording["status"].as_u64().unwrap();
        if status >= 400 {
            let error = words::api::chat::ProviderError::read(
                u16::try_from(status).unwrap(),
                recording["response"].to_string().as_bytes(),
            );
            assert_eq!(error.message, recording["response"]["error"]["message"].as_str().unwrap());
            assert_eq!(error.kind.as_deref(), recording["response"]["error"]["status"].as_str());
            failed += 1;
            continue;
        }
        let (bytes, chunks, is_stream) = match recording["sse"].as_str() {
            Some(sse) => {
                let data = sse.lines().filter_map(|line| line.strip_prefix("data: "));
                let chunks = data.map(|data| serde_json::from_str(data).unwrap()).collect();
                (sse.as_bytes().to_vec(), chunks, true)
            }
            None => {
                let response = &recording["response"];
                (response.to_string().into_bytes(), vec![response.clone()], false)
            }
        };
        let wanted = recorded(&chunks);
        assert!(wanted.finish.is_some(), "{id}");
        assert_eq!(decoded(&bytes, is_stream, bytes.len()), wanted, "{id}");
        check_tap(&bytes, is_stream, &wanted, id);
        check_encoded_again(&bytes, is_stream, &wanted, id);
        for size in [1, 7, 61, 4096] {
            assert_eq!(decoded(&bytes, is_stream, size), wanted, "{id}: chunks of {size}");
        }
        if is_stream {
            // What `streamGenerateContent` sends without `alt=sse`, with either content type.
            let list = serde_json::to_vec_pretty(&chunks).unwrap();
            check_tap(&list, false, &wanted, id);
            assert_eq!(decoded(&list, true, 5), wanted, "{id}: as a list");
            assert_eq!(decoded(&list, false, 500), wanted, "{id}: as a list");
            // Cut before its last event, the stream has no finish.
            let cut = bytes.len() - bytes.rsplit(|byte| *byte == b'{').count().min(40) - 40;
            let text = &bytes[..cut];
            let last = text.windows(6).rposition(|bytes| bytes == b"data: ").unwrap();
            assert_eq!(decoded(&bytes[..last], true, 100).finish, None, "{id}: cut short");
            streamed += 1;
        } else {
            whole += 1;
        }
    }
    eprintln!("gemini recordings: {whole} whole, {streamed} streamed, {failed} failures");
    assert!(whole > 190 && streamed > 10 && failed > 0, "{whole} {streamed} {failed}");
}

fn events(bytes: &[u8], streamed: bool) -> Vec<String> {
    let mut decoder = GeminiDecoder::new(streamed);
    let mut log = Vec::new();
    decoder.push(bytes, &mut |event| log.push(format!("{event:?}")));
    decoder.finish(&mut |event| log.push(format!("{event:?}")));
    log
}

#[test]
fn broken_responses_end_in_an_error() {
    let error = r#"{"error":{"code":503,"message":"Overloaded.","status":"UNAVAILABLE"}}"#;
    let start = r#"{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}"#;
    for (bytes, streamed, status, message) in [
        (format!("data: {start}\r\n\r\ndata: {error}\r\n\r\n"), true, 503, "Overloaded."),
        (format!("[{start},\n{error}]"), true, 503, "Overloaded."),
        (error.to_owned(), false, 503, "Overloaded."),
        (error.to_owned(), true, 503, "Overloaded."),
        (format!("data: {start}\n\ndata: {{\"cand\n\n"), true, 502, "The provider's answer cannot be read"),
        ("<html>bad gateway</html>".to_owned(), false, 502, "The provider's answer cannot be read"),
        (r#"{"usageMetadata":{"totalTokenCount":3}}"#.to_owned(), false, 502, "The provider's answer cannot"),
        (String::new(), false, 502, "The provider's answer cannot be read"),
        (format!("[{start},"), false, 502, "The provider's answer cannot be read"),
    ] {
        let log = events(bytes.as_bytes(), streamed);
        let last = log.last().unwrap();
        assert!(
            last.starts_with(&format!("Error(ProviderError {{ status: {status}, message: \"{message}")),
            "{bytes}: {log:?}"
        );
        assert!(!log.iter().any(|event| event.starts_with("Finish")), "{log:?}");
    }
    // An empty stream, or one that just stops: not the decoder's business.
    assert_eq!(events(b"", true), Vec::<String>::new());
    assert!(
        !events(format!("data: {start}\n\n").as_bytes(), true).iter().any(|event| event.starts_with("F"))
    );
}

#[test]
fn a_finish_in_every_chunk_is_emitted_once_and_last() {
    let chunk = |text: &str| {
        format!(
            r#"data: {{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}},"finishReason":"STOP"}}]}}"#
        )
    };
    let log = events([chunk("a"), chunk("b"), String::new()].join("\n\n").as_bytes(), true);
    let at = |start: &str| log.iter().position(|event| event.starts_with(start)).unwrap();
    assert_eq!(log.iter().filter(|event| event.starts_with("Finish")).count(), 1);
    assert!(at("Finish") > at(r#"Text { choice: 0, text: "b" }"#));
    assert_eq!(log.last().unwrap(), "End");
}

#[test]
fn a_blocked_prompt_is_a_refusal() {
    let log = events(br#"{"promptFeedback":{"blockReason":"OTHER"}}"#, false);
    assert!(log.iter().any(|event| event.contains("The prompt was blocked by Google: OTHER.")), "{log:?}");
    let finish = format!("{:?}", Event::Finish { choice: 0, reason: Finish::ContentFilter, native: "OTHER" });
    assert!(log.contains(&finish), "{log:?}");
}

#[test]
fn a_failed_turn_without_content_is_a_failure() {
    let candidate = |content: &str, reason: &str, index: usize| {
        format!(
            r#"{{"content":{{"parts":[{content}]}},"finishReason":"{reason}","finishMessage":"Why {reason}","index":{index}}}"#
        )
    };
    let response = |candidates: &[String]| format!(r#"{{"candidates":[{}]}}"#, candidates.join(","));
    let both_ways =
        |json: &str| [events(json.as_bytes(), false), events(format!("data: {json}\n\n").as_bytes(), true)];
    let error = |log: &[String]| log.last().filter(|event| event.starts_with("Error(")).cloned();
    for reason in [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "NO_IMAGE",
        "OTHER",
        "ADDED_LATER",
    ] {
        for content in ["", r#"{"text":"hm","thought":true}"#] {
            for log in both_ways(&response(&[candidate(content, reason, 0)])) {
                let error = error(&log).unwrap();
                assert!(error.contains("status: 502"), "{error}");
                assert!(error.contains(&format!("message: \"Why {reason}\"")), "{error}");
                assert!(error.contains(&format!("code: Some(\"{reason}\")")), "{error}");
                assert!(!log.iter().any(|event| event.starts_with("Finish")), "{log:?}");
            }
        }
        let call = r#"{"functionCall":{"name":"f","args":{}}}"#;
        for candidates in [
            vec![candidate(r#"{"text":"hi"}"#, reason, 0)],
            vec![candidate(call, reason, 0)],
            vec![candidate("", reason, 0), candidate(r#"{"text":"hi"}"#, "STOP", 1)],
        ] {
            for log in both_ways(&response(&candidates)) {
                assert_eq!(log.last().unwrap(), "End", "{log:?}");
            }
        }
    }
    for reason in ["STOP", "MAX_TOKENS", "LANGUAGE"] {
        for log in both_ways(&response(&[candidate("", reason, 0)])) {
            assert_eq!(log.last().unwrap(), "End", "{reason}: {log:?}");
        }
    }
    let [log, _] = both_ways(r#"{"candidates":[{"finishReason":"OTHER"}]}"#);
    assert!(error(&log).unwrap().contains("The model's turn failed (OTHER)."), "{log:?}");
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>, streamed: bool) {
        events(&bytes, streamed);
    }

    #[test]
    fn any_json_is_survived(text in r#"(\{|\}|\[|\]|"candidates":|"content":|"parts":|"text":|"index":|"a"|1|-1|99999999999|null|,|data: |\n)*"#) {
        events(text.as_bytes(), true);
        events(text.as_bytes(), false);
    }
}
