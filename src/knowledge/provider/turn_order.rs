//! Which roles a provider takes where in a conversation.
//!
//! Chat templates of open models, and most vendors, have one place for the system's words: before everything else. Agents write
//! them later too, for example `user, system, assistant`. Such a message is sent in its place as the user's, marked: moved to the
//! front it would change what was said before it, and the provider's cache of the conversation with it.

use super::translation_notes::TranslationNotes;
use words::api::chat::{Message, Part, Role};

/// Where the system's words may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnOrder {
    Any,
    SystemFirst,
    /// A field beside the messages. What clients of chat completions say is collected there, as other gateways do; an agent's
    /// conversation, of another dialect, keeps its order.
    SystemField,
}

/// What encloses the system's words in a user's message.
pub(super) const OPENING: &str = "<system-message>\n";
pub(super) const CLOSING: &str = "\n</system-message>";

/// Whether these are a model of Mistral's, whoever serves it: its templates refuse a later system message, and a user's message
/// behind a tool's result ("Unexpected role 'user' after role 'tool'", <https://github.com/BerriAI/litellm/issues/17761>).
pub(super) fn is_mistral(model: &str) -> bool {
    const NAMES: [&str; 7] =
        ["mistral", "mixtral", "codestral", "devstral", "ministral", "magistral", "pixtral"];
    let model = model.to_ascii_lowercase();
    NAMES.iter().any(|name| model.contains(name))
}

impl TurnOrder {
    /// Brings the messages of a conversation into this order. `is_chat`: they are from chat completions.
    pub fn apply(self, messages: &mut [Message<'_>], is_chat: bool, notes: &mut TranslationNotes) {
        if self == Self::Any || (self == Self::SystemField && is_chat) {
            return;
        }
        let is_system = |message: &&mut Message<'_>| matches!(message.role, Role::System | Role::Developer);
        for message in messages.iter_mut().skip_while(|message| is_system(message)).filter(is_system) {
            notes.warn_once("messages", "a later system message was sent as the user's, marked");
            message.role = Role::User;
            let mut texts = message.content.iter_mut().filter_map(|part| match part {
                Part::Text { text, .. } => Some(text),
                _ => None,
            });
            if let Some(first) = texts.next() {
                first.to_mut().insert_str(0, OPENING);
                texts.next_back().unwrap_or(first).to_mut().push_str(CLOSING);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_system_message_is_the_users_in_its_place() {
        let message = |role, texts: &[&'static str]| {
            Message::new(role, texts.iter().map(|text| Part::text(*text)).collect())
        };
        let conversation = [
            message(Role::System, &["a"]),
            message(Role::Developer, &["b"]),
            message(Role::User, &["c"]),
            message(Role::System, &["d", "e"]),
            message(Role::Assistant, &["f"]),
            message(Role::Developer, &["g"]),
        ];
        let ordered = |order: TurnOrder, is_chat: bool| {
            let mut messages = conversation.to_vec();
            let mut notes = TranslationNotes::default();
            order.apply(&mut messages, is_chat, &mut notes);
            let line = |message: &Message<'_>| format!("{:?} {}", message.role, message.text());
            (messages.iter().map(line).collect::<Vec<_>>().join(", "), notes.warnings.len())
        };
        let same = "System a, Developer b, User c, System d\ne, Assistant f, Developer g";
        assert_eq!(ordered(TurnOrder::Any, false), (same.to_owned(), 0));
        assert_eq!(ordered(TurnOrder::SystemField, true), (same.to_owned(), 0));
        let marked = |text: &str| format!("User {OPENING}{text}{CLOSING}");
        let wanted =
            format!("System a, Developer b, User c, {}, Assistant f, {}", marked("d\ne"), marked("g"));
        assert_eq!(ordered(TurnOrder::SystemFirst, true), (wanted.clone(), 1));
        assert_eq!(ordered(TurnOrder::SystemField, false), (wanted, 1));
        assert!(is_mistral("mistralai/Devstral-Small-2505") && !is_mistral("kimi-k2"));
    }
}
