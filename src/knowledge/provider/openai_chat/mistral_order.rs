//! The order of roles that Mistral wants, in a chat that passes on: see `turn_order`, which does the same for chats that are
//! translated.

use super::messages::ANSWER;
use crate::provider::translation_notes::TranslationNotes;
use crate::provider::turn_order::{CLOSING, OPENING};
use words::json::Json;
use words::json::splice::{Object, Splice};

/// What came before the next message.
#[derive(Default)]
pub(super) struct MistralOrder {
    /// Somebody but the system has spoken.
    has_begun: bool,
    is_after_result: bool,
}

impl MistralOrder {
    /// Takes the next message, and changes it where Mistral would refuse it here.
    pub fn next<'t>(&mut self, message: &Object<'t>, splice: &mut Splice<'t>, notes: &mut TranslationNotes) {
        let role = message.string("role").unwrap_or_default();
        let is_system = matches!(&*role, "system" | "developer");
        if is_system && self.has_begun {
            notes.warn_once("messages", "a later system message was sent as the user's, marked");
            splice.replace(message, "role", "\"user\"");
            mark(message, splice);
        }
        if self.is_after_result && (&*role == "user" || is_system) {
            splice.insert_before(message, &format!(r#"{{"role":"assistant","content":"{ANSWER}"}},"#));
        }
        self.has_begun |= !is_system;
        self.is_after_result = matches!(&*role, "tool" | "function");
    }
}

/// Encloses the text of a system message.
fn mark<'t>(message: &Object<'t>, splice: &mut Splice<'t>) {
    let enclosed = |text: &str| Json::from_value(&[OPENING, text, CLOSING].concat());
    if let Some(text) = message.string("content") {
        splice.replace(message, "content", enclosed(&text).get());
        return;
    }
    for part in message.list("content") {
        if let Some(text) = part.string("text") {
            splice.replace(&part, "text", enclosed(&text).get());
        }
    }
}
