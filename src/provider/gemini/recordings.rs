//! Gemini's recorded answers, read whole, byte by byte and at odd cuts, held against what the recordings say.
//!
//! What they say is read here from the JSON, not with the reader's own types: that is what makes it worth
//! comparing.

use super::reader::GeminiReader;
use crate::api::chat::answer::{ChatResponse, ContentPart};
use crate::api::chat::{Decoder, Event, Finish};
use crate::api::operation::Operation;
use crate::api::tap::Tap;
use serde_json::Value;
use std::path::Path;

/// What an answer tells, by both readings.
#[derive(Debug, Default, PartialEq)]
struct Told {
    text: String,
    reasoning: String,
    /// Name, arguments, seal.
    calls: Vec<(String, Value, Option<String>)>,
    /// Seals on anything but calls and blocks.
    seals: Vec<String>,
    blocks: usize,
    finish: Option<String>,
    /// Input, output, total, cached, reasoning, audio in.
    usage: Option<[u64; 6]>,
    model: Option<String>,
    id: Option<String>,
    error: Option<(u16, String)>,
}

fn told_by_reader(bytes: &[u8], streamed: bool, size: usize) -> Told {
    let mut reader = GeminiReader::new(streamed);
    let (mut answer, mut told) = (ChatResponse::default(), Told::default());
    let mut finishes = 0;
    let mut take = |event: Event<'_>| {
        assert!(told.error.is_none(), "told after the error: {event:?}");
        match event {
            Event::Error(fault) => told.error = Some((fault.status, fault.message.clone())),
            Event::Signature { signature, .. } => told.seals.push(signature.to_owned()),
            Event::Finish { .. } => finishes += 1,
            _ => {}
        }
        answer.apply(&event);
    };
    for piece in bytes.chunks(size) {
        reader.push(piece, &mut take);
    }
    reader.finish(&mut take);
    assert!(finishes <= 1);
    told.model = answer.model;
    told.id = answer.id;
    let usage = answer.usage;
    told.usage = usage.map(|usage| {
        [usage.input, usage.output, usage.total, usage.cached, usage.reasoning, usage.input_audio]
    });
    assert!(answer.choices.len() <= 1);
    let Some(choice) = answer.choices.first() else { return told };
    told.text = choice.text().unwrap_or_default();
    told.reasoning = choice.reasoning().unwrap_or_default();
    told.finish = choice.finish.as_ref().map(|(_, native)| native.clone());
    for piece in &choice.parts {
        match piece {
            ContentPart::ToolCall { name, arguments, signature, .. } => {
                let arguments = serde_json::from_str(arguments).unwrap();
                told.calls.push((name.clone(), arguments, signature.clone()));
            }
            ContentPart::Block(json) => {
                assert!(serde_json::from_str::<Value>(json).unwrap()["type"].is_string());
                told.blocks += 1;
            }
            _ => {}
        }
    }
    told
}

/// What the tap learns of an answer that passes as it came is what the reader tells of it.
fn check_tap(bytes: &[u8], streamed: bool, wanted: &Told, id: &str) {
    for size in [bytes.len(), 7] {
        let mut tap = Tap::new(Operation::Proxy, streamed, !streamed, Some(bytes.len()));
        for piece in bytes.chunks(size) {
            tap.push(piece);
        }
        tap.finish();
        let learned = tap.learned();
        let usage = learned.usage.map(|usage| {
            [usage.input, usage.output, usage.total, usage.cached, usage.reasoning, usage.input_audio]
        });
        assert_eq!(usage, wanted.usage, "{id}: tapped");
        assert_eq!((&learned.model, &learned.finish), (&wanted.model, &wanted.finish), "{id}: tapped");
        assert!(learned.content && learned.is_complete(), "{id}: tapped");
    }
}

fn told_by_recording(chunks: &[Value]) -> Told {
    let mut told = Told::default();
    for chunk in chunks {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        told.model = told.model.or_else(|| text(&chunk["modelVersion"]));
        told.id = told.id.or_else(|| text(&chunk["responseId"]));
        if let Some(usage) = usage(&chunk["usageMetadata"]) {
            told.usage = Some(usage);
        }
        if chunk["promptFeedback"]["blockReason"].is_string() {
            told.finish = text(&chunk["promptFeedback"]["blockReason"]);
        }
        let Some(candidate) = chunk["candidates"].get(0) else { continue };
        told.finish = text(&candidate["finishReason"]).or(told.finish);
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            let seal = text(&part["thoughtSignature"]);
            if part["functionCall"].is_object() {
                let call = &part["functionCall"];
                let args = if call["args"].is_null() { serde_json::json!({}) } else { call["args"].clone() };
                told.calls.push((text(&call["name"]).unwrap(), args, seal));
                continue;
            }
            match part["text"].as_str() {
                Some(text) if part["thought"] == true => told.reasoning.push_str(text),
                Some(text) => told.text.push_str(text),
                None => {
                    told.blocks += 1;
                    continue;
                }
            }
            told.seals.extend(seal);
        }
    }
    told
}

