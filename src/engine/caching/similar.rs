//! What makes two chats similar: the texts of their turns. All else must be equal, the instructions first of all.
//!
//! Reference section 8: the texts without those of the system, joined; at most four messages and 8,191 tokens. A chat with an image, a file or a
//! call of a tool is found only by an equal one.

use crate::api::body::Body;
use crate::api::chat::{Message, Part, Role};
use crate::api::operation::Operation;
use crate::cache::{CacheKey, KeyParts};

/// The most messages of a chat that is compared by its meaning.
const MAX_MESSAGES: usize = 4;
/// The longest text, bytes: about 8,191 tokens.
const MAX_TEXT: usize = 32 << 10;
const SEPARATOR: &str = "\n###\n";

/// What finds a response again for texts that mean the same.
pub struct Similar {
    /// Digest of all that must be equal.
    pub partition: CacheKey,
    pub vector: Vec<f32>,
}

/// The texts of a chat.
pub struct Text {
    /// Who wrote what, in order; the roles must be equal.
    turns: Vec<(&'static str, String)>,
    /// Those of the system, which must be equal.
    instructions: Vec<String>,
    operation: Operation,
}

impl Text {
    /// Reads a chat. `None`: it is none, or has more than texts, or too much of them.
    pub fn of(operation: Operation, body: &Body) -> Option<Self> {
        members(operation)?;
        let chat = (operation.translator()?.read)(body).ok()?;
        if chat.messages.len() > MAX_MESSAGES {
            return None;
        }
        let mut text = Self { turns: Vec::new(), instructions: Vec::new(), operation };
        for message in &chat.messages {
            let plain = plain(message)?;
            match message.role {
                Role::System | Role::Developer => text.instructions.push(plain),
                Role::User => text.turns.push(("user", plain)),
                Role::Assistant => text.turns.push(("assistant", plain)),
                Role::Tool => return None,
            }
        }
        let bytes: usize = text.turns.iter().map(|(_, turn)| turn.len() + SEPARATOR.len()).sum();
        let has_text = text.turns.iter().any(|(_, turn)| !turn.trim().is_empty());
        (has_text && bytes <= MAX_TEXT).then_some(text)
    }

    /// What becomes a vector.
    pub fn joined(&self) -> String {
        let turns: Vec<&str> = self.turns.iter().map(|(_, turn)| turn.as_str()).collect();
        turns.join(SEPARATOR)
    }

    /// Digest of all that must be equal: everything but the turns. `parts`: with the client's body.
    pub fn partition(&self, parts: &KeyParts<'_>) -> Option<CacheKey> {
        let mut equal = vec![self.operation.label()];
        equal.extend(self.turns.iter().map(|(role, _)| *role));
        equal.extend(self.instructions.iter().map(String::as_str));
        parts.without(members(self.operation)?, &equal).ok()
    }
}

/// The members of a body that have the messages.
fn members(operation: Operation) -> Option<&'static [&'static str]> {
    match operation {
        Operation::ChatCompletions | Operation::Messages => Some(&["messages"]),
        Operation::Completions => Some(&["prompt"]),
        Operation::Responses => Some(&["input"]),
        Operation::GenerateContent | Operation::StreamGenerateContent => Some(&["contents"]),
        _ => None,
    }
}

/// The text of a message that has nothing else.
fn plain(message: &Message<'_>) -> Option<String> {
    if message.name.is_some() || message.tool_call_id.is_some() {
        return None;
    }
    let mut plain = String::new();
    for part in &message.content {
        let Part::Text { text, .. } = part else { return None };
        plain.push_str(text);
        plain.push('\n');
    }
    plain.pop();
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn text(operation: Operation, body: Value) -> Option<Text> {
        Text::of(operation, &Body::parse(body.to_string().into()).unwrap())
    }

    #[test]
    fn the_turns_are_joined_and_the_instructions_stand_apart() {
        let body = json!({"model": "m", "messages": [
            {"role": "system", "content": "be brief"}, {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"}, {"role": "user", "content": [{"type": "text", "text": "three"}]},
        ]});
        let found = text(Operation::ChatCompletions, body).unwrap();
        assert_eq!(found.joined(), "one\n###\ntwo\n###\nthree");
        assert_eq!(found.instructions, ["be brief"]);
        let body = json!({"model": "m", "max_tokens": 1, "system": "be brief", "messages": [{"role": "user", "content": "one"}]});
        assert_eq!(text(Operation::Messages, body).unwrap().joined(), "one");
        let body = json!({"model": "m", "prompt": "one"});
        assert_eq!(text(Operation::Completions, body).unwrap().joined(), "one");
    }

    #[test]
    fn what_is_more_than_a_few_texts_is_not_compared() {
        let user = |content: Value| json!({"role": "user", "content": content});
        let image = json!([{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "https://a/b.png"}}]);
        let call = json!({"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]});
        let cases = [
            vec![user(image)],
            vec![user(json!("x")), call, json!({"role": "tool", "tool_call_id": "1", "content": "r"})],
            vec![user(json!("x")); 5],
            vec![user(json!("x".repeat(MAX_TEXT)))],
            vec![user(json!(" "))],
        ];
        for messages in cases {
            let body = json!({"model": "m", "messages": messages});
            assert!(text(Operation::ChatCompletions, body.clone()).is_none(), "{body}");
        }
        assert!(text(Operation::Embeddings, json!({"model": "m", "input": "x"})).is_none());
    }
}
