//! Chat answers that break OpenAI's shape, put right in place.
//!
//! Only what an OpenAI client or OpenAI's own schema stumbles over, and thinking under the one name callers
//! of this gateway read (`reasoning_content`). What OpenAI's own answers fail as well (`logprobs` left out, a
//! null `system_fingerprint`) is no fault. All other bytes stay.

use super::event_emitter;
use super::provider_error::{Ending, ending};
use super::splice::{Object, Splice};
use crate::api::chat::{Event, Json};
use crate::provider::adapter::ResponsePatch;

/// For every vendor that speaks OpenAI's chat and is not OpenAI.
#[derive(Debug)]
pub struct ChatPatch;

/// [`ChatMend`], for [`crate::provider::way::Way::Same`].
pub static CHAT_PATCH: ChatPatch = ChatPatch;

impl ResponsePatch for ChatPatch {
    fn patch(&self, data: &[u8], streamed: bool) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(data).ok()?.trim_start();
        let response = Object::read(text)?;
        // An error is the provider's own; and what has no choices is no chat.
        if !response.has("choices") || response.get("error").is_some_and(|error| !error.is_null()) {
            return None;
        }
        let mut patch = Patch { splice: Splice::new(text), streamed, response };
        patch.members();
        for (position, choice) in patch.response.list("choices").iter().enumerate() {
            patch.choice(position, choice);
        }
        patch.splice.finish().map(String::into_bytes)
    }
}

struct Patch<'t> {
    splice: Splice<'t>,
    streamed: bool,
    response: Object<'t>,
}

impl<'t> Patch<'t> {
    /// The members beside the choices.
    fn members(&mut self) {
        let response = &self.response;
        if response.string("object").is_none_or(|object| object.is_empty()) {
            let object = if self.streamed { "\"chat.completion.chunk\"" } else { "\"chat.completion\"" };
            set(&mut self.splice, response, "object", object);
        }
        if let Some(tier) = response.string("service_tier")
            && let Some(standard) = standard_tier(&tier)
        {
            self.splice.replace(response, "service_tier", Json::from_value(&standard).get());
            self.splice.append(response, "native_service_tier", Json::from_value(&*tier).get());
        }
        let usage = match response.inner("usage") {
            Some(usage) => {
                // The schema has these left out or objects.
                let is_details = |name: &str| name.ends_with("_details");
                self.splice.remove(&usage, |name, value| is_details(name) && value.is_null());
                return;
            }
            None => response.inner("x_groq").and_then(|groq| groq.json_of("usage")),
        };
        // Moonshot's stands in the last choice.
        let in_choice = |choice: Object<'t>| choice.json_of("usage");
        let usage = usage.or_else(|| response.list("choices").into_iter().find_map(in_choice));
        match usage.filter(|usage| usage.starts_with('{')) {
            Some(usage) => set(&mut self.splice, response, "usage", usage),
            None if !self.streamed => {
                self.splice.remove(response, |name, value| name == "usage" && value.is_null());
            }
            None => {}
        }
    }

    fn choice(&mut self, position: usize, choice: &Object<'t>) {
        if !choice.has("index") {
            self.splice.append(choice, "index", &position.to_string());
        }
        let message = choice.inner(if self.streamed { "delta" } else { "message" });
        let called = message.as_ref().is_some_and(|message| !message.list("tool_calls").is_empty());
        if let Some(message) = message {
            self.message(&message, position);
        }
        self.finish(choice, called);
    }

    fn finish(&mut self, choice: &Object<'t>, called: bool) {
        let Some(reason) = choice.string("finish_reason") else {
            // Z.ai leaves it out of all pieces but the last.
            if self.streamed && !choice.has("finish_reason") {
                self.splice.append(choice, "finish_reason", "null");
            }
            return;
        };
        let standard = match ending(&reason) {
            _ if reason.is_empty() && self.streamed => {
                return self.splice.replace(choice, "finish_reason", "null");
            }
            Ending::Finish(_) if matches!(reason.as_ref(), "function_call" | "") => return,
            Ending::Finish(finish) if called && finish.as_str() == "stop" => "tool_calls",
            Ending::Finish(finish) => finish.as_str(),
            // A finish that is a failure becomes one: clients would take it for the end of a good answer.
            Ending::Error(failure) if self.streamed => {
                self.splice.replace(choice, "finish_reason", "null");
                let error = serde_json::json!({
                    "message": failure.message, "type": failure.kind, "param": null, "code": failure.code,
                });
                return set(&mut self.splice, &self.response, "error", &error.to_string());
            }
            Ending::Error(_) => return,
        };
        if standard != reason {
            self.splice.replace(choice, "finish_reason", Json::from_value(standard).get());
            if !choice.has("native_finish_reason") {
                self.splice.append(choice, "native_finish_reason", Json::from_value(&*reason).get());
            }
        }
    }

