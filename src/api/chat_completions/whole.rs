//! A whole chat completion: events collected, one JSON body written at the end.

use super::is_standard;
use super::usage::UsageOut;
use crate::api::Dialect;
use crate::api::chat::answer::{Choice, Piece};
use crate::api::chat::{Answer, Event, Fault, Finish, Json, Setting, Writer};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// Writes one answer.
#[derive(Debug)]
pub(super) struct Whole {
    setting: Setting,
    answer: Answer,
}

impl Whole {
    pub fn new(setting: Setting) -> Self {
        Self { setting, answer: Answer::default() }
    }
}

impl Writer for Whole {
    fn write(&mut self, event: &Event<'_>, _out: &mut Vec<u8>) {
        self.answer.take(event);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.answer.choices.is_empty() {
            self.answer.choices.push(Choice::default());
        }
        let body = Body { setting: &self.setting, answer: &self.answer };
        // Writing strings and numbers into a Vec cannot fail.
        let _ = serde_json::to_writer(out, &body);
    }

    fn fail(&mut self, fault: &Fault, out: &mut Vec<u8>) {
        out.extend_from_slice(&fault.body(Dialect::OpenAi, Some(self.setting.provider), None));
    }
}

struct Body<'a> {
    setting: &'a Setting,
    answer: &'a Answer,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { setting, answer } = self;
        let mut map = serializer.serialize_map(None)?;
        match &answer.id {
            Some(id) if !id.is_empty() => map.serialize_entry("id", id)?,
            _ => map.serialize_entry("id", &format!("chatcmpl-{}", setting.id))?,
        }
        map.serialize_entry("object", "chat.completion")?;
        map.serialize_entry("created", &answer.created.unwrap_or(setting.created))?;
        let model = answer.model.as_deref().filter(|model| !model.is_empty());
        map.serialize_entry("model", model.unwrap_or(&setting.model))?;
        map.serialize_entry("provider", setting.provider)?;
        let strict = setting.strict;
        let choices: Vec<ChoiceOut<'_>> = answer
            .choices
            .iter()
            .enumerate()
            .map(|(index, choice)| ChoiceOut::of(index, choice, strict))
            .collect();
        map.serialize_entry("choices", &choices)?;
        if let Some(usage) = answer.usage {
            map.serialize_entry("usage", &UsageOut::from(usage))?;
        }
        for (name, json) in &answer.members {
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
enum Known<'a> {
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
    Known(Known<'a>),
    Other(Json<'a>),
}

impl<'a> ChoiceOut<'a> {
    fn of(index: usize, choice: &'a Choice, strict: bool) -> Self {
        let (reason, native) = match &choice.finish {
            Some((reason, native)) => (*reason, native.as_str()),
            None => (Finish::Stop, ""),
        };
        Self {
            index,
            message: MessageOut::of(choice, strict),
            logprobs: logprobs(&choice.logprobs),
            finish_reason: reason.word(),
            native_finish_reason: Some(native).filter(|native| !strict && !native.is_empty()),
        }
    }
}

impl<'a> MessageOut<'a> {
    fn of(choice: &'a Choice, strict: bool) -> Self {
        let tool_calls: Vec<CallOut<'a>> =
            choice.pieces.iter().filter_map(|piece| CallOut::of(piece, strict)).collect();
        let refusal = choice.refusal();
        let nothing_else = tool_calls.is_empty() && refusal.is_none();
        Self {
            role: "assistant",
            content: choice.text().or_else(|| nothing_else.then(String::new)),
            refusal,
            reasoning_content: choice.reasoning(),
            tool_calls,
            annotations: choice.annotations.iter().filter_map(|json| Json::parse(json)).collect(),
            images: choice.pieces.iter().filter_map(ImageOut::of).collect(),
            audio: choice.pieces.iter().find_map(AudioOut::of),
            content_blocks: match strict {
                true => Vec::new(),
                false => choice.pieces.iter().filter_map(BlockOut::of).collect(),
            },
        }
    }
}

impl<'a> CallOut<'a> {
    fn of(piece: &'a Piece, strict: bool) -> Option<Self> {
        let Piece::ToolCall { id, name, arguments, signature, .. } = piece else { return None };
        let thought_signature = signature.as_deref().filter(|_| !strict);
        Some(Self { id, kind: "function", function: FunctionOut { name, arguments, thought_signature } })
    }
}

impl ImageOut {
    fn of(piece: &Piece) -> Option<Self> {
        let Piece::Media { media_type, data } = piece else { return None };
        let url = format!("data:{media_type};base64,{data}");
        (!media_type.starts_with("audio/")).then_some(Self { kind: "image_url", image_url: ImageUrl { url } })
    }
}

impl<'a> AudioOut<'a> {
    fn of(piece: &'a Piece) -> Option<Self> {
        let Piece::Media { media_type, data } = piece else { return None };
        // An id names sound the provider keeps for a later turn: none does here.
        media_type.starts_with("audio/").then_some(Self { id: "", data, expires_at: 0, transcript: "" })
    }
}

impl<'a> BlockOut<'a> {
    fn of(piece: &'a Piece) -> Option<Self> {
        Some(Self::Known(match piece {
            Piece::Text(text) => Known::Text { text },
            Piece::Reasoning { text, signature } => {
                Known::Thinking { thinking: text, signature: signature.as_deref() }
            }
            Piece::Redacted(data) => Known::RedactedThinking { data },
            Piece::Block(json) => return Json::parse(json).map(Self::Other),
            Piece::Refusal(_) | Piece::ToolCall { .. } | Piece::Media { .. } => return None,
        }))
    }
}

/// One object as it came, or several put together as one.
fn logprobs(told: &[String]) -> Option<Json<'_>> {
    let [first, .., _] = told else { return told.first().and_then(|json| Json::parse(json)) };
    let mut content: Vec<Json<'_>> = Vec::new();
    for json in told {
        let members = Json::members(json).unwrap_or_default();
        let list = members.into_iter().find(|(name, _)| name == "content");
        let list = list.and_then(|(_, json)| serde_json::from_str::<Vec<Json<'_>>>(json.source()?).ok());
        content.extend(list.unwrap_or_default());
    }
    match content.is_empty() {
        true => Json::parse(first),
        false => Some(Json::of(&serde_json::json!({ "content": content, "refusal": null }))),
    }
}
