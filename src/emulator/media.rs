//! Images, speech, transcriptions, moderations and rerank: small responses of the right shape.

use super::batches::merge;
use super::call::Call;
use super::multipart::Form;
use super::reply::{ApiError, Dialect, Reply};
use super::sample_text;
use super::state::now;
use bytes::Bytes;
use http::HeaderValue;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashSet;

/// A PNG of one transparent pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[derive(Deserialize)]
struct ImageRequest {
    model: Option<String>,
    prompt: Option<String>,
    n: Option<usize>,
    response_format: Option<String>,
}

pub(super) fn images(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: ImageRequest = call.read(Dialect::OpenAi)?;
    // OpenAI does not require a model here.
    let (_, script) = call.model(request.model.as_deref().or(Some("emulator")), Dialect::OpenAi)?;
    let prompt = request.prompt.ok_or_else(|| ApiError::missing("prompt"))?;
    let as_url = request.response_format.as_deref() == Some("url");
    Ok(pictures(request.n, as_url, &prompt)?.scripted(script))
}

pub(super) fn image_edits(_: &Call<'_>, form: &Form) -> Result<Reply, ApiError> {
    form.field("image").or_else(|| form.field("image[]")).ok_or_else(|| ApiError::missing("image"))?;
    let as_url = form.text("response_format") == Some("url");
    pictures(form.text("n").and_then(|n| n.parse().ok()), as_url, form.text("prompt").unwrap_or_default())
}

fn pictures(n: Option<usize>, as_url: bool, prompt: &str) -> Result<Reply, ApiError> {
    let n = n.unwrap_or(1);
    if n == 0 || n > 10 {
        return Err(ApiError::invalid("n", "Invalid value for 'n': expected a number from 1 to 10."));
    }
    let picture =
        if as_url { json!({"url": "https://example.com/fox.png"}) } else { json!({"b64_json": PNG}) };
    let input = sample_text::count(prompt);
    Ok(Reply::value(&json!({
        "created": now(), "data": vec![picture; n], "size": "1024x1024", "quality": "low",
        "output_format": "png", "background": "transparent",
        "usage": {
            "input_tokens": input, "output_tokens": 16, "total_tokens": input + 16,
            "input_tokens_details": {"text_tokens": input, "image_tokens": 0},
        },
    })))
}

#[derive(Deserialize)]
struct SpeechRequest {
    model: Option<String>,
    input: Option<String>,
    voice: Option<Value>,
    response_format: Option<String>,
}

/// Bytes that are not valid text, about as many as speech of that length would have.
pub(super) fn speech(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: SpeechRequest = call.read(Dialect::OpenAi)?;
    let (_, script) = call.model(request.model.as_deref(), Dialect::OpenAi)?;
    let input = request.input.ok_or_else(|| ApiError::missing("input"))?;
    request.voice.ok_or_else(|| ApiError::missing("voice"))?;
    let kind = match request.response_format.as_deref() {
        None | Some("mp3") => "audio/mpeg",
        Some("opus") => "audio/ogg",
        Some("aac") => "audio/aac",
        Some("flac") => "audio/flac",
        Some("wav") => "audio/wav",
        Some("pcm") => "audio/pcm",
        Some(_) => return Err(ApiError::invalid("response_format", "No such audio format.")),
    };
    let mut sound = b"ID3\x04\0\0\0\0\0\0".to_vec();
    let length = 1000 + input.len().min(4096) * 100;
    sound.extend((0..length as u64).map(|place| sample_text::scramble(place) as u8));
    Ok(Reply::whole(HeaderValue::from_static(kind), Bytes::from(sound)).scripted(script))
}

pub(super) fn transcribe(call: &Call<'_>, form: &Form) -> Result<Reply, ApiError> {
    let file = form.field("file").ok_or_else(|| ApiError::missing("file"))?;
    let (_, script) = call.model(form.text("model"), Dialect::OpenAi)?;
    let text = sample_text::prose(script.tokens.unwrap_or(10));
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    let reply = match form.text("response_format") {
        Some("text") => Reply::whole(plain, Bytes::from(text + "\n")),
        Some("srt") => {
            Reply::whole(plain, Bytes::from(format!("1\n00:00:00,000 --> 00:00:04,000\n{text}\n")))
        }
        Some("verbose_json") => Reply::value(&json!({
            "task": "transcribe", "language": "english", "duration": 4.0, "text": text, "segments": [],
        })),
        _ => Reply::value(&json!({
            "text": text, "usage": {"type": "duration", "seconds": 1 + file.length / 16_000},
        })),
    };
    Ok(reply.scripted(script))
}

