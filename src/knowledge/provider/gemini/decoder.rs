//! Decodes Gemini's responses, whole and streamed, into chat events.
//!
//! A stream has no end mark, and older models repeat `finishReason` in every chunk, so the finish reason is
//! emitted only at the end of the bytes.

use super::blocks::Blocks;
use super::calls::Calls;
use super::compact;
use super::grounding::{self, ResponseText};
use super::logprobs;
use super::response::Chunk;
use crate::provider::bounded_body::BoundedBody;
use std::borrow::Cow;
use words::api::chat::{Decoder, Event, EventSink, Finish, ProviderError, Start};
use words::api::gemini::wire::{GeminiCandidate, GeminiPart};
use words::api::sse::SseParser;
use words::api::usage::{Usage, VendorUsage};
use words::json::Json;

/// The most choices decoded, well above Gemini's limit of 8. Candidates beyond it are ignored.
const MAX_CHOICES: usize = 32;

/// Decodes one response.
#[derive(Debug)]
pub(super) struct GeminiDecoder {
    frames: Frames,
    state: State,
}

/// How the body is cut into chunks.
#[derive(Debug)]
enum Frames {
    Events(SseParser),
    /// One JSON text: a response, or a list of chunks (what `streamGenerateContent` sends without `alt=sse`).
    Whole(BoundedBody),
    /// A stream before its first byte: it may turn out to be JSON.
    Unknown,
}

impl GeminiDecoder {
    pub(super) fn new(streamed: bool) -> Self {
        let frames = if streamed { Frames::Unknown } else { Frames::Whole(BoundedBody::default()) };
        Self { frames, state: State::default() }
    }
}

impl Decoder for GeminiDecoder {
    fn push(&mut self, bytes: &[u8], sink: EventSink<'_>) {
        let mut bytes = bytes;
        if matches!(self.frames, Frames::Unknown) {
            bytes = bytes.trim_ascii_start();
            self.frames = match bytes.first() {
                None => return,
                Some(b'[' | b'{') => Frames::Whole(BoundedBody::default()),
                Some(_) => Frames::Events(SseParser::default()),
            };
        }
        let state = &mut self.state;
        match &mut self.frames {
            _ if state.has_failed => {}
            Frames::Events(parser) => {
                let run = parser.push(bytes);
                run.data().for_each(|data| state.chunk(&data, sink));
                if run.is_oversized() {
                    state.fail(&ProviderError::unreadable("one event of the stream is too long"), sink);
                }
            }
            Frames::Whole(body) => {
                if let Err(error) = body.push(bytes) {
                    state.fail(&error, sink);
                }
            }
            Frames::Unknown => {}
        }
    }

    fn finish(&mut self, sink: EventSink<'_>) {
        let state = &mut self.state;
        match &mut self.frames {
            _ if state.has_failed => return,
            Frames::Events(parser) => parser.finish().data().for_each(|data| state.chunk(&data, sink)),
            Frames::Whole(body) => state.whole(&body.take().unwrap_or_default(), sink),
            Frames::Unknown => {}
        }
        state.close(sink);
    }

    fn has_finish_reason(&self) -> bool {
        let choices = &self.state.choices;
        !choices.is_empty() && choices.iter().all(|choice| choice.finish.is_some() && choice.is_late)
    }
}

/// The state of the response so far.
#[derive(Debug, Default)]
struct State {
    has_started: bool,
    /// An error was emitted: nothing follows it.
    has_failed: bool,
    choices: Vec<Choice>,
    usage: Option<Usage>,
    tier: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Choice {
    calls: Calls,
    blocks: Blocks,
    text: ResponseText,
    /// The finish reason, and Google's name for it.
    finish: Option<(Finish, String)>,
    /// The finish reason came after the first content. Models that repeat it in every chunk say nothing with
    /// it.
    is_late: bool,
    has_content: bool,
    /// Google's explanation of the finish reason.
    finish_message: Option<String>,
    safety_ratings: Option<String>,
}

impl State {
    fn fail(&mut self, error: &ProviderError, sink: EventSink<'_>) {
        if !self.has_failed {
            self.has_failed = true;
            sink(Event::Error(error));
        }
    }

