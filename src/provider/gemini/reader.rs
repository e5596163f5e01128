//! Gemini's answers, whole and streamed, read into events.
//!
//! A stream has no end mark, and older models repeat `finishReason` in every chunk: so why a choice stopped is
//! told when the bytes are over.

use super::answer::{Candidate, Chunk, PartIn};
use super::blocks::Blocks;
use super::compact;
use super::grounding::{self, Words};
use crate::api::chat::{Decoder, Event, EventSink, Finish, Json, ProviderError, Start};
use crate::api::sse::Splitter;
use crate::api::usage::Usage;

/// The largest whole answer held, bytes: some carry pictures.
const MOST_HELD: usize = 64 << 20;

/// More choices than can be asked for (8): what claims to be one beyond is passed over.
const MOST_CHOICES: usize = 32;

/// Reads one answer.
#[derive(Debug)]
pub(super) struct GeminiReader {
    frames: Frames,
    state: State,
}

/// How chunks are told apart.
#[derive(Debug)]
enum Frames {
    Events(Splitter),
    /// One JSON text: an answer, or a list of chunks (what `streamGenerateContent` sends without `alt=sse`).
    Whole(Vec<u8>),
    /// A stream whose first byte has not come: it may turn out to be JSON after all.
    Unknown,
}

impl GeminiReader {
    pub(super) fn new(streamed: bool) -> Self {
        let frames = if streamed { Frames::Unknown } else { Frames::Whole(Vec::new()) };
        Self { frames, state: State::default() }
    }
}

impl Decoder for GeminiReader {
    fn push(&mut self, bytes: &[u8], tell: EventSink<'_>) {
        let mut bytes = bytes;
        if matches!(self.frames, Frames::Unknown) {
            bytes = bytes.trim_ascii_start();
            self.frames = match bytes.first() {
                None => return,
                Some(b'[' | b'{') => Frames::Whole(Vec::new()),
                Some(_) => Frames::Events(Splitter::default()),
            };
        }
        let state = &mut self.state;
        match &mut self.frames {
            _ if state.is_over => {}
            Frames::Events(splitter) => {
                let split = splitter.push(bytes, &mut |event| state.chunk(event.data, tell));
                if split.is_err() {
                    state.fail(&ProviderError::unreadable("one event of the stream is too long"), tell);
                }
            }
            Frames::Whole(held) if held.len() + bytes.len() > MOST_HELD => {
                state.fail(&ProviderError::unreadable("it is over 64 MiB"), tell);
            }
            Frames::Whole(held) => held.extend_from_slice(bytes),
            Frames::Unknown => {}
        }
    }

    fn finish(&mut self, tell: EventSink<'_>) {
        let state = &mut self.state;
        match &mut self.frames {
            _ if state.is_over => return,
            Frames::Events(splitter) => splitter.finish(&mut |event| state.chunk(event.data, tell)),
            Frames::Whole(held) => state.whole(&std::mem::take(held), tell),
            Frames::Unknown => {}
        }
        state.close(tell);
    }

    fn has_finish_reason(&self) -> bool {
        let choices = &self.state.choices;
        !choices.is_empty() && choices.iter().all(|choice| choice.finish.is_some() && choice.is_late)
    }
}

/// What is known of the answer so far.
#[derive(Debug, Default)]
struct State {
    has_started: bool,
    /// It failed: nothing more is told.
    is_over: bool,
    choices: Vec<Choice>,
    usage: Option<Usage>,
    tier: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Choice {
    calls: u32,
    blocks: Blocks,
    words: Words,
    /// Why it stopped, and Google's word for it.
    finish: Option<(Finish, String)>,
    /// It was told later than the first content: some models repeat it with every chunk, which says nothing.
    is_late: bool,
    has_content: bool,
    safety_ratings: Option<String>,
}

impl State {
    fn fail(&mut self, fault: &ProviderError, tell: EventSink<'_>) {
        if !self.is_over {
            self.is_over = true;
            tell(Event::Error(fault));
        }
    }

    /// One JSON text: an answer, or a list of chunks.
    fn whole(&mut self, bytes: &[u8], tell: EventSink<'_>) {
        let text = bytes.trim_ascii();
        if !text.starts_with(b"[") {
            return self.chunk(text, tell);
        }
        match serde_json::from_slice::<Vec<Json<'_>>>(text) {
            Ok(chunks) => chunks.iter().for_each(|chunk| self.chunk(chunk.get().as_bytes(), tell)),
            Err(_) => self.fail(&ProviderError::unreadable("it is no JSON"), tell),
        }
    }

