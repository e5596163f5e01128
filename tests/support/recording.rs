//! Recorded exchanges with real providers, from a file beside the checkout, and the tokens they report.
//!
//! Deliberately not parsed with the gateway's or the emulator's code: a test using that would not notice its
//! bugs.

use base64::Engine;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::path::PathBuf;

/// One exchange.
pub(crate) struct Recording {
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) method: String,
    /// Path and query, without the host.
    pub(crate) path: String,
    /// The request body as JSON text, if it was recorded.
    pub(crate) request: Option<String>,
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Bytes,
    pub(crate) streamed: bool,
}

#[derive(Deserialize)]
struct Line<'a> {
    id: String,
    host: String,
    method: String,
    uri: String,
    status: u16,
    content_type: Option<String>,
    #[serde(borrow)]
    request: Option<&'a RawValue>,
    response: Option<&'a RawValue>,
    sse: Option<String>,
    event_stream_b64: Option<String>,
}

/// The file of recordings; `None` if it is not beside the checkout.
pub(crate) fn file() -> Option<PathBuf> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/traffic/recorded.jsonl");
    file.exists().then_some(file)
}

/// All recordings, in the file's order.
pub(crate) fn all(text: &str) -> Vec<Recording> {
    text.lines().map(read).collect()
}

fn read(line: &str) -> Recording {
    let line: Line<'_> = serde_json::from_str(line).unwrap();
    let decode = |text: &String| base64::engine::general_purpose::STANDARD.decode(text).unwrap();
    let bytes = line.event_stream_b64.as_ref().map(decode);
    let streamed = line.sse.is_some() || bytes.is_some();
    let whole = line.response.map(|json| json.get().as_bytes().to_vec());
    let body = line.sse.map(String::into_bytes).or(bytes).or(whole).unwrap_or_default();
    let (_, rest) = line.uri.split_once("://").unwrap();
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    let path = path.split('#').next().unwrap_or_default();
    Recording {
        id: line.id,
        host: line.host,
        method: line.method,
        path: path.to_owned(),
        request: line.request.map(|json| json.get().to_owned()),
        status: line.status,
        content_type: line.content_type.unwrap_or_default(),
        body: body.into(),
        streamed,
    }
}

impl Recording {
    /// Input and output tokens as the provider reports them; in a stream the last value of each counter
    /// counts.
    pub(crate) fn tokens(&self) -> Option<(u64, u64)> {
        let text = String::from_utf8_lossy(&self.body);
        let texts: Vec<&str> = if self.streamed {
            text.lines().filter_map(|line| line.strip_prefix("data:")).collect()
        } else {
            vec![&text]
        };
        let mut totals = serde_json::Map::new();
        for value in texts.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok()) {
            for usage in [&value["usage"], &value["response"]["usage"], &value["message"]["usage"]] {
                let counters = usage.as_object().into_iter().flatten();
                totals.extend(
                    counters.filter(|(_, value)| !value.is_null()).map(|(k, v)| (k.clone(), v.clone())),
                );
            }
        }
        let count = |name: &str| totals.get(name).and_then(Value::as_u64);
        if let Some(input) = count("prompt_tokens") {
            return Some((input, count("completion_tokens").unwrap_or_default()));
        }
        let cache_counters = ["cache_read_input_tokens", "cache_creation_input_tokens"];
        let cached: u64 = cache_counters.iter().filter_map(|name| count(name)).sum();
        count("input_tokens").map(|input| (input + cached, count("output_tokens").unwrap_or_default()))
    }
}
