//! OpenAI's legacy completions, for providers that only chat: the prompt is a user's message, the answer's
//! text is the completion.
//!
//! What a chat cannot do is refused: several prompts at once, `echo`, `suffix`, `best_of` and token lists.
//! What has no place in a completion (tool calls, thinking) is not told.

use super::Dialect;
use super::body::Body;
use super::chat::{
    Answer, ChatRequest, Event, Fault, Finish, Json, Message, Part, Role, Setting, Text, Writer,
};
use super::chat_completions::UsageOut;
use super::sse::write_event;
use super::usage::Usage;
use crate::error::Error;
use serde::Serialize;
use std::borrow::Cow;

/// Reads the body of a completion.
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
    if let Ok(Text(prompt)) = serde_json::from_str(text) {
        return Ok(prompt);
    }
    match serde_json::from_str::<Vec<Text<'_>>>(text).map(|mut list| (list.len(), list.pop())) {
        Ok((1, Some(Text(prompt)))) => Ok(prompt),
        _ => {
            let message = "prompt must be one text: this provider has no completions of its own, and a chat \
                           takes no tokens and no several prompts at once.";
            Err(Error::invalid_request("prompt", message))
        }
    }
}

fn stop(text: &str) -> Result<Vec<Cow<'_, str>>, Error> {
    if let Ok(Text(one)) = serde_json::from_str(text) {
        return Ok(vec![one]);
    }
    let list = serde_json::from_str::<Vec<Text<'_>>>(text);
    let list =
        list.map_err(|_| Error::invalid_request("stop", "stop must be a string or a list of strings."))?;
    Ok(list.into_iter().map(|text| text.0).collect())
}

/// A writer for one answer.
pub fn writer(streamed: bool, setting: Setting) -> Box<dyn Writer> {
    match streamed {
        true => Box::new(Stream {
            setting,
            start: Answer::default(),
            finishes: Vec::new(),
            usage: None,
            events: 0,
        }),
        false => Box::new(Whole { setting, answer: Answer::default() }),
    }
}

#[derive(Serialize)]
struct Answered<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    provider: &'a str,
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

/// A completion's words for why it stopped have no tool calls.
fn word(finish: Finish) -> &'static str {
    match finish {
        Finish::ToolCalls => Finish::Stop.word(),
        finish => finish.word(),
    }
}

fn body<'a>(
    setting: &'a Setting,
    start: &'a Answer,
    made_id: &'a str,
    choices: Vec<ChoiceOut<'a>>,
    usage: Option<Usage>,
) -> Vec<u8> {
    let body = Answered {
        id: start.id.as_deref().unwrap_or(made_id),
        object: "text_completion",
        created: start.created.unwrap_or(setting.created),
        model: start.model.as_deref().unwrap_or(&setting.model),
        provider: setting.provider,
        choices,
        usage: usage.map(UsageOut::from),
    };
    // Strings and numbers always serialize.
    serde_json::to_vec(&body).unwrap_or_default()
}

#[derive(Debug)]
struct Whole {
    setting: Setting,
    answer: Answer,
}

impl Writer for Whole {
    fn write(&mut self, event: &Event<'_>, _out: &mut Vec<u8>) {
        self.answer.take(event);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        let choices = self.answer.choices.iter().zip(0..).map(|(choice, index)| ChoiceOut {
            text: choice.text().unwrap_or_default().into(),
            index,
            logprobs: (),
            finish_reason: choice.finish.as_ref().map(|(finish, _)| word(*finish)),
        });
        let id = format!("cmpl-{}", self.setting.id);
        let usage = self.answer.usage;
        out.extend_from_slice(&body(&self.setting, &self.answer, &id, choices.collect(), usage));
    }

    fn fail(&mut self, fault: &Fault, out: &mut Vec<u8>) {
        out.extend_from_slice(&fault.body(Dialect::OpenAi, Some(self.setting.provider), None));
    }
}

#[derive(Debug)]
struct Stream {
    setting: Setting,
    /// Only its id, model and time are used.
    start: Answer,
    finishes: Vec<(u32, Finish)>,
    usage: Option<Usage>,
    events: u64,
}

impl Stream {
    fn chunk(&mut self, choices: Vec<ChoiceOut<'_>>, usage: Option<Usage>, out: &mut Vec<u8>) {
        self.events += 1;
        let id = format!("cmpl-{}", self.setting.id);
        write_event(out, None, &body(&self.setting, &self.start, &id, choices, usage));
    }
}

impl Writer for Stream {
    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        match *event {
            Event::Start(_) => self.start.take(event),
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
            finish_reason: Some(word(finish)),
        });
        let apart = self.setting.include_usage;
        let usage = self.usage;
        self.chunk(choices.collect(), usage.filter(|_| !apart), out);
        if apart && usage.is_some() {
            self.chunk(Vec::new(), usage, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn fail(&mut self, fault: &Fault, out: &mut Vec<u8>) {
        fault.event(Dialect::OpenAi, Some(self.setting.provider), self.events, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use serde_json::{Value, json};

    #[test]
    fn one_prompt_becomes_a_message_and_what_a_chat_cannot_do_is_refused() {
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
    fn whole_and_streamed_tell_the_same() {
        let setting = |include_usage| Setting {
            id: "7".into(),
            created: 5,
            model: "m".into(),
            provider: "cohere",
            strict: true,
            include_usage,
            request: None,
        };
        let write = |streamed, include_usage| {
            let mut writer = writer(streamed, setting(include_usage));
            let mut out = Vec::new();
            writer.write(&Event::Text { choice: 0, text: "Hi" }, &mut out);
            writer.write(&Event::Text { choice: 0, text: " you" }, &mut out);
            writer.write(&Event::Finish { choice: 0, reason: Finish::Length, native: "x" }, &mut out);
            writer
                .write(&Event::Usage(Usage { input: 1, output: 2, total: 3, ..Usage::default() }), &mut out);
            writer.close(&mut out);
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
