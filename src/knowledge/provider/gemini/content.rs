//! A chat's messages as Gemini's contents.
//!
//! Example: `assistant (calls a, b), tool b, tool a, user` becomes three contents: `model` with both calls,
//! `user` with the results of a and b, `user` with the text. Successive messages of one speaker share a content, but
//! function results stand alone and in the order of the calls: the API requires one result per call, directly
//! after the calls.

use super::model::Model;
use super::{Gemini, blocks, media};
use crate::provider::translation_notes::TranslationNotes;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use words::api::chat::{File, Image, Message, Part, Place, Role, Source, ToolCall};
use words::api::gemini::wire::{GeminiBlob, GeminiCall};
use words::error::Error;
use words::json::{Json, JsonStr};

/// Replaces a signature that no model gave: base64 of `skip_thought_signature_validator`, which Google
/// documents for calls from other sources (<https://ai.google.dev/gemini-api/docs/thought-signatures>).
const PLACEHOLDER_SIGNATURE: &str = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=";

/// Gemini's `Content`.
#[derive(Debug, serde::Serialize)]
pub(super) struct Content<'a> {
    pub role: &'static str,
    pub parts: Vec<PartOut<'a>>,
    #[serde(skip)]
    is_results: bool,
}

/// Gemini's `Part`: one kind of data, with what it may have beside it.
#[derive(Debug, Default)]
pub(super) struct PartOut<'a> {
    pub data: Data<'a>,
    pub thought: bool,
    pub thought_signature: Option<Cow<'a, str>>,
}

/// The data of a part. Large kinds are boxed, because most parts are texts.
#[derive(Debug, Default)]
pub(super) enum Data<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Inline(Box<GeminiBlob<'a>>),
    File(Box<GeminiBlob<'a>>),
    Call(Box<GeminiCall<'a>>),
    Response(Box<FunctionResponse<'a>>),
    /// Of Google's own tools, under this name.
    ServerTool(&'static str, Json<'a>),
}

impl Serialize for PartOut<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.data {
            Data::None => {}
            Data::Text(text) => map.serialize_entry("text", text)?,
            Data::Inline(blob) => map.serialize_entry("inlineData", blob)?,
            Data::File(file) => map.serialize_entry("fileData", file)?,
            Data::Call(call) => map.serialize_entry("functionCall", call)?,
            Data::Response(response) => map.serialize_entry("functionResponse", response)?,
            Data::ServerTool(name, json) => map.serialize_entry(name, json)?,
        }
        if self.thought {
            map.serialize_entry("thought", &true)?;
        }
        if let Some(signature) = &self.thought_signature {
            map.serialize_entry("thoughtSignature", signature)?;
        }
        map.end()
    }
}

#[derive(Debug, serde::Serialize)]
pub(super) struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Cow<'a, str>>,
    name: Cow<'a, str>,
    response: Json<'a>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<PartOut<'a>>,
}

impl<'a> PartOut<'a> {
    fn of(data: Data<'a>) -> Self {
        Self { data, ..Self::default() }
    }

    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::of(Data::Text(text.into()))
    }

    fn inline(mime_type: Cow<'a, str>, data: Cow<'a, str>) -> Self {
        let mime_type = Some(JsonStr(mime_type));
        let blob = GeminiBlob { mime_type, data: Some(JsonStr(data)), ..GeminiBlob::default() };
        Self::of(Data::Inline(Box::new(blob)))
    }

    fn file(mime_type: Option<Cow<'a, str>>, uri: Cow<'a, str>) -> Self {
        let mime_type = mime_type.map(JsonStr);
        let file = GeminiBlob { mime_type, file_uri: Some(JsonStr(uri)), ..GeminiBlob::default() };
        Self::of(Data::File(Box::new(file)))
    }
}

/// The messages of a chat in Gemini's form.
#[derive(Debug, Default)]
pub(super) struct Turns<'a> {
    pub system: Vec<PartOut<'a>>,
    pub contents: Vec<Content<'a>>,
    /// An earlier turn used Google's own tools.
    pub has_server_tools: bool,
}

