//! Where the model's last turn is in a list of messages: what stands behind it is new.
//!
//! A turn has a text, a picture, or a call that names something: an empty message of the model, its reasoning alone, or a part that has no text
//! is none. What the model's messages at the very end
//! are, the client has written, as a beginning that the model is to go on from: they are new as well, and so is all before them up to
//! the turn before. A client that writes whole turns into its history can still hide what stands before them: guardrails of the scope
//! `all` judge that too.

use super::super::judged::Part;
use super::calls::OF_ITEM;
use super::items;
use words::json::Json;
use words::json::splice::Object;

/// Types of parts that are no text of a turn.
const THOUGHTS: [&str; 3] = ["thinking", "redacted_thinking", "reasoning"];

/// The place of the first new message; the list's length where there is none.
pub(super) fn first_new(messages: &[Option<Object<'_>>]) -> usize {
    let is = |place: usize, holds: fn(&Object<'_>) -> bool| {
        place.checked_sub(1).and_then(|last| messages.get(last)?.as_ref()).is_some_and(holds)
    };
    let mut first = messages.len();
    while is(first, |message| is_of_model(message) || is_empty(message)) {
        first -= 1;
    }
    while first > 0 && !is(first, is_turn) {
        first -= 1;
    }
    first
}

/// Whose a message or an item is.
pub(super) fn part_of(message: &Object<'_>) -> Part {
    match message.string("role").as_deref() {
        None if message.string("type").is_some_and(|kind| THOUGHTS.contains(&&*kind)) => Part::Reasoning,
        _ if is_of_model(message) => Part::Assistant,
        Some("system" | "developer") => Part::System,
        Some("tool" | "function") => Part::Tool,
        Some(_) => Part::User,
        None => match message.string("type").as_deref() {
            Some(kind) if kind.ends_with("_output") => Part::Tool,
            None if message.has("text") => Part::Input,
            _ => Part::User,
        },
    }
}

fn is_of_model(message: &Object<'_>) -> bool {
    let is_model = |role: &Json<'_>| role.text().is_some_and(|role| matches!(&*role, "assistant" | "model"));
    if message.has("role") {
        return message.every("role").all(is_model);
    }
    message.string("type").is_some_and(|kind| kind.ends_with("_call") || THOUGHTS.contains(&&*kind))
}

/// Whether it is a message in which nothing stands.
fn is_empty(message: &Object<'_>) -> bool {
    message.has("role") && !has_text(message)
}

fn is_turn(message: &Object<'_>) -> bool {
    if !is_of_model(message) {
        return false;
    }
    if !message.has("role") {
        let is_call = message.string("type").is_some_and(|kind| kind.ends_with("_call"));
        let has_content = || OF_ITEM.iter().any(|name| message.has(name)) || is_written_in(message, "result");
        return is_call && (is_named(message) || has_content());
    }
    let is_named_call = |call: &Object<'_>| {
        ["function", "custom"].iter().any(|name| call.inner(name).is_some_and(|of| is_named(&of)))
    };
    let calls = || {
        message.list("tool_calls").iter().any(is_named_call)
            || message.inner("function_call").is_some_and(|call| is_named(&call))
    };
    let is_spoken = |audio: Object<'_>| ["id", "transcript"].iter().any(|name| is_written_in(&audio, name));
    let speaks = || message.inner("audio").is_some_and(is_spoken) || is_written_in(message, "refusal");
    ["content", "parts"].iter().any(|name| message.every(name).any(speaks_in)) || calls() || speaks()
}

/// Whether a content of the model has a text, or calls something.
fn speaks_in(content: &Json<'_>) -> bool {
    if content.source().is_some_and(|source| source.starts_with('"')) {
        return has_text_in(content);
    }
    items(content).iter().any(|item| {
        let Some(part) = item.source().and_then(Object::read) else {
            return item.text().is_some_and(is_written);
        };
        let has_media = || {
            let inner = |name| part.inner(name);
            let data = ["inlineData", "inline_data"].into_iter().filter_map(inner);
            let code = ["executableCode", "executable_code"].into_iter().filter_map(inner);
            data.into_iter().any(|data| is_written_in(&data, "data"))
                || code.into_iter().any(|code| is_written_in(&code, "code"))
        };
        let calls = || {
            let of_google = ["functionCall", "function_call"].into_iter().filter_map(|name| part.inner(name));
            let is_call = part.string("type").is_some_and(|kind| kind.ends_with("tool_use"));
            is_call && is_named(&part) || of_google.into_iter().any(|call| is_named(&call))
        };
        !is_thought(&part) && ["text", "refusal"].iter().any(|name| is_written_in(&part, name))
            || calls()
            || has_media()
    })
}

fn is_named(call: &Object<'_>) -> bool {
    is_written_in(call, "name")
}

fn is_written_in(object: &Object<'_>, name: &str) -> bool {
    object.string(name).is_some_and(is_written)
}

