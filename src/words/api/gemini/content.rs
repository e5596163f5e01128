//! `contents` and `systemInstruction`: contents read into messages.
//!
//! A result of a function is a message of its own in a [`ChatRequest`], before the rest of its content. Gemini's calls often
//! have no id, and results name the function instead: such a result belongs to the first call of that name that has none.
//!
//! - in: `model: [functionCall f, functionCall f]`, `user: [functionResponse f, functionResponse f, text]`
//! - out: `assistant: [call_1 f, call_2 f]`, `tool (call_1)`, `tool (call_2)`, `user: [text]`
//!
//! [`ChatRequest`]: crate::api::chat::ChatRequest

use super::signature::Signature;
use super::wire::{GeminiBlob, GeminiCall, GeminiPart};
use crate::api::chat::read::{parse_string, reread};
use crate::api::chat::{File, Message, Part, Role, Source, ToolCall};
use crate::api::part_members::{PartKind, PartShapes};
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

#[derive(Deserialize)]
struct ContentIn<'a> {
    #[serde(borrow)]
    role: Option<JsonStr<'a>>,
    parts: Option<Vec<Json<'a>>>,
}

/// What is read of parts, by both spellings.
pub(super) const PARTS: PartShapes = PartShapes {
    lists: &["parts"],
    kinds: &[PartKind {
        kind: "",
        members: &[
            "text",
            "thought",
            "thoughtSignature",
            "thought_signature",
            "inlineData",
            "inline_data",
            "fileData",
            "file_data",
            "functionCall",
            "function_call",
            "functionResponse",
            "function_response",
            "executableCode",
            "executable_code",
            "codeExecutionResult",
            "code_execution_result",
            // Left out with the part, and said there.
            "toolCall",
            "toolResponse",
        ],
        inner: &[],
    }],
};

#[derive(Deserialize)]
struct ResultIn<'a> {
    #[serde(borrow)]
    id: Option<JsonStr<'a>>,
    name: Option<JsonStr<'a>>,
    response: Option<Json<'a>>,
    parts: Option<Vec<Json<'a>>>,
}

#[derive(Deserialize)]
struct CodeIn<'a> {
    #[serde(borrow)]
    language: Option<JsonStr<'a>>,
    code: Option<JsonStr<'a>>,
}

#[derive(Deserialize)]
struct CodeResultIn<'a> {
    #[serde(borrow)]
    output: Option<JsonStr<'a>>,
}

/// What a part must be.
const PART: &str = "a part: an object";

/// The texts of `systemInstruction`, which is a content.
pub(super) fn system<'a>(json: &Json<'a>) -> Result<Vec<Part<'a>>, Error> {
    let at = "systemInstruction";
    if let Some(text) = json.source().and_then(parse_string) {
        return Ok(vec![Part::text(text)]);
    }
    let content: ContentIn<'a> = object(json, at, "a content: an object with parts")?;
    let mut texts = Vec::new();
    for (index, part) in content.parts.unwrap_or_default().iter().enumerate() {
        let at = format!("{at}.parts[{index}]");
        let part: GeminiPart<'a> = object(part, &at, PART)?;
        let text = part.text.ok_or_else(|| {
            Error::invalid_request(
                at.as_str(),
                format!("{at} must be a text: a system instruction has no others."),
            )
        })?;
        texts.push(Part::text(text.0));
    }
    Ok(texts)
}

/// The messages of `contents`: a list of contents, or one.
pub(super) fn messages<'a>(json: &Json<'a>, warnings: &mut Vec<String>) -> Result<Vec<Message<'a>>, Error> {
    let list: Vec<Json<'a>> =
        if json.is_object() { vec![json.clone()] } else { reread(json, "contents", "a list of contents")? };
    let mut reader =
        Reader { messages: Vec::with_capacity(list.len()), open: OpenCalls::default(), calls: 0, warnings };
    for (index, content) in list.iter().enumerate() {
        reader.content(content, &format!("contents[{index}]"))?;
    }
    Ok(reader.messages)
}

