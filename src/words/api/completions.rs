//! OpenAI's legacy completions, for providers that only have chat: the prompt becomes a user message, and
//! the text of the response is the completion.
//!
//! What chat cannot do is refused: several prompts at once, `echo`, `suffix`, `best_of` and token lists.
//! Content that a completion has no member for (tool calls, reasoning) is dropped.

mod conversion;

pub use conversion::{WholeCompletion, write_events};

use super::Dialect;
use super::body::Body;
use super::chat::read::{parse_string, stop};
use super::chat::{
    ChatRequest, ChatResponse, EncodeContext, Encoder, Event, Finish, Message, Part, ProviderError, Role,
};
use super::chat_completions::UsageOut;
use super::sse::write_event;
use super::usage::Usage;
use crate::error::Error;
use crate::json::{Json, JsonStr};
use serde::Serialize;
use std::borrow::Cow;

/// Parses the body of a completion request.
///
/// # Errors
/// 400 that names the `param`.
pub fn read(body: &Body) -> Result<ChatRequest<'_>, Error> {
    let mut request = ChatRequest::default();
    for (name, text) in body.members() {
        let Some(value) = Json::parse(text).filter(|value| !value.is_null()) else { continue };
        match name {
            "prompt" => request.messages = vec![Message::new(Role::User, vec![Part::text(prompt(text)?)])],
            "max_tokens" => request.max_tokens = Some(value),
            "stop" => request.stop = stop(text)?,
            "stream" => request.stream = value.is_true(),
            "stream_options" => request.include_usage = value.get().contains("true"),
            "model" => {}
            "echo" if value.get() == "false" => {}
            "best_of" if value.get() == "1" => {}
            "suffix" if value.get() == r#""""# => {}
            "logprobs" if value.get() == "0" => {}
            "echo" | "suffix" | "best_of" | "logprobs" => {
                let message = format!(
                    "{name} is not possible here: this provider has no completions of its own, the prompt goes \
                     to its chat. Leave it out, or use /v1/chat/completions."
                );
                return Err(Error::invalid_request(name, message));
            }
            _ => request.params.set(name, value),
        }
    }
    if request.messages.is_empty() {
        return Err(Error::invalid_request("prompt", "prompt is missing."));
    }
    Ok(request)
}

fn prompt(text: &str) -> Result<Cow<'_, str>, Error> {
    if let Some(prompt) = parse_string(text) {
        return Ok(prompt);
    }
    match serde_json::from_str::<Vec<JsonStr<'_>>>(text).map(|mut list| (list.len(), list.pop())) {
        Ok((1, Some(JsonStr(prompt)))) => Ok(prompt),
        _ => {
            let message = "prompt must be one text: this provider has no completions of its own, and a chat \
                           takes no tokens and no several prompts at once.";
            Err(Error::invalid_request("prompt", message))
        }
    }
}

/// The encoder for one response.
pub fn encoder(streamed: bool, context: EncodeContext) -> Box<dyn Encoder> {
    if streamed {
        Box::new(Stream {
            context,
            start: ChatResponse::default(),
            finishes: Vec::new(),
            usage: None,
            events: 0,
        })
    } else {
        Box::new(Whole { context, response: ChatResponse::default() })
    }
}

#[derive(Serialize)]
struct CompletionOut<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    choices: Vec<ChoiceOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageOut>,
}

#[derive(Serialize)]
struct ChoiceOut<'a> {
    text: Cow<'a, str>,
    index: u32,
    logprobs: (),
    finish_reason: Option<&'static str>,
}

/// The finish reason as a completion has it: there is none for tool calls.
fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::ToolCalls => Finish::Stop.as_str(),
        finish => finish.as_str(),
    }
}

fn body<'a>(
    context: &'a EncodeContext,
    start: &'a ChatResponse,
    made_id: &'a str,
    choices: Vec<ChoiceOut<'a>>,
    usage: Option<Usage>,
) -> Vec<u8> {
    let body = CompletionOut {
        id: start.id.as_deref().unwrap_or(made_id),
        object: "text_completion",
        created: start.created.unwrap_or(context.created),
        model: start.model.as_deref().unwrap_or(&context.model),
        provider: Some(context.provider).filter(|_| !context.strict),
        choices,
        usage: usage.map(|usage| UsageOut::new(usage, context.strict)),
    };
    // Strings and numbers always serialize.
    serde_json::to_vec(&body).unwrap_or_default()
}

#[derive(Debug)]
struct Whole {
    context: EncodeContext,
    response: ChatResponse,
}

