//! The parts of messages in a chat completion request: content lists read into [`Part`]s.
//!
//! Not here: what is a part of an assistant's message only (calls, earlier thinking of its own members).

use super::request::reread;
use crate::api::chat::read::{missing, parse, parse_string};
use crate::api::chat::{File, Image, Part, Place, Source, cache_mark};
use crate::api::part_members::{BREAKPOINT, Inner, PartKind, PartShapes};
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;

/// The text of a `thinking` part: a string, or Mistral's list of text parts
/// (<https://docs.mistral.ai/capabilities/reasoning/>). `None` if it is neither.
pub(super) fn thinking_text<'a>(thinking: Option<&Json<'a>>) -> Option<Cow<'a, str>> {
    #[derive(Deserialize)]
    struct TextPartIn<'a> {
        #[serde(borrow)]
        text: Option<JsonStr<'a>>,
    }
    let Some(json) = thinking.filter(|json| !json.is_null()) else { return Some(Cow::Borrowed("")) };
    let source = json.source()?;
    if let Some(text) = parse_string(source) {
        return Some(text);
    }
    let parts = serde_json::from_str::<Vec<TextPartIn<'a>>>(source).ok()?;
    let text: String = parts.into_iter().filter_map(|part| part.text).map(|text| text.0).collect();
    Some(Cow::Owned(text))
}

#[derive(Deserialize)]
struct PartIn<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<JsonStr<'a>>,
    text: Option<JsonStr<'a>>,
    refusal: Option<JsonStr<'a>>,
    image_url: Option<Json<'a>>,
    input_audio: Option<Json<'a>>,
    file: Option<Json<'a>>,
    thinking: Option<Json<'a>>,
    signature: Option<JsonStr<'a>>,
    data: Option<JsonStr<'a>>,
    cache_control: Option<Json<'a>>,
    prompt_cache_breakpoint: Option<Json<'a>>,
}

/// What is read of parts, in the structs above and below.
pub(super) const PARTS: PartShapes = PartShapes {
    lists: &["content"],
    kinds: &[
        PartKind { kind: "text", members: TEXT, inner: &[] },
        PartKind { kind: "input_text", members: TEXT, inner: &[] },
        PartKind { kind: "output_text", members: TEXT, inner: &[] },
        PartKind { kind: "refusal", members: &["refusal"], inner: &[] },
        PartKind {
            kind: "image_url",
            members: &["image_url", "cache_control", BREAKPOINT],
            inner: &[Inner { name: "image_url", members: &["url", "detail", "mime_type"] }],
        },
        PartKind {
            kind: "input_audio",
            members: &["input_audio"],
            inner: &[Inner { name: "input_audio", members: &["data", "format"] }],
        },
        PartKind {
            kind: "file",
            members: &["file", "cache_control", BREAKPOINT],
            inner: &[Inner {
                name: "file",
                members: &["file_data", "file_id", "file_url", "filename", "mime_type"],
            }],
        },
        PartKind { kind: "thinking", members: &["thinking", "signature"], inner: &[] },
        PartKind { kind: "redacted_thinking", members: &["data"], inner: &[] },
    ],
};
const TEXT: &[&str] = &["text", "cache_control", BREAKPOINT];

#[derive(Deserialize)]
struct ImageIn<'a> {
    #[serde(borrow)]
    url: Option<JsonStr<'a>>,
    detail: Option<JsonStr<'a>>,
    /// An extension of Portkey's, for URLs that do not show their media type.
    mime_type: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct AudioIn<'a> {
    #[serde(borrow)]
    data: JsonStr<'a>,
    format: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct FileIn<'a> {
    #[serde(borrow)]
    file_data: Option<JsonStr<'a>>,
    file_id: Option<JsonStr<'a>>,
    file_url: Option<JsonStr<'a>>,
    filename: Option<JsonStr<'a>>,
    mime_type: Option<JsonStr<'a>>,
}

