//! Changes in a client's own chat completion what a vendor's published types do not have: values that only OpenAI
//! takes, for vendors whose types are known to be narrower than OpenAI's.
//!
//! What has a counterpart is sent as that; what has none and would change the response is refused by name. Vendors without
//! published types get what the client wrote, and say themselves what they do not take.

use super::OpenAiChat;
use crate::provider::translation_notes::TranslationNotes;
use serde_json::json;
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use words::api::body::{Body, Edit};
use words::api::part_members::BREAKPOINT;
use words::error::Error;
use words::json::Json;
use words::json::splice::{Object, Splice};

/// What a vendor's published types say about parts of messages. All vendors with such types have functions as their only
/// tools of the client's, no function messages, and a predicted output that is one text.
#[derive(Debug)]
pub struct PublishedTypes {
    /// The types of the parts of a user's message; `None` where they are as many as OpenAI's.
    pub parts: Option<&'static [&'static str]>,
    /// Functions need `parameters`, and a format of the response its `schema`.
    pub needs_schemas: bool,
}

impl PublishedTypes {
    /// Refuses a part of a type that is not published.
    ///
    /// # Errors
    /// 400 that names the part.
    pub(super) fn check_part(&self, kind: &str, at: fmt::Arguments<'_>) -> Result<(), Error> {
        match self.parts {
            Some(parts) if !parts.contains(&kind) => {
                let message = format!(
                    "{at}: this provider takes no {kind} in a message. It takes {}.",
                    parts.join(", ")
                );
                Err(Error::invalid_request(at.to_string(), message))
            }
            _ => Ok(()),
        }
    }
}

