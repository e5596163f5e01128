//! Marks of where a prompt's cache may end: Anthropic's `cache_control` and OpenAI's `prompt_cache_breakpoint`.
//!
//! Which models of OpenAI take its own mark, which then stands for Anthropic's on parts; and what is removed from a client's own
//! chat completion where the vendor has neither: from parts, messages and tools. A top-level `cache_control` is a member like any
//! other (`vendor_members`).

use super::OpenAiChat;
use crate::provider::translation_notes::TranslationNotes;
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::api::chat::{ChatRequest, Part, Role, Tool};
use words::api::part_members::BREAKPOINT;
use words::config::account::Account;
use words::json::Json;
use words::json::splice::{Object, Splice};

/// Where a prompt's cache ends.
pub(in crate::provider) const CACHE_CONTROL: &str = "cache_control";

/// Why it is left out.
const NO_CACHE_MARKS: &str = "dropped, this provider caches by itself or not at all";
const NOT_HERE: &str =
    "dropped from tools, messages and what the assistant said, this provider takes it on other parts only";

/// OpenAI's mark on a part.
pub(in crate::provider) const EXPLICIT: &str = r#"{"mode":"explicit"}"#;

/// The first model of a family whose parts may have [`BREAKPOINT`]; later ones may too.
struct Family {
    prefix: &'static str,
    major: u32,
    minor: u32,
}

/// Source: <https://developers.openai.com/api/docs/guides/prompt-caching>, "GPT-5.6 models and later model families"; not on tools,
/// not on what the assistant said. Of 28 Nov 2026.
const FAMILIES: &[Family] = &[Family { prefix: "gpt-", major: 5, minor: 6 }];

/// Whether a model's parts may have [`BREAKPOINT`].
pub(in crate::provider) fn takes_breakpoints(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    FAMILIES.iter().any(|family| {
        let Some(version) = name.strip_prefix(family.prefix) else { return false };
        let version = version.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
        let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
        let number = |digits: &str| digits.parse::<u32>().ok();
        number(major).zip(number(minor)).is_some_and(|found| found >= (family.major, family.minor))
    })
}

impl OpenAiChat {
    /// For a model of OpenAI's that takes its mark.
    pub(super) fn with_breakpoints(&self, model: &str) -> Option<Self> {
        let may_take = self.accepts_all_openai_members() && !self.cache_control && !self.breakpoints;
        (may_take && takes_breakpoints(model)).then(|| Self { breakpoints: true, ..self.clone() })
    }

    /// Says which marks of a translated request are not sent.
    pub(super) fn warn_of_lost_marks(&self, request: &ChatRequest<'_>, notes: &mut TranslationNotes) {
        if !self.cache_control {
            warn_of_lost(request, self.breakpoints, notes);
        }
    }

    /// Why a mark is left out.
    fn no_marks(&self) -> &'static str {
        if self.breakpoints { NOT_HERE } else { NO_CACHE_MARKS }
    }

    /// Makes Anthropic's mark of a part OpenAI's. Returns whether it was one.
    pub(super) fn convert_mark<'t>(&self, part: &Object<'t>, role: &str, splice: &mut Splice<'t>) -> bool {
        let is_marked = part.get(CACHE_CONTROL).is_some_and(|value| !value.is_null());
        if !self.breakpoints || !is_marked || role == "assistant" || part.has(BREAKPOINT) {
            return false;
        }
        splice.replace(part, CACHE_CONTROL, EXPLICIT);
        splice.rename(part, CACHE_CONTROL, BREAKPOINT);
        true
    }

    /// Where a custom host may be any engine of this shape: a gateway before Claude takes cache marks, so they pass.
    pub(super) fn with_cache_marks(&self, account: &Account) -> Option<Self> {
        let may_take = self.custom_host_members.is_some() && account.custom_host.is_some();
        (may_take && !self.cache_control).then(|| Self { cache_control: true, ..self.clone() })
    }

    /// Whether marks of Anthropic's kind pass to it.
    pub(in crate::provider) fn takes_cache_marks(&self, account: &Account) -> bool {
        self.cache_control || self.with_cache_marks(account).is_some()
    }

    /// Whether a member is a cache mark that the vendor does not take.
    pub(super) fn refuses_cache_mark(&self, name: &str) -> bool {
        !self.cache_control && name == CACHE_CONTROL
    }

    pub(super) fn warn_of_cache_mark(&self, object: &Object<'_>, notes: &mut TranslationNotes) {
        if !self.cache_control && object.get(CACHE_CONTROL).is_some_and(|value| !value.is_null()) {
            notes.warn_once(CACHE_CONTROL, self.no_marks());
        }
    }

    /// Removes the marks of tools, which stand beside `function` or inside it. `edits`: those of the request so far.
    pub(super) fn remove_cache_marks_of_tools(
        &self,
        body: &Body,
        notes: &mut TranslationNotes,
        edits: &mut Vec<Edit<'static>>,
    ) {
        let edited = edits.iter().position(|edit| matches!(edit, Edit::Set("tools", _)));
        let text = match edited.and_then(|at| edits.get(at)) {
            Some(Edit::Set(_, text)) => Some(text.as_ref()),
            _ => body.raw("tools"),
        };
        let is_marked =
            |text: &&str| memchr::memmem::find(text.as_bytes(), CACHE_CONTROL.as_bytes()).is_some();
        let Some(text) = text.filter(|_| !self.cache_control).filter(is_marked) else { return };
        let list: Vec<Json<'_>> = serde_json::from_str(text).unwrap_or_default();
        let mut splice = Splice::new(text);
        for tool in list.iter().filter_map(|json| Object::read(json.source()?)) {
            for object in std::iter::once(&tool).chain(&tool.inner("function")) {
                self.warn_of_cache_mark(object, notes);
                splice.remove(object, |name, _| name == CACHE_CONTROL);
            }
        }
        let Some(changed) = splice.finish().and_then(|changed| String::from_utf8(changed).ok()) else {
            return;
        };
        edits.retain(|edit| !matches!(edit, Edit::Set("tools", _)));
        edits.push(Edit::Set("tools", Cow::Owned(changed)));
    }
}