/// Converts all messages.
///
/// # Errors
/// 400 that names a part Gemini does not support.
pub(super) fn turns<'a>(
    messages: Vec<Message<'a>>,
    gemini: Gemini,
    model: Model,
    notes: &mut TranslationNotes,
) -> Result<Turns<'a>, Error> {
    let mut builder = ContentBuilder {
        gemini,
        model,
        names: names(&messages),
        calls: HashMap::new(),
        has_calls: false,
        results: Vec::new(),
        turns: Turns::default(),
        notes,
    };
    for (index, message) in messages.into_iter().enumerate() {
        let place = message.place(index);
        builder.take(message, place)?;
    }
    builder.close_results();
    let mut turns = builder.turns;
    if turns.contents.is_empty() {
        // Other providers accept a system prompt alone; Gemini requires contents.
        turns.contents.push(Content {
            role: "user",
            parts: std::mem::take(&mut turns.system),
            is_results: false,
        });
    }
    if let Some(content) = turns.contents.iter_mut().find(|content| content.parts.is_empty()) {
        content.parts.push(PartOut::text(""));
    }
    Ok(turns)
}

/// The function name of each call, by the call's id: a result only names the call.
fn names(messages: &[Message<'_>]) -> HashMap<String, String> {
    let parts = messages.iter().flat_map(|message| &message.content);
    let calls = parts.filter_map(|part| match part {
        Part::ToolCall(call) => Some((call.id.clone().into_owned(), call.name.clone().into_owned())),
        _ => None,
    });
    calls.collect()
}

struct ContentBuilder<'a, 'o> {
    gemini: Gemini,
    model: Model,
    names: HashMap<String, String>,
    /// The ids of the latest calls, with their places among them.
    calls: HashMap<String, usize>,
    /// The last content has calls.
    has_calls: bool,
    /// Their results, each with the position of its call.
    results: Vec<(usize, FunctionResponse<'a>, Vec<PartOut<'a>>)>,
    turns: Turns<'a>,
    notes: &'o mut TranslationNotes,
}

impl<'a> ContentBuilder<'a, '_> {
    fn take(&mut self, message: Message<'a>, place: Place) -> Result<(), Error> {
        if message.role == Role::Tool {
            return self.result(message, place);
        }
        self.close_results();
        if message.name.is_some() {
            self.drop_once("messages.name");
        }
        let role = match message.role {
            Role::Assistant => "model",
            _ => "user",
        };
        let mut parts = Vec::with_capacity(message.content.len());
        for (at, part) in message.content.into_iter().enumerate() {
            self.part(part, message.role, format_args!("{place}.content[{at}]"), &mut parts)?;
        }
        match message.role {
            Role::System | Role::Developer => self.turns.system.append(&mut parts),
            _ if parts.is_empty() => {}
            _ => self.push(role, false, parts),
        }
        Ok(())
    }

    fn drop_once(&mut self, param: &str) {
        let what = format!("dropped, {} has no such parameter", self.gemini.provider());
        self.notes.warn_once(param, &what);
    }

    /// Appends to the last content if it has the same role.
    fn push(&mut self, role: &'static str, is_results: bool, mut parts: Vec<PartOut<'a>>) {
        let continues =
            self.turns.contents.last().is_some_and(|last| last.role == role && last.is_results == is_results);
        if !continues {
            self.has_calls = false;
            if role == "model" {
                self.calls.clear();
            }
        }
        self.note_calls(&mut parts);
        match self.turns.contents.last_mut() {
            Some(last) if continues => last.parts.append(&mut parts),
            _ => self.turns.contents.push(Content { role, parts, is_results }),
        }
    }

    /// Notes the order of the calls, and gives the first one of a content a signature if the model requires one.
    fn note_calls(&mut self, parts: &mut [PartOut<'a>]) {
        for part in parts {
            let Data::Call(call) = &mut part.data else { continue };
            let id = call.id.clone().unwrap_or_default().0.into_owned();
            if self.gemini.is_vertex() {
                // Not every version of Vertex's API has call ids; the order of the results identifies the
                // calls.
                call.id = None;
            }
            let place = self.calls.len();
            self.calls.entry(id).or_insert(place);
            let is_first = !std::mem::replace(&mut self.has_calls, true);
            if is_first && self.model.requires_signatures && part.thought_signature.is_none() {
                part.thought_signature = Some(Cow::Borrowed(PLACEHOLDER_SIGNATURE));
            }
        }
    }

    fn result(&mut self, message: Message<'a>, place: Place) -> Result<(), Error> {
        let id = message.tool_call_id.clone().unwrap_or_default();
        let name = self.names.get(id.as_ref()).cloned().map(Cow::Owned).or(message.name.clone());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| id.clone());
        if name.is_empty() {
            let at = format!("{place}.tool_call_id");
            let text = format!("{at} must be the id of an earlier tool call.");
            return Err(Error::invalid_request(at, text));
        }
        let response = response(&message);
        let mut inside = Vec::new();
        let mut behind = Vec::new();
        for (at, part) in message.content.into_iter().enumerate() {
            if matches!(part, Part::Text { .. } | Part::Refusal(_)) {
                continue;
            }
            let mut parts = Vec::new();
            self.part(part, Role::Tool, format_args!("{place}.content[{at}]"), &mut parts)?;
            let fits = self.model.requires_signatures && parts.iter().all(fits_in_a_result);
            if fits { &mut inside } else { &mut behind }.append(&mut parts);
        }
        let place = self.calls.get(id.as_ref()).copied().unwrap_or(usize::MAX);
        let id = Some(id).filter(|id| !id.is_empty() && !self.gemini.is_vertex());
        self.results.push((place, FunctionResponse { id, name, response, parts: inside }, behind));
        Ok(())
    }

    /// Writes the results of successive tool messages.
    fn close_results(&mut self) {
        if self.results.is_empty() {
            return;
        }
        let mut results = std::mem::take(&mut self.results);
        results.sort_by_key(|(place, _, _)| *place);
        let mut media = Vec::new();
        let mut parts = Vec::with_capacity(results.len());
        for (_, outcome, mut behind) in results {
            media.append(&mut behind);
            parts.push(PartOut::of(Data::Response(Box::new(outcome))));
        }
        self.push("user", true, parts);
        if !media.is_empty() {
            self.push("user", false, media);
        }
    }

    fn part(
        &mut self,
        part: Part<'a>,
        role: Role,
        at: fmt::Arguments<'_>,
        parts: &mut Vec<PartOut<'a>>,
    ) -> Result<(), Error> {
        match part {
            Part::Text { text, .. } | Part::Refusal(text) if text.is_empty() => {}
            Part::Text { text, .. } | Part::Refusal(text) => parts.push(PartOut::text(text)),
            Part::Image(image) => {
                let Image { source, detail, .. } = *image;
                if detail.is_some_and(|detail| detail != "auto") {
                    self.drop_once("image_url.detail");
                }
                parts.push(self.source(source, Some("image/jpeg"), at)?);
            }
            Part::Audio { data, format } => {
                let mime_type = Cow::Owned(media::audio_media_type(&format));
                parts.push(PartOut::inline(mime_type, data));
            }
            Part::File(file) => {
                let File { source, name, .. } = *file;
                if name.is_some() {
                    self.drop_once("file.filename");
                }
                // Vertex requires a media type with every file; PDF is the default, as at Portkey.
                let default_type = self.gemini.is_vertex().then_some("application/pdf");
                parts.push(self.source(source, default_type, at)?);
            }
            Part::Reasoning { text, signature } => reasoning(text, signature, parts),
            Part::Redacted { .. } => {
                self.notes.warn(at, "dropped, only the provider that sealed it can read it");
            }
            Part::ToolCall(call) => parts.push(call_out(*call)),
            Part::Other { kind, json } => self.other(&kind, &json, role, at, parts)?,
        }
        Ok(())
    }

    fn source(
        &self,
        source: Source<'a>,
        default_type: Option<&'static str>,
        at: fmt::Arguments<'_>,
    ) -> Result<PartOut<'a>, Error> {
        let (mime_type, file_uri) = match source {
            Source::Text(text) => return Ok(PartOut::text(text)),
            Source::Data { media_type, data } => {
                let mime_type = Some(media_type).filter(|media_type| !media_type.is_empty());
                let mime_type =
                    mime_type.unwrap_or(Cow::Borrowed(default_type.unwrap_or("application/octet-stream")));
                return Ok(PartOut::inline(mime_type, data));
            }
            Source::Url { url, media_type } => {
                let guessed = media_type.or_else(|| media::by_extension(&url).map(Cow::Borrowed));
                (guessed.or(default_type.map(Cow::Borrowed)), url)
            }
            Source::Id(id) if id.contains("://") => (media::by_extension(&id).map(Cow::Borrowed), id),
            Source::Id(id) if !self.gemini.is_vertex() => {
                let name = id.strip_prefix("files/").unwrap_or(&id);
                let uri = format!("https://generativelanguage.googleapis.com/v1beta/files/{name}");
                (None, Cow::Owned(uri))
            }
            Source::Id(_) => {
                let text = "Vertex AI keeps no files by id. Send the data, or a gs:// or https:// URL.";
                return Err(
                    Error::invalid_request(at.to_string(), text).with_provider(self.gemini.provider())
                );
            }
        };
        Ok(PartOut::file(mime_type, file_uri))
    }

    fn other(
        &mut self,
        kind: &str,
        json: &Json<'a>,
        role: Role,
        at: fmt::Arguments<'_>,
        parts: &mut Vec<PartOut<'a>>,
    ) -> Result<(), Error> {
        if let ("video_url" | "audio_url", Some((url, media_type))) = (kind, linked_media(kind, json)) {
            let default_type = if kind == "video_url" { "video/mp4" } else { "audio/mpeg" };
            let source = match Source::from_url(url) {
                Source::Url { url, .. } => Source::Url { url, media_type },
                source => source,
            };
            parts.push(self.source(source, Some(default_type), at)?);
            return Ok(());
        }
        if role == Role::Assistant {
            match blocks::part(kind, json) {
                Some(part) => {
                    self.turns.has_server_tools |=
                        matches!(part.data, Data::ServerTool("toolCall" | "toolResponse", _));
                    parts.push(part);
                }
                // A block of another provider's own tools: its findings are in the text anyway.
                None => self.notes.warn(at, format!("dropped, {kind} is of another provider")),
            }
            return Ok(());
        }
        let provider = self.gemini.provider();
        let text = format!("{provider} cannot take a part of type {kind:?}.");
        Err(Error::invalid_request(format!("{at}.type"), text).with_provider(provider))
    }
}

