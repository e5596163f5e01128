//! Writes the messages of a chat as the items of `input`.
//!
//! ```text
//! user "x"                             {"type":"message","role":"user","content":"x"}
//! assistant thinking (encrypted) call  {"type":"reasoning",..} {"type":"function_call",..}
//! tool                                 {"type":"function_call_output",..}
//! ```

use super::parts::{PartList, has_marks, is_marked};
use crate::provider::translation_notes::TranslationNotes;
use std::borrow::Cow;
use words::api::chat::{Message, Part, Place, Role, ToolCall};
use words::api::responses::is_openais_thinking;
use words::error::Error;
use words::json::write::{ObjectWriter, key, write_string};

/// The list of items, written one by one: as a whole it would take far more memory than its text.
pub(super) struct Input<'o, 'n> {
    out: &'o mut Vec<u8>,
    notes: &'n mut TranslationNotes,
    is_empty: bool,
    /// The model takes marks of where the prompt's cache may end.
    marks: bool,
}

/// Writes all messages, in order. `marks`: the model takes marks of where the prompt's cache may end.
///
/// # Errors
/// 400 for what the API cannot represent.
pub(super) fn write(
    messages: &[Message<'_>],
    marks: bool,
    notes: &mut TranslationNotes,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    out.push(b'[');
    let mut input = Input { out, notes, is_empty: true, marks };
    for (index, message) in messages.iter().enumerate() {
        let at = message.place(index);
        if message.name.is_some() && message.role != Role::Tool {
            input.notes.drop_param(&format!("{at}.name"), "the Responses API");
        }
        match message.role {
            Role::Assistant => input.assistant(message, at),
            Role::Tool => input.result(message, at)?,
            Role::User => input.message("user", message, at)?,
            Role::System => input.message("system", message, at)?,
            Role::Developer => input.message("developer", message, at)?,
        }
    }
    input.out.push(b']');
    Ok(())
}

impl Input<'_, '_> {
    /// Opens an item of this type.
    fn item(&mut self, kind: &str) -> ObjectWriter<'_> {
        if !std::mem::replace(&mut self.is_empty, false) {
            self.out.push(b',');
        }
        let mut item = ObjectWriter::open(self.out);
        item.text(key!("type"), kind);
        item
    }

    fn message(&mut self, role: &str, message: &Message<'_>, at: Place) -> Result<(), Error> {
        let marks = self.marks;
        let mut item = self.item("message");
        item.text(key!("role"), role);
        let out = item.name(key!("content"));
        let may_join = !marks && role != "user";
        let is_plain = (may_join || message.content.len() < 2) && !(marks && has_marks(message));
        match plain_text(&message.content, "\n\n").filter(|text| is_plain || text.is_empty()) {
            Some(text) => write_string(out, &text),
            None => {
                let mut parts = PartList::open(out);
                for (index, part) in message.content.iter().enumerate() {
                    parts.marks_next = marks && is_marked(message, index);
                    parts.input(part, false, format_args!("{at}.content[{index}]"))?;
                }
                parts.close();
            }
        }
        item.close();
        Ok(())
    }

    /// The result of a call. Pictures and documents have their place in it.
    fn result(&mut self, message: &Message<'_>, at: Place) -> Result<(), Error> {
        // A result has no error flag.
        let is_error = |text: &str| text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
        let marks = self.marks;
        let text = plain_text(&message.content, "\n").map(|text| {
            let is_unsaid = message.is_error && !is_error(&text);
            if is_unsaid { Cow::Owned(format!("Error: {text}")) } else { text }
        });
        let mut item = self.item("function_call_output");
        item.text(key!("call_id"), message.tool_call_id.as_deref().unwrap_or_default());
        let out = item.name(key!("output"));
        match text {
            // The words are the same with a mark and without, so that they stay in the cache when it moves on.
            Some(text) if marks && has_marks(message) && !text.is_empty() => {
                let mut parts = PartList::open(out);
                parts.marks_next = true;
                parts.text("input_text", &text);
                parts.close();
            }
            Some(text) => write_string(out, &text),
            None => {
                let mut parts = PartList::open(out);
                if message.is_error {
                    parts.text("input_text", "Error:");
                }
                for (index, part) in message.content.iter().enumerate() {
                    parts.marks_next = marks && is_marked(message, index);
                    parts.input(part, true, format_args!("{at}.content[{index}]"))?;
                }
                parts.close();
            }
        }
        item.close();
        Ok(())
    }

    /// What the assistant has thought, written and called, in its order. Thinking is sent with what follows it: alone it is refused
    /// ("was provided without its required following item").
    fn assistant(&mut self, message: &Message<'_>, at: Place) {
        let mut thoughts: Vec<Thought<'_>> = Vec::new();
        let mut texts: Vec<&Part<'_>> = Vec::new();
        for part in &message.content {
            match part {
                Part::Text { text, .. } | Part::Refusal(text) if text.is_empty() => {}
                Part::Text { .. } | Part::Refusal(_) => {
                    self.think(&mut thoughts);
                    texts.push(part);
                }
                Part::ToolCall(call) => {
                    self.texts(&mut texts);
                    self.think(&mut thoughts);
                    self.call(call);
                }
                Part::Reasoning { .. } | Part::Redacted { .. } => {
                    self.texts(&mut texts);
                    match Thought::of(part) {
                        Some(thought) => thoughts.push(thought),
                        None => self.leave_out_thinking(),
                    }
                }
                // Calls of another provider's own tools are left out: the text covers their results.
                Part::Other { kind, .. } => {
                    self.notes.warn(at, format!("{kind} left out, it is another provider's"));
                }
                Part::Image(_) | Part::Audio { .. } | Part::File(_) => {
                    self.notes.warn(at, "a picture or a document of the assistant's left out");
                }
            }
        }
        self.texts(&mut texts);
    }

    fn leave_out_thinking(&mut self) {
        self.notes.warn_once("messages", "earlier thinking left out, OpenAI has not encrypted it");
    }

    fn texts(&mut self, texts: &mut Vec<&Part<'_>>) {
        if texts.is_empty() {
            return;
        }
        let mut item = self.item("message");
        item.text(key!("role"), "assistant");
        let mut parts = PartList::open(item.name(key!("content")));
        for part in texts.drain(..) {
            match part {
                Part::Refusal(refusal) => parts.part("refusal", |part| part.text(key!("refusal"), refusal)),
                Part::Text { text, .. } => parts.text("output_text", text),
                _ => {}
            }
        }
        parts.close();
        item.close();
    }

    fn think(&mut self, thoughts: &mut Vec<Thought<'_>>) {
        for Thought { text, token } in thoughts.drain(..) {
            let mut item = self.item("reasoning");
            let mut summary = PartList::open(item.name(key!("summary")));
            if !text.is_empty() {
                summary.text("summary_text", text);
            }
            summary.close();
            item.text(key!("encrypted_content"), token);
            item.close();
        }
    }

    fn call(&mut self, call: &ToolCall<'_>) {
        let arguments = if call.arguments.trim().is_empty() { "{}" } else { call.arguments.as_ref() };
        let mut item = self.item("function_call");
        item.text(key!("call_id"), &call.id);
        item.text(key!("name"), &call.name);
        item.text(key!("arguments"), arguments);
        item.close();
    }
}

/// Thinking that OpenAI can read again.
struct Thought<'a> {
    text: &'a str,
    token: &'a str,
}

impl<'a> Thought<'a> {
    fn of(part: &'a Part<'_>) -> Option<Self> {
        let (text, token) = match part {
            Part::Reasoning { text, signature: Some(token) } => (text.as_ref(), token.as_ref()),
            Part::Redacted { data } => ("", data.as_ref()),
            _ => return None,
        };
        is_openais_thinking(token).then_some(Self { text, token })
    }
}

/// The texts of a message that has nothing else.
fn plain_text<'a>(parts: &'a [Part<'a>], between: &str) -> Option<Cow<'a, str>> {
    let mut whole = Cow::Borrowed("");
    for part in parts {
        let Part::Text { text, .. } = part else { return None };
        if whole.is_empty() {
            whole = Cow::Borrowed(text.as_ref());
        } else if !text.is_empty() {
            whole.to_mut().push_str(between);
            whole.to_mut().push_str(text);
        }
    }
    Some(whole)
}