    /// One JSON text: a response, or a list of chunks.
    fn whole(&mut self, bytes: &[u8], sink: EventSink<'_>) {
        let text = bytes.trim_ascii();
        if !text.starts_with(b"[") {
            return self.chunk(text, sink);
        }
        match serde_json::from_slice::<Vec<Json<'_>>>(text) {
            Ok(chunks) => chunks.iter().for_each(|chunk| self.chunk(chunk.get().as_bytes(), sink)),
            Err(_) => self.fail(&ProviderError::unreadable("it is no JSON"), sink),
        }
    }

    fn chunk(&mut self, data: &[u8], sink: EventSink<'_>) {
        if self.has_failed {
            return;
        }
        // Parsed as text: parsed from bytes, every string in it would be checked for UTF-8 again.
        let text = std::str::from_utf8(data).map(str::trim);
        let Ok(text) = text else { return self.fail(&ProviderError::unreadable("it is no text"), sink) };
        if text == "[DONE]" {
            return;
        }
        match serde_json::from_str::<Chunk<'_>>(text) {
            Ok(chunk) if chunk.error.as_ref().is_some_and(|error| !error.is_null()) => {
                self.fail(&provider_error(&chunk, data), sink);
            }
            Ok(chunk) => self.take(chunk, sink),
            Err(_) => self.fail(&ProviderError::unreadable("it is not what Gemini answers"), sink),
        }
    }

    fn take(&mut self, chunk: Chunk<'_>, sink: EventSink<'_>) {
        if !self.has_started {
            self.has_started = true;
            let created = chunk.create_time.as_deref().and_then(|time| time.parse::<jiff::Timestamp>().ok());
            sink(Event::Start(Start {
                id: chunk.response_id.as_deref(),
                model: chunk.model_version.as_deref(),
                created: created.and_then(|time| u64::try_from(time.as_second()).ok()),
            }));
        }
        let candidates = chunk.candidates.unwrap_or_default();
        if candidates.is_empty()
            && let Some(reason) =
                chunk.prompt_feedback.as_ref().and_then(|feedback| feedback.block_reason.as_deref())
        {
            let message =
                chunk.prompt_feedback.as_ref().and_then(|feedback| feedback.block_reason_message.as_deref());
            self.refuse(reason, message, sink);
        }
        for (position, candidate) in candidates.into_iter().enumerate() {
            if let Err(error) = self.candidate(position, &candidate, sink) {
                return self.fail(&error, sink);
            }
        }
        if let Some(counts) = chunk.usage_metadata {
            self.tier = tier(&counts).or(self.tier);
            if let Some(usage) = counts.usage()
                && self.usage != Some(usage)
            {
                self.usage = Some(usage);
                sink(Event::Usage(usage));
            }
        }
    }

    /// A blocked prompt has no candidate, only a reason.
    fn refuse(&mut self, reason: &str, message: Option<&str>, sink: EventSink<'_>) {
        let Some(choice) = self.choice(0) else { return };
        if choice.finish.is_none() {
            let default_message = format!("The prompt was blocked by Google: {reason}.");
            choice.has_content = true;
            choice.finish = Some((Finish::ContentFilter, reason.to_owned()));
            sink(Event::Refusal { choice: 0, text: message.unwrap_or(&default_message) });
        }
    }

    fn choice(&mut self, index: usize) -> Option<&mut Choice> {
        if index >= MAX_CHOICES {
            return None;
        }
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, Choice::default);
        }
        self.choices.get_mut(index)
    }

    fn candidate(
        &mut self,
        position: usize,
        candidate: &GeminiCandidate<'_>,
        sink: EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let at = candidate.index.map_or(position, |index| index as usize);
        let (Some(choice), Ok(index)) = (self.choice(at), u32::try_from(at)) else { return Ok(()) };
        let had_content = choice.has_content;
        let parts =
            candidate.content.as_ref().and_then(|content| content.parts.as_deref()).unwrap_or_default();
        for part in parts {
            choice.part(index, part, sink)?;
        }
        if let Some(json) = candidate.logprobs_result.as_ref().and_then(logprobs::json) {
            sink(Event::Logprobs { choice: index, json: &json });
        }
        if let Some(json) = &candidate.citation_metadata {
            let on = &mut |json: &str| sink(Event::Annotation { choice: index, json });
            grounding::citation_annotations(json, &choice.text, on);
        }
        if let Some(json) = candidate.grounding_metadata.as_ref().filter(|json| is_present(json)) {
            let on = &mut |json: &str| sink(Event::Annotation { choice: index, json });
            grounding::grounding_annotations(json, &choice.text, on);
            sink(Event::Member { name: "grounding_metadata", json: &compact(json.get()) });
        }
        if let Some(json) = candidate.url_context_metadata.as_ref().filter(|json| is_present(json)) {
            sink(Event::Member { name: "url_context_metadata", json: &compact(json.get()) });
        }
        if let Some(json) = candidate.safety_ratings.as_ref().filter(|json| is_present(json)) {
            choice.safety_ratings = Some(compact(json.get()).into_owned());
        }
        let Some(reason) = candidate.finish_reason.as_deref() else { return Ok(()) };
        let message = candidate.finish_message.as_ref().and_then(Json::text);
        if let Some(message) = &message
            && reason != "STOP"
        {
            sink(Event::Member { name: "finish_message", json: Json::from_value(&**message).get() });
            if finish_reason(reason) == Finish::ContentFilter && !choice.has_content {
                choice.has_content = true;
                sink(Event::Refusal { choice: index, text: message });
            }
        }
        choice.finish_message = message.map(Cow::into_owned);
        choice.is_late |= choice.finish.is_none() && had_content;
        choice.finish = Some((finish_reason(reason), reason.to_owned()));
        Ok(())
    }

    /// The end of the bytes.
    fn close(&mut self, sink: EventSink<'_>) {
        if self.has_failed {
            return;
        }
        if self.choices.is_empty() {
            if self.has_started {
                self.fail(&ProviderError::unreadable("it has no candidates"), sink);
            }
            return;
        }
        if let Some(error) = self.failed_turn() {
            return self.fail(&error, sink);
        }
        if let Some(tier) = self.tier {
            sink(Event::Member { name: "service_tier", json: Json::from_value(tier).get() });
        }
        let mut is_complete = true;
        for (index, choice) in (0u32..).zip(&mut self.choices) {
            choice.calls.close(index, sink);
            if let Some(json) = choice.safety_ratings.as_ref().filter(|_| index == 0) {
                sink(Event::Member { name: "safety_ratings", json });
            }
            match &choice.finish {
                Some((reason, native)) => sink(Event::Finish { choice: index, reason: *reason, native }),
                None => is_complete = false,
            }
        }
        if is_complete {
            sink(Event::End);
        }
    }
}

