//! Adapts a client's chat completion to the vendor's quirks: what the vendor would refuse or misread is
//! changed in place, everything else keeps its bytes.
//!
//! For example, for Mistral `{"model":"m","max_completion_tokens":9,"seed":1,"user":"u","messages":[..]}`
//! becomes `{"model":"m","messages":[..],"max_tokens":9,"random_seed":1}`.

use super::cache_marks::CACHE_CONTROL;
use super::conform::{FunctionCalls, is_function_result};
use super::mistral_order::MistralOrder;
use super::parts::PartOut;
use super::write::{Thinking, schema_prompt};
use super::{Documents, MaxTokensParam, OpenAiChat, ReasoningField, Rule, passed_names};
use crate::provider::call_ids::IdRule;
use crate::provider::translation_notes::TranslationNotes;
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::part_members::BREAKPOINT;
use words::config::account::Account;
use words::error::Error;
use words::json::Json;
use words::json::splice::{Object, Splice};
use words::json::walk;

impl OpenAiChat {
    /// The changes of one request; usually none.
    ///
    /// # Errors
    /// 400 that names what the vendor does not take.
    pub fn edits(
        &self,
        body: &Body,
        account: &Account,
        notes: &mut TranslationNotes,
    ) -> Result<Vec<Edit<'static>>, Error> {
        if let Some(engine) = self.with_cache_marks(account) {
            return engine.edits(body, account, notes);
        }
        if let Some(newer) = self.with_breakpoints(&body.text("model").unwrap_or_default()) {
            return newer.edits(body, account, notes);
        }
        if !self.accepts_all_openai_members() {
            body.check_values("this provider")?;
        }
        let mut edits = Vec::new();
        self.remove_foreign(body, account, notes, &mut edits);
        if self.max_tokens_param == MaxTokensParam::MaxTokens {
            rename(body, "max_completion_tokens", "max_tokens", &mut edits);
        }
        for (name, rule) in self.rules {
            apply_rule(name, *rule, body, notes, &mut edits);
        }
        self.conform(body, notes, &mut edits)?;
        self.remove_cache_marks_of_tools(body, notes, &mut edits);
        let schema = if self.schemas { None } else { schema(body) };
        if schema.is_some() {
            edits.push(Edit::Set("response_format", Cow::Borrowed(r#"{"type":"json_object"}"#)));
        }
        let is_mistral = self.answers_results(&body.text("model").unwrap_or_default());
        if let Some(messages) = self.messages(body, schema.as_deref(), is_mistral, notes)? {
            edits.push(Edit::Set("messages", Cow::Owned(messages)));
        }
        if let Some(rule) = self.passed_names(account) {
            notes.tool_names = passed_names::shorten(body, rule, &mut edits)?;
        }
        Ok(edits)
    }

    /// Removes the members of other vendors' APIs.
    fn remove_foreign(
        &self,
        body: &Body,
        account: &Account,
        notes: &mut TranslationNotes,
        edits: &mut Vec<Edit<'static>>,
    ) {
        for name in body.raw_names() {
            let Some(foreign) = self.foreign(name, account) else { continue };
            edits.push(Edit::Remove(foreign));
            if body.value(foreign) != Some(b"null") {
                notes.drop_param(foreign, "this provider");
            }
        }
    }

    /// The changed messages; `None` if none of them changes.
    fn messages(
        &self,
        body: &Body,
        schema: Option<&str>,
        is_mistral: bool,
        notes: &mut TranslationNotes,
    ) -> Result<Option<String>, Error> {
        let may_change = |text| schema.is_some() || self.may_change(text, is_mistral);
        if !body.value("messages").is_some_and(may_change) {
            return Ok(None);
        }
        self.changed_messages(body, schema, is_mistral, notes)
    }

    fn changed_messages(
        &self,
        body: &Body,
        schema: Option<&str>,
        is_mistral: bool,
        notes: &mut TranslationNotes,
    ) -> Result<Option<String>, Error> {
        if self.accepts_all_openai_members() {
            // The others have done so above.
            body.check_values("this provider")?;
        }
        let Some(text) = body.raw("messages") else { return Ok(None) };
        let Ok(list) = serde_json::from_str::<Vec<Json<'_>>>(text) else { return Ok(None) };
        let mut splice = Splice::new(text);
        let mut last: Option<Object<'_>> = None;
        let mut calls = FunctionCalls::default();
        let mut order = MistralOrder::default();
        for (index, json) in list.iter().enumerate() {
            let Some(message) = json.source().and_then(Object::read) else { continue };
            calls.has_result = list.get(index + 1).is_some_and(is_function_result);
            let is_users = is_mistral && order.next(&message, &mut splice, notes);
            if !is_users && !self.developer && message.string("role").as_deref() == Some("developer") {
                splice.replace(&message, "role", "\"system\"");
            }
            self.message(&message, index, &mut splice, &mut calls, notes)?;
            last = Some(message);
        }
        if let Some(last) = last.filter(|last| self.flags_prefix && is_prefix(last)) {
            splice.append(&last, "prefix", "true");
        }
        let changed = splice.finish().and_then(|changed| String::from_utf8(changed).ok());
        let Some(schema) = schema.and_then(Json::parse) else { return Ok(changed) };
        let messages = changed.as_deref().unwrap_or(text);
        let prompt = Json::from_value(&schema_prompt(&schema));
        let instruction = format!(r#"{{"role":"system","content":{}}}"#, prompt.get());
        let rest = messages.strip_prefix('[').unwrap_or("]");
        let comma = if list.is_empty() { "" } else { "," };
        Ok(Some(format!("[{instruction}{comma}{rest}")))
    }

    /// A quick check: most conversations contain nothing that needs a change. What does is a name, a role or a type, so it stands behind
    /// a quotation mark: one search for these finds all.
    fn may_change(&self, text: &[u8], is_mistral: bool) -> bool {
        let first_end = || walk::items(text).and_then(|mut items| items.next().map(|_| items.offset()));
        // A system message is one that changes behind others only.
        let others = if is_mistral { first_end() } else { None };
        memchr::memchr_iter(b'"', text).any(|quote| {
            let is_later = others.is_some_and(|others| quote >= others);
            text.get(quote + 1..).is_some_and(|rest| self.is_reason(rest, is_mistral, is_later))
        })
    }

    /// Whether what stands behind a quotation mark may need a change. `is_later`: behind the first message.
    fn is_reason(&self, rest: &[u8], is_mistral: bool, is_later: bool) -> bool {
        let Some(first) = rest.first() else { return false };
        let has = |name: &str| name.as_bytes().first() == Some(first) && rest.starts_with(name.as_bytes());
        (!self.developer && has("developer"))
            || (self.reasoning_field != ReasoningField::Nowhere && has("reasoning"))
            || (self.call_ids == IdRule::Nine && has("tool"))
            || (is_mistral && (has("tool") || has("function")))
            || (is_mistral && is_later && (has("system\"") || has("developer")))
            || (self.documents == Documents::DocumentUrls && (has("file\"") || has("input_audio")))
            || (self.flags_prefix && has("assistant"))
            || self.refuses.iter().any(|name| has(name))
            || (!self.accepts_all_openai_members() && has(BREAKPOINT))
            || (!self.cache_control && has(CACHE_CONTROL))
            || (self.published.is_some() && (has("type\"") || has("function")))
    }

    fn message<'t>(
        &self,
        message: &Object<'t>,
        index: usize,
        splice: &mut Splice<'t>,
        calls: &mut FunctionCalls,
        notes: &mut TranslationNotes,
    ) -> Result<(), Error> {
        let role = message.string("role").unwrap_or_default();
        let parts = message.list("content");
        self.remove_part_members(&parts, &role, splice, notes);
        let is_converted = self.conform_message(message, index, &parts, splice, calls)?;
        let is_refused =
            |name: &str| self.refuses.contains(&name) && !(is_converted && name == "function_call");
        if role == "assistant" {
            let is_moved = self.move_thinking(message, splice);
            self.keep_refusal(message, is_moved, splice, notes);
        } else if self.documents == Documents::DocumentUrls {
            parts.iter().for_each(|part| document(part, splice));
        }
        let is_result = matches!(role.as_ref(), "tool" | "function");
        if message.string("name").is_some() && self.refuses.contains(&"name") && !is_result {
            notes.warn("messages", "name left out, this provider has no such member");
        }
        for name in LOSSES.into_iter().filter(|name| is_refused(name)) {
            if message.get(name).is_some_and(|value| !value.is_null()) {
                notes.warn_once("messages", &format!("{name} left out, this provider has no such member"));
            }
        }
        self.warn_of_cache_mark(message, notes);
        splice.remove(message, |name, _| is_refused(name) || self.refuses_cache_mark(name));
        if self.call_ids == IdRule::Nine {
            shorten(message, "tool_call_id", splice);
            message.list("tool_calls").iter().for_each(|call| shorten(call, "id", splice));
        }
        Ok(())
    }

    /// Makes the text of a refusal the content, for vendors without the member.
    fn keep_refusal<'t>(
        &self,
        message: &Object<'t>,
        is_content_changed: bool,
        splice: &mut Splice<'t>,
        notes: &mut TranslationNotes,
    ) {
        let refusal = message.string("refusal").filter(|text| !text.is_empty());
        let Some(refusal) = refusal.filter(|_| self.refuses.contains(&"refusal")) else { return };
        let content = message.string("content").unwrap_or_default();
        let is_text = message.json_of("content").is_none_or(|json| json == "null" || json.starts_with('"'));
        let between = if content.is_empty() { "" } else { "\n" };
        let text = Json::from_value(&[content.as_ref(), between, refusal.as_ref()].concat());
        match message.has("content") {
            // It has moved along with the thinking.
            _ if is_content_changed => {}
            _ if !is_text => {
                notes.warn_once("messages", "refusal left out, this provider has no such member");
            }
            true => splice.replace(message, "content", text.get()),
            false => splice.append(message, "content", text.get()),
        }
    }

    /// Moves earlier thinking to the member that the vendor reads. Returns whether the content was changed for it.
    fn move_thinking<'t>(&self, message: &Object<'t>, splice: &mut Splice<'t>) -> bool {
        let thinking = ["reasoning_content", "reasoning"].into_iter().find_map(|name| {
            let text = message.string(name).filter(|text| !text.is_empty())?;
            Some((name, text, message.json_of(name)?))
        });
        let Some((name, text, json)) = thinking else { return false };
        match self.reasoning_field {
            ReasoningField::Member(wanted) if name != wanted && !message.has(wanted) => {
                splice.append(message, wanted, json);
                return false;
            }
            ReasoningField::Parts => {
                let mut parts = vec![PartOut::thinking(&text)];
                let content = message.string("content");
                match content.as_deref() {
                    Some(content) if !content.is_empty() => parts.push(PartOut::text(content, None)),
                    // A list already contains its thinking, and any other type is left for the vendor to
                    // check.
                    None if message.json_of("content").is_some_and(|content| content != "null") => {
                        return false;
                    }
                    _ => {}
                }
                let refusal = message.string("refusal").filter(|_| self.refuses.contains(&"refusal"));
                let refusal = refusal.filter(|text| !text.is_empty());
                parts.extend(refusal.as_deref().map(|text| PartOut::text(text, None)));
                let parts = Json::from_value(&parts);
                if message.has("content") {
                    splice.replace(message, "content", parts.get());
                } else {
                    splice.append(message, "content", parts.get());
                }
            }
            _ => return false,
        }
        true
    }
}

