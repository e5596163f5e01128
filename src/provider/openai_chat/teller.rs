//! What the JSON of an answer tells, as events: the same for a whole answer and for the pieces of a stream.
//!
//! The finish of a choice is held back until the answer ends: OpenRouter tells it several times, an error may
//! follow it, and usage comes after it.

use super::calls::Calls;
use super::chunk::{AudioIn, ChoiceIn, MessageIn, PartIn, UrlIn, words};
use super::fault::{self, Ending};
use super::thinking;
use crate::api::chat::{Event, EventSink, Finish, Json, ProviderError, Source, Start};
use crate::api::usage::Usage;
use serde::Deserialize;
use std::borrow::Cow;

/// More choices than anyone asks for.
const MOST_CHOICES: u32 = 128;
/// The most further members told.
const MOST_MEMBERS: usize = 32;

/// One answer so far.
#[derive(Debug, Default)]
pub(super) struct Teller {
    started: bool,
    choices: Vec<Turn>,
    usage: Option<Usage>,
    /// Names of further members told.
    members: Vec<String>,
}

#[derive(Debug, Default)]
struct Turn {
    calls: Calls,
    finish: Option<(Finish, String)>,
    /// Something was said in pieces.
    said: bool,
}

/// The members of an answer that concern more than one place here.
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

impl Teller {
    /// Takes one JSON object; whether it was an answer or a piece of one.
    ///
    /// # Errors
    /// The failure it tells of, or that it cannot be read.
    pub fn take(&mut self, text: &str, streamed: bool, tell: EventSink<'_>) -> Result<bool, ProviderError> {
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
                // OpenRouter's name of its upstream is no name of a provider of ours.
                "object" | "error" | "provider" | "obfuscation" | "base_resp" => {}
                _ => rest.push((name, value)),
            }
        }
        parts.usage = parts.usage.or_else(|| groq.and_then(|groq| groq.usage));
        let failed = fault::told(text);
        // A piece of a stream may be nothing but figures.
        let is_answer = parts.choices.is_some() || (streamed && parts.usage.is_some());
        if is_answer {
            self.start(&parts, tell);
            let told = self.choices(&parts, streamed, tell);
            if let Some(usage) = &parts.usage {
                self.tell_usage(usage, tell);
            }
            if failed.is_none() {
                told?;
                self.tell_members(&rest, tell);
            }
        }
        match failed {
            Some(fault) => Err(fault),
            None => Ok(is_answer),
        }
    }

    /// The provider says that the answer is over.
    pub fn end(&mut self, tell: EventSink<'_>) {
        self.flush(tell);
        tell(Event::End);
    }

    /// Nothing more comes: tells what was held back.
    pub fn flush(&mut self, tell: EventSink<'_>) {
        for (choice, turn) in (0..).zip(&mut self.choices) {
            turn.calls.close(choice, tell);
            if let Some((reason, native)) = turn.finish.take() {
                tell(Event::Finish { choice, reason, native: &native });
            }
        }
    }

    fn start(&mut self, parts: &Parts<'_>, tell: EventSink<'_>) {
        let (id, model) = (words(&parts.id), words(&parts.model));
        // Azure's first piece has neither id nor model, only what its filter says.
        let empty = id.is_none() && model.is_none() && parts.choices.as_ref().is_none_or(Vec::is_empty);
        if self.started || empty {
            return;
        }
        self.started = true;
        let seconds = |json: &Json<'_>| json.read::<f64>().or_else(|| json.text()?.parse().ok());
        let created = parts.created.as_ref().and_then(seconds).filter(|seconds| *seconds >= 1.0);
        // Seconds with a fraction, now and then; `as` saturates.
        let created = created.map(|seconds| seconds as u64);
        tell(Event::Start(Start { id: id.as_deref(), model: model.as_deref(), created }));
    }

    fn choices(
        &mut self,
        parts: &Parts<'_>,
        streamed: bool,
        tell: EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let list = parts.choices.as_deref().unwrap_or_default();
        for (position, json) in (0_u32..).zip(list) {
            let choice = json.read::<ChoiceIn<'_>>();
            let choice = choice.ok_or_else(|| ProviderError::unreadable("a choice is no object"))?;
            let index = choice.index.as_ref().and_then(Json::read::<u32>).unwrap_or(position);
            if index < MOST_CHOICES {
                self.choice(index, &choice, streamed, tell)?;
            }
            if let Some(usage) = choice.usage.filter(|_| parts.usage.is_none()) {
                self.tell_usage(&usage, tell);
            }
        }
        Ok(())
    }

    fn choice(
        &mut self,
        index: u32,
        choice: &ChoiceIn<'_>,
        streamed: bool,
        tell: EventSink<'_>,
    ) -> Result<(), ProviderError> {
        let at = index as usize;
        if self.choices.len() <= at {
            self.choices.resize_with(at + 1, Turn::default);
        }
        let Some(turn) = self.choices.get_mut(at) else { return Ok(()) };
        // Perplexity sends the whole message so far beside each delta.
        let (said, in_pieces) = match (&choice.delta, &choice.message) {
            (Some(delta), _) => (Some(delta), streamed),
            (None, message) => (message.as_ref().filter(|_| !turn.said), false),
        };
        if let Some(message) = said.and_then(Json::read::<MessageIn<'_>>) {
            turn.said |= in_pieces;
            say(index, &message, (turn, in_pieces), tell);
        }
        if let Some(logprobs) = choice.logprobs.as_ref().filter(|json| json.is_object()) {
            tell(Event::Logprobs { choice: index, json: logprobs.get() });
        }
        if let Some(error) = choice.error.as_ref().filter(|error| !error.is_null()) {
            return Err(fault::fault(error.get(), None));
        }
        let Some(reason) = words(&choice.finish_reason) else { return Ok(()) };
        match fault::ending(&reason) {
            Ending::Finish(finish) => {
                turn.finish.get_or_insert_with(|| (finish, reason.into_owned()));
                Ok(())
            }
            Ending::Fault(fault) => Err(fault),
        }
    }

    fn tell_usage(&mut self, json: &Json<'_>, tell: EventSink<'_>) {
        let usage = Usage::read(json.get().as_bytes());
        // Some repeat it with every piece.
        if let Some(usage) = usage.filter(|usage| self.usage != Some(*usage)) {
            self.usage = Some(usage);
            tell(Event::Usage(usage));
        }
    }

    fn tell_members(&mut self, rest: &[(Cow<'_, str>, Json<'_>)], tell: EventSink<'_>) {
        for (name, json) in rest {
            let known = self.members.iter().any(|member| member == name);
            if !known && self.members.len() < MOST_MEMBERS {
                self.members.push(name.clone().into_owned());
                tell(Event::Member { name, json: json.get() });
            }
        }
    }
}

