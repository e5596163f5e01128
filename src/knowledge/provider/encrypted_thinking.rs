//! Thinking that OpenAI encrypted, in a conversation that goes on elsewhere: other providers refuse a signature or a block that they have
//! not made.
//!
//! Only OpenAI's is recognized by its form; how others sign is theirs.

use super::translation_notes::TranslationNotes;
use words::api::chat::{Message, Part};
use words::api::responses::is_openais_thinking;
use words::json::Json;
use words::json::splice::{Object, Splice};

const WARNING: &str = "thinking that OpenAI encrypted left out, this provider cannot read it";

/// Takes it out of the messages of a chat. What can be read of it stays.
pub(super) fn leave_out(messages: &mut [Message<'_>], notes: &mut TranslationNotes) {
    for message in messages {
        let before = message.content.len();
        message.content.retain(|part| !matches!(part, Part::Redacted { data } if is_openais_thinking(data)));
        let mut is_changed = message.content.len() < before;
        for part in &mut message.content {
            if let Part::Reasoning { signature, .. } = part
                && signature.as_deref().is_some_and(is_openais_thinking)
            {
                *signature = None;
                is_changed = true;
            }
        }
        if is_changed {
            notes.warn_once("messages", WARNING);
        }
    }
}

/// A quick check: whether messages may have it.
pub(super) fn may_be_in(messages: &[u8]) -> bool {
    memchr::memmem::find(messages, b"\"gAAAA").is_some()
}

/// The `messages` of a request of Anthropic's dialect without it; `None` where there is none.
pub(super) fn without_blocks(messages: &str, notes: &mut TranslationNotes) -> Option<String> {
    let list: Vec<Json<'_>> = serde_json::from_str(messages).ok()?;
    let mut splice = Splice::new(messages);
    for message in list.iter().filter_map(|message| Object::read(message.source()?)) {
        let Some(content) = message.json_of("content").filter(|content| content.starts_with('[')) else {
            continue;
        };
        let Ok(blocks) = serde_json::from_str::<Vec<Json<'_>>>(content) else { continue };
        let kept: Vec<&str> = blocks.iter().filter(|block| !is_encrypted(block)).map(Json::get).collect();
        // A turn that was nothing but thinking: an empty one is refused.
        if kept.len() < blocks.len() {
            let kept =
                if kept.is_empty() { r#"{"type":"text","text":"..."}"#.to_owned() } else { kept.join(",") };
            splice.replace(&message, "content", format!("[{kept}]"));
        }
    }
    let changed = splice.finish().and_then(|text| String::from_utf8(text).ok())?;
    notes.warn_once("messages", WARNING);
    Some(changed)
}

fn is_encrypted(block: &Json<'_>) -> bool {
    let Some(block) = block.source().and_then(Object::read) else { return false };
    let name = match block.string("type").as_deref() {
        Some("thinking") => "signature",
        Some("redacted_thinking") => "data",
        _ => return false,
    };
    block.string(name).is_some_and(|token| is_openais_thinking(&token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use words::api::body::Body;
    use words::api::messages;

    fn history() -> Value {
        json!([
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "gAAAA1"}, {"type": "text", "text": "\"gAAAA"}]},
            {"role": "user", "content": "y"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "gAAAA2"}]},
            {"role": "user", "content": "z"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "own", "signature": "EqQB"}, {"type": "text", "text": "b"}]},
        ])
    }

    #[test]
    fn only_what_openai_encrypted_is_left_out_of_messages_that_pass() {
        let mut notes = TranslationNotes::default();
        let changed = without_blocks(&history().to_string(), &mut notes).unwrap();
        let mut wanted = history();
        wanted[1]["content"].as_array_mut().unwrap().remove(0);
        wanted[3]["content"] = json!([{"type": "text", "text": "..."}]);
        assert_eq!(serde_json::from_str::<Value>(&changed).unwrap(), wanted);
        assert_eq!(notes.warnings.len(), 1);
        assert_eq!(without_blocks(&changed, &mut notes), None);
        assert_eq!(without_blocks(r#"[{"role":"user","content":"gAAAA"}]"#, &mut notes), None);
    }

    #[test]
    fn its_text_stays_in_a_chat() {
        let body =
            Body::parse(json!({"model": "m", "max_tokens": 9, "messages": history()}).to_string().into())
                .unwrap();
        let mut messages = messages::read(&body).unwrap().messages;
        let mut notes = TranslationNotes::default();
        leave_out(&mut messages, &mut notes);
        let thoughts = messages.iter().flat_map(|message| &message.content).filter_map(|part| match part {
            Part::Reasoning { text, signature } => Some((&**text, signature.as_deref())),
            Part::Redacted { .. } => panic!("left out"),
            _ => None,
        });
        assert_eq!(thoughts.collect::<Vec<_>>(), [("hm", None), ("own", Some("EqQB"))]);
        assert_eq!(notes.warnings.len(), 1);
    }
}
