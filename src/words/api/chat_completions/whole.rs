//! A whole chat completion: collects the events and writes one JSON body at the end.

use super::usage::UsageOut;
use super::{functions, is_standard, omission_note};
use crate::api::Dialect;
use crate::api::chat::response::{Choice, ContentPart};
use crate::api::chat::{ChatResponse, EncodeContext, Encoder, Event, Finish, ProviderError};
use crate::json::Json;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// Encodes one whole response.
#[derive(Debug)]
pub(super) struct Whole {
    context: EncodeContext,
    response: ChatResponse,
}

impl Whole {
    pub fn new(context: EncodeContext) -> Self {
        Self { context, response: ChatResponse::default() }
    }
}

impl Encoder for Whole {
    fn has_refusals(&self) -> bool {
        true
    }

    fn write(&mut self, event: &Event<'_>, _out: &mut Vec<u8>) {
        self.response.apply(event);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.response.choices.is_empty() {
            self.response.choices.push(Choice::default());
        }
        let body = Body { context: &self.context, response: &self.response };
        // Writing strings and numbers into a Vec cannot fail.
        let _ = serde_json::to_writer(out, &body);
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        out.extend_from_slice(&error.body(Dialect::OpenAi, Some(self.context.provider), None));
    }
}

/// Which members a response has.
#[derive(Debug, Clone, Copy)]
struct Form {
    strict: bool,
    is_bare: bool,
    /// A call is a `function_call`.
    uses_functions: bool,
}

struct Body<'a> {
    context: &'a EncodeContext,
    response: &'a ChatResponse,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { context, response } = self;
        let mut map = serializer.serialize_map(None)?;
        match &response.id {
            Some(id) if !id.is_empty() => map.serialize_entry("id", id)?,
            _ => map.serialize_entry("id", &format!("chatcmpl-{}", context.id))?,
        }
        map.serialize_entry("object", "chat.completion")?;
        map.serialize_entry("created", &response.created.unwrap_or(context.created))?;
        let model = response.model.as_deref().filter(|model| !model.is_empty());
        map.serialize_entry("model", model.unwrap_or(&context.model))?;
        let form = Form {
            strict: context.strict,
            is_bare: context.is_bare(),
            uses_functions: functions::are_used(context),
        };
        let strict = form.strict;
        if !strict {
            map.serialize_entry("provider", context.provider)?;
        }
        let choices: Vec<ChoiceOut<'_>> = response
            .choices
            .iter()
            .enumerate()
            .map(|(index, choice)| ChoiceOut::new(index, choice, form))
            .collect();
        map.serialize_entry("choices", &choices)?;
        if let Some(usage) = response.usage {
            map.serialize_entry("usage", &UsageOut::new(usage, strict))?;
        }
        for (name, json) in &response.members {
            if let (true, Some(json)) = (!strict || is_standard(name, json), Json::parse(json)) {
                map.serialize_entry(name, &json)?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct ChoiceOut<'a> {
    index: usize,
    message: MessageOut<'a>,
    logprobs: Option<Json<'a>>,
    finish_reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    native_finish_reason: Option<&'a str>,
}

#[derive(Serialize)]
struct MessageOut<'a> {
    role: &'static str,
    content: Option<String>,
    refusal: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionOut<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Json<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<ImageOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audio: Option<AudioOut<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    content_blocks: Vec<BlockOut<'a>>,
}

#[derive(Serialize)]
struct CallOut<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionOut<'a>,
}

#[derive(Serialize)]
struct FunctionOut<'a> {
    name: &'a str,
    arguments: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
struct ImageOut {
    #[serde(rename = "type")]
    kind: &'static str,
    image_url: ImageUrl,
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct AudioOut<'a> {
    id: &'static str,
    data: &'a str,
    expires_at: u64,
    transcript: &'static str,
}

