//! A response assembled from its events. Encoders write whole (not streamed) responses from it.

use super::event::{Event, Finish};
use crate::api::usage::Usage;

/// A whole response.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChatResponse {
    pub id: Option<String>,
    pub model: Option<String>,
    /// Unix seconds.
    pub created: Option<u64>,
    /// Indexed by choice.
    pub choices: Vec<Choice>,
    pub usage: Option<Usage>,
    /// Name and JSON text.
    pub members: Vec<(String, String)>,
}

/// One of the choices requested with `n`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choice {
    /// In the order of their events.
    pub parts: Vec<ContentPart>,
    /// OpenAI's annotations, each as JSON text.
    pub annotations: Vec<String>,
    /// OpenAI's `logprobs` objects, unchanged JSON texts; a response that was not streamed has one.
    pub logprobs: Vec<String>,
    /// Why the choice ended, and the provider's own finish reason.
    pub finish: Option<(Finish, String)>,
}

/// A stretch of content of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart {
    Text(String),
    Refusal(String),
    Reasoning {
        text: String,
        signature: Option<String>,
    },
    Redacted(String),
    ToolCall {
        index: u32,
        id: String,
        name: String,
        arguments: String,
        signature: Option<String>,
    },
    Media {
        media_type: String,
        data: String,
    },
    /// Anthropic's content block, JSON text.
    Block(String),
}

/// More choices than any request has. Events of a choice beyond this are dropped.
const MAX_CHOICES: u32 = 128;

impl ChatResponse {
    /// Adds one event. `Error` and `End` are ignored.
    pub fn apply(&mut self, event: &Event<'_>) {
        match *event {
            Event::Start(start) => {
                self.id = self.id.take().or_else(|| start.id.map(str::to_owned));
                self.model = self.model.take().or_else(|| start.model.map(str::to_owned));
                self.created = self.created.or(start.created);
            }
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Member { name, json } => match self.members.iter_mut().find(|(key, _)| key == name) {
                Some((_, old)) => json.clone_into(old),
                None => self.members.push((name.to_owned(), json.to_owned())),
            },
            Event::Error(_) | Event::End => {}
            Event::Text { choice, .. }
            | Event::Refusal { choice, .. }
            | Event::Reasoning { choice, .. }
            | Event::Signature { choice, .. }
            | Event::Redacted { choice, .. }
            | Event::ToolCall { choice, .. }
            | Event::Arguments { choice, .. }
            | Event::Media { choice, .. }
            | Event::Annotation { choice, .. }
            | Event::Logprobs { choice, .. }
            | Event::Block { choice, .. }
            | Event::Finish { choice, .. } => {
                if let Some(choice) = self.choice(choice) {
                    choice.apply(event);
                }
            }
        }
    }

    fn choice(&mut self, index: u32) -> Option<&mut Choice> {
        if index >= MAX_CHOICES {
            return None;
        }
        let index = index as usize;
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, Choice::default);
        }
        self.choices.get_mut(index)
    }
}

impl Choice {
    fn apply(&mut self, event: &Event<'_>) {
        match *event {
            Event::Text { text, .. } => match self.parts.last_mut() {
                Some(ContentPart::Text(whole)) => whole.push_str(text),
                _ => self.parts.push(ContentPart::Text(text.to_owned())),
            },
            Event::Refusal { text, .. } => match self.parts.last_mut() {
                Some(ContentPart::Refusal(whole)) => whole.push_str(text),
                _ => self.parts.push(ContentPart::Refusal(text.to_owned())),
            },
            Event::Reasoning { text, .. } => match self.parts.last_mut() {
                Some(ContentPart::Reasoning { text: whole, signature: None }) => whole.push_str(text),
                _ => self.parts.push(ContentPart::Reasoning { text: text.to_owned(), signature: None }),
            },
            Event::Signature { signature, .. } => self.attach_signature(signature),
            Event::Redacted { data, .. } => self.parts.push(ContentPart::Redacted(data.to_owned())),
            Event::ToolCall { index, id, name, signature, .. } => self.parts.push(ContentPart::ToolCall {
                index,
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: String::new(),
                signature: signature.map(str::to_owned),
            }),
            Event::Arguments { index, fragment, .. } => self.append_arguments(index, fragment),
            Event::Media { media_type, data, .. } => {
                self.parts
                    .push(ContentPart::Media { media_type: media_type.to_owned(), data: data.to_owned() });
            }
            Event::Annotation { json, .. } => self.annotations.push(json.to_owned()),
            Event::Logprobs { json, .. } => self.logprobs.push(json.to_owned()),
            Event::Block { json, .. } => self.parts.push(ContentPart::Block(json.to_owned())),
            Event::Finish { reason, native, .. } => self.finish = Some((reason, native.to_owned())),
            _ => {}
        }
    }

    /// Attaches a signature to the reasoning just before it. Without such reasoning it stands alone, for
    /// reasoning the provider did not show.
    fn attach_signature(&mut self, fragment: &str) {
        match self.parts.last_mut() {
            Some(ContentPart::Reasoning { signature: Some(signature), .. }) => signature.push_str(fragment),
            Some(ContentPart::Reasoning { signature, .. }) => *signature = Some(fragment.to_owned()),
            _ => self
                .parts
                .push(ContentPart::Reasoning { text: String::new(), signature: Some(fragment.to_owned()) }),
        }
    }

    fn append_arguments(&mut self, wanted: u32, fragment: &str) {
        for part in self.parts.iter_mut().rev() {
            if let ContentPart::ToolCall { index, arguments, .. } = part
                && *index == wanted
            {
                return arguments.push_str(fragment);
            }
        }
    }

    /// All text, concatenated; `None` if there was none.
    pub fn text(&self) -> Option<String> {
        concat(self.parts.iter().filter_map(|part| match part {
            ContentPart::Text(text) => Some(text.as_str()),
            _ => None,
        }))
    }

    pub fn refusal(&self) -> Option<String> {
        concat(self.parts.iter().filter_map(|part| match part {
            ContentPart::Refusal(text) => Some(text.as_str()),
            _ => None,
        }))
    }

    pub fn reasoning(&self) -> Option<String> {
        concat(self.parts.iter().filter_map(|part| match part {
            ContentPart::Reasoning { text, .. } if !text.is_empty() => Some(text.as_str()),
            _ => None,
        }))
    }
}

fn concat<'a>(texts: impl Iterator<Item = &'a str>) -> Option<String> {
    texts.map(str::to_owned).reduce(|mut whole, text| {
        whole.push_str(&text);
        whole
    })
}
