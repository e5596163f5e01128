//! Turns the JSON of a response into events, for whole responses and for chunks of a stream alike.
//!
//! The finish of a choice is held back until the response ends: OpenRouter sends it several times, an error
//! may follow it, and usage comes after it.

use super::calls::Calls;
use super::chunk::{AudioIn, ChoiceIn, MessageIn, PartIn, UrlIn, non_empty_text};
use super::provider_error::{self, Ending};
use super::thinking;
use super::transcript::{TextSource, Transcript};
use serde::Deserialize;
use std::borrow::Cow;
use words::api::chat::{Event, EventSink, Finish, ProviderError, Source, Start};
use words::api::usage::Usage;
use words::json::Json;

/// More choices than any client requests.
const MAX_CHOICES: u32 = 128;
/// The maximum number of further members emitted.
const MAX_MEMBERS: usize = 32;

/// The state of one response.
#[derive(Debug, Default)]
pub(super) struct EventEmitter {
    started: bool,
    choices: Vec<ChoiceState>,
    usage: Option<Usage>,
    /// The names of further members already emitted.
    members: Vec<String>,
}

#[derive(Debug, Default)]
struct ChoiceState {
    calls: Calls,
    finish: Option<(Finish, String)>,
    /// Whether content arrived in deltas.
    has_deltas: bool,
    /// Whether a whole message arrived.
    has_message: bool,
    transcript: Transcript,
}

/// The members of a response that are used in more than one place here.
#[derive(Default)]
struct Parts<'a> {
    id: Option<Json<'a>>,
    model: Option<Json<'a>>,
    created: Option<Json<'a>>,
    choices: Option<Vec<Json<'a>>>,
    usage: Option<Json<'a>>,
}

#[derive(Deserialize)]
struct XGroq<'a> {
    #[serde(borrow)]
    usage: Option<Json<'a>>,
}