/// A derived struct would also accept a list, item by item.
fn object<'a, T: Deserialize<'a>>(json: &Json<'a>, at: &str, wanted: &str) -> Result<T, Error> {
    if json.is_object() {
        reread(json, at, wanted)
    } else {
        Err(Error::invalid_request(at, format!("{at} must be {wanted}.")))
    }
}

/// A member of a part that is looked into here alone.
fn inner<'a, T: Deserialize<'a>>(json: &Json<'a>, at: &str) -> Result<T, Error> {
    reread(json, at, PART)
}

struct Reader<'a, 'w> {
    messages: Vec<Message<'a>>,
    open: OpenCalls<'a>,
    calls: usize,
    warnings: &'w mut Vec<String>,
}

/// Calls without a result so far.
#[derive(Default)]
struct OpenCalls<'a> {
    /// Each call's id; `None` once it has its result.
    ids: Vec<Option<Cow<'a, str>>>,
    /// Their places by id and by name, in order. Those of calls with results are skipped.
    by_id: HashMap<Cow<'a, str>, VecDeque<usize>>,
    by_name: HashMap<Cow<'a, str>, VecDeque<usize>>,
}

impl<'a> OpenCalls<'a> {
    fn push(&mut self, id: Cow<'a, str>, name: Cow<'a, str>) {
        let place = self.ids.len();
        self.ids.push(Some(id.clone()));
        self.by_id.entry(id).or_default().push_back(place);
        self.by_name.entry(name).or_default().push_back(place);
    }

    /// Takes the first call of the id, or else of the name; returns its id.
    fn take(&mut self, id: Option<&str>, name: &str) -> Option<Cow<'a, str>> {
        let mut first = |places: Option<&mut VecDeque<usize>>| {
            let places = places?;
            std::iter::from_fn(|| places.pop_front()).find_map(|place| self.ids.get_mut(place)?.take())
        };
        first(id.and_then(|id| self.by_id.get_mut(id))).or_else(|| first(self.by_name.get_mut(name)))
    }
}

