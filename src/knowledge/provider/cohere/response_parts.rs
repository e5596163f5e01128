//! The parts that Cohere's unstreamed and streamed responses share: text, thinking, tool calls, citations,
//! log probabilities and the finish reason.

use serde::{Deserialize, Serialize};
use words::api::chat::{Event, EventSink, Finish, ProviderError, UrlCitation};
use words::json::{Json, JsonStr};

/// One content part, or a fragment of it.
#[derive(Deserialize)]
pub(super) struct ContentIn<'a> {
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
    thinking: Option<JsonStr<'a>>,
}

impl ContentIn<'_> {
    pub fn emit(&self, sink: EventSink<'_>) {
        if let Some(text) = self.thinking.as_deref().filter(|text| !text.is_empty()) {
            sink(Event::Reasoning { choice: 0, text });
        }
        if let Some(text) = self.text.as_deref().filter(|text| !text.is_empty()) {
            sink(Event::Text { choice: 0, text });
        }
    }
}

/// A tool call, or a fragment of one.
#[derive(Deserialize)]
pub(super) struct CallIn<'a> {
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<JsonStr<'a>>,
    arguments: Option<JsonStr<'a>>,
}

impl CallIn<'_> {
    /// Emits the start of the call, and its arguments if it has any yet.
    pub fn emit(&self, index: u32, sink: EventSink<'_>) {
        let id = self.id.as_deref().unwrap_or_default();
        let name = self.function.as_ref().and_then(|function| function.name.as_deref()).unwrap_or_default();
        sink(Event::ToolCall { choice: 0, index, id, name, signature: None });
        self.emit_arguments(index, sink);
    }

    pub(crate) fn emit_arguments(&self, index: u32, sink: EventSink<'_>) {
        let fragment = self.function.as_ref().and_then(|function| function.arguments.as_deref());
        if let Some(fragment) = fragment.filter(|fragment| !fragment.is_empty()) {
            sink(Event::Arguments { choice: 0, index, fragment });
        }
    }
}

/// An object itself, or the first item of a list: stream events have one where unstreamed responses have the other.
pub(super) fn first<'a>(json: &'a Json<'_>) -> Option<Json<'a>> {
    if json.is_object() { Json::parse(json.get()) } else { json.read::<Vec<Json<'a>>>()?.into_iter().next() }
}

#[derive(Deserialize)]
struct Citation<'a> {
    start: Option<u64>,
    end: Option<u64>,
    #[serde(borrow)]
    sources: Option<Vec<Json<'a>>>,
    #[serde(rename = "type")]
    kind: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct SourceIn<'a> {
    #[serde(borrow)]
    document: Option<Json<'a>>,
    tool_output: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    url: Option<JsonStr<'a>>,
    title: Option<JsonStr<'a>>,
}

/// Emits an annotation for each web page that a citation of the response text names. Sources without a URL (the
/// client's documents, a tool's result) and citations in a plan or in thinking are only in the member `citations`.
pub(super) fn emit_annotations(citation: &Json<'_>, sink: EventSink<'_>) {
    let Some(citation) = citation.read::<Citation<'_>>() else { return };
    let (Some(start), Some(end)) = (citation.start, citation.end) else { return };
    if citation.kind.as_deref().is_some_and(|kind| kind != "TEXT_CONTENT") {
        return;
    }
    for source in citation.sources.iter().flatten() {
        let Some(source) = source.read::<SourceIn<'_>>() else { continue };
        let Some(page) = source.document.as_ref().or(source.tool_output.as_ref()) else { continue };
        let Some(Page { url: Some(url), title }) = page.read::<Page<'_>>() else { continue };
        if url.starts_with("http://") || url.starts_with("https://") {
            let title = title.as_deref().unwrap_or(&url);
            let json = UrlCitation { start_index: start, end_index: end, url: &url, title }.annotation();
            sink(Event::Annotation { choice: 0, json: &json });
        }
    }
}

#[derive(Deserialize)]
struct Probability<'a> {
    #[serde(borrow)]
    text: Option<JsonStr<'a>>,
    logprobs: Option<Vec<f64>>,
}

#[derive(Serialize)]
struct Probabilities<'a> {
    content: Vec<Token<'a>>,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct Token<'a> {
    token: &'a str,
    logprob: f64,
    bytes: &'a [u8],
    top_logprobs: [(); 0],
}

/// Emits log probabilities in OpenAI's shape. Cohere groups several tokens into one text; such a text gets the sum,
/// which is the log probability of the whole text.
pub(super) fn emit_logprobs(items: &[Json<'_>], sink: EventSink<'_>) {
    let items: Vec<Probability<'_>> = items.iter().filter_map(Json::read).collect();
    let token = |item: &'_ Probability<'_>| -> Option<(usize, f64)> {
        let list = item.logprobs.as_ref().filter(|list| !list.is_empty())?;
        Some((list.len(), list.iter().sum()))
    };
    let content: Vec<Token<'_>> = items
        .iter()
        .filter_map(|item| {
            let (_, logprob) = token(item)?;
            let text = item.text.as_deref().unwrap_or_default();
            Some(Token { token: text, logprob, bytes: text.as_bytes(), top_logprobs: [] })
        })
        .collect();
    if !content.is_empty() {
        let json = Json::from_value(&Probabilities { content, refusal: None });
        sink(Event::Logprobs { choice: 0, json: json.get() });
    }
}

/// The finish reason. `ERROR` and `TIMEOUT` become errors: otherwise a partial response would pass for a complete one.
pub(super) fn finish(native: &str, why: Option<&str>) -> Result<Finish, ProviderError> {
    let error = |status: u16, otherwise: &str| {
        let why = why.filter(|why| !why.is_empty()).unwrap_or(otherwise);
        ProviderError::new(status, why).with_kind(native)
    };
    Ok(match native {
        "MAX_TOKENS" | "ERROR_LIMIT" => Finish::Length,
        "TOOL_CALL" => Finish::ToolCalls,
        "ERROR_TOXIC" => Finish::ContentFilter,
        "TIMEOUT" => return Err(error(504, "Cohere gave up on the answer: it took too long.")),
        _ if native.starts_with("ERROR") => {
            return Err(error(500, "Cohere failed while it wrote the answer."));
        }
        // COMPLETE, STOP_SEQUENCE, and reasons that Cohere may add.
        _ => Finish::Stop,
    })
}