fn is_thought(part: &Object<'_>) -> bool {
    part.string("type").is_some_and(|kind| THOUGHTS.contains(&&*kind))
        || part.get("thought").is_some_and(Json::is_true)
}

/// Whether its content has a text, or something else that is no thought.
fn has_text(message: &Object<'_>) -> bool {
    ["content", "parts"].iter().any(|name| message.every(name).any(has_text_in))
}

fn has_text_in(content: &Json<'_>) -> bool {
    let string = content.source().filter(|source| source.starts_with('"'));
    if let Some(string) = string {
        // Most texts begin with a letter, so that they need not be read.
        return match string.bytes().skip(1).find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'"') | None => false,
            Some(byte) if byte.is_ascii() && byte != b'\\' => true,
            Some(_) => content.text().is_some_and(is_written),
        };
    }
    items(content).iter().any(|item| {
        let Some(part) = item.source().and_then(Object::read) else {
            return item.text().is_some_and(is_written);
        };
        let is_text = |text: &Json<'_>| text.text().is_none_or(is_written);
        !is_thought(&part) && part.every("text").all(is_text)
    })
}

/// Whether it has a character that is seen.
fn is_written(text: impl AsRef<str>) -> bool {
    let is_unseen = |char: char| {
        let has_no_width =
            matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}');
        char.is_whitespace() || char.is_control() || has_no_width
    };
    !text.as_ref().chars().all(is_unseen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_of(list: &str) -> usize {
        let list = Json::parse(list).unwrap();
        let items = items(&list);
        let messages: Vec<_> = items.iter().map(|item| Object::read(item.source()?)).collect();
        messages.len() - first_new(&messages)
    }

    #[test]
    fn what_stands_behind_the_last_turn_is_new() {
        let user = r#"{"role":"user","content":"a"}"#;
        let turn = r#"{"role":"assistant","content":"b"}"#;
        let call = r#"{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f"}}]}"#;
        let hollow = r#"{"role":"assistant","content":null,"tool_calls":[{"function":{}}]}"#;
        let result = r#"{"role":"tool","content":"c"}"#;
        let thought = r#"{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]}"#;
        for (list, wanted) in [
            (vec![], 0),
            (vec![user], 1),
            (vec![user, user], 2),
            (vec![user, turn, user], 1),
            (vec![user, turn, user, r#"{"role":"system","content":"fine"}"#], 2),
            (vec![user, call, result, result], 2),
            // A prefill, also behind messages that say nothing.
            (vec![user, turn], 2),
            (vec![user, turn, user, turn], 2),
            (vec![user, turn, r#"{"role":"user","content":" "}"#], 3),
            (vec![user, call], 2),
            // What is no turn hides nothing.
            (vec![user, thought, user], 3),
            (vec![user, r#"{"role":"assistant","content":" "}"#, user], 3),
            (vec![user, r#"{"role":"assistant","content":[]}"#, user], 3),
            (vec![user, r#"{"role":"assistant","role":"user","content":"b"}"#, user], 3),
            (vec![user, r#"{"type":"reasoning","summary":[]}"#, user], 3),
            (vec![user, r#"{"type":"item_reference","id":"x"}"#], 2),
            (vec![user, r#"{"type":"zzz"}"#], 2),
            (vec![user, r#"{"type":"function_call","name":"f"}"#, r#"{"type":"function_call_output"}"#], 1),
            (vec![user, r#"{"type":"web_search_call","action":{}}"#, user], 1),
            // A call of nothing, a part without a text, a voice that is none.
            (vec![user, hollow, user], 3),
            (vec![user, r#"{"type":"function_call"}"#, user], 3),
            (vec![user, r#"{"role":"assistant","content":[{"type":"zzz"}]}"#, user], 3),
            (vec![user, r#"{"role":"assistant","content":[{"type":"text","text":1}]}"#, user], 3),
            (vec![user, r#"{"role":"assistant","audio":{}}"#, user], 3),
            (vec![user, r#"{"role":"assistant","content":"\u200b\u0000"}"#, user], 3),
            (vec![user, r#"{"role":"assistant","audio":{"id":"a"}}"#, user], 1),
            (vec![user, r#"{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}"#, user], 1),
            (
                vec![
                    r#"{"parts":[{"text":"a"}]}"#,
                    r#"{"role":"model","parts":[{"text":"t","thought":true}]}"#,
                    r#"{"parts":[{"text":"b"}]}"#,
                ],
                3,
            ),
            (
                vec![
                    r#"{"parts":[{"text":"a"}]}"#,
                    r#"{"role":"model","parts":[{"functionCall":{"name":"f"}}]}"#,
                    r#"{"parts":[{"functionResponse":{}}]}"#,
                ],
                1,
            ),
        ] {
            assert_eq!(new_of(&format!("[{}]", list.join(","))), wanted, "{list:?}");
        }
    }
}