pub(super) fn parts<'a>(content: &Json<'a>, at: Place, into: &mut Vec<Part<'a>>) -> Result<(), Error> {
    let Some(text) = content.source().filter(|_| !content.is_null()) else { return Ok(()) };
    if let Some(text) = parse_string(text) {
        if !text.is_empty() {
            // Most messages have one part. Without this the list would have room for four, which are large.
            into.reserve_exact(1);
            into.push(Part::text(text));
        }
        return Ok(());
    }
    let list: Vec<Json<'a>> = parse(text, format_args!("{at}.content"), "a string or a list of parts")?;
    into.reserve_exact(list.len());
    for (index, json) in list.into_iter().enumerate() {
        into.push(part(json, format_args!("{at}.content[{index}]"))?);
    }
    Ok(())
}

fn part<'a>(json: Json<'a>, at: fmt::Arguments<'_>) -> Result<Part<'a>, Error> {
    let input: PartIn<'a> = reread(&json, at)?;
    let cache_control = cache_mark(input.cache_control, input.prompt_cache_breakpoint);
    let kind = input.kind.unwrap_or_default();
    Ok(match kind.as_ref() {
        "text" | "input_text" | "output_text" => {
            Part::Text { text: input.text.unwrap_or_default().0, cache_control }
        }
        "refusal" => Part::Refusal(input.refusal.unwrap_or_default().0),
        "image_url" => {
            let at = format_args!("{at}.image_url");
            let json = input.image_url.ok_or_else(|| missing(at))?;
            // Some clients write the URL without the object around it.
            let image = match json.source().and_then(parse_string) {
                Some(url) => ImageIn { url: Some(JsonStr(url)), detail: None, mime_type: None },
                None => reread(&json, at)?,
            };
            let url = image.url.ok_or_else(|| missing(format_args!("{at}.url")))?;
            let mut source = Source::from_url(url.0);
            if let (Source::Url { media_type, .. }, Some(mime_type)) = (&mut source, image.mime_type) {
                *media_type = Some(Source::registered(mime_type.0));
            }
            let detail = image.detail.map(|text| text.0);
            Part::Image(Box::new(Image { source, detail, cache_control }))
        }
        "input_audio" => {
            let at = format_args!("{at}.input_audio");
            let audio: AudioIn<'a> = reread(&input.input_audio.ok_or_else(|| missing(at))?, at)?;
            let format = audio.format.map_or(Cow::Borrowed("wav"), |format| format.0);
            Part::Audio { data: audio.data.0, format }
        }
        "file" => {
            let at = format_args!("{at}.file");
            file(reread(&input.file.ok_or_else(|| missing(at))?, at)?, at, cache_control)?
        }
        "thinking" => Part::Reasoning {
            text: thinking_text(input.thinking.as_ref()).ok_or_else(|| {
                let at = format!("{at}.thinking");
                let message = format!("{at} must be a string or a list of text parts.");
                Error::invalid_request(at, message)
            })?,
            signature: input.signature.map(|text| text.0),
        },
        "redacted_thinking" => Part::Redacted { data: input.data.unwrap_or_default().0 },
        _ => Part::Other { kind: kind.0, json },
    })
}

fn file<'a>(
    input: FileIn<'a>,
    at: fmt::Arguments<'_>,
    cache_control: Option<Json<'a>>,
) -> Result<Part<'a>, Error> {
    let media = input.mime_type.map(|text| text.0);
    let source = match (input.file_data, input.file_url, input.file_id) {
        (Some(data), _, _) => match (Source::from_url(data.0), media) {
            // Bare base64 is a PDF unless `mime_type` says otherwise.
            (Source::Url { url, .. }, media) => {
                Source::Data { media_type: media.unwrap_or(Cow::Borrowed("application/pdf")), data: url }
            }
            (source, _) => source,
        },
        (None, Some(url), _) => match Source::from_url(url.0) {
            Source::Url { url, .. } => Source::Url { url, media_type: media },
            source => source,
        },
        (None, None, Some(id)) => Source::Id(id.0),
        (None, None, None) => return Err(missing(format_args!("{at}.file_data"))),
    };
    let name = input.filename.map(|text| text.0);
    Ok(Part::File(Box::new(File { source, name, cache_control, has_citations: false })))
}