#[derive(Deserialize)]
struct ModerationRequest {
    model: Option<String>,
    input: Option<Value>,
}

/// Flags input that contains "kill", as violence.
pub(super) fn moderate(call: &Call<'_>) -> Result<Reply, ApiError> {
    const KINDS: [&str; 13] = [
        "harassment",
        "harassment/threatening",
        "hate",
        "hate/threatening",
        "illicit",
        "illicit/violent",
        "self-harm",
        "self-harm/instructions",
        "self-harm/intent",
        "sexual",
        "sexual/minors",
        "violence",
        "violence/graphic",
    ];
    let request: ModerationRequest = call.read(Dialect::OpenAi)?;
    let model = request.model.as_deref().or(Some("omni-moderation-latest"));
    let (model, script) = call.model(model, Dialect::OpenAi)?;
    let input = request.input.ok_or_else(|| ApiError::missing("input"))?;
    let inputs = match input {
        Value::Array(inputs) => inputs,
        input => vec![input],
    };
    let classify = |input: &Value| {
        let flagged = input.to_string().to_lowercase().contains("kill");
        let violent = |kind: &str| flagged && kind == "violence";
        let by_kind = |member_value: &dyn Fn(&str) -> Value| {
            Value::Object(KINDS.iter().map(|kind| ((*kind).to_owned(), member_value(kind))).collect())
        };
        json!({
            "flagged": flagged,
            "categories": by_kind(&|kind| violent(kind).into()),
            "category_scores": by_kind(&|kind| if violent(kind) { json!(0.98) } else { json!(0.0001) }),
            "category_applied_input_types": by_kind(&|_| json!(["text"])),
        })
    };
    let results: Vec<Value> = inputs.iter().map(classify).collect();
    let response = json!({"id": call.state.id("modr-", 29), "model": model, "results": results});
    Ok(Reply::value(&response).scripted(script))
}

#[derive(Deserialize)]
struct RerankRequest {
    model: Option<String>,
    query: Option<String>,
    documents: Option<Vec<Value>>,
    top_n: Option<usize>,
    return_documents: Option<bool>,
}

/// Scores each document by the share of the query's words it contains.
pub(super) fn rerank(call: &Call<'_>) -> Result<Reply, ApiError> {
    let request: RerankRequest = call.read(Dialect::OpenAi)?;
    let (model, script) = call.model(request.model.as_deref(), Dialect::OpenAi)?;
    let query = request.query.ok_or_else(|| ApiError::missing("query"))?;
    let documents = request.documents.ok_or_else(|| ApiError::missing("documents"))?;
    let terms = |text: &str| -> HashSet<String> {
        let split = text.split(|letter: char| !letter.is_alphanumeric());
        split.filter(|term| !term.is_empty()).map(str::to_lowercase).collect()
    };
    let wanted = terms(&query);
    let mut scored: Vec<(usize, f64)> = documents
        .iter()
        .enumerate()
        .map(|(index, document)| {
            let shared = terms(&document.to_string()).intersection(&wanted).count();
            (index, shared as f64 / wanted.len().max(1) as f64)
        })
        .collect();
    scored.sort_by(|one, other| other.1.total_cmp(&one.1));
    let results: Vec<Value> = scored
        .into_iter()
        .take(request.top_n.unwrap_or(usize::MAX))
        .map(|(index, score)| {
            let mut result = json!({"index": index, "relevance_score": score});
            if let (Some(true), Some(document)) = (request.return_documents, documents.get(index)) {
                let document =
                    if document.is_string() { json!({"text": document}) } else { document.clone() };
                merge(&mut result, &json!({"document": document}));
            }
            result
        })
        .collect();
    let response = json!({
        "id": call.state.id("rerank-", 24), "model": model, "results": results,
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
    });
    Ok(Reply::value(&response).scripted(script))
}