/// Members of messages whose removal needs a warning.
const LOSSES: [&str; 5] = ["audio", "content_blocks", "executed_tools", "function_call", "reasoning_details"];

/// Whether a last message is the start of a text that the model is to continue.
fn is_prefix(last: &Object<'_>) -> bool {
    let has_calls = last.get("tool_calls").is_some_and(|calls| !calls.is_null() && calls.get() != "[]");
    last.string("role").as_deref() == Some("assistant") && !last.has("prefix") && !has_calls
}

/// Applies one rule to a top-level member.
pub(crate) fn apply_rule(
    name: &'static str,
    rule: Rule,
    body: &Body,
    notes: &mut TranslationNotes,
    edits: &mut Vec<Edit<'static>>,
) {
    let Some(value) = body.raw(name) else { return };
    match rule {
        Rule::Name(other) => rename(body, name, other, edits),
        Rule::Values(_) | Rule::Nearest(_) => {
            let replacement = body.text(name).and_then(|text| rule.replacement(&text));
            if let Some((to, is_near)) = replacement {
                if is_near {
                    notes.nearest(name, to);
                }
                edits.push(Edit::Set(name, Cow::Owned(Json::from_value(to).get().to_owned())));
            }
        }
        Rule::Drop => {
            edits.push(Edit::Remove(name));
            if !matches!(value, "null" | "false") {
                notes.drop_param(name, "this provider");
            }
        }
        Rule::DropValue(dropped) => {
            if body.text(name).as_deref() == Some(dropped) {
                edits.push(Edit::Remove(name));
            }
        }
        Rule::Effort => {
            let thinking = Json::parse(value).and_then(|json| Thinking::read(&json));
            let Some(thinking) = thinking.filter(|_| body.raw("reasoning_effort").is_none()) else {
                return;
            };
            let effort = if thinking.off { "none" } else { thinking.effort().unwrap_or("medium") };
            edits.push(Edit::Remove(name));
            edits.push(Edit::Set("reasoning_effort", Cow::Owned(Json::from_value(effort).get().to_owned())));
        }
    }
}