impl EventEmitter {
    /// Takes one JSON object. Returns whether it was a response or a chunk of one.
    ///
    /// # Errors
    /// The error that the object contains, or that it cannot be read.
    pub fn take(&mut self, text: &str, streamed: bool, sink: EventSink<'_>) -> Result<bool, ProviderError> {
        let members = Json::members(text).ok_or_else(|| ProviderError::unreadable("it is not JSON"))?;
        let mut parts = Parts::default();
        let mut rest = Vec::new();
        let mut groq = None;
        for (name, value) in members {
            match name.as_ref() {
                _ if value.is_null() => {}
                "id" => parts.id = Some(value),
                "model" => parts.model = Some(value),
                "created" => parts.created = Some(value),
                "choices" => parts.choices = value.source().and_then(|text| serde_json::from_str(text).ok()),
                "usage" => parts.usage = Some(value),
                "x_groq" => {
                    groq = value.source().and_then(|text| serde_json::from_str::<XGroq<'_>>(text).ok());
                }
                // OpenRouter's `provider` names its own upstream, which is not one of our provider ids.
                "object" | "error" | "provider" | "obfuscation" | "base_resp" => {}
                _ => rest.push((name, value)),
            }
        }
        parts.usage = parts.usage.or_else(|| groq.and_then(|groq| groq.usage));
        let failed = provider_error::error_in(text);
        // A chunk may contain nothing but usage.
        let is_response = parts.choices.is_some() || (streamed && parts.usage.is_some());
        if is_response {
            self.start(&parts, sink);
            let result = self.choices(&parts, streamed, sink);
            if let Some(usage) = &parts.usage {
                self.emit_usage(usage, sink);
            }
            if failed.is_none() {
                result?;
                self.emit_members(&rest, sink);
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(is_response),
        }
    }

    /// Ends a response that the provider marked as ended. Some engines do so without a finish reason.
    pub fn end(&mut self, sink: EventSink<'_>) {
        if self.choices.iter().all(|choice| choice.finish.is_none()) {
            for choice in self.choices.iter_mut().filter(|choice| choice.has_deltas || choice.has_message) {
                choice.finish = Some((Finish::Stop, String::new()));
            }
        }
        if self.flush(sink) {
            sink(Event::End);
        }
    }

    /// Emits what was held back, when no more input follows. `false`: that was an error, which is the last event.
    pub fn flush(&mut self, sink: EventSink<'_>) -> bool {
        for (choice, state) in (0..).zip(&mut self.choices) {
            let Some((reason, native)) = state.finish.take() else { continue };
            if state.calls.has_nameless() {
                sink(Event::Error(&ProviderError::unreadable("a tool call has no name")));
                return false;
            }
            sink(Event::Finish { choice, reason, native: &native });
        }
        true
    }

    fn start(&mut self, parts: &Parts<'_>, sink: EventSink<'_>) {
        let id = non_empty_text(&parts.id);
        let model = non_empty_text(&parts.model);
        // Azure's first chunk has neither id nor model, only content filter results.
        let empty = id.is_none() && model.is_none() && parts.choices.as_ref().is_none_or(Vec::is_empty);
        if self.started || empty {
            return;
        }
        self.started = true;
        let seconds = |json: &Json<'_>| json.read::<f64>().or_else(|| json.text()?.parse().ok());
        let created = parts.created.as_ref().and_then(seconds).filter(|seconds| *seconds >= 1.0);
        // Some vendors send seconds with a fraction; `as` saturates.
        let created = created.map(|seconds| seconds as u64);
        sink(Event::Start(Start { id: id.as_deref(), model: model.as_deref(), created }));
    }

    fn choices(
        &mut self,
        parts: &Parts<'_>,
        streamed: bool,
        sink: EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let list = parts.choices.as_deref().unwrap_or_default();
        for (position, json) in (0_u32..).zip(list) {
            let choice = json.read::<ChoiceIn<'_>>();
            let choice = choice.ok_or_else(|| ProviderError::unreadable("a choice is no object"))?;
            let index = choice.index.as_ref().and_then(Json::read::<u32>).unwrap_or(position);
            if index < MAX_CHOICES {
                self.choice(index, &choice, streamed, sink)?;
            }
            if let Some(usage) = choice.usage.filter(|_| parts.usage.is_none()) {
                self.emit_usage(&usage, sink);
            }
        }
        Ok(())
    }

    fn choice(
        &mut self,
        index: u32,
        choice: &ChoiceIn<'_>,
        streamed: bool,
        sink: EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let at = index as usize;
        if self.choices.len() <= at {
            self.choices.resize_with(at + 1, ChoiceState::default);
        }
        let Some(state) = self.choices.get_mut(at) else { return Ok(()) };
        // Perplexity sends both: with each delta of a stream the whole message so far, with a whole message an
        // empty delta.
        let delta = choice.delta.as_ref().filter(|_| streamed || choice.message.is_none());
        if let Some(delta) = delta.and_then(Json::read::<MessageIn<'_>>) {
            let mut has_content = false;
            let mut note = |event: Event<'_>| {
                has_content = true;
                sink(event);
            };
            emit_message(index, &delta, state, streamed, &mut note);
            state.has_deltas |= has_content && streamed;
        }
        let is_last =
            delta.is_none() || choice.finish_reason.as_ref().is_some_and(|reason| !reason.is_null());
        let message = choice.message.as_ref().filter(|_| is_last && !state.has_deltas);
        if let Some(message) = message.and_then(Json::read::<MessageIn<'_>>) {
            emit_message(index, &message, state, false, sink);
            state.has_message = true;
        }
        if let Some(logprobs) = choice.logprobs.as_ref().filter(|json| json.is_object()) {
            sink(Event::Logprobs { choice: index, json: logprobs.get() });
        }
        if let Some(error) = choice.error.as_ref().filter(|error| !error.is_null()) {
            return Err(provider_error::read_error(error.get(), None));
        }
        let Some(reason) = non_empty_text(&choice.finish_reason) else { return Ok(()) };
        match provider_error::ending(&reason) {
            Ending::Finish(finish) => {
                state.finish.get_or_insert_with(|| (finish, reason.into_owned()));
                Ok(())
            }
            Ending::Error(error) => Err(error),
        }
    }

    fn emit_usage(&mut self, json: &Json<'_>, sink: EventSink<'_>) {
        let usage = Usage::read(json.get().as_bytes());
        // Some vendors repeat it in every chunk.
        if let Some(usage) = usage.filter(|usage| self.usage != Some(*usage)) {
            self.usage = Some(usage);
            sink(Event::Usage(usage));
        }
    }

    fn emit_members(&mut self, rest: &[(Cow<'_, str>, Json<'_>)], sink: EventSink<'_>) {
        for (name, json) in rest {
            let emitted = self.members.iter().any(|member| member == name);
            if !emitted && self.members.len() < MAX_MEMBERS {
                self.members.push(name.clone().into_owned());
                sink(Event::Member { name, json: json.get() });
            }
        }
    }
}

/// Emits the contents of one message or delta, in the order in which a model produces them.
fn emit_message(
    choice: u32,
    message: &MessageIn<'_>,
    state: &mut ChoiceState,
    streamed: bool,
    sink: EventSink<'_>,
) {
    thinking::emit_thinking(choice, message, sink);
    let audio = message.audio.as_ref().and_then(Json::read::<AudioIn<'_>>);
    if let Some(text) = non_empty_text(&message.content) {
        emit_text(choice, &state.transcript.new_part(text, TextSource::Content), sink);
    } else if let Some(content) = &message.content {
        emit_content(choice, content, sink);
    }
    if let Some(text) = non_empty_text(&message.refusal) {
        sink(Event::Refusal { choice, text: &text });
    }
    for image in list(&message.images) {
        emit_content(choice, &image, sink);
    }
    if let Some(audio) = audio {
        if let Some(text) = non_empty_text(&audio.transcript) {
            emit_text(choice, &state.transcript.new_part(text, TextSource::Transcript), sink);
        }
        emit_audio(choice, &audio, sink);
    }
    if let Some(calls) = &message.tool_calls {
        state.calls.take(choice, calls, streamed, sink);
    }
    if let Some(function) = &message.function_call {
        state.calls.take_function(choice, function, streamed, sink);
    }
    for annotation in list(&message.annotations) {
        sink(Event::Annotation { choice, json: annotation.get() });
    }
    if let Some(executed) = message.executed_tools.as_ref().filter(|json| json.get() != "[]") {
        sink(Event::Member { name: "executed_tools", json: executed.get() });
    }
}

fn emit_text(choice: u32, text: &str, sink: EventSink<'_>) {
    if !text.is_empty() {
        sink(Event::Text { choice, text });
    }
}

/// The members of a list; empty for anything else.
fn list<'j>(json: &'j Option<Json<'_>>) -> Vec<Json<'j>> {
    json.as_ref().and_then(Json::read).unwrap_or_default()
}

/// Emits content: text, one part, or a list of parts.
pub(super) fn emit_content(choice: u32, content: &Json<'_>, sink: EventSink<'_>) {
    if let Some(text) = content.text() {
        if !text.is_empty() {
            sink(Event::Text { choice, text: &text });
        }
        return;
    }
    if let Some(parts) = content.read::<Vec<Json<'_>>>() {
        return parts.iter().for_each(|part| emit_part(choice, part, sink));
    }
    emit_part(choice, content, sink);
}

fn emit_part(choice: u32, json: &Json<'_>, sink: EventSink<'_>) {
    if let Some(text) = json.text() {
        return sink(Event::Text { choice, text: &text });
    }
    if thinking::emit_block(choice, json, sink) {
        return;
    }
    let part = json.read::<PartIn<'_>>().unwrap_or_default();
    if let Some(text) = non_empty_text(&part.text) {
        sink(Event::Text { choice, text: &text });
    } else if let Some(text) = non_empty_text(&part.refusal) {
        sink(Event::Refusal { choice, text: &text });
    } else if let Some(image) = part.image_url {
        let inner = image.read::<UrlIn<'_>>().unwrap_or_default();
        if let Some(url) = image.text().or_else(|| non_empty_text(&inner.url)) {
            emit_image(choice, url, sink);
        }
    }
}

/// Emits an image: a `data:` URL as media, any other URL as a block.
fn emit_image(choice: u32, url: Cow<'_, str>, sink: EventSink<'_>) {
    match Source::from_url(url) {
        Source::Data { media_type, data } => {
            sink(Event::Media { choice, media_type: &media_type, data: &data });
        }
        Source::Url { url, .. } => {
            let block = serde_json::json!({"type": "image", "source": {"type": "url", "url": url}});
            sink(Event::Block { choice, json: &block.to_string() });
        }
        Source::Text(_) | Source::Id(_) => {}
    }
}

fn emit_audio(choice: u32, audio: &AudioIn<'_>, sink: EventSink<'_>) {
    if let Some(data) = non_empty_text(&audio.data) {
        // The response does not name the format, but the first bytes (here in base64) show it. Streams are
        // pcm16.
        let media_type = match data.get(..4) {
            Some("UklG") => "audio/wav",
            Some("SUQz" | "//uQ" | "//vQ" | "//sw" | "//NE" | "//PE") => "audio/mpeg",
            Some("T2dn") => "audio/ogg",
            Some("ZkxhQ" | "Zkxh") => "audio/flac",
            _ => "audio/pcm",
        };
        sink(Event::Media { choice, media_type, data: &data });
    }
}
