//! Repairs what no provider accepts in a conversation, whatever its format, before it is translated.
//!
//! Clients cut the beginning of long conversations and join the answers of several models. Providers demand that
//! every tool result follows the assistant's message with its call. For example, with call `a` cut off:
//!
//! ```text
//! tool a "7"; assistant call b; assistant call c; tool b "1"; tool c "2"
//! user "Result of the tool call a: 7"; assistant calls b, c; tool b "1"; tool c "2"
//! ```
//!
//! They demand as well that every call has exactly one result, before anything else is said.

use super::translation_notes::TranslationNotes;
use crate::api::chat::{Message, Part, Role, ToolCall};
use std::borrow::Cow;

/// Repairs the messages of a request.
pub(super) fn repair(messages: &mut Vec<Message<'_>>, notes: &mut TranslationNotes) {
    join_calls(messages);
    let mut calling = None;
    for index in 0..messages.len() {
        let (before, rest) = messages.split_at_mut(index);
        let Some(message) = rest.first_mut() else { break };
        match message.role {
            Role::Assistant => calling = Some(index),
            Role::Tool => {
                let from = calling.and_then(|at| before.get(at));
                if !find_call(message, from) {
                    to_user_text(message, notes);
                }
            }
            Role::User | Role::System | Role::Developer => {}
        }
    }
    complete_calls(messages, notes);
}

/// Gives every call one result, directly behind the message with the calls. Results that come later, up to the
/// assistant's next message, are moved there; further results of a call become text; a call without any gets one
/// that says so.
fn complete_calls(messages: &mut Vec<Message<'_>>, notes: &mut TranslationNotes) {
    let mut index = 0;
    while let Some(message) = messages.get(index) {
        let mut open: Vec<Cow<'_, str>> = calls(message).map(|call| call.id.clone()).collect();
        index += 1;
        if message.role != Role::Assistant || open.is_empty() {
            continue;
        }
        let until = messages.iter().skip(index).position(|message| message.role == Role::Assistant);
        let end = until.map_or(messages.len(), |count| index + count);
        let Some(replies) = messages.get_mut(index..end) else { break };
        for reply in replies.iter_mut().filter(|reply| reply.role == Role::Tool) {
            let id = reply.tool_call_id.as_ref();
            match open.iter().position(|call| Some(call) == id) {
                Some(at) => drop(open.swap_remove(at)),
                // A result without an id is refused by the translation, with its place.
                None if id.is_none() => {}
                None => to_user_text(reply, notes),
            }
        }
        replies.sort_by_key(|reply| reply.role != Role::Tool);
        let results = replies.iter().take_while(|reply| reply.role == Role::Tool).count();
        open.reverse();
        for id in open {
            notes.warn_once("messages", "a tool call without a result got one that says so");
            messages.insert(index + results, missing_result(id));
        }
    }
}

fn missing_result(id: Cow<'_, str>) -> Message<'_> {
    let mut result = Message::new(Role::Tool, vec![Part::text("This call has no result.")]);
    result.tool_call_id = Some(id);
    result.is_error = true;
    result
}

/// Joins adjacent messages of the assistant that have calls: their results follow both.
fn join_calls(messages: &mut Vec<Message<'_>>) {
    let has_calls = |message: &Message<'_>| calls(message).next().is_some();
    messages.dedup_by(|next, message| {
        let joins = message.role == Role::Assistant
            && next.role == Role::Assistant
            && (has_calls(message) || has_calls(next));
        if joins {
            message.content.append(&mut next.content);
            message.cache_control = next.cache_control.take().or(message.cache_control.take());
        }
        joins
    });
}

fn calls<'m, 'a>(message: &'m Message<'a>) -> impl Iterator<Item = &'m ToolCall<'a>> {
    message.content.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call),
        _ => None,
    })
}

/// Whether the result's call is in the assistant's last message. OpenAI's retired functions name the function
/// instead of the call; such a result gets the call's id.
fn find_call<'a>(result: &mut Message<'a>, from: Option<&Message<'a>>) -> bool {
    // A result without an id is refused by the translation, with its place.
    let Some(id) = result.tool_call_id.clone() else { return true };
    let Some(from) = from else { return false };
    if calls(from).any(|call| call.id == id) {
        return true;
    }
    match calls(from).find(|call| call.name == id) {
        Some(call) => {
            result.tool_call_id = Some(call.id.clone());
            true
        }
        None => false,
    }
}