/// The URL in `{"type":"video_url","video_url":{"url":..}}`, or in `{"type":"video_url","video_url":".."}`.
fn linked_media<'a>(kind: &str, json: &Json<'a>) -> Option<(Cow<'a, str>, Option<Cow<'a, str>>)> {
    let text_of = |json: &Json<'a>| serde_json::from_str::<JsonStr<'a>>(json.source()?).ok();
    let (_, inner) = Json::members(json.source()?)?.into_iter().find(|(name, _)| name == kind)?;
    if let Some(url) = text_of(&inner) {
        return Some((url.0, None));
    }
    let members = Json::members(inner.source()?)?;
    let member =
        |wanted: &str| members.iter().find(|(name, _)| name == wanted).and_then(|(_, json)| text_of(json));
    Some((member("url")?.0, member("mime_type").map(|text| text.0)))
}

/// Thinking of an earlier turn. Gemini signs responses, not thinking. A signature without thinking belongs to
/// the text before it; one on thinking is another provider's and would be refused by Gemini, so it is
/// dropped.
fn reasoning<'a>(text: Cow<'a, str>, signature: Option<Cow<'a, str>>, parts: &mut Vec<PartOut<'a>>) {
    if !text.is_empty() {
        return parts.push(PartOut { thought: true, ..PartOut::text(text) });
    }
    let Some(signature) = signature else { return };
    match parts.last_mut() {
        Some(last)
            if matches!(last.data, Data::Text(_)) && !last.thought && last.thought_signature.is_none() =>
        {
            last.thought_signature = Some(signature);
        }
        _ => parts.push(PartOut { thought_signature: Some(signature), ..PartOut::text("") }),
    }
}

