//! What makes two chats similar: the texts of their turns. All else must be equal, the instructions first of all.
//!
//! As at Portkey (`docs/cache.md`): the texts without those of the system, joined; at most four messages and 8,191 tokens. A chat with an image, a file or a
//! call of a tool is found only by an equal one.

use memory::cache::{CacheKey, KeyParts};
use serde::Deserialize;
use words::api::body::Body;
use words::api::chat::{Message, Part, Role};
use words::api::operation::Operation;
use words::json::canonical;
use words::json::value::Json;
use words::json::walk;

/// The most messages of a chat that is compared by its meaning.
const MAX_MESSAGES: usize = 4;
/// The longest text, bytes: about 8,191 tokens.
const MAX_TEXT: usize = 32 << 10;
const SEPARATOR: &str = "\n###\n";

/// What finds a response again for texts that mean the same.
pub(crate) struct Similar {
    /// Digest of all that must be equal.
    pub partition: CacheKey,
    pub vector: Vec<f32>,
}

/// The texts of a chat.
pub struct Text {
    /// In the order of the chat.
    messages: Vec<(Author, String)>,
    /// What the messages have besides roles and texts.
    others: Vec<u8>,
    operation: Operation,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    User,
    Assistant,
    /// Of these two the texts must be equal.
    System,
    Developer,
}

/// Where a message of any dialect has its texts.
#[derive(Deserialize)]
struct Places<'a> {
    #[serde(borrow)]
    content: Option<Json<'a>>,
    parts: Option<Json<'a>>,
}

impl Text {
    /// Reads a chat. `None`: it is none, or has more than texts, or too much of them.
    pub fn of(operation: Operation, body: &Body) -> Option<Self> {
        let [member] = members(operation)?;
        let chat = (operation.translator()?.read)(body).ok()?;
        if chat.messages.len() > MAX_MESSAGES {
            return None;
        }
        let mut text = Self { messages: Vec::new(), others: Vec::new(), operation };
        for message in &chat.messages {
            let author = match message.role {
                Role::System => Author::System,
                Role::Developer => Author::Developer,
                Role::User => Author::User,
                Role::Assistant => Author::Assistant,
                Role::Tool => return None,
            };
            text.messages.push((author, plain(message)?));
        }
        let bytes: usize = text.turns().map(|turn| turn.len() + SEPARATOR.len()).sum();
        let has_text = text.turns().any(|turn| !turn.trim().is_empty());
        if !has_text || bytes > MAX_TEXT {
            return None;
        }
        write_others(body.raw(member)?, &mut text.others)?;
        Some(text)
    }

    /// The texts that may differ.
    fn turns(&self) -> impl Iterator<Item = &str> {
        let turns = self.messages.iter().filter(|(author, _)| !author.instructs());
        turns.map(|(_, text)| text.as_str())
    }

    /// What becomes a vector.
    pub fn joined(&self) -> String {
        self.turns().collect::<Vec<_>>().join(SEPARATOR)
    }

    /// Digest of all that must be equal: everything but the turns. `parts`: with the client's body.
    pub fn partition(&self, parts: &KeyParts<'_>) -> Option<CacheKey> {
        let mut equal = vec![self.operation.label().as_bytes(), &self.others];
        for (author, text) in &self.messages {
            equal.push(author.name().as_bytes());
            // The text is added only behind an author that gives instructions, so that no text can be mistaken for an
            // author.
            equal.extend(author.instructs().then_some(text.as_bytes()));
        }
        parts.without(members(self.operation)?, &equal).ok()
    }
}

impl Author {
    fn instructs(self) -> bool {
        matches!(self, Self::System | Self::Developer)
    }

    fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Developer => "developer",
        }
    }
}