/// One of `content_blocks`, in Anthropic's shape.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StandardBlock<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
    },
    RedactedThinking {
        data: &'a str,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum BlockOut<'a> {
    Standard(StandardBlock<'a>),
    Other(Json<'a>),
}

impl<'a> ChoiceOut<'a> {
    fn new(index: usize, choice: &'a Choice, form: Form) -> Self {
        let (reason, native) = match &choice.finish {
            Some((reason, native)) => (*reason, native.as_str()),
            None => (Finish::Stop, ""),
        };
        Self {
            index,
            message: MessageOut::new(choice, form),
            logprobs: logprobs(&choice.logprobs),
            finish_reason: functions::finish_reason(reason, form.uses_functions),
            native_finish_reason: Some(native).filter(|native| !form.strict && !native.is_empty()),
        }
    }
}

impl<'a> MessageOut<'a> {
    fn new(choice: &'a Choice, form: Form) -> Self {
        let Form { strict, is_bare, uses_functions } = form;
        let mut tool_calls: Vec<CallOut<'a>> =
            choice.parts.iter().filter_map(|part| CallOut::from_part(part, strict)).collect();
        let refusal = choice.refusal();
        let nothing_else = tool_calls.is_empty() && refusal.is_none();
        // There is no more than one, because parallel calls were turned off.
        let function_call = if uses_functions {
            std::mem::take(&mut tool_calls).into_iter().next().map(|call| call.function)
        } else {
            None
        };
        let images = || choice.parts.iter().filter_map(ImageOut::from_part);
        let text = if is_bare { with_notes(choice) } else { choice.text() };
        Self {
            role: "assistant",
            content: text.or_else(|| nothing_else.then(String::new)),
            refusal,
            reasoning_content: choice.reasoning().filter(|_| !is_bare),
            tool_calls,
            function_call,
            annotations: choice.annotations.iter().filter_map(|json| Json::parse(json)).collect(),
            images: if is_bare { Vec::new() } else { images().collect() },
            audio: choice.parts.iter().find_map(AudioOut::from_part),
            content_blocks: if strict {
                Vec::new()
            } else {
                choice.parts.iter().filter_map(BlockOut::from_part).collect()
            },
        }
    }
}

impl<'a> CallOut<'a> {
    fn from_part(part: &'a ContentPart, strict: bool) -> Option<Self> {
        let ContentPart::ToolCall { id, name, arguments, signature, .. } = part else { return None };
        let thought_signature = signature.as_deref().filter(|_| !strict);
        Some(Self { id, kind: "function", function: FunctionOut { name, arguments, thought_signature } })
    }
}

impl ImageOut {
    fn from_part(part: &ContentPart) -> Option<Self> {
        let ContentPart::Media { media_type, data } = part else { return None };
        let url = format!("data:{media_type};base64,{data}");
        (!media_type.starts_with("audio/")).then_some(Self { kind: "image_url", image_url: ImageUrl { url } })
    }
}

impl<'a> AudioOut<'a> {
    fn from_part(part: &'a ContentPart) -> Option<Self> {
        let ContentPart::Media { media_type, data } = part else { return None };
        // The id refers to audio stored at the provider for later requests; no provider here stores any.
        media_type.starts_with("audio/").then_some(Self { id: "", data, expires_at: 0, transcript: "" })
    }
}

impl<'a> BlockOut<'a> {
    fn from_part(part: &'a ContentPart) -> Option<Self> {
        Some(Self::Standard(match part {
            ContentPart::Text(text) => StandardBlock::Text { text },
            ContentPart::Reasoning { text, signature } => {
                StandardBlock::Thinking { thinking: text, signature: signature.as_deref() }
            }
            ContentPart::Redacted(data) => StandardBlock::RedactedThinking { data },
            ContentPart::Block(json) => return Json::parse(json).map(Self::Other),
            ContentPart::Refusal(_) | ContentPart::ToolCall { .. } | ContentPart::Media { .. } => {
                return None;
            }
        }))
    }
}

/// The text of a choice, with a note in place of each image.
fn with_notes(choice: &Choice) -> Option<String> {
    let notes = choice.parts.iter().filter_map(|part| match part {
        ContentPart::Media { media_type, data } if !media_type.starts_with("audio/") => {
            Some(omission_note(media_type, data.len()))
        }
        _ => None,
    });
    let text = choice.text().into_iter().chain(notes).collect::<Vec<_>>();
    (!text.is_empty()).then(|| text.join("\n"))
}

/// A single object unchanged, or several merged into one.
fn logprobs(objects: &[String]) -> Option<Json<'_>> {
    let [first, .., _] = objects else { return objects.first().and_then(|json| Json::parse(json)) };
    let mut content: Vec<Json<'_>> = Vec::new();
    for json in objects {
        let members = Json::members(json).unwrap_or_default();
        let list = members.into_iter().find(|(name, _)| name == "content");
        let list = list.and_then(|(_, json)| serde_json::from_str::<Vec<Json<'_>>>(json.source()?).ok());
        content.extend(list.unwrap_or_default());
    }
    if content.is_empty() {
        Json::parse(first)
    } else {
        Some(Json::from_value(&serde_json::json!({ "content": content, "refusal": null })))
    }
}
