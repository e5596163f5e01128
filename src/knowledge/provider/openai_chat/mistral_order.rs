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
    /// Takes the next message, and changes it where Mistral would refuse it here. Returns whether it is the user's now.
    pub fn next<'t>(
        &mut self,
        message: &Object<'t>,
        splice: &mut Splice<'t>,
        notes: &mut TranslationNotes,
    ) -> bool {
        let role = message.string("role").unwrap_or_default();
        let is_system = matches!(&*role, "system" | "developer");
        let is_later = is_system && self.has_begun;
        if is_later {
            notes.warn_once("messages", "a later system message was sent as the user's, marked");
            splice.replace(message, "role", "\"user\"");
            mark(message, splice);
        }
        if self.is_after_result && (&*role == "user" || is_system) {
            splice.insert_before(message, &format!(r#"{{"role":"assistant","content":"{ANSWER}"}},"#));
        }
        self.has_begun |= !is_system;
        self.is_after_result = matches!(&*role, "tool" | "function");
        is_later
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::openai_chat::OpenAiChat;
    use crate::provider::openai_chat::quirks::{MISTRAL, TOGETHER, VLLM};
    use serde_json::{Value, json};
    use words::api::body::Body;
    use words::config::account::Account;

    fn sent(chat: &OpenAiChat, model: &str, messages: &Value) -> Value {
        let body = Body::parse(json!({"model": model, "messages": messages}).to_string().into()).unwrap();
        let edits = chat.edits(&body, &Account::default(), &mut TranslationNotes::default()).unwrap();
        let sent: Value = serde_json::from_slice(&body.edit(&edits)).unwrap();
        sent["messages"].clone()
    }

    #[test]
    fn a_later_system_message_is_the_users_and_results_are_answered() {
        let call =
            json!([{"id": "aaaaaaaaa", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
        let turn = json!([
            {"role": "developer", "content": "a"},
            {"role": "user", "content": "b"},
            {"role": "assistant", "tool_calls": call},
            {"role": "tool", "tool_call_id": "aaaaaaaaa", "content": "c"},
            {"role": "developer", "content": "d"},
            {"role": "system", "content": [{"type": "text", "text": "e"}]},
        ]);
        // Its models have their template wherever they run.
        for (chat, model) in
            [(&MISTRAL, "m"), (&VLLM, "mistralai/Devstral-Small"), (&TOGETHER, "mistral-small")]
        {
            let sent = sent(chat, model, &turn);
            let roles: Vec<&str> =
                sent.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
            assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "user", "user"]);
            assert_eq!(sent[5]["content"], [OPENING, "d", CLOSING].concat());
            assert_eq!(sent[6]["content"][0]["text"], [OPENING, "e", CLOSING].concat());
        }
        let kept = sent(
            &VLLM,
            "qwen3",
            &json!([{"role": "user", "content": "b"}, {"role": "system", "content": "d"}]),
        );
        assert_eq!(kept[1]["role"], "system", "the client's own order");
    }
}