impl OpenAiChat {
    /// The changes outside of messages.
    ///
    /// # Errors
    /// 400 for a kind of tool that the vendor does not have.
    pub(super) fn conform(
        &self,
        body: &Body,
        notes: &mut TranslationNotes,
        edits: &mut Vec<Edit<'static>>,
    ) -> Result<(), Error> {
        let Some(published) = self.published else { return Ok(()) };
        let allowed = conform_choice(body, edits)?;
        conform_tools(body, allowed.as_ref(), published.needs_schemas, edits)?;
        let options = body.raw("stream_options").filter(|_| self.stream_options);
        if let Some(options) = options.and_then(Object::read) {
            let usage = options.json_of("include_usage");
            if options.names().any(|name| name != "include_usage") {
                notes.warn("stream_options", "only include_usage is kept, this provider has nothing else");
                let usage = usage.unwrap_or("false");
                edits
                    .push(Edit::Set("stream_options", Cow::Owned(format!(r#"{{"include_usage":{usage}}}"#))));
            }
        }
        let format = body.raw("response_format").and_then(Object::read);
        let schema =
            format.and_then(|format| format.inner("json_schema")).filter(|_| published.needs_schemas);
        if schema.is_some_and(|schema| !schema.has("schema")) {
            edits.push(Edit::Set("response_format", Cow::Borrowed(r#"{"type":"json_object"}"#)));
        }
        if let Some(prediction) = body.raw("prediction").and_then(Object::read) {
            let parts = prediction.list("content");
            if !parts.is_empty() {
                let texts: Vec<_> = parts.iter().filter_map(|part| part.string("text")).collect();
                let value = json!({"type": "content", "content": texts.join("\n")}).to_string();
                edits.push(Edit::Set("prediction", Cow::Owned(value)));
            }
        }
        Ok(())
    }

    /// The changes of a message's parts, calls and role. Returns whether the message has a retired function call
    /// that becomes a tool call.
    ///
    /// # Errors
    /// 400 for a part that the vendor does not take.
    pub(super) fn conform_message<'t>(
        &self,
        message: &Object<'t>,
        index: usize,
        parts: &[Object<'t>],
        splice: &mut Splice<'t>,
        calls: &mut FunctionCalls,
    ) -> Result<bool, Error> {
        let role = message.string("role").unwrap_or_default();
        for (number, part) in parts.iter().enumerate() {
            let kind = part.string("type").unwrap_or_default();
            if let (Some(published), "user") = (self.published, role.as_ref()) {
                published.check_part(&kind, format_args!("messages[{index}].content[{number}]"))?;
            }
            let file = part.inner("file").filter(|_| self.published.is_some() && kind == "file");
            if file.is_some_and(|file| !file.has("file_data") && !file.has("file_id")) {
                let at = format!("messages[{index}].content[{number}].file");
                let message = format!("{at}: a file needs file_data or file_id.");
                return Err(Error::invalid_request(at, message));
            }
            if kind == "refusal" && self.refuses.contains(&"refusal") {
                splice.replace(part, "type", "\"text\"");
                splice.rename(part, "refusal", "text");
            }
        }
        if self.published.is_none() {
            return Ok(false);
        }
        for call in message.list("tool_calls") {
            let Some(custom) = call.inner("custom") else { continue };
            let input = custom.string("input").unwrap_or_default();
            let arguments = json!({"input": input}).to_string();
            let function = json!({"name": custom.string("name").unwrap_or_default(), "arguments": arguments});
            splice.replace(&call, "type", "\"function\"");
            splice.replace(&call, "custom", function.to_string());
            splice.rename(&call, "custom", "function");
        }
        let is_call = role == "assistant" && calls.has_result && message.inner("function_call").is_some();
        if let Some(json) = message.json_of("function_call").filter(|_| is_call) {
            calls.count += 1;
            let call = format!(r#"[{{"id":"{}","type":"function","function":{json}}}]"#, calls.id());
            splice.replace(message, "function_call", call);
            splice.rename(message, "function_call", "tool_calls");
        }
        if role == "function" && calls.count > 0 {
            splice.replace(message, "role", "\"tool\"");
            splice.append(message, "tool_call_id", &format!("\"{}\"", calls.id()));
        }
        Ok(is_call)
    }

    /// Removes from the parts what only OpenAI has, and what only Anthropic has.
    pub(super) fn remove_part_members<'t>(
        &self,
        parts: &[Object<'t>],
        role: &str,
        splice: &mut Splice<'t>,
        notes: &mut TranslationNotes,
    ) {
        let refuses_breakpoint = !self.accepts_all_openai_members();
        for part in parts {
            if refuses_breakpoint && part.has(BREAKPOINT) {
                notes.warn_once(
                    "messages",
                    "prompt_cache_breakpoint left out, this provider has no such member",
                );
            }
            if self.convert_mark(part, role, splice) {
                continue;
            }
            if !(self.breakpoints && part.has(BREAKPOINT)) {
                self.warn_of_cache_mark(part, notes);
            }
            // In one call: it keeps the commas right.
            splice.remove(part, |name, _| {
                (refuses_breakpoint && name == BREAKPOINT) || self.refuses_cache_mark(name)
            });
            let image = part.inner("image_url").filter(|_| self.published.is_some());
            if let Some(image) = image.filter(|image| image.string("detail").as_deref() == Some("original")) {
                splice.replace(&image, "detail", "\"high\"");
            }
        }
    }
}

/// The retired function calls of a conversation, which become tool calls.
#[derive(Debug, Default)]
pub(super) struct FunctionCalls {
    count: usize,
    /// Whether the next message is the result of a call in this one. A call without a result is refused.
    pub has_result: bool,
}

impl FunctionCalls {
    /// The id of the last call, which has none: nine letters and digits, as every vendor takes.
    fn id(&self) -> String {
        format!("call{:05}", self.count)
    }
}

pub(super) fn is_function_result(message: &Json<'_>) -> bool {
    let message = message.source().and_then(Object::read);
    message.is_some_and(|message| message.string("role").as_deref() == Some("function"))
}

/// Makes a choice of tools one that the vendor has, and returns the names that are allowed if they are not all.
fn conform_choice(body: &Body, edits: &mut Vec<Edit<'static>>) -> Result<Option<HashSet<String>>, Error> {
    let Some(choice) = body.raw("tool_choice").and_then(Object::read) else { return Ok(None) };
    let allowed = match choice.string("type").as_deref() {
        Some("allowed_tools") => choice.inner("allowed_tools"),
        Some("custom") => {
            let message = "tool_choice: this provider has functions only, no custom tools.";
            return Err(Error::invalid_request("tool_choice", message));
        }
        _ => None,
    };
    let Some(allowed) = allowed else { return Ok(None) };
    let mode =
        if allowed.string("mode").as_deref() == Some("required") { "\"required\"" } else { "\"auto\"" };
    edits.push(Edit::Set("tool_choice", Cow::Borrowed(mode)));
    let tools = allowed.list("tools");
    let names = tools.iter().filter_map(|tool| Some(tool.inner("function")?.string("name")?.into_owned()));
    Ok(Some(names.collect()))
}

fn conform_tools(
    body: &Body,
    allowed: Option<&HashSet<String>>,
    needs_schemas: bool,
    edits: &mut Vec<Edit<'static>>,
) -> Result<(), Error> {
    let Some(text) = body.raw("tools") else { return Ok(()) };
    let list: Vec<Json<'_>> = serde_json::from_str(text).unwrap_or_default();
    let mut splice = Splice::new(text);
    let mut kept = Vec::with_capacity(list.len());
    for (index, json) in list.iter().enumerate() {
        let Some(tool) = json.source().and_then(Object::read) else { return Ok(()) };
        if tool.string("type").as_deref() == Some("custom") {
            let message = format!("tools[{index}]: this provider has functions only, no custom tools.");
            return Err(Error::invalid_request(format!("tools[{index}]"), message));
        }
        let function = tool.inner("function");
        let name = function.as_ref().and_then(|function| function.string("name"));
        if allowed.is_none_or(|allowed| name.is_some_and(|name| allowed.contains(name.as_ref()))) {
            kept.push(json.get());
        }
        if let Some(function) = function.filter(|function| needs_schemas && !function.has("parameters")) {
            splice.append(&function, "parameters", r#"{"type":"object","properties":{}}"#);
        }
    }
    let changed = match allowed {
        Some(_) => Some(format!("[{}]", kept.join(","))),
        None => splice.finish().and_then(|changed| String::from_utf8(changed).ok()),
    };
    edits.extend(changed.map(|tools| Edit::Set("tools", Cow::Owned(tools))));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::openai_chat::quirks::{CEREBRAS, GROQ, MISTRAL, PLAIN};
    use serde_json::Value;
    use words::config::account::Account;

    /// What a vendor gets for a body, and the number of warnings; the param of a refusal.
    fn sent(chat: &OpenAiChat, body: &Value) -> Result<(Value, usize), String> {
        let body = Body::parse(body.to_string().into()).unwrap();
        let mut notes = TranslationNotes::default();
        let edits = chat
            .edits(&body, &Account::default(), &mut notes)
            .map_err(|error| error.param.unwrap_or_default())?;
        let sent = serde_json::from_slice(&body.edit(&edits)).unwrap();
        Ok((sent, notes.warnings.len()))
    }

    fn function(name: &str) -> Value {
        json!({"type": "function", "function": {"name": name, "parameters": {}}})
    }

    #[test]
    fn members_of_a_request_that_only_openai_has_are_fitted() {
        let choose =
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [function("b")]}});
        let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b", "prompt_cache_breakpoint": {}}]);
        for (chat, given, wanted, warnings) in [
            (&GROQ, json!({"reasoning_effort": "xhigh"}), json!({"reasoning_effort": "high"}), 1),
            (&CEREBRAS, json!({"service_tier": "fast"}), json!({"service_tier": "priority"}), 1),
            (&GROQ, json!({"service_tier": "default"}), json!({"service_tier": "on_demand"}), 0),
            (
                &MISTRAL,
                json!({"tools": [function("a"), function("b")], "tool_choice": choose}),
                json!({"tools": [function("b")], "tool_choice": "required"}),
                0,
            ),
            (
                &MISTRAL,
                json!({"tools": [{"type": "function", "function": {"name": "a"}}]}),
                json!({"tools": [{"type": "function", "function":
                    {"name": "a", "parameters": {"type": "object", "properties": {}}}}]}),
                0,
            ),
            (
                &MISTRAL,
                json!({"prediction": {"type": "content", "content": parts}}),
                json!({"prediction": {"type": "content", "content": "a\nb"}}),
                0,
            ),
            (&GROQ, json!({"prediction": {"type": "content", "content": parts}}), json!({}), 1),
            (
                &MISTRAL,
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}),
                json!({"response_format": {"type": "json_object"}}),
                0,
            ),
            (
                &CEREBRAS,
                json!({"stream_options": {"include_usage": true, "include_obfuscation": false}}),
                json!({"stream_options": {"include_usage": true}}),
                1,
            ),
            (&MISTRAL, json!({"stream_options": {"include_obfuscation": false}}), json!({}), 1),
        ] {
            assert_eq!(sent(chat, &given), Ok((wanted, warnings)), "{given}");
        }
    }

    #[test]
    fn messages_that_only_openai_has_are_fitted() {
        let part = |kind: &str, value: Value| json!({"type": kind, kind: value});
        let user = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
        let custom = json!({"id": "c12345678", "type": "custom", "custom": {"name": "f", "input": "x"}});
        let called = json!({"id": "c12345678", "type": "function",
            "function": {"name": "f", "arguments": r#"{"input":"x"}"#}});
        let call = json!({"name": "f", "arguments": "{}"});
        for (chat, given, wanted, warnings) in [
            (
                &PLAIN,
                user(json!({"type": "text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}})),
                user(json!({"type": "text", "text": "x"})),
                1,
            ),
            (
                &GROQ,
                user(part("image_url", json!({"url": "u", "detail": "original"}))),
                user(part("image_url", json!({"url": "u", "detail": "high"}))),
                0,
            ),
            (
                &MISTRAL,
                user(part("file", json!({"file_id": "f"}))),
                user(json!({"type": "file", "file_id": "f"})),
                0,
            ),
            (
                &CEREBRAS,
                json!({"messages": [{"role": "assistant", "content": [part("refusal", json!("No."))]}]}),
                json!({"messages": [{"role": "assistant", "content": [part("text", json!("No."))]}]}),
                0,
            ),
            (
                &GROQ,
                json!({"messages": [{"role": "assistant", "tool_calls": [custom]}]}),
                json!({"messages": [{"role": "assistant", "tool_calls": [called]}]}),
                0,
            ),
            (
                &MISTRAL,
                json!({"messages": [{"role": "assistant", "function_call": call},
                    {"role": "function", "name": "f", "content": "1"}]}),
                json!({"messages": [
                    {"role": "assistant", "tool_calls": [{"id": "call00001", "type": "function", "function": call}]},
                    {"role": "tool", "content": "1", "tool_call_id": "call00001"}]}),
                0,
            ),
        ] {
            assert_eq!(sent(chat, &given), Ok((wanted, warnings)), "{given}");
        }
    }

    #[test]
    fn what_a_vendor_cannot_do_is_refused_by_name() {
        let user = |part: Value| json!({"messages": [{"role": "user", "content": [part]}]});
        for (chat, given, param) in [
            (&GROQ, json!({"tools": [{"type": "custom", "custom": {"name": "f"}}]}), "tools[0]"),
            (&CEREBRAS, json!({"tool_choice": {"type": "custom", "custom": {"name": "f"}}}), "tool_choice"),
            (&CEREBRAS, user(json!({"type": "file", "file": {"file_id": "f"}})), "messages[0].content[0]"),
            (&GROQ, user(json!({"type": "input_audio", "input_audio": {}})), "messages[0].content[0]"),
            (&MISTRAL, user(json!({"type": "file", "file": {}})), "messages[0].content[0].file"),
        ] {
            assert_eq!(sent(chat, &given), Err(param.to_owned()), "{given}");
        }
        assert!(sent(&PLAIN, &user(json!({"type": "file", "file": {"file_id": "f"}}))).is_ok());
    }
}