fn usage(told: &Value) -> Option<[u64; 6]> {
    let count = |name: &str| told[name].as_u64().unwrap_or_default();
    told["totalTokenCount"].as_u64()?;
    let audio = told["promptTokensDetails"].as_array().into_iter().flatten();
    let audio =
        audio.filter(|share| share["modality"] == "AUDIO").filter_map(|share| share["tokenCount"].as_u64());
    let input = count("promptTokenCount") + count("toolUsePromptTokenCount");
    let output = count("candidatesTokenCount") + count("thoughtsTokenCount");
    assert_eq!(input + output, count("totalTokenCount"), "{told}");
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
fn recorded_answers_are_told_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/traffic/recorded.jsonl");
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
            let fault = crate::api::chat::ProviderError::read(
                u16::try_from(status).unwrap(),
                recording["response"].to_string().as_bytes(),
            );
            assert_eq!(fault.message, recording["response"]["error"]["message"].as_str().unwrap());
            assert_eq!(fault.kind.as_deref(), recording["response"]["error"]["status"].as_str());
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
        let wanted = told_by_recording(&chunks);
        assert!(wanted.finish.is_some(), "{id}");
        assert_eq!(told_by_reader(&bytes, is_stream, bytes.len()), wanted, "{id}");
        check_tap(&bytes, is_stream, &wanted, id);
        for size in [1, 7, 61, 4096] {
            assert_eq!(told_by_reader(&bytes, is_stream, size), wanted, "{id}: pieces of {size}");
        }
        if is_stream {
            // As `streamGenerateContent` sends it without `alt=sse`, under either content type.
            let list = serde_json::to_vec_pretty(&chunks).unwrap();
            check_tap(&list, false, &wanted, id);
            assert_eq!(told_by_reader(&list, true, 5), wanted, "{id}: as a list");
            assert_eq!(told_by_reader(&list, false, 500), wanted, "{id}: as a list");
            // Cut before its last event, it has no finish.
            let cut = bytes.len() - bytes.rsplit(|byte| *byte == b'{').count().min(40) - 40;
            let text = &bytes[..cut];
            let last = text.windows(6).rposition(|bytes| bytes == b"data: ").unwrap();
            assert_eq!(told_by_reader(&bytes[..last], true, 100).finish, None, "{id}: cut short");
            streamed += 1;
        } else {
            whole += 1;
        }
    }
    eprintln!("gemini recordings: {whole} whole, {streamed} streamed, {failed} failures");
    assert!(whole > 190 && streamed > 10 && failed > 0, "{whole} {streamed} {failed}");
}

fn events(bytes: &[u8], streamed: bool) -> Vec<String> {
    let mut reader = GeminiReader::new(streamed);
    let mut told = Vec::new();
    reader.push(bytes, &mut |event| told.push(format!("{event:?}")));
    reader.finish(&mut |event| told.push(format!("{event:?}")));
    told
}

#[test]
fn what_breaks_is_told() {
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
        let told = events(bytes.as_bytes(), streamed);
        let last = told.last().unwrap();
        assert!(
            last.starts_with(&format!("Error(Fault {{ status: {status}, message: \"{message}")),
            "{bytes}: {told:?}"
        );
        assert!(!told.iter().any(|event| event.starts_with("Finish")), "{told:?}");
    }
    // Nothing at all, and a stream that only stops: not for the reader to say.
    assert_eq!(events(b"", true), Vec::<String>::new());
    assert!(
        !events(format!("data: {start}\n\n").as_bytes(), true).iter().any(|event| event.starts_with("F"))
    );
}

#[test]
fn a_finish_in_every_chunk_is_told_once_and_last() {
    let chunk = |text: &str| {
        format!(
            r#"data: {{"candidates":[{{"content":{{"parts":[{{"text":"{text}"}}]}},"finishReason":"STOP"}}]}}"#
        )
    };
    let told = events([chunk("a"), chunk("b"), String::new()].join("\n\n").as_bytes(), true);
    let at = |start: &str| told.iter().position(|event| event.starts_with(start)).unwrap();
    assert_eq!(told.iter().filter(|event| event.starts_with("Finish")).count(), 1);
    assert!(at("Finish") > at(r#"Text { choice: 0, text: "b" }"#));
    assert_eq!(told.last().unwrap(), "End");
}

#[test]
fn a_blocked_prompt_is_a_refusal() {
    let told = events(br#"{"promptFeedback":{"blockReason":"OTHER"}}"#, false);
    assert!(told.iter().any(|event| event.contains("The prompt was blocked by Google: OTHER.")), "{told:?}");
    let finish = format!("{:?}", Event::Finish { choice: 0, reason: Finish::ContentFilter, native: "OTHER" });
    assert!(told.contains(&finish), "{told:?}");
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
