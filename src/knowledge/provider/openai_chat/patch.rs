//! Corrects chat responses that deviate from OpenAI's shape, in place.
//!
//! Only what breaks OpenAI clients or OpenAI's own schema is corrected, and thinking is put under the one
//! name that clients of this gateway read (`reasoning_content`). Deviations that OpenAI's own responses have
//! as well (`logprobs` left out, a null `system_fingerprint`) are kept, as are all other bytes. For example:
//!
//! ```text
//! {"index":0,"delta":{"role":"","reasoning":"t","tool_calls":null}}                           becomes
//! {"index":0,"delta":{"reasoning":"t","reasoning_content":"t"},"finish_reason":null}
//! ```

use super::event_emitter;
use super::provider_error::{Ending, ending, read_error};
use crate::provider::adapter::ResponsePatch;
use std::collections::HashSet;
use words::api::chat::Event;
use words::api::error_names::{ErrorNames, provider_code, with_openai_names};
use words::json::Json;
use words::json::splice::{Object, Splice};

/// The patch for every vendor of OpenAI's chat except OpenAI itself.
#[derive(Debug)]
pub(crate) struct ChatPatch;

/// The instance that provider specs refer to.
pub(crate) static CHAT_PATCH: ChatPatch = ChatPatch;

impl ResponsePatch for ChatPatch {
    fn patch(&self, data: &[u8], streamed: bool) -> Option<Vec<u8>> {
        let text = std::str::from_utf8(data).ok()?.trim_start();
        let response = Object::read(text)?;
        if response.inner("error").is_some_and(|error| error.string("message").is_some()) {
            return with_openai_names(text, &read_error(text, None));
        }
        let has_choices = response.get("choices").is_some_and(|choices| !choices.is_null());
        // A body without choices is no chat, but for the last chunk of some vendors, which has only the usage.
        let is_usage = streamed && !has_choices && response.inner("usage").is_some();
        if !(response.has("choices") || is_usage)
            || response.get("error").is_some_and(|error| !error.is_null())
        {
            return None;
        }
        let mut patch = Patch { splice: Splice::new(text), streamed, response };
        if is_usage {
            set(&mut patch.splice, &patch.response, "choices", "[]");
        }
        patch.members();
        for (position, choice) in patch.response.list("choices").iter().enumerate() {
            patch.choice(position, choice);
        }
        patch.splice.finish()
    }

    fn corrects_calls(&self) -> bool {
        true
    }
}

struct Patch<'t> {
    splice: Splice<'t>,
    streamed: bool,
    response: Object<'t>,
}

impl<'t> Patch<'t> {
    /// Corrects the members other than the choices.
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
                // The schema allows objects here, or leaving them out.
                let is_details = |name: &str| name.ends_with("_details");
                self.splice.remove(&usage, |name, value| is_details(name) && value.is_null());
                return;
            }
            None => response.inner("x_groq").and_then(|groq| groq.json_of("usage")),
        };
        // Moonshot sends it in the last choice.
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
        match message {
            Some(message) => self.message(&message, position),
            // Azure's chunks of asynchronous filters.
            None if self.streamed && choice.get("delta").is_none_or(Json::is_null) => {
                set(&mut self.splice, choice, "delta", "{}");
            }
            None => {}
        }
        self.finish(choice, called);
    }

    fn finish(&mut self, choice: &Object<'t>, called: bool) {
        let Some(reason) = choice.string("finish_reason") else {
            // Z.ai leaves it out of all chunks but the last.
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
            // An error given as a finish reason becomes an error: clients would take it for a normal end.
            Ending::Error(failure) if self.streamed => {
                self.splice.replace(choice, "finish_reason", "null");
                let names = ErrorNames::of(&failure);
                let error = serde_json::json!({
                    "message": failure.message, "type": names.openai_type, "param": null,
                    "code": names.openai_code, "provider_code": provider_code(&failure),
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

    /// Corrects a message or a delta.
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
            // A chunk that has only thinking has no content.
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
        let calls = message.list("tool_calls");
        let mut ids = HashSet::new();
        for (index, call) in calls.iter().enumerate() {
            let is_repeated = !streamed && !ids.insert(call.string("id").unwrap_or_default());
            self.tool_call(call, position, index, is_repeated);
        }
        if !streamed {
            for (name, json) in [("role", "\"assistant\""), ("content", "null"), ("refusal", "null")] {
                if !message.has(name) {
                    self.splice.append(message, name, json);
                }
            }
        }
    }

    /// `is_repeated`: an earlier call has its id. In a stream `stream_assembly` sees to indices and ids.
    fn tool_call(&mut self, call: &Object<'t>, choice: usize, index: usize, is_repeated: bool) {
        let streamed = self.streamed;
        let is_null = |name: &str, value: &Json<'t>| {
            value.is_null() && (streamed || name == "type") && matches!(name, "id" | "type" | "index")
        };
        self.splice.remove(call, is_null);
        let function = call.inner("function");
        if !streamed {
            if call.get("type").is_none_or(Json::is_null) && function.is_some() {
                self.splice.append(call, "type", "\"function\"");
            }
            if is_repeated || call.string("id").is_none_or(|id| id.is_empty()) {
                let response_id = self.response.string("id").unwrap_or_default();
                let id = format!("call_{response_id}_{choice}_{index}");
                set(&mut self.splice, call, "id", Json::from_value(&id).get());
            }
        }
        let Some(function) = function else { return };
        // In a stream the first fragment of a call has the type; OpenAI's Node client requires it.
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
    if object.has(name) { splice.replace(object, name, json) } else { splice.append(object, name, json) }
}

/// Splits Mistral's content parts into text and thinking.
fn split_content(message: &Object<'_>) -> (String, String) {
    let mut text = String::new();
    let mut thinking = String::new();
    if let Some(content) = message.get("content") {
        event_emitter::emit_content(0, content, &mut |event| match event {
            Event::Text { text: more, .. } => text.push_str(more),
            Event::Reasoning { text: more, .. } => thinking.push_str(more),
            _ => {}
        });
    }
    (text, thinking)
}

/// OpenAI's name for a vendor's service tier; `None` where the name already is OpenAI's.
fn standard_tier(tier: &str) -> Option<Option<&'static str>> {
    match tier {
        "auto" | "default" | "flex" | "scale" | "priority" => None,
        // Groq: the normal tier, and the one with reserved speed.
        "on_demand" | "standard" => Some(Some("default")),
        "performance" | "fast" => Some(Some("priority")),
        // OpenRouter: capacity reserved in advance, OpenAI's scale tier.
        "provisioned" => Some(Some("scale")),
        _ => Some(None),
    }
}