impl State {
    /// The failure of a turn that has neither text nor call, and for whose end Google gives neither `STOP` nor a limit nor a
    /// filter. `None` where another candidate has content.
    fn failed_turn(&self) -> Option<ProviderError> {
        if self.choices.iter().any(|choice| choice.has_content) {
            return None;
        }
        self.choices.iter().find_map(|choice| {
            let (_, reason) = choice.finish.as_ref().filter(|(_, reason)| is_failure(reason))?;
            let default_message = || format!("The model's turn failed ({reason}). Send the request again.");
            let message = choice.finish_message.clone().filter(|message| !message.is_empty());
            let error = ProviderError::new(502, message.unwrap_or_else(default_message));
            Some(ProviderError { code: Some(reason.clone()), ..error })
        })
    }
}

impl Choice {
    fn part(&mut self, choice: u32, part: &GeminiPart<'_>, sink: EventSink<'_>) -> Result<(), ProviderError> {
        let signature = part.thought_signature.as_deref().filter(|signature| !signature.is_empty());
        if let Some(call) = &part.function_call {
            self.has_content = true;
            return self.calls.take(choice, call, signature, sink);
        }
        self.calls.close(choice, sink);
        if let Some(block) = self.block(choice, part, signature) {
            self.has_content = true;
            sink(Event::Block { choice, json: &compact(&block) });
            return Ok(());
        }
        if let Some(blob) = &part.inline_data
            && let Some(data) = &blob.data
        {
            self.has_content = true;
            let media_type = blob.mime_type.as_deref().unwrap_or("application/octet-stream");
            sink(Event::Media { choice, media_type, data });
        }
        let text = part.text.as_deref().unwrap_or_default();
        if part.thought == Some(true) {
            if !text.is_empty() {
                sink(Event::Reasoning { choice, text });
            }
        } else if !text.is_empty() {
            self.has_content = true;
            self.text.take(text);
            sink(Event::Text { choice, text });
        }
        if let Some(signature) = signature {
            sink(Event::Signature { choice, signature });
        }
        Ok(())
    }