/// Tells what one message or delta says, in the order a model says it.
fn say(choice: u32, message: &MessageIn<'_>, (turn, streamed): (&mut Turn, bool), tell: EventSink<'_>) {
    thinking::tell_thinking(choice, message, tell);
    if let Some(content) = &message.content {
        say_content(choice, content, tell);
    }
    if let Some(text) = words(&message.refusal) {
        tell(Event::Refusal { choice, text: &text });
    }
    for image in list(&message.images) {
        say_content(choice, &image, tell);
    }
    if let Some(audio) = message.audio.as_ref().and_then(Json::read::<AudioIn<'_>>) {
        say_audio(choice, &audio, tell);
    }
    if let Some(calls) = &message.tool_calls {
        turn.calls.take(choice, calls, streamed, tell);
    }
    if let Some(function) = &message.function_call {
        turn.calls.take_function(choice, function, streamed, tell);
    }
    for annotation in list(&message.annotations) {
        tell(Event::Annotation { choice, json: annotation.get() });
    }
    if let Some(executed) = message.executed_tools.as_ref().filter(|json| json.get() != "[]") {
        tell(Event::Member { name: "executed_tools", json: executed.get() });
    }
}

/// The members of a list; of anything else, none.
fn list<'j>(json: &'j Option<Json<'_>>) -> Vec<Json<'j>> {
    json.as_ref().and_then(Json::read).unwrap_or_default()
}

/// Text, one part, or a list of parts.
pub(super) fn say_content(choice: u32, content: &Json<'_>, tell: EventSink<'_>) {
    if let Some(text) = content.text() {
        if !text.is_empty() {
            tell(Event::Text { choice, text: &text });
        }
        return;
    }
    if let Some(parts) = content.read::<Vec<Json<'_>>>() {
        return parts.iter().for_each(|part| say_part(choice, part, tell));
    }
    say_part(choice, content, tell);
}

fn say_part(choice: u32, json: &Json<'_>, tell: EventSink<'_>) {
    if let Some(text) = json.text() {
        return tell(Event::Text { choice, text: &text });
    }
    if thinking::tell_block(choice, json, tell) {
        return;
    }
    let part = json.read::<PartIn<'_>>().unwrap_or_default();
    if let Some(text) = words(&part.text) {
        tell(Event::Text { choice, text: &text });
    } else if let Some(text) = words(&part.refusal) {
        tell(Event::Refusal { choice, text: &text });
    } else if let Some(image) = part.image_url {
        let inner = image.read::<UrlIn<'_>>().unwrap_or_default();
        if let Some(url) = image.text().or_else(|| words(&inner.url)) {
            say_image(choice, url, tell);
        }
    }
}

/// A picture in a `data:` URL, or one that stands elsewhere.
fn say_image(choice: u32, url: Cow<'_, str>, tell: EventSink<'_>) {
    match Source::from_url(url) {
        Source::Data { media_type, data } => {
            tell(Event::Media { choice, media_type: &media_type, data: &data });
        }
        Source::Url { url, .. } => {
            let block = serde_json::json!({"type": "image", "source": {"type": "url", "url": url}});
            tell(Event::Block { choice, json: &block.to_string() });
        }
        Source::Text(_) | Source::Id(_) => {}
    }
}

fn say_audio(choice: u32, audio: &AudioIn<'_>, tell: EventSink<'_>) {
    if let Some(text) = words(&audio.transcript) {
        tell(Event::Text { choice, text: &text });
    }
    if let Some(data) = words(&audio.data) {
        // The answer does not say what it is; its first bytes do, in base64. Streams are pcm16.
        let media_type = match data.get(..4) {
            Some("UklG") => "audio/wav",
            Some("SUQz" | "//uQ" | "//vQ" | "//sw" | "//NE" | "//PE") => "audio/mpeg",
            Some("T2dn") => "audio/ogg",
            Some("ZkxhQ" | "Zkxh") => "audio/flac",
            _ => "audio/pcm",
        };
        tell(Event::Media { choice, media_type, data: &data });
    }
}
