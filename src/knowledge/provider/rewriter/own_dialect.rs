//! A response that keeps its provider's own shape while its text is filtered, each text where it stands.
//!
//! For dialects whose responses have more than a chat has: the ids of a response and of its items, which later requests
//! name, and items, events and members that this gateway does not know. All of that stays as the provider sent it; only
//! text is replaced, and what describes text that was replaced is left out. Chats are decoded and encoded again instead.

mod calls;
mod completions;
mod conversion;
mod responses;
pub(super) mod unlisted;

use super::super::bounded_body::BoundedBody;
use super::text_filters::TextFilters;
use conversion::Conversion;
use responses::ResponseText;
use words::api::chat::ProviderError;
use words::api::sse::{SseEvent, SseParser, write_event};
use words::error::Error;
use words::json::Json;
use words::json::splice::Object;
use words::json::surrogates;

/// The dialects that are filtered this way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnShape {
    Completions,
    Responses,
}

/// The filtering of one response.
#[derive(Debug)]
pub(super) struct OwnDialect {
    texts: Texts,
    form: Form,
    /// Where the client wants the other kind.
    conversion: Option<Conversion>,
}

#[derive(Debug)]
enum Texts {
    Completions,
    Responses(Box<ResponseText>),
}

#[derive(Debug)]
enum Form {
    Stream(SseParser),
    Whole(BoundedBody),
}

/// Why a response is not passed on.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A filter denied it.
    Denied(Box<Error>),
    /// Its text cannot be found, so it cannot be filtered.
    Unreadable(ProviderError),
}

/// What becomes of one event.
#[derive(Debug, Default)]
struct Rewritten {
    /// The data and the names of events to send before it.
    before: Vec<(Vec<u8>, &'static str)>,
    event: Change,
}

#[derive(Debug, Default)]
enum Change {
    #[default]
    None,
    Data(Vec<u8>),
    Dropped,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Denied(Box::new(error))
    }
}

impl Refusal {
    fn unreadable(what: &str) -> Self {
        Self::Unreadable(ProviderError::unreadable(what))
    }
}

impl OwnDialect {
    /// `streamed`: the provider's response is a stream of events; `wants_stream`: the client's must be one.
    pub fn new(shape: OwnShape, streamed: bool, wants_stream: bool) -> Self {
        let texts = match shape {
            OwnShape::Completions => Texts::Completions,
            OwnShape::Responses => Texts::Responses(Box::default()),
        };
        let form =
            if streamed { Form::Stream(SseParser::default()) } else { Form::Whole(BoundedBody::default()) };
        let conversion = (streamed != wants_stream).then(|| Conversion::new(shape, wants_stream));
        Self { texts, form, conversion }
    }

    /// Takes the next bytes of the response.
    ///
    /// # Errors
    /// Nothing more of it may be passed on.
    pub fn push(
        &mut self,
        bytes: &[u8],
        filters: &mut TextFilters,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let Some(conversion) = &mut self.conversion else {
            return self.form.push(&mut self.texts, bytes, filters, out);
        };
        let mut filtered = Vec::new();
        self.form.push(&mut self.texts, bytes, filters, &mut filtered)?;
        conversion.push(&filtered, out)
    }

    /// The response has ended.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn finish(&mut self, filters: &mut TextFilters, out: &mut Vec<u8>) -> Result<(), Refusal> {
        let Some(conversion) = &mut self.conversion else {
            return self.form.finish(&mut self.texts, filters, out);
        };
        let mut filtered = Vec::new();
        self.form.finish(&mut self.texts, filters, &mut filtered)?;
        conversion.push(&filtered, out)?;
        conversion.finish(out)
    }

    /// Whether the client has the whole response, although the provider's may not have ended.
    pub fn is_complete(&self) -> bool {
        self.conversion.as_ref().is_some_and(Conversion::is_complete)
    }
}