    /// Content of Google's own tools, as a block.
    fn block(&mut self, choice: u32, part: &GeminiPart<'_>, signature: Option<&str>) -> Option<String> {
        if let Some(json) = &part.executable_code {
            return self.blocks.code(json, choice, signature);
        }
        if let Some(json) = &part.code_execution_result {
            return self.blocks.code_result(json, signature);
        }
        if let Some(json) = &part.tool_call {
            return self.blocks.tool(json, choice, signature);
        }
        if let Some(json) = &part.tool_response {
            return self.blocks.tool_result(json, signature);
        }
        let file = part.file_data.as_ref()?;
        Some(
            Json::object(&[("type", Json::from_value("file_data")), ("file_data", file.clone())])
                .get()
                .to_owned(),
        )
    }
}

/// OpenAI's name for the tier that served the request.
fn tier(usage: &VendorUsage<'_>) -> Option<&'static str> {
    Some(match &*usage.service_tier()? {
        "standard" | "on_demand" => "default",
        "flex" => "flex",
        "priority" => "priority",
        "provisioned_throughput" => "scale",
        _ => return None,
    })
}

fn is_present(json: &Json<'_>) -> bool {
    !matches!(json.get(), "null" | "{}" | "[]")
}

/// Google's error object, in a stream or in a response with status 200.
fn provider_error(chunk: &Chunk<'_>, data: &[u8]) -> ProviderError {
    #[derive(serde::Deserialize)]
    struct Code {
        code: Option<u16>,
    }
    let code = chunk.error.as_ref().and_then(Json::read::<Code>).and_then(|code| code.code);
    ProviderError::read(code.filter(|code| (400..600).contains(code)).unwrap_or(502), data)
}

/// Whether a finish reason says that the turn failed: `MALFORMED_FUNCTION_CALL`, `UNEXPECTED_TOOL_CALL`,
/// `TOO_MANY_TOOL_CALLS`, `MISSING_THOUGHT_SIGNATURE`, `NO_IMAGE`, `OTHER` and those that Google may add.
fn is_failure(native: &str) -> bool {
    native != "STOP" && finish_reason(native) == Finish::Stop
}

/// OpenAI's finish reason. A turn that failed after its first content ends like any other.
fn finish_reason(native: &str) -> Finish {
    match native {
        "MAX_TOKENS" => Finish::Length,
        // RECITATION (the model repeats its sources) is withheld like forbidden content.
        "SAFETY"
        | "RECITATION"
        | "LANGUAGE"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION"
        | "MODEL_ARMOR"
        | "JAILBREAK" => Finish::ContentFilter,
        _ => Finish::Stop,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::api::chat::ChatResponse;

    #[test]
    fn a_count_that_is_no_whole_number_does_not_lose_the_response() {
        let mut response = ChatResponse::default();
        let sink = &mut |event: Event<'_>| response.apply(&event);
        let mut decoder = GeminiDecoder::new(false);
        decoder.push(
            br#"{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],
            "usageMetadata":{"promptTokenCount":7.0,"candidatesTokenCount":1,"cacheTokensDetails":null,"trafficType":"ON_DEMAND_FLEX"}}"#,
            sink,
        );
        decoder.finish(sink);
        assert_eq!(response.choices.len(), 1);
        assert_eq!(response.usage.map(|usage| (usage.input, usage.output, usage.total)), Some((7, 1, 8)));
        assert_eq!(response.members, [("service_tier".to_owned(), r#""flex""#.to_owned())]);
    }
}