fn to_user_text(result: &mut Message<'_>, notes: &mut TranslationNotes) {
    let id = result.tool_call_id.take().unwrap_or_default();
    let what = "a tool result whose call is not in the message before was sent as a user's text";
    notes.warn_once("messages", what);
    result.role = Role::User;
    result.name = None;
    let kind = if result.is_error { "Error" } else { "Result" };
    result.is_error = false;
    result.content.insert(0, Part::text(format!("{kind} of the tool call {id}:")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::body::Body;
    use crate::api::{chat_completions, messages};
    use serde_json::{Value, json};

    /// Role and content of each message: texts, calls as `id()`, results as `id=text`.
    fn repaired(conversation: Value, anthropic: bool) -> (Vec<String>, usize) {
        let body = json!({"model": "m", "max_tokens": 9, "messages": conversation}).to_string();
        let body = Body::parse(body.into()).unwrap();
        let request = if anthropic { messages::read(&body) } else { chat_completions::read(&body) };
        let mut messages = request.unwrap().messages;
        let mut notes = TranslationNotes::default();
        repair(&mut messages, &mut notes);
        let part = |part: &Part<'_>| match part {
            Part::Text { text, .. } => text.to_string(),
            Part::ToolCall(call) => format!("{}()", call.id),
            _ => "?".to_owned(),
        };
        let written = messages.iter().map(|message| {
            let content: Vec<String> = message.content.iter().map(part).collect();
            let result = message.tool_call_id.as_ref().map(|id| format!("{id}=")).unwrap_or_default();
            format!("{:?} {result}{}", message.role, content.join(" "))
        });
        (written.collect(), notes.warnings.len())
    }

    #[test]
    fn a_result_without_its_call_becomes_text() {
        let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
        let result =
            |id: &str, text: &str| json!({"type": "tool_result", "tool_use_id": id, "content": text});
        let conversation = json!([
            {"role": "user", "content": [result("a", "7"), {"type": "text", "text": "Go on."}]},
            {"role": "assistant", "content": [call("b")]},
            {"role": "assistant", "content": [call("c")]},
            {"role": "user", "content": [result("b", "1"), result("c", "2")]},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": [result("b", "3")]},
        ]);
        let (messages, warnings) = repaired(conversation, true);
        assert_eq!(
            messages,
            [
                "User Result of the tool call a: 7",
                "User Go on.",
                "Assistant b() c()",
                "Tool b=1",
                "Tool c=2",
                "Assistant Done.",
                "User Result of the tool call b: 3",
            ]
        );
        assert_eq!(warnings, 1);
    }

    #[test]
    fn every_call_gets_one_result_behind_it() {
        let calls = |ids: &[&str]| {
            let call = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
            json!({"role": "assistant", "tool_calls": ids.iter().map(call).collect::<Vec<_>>()})
        };
        let result = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
        let conversation = json!([
            {"role": "user", "content": "x"},
            calls(&["a", "b", "c"]),
            result("b", "1"),
            {"role": "user", "content": "And?"},
            result("a", "2"),
            result("a", "3"),
            {"role": "assistant", "content": "So."},
            {"role": "user", "content": "y"},
            calls(&["d"]),
        ]);
        let (messages, warnings) = repaired(conversation, false);
        let missing = "This call has no result.";
        assert_eq!(
            messages,
            [
                "User x".to_owned(),
                "Assistant a() b() c()".to_owned(),
                "Tool b=1".to_owned(),
                "Tool a=2".to_owned(),
                format!("Tool c={missing}"),
                "User And?".to_owned(),
                "User Result of the tool call a: 3".to_owned(),
                "Assistant So.".to_owned(),
                "User y".to_owned(),
                "Assistant d()".to_owned(),
                format!("Tool d={missing}"),
            ]
        );
        assert_eq!(warnings, 2);
    }

    #[test]
    fn a_whole_conversation_stays() {
        let conversation = json!([
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
            {"role": "user", "content": "and?"},
        ]);
        let (messages, warnings) = repaired(conversation, false);
        let wanted = ["User x", "Assistant one", "Assistant two call_3()", "Tool call_3=1", "User and?"];
        assert_eq!((messages, warnings), (wanted.map(str::to_owned).to_vec(), 0));
    }
}