impl Form {
    fn push(
        &mut self,
        texts: &mut Texts,
        bytes: &[u8],
        filters: &mut TextFilters,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        match self {
            Self::Whole(held) => held.push(bytes).map_err(Refusal::Unreadable),
            Self::Stream(parser) => {
                let run = parser.push(bytes);
                if run.is_oversized() {
                    return Err(Refusal::unreadable("an event of its stream is over 16 MiB"));
                }
                run.events().try_for_each(|event| texts.event(&event, filters, out))
            }
        }
    }

    fn finish(
        &mut self,
        texts: &mut Texts,
        filters: &mut TextFilters,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        match self {
            Self::Whole(held) => {
                let body = held.take().unwrap_or_default();
                match texts.whole(&body, filters)? {
                    Some(changed) => out.extend_from_slice(&changed),
                    None => out.extend_from_slice(&body),
                }
                Ok(())
            }
            Self::Stream(parser) => {
                let run = parser.finish();
                // An event without a blank line behind it may be incomplete; then the response is.
                let is_whole = |event: &SseEvent<'_>| event.data.as_deref().is_none_or(is_json);
                run.events().filter(is_whole).try_for_each(|event| texts.event(&event, filters, out))
            }
        }
    }
}

impl Texts {
    fn event(
        &mut self,
        event: &SseEvent<'_>,
        filters: &mut TextFilters,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let data = event.data.as_deref().unwrap_or_default().trim_ascii();
        // Comments, and empty events that keep a connection alive.
        if data.is_empty() || data == b"[DONE]" {
            out.extend_from_slice(event.raw);
            return Ok(());
        }
        let text = &*surrogates::replaced(text_of(data)?);
        let object = Object::read(text).ok_or_else(|| Refusal::unreadable("an event is no JSON object"))?;
        let rewritten = match self {
            Self::Completions => match completions::filter(text, &object, false, filters)? {
                Some(data) => Rewritten { before: Vec::new(), event: Change::Data(data) },
                None => Rewritten::default(),
            },
            Self::Responses(texts) => texts.event(text, &object, filters)?,
        };
        for (data, name) in rewritten.before {
            write_event(out, event.name.map(|_| name), &data);
        }
        match rewritten.event {
            Change::None => out.extend_from_slice(event.raw),
            Change::Data(data) => write_event(out, event.name, &data),
            Change::Dropped => {}
        }
        Ok(())
    }

    /// A whole response with its text filtered; `None` if it stays as it is.
    fn whole(&mut self, body: &[u8], filters: &mut TextFilters) -> Result<Option<Vec<u8>>, Refusal> {
        let text = &*surrogates::replaced(text_of(body)?.trim_start_matches('\u{feff}').trim());
        let object = Object::read(text).ok_or_else(|| Refusal::unreadable("it is no JSON object"))?;
        match self {
            Self::Completions => completions::filter(text, &object, true, filters),
            Self::Responses(texts) => texts.whole(text, &object, filters),
        }
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(bytes).map_err(|_| Refusal::unreadable("it is not UTF-8"))
}

fn is_json(data: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(data).is_ok() || data.trim_ascii() == b"[DONE]"
}

/// The objects in a member that is a list, with their places in it; none if there is no such member.
fn objects<'t>(object: &Object<'t>, name: &str) -> Result<Vec<(u32, Object<'t>)>, Refusal> {
    let Some(list) = object.json_of(name).filter(|list| *list != "null") else { return Ok(Vec::new()) };
    let items: Result<Vec<Json<'t>>, _> = serde_json::from_str(list);
    let items = items.map_err(|_| Refusal::unreadable(&format!("its {name} is no list")))?;
    let unreadable = || Refusal::unreadable(&format!("a part of its {name} cannot be read"));
    let read = |(place, item): (u32, &Json<'t>)| {
        let object = item.source().and_then(Object::read).ok_or_else(unreadable);
        object.map(|object| (place, object))
    };
    (0..).zip(&items).filter(|(_, item)| item.is_object()).map(read).collect()
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    Json::from_value(text).get().to_owned()
}

#[cfg(test)]
mod recordings;