fn call_out(call: ToolCall<'_>) -> PartOut<'_> {
    let ToolCall { id, name, arguments, signature, .. } = call;
    let args = match arguments.trim() {
        "" | "null" => Some(Json::empty_object()),
        text => match &arguments {
            Cow::Borrowed(_) => None,
            Cow::Owned(_) => Json::owned(text.to_owned()),
        },
    };
    let args = args.or_else(|| borrowed(&arguments)).filter(Json::is_object);
    // Malformed arguments are passed as text.
    let args = args.unwrap_or_else(|| Json::object(&[("arguments", Json::from_value(arguments.as_ref()))]));
    let id = Some(id).filter(|id| !id.is_empty()).map(JsonStr);
    let call = GeminiCall { id, name: Some(JsonStr(name)), args: Some(args), ..GeminiCall::default() };
    let data = Data::Call(Box::new(call));
    PartOut { data, thought_signature: signature, ..PartOut::default() }
}

fn borrowed<'a>(text: &Cow<'a, str>) -> Option<Json<'a>> {
    match text {
        Cow::Borrowed(text) => Json::parse(text.trim()),
        Cow::Owned(_) => None,
    }
}

/// A tool's result as an object, which Gemini requires: an object stays as it is, other text goes under
/// `output`, an error under `error`.
fn response<'a>(message: &Message<'a>) -> Json<'a> {
    let parsed = match message.content.as_slice() {
        [Part::Text { text: Cow::Borrowed(text), .. }] => Json::parse(text.trim()),
        [Part::Text { text: Cow::Owned(text), .. }] => Json::owned(text.trim().to_owned()),
        _ => None,
    };
    match parsed.filter(Json::is_object) {
        Some(parsed) if !message.is_error => parsed,
        _ => {
            let name = if message.is_error { "error" } else { "output" };
            Json::object(&[(name, Json::from_value(message.text().as_ref()))])
        }
    }
}

/// Whether a function's result may contain the part:
/// <https://ai.google.dev/gemini-api/docs/function-calling#multimodal>
fn fits_in_a_result(part: &PartOut<'_>) -> bool {
    let mime_type = match &part.data {
        Data::Inline(blob) | Data::File(blob) => blob.mime_type.as_deref(),
        _ => None,
    };
    let allowed = ["image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"];
    mime_type.is_some_and(|mime_type| allowed.contains(&mime_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A guardrail has seen the parts of a result one below the other: put together they would be a text that it has not seen.
    #[test]
    fn the_parts_of_a_result_are_one_below_the_other() {
        let of = |parts: &[&'static str], is_error: bool| {
            let content = parts.iter().map(|text| Part::text(*text)).collect();
            response(&Message { is_error, ..Message::new(Role::Tool, content) }).get().to_owned()
        };
        assert_eq!(of(&["BA", "DIN"], false), r#"{"output":"BA\nDIN"}"#);
        assert_eq!(of(&["BA", "", "DIN", "."], true), r#"{"error":"BA\nDIN\n."}"#);
        assert_eq!(of(&["a", ""], false), r#"{"output":"a"}"#);
        assert_eq!(of(&[r#"{"a":1}"#], false), r#"{"a":1}"#);
    }
}