/// The member of a body that has the messages.
fn members(operation: Operation) -> Option<&'static [&'static str; 1]> {
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

/// Writes what messages have besides roles and texts (`prefix`, `audio`, `cache_control`), in one spelling.
/// `None`: it cannot be compared.
fn write_others(messages: &str, out: &mut Vec<u8>) -> Option<()> {
    for message in walk::items(messages.as_bytes()).into_iter().flatten() {
        // A text is no object, and what is no object would be written as a whole.
        if walk::members(message).is_none() {
            continue;
        }
        canonical::write_without(message, |name| matches!(name, "role" | "content" | "parts"), out).ok()?;
        let places = serde_json::from_slice::<Places<'_>>(message).ok()?;
        let mut has_others = false;
        let mut parts_others = Vec::new();
        for place in [places.content, places.parts].iter().flatten() {
            for part in walk::items(place.get().as_bytes()).into_iter().flatten() {
                let start = parts_others.len();
                if walk::members(part).is_some() {
                    canonical::write_without(part, |name| matches!(name, "type" | "text"), &mut parts_others)
                        .ok()?;
                }
                has_others |= !matches!(parts_others.get(start..), None | Some(b"" | b"{}"));
            }
        }
        // A text in parts counts as one text, unless a part has other members.
        if has_others {
            out.extend_from_slice(&parts_others);
        }
        out.push(b';');
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::cache::{Scope, TargetDigest};
    use memory::net::outbound::origin::Origin;
    use serde_json::{Value, json};
    use uuid::Uuid;
    use words::config::account::Account;

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
        assert_eq!(found.messages.first().unwrap(), &(Author::System, "be brief".to_owned()));
        let body = json!({"model": "m", "max_tokens": 1, "system": "be brief", "messages": [{"role": "user", "content": "one"}]});
        assert_eq!(text(Operation::Messages, body).unwrap().joined(), "one");
        let body = json!({"model": "m", "prompt": "one"});
        assert_eq!(text(Operation::Completions, body).unwrap().joined(), "one");
    }

    /// The partition of a chat with these messages.
    fn partition(operation: Operation, body: Value) -> CacheKey {
        let scope = Scope { workspace: Uuid::nil(), namespace: None };
        let origin = Origin::parse("https://a.example", false).unwrap();
        let account = Account::default();
        let bytes = body.to_string();
        let parts = KeyParts {
            scope: &scope,
            target: TargetDigest::new("openai", &origin, &account),
            method: "POST",
            path: "/v1/x",
            headers: Vec::new(),
            metadata: None,
            body: bytes.as_bytes(),
            serves_both: true,
        };
        text(operation, body).unwrap().partition(&parts).unwrap()
    }

    fn of_chat(messages: Value) -> CacheKey {
        partition(Operation::ChatCompletions, json!({"model": "m", "messages": messages}))
    }

    #[test]
    fn authors_instructions_and_their_order_must_be_equal() {
        let message = |role: &str, text: &str| json!({"role": role, "content": text});
        let chats = [
            vec![message("system", "assistant"), message("user", "one")],
            vec![message("user", "one"), message("assistant", "")],
            vec![message("user", "one"), message("system", "be brief")],
            vec![message("system", "be brief"), message("user", "one")],
            vec![message("developer", "be brief"), message("user", "one")],
            vec![message("system", "be brief"), message("system", "user"), message("user", "one")],
            vec![message("system", "be brief"), message("user", "one"), message("user", "one")],
            vec![message("user", "one")],
        ];
        let partitions: Vec<CacheKey> = chats.iter().map(|chat| of_chat(json!(chat))).collect();
        for (index, one) in partitions.iter().enumerate() {
            assert_eq!(partitions.iter().position(|other| other == one), Some(index), "{:?}", chats[index]);
        }
        let reworded = of_chat(json!([message("system", "be brief"), message("user", "two")]));
        assert_eq!(reworded, partitions[3]);
    }

    #[test]
    fn what_messages_have_besides_texts_must_be_equal() {
        let last = |message: Value| of_chat(json!([{"role": "user", "content": "one"}, message]));
        let plain = last(json!({"role": "assistant", "content": "two"}));
        assert_eq!(last(json!({"content": "three", "role": "assistant"})), plain);
        let parts = json!({"role": "assistant", "content": [{"type": "text", "text": "two"}]});
        assert_eq!(last(parts), plain, "a text in parts is that text");
        let more = [
            json!({"role": "assistant", "content": "two", "prefix": true}),
            json!({"role": "assistant", "content": "two", "prefix": false}),
            json!({"role": "assistant", "content": "two", "audio": {"id": "a"}}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}]}),
        ];
        let partitions: Vec<CacheKey> = more.iter().map(|message| last(message.clone())).collect();
        assert!(!partitions.contains(&plain));
        for (index, one) in partitions.iter().enumerate() {
            assert_eq!(partitions.iter().position(|other| other == one), Some(index), "{}", more[index]);
        }
        assert_eq!(last(json!({"prefix": true, "role": "assistant", "content": "three"})), partitions[0]);
        let input = |input: Value| partition(Operation::Responses, json!({"model": "m", "input": input}));
        assert_eq!(input(json!("one")), input(json!("two")));
        let contents = |part: Value| {
            let body = json!({"contents": [{"role": "user", "parts": [part]}]});
            partition(Operation::GenerateContent, body)
        };
        assert_eq!(contents(json!({"text": "one"})), contents(json!({"text": "two"})));
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
