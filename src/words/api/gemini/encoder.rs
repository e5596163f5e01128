//! Encodes a response: each content event as one `GenerateContentResponse` of a stream, or all of them as one.
//!
//! Calls of functions are whole in this dialect, so their arguments are held until something else follows. Finish reasons
//! and usage are written when the response is complete: a stream that breaks has neither, and there is no other end mark.

use super::blocks;
use super::grounding::Grounding;
use super::logprobs::logprobs_result;
use super::response::{ResponseOut, finish_reason};
use super::signature::Signature;
use super::wire::{GeminiCandidate, GeminiPart};
use crate::api::Dialect;
use crate::api::chat::{EncodeContext, Encoder, Event, Finish, ProviderError};
use crate::api::sse::write_event;
use crate::api::usage::Usage;
use crate::json::{Json, JsonStr};
use serde::Deserialize;
use std::borrow::Cow;

/// More candidates than any request has. Events of candidates beyond this are dropped.
const MAX_CANDIDATES: usize = 128;

/// An encoder for one response: a stream of events, or one object.
pub fn encoder(streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    Box::new(Responses::new(context, if streamed { Form::Events } else { Form::Object }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Events,
    Object,
}

/// Encodes one response.
#[derive(Debug)]
struct Responses {
    form: Form,
    context: EncodeContext,
    id: Option<String>,
    model: Option<String>,
    usage: Option<Usage>,
    candidates: Vec<Candidate>,
    /// Members of the response that belong to its first candidate.
    members: Vec<(String, String)>,
}

/// The state of one candidate.
#[derive(Debug, Default)]
struct Candidate {
    /// Parts that are not written yet: all of them where the response is one object.
    parts: Vec<HeldPart>,
    /// Calls whose arguments may not be complete.
    calls: Vec<Call>,
    grounding: Grounding,
    logprobs: Vec<String>,
    finish: Option<(Finish, String)>,
    refused: bool,
    /// The last content was thinking.
    thinks: bool,
}

#[derive(Debug)]
struct Call {
    index: u32,
    id: String,
    name: String,
    arguments: String,
    signature: Option<String>,
}

/// One part.
#[derive(Debug)]
enum HeldPart {
    Text {
        text: String,
        signature: Option<String>,
    },
    Thought {
        text: String,
        signature: Option<String>,
    },
    Call(Call),
    Media {
        media_type: String,
        data: String,
    },
    /// Its `type`, and the block as JSON text.
    Block {
        kind: String,
        json: String,
    },
}

impl HeldPart {
    fn part(&self) -> Option<GeminiPart<'_>> {
        Some(match self {
            Self::Text { text, signature } => GeminiPart::text(text).signed(signature.as_deref()),
            Self::Thought { text, signature } => GeminiPart::thought(text).signed(signature.as_deref()),
            Self::Call(call) => {
                GeminiPart::call(&call.id, &call.name, &call.arguments, call.signature.as_deref())
            }
            Self::Media { media_type, data } => GeminiPart::media(media_type, data),
            Self::Block { kind, json } => GeminiPart::block(blocks::part(kind, json)?),
        })
    }
}

impl Responses {
    fn new(context: EncodeContext, form: Form) -> Self {
        Self {
            form,
            context,
            id: None,
            model: None,
            usage: None,
            candidates: Vec::new(),
            members: Vec::new(),
        }
    }

    fn candidate(&mut self, index: u32) -> Option<&mut Candidate> {
        let index = index as usize;
        if index >= MAX_CANDIDATES {
            return None;
        }
        if self.candidates.len() <= index {
            self.candidates.resize_with(index + 1, Candidate::default);
        }
        self.candidates.get_mut(index)
    }

    /// What a signature that another provider gave looks like in this dialect; Google's own stays as it is.
    fn signature(&self, signature: &str) -> String {
        if self.context.is_own_dialect {
            signature.to_owned()
        } else {
            Signature::Reasoning(Cow::Borrowed(signature)).encode()
        }
    }

    fn content(&mut self, index: u32, part: HeldPart, out: &mut Vec<u8>) {
        let held = self.form != Form::Events;
        let Some(candidate) = self.candidate(index) else { return };
        candidate.end_calls();
        candidate.thinks = matches!(part, HeldPart::Thought { .. });
        candidate.push(part, held);
        self.flush(index, out);
    }

    /// Writes the parts of a candidate that are complete, where the response is a stream.
    fn flush(&mut self, index: u32, out: &mut Vec<u8>) {
        if self.form != Form::Events {
            return;
        }
        let Some(candidate) = self.candidate(index) else { return };
        for part in std::mem::take(&mut candidate.parts) {
            if let Some(part) = part.part() {
                self.chunk(vec![GeminiCandidate::new(index, vec![part])], None, out);
            }
        }
    }

    fn sign(&mut self, choice: u32, signature: &str, out: &mut Vec<u8>) {
        // Google signs any part, other providers their thinking.
        let own = self.context.is_own_dialect;
        let of_thought = !own || self.candidate(choice).is_some_and(|candidate| candidate.thinks);
        let text = String::new();
        let signature = Some(self.signature(signature));
        let part = if of_thought {
            HeldPart::Thought { text, signature }
        } else {
            HeldPart::Text { text, signature }
        };
        self.content(choice, part, out);
    }

    /// Takes a call, or a fragment of its arguments.
    fn call(&mut self, event: &Event<'_>) {
        match *event {
            Event::ToolCall { choice, index, id, name, signature } => {
                let signature = signature.map(|signature| self.signature(signature));
                if let Some(candidate) = self.candidate(choice) {
                    let id = id.to_owned();
                    let name = name.to_owned();
                    candidate.thinks = false;
                    candidate.calls.push(Call { index, id, name, arguments: String::new(), signature });
                }
            }
            Event::Arguments { choice, index, fragment } => {
                let calls = self.candidate(choice).map(|candidate| candidate.calls.as_mut_slice());
                let call = calls.unwrap_or_default().iter_mut().rfind(|call| call.index == index);
                if let Some(call) = call {
                    call.arguments.push_str(fragment);
                }
            }
            _ => {}
        }
    }

    /// Takes what is written at the end.
    fn note(&mut self, event: &Event<'_>) {
        match *event {
            Event::Annotation { choice, json } => {
                if let Some(candidate) = self.candidate(choice) {
                    candidate.grounding.annotation(json);
                }
            }
            Event::Logprobs { choice, json } => {
                if let Some(candidate) = self.candidate(choice) {
                    candidate.logprobs.push(json.to_owned());
                }
            }
            _ => {}
        }
    }

    fn chunk(&self, candidates: Vec<GeminiCandidate<'_>>, usage: Option<Usage>, out: &mut Vec<u8>) {
        let mut data = Vec::with_capacity(256);
        self.response(candidates, usage, &mut data);
        write_event(out, None, &data);
    }

    fn response(&self, candidates: Vec<GeminiCandidate<'_>>, usage: Option<Usage>, out: &mut Vec<u8>) {
        let response = ResponseOut {
            candidates,
            usage_metadata: usage.map(Into::into),
            model_version: self.model.as_deref().unwrap_or(&self.context.model),
            response_id: self.id.as_deref().unwrap_or(&self.context.id),
        };
        // Strings, numbers and JSON texts always serialize.
        let _ = serde_json::to_writer(out, &response);
    }

    fn member(&self, name: &str) -> Option<Json<'_>> {
        let (_, json) = self.members.iter().find(|(member, _)| member == name)?;
        Json::parse(json)
    }

    /// The last state of every candidate, with the parts that are still held.
    fn finished(&self) -> Vec<GeminiCandidate<'_>> {
        let finished = (0u32..).zip(&self.candidates).map(|(index, candidate)| {
            let mut parts: Vec<GeminiPart<'_>> = candidate.parts.iter().filter_map(HeldPart::part).collect();
            if parts.is_empty() {
                // Google's SDKs take a content without parts for a broken response.
                parts.push(GeminiPart::text(""));
            }
            let finish = candidate.finish.as_ref();
            let own = |name: &str| self.member(name).filter(|_| index == 0);
            GeminiCandidate {
                finish_reason: finish
                    .map(|(reason, native)| finish_reason(*reason, native, candidate.refused).into()),
                finish_message: own("finish_message"),
                safety_ratings: own("safety_ratings"),
                grounding_metadata: own("grounding_metadata").or_else(|| candidate.grounding.metadata()),
                url_context_metadata: own("url_context_metadata"),
                logprobs_result: logprobs_result(candidate.logprobs.iter().map(String::as_str)),
                ..GeminiCandidate::new(index, parts)
            }
        });
        finished.collect()
    }
}