/// Renames a member. An existing member of that name is kept and takes precedence.
fn rename(body: &Body, name: &'static str, other: &'static str, edits: &mut Vec<Edit<'static>>) {
    let Some(value) = body.raw(name) else { return };
    edits.push(Edit::Remove(name));
    if value != "null" && body.raw(other).is_none_or(|existing| existing == "null") {
        edits.push(Edit::Set(other, Cow::Owned(value.to_owned())));
    }
}

/// The schema of `response_format`, if it has one.
fn schema(body: &Body) -> Option<String> {
    let format = Object::read(body.raw("response_format")?)?;
    if format.string("type")? != "json_schema" {
        return None;
    }
    Some(format.inner("json_schema")?.json_of("schema")?.to_owned())
}

fn shorten<'t>(object: &Object<'t>, name: &str, splice: &mut Splice<'t>) {
    let Some(id) = object.string(name) else { return };
    if let Cow::Owned(short) = IdRule::Nine.fit(&id) {
        splice.replace(object, name, Json::from_value(&short).get());
    }
}

/// Translates OpenAI's `file` and `input_audio` parts into Mistral's.
fn document<'t>(part: &Object<'t>, splice: &mut Splice<'t>) {
    match part.string("type").as_deref() {
        Some("file") => {
            let Some(file) = part.inner("file") else { return };
            let Some(data) = file.json_of("file_data") else {
                if let Some(id) = file.json_of("file_id") {
                    splice.replace(part, "file", id);
                    splice.rename(part, "file", "file_id");
                }
                return;
            };
            splice.replace(part, "type", "\"document_url\"");
            splice.remove(part, |name, _| name == "file");
            splice.append(part, "document_url", data);
            if let Some(name) = file.json_of("filename") {
                splice.append(part, "document_name", name);
            }
        }
        Some("input_audio") => {
            let data = part.inner("input_audio").and_then(|audio| audio.json_of("data"));
            if let Some(data) = data {
                splice.replace(part, "input_audio", data);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::openai_chat::quirks::{
        CEREBRAS, DASHSCOPE, DATABRICKS, DEEPSEEK, GROQ, LITELLM, MISTRAL, MOONSHOT, OLLAMA, OPENROUTER,
        PLAIN, TOGETHER, VLLM, XAI,
    };
    use serde_json::{Value, json};

    /// One message of each kind, and each with what a vendor may refuse.
    fn messages() -> Vec<Value> {
        let call = json!([{"id": "call_0123456789", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
        let mark = json!({"type": "ephemeral"});
        let mut all = vec![
            json!({"role": "system", "content": "a"}),
            json!({"role": "developer", "content": "a"}),
            json!({"role": "user", "content": "a \"tool\" named \"system\""}),
            json!({"role": "user", "content": [{"type": "text", "text": "a"}]}),
            json!({"role": "user", "content": [{"type": "text", "text": "a", "cache_control": mark}]}),
            json!({"role": "user", "content": [{"type": "text", "text": "a", "prompt_cache_breakpoint": {}}]}),
            json!({"role": "user", "content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}]}),
            json!({"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]}),
            json!({"role": "assistant", "content": "a"}),
            json!({"role": "assistant", "content": null, "tool_calls": call}),
            json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}),
            json!({"role": "tool", "content": "a", "tool_call_id": "call_0123456789"}),
            json!({"role": "tool", "content": "a"}),
            json!({"role": "function", "content": "a", "name": "f"}),
        ];
        for member in
            ["name", "refusal", "reasoning", "reasoning_content", "annotations", "audio", "cache_control"]
        {
            all.push(json!({"role": "assistant", "content": "a", member: "b"}));
        }
        all
    }

    #[test]
    fn messages_that_are_not_read_have_nothing_to_change() {
        let chats = [
            &CEREBRAS,
            &DASHSCOPE,
            &DATABRICKS,
            &DEEPSEEK,
            &GROQ,
            &LITELLM,
            &MISTRAL,
            &MOONSHOT,
            &OLLAMA,
            &OPENROUTER,
            &PLAIN,
            &TOGETHER,
            &VLLM,
            &XAI,
        ];
        let messages = messages();
        let mut unread = 0;
        for chat in chats {
            for is_mistral in [false, true] {
                for (first, second) in
                    messages.iter().flat_map(|first| messages.iter().map(move |second| (first, second)))
                {
                    let body = json!({"messages": [first, second]}).to_string();
                    let body = Body::parse(body.into()).unwrap();
                    if chat.may_change(body.value("messages").unwrap(), is_mistral) {
                        continue;
                    }
                    unread += 1;
                    let mut notes = TranslationNotes::default();
                    let changed = chat.changed_messages(&body, None, is_mistral, &mut notes).unwrap();
                    assert_eq!((changed, notes.warnings.len()), (None, 0), "{is_mistral} {first} {second}");
                }
            }
        }
        assert!(unread > 1000, "only {unread} were not read");
        let usual = br#"[{"role":"system","content":"a"},{"role":"user","content":"b"}]"#;
        assert!(!MISTRAL.may_change(usual, true), "most chats are not read");
    }
}
