//! Google's Gemini: encodes a chat as a `generateContent` request and decodes the response into events.
//!
//! Used by two providers, [`super::google`] and [`super::vertex`], which decide addresses and credentials.
//! Sources: <https://ai.google.dev/api/generate-content>, and recorded traffic.

use super::adapter::{CallTarget, ChatAdapter};
use super::tool_names::NameRule;
use super::translation_notes::TranslationNotes;
use model::Model;
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::chat::{ChatRequest, Decoder};
use words::api::gemini;
use words::error::Error;
use words::json::Json;

mod blocks;
mod calls;
mod config;
mod content;
pub mod count;
mod decoder;
pub mod embeddings;
mod grounding;
mod logprobs;
mod media;
mod model;
pub mod models;
mod partial_args;
mod request;
mod response;
mod schema;
mod tools;

/// Gemini's chat adapter, for one of its two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gemini {
    /// generativelanguage.googleapis.com.
    Studio,
    /// aiplatform.googleapis.com.
    Vertex,
}

impl Gemini {
    /// The provider's id, for error messages.
    const fn provider(self) -> &'static str {
        match self {
            Self::Studio => "google",
            Self::Vertex => "vertex-ai",
        }
    }

    const fn is_vertex(self) -> bool {
        matches!(self, Self::Vertex)
    }
}

impl ChatAdapter for Gemini {
    fn write(
        &self,
        request: ChatRequest<'_>,
        target: &CallTarget<'_>,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<u8>, Error> {
        request::write(request, *self, Model::from_name(target.model), notes)
    }

    fn tool_names(&self) -> NameRule {
        NameRule::GEMINI
    }

    fn decoder(&self, streamed: bool) -> Box<dyn Decoder> {
        Box::new(decoder::GeminiDecoder::new(streamed))
    }
}

/// The edits of a request that is Google's already: the model as it is named there, where the body repeats it, and no signatures of
/// other providers. `model`: `models/x`.
pub(super) fn own_edits(body: &Body, model: &str) -> Result<Vec<Edit<'static>>, Error> {
    let mut edits: Vec<Edit<'static>> = gemini::foreign_signatures(body)?.into_iter().collect();
    let named = Json::from_value(model);
    let renamed = |json: &Json<'_>| -> Option<Json<'static>> {
        let members = Json::members(json.get())?;
        let renamed = members.iter().map(|(name, json)| match name.as_ref() {
            "model" => (name.as_ref(), named.get()),
            name => (name, json.get()),
        });
        Some(Json::object_of(renamed))
    };
    let set = |name, json: &Json<'_>| Edit::Set(name, Cow::Owned(json.get().to_owned()));
    if body.text("model").is_some_and(|given| given != model) {
        edits.push(set("model", &named));
    }
    for name in ["generateContentRequest", "generate_content_request"] {
        let request = body.raw(name).and_then(Json::parse);
        edits.extend(request.and_then(|request| renamed(&request)).map(|request| set(name, &request)));
    }
    if let Some(requests) = body.read::<Vec<Json<'_>>>("requests") {
        let requests: Vec<Json<'_>> =
            requests.iter().map(|request| renamed(request).unwrap_or_else(|| request.clone())).collect();
        edits.push(set("requests", &Json::from_value(&requests)));
    }
    Ok(edits)
}

/// JSON text without white space between its tokens: Google's responses are spread over many lines, but the
/// data of an event must be one line.
fn compact(json: &str) -> Cow<'_, str> {
    if !json.contains(['\n', '\r']) {
        return Cow::Borrowed(json);
    }
    let mut inside = false;
    let mut escaped = false;
    let kept = json.chars().filter(|&char| {
        match char {
            '"' if !escaped => inside = !inside,
            ' ' | '\n' | '\r' | '\t' if !inside => return false,
            _ => {}
        }
        escaped = inside && char == '\\' && !escaped;
        true
    });
    Cow::Owned(kept.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_between_tokens_goes() {
        let laid_out = "{\n  \"a b\": [1.0, \"\\\\\", \" \\\" \"],\r\n\t\"c\": \"\\n \"\n}";
        assert_eq!(compact(laid_out), r#"{"a b":[1.0,"\\"," \" "],"c":"\n "}"#);
        assert_eq!(compact(r#"{"a": 1}"#), r#"{"a": 1}"#);
    }
}

#[cfg(test)]
mod recordings;