impl Candidate {
    /// The calls become parts: nothing more of them follows.
    fn end_calls(&mut self) {
        self.parts.extend(self.calls.drain(..).map(HeldPart::Call));
    }

    /// Adds a part. `joins`: text goes to the text before it.
    fn push(&mut self, part: HeldPart, joins: bool) {
        match (self.parts.last_mut(), part) {
            (Some(HeldPart::Text { text, signature: None }), HeldPart::Text { text: more, signature })
                if joins =>
            {
                text.push_str(&more);
                self.sign_last(signature);
            }
            (
                Some(HeldPart::Thought { text, signature: None }),
                HeldPart::Thought { text: more, signature },
            ) if joins => {
                text.push_str(&more);
                self.sign_last(signature);
            }
            (_, part) => self.parts.push(part),
        }
    }

    fn sign_last(&mut self, new: Option<String>) {
        if let Some(HeldPart::Text { signature, .. } | HeldPart::Thought { signature, .. }) =
            self.parts.last_mut()
        {
            *signature = new;
        }
    }
}

impl Encoder for Responses {
    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match *event {
            Event::Start(start) => {
                self.id = self.id.take().or_else(|| start.id.map(str::to_owned));
                self.model = self.model.take().or_else(|| start.model.map(str::to_owned));
            }
            Event::Text { choice, text } | Event::Refusal { choice, text } => {
                if let Some(candidate) = self.candidate(choice) {
                    candidate.refused |= matches!(event, Event::Refusal { .. });
                    candidate.grounding.text(text);
                }
                self.content(choice, HeldPart::Text { text: text.to_owned(), signature: None }, out);
            }
            Event::Reasoning { choice, text } => {
                self.content(choice, HeldPart::Thought { text: text.to_owned(), signature: None }, out);
            }
            Event::Signature { choice, signature } => self.sign(choice, signature, out),
            Event::Redacted { choice, data } => {
                let signature = Some(Signature::Redacted(Cow::Borrowed(data)).encode());
                self.content(choice, HeldPart::Thought { text: String::new(), signature }, out);
            }
            Event::ToolCall { .. } | Event::Arguments { .. } => self.call(event),
            Event::Media { choice, media_type, data } => {
                let media_type = media_type.to_owned();
                let data = data.to_owned();
                self.content(choice, HeldPart::Media { media_type, data }, out);
            }
            Event::Block { choice, json } => {
                // Blocks of other providers' own tools have no place here; what they found is in the text.
                if let Some(kind) = kind(json).filter(|kind| blocks::part(kind, json).is_some()) {
                    self.content(choice, HeldPart::Block { kind, json: json.to_owned() }, out);
                }
            }
            Event::Annotation { .. } | Event::Logprobs { .. } => self.note(event),
            Event::Finish { choice, reason, native } => {
                if let Some(candidate) = self.candidate(choice) {
                    candidate.end_calls();
                    candidate.finish = Some((reason, native.to_owned()));
                }
                self.flush(choice, out);
            }
            Event::Usage(usage) => self.usage = Some(usage),
            Event::Member { name, json } => self.members.push((name.to_owned(), json.to_owned())),
            Event::Error(_) | Event::End => {}
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        self.candidates.iter_mut().for_each(Candidate::end_calls);
        let mut data = Vec::new();
        self.response(self.finished(), self.usage, &mut data);
        match self.form {
            Form::Events => write_event(out, None, &data),
            Form::Object => out.append(&mut data),
        }
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        match self.form {
            Form::Events => error.event(Dialect::Google, None, 0, out),
            Form::Object => out.extend_from_slice(&error.body(Dialect::Google, None, None)),
        }
    }
}

/// The `type` of a block.
fn kind(json: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow, rename = "type")]
        kind: JsonStr<'a>,
    }
    Some(serde_json::from_str::<Kind<'_>>(json).ok()?.kind.0.into_owned())
}