impl<'a> Reader<'a, '_> {
    fn content(&mut self, json: &Json<'a>, at: &str) -> Result<(), Error> {
        let content: ContentIn<'a> = object(json, at, "a content: an object with role and parts")?;
        let role = match content.role.as_deref() {
            // `function` is the former role of results.
            None | Some("user" | "function" | "tool" | "") => Role::User,
            Some("model") => Role::Assistant,
            Some("system") => Role::System,
            Some(_) => {
                let message = format!("{at}.role must be user or model.");
                return Err(Error::invalid_request(format!("{at}.role"), message));
            }
        };
        let list = content.parts.unwrap_or_default();
        let mut parts = Vec::with_capacity(list.len());
        let before = self.messages.len();
        for (index, part) in list.iter().enumerate() {
            self.part(part, role, &format!("{at}.parts[{index}]"), &mut parts)?;
        }
        // A content with only results has nothing of its own.
        if !parts.is_empty() || self.messages.len() == before {
            self.messages.push(Message::new(role, parts));
        }
        Ok(())
    }

    fn part(
        &mut self,
        json: &Json<'a>,
        role: Role,
        at: &str,
        parts: &mut Vec<Part<'a>>,
    ) -> Result<(), Error> {
        let part: GeminiPart<'a> = object(json, at, PART)?;
        let signature = part.thought_signature.map(|signature| Signature::parse(signature.0));
        if let Some(call) = part.function_call {
            if let Some(signature) = signature {
                carried(signature, parts);
            }
            parts.push(Part::ToolCall(Box::new(self.call(call, at)?)));
            return Ok(());
        }
        if let Some(result) = part.function_response {
            return self.result(inner(&result, at)?, at);
        }
        if part.thought == Some(true) {
            thought(part.text.map(|text| text.0).unwrap_or_default(), signature, parts);
            return Ok(());
        }
        if let Some(blob) = part.inline_data {
            parts.push(inline(blob, at)?);
        } else if let Some(file) = part.file_data {
            parts.push(linked(inner(&file, at)?, at)?);
        } else if let Some(code) = part.executable_code {
            let code: CodeIn<'a> = inner(&code, at)?;
            let language = code.language.as_deref().unwrap_or_default().to_ascii_lowercase();
            parts.push(Part::text(format!(
                "```{language}\n{}\n```",
                code.code.as_deref().unwrap_or_default()
            )));
        } else if let Some(result) = part.code_execution_result {
            let result: CodeResultIn<'a> = inner(&result, at)?;
            parts.push(Part::text(format!("```\n{}\n```", result.output.as_deref().unwrap_or_default())));
        } else if let Some(text) = part.text {
            parts.push(Part::text(text.0));
        } else if json.get().trim_matches(['{', '}', ' ', '\n']).is_empty() || role == Role::Assistant {
            // Content of Google's own tools: what it found is in the text.
            self.warnings.push(format!("{at}: dropped, only Google can read it"));
        } else {
            let message = format!("{at} has none of the members of a part that other providers take.");
            return Err(Error::invalid_request(at, message));
        }
        if let Some(signature) = signature {
            carried(signature, parts);
        }
        Ok(())
    }

    fn call(&mut self, call: GeminiCall<'a>, at: &str) -> Result<ToolCall<'a>, Error> {
        let name = call.name.map(|name| name.0).filter(|name| !name.is_empty());
        let at = format!("{at}.functionCall.name");
        let name = name.ok_or_else(|| Error::invalid_request(at.as_str(), format!("{at} is missing.")))?;
        self.calls += 1;
        let id = call.id.map(|id| id.0).filter(|id| !id.is_empty());
        let id = id.unwrap_or_else(|| Cow::Owned(format!("call_{}", self.calls)));
        self.open.push(id.clone(), name.clone());
        let args = call.args.filter(|args| !args.is_null());
        let arguments = args.as_ref().and_then(Json::source).map_or(Cow::Borrowed("{}"), Cow::Borrowed);
        // Only Google can use its signature, and gets the client's own bytes.
        Ok(ToolCall { id, name, arguments, signature: None, cache_control: None })
    }

    fn result(&mut self, result: ResultIn<'a>, at: &str) -> Result<(), Error> {
        let id = result.id.map(|id| id.0).filter(|id| !id.is_empty());
        let name = result.name.map(|name| name.0).unwrap_or_default();
        let call = self.open.take(id.as_deref(), &name);
        let mut content = Vec::new();
        let (text, is_error) = result.response.as_ref().map_or((Cow::Borrowed(""), false), outcome);
        content.push(Part::text(text));
        for (index, part) in result.parts.unwrap_or_default().iter().enumerate() {
            let at = format!("{at}.functionResponse.parts[{index}]");
            let part: GeminiPart<'a> = object(part, &at, PART)?;
            match (part.inline_data, part.file_data) {
                (Some(blob), _) => content.push(inline(blob, &at)?),
                (None, Some(file)) => content.push(linked(inner(&file, &at)?, &at)?),
                (None, None) => {}
            }
        }
        let mut message = Message::new(Role::Tool, content);
        // Without a call, the message becomes a text of the user, under whatever name it has.
        message.tool_call_id = call.or(id).or_else(|| Some(name.clone()));
        message.name = Some(name).filter(|name| !name.is_empty());
        message.is_error = is_error;
        self.messages.push(message);
        Ok(())
    }
}

/// The text of a function's result, and whether the function failed. By convention of Google's SDKs the value is under `output`
/// or `result`, an error under `error`; anything else is sent as its JSON.
fn outcome<'a>(response: &Json<'a>) -> (Cow<'a, str>, bool) {
    let whole = response.source().unwrap_or_default();
    let Some(members) = Json::members(whole) else { return (Cow::Borrowed(whole), false) };
    let [(name, value)] = members.as_slice() else { return (Cow::Borrowed(whole), false) };
    let text = value.source().and_then(parse_string);
    match name.as_ref() {
        "error" => (text.unwrap_or(Cow::Borrowed(whole)), true),
        "output" | "result" => (text.unwrap_or(Cow::Borrowed(whole)), false),
        _ => (Cow::Borrowed(whole), false),
    }
}