impl Encoder for Whole {
    fn write(&mut self, event: &Event<'_>, _out: &mut Vec<u8>) {
        self.response.apply(event);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let choices = self.response.choices.iter().zip(0..).map(|(choice, index)| ChoiceOut {
            text: choice.text().unwrap_or_default().into(),
            index,
            logprobs: (),
            finish_reason: choice.finish.as_ref().map(|(finish, _)| finish_reason(*finish)),
        });
        let id = format!("cmpl-{}", self.context.id);
        let usage = self.response.usage;
        out.extend_from_slice(&body(&self.context, &self.response, &id, choices.collect(), usage));
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        out.extend_from_slice(&error.body(Dialect::OpenAi, Some(self.context.provider), None));
    }
}

#[derive(Debug)]
struct Stream {
    context: EncodeContext,
    /// Only its id, model and time are used.
    start: ChatResponse,
    finishes: Vec<(u32, Finish)>,
    usage: Option<Usage>,
    events: u64,
}

impl Stream {
    fn chunk(&mut self, choices: Vec<ChoiceOut<'_>>, usage: Option<Usage>, out: &mut Vec<u8>) {
        self.events += 1;
        let id = format!("cmpl-{}", self.context.id);
        write_event(out, None, &body(&self.context, &self.start, &id, choices, usage));
    }
}

impl Encoder for Stream {
    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match *event {
            Event::Start(_) => self.start.apply(event),
            Event::Text { choice, text } | Event::Refusal { choice, text } => {
                let choice =
                    ChoiceOut { text: text.into(), index: choice, logprobs: (), finish_reason: None };
                self.chunk(vec![choice], None, out);
            }
            Event::Finish { choice, reason, .. } => self.finishes.push((choice, reason)),
            Event::Usage(usage) => self.usage = Some(usage),
            _ => {}
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let choices = std::mem::take(&mut self.finishes);
        let choices = choices.into_iter().map(|(index, finish)| ChoiceOut {
            text: "".into(),
            index,
            logprobs: (),
            finish_reason: Some(finish_reason(finish)),
        });
        let separate_usage = self.context.include_usage;
        let usage = self.usage;
        self.chunk(choices.collect(), usage.filter(|_| !separate_usage), out);
        if separate_usage && usage.is_some() {
            self.chunk(Vec::new(), usage, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn fail(&mut self, error: &ProviderError, out: &mut Vec<u8>) {
        error.event(Dialect::OpenAi, Some(self.context.provider), self.events, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};

    #[test]
    fn one_prompt_becomes_a_message_and_unsupported_params_are_refused() {
        let read_text = |text: &'static str| {
            let body = Body::parse(Bytes::from(text)).unwrap();
            read(&body).map(|request| request.messages[0].text().into_owned()).map_err(|error| error.param)
        };
        assert_eq!(read_text(r#"{"prompt":"a\nb","echo":false,"best_of":1}"#), Ok("a\nb".into()));
        assert_eq!(read_text(r#"{"prompt":["a"]}"#), Ok("a".into()));
        for (text, param) in [
            (r#"{"prompt":["a","b"]}"#, "prompt"),
            (r#"{"prompt":[1,2]}"#, "prompt"),
            ("{}", "prompt"),
            (r#"{"prompt":"a","echo":true}"#, "echo"),
            (r#"{"prompt":"a","suffix":"s"}"#, "suffix"),
        ] {
            assert_eq!(read_text(text), Err(Some(param.into())), "{text}");
        }
    }

    #[test]
    fn whole_and_streamed_agree() {
        let context = |include_usage| EncodeContext {
            id: "7".into(),
            created: 5,
            model: "m".into(),
            provider: "cohere",
            strict: true,
            is_own_dialect: false,
            include_usage,
            request: None,
        };
        let write = |streamed, include_usage| {
            let mut encoder = encoder(streamed, context(include_usage));
            let mut out = Vec::new();
            encoder.write(&Event::Text { choice: 0, text: "Hi" }, &mut out);
            encoder.write(&Event::Text { choice: 0, text: " you" }, &mut out);
            encoder.write(&Event::Finish { choice: 0, reason: Finish::Length, native: "x" }, &mut out);
            encoder
                .write(&Event::Usage(Usage { input: 1, output: 2, total: 3, ..Usage::default() }), &mut out);
            encoder.close(&mut out);
            String::from_utf8(out).unwrap()
        };
        let whole: Value = serde_json::from_str(&write(false, false)).unwrap();
        let choice = json!({"text": "Hi you", "index": 0, "logprobs": null, "finish_reason": "length"});
        assert_eq!((&whole["choices"][0], &whole["usage"]["total_tokens"]), (&choice, &json!(3)));
        let streamed = write(true, true);
        assert!(streamed.ends_with("data: [DONE]\n\n"));
        assert_eq!(streamed.matches("\"usage\"").count(), 1);
        assert_eq!(streamed.matches("\"text\":\"Hi\"").count(), 1);
        assert_eq!(streamed.matches("\"finish_reason\":\"length\"").count(), 1);
    }
}