/// Says which marks of a request are not sent where they must be OpenAI's. `breakpoints`: the model takes those.
pub(in crate::provider) fn warn_of_lost(
    request: &ChatRequest<'_>,
    breakpoints: bool,
    notes: &mut TranslationNotes,
) {
    let is_lost = if breakpoints { has_marks_elsewhere(request) } else { request.has_cache_marks() };
    if is_lost {
        let why = if breakpoints { NOT_HERE } else { NO_CACHE_MARKS };
        notes.warn(request.mark_name.as_str(), why);
    }
}

/// Whether marks stand where OpenAI takes none.
fn has_marks_elsewhere(request: &ChatRequest<'_>) -> bool {
    let is_marked = |part: &Part<'_>| match part {
        Part::Text { cache_control, .. } => cache_control.is_some(),
        Part::ToolCall(call) => call.cache_control.is_some(),
        _ => false,
    };
    let mut assistants = request.messages.iter().filter(|message| message.role == Role::Assistant);
    let mut tools = request.tools.iter();
    assistants.any(|message| message.cache_control.is_some() || message.content.iter().any(is_marked))
        || tools.any(|tool| matches!(tool, Tool::Function { cache_control: Some(_), .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::openai_chat::quirks::{CEREBRAS, GROQ, MISTRAL, OPENROUTER, PLAIN};
    use crate::provider::openai_chat::{OPENAI_CHAT, OPENAI_OR_ENGINE};
    use serde_json::{Value, json};

    #[test]
    fn cache_marks_are_removed_with_a_warning_where_the_vendor_has_none() {
        let mark = json!({"type": "ephemeral"});
        let schema = json!({"type": "object", "properties": {"cache_control": {"type": "string"}}});
        let marked = json!({"model": "m",
            "messages": [
                {"role": "system", "content": "cache_control", "cache_control": mark},
                {"cache_control": mark, "role": "user", "content": [
                    {"cache_control": mark, "prompt_cache_breakpoint": {"mode": "explicit"}, "type": "text", "text": "x"},
                    {"type": "image_url", "image_url": {"url": "https://a.example"}, "cache_control": mark}]}
            ],
            "tools": [{"type": "function", "cache_control": mark,
                "function": {"cache_control": mark, "name": "f", "parameters": schema}}]});
        let plain = json!({"model": "m",
            "messages": [
                {"role": "system", "content": "cache_control"},
                {"role": "user", "content": [
                    {"type": "text", "text": "x"},
                    {"type": "image_url", "image_url": {"url": "https://a.example"}}]}
            ],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}]});
        let sent = |chat: &OpenAiChat, body: &Value, account: &Account| {
            let body = Body::parse(body.to_string().into()).unwrap();
            let mut notes = TranslationNotes::default();
            let edits = chat.edits(&body, account, &mut notes).unwrap();
            let mut sent: Value = serde_json::from_slice(&body.edit(&edits)).unwrap();
            let first = sent["messages"][1]["content"][0].as_object_mut().unwrap();
            first.remove("prompt_cache_breakpoint");
            (sent, notes.warnings.iter().filter(|warning| warning.starts_with(CACHE_CONTROL)).count())
        };
        let hosted = Account { custom_host: Some("https://a.example/v1".to_owned()), ..Account::default() };
        for chat in [&OPENAI_CHAT, &OPENAI_OR_ENGINE, &PLAIN, &MISTRAL, &GROQ, &CEREBRAS] {
            for account in [&Account::default(), &hosted] {
                if account.custom_host.is_some() && chat.custom_host_members.is_some() {
                    let (kept, warnings) = sent(chat, &marked, account);
                    assert_eq!((&kept["tools"], warnings), (&marked["tools"], 0), "any engine of this shape");
                    continue;
                }
                assert_eq!(sent(chat, &marked, account), (plain.clone(), 1), "{chat:?}");
                assert_eq!(sent(chat, &plain, account), (plain.clone(), 0), "{chat:?}");
            }
        }
        let (kept, warnings) = sent(&OPENROUTER, &marked, &Account::default());
        assert_eq!((kept["tools"].clone(), warnings), (marked["tools"].clone(), 0));
        assert_eq!(kept["messages"][1]["content"][1], marked["messages"][1]["content"][1]);
    }

    #[test]
    fn models_from_gpt_5_6_on_take_breakpoints() {
        for (model, takes) in [
            ("gpt-5.6", true),
            ("gpt-5.6-terra", true),
            ("openai/gpt-5.10-mini", true),
            ("gpt-6", true),
            ("gpt-5.5", false),
            ("gpt-5", false),
            ("gpt-4o-mini", false),
            ("o3", false),
            ("my-gpt-5.6", false),
            ("gpt-", false),
            ("", false),
        ] {
            assert_eq!(takes_breakpoints(model), takes, "{model}");
        }
    }

    #[test]
    fn a_mark_becomes_openais_own_where_the_model_takes_it() {
        let mark = json!({"type": "ephemeral", "ttl": "1h"});
        let explicit = json!({"mode": "explicit"});
        let body = json!({"model": "gpt-5.6", "messages": [
            {"role": "system", "content": [{"type": "text", "text": "s", "cache_control": mark}]},
            {"role": "assistant", "content": [{"type": "text", "text": "a", "cache_control": mark}]},
            {"role": "user", "content": [
                {"cache_control": mark, "type": "text", "text": "u"},
                {"type": "text", "text": "v", "prompt_cache_breakpoint": explicit, "cache_control": mark},
                {"type": "text", "text": "w", "cache_control": null}]}]});
        let edited = |chat: &OpenAiChat, account: &Account| {
            let body = Body::parse(body.to_string().into()).unwrap();
            let mut notes = TranslationNotes::default();
            let edits = chat.edits(&body, account, &mut notes).unwrap();
            (serde_json::from_slice::<Value>(&body.edit(&edits)).unwrap(), notes.warnings)
        };
        for chat in [&OPENAI_CHAT, &OPENAI_OR_ENGINE] {
            let (sent, warnings) = edited(chat, &Account::default());
            assert_eq!(
                sent["messages"],
                json!([
                    {"role": "system", "content": [{"type": "text", "text": "s", "prompt_cache_breakpoint": explicit}]},
                    {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
                    {"role": "user", "content": [
                        {"prompt_cache_breakpoint": explicit, "type": "text", "text": "u"},
                        {"type": "text", "text": "v", "prompt_cache_breakpoint": explicit},
                        {"type": "text", "text": "w"}]}])
            );
            assert_eq!(warnings, [format!("{CACHE_CONTROL}: {NOT_HERE}")]);
        }
        let hosted = Account { custom_host: Some("https://a.example/v1".to_owned()), ..Account::default() };
        assert_eq!(edited(&OPENAI_OR_ENGINE, &hosted).0, body);
    }

    #[test]
    fn tools_that_are_conformed_lose_their_marks_too() {
        let body = json!({"model": "m", "messages": [], "tools": [
            {"type": "function", "cache_control": {"type": "ephemeral"}, "function": {"name": "f"}},
            {"type": "function", "function": {"name": "g"}}],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto",
                "tools": [{"type": "function", "function": {"name": "f"}}]}}});
        let body = Body::parse(body.to_string().into()).unwrap();
        let mut notes = TranslationNotes::default();
        let edits = GROQ.edits(&body, &Account::default(), &mut notes).unwrap();
        let sent: Value = serde_json::from_slice(&body.edit(&edits)).unwrap();
        assert_eq!(sent["tools"], json!([{"type": "function", "function": {"name": "f"}}]));
        assert_eq!(notes.warnings, [format!("{CACHE_CONTROL}: {NO_CACHE_MARKS}")]);
    }
}