/// Thinking. Adjacent parts are one: a stream has it in pieces, and its signature on a piece of its own.
fn thought<'a>(text: Cow<'a, str>, signature: Option<Signature<'a>>, parts: &mut Vec<Part<'a>>) {
    if let Some(Signature::Redacted(data)) = signature {
        return parts.push(Part::Redacted { data });
    }
    let signature = match signature {
        Some(Signature::Reasoning(signature)) => Some(signature),
        _ => None,
    };
    match parts.last_mut() {
        Some(Part::Reasoning { text: before, signature: open @ None }) => {
            before.to_mut().push_str(&text);
            *open = signature;
        }
        _ if text.is_empty() && signature.is_none() => {}
        _ => parts.push(Part::Reasoning { text, signature }),
    }
}

/// A signature on a part that is no thinking. Google's own is left out: only Google can use it.
fn carried<'a>(signature: Signature<'a>, parts: &mut Vec<Part<'a>>) {
    match signature {
        Signature::Reasoning(signature) => {
            parts.push(Part::Reasoning { text: Cow::Borrowed(""), signature: Some(signature) });
        }
        Signature::Redacted(data) => parts.push(Part::Redacted { data }),
        Signature::Google => {}
    }
}

fn inline<'a>(blob: GeminiBlob<'a>, at: &str) -> Result<Part<'a>, Error> {
    let data = blob.data.map(|data| data.0).filter(|data| !data.is_empty());
    let data = data.ok_or_else(|| {
        let at = format!("{at}.inlineData.data");
        Error::invalid_request(at.as_str(), format!("{at} is missing."))
    })?;
    let media_type = blob.mime_type.map(|mime| mime.0).unwrap_or(Cow::Borrowed("application/octet-stream"));
    let media_type = Source::registered(media_type);
    // Google's SDKs write base64 in the alphabet of URLs, which no other provider reads.
    let data =
        if data.contains(['-', '_']) { Cow::Owned(data.replace('-', "+").replace('_', "/")) } else { data };
    let name = blob.display_name.map(|name| name.0);
    let (kind, format) = media_type.split_once('/').unwrap_or((&*media_type, ""));
    Ok(match kind {
        "image" => Part::image(Source::Data { media_type, data }),
        "audio" => {
            let format = match format.split(';').next().unwrap_or_default() {
                "mpeg" | "mp3" => "mp3".to_owned(),
                "x-wav" | "wave" | "vnd.wave" => "wav".to_owned(),
                format => format.to_owned(),
            };
            Part::Audio { data, format: Cow::Owned(format) }
        }
        "video" => video(&format!("data:{media_type};base64,{data}")),
        _ => file(Source::Data { media_type, data }, name),
    })
}

fn linked<'a>(linked: GeminiBlob<'a>, at: &str) -> Result<Part<'a>, Error> {
    let url = linked.file_uri.map(|uri| uri.0).filter(|uri| !uri.is_empty());
    let url = url.ok_or_else(|| {
        let at = format!("{at}.fileData.fileUri");
        Error::invalid_request(at.as_str(), format!("{at} is missing."))
    })?;
    let media_type = linked.mime_type.map(|mime| Source::registered(mime.0));
    let kind = media_type.as_deref().and_then(|media| media.split('/').next()).unwrap_or_default();
    Ok(match kind {
        "video" => video(&url),
        "image" => Part::image(Source::Url { url, media_type }),
        _ => {
            let name = linked.display_name.map(|name| name.0);
            file(Source::Url { url, media_type }, name)
        }
    })
}

fn file<'a>(source: Source<'a>, name: Option<Cow<'a, str>>) -> Part<'a> {
    Part::File(Box::new(File { source, name, cache_control: None, has_citations: false }))
}

/// As routers take videos: `{"type":"video_url","video_url":{"url":".."}}`.
fn video(url: &str) -> Part<'static> {
    let kind = "video_url";
    let json = Json::object(&[("type", Json::from_value(kind)), (kind, Json::object_with("url", url))]);
    Part::Other { kind: Cow::Borrowed(kind), json }
}
