//! Where two prompts part: the texts that both begin with, in the order in which caches of prompts have them, and the first that is another.
//!
//! Compared are bodies of any API as providers get them: tools, system prompt, messages. Marks of `cache_control` are no part of a prompt. The
//! order of an object's members is not seen: bodies of the log are kept without it. Not here: what a cache makes of it.

use serde_json::Value;

/// The members that make a prompt, in the order of caches.
const PARTS: [&str; 11] = [
    "tools",
    "functions",
    "toolConfig",
    "system",
    "instructions",
    "systemInstruction",
    "system_instruction",
    "messages",
    "input",
    "contents",
    "prompt",
];
/// What is shown of each text from where they part, bytes.
const SHOWN: usize = 80;
/// The deepest value that is looked at.
const MAX_DEPTH: usize = 64;

/// The common beginning of two prompts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptParting {
    /// Bytes of text that both begin with.
    pub common: u64,
    /// Bytes of text of the earlier prompt.
    pub earlier: u64,
    /// Bytes of text of the later prompt.
    pub later: u64,
    /// The first text that is another. `None`: the later prompt begins with the whole of the earlier one.
    pub at: Option<PartingPlace>,
}

/// The first text that two prompts do not have alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartingPlace {
    /// Where it stands in the later body: `messages[2].content[0].text`.
    pub path: String,
    /// From which byte of the text on.
    pub byte: u64,
    /// The texts from there on, cut: what was sent before, and now. Empty: the prompt ends there.
    pub before: String,
    pub now: String,
}

/// A text of a prompt, and where it stands.
struct Leaf {
    path: String,
    text: String,
}

impl PromptParting {
    /// Compares two bodies.
    pub fn of(earlier: &Value, later: &Value) -> Self {
        let old = leaves(earlier);
        let new = leaves(later);
        let size = |leaves: &[Leaf]| leaves.iter().map(|leaf| leaf.text.len() as u64).sum();
        let mut parting = Self { common: 0, earlier: size(&old), later: size(&new), at: None };
        let mut now = new.iter();
        for before in &old {
            let Some(now) = now.next() else {
                let path = new.last().map(|leaf| leaf.path.clone()).unwrap_or_default();
                parting.at = Some(PartingPlace::new(path, 0, &before.text, ""));
                break;
            };
            let common = common(&before.text, &now.text);
            parting.common += common as u64;
            if before.text != now.text || before.path != now.path {
                parting.at = Some(PartingPlace::new(now.path.clone(), common, &before.text, &now.text));
                break;
            }
        }
        parting
    }
}

impl PartingPlace {
    fn new(path: String, byte: usize, before: &str, now: &str) -> Self {
        let from = |text: &str| {
            let rest = text.get(byte..).unwrap_or_default();
            rest.get(..rest.floor_char_boundary(SHOWN)).unwrap_or_default().to_owned()
        };
        Self { path, byte: byte as u64, before: from(before), now: from(now) }
    }
}

/// How many bytes two texts have in common at their beginnings, up to the end of a character.
fn common(one: &str, other: &str) -> usize {
    let same = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    one.floor_char_boundary(same).min(other.floor_char_boundary(same))
}

fn leaves(body: &Value) -> Vec<Leaf> {
    let mut found = Vec::new();
    for name in PARTS {
        if let Some(part) = body.get(name) {
            collect(part, name.to_owned(), MAX_DEPTH, &mut found);
        }
    }
    found
}

fn collect(value: &Value, path: String, depth: usize, found: &mut Vec<Leaf>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::Object(members) => {
            for (name, value) in members.iter().filter(|(name, _)| *name != "cache_control") {
                collect(value, format!("{path}.{name}"), depth, found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                collect(value, format!("{path}[{index}]"), depth, found);
            }
        }
        Value::String(text) => found.push(Leaf { path, text: text.clone() }),
        value => found.push(Leaf { path, text: value.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chat(system: &str, more: &[&str]) -> Value {
        let mut messages = vec![json!({"role": "system", "content": system})];
        messages.extend(more.iter().map(|text| json!({"role": "user", "content": text})));
        json!({"model": "m", "temperature": 1, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "messages": messages})
    }

    #[test]
    fn a_prompt_that_goes_on_has_all_of_the_one_before() {
        let parting = PromptParting::of(&chat("be good", &["a"]), &chat("be good", &["a", "b"]));
        assert_eq!((parting.at, parting.common), (None, parting.earlier));
        assert!(parting.later > parting.earlier);
    }

    #[test]
    fn the_first_other_text_is_found_with_its_byte() {
        let parting = PromptParting::of(&chat("It is 10:05. é!", &["a"]), &chat("It is 10:06. é!", &["a"]));
        let at = parting.at.unwrap();
        assert_eq!((&*at.path, at.byte), ("messages[0].content", 10));
        assert_eq!((&*at.before, &*at.now), ("5. é!", "6. é!"));
        assert_eq!(parting.common, "fobject".len() as u64 + 10);
        // A character that is half the same is another.
        let at = PromptParting::of(&chat("aé", &[]), &chat("aè", &[])).at.unwrap();
        assert_eq!((at.byte, &*at.before), (1, "é"));
    }

    #[test]
    fn tools_come_before_messages_and_marks_count_nothing() {
        let mut later = chat("s", &["a"]);
        later["tools"][0]["name"] = json!("g");
        let parting = PromptParting::of(&chat("s", &["a"]), &later);
        assert_eq!((parting.at.map(|at| at.path).as_deref(), parting.common), (Some("tools[0].name"), 6));
        let mut marked = chat("s", &["a"]);
        marked["messages"][0]["cache_control"] = json!({"type": "ephemeral"});
        assert_eq!(PromptParting::of(&chat("s", &["a"]), &marked).at, None);
        let shorter = PromptParting::of(&chat("s", &["a", "b"]), &chat("s", &["a"]));
        assert_eq!(shorter.at.map(|at| (at.before, at.now)), Some(("b".to_owned(), String::new())));
        assert_eq!(PromptParting::of(&json!(null), &json!([])).common, 0);
    }
}