    /// A message or a delta.
    fn message(&mut self, message: &Object<'t>, position: usize) {
        let streamed = self.streamed;
        let unwanted = |name: &str, value: &Json<'t>| match name {
            "tool_calls" | "function_call" | "annotations" => value.is_null(),
            "role" => streamed && (value.is_null() || value.get() == "\"\""),
            _ => false,
        };
        self.splice.remove(message, unwanted);
        let mut thoughts = None;
        if message.json_of("content").is_some_and(|content| content.starts_with('[')) {
            let (text, thinking) = split_content(message);
            // A piece that is only thought says nothing.
            let text = Json::from_value(&Some(text).filter(|text| !streamed || !text.is_empty()));
            self.splice.replace(message, "content", text.get());
            thoughts = Some(Json::from_value(&thinking).get().to_owned()).filter(|_| !thinking.is_empty());
        }
        let reasoning = message.string("reasoning").filter(|text| !text.is_empty());
        let reasoning = reasoning.and_then(|_| message.json_of("reasoning").map(str::to_owned));
        if let Some(thoughts) = thoughts.or(reasoning)
            && message.get("reasoning_content").is_none_or(Json::is_null)
        {
            set(&mut self.splice, message, "reasoning_content", &thoughts);
        }
        for (index, call) in message.list("tool_calls").iter().enumerate() {
            self.tool_call(call, (position, index));
        }
        if !streamed {
            for (name, json) in [("role", "\"assistant\""), ("content", "null"), ("refusal", "null")] {
                if !message.has(name) {
                    self.splice.append(message, name, json);
                }
            }
        }
    }

    fn tool_call(&mut self, call: &Object<'t>, (choice, index): (usize, usize)) {
        let streamed = self.streamed;
        let is_null = |name: &str, value: &Json<'t>| {
            value.is_null() && (streamed || name == "type") && matches!(name, "id" | "type" | "index")
        };
        self.splice.remove(call, is_null);
        if streamed && call.get("index").is_none_or(Json::is_null) {
            self.splice.append(call, "index", &index.to_string());
        }
        let function = call.inner("function");
        if !streamed {
            if call.get("type").is_none_or(Json::is_null) && function.is_some() {
                self.splice.append(call, "type", "\"function\"");
            }
            if call.string("id").is_none_or(|id| id.is_empty()) {
                let response_id = self.response.string("id").unwrap_or_default();
                let id = format!("call_{response_id}_{choice}_{index}");
                set(&mut self.splice, call, "id", Json::from_value(&id).get());
            }
        }
        let Some(function) = function else { return };
        // Of a stream the first piece of a call says so; OpenAI's clients for Node want it.
        let begins = function.string("name").is_some_and(|name| !name.is_empty());
        if streamed && begins && call.get("type").is_none_or(Json::is_null) {
            self.splice.append(call, "type", "\"function\"");
        }
        match function.get("arguments") {
            None if streamed => {}
            None => self.splice.append(&function, "arguments", "\"{}\""),
            Some(json) if json.is_null() && !streamed => {
                self.splice.replace(&function, "arguments", "\"{}\"");
            }
            Some(json) if json.is_object() => {
                self.splice.replace(&function, "arguments", Json::from_value(json.get()).get());
            }
            Some(_) => self.splice.remove(&function, |_, value| value.is_null()),
        }
    }
}

/// Replaces a member's value, or adds the member.
fn set<'t>(splice: &mut Splice<'t>, object: &Object<'t>, name: &str, json: &str) {
    match object.has(name) {
        true => splice.replace(object, name, json),
        false => splice.append(object, name, json),
    }
}

/// Mistral's content in parts, as text and thinking.
fn split_content(message: &Object<'_>) -> (String, String) {
    let (mut text, mut thinking) = (String::new(), String::new());
    if let Some(content) = message.get("content") {
        event_emitter::emit_content(0, content, &mut |event| match event {
            Event::Text { text: more, .. } => text.push_str(more),
            Event::Reasoning { text: more, .. } => thinking.push_str(more),
            _ => {}
        });
    }
    (text, thinking)
}

/// OpenAI's word for a vendor's service tier; `None` where it is OpenAI's own already.
fn standard_tier(tier: &str) -> Option<Option<&'static str>> {
    match tier {
        "auto" | "default" | "flex" | "scale" | "priority" => None,
        // Groq: the plain tier, and the one with reserved speed.
        "on_demand" | "standard" => Some(Some("default")),
        "performance" | "fast" => Some(Some("priority")),
        // OpenRouter: capacity bought ahead, OpenAI's scale tier.
        "provisioned" => Some(Some("scale")),
        _ => Some(None),
    }
}