    fn chunk(&mut self, data: &[u8], tell: EventSink<'_>) {
        if self.is_over {
            return;
        }
        // As text: from bytes, every string in it would be proven to be text on its own.
        let text = std::str::from_utf8(data).map(str::trim);
        let Ok(text) = text else { return self.fail(&ProviderError::unreadable("it is no text"), tell) };
        if text == "[DONE]" {
            return;
        }
        match serde_json::from_str::<Chunk<'_>>(text) {
            Ok(chunk) if chunk.error.as_ref().is_some_and(|error| !error.is_null()) => {
                self.fail(&fault(&chunk, data), tell);
            }
            Ok(chunk) => self.take(chunk, tell),
            Err(_) => self.fail(&ProviderError::unreadable("it is not what Gemini answers"), tell),
        }
    }

    fn take(&mut self, chunk: Chunk<'_>, tell: EventSink<'_>) {
        if !self.has_started {
            self.has_started = true;
            let created = chunk.create_time.as_deref().and_then(|time| time.parse::<jiff::Timestamp>().ok());
            tell(Event::Start(Start {
                id: chunk.response_id.as_deref(),
                model: chunk.model_version.as_deref(),
                created: created.and_then(|time| u64::try_from(time.as_second()).ok()),
            }));
        }
        let candidates = chunk.candidates.unwrap_or_default();
        if candidates.is_empty()
            && let Some(reason) = chunk.prompt_feedback.as_ref().and_then(|told| told.block_reason.as_deref())
        {
            let message =
                chunk.prompt_feedback.as_ref().and_then(|told| told.block_reason_message.as_deref());
            self.refuse(reason, message, tell);
        }
        for (position, candidate) in candidates.into_iter().enumerate() {
            self.candidate(position, &candidate, tell);
        }
        if let Some(told) = chunk.usage_metadata {
            self.tier = told.tier().or(self.tier);
            if let Some(usage) = told.usage()
                && self.usage != Some(usage)
            {
                self.usage = Some(usage);
                tell(Event::Usage(usage));
            }
        }
    }

    /// The prompt was blocked: there is no candidate to say so.
    fn refuse(&mut self, reason: &str, message: Option<&str>, tell: EventSink<'_>) {
        let Some(choice) = self.choice(0) else { return };
        if choice.finish.is_none() {
            let made = format!("The prompt was blocked by Google: {reason}.");
            choice.has_content = true;
            choice.finish = Some((Finish::ContentFilter, reason.to_owned()));
            tell(Event::Refusal { choice: 0, text: message.unwrap_or(&made) });
        }
    }

    fn choice(&mut self, index: usize) -> Option<&mut Choice> {
        if index >= MOST_CHOICES {
            return None;
        }
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, Choice::default);
        }
        self.choices.get_mut(index)
    }

    fn candidate(&mut self, position: usize, told: &Candidate<'_>, tell: EventSink<'_>) {
        let at = told.index.map_or(position, |index| index as usize);
        let (Some(choice), Ok(index)) = (self.choice(at), u32::try_from(at)) else { return };
        let began = choice.has_content;
        let parts = told.content.as_ref().and_then(|content| content.parts.as_deref()).unwrap_or_default();
        for part in parts {
            choice.part(index, part, tell);
        }
        if let Some(json) = told.logprobs_result.as_ref().and_then(|logprobs| logprobs.json()) {
            tell(Event::Logprobs { choice: index, json: &json });
        }
        if let Some(json) = &told.citation_metadata {
            let on = &mut |json: &str| tell(Event::Annotation { choice: index, json });
            grounding::of_citations(json, &choice.words, on);
        }
        if let Some(json) = told.grounding_metadata.as_ref().filter(|json| is_told(json)) {
            let on = &mut |json: &str| tell(Event::Annotation { choice: index, json });
            grounding::of_grounding(json, &choice.words, on);
            tell(Event::Member { name: "grounding_metadata", json: &compact(json.get()) });
        }
        if let Some(json) = told.url_context_metadata.as_ref().filter(|json| is_told(json)) {
            tell(Event::Member { name: "url_context_metadata", json: &compact(json.get()) });
        }
        if let Some(json) = told.safety_ratings.as_ref().filter(|json| is_told(json)) {
            choice.safety_ratings = Some(compact(json.get()).into_owned());
        }
        let Some(reason) = told.finish_reason.as_deref() else { return };
        if let Some(message) = &told.finish_message
            && reason != "STOP"
        {
            tell(Event::Member { name: "finish_message", json: Json::from_value(&**message).get() });
            if finish(reason) == Finish::ContentFilter && !choice.has_content {
                choice.has_content = true;
                tell(Event::Refusal { choice: index, text: message });
            }
        }
        choice.is_late |= choice.finish.is_none() && began;
        choice.finish = Some((finish(reason), reason.to_owned()));
    }

    /// The bytes are over.
    fn close(&mut self, tell: EventSink<'_>) {
        if self.is_over {
            return;
        }
        if self.choices.is_empty() {
            if self.has_started {
                self.fail(&ProviderError::unreadable("it has no candidates"), tell);
            }
            return;
        }
        if let Some(tier) = self.tier {
            tell(Event::Member { name: "service_tier", json: Json::from_value(tier).get() });
        }
        let mut is_complete = true;
        for (index, choice) in (0u32..).zip(&self.choices) {
            if let Some(json) = choice.safety_ratings.as_ref().filter(|_| index == 0) {
                tell(Event::Member { name: "safety_ratings", json });
            }
            match &choice.finish {
                Some((reason, native)) => tell(Event::Finish { choice: index, reason: *reason, native }),
                None => is_complete = false,
            }
        }
        if is_complete {
            tell(Event::End);
        }
    }
}

impl Choice {
    fn part(&mut self, choice: u32, part: &PartIn<'_>, tell: EventSink<'_>) {
        let seal = part.thought_signature.as_deref().filter(|seal| !seal.is_empty());
        if let Some(call) = &part.function_call {
            let index = self.calls;
            self.calls = self.calls.saturating_add(1);
            self.has_content = true;
            let name = call.name.as_deref().unwrap_or_default();
            let id = call.id.as_deref().unwrap_or_default();
            tell(Event::ToolCall { choice, index, id, name, signature: seal });
            let args = call.args.as_ref().filter(|args| !args.is_null());
            tell(Event::Arguments { choice, index, fragment: &compact(args.map_or("{}", Json::get)) });
            return;
        }
        if let Some(block) = self.block(choice, part, seal) {
            self.has_content = true;
            tell(Event::Block { choice, json: &compact(&block) });
            return;
        }
        if let Some(blob) = &part.inline_data
            && let Some(data) = &blob.data
        {
            self.has_content = true;
            let media_type = blob.mime_type.as_deref().unwrap_or("application/octet-stream");
            tell(Event::Media { choice, media_type, data });
        }
        let text = part.text.as_deref().unwrap_or_default();
        if part.thought == Some(true) {
            if !text.is_empty() {
                tell(Event::Reasoning { choice, text });
            }
        } else if !text.is_empty() {
            self.has_content = true;
            self.words.take(text);
            tell(Event::Text { choice, text });
        }
        if let Some(signature) = seal {
            tell(Event::Signature { choice, signature });
        }
    }

    /// What Google ran itself, as a block.
    fn block(&mut self, choice: u32, part: &PartIn<'_>, seal: Option<&str>) -> Option<String> {
        if let Some(json) = &part.executable_code {
            return self.blocks.code(json, choice, seal);
        }
        if let Some(json) = &part.code_execution_result {
            return self.blocks.code_result(json, seal);
        }
        if let Some(json) = &part.tool_call {
            return self.blocks.tool(json, choice, seal);
        }
        if let Some(json) = &part.tool_response {
            return self.blocks.tool_result(json, seal);
        }
        let file = part.file_data.as_ref()?;
        Some(
            super::object(&[("type", Json::from_value("file_data")), ("file_data", file.clone())])
                .get()
                .to_owned(),
        )
    }
}

fn is_told(json: &Json<'_>) -> bool {
    !matches!(json.get(), "null" | "{}" | "[]")
}

/// Google's error object, in a stream or in an answer of status 200.
fn fault(chunk: &Chunk<'_>, data: &[u8]) -> ProviderError {
    #[derive(serde::Deserialize)]
    struct Code {
        code: Option<u16>,
    }
    let code = chunk.error.as_ref().and_then(Json::read::<Code>).and_then(|code| code.code);
    ProviderError::read(code.filter(|code| (400..600).contains(code)).unwrap_or(502), data)
}

/// Why it stopped, in OpenAI's words. A call the model wrote wrongly ends its turn as any other.
fn finish(native: &str) -> Finish {
    match native {
        "MAX_TOKENS" => Finish::Length,
        // What a model repeats from its sources (RECITATION) is held back as what it must not say.
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
