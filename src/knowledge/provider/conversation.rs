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
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use words::api::chat::{Message, Part, Role, ToolCall};
use words::error::Error;

/// The most calls that get a result of ours. Each takes far more memory than the call has bytes, and no client loses as many.
const MAX_MISSING: usize = 1_000;

/// Repairs the messages of a request.
///
/// # Errors
/// 400 if more calls than [`MAX_MISSING`] have no result.
pub(super) fn repair(messages: &mut Vec<Message<'_>>, notes: &mut TranslationNotes) -> Result<(), Error> {
    join_calls(messages);
    let mut calls = Calls::default();
    for message in messages.iter_mut() {
        match message.role {
            Role::Assistant => calls = Calls::of(message),
            Role::Tool => {
                if !calls.find(message) {
                    to_user_text(message, notes);
                }
            }
            Role::User | Role::System | Role::Developer => {}
        }
    }
    complete_calls(messages, notes)
}

/// The calls of the assistant's last message.
#[derive(Default)]
struct Calls<'a> {
    ids: HashSet<Cow<'a, str>>,
    /// By the name of the function, the id of its first call.
    by_name: HashMap<Cow<'a, str>, Cow<'a, str>>,
}

impl<'a> Calls<'a> {
    fn of(message: &Message<'a>) -> Self {
        let mut all = Self::default();
        for call in calls(message) {
            all.ids.insert(call.id.clone());
            all.by_name.entry(call.name.clone()).or_insert_with(|| call.id.clone());
        }
        all
    }

    /// Whether the result's call is among them. OpenAI's retired functions name the function instead of the call; such a
    /// result gets the call's id.
    fn find(&self, result: &mut Message<'a>) -> bool {
        // A result without an id is refused by the translation, with its place.
        let Some(id) = &result.tool_call_id else { return true };
        if self.ids.contains(id) {
            return true;
        }
        let named = self.by_name.get(id);
        if named.is_some() {
            result.tool_call_id = named.cloned();
        }
        named.is_some()
    }
}

/// Gives every call one result, directly behind the message with the calls. Results that come later, up to the
/// assistant's next message, are moved there; further results of a call become text; a call without any gets one
/// that says so.
fn complete_calls<'a>(messages: &mut Vec<Message<'a>>, notes: &mut TranslationNotes) -> Result<(), Error> {
    let mut missing: Vec<(usize, Cow<'a, str>)> = Vec::new();
    let mut index = 0;
    while let Some(message) = messages.get(index) {
        index += 1;
        if message.role != Role::Assistant || calls(message).next().is_none() {
            continue;
        }
        let ids: Vec<Cow<'a, str>> = calls(message).map(|call| call.id.clone()).collect();
        let mut open: HashMap<Cow<'a, str>, usize> = HashMap::with_capacity(ids.len());
        for id in &ids {
            *open.entry(id.clone()).or_default() += 1;
        }
        let until = messages.iter().skip(index).position(|message| message.role == Role::Assistant);
        let end = until.map_or(messages.len(), |count| index + count);
        let Some(replies) = messages.get_mut(index..end) else { break };
        for reply in replies.iter_mut().filter(|reply| reply.role == Role::Tool) {
            // A result without an id is refused by the translation, with its place.
            let Some(id) = &reply.tool_call_id else { continue };
            match open.get_mut(id).filter(|count| **count > 0) {
                Some(count) => *count -= 1,
                None => to_user_text(reply, notes),
            }
        }
        replies.sort_by_key(|reply| reply.role != Role::Tool);
        let results = replies.iter().take_while(|reply| reply.role == Role::Tool).count();
        for id in ids {
            if let Some(count) = open.get_mut(&id).filter(|count| **count > 0) {
                *count -= 1;
                notes.warn_once("messages", "a tool call without a result got one that says so");
                missing.push((index + results, id));
                if missing.len() > MAX_MISSING {
                    let message =
                        format!("More than {MAX_MISSING} tool calls have no result. Send their results.");
                    return Err(Error::invalid_request("messages", message));
                }
            }
        }
        index = end;
    }
    if !missing.is_empty() {
        insert_results(messages, missing);
    }
    Ok(())
}

/// Inserts a result for each call, given by the call's id and the result's place among the messages. Places ascend.
fn insert_results<'a>(messages: &mut Vec<Message<'a>>, missing: Vec<(usize, Cow<'a, str>)>) {
    let mut all = Vec::with_capacity(messages.len() + missing.len());
    let mut missing = missing.into_iter().peekable();
    for (index, message) in messages.drain(..).enumerate() {
        while let Some((_, id)) = missing.next_if(|(place, _)| *place <= index) {
            all.push(missing_result(id));
        }
        all.push(message);
    }
    all.extend(missing.map(|(_, id)| missing_result(id)));
    *messages = all;
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
    // Of the message that the next one may be joined to.
    let mut calling = messages.first().is_some_and(has_calls);
    messages.dedup_by(|next, message| {
        let next_calls = next.role == Role::Assistant && has_calls(next);
        let joins =
            message.role == Role::Assistant && next.role == Role::Assistant && (calling || next_calls);
        calling = next_calls || joins;
        if joins {
            message.content.append(&mut next.content);
            message.cache_control = next.cache_control.take().or(message.cache_control.take());
        }
        joins
    });
}

fn calls<'m, 'a>(message: &'m Message<'a>) -> impl Iterator<Item = &'m ToolCall<'a>> {
    message.content.iter().filter_map(|part| match part {
        Part::ToolCall(call) => Some(call.as_ref()),
        _ => None,
    })
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
    use serde_json::{Value, json};
    use words::api::body::Body;
    use words::api::{chat_completions, messages};

    /// Role and content of each message: texts, calls as `id()`, results as `id=text`.
    fn repaired(conversation: Value, anthropic: bool) -> (Vec<String>, usize) {
        let body = json!({"model": "m", "max_tokens": 9, "messages": conversation}).to_string();
        let body = Body::parse(body.into()).unwrap();
        let request = if anthropic { messages::read(&body) } else { chat_completions::read(&body) };
        let mut messages = request.unwrap().messages;
        let mut notes = TranslationNotes::default();
        repair(&mut messages, &mut notes).unwrap();
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

    #[test]
    fn very_many_calls_without_a_result_are_refused() {
        let refusal = |count: usize| {
            let calls = (0..count).map(|n| Part::ToolCall(Box::new(call(n)))).collect();
            let mut messages = vec![Message::new(Role::Assistant, calls)];
            repair(&mut messages, &mut TranslationNotes::default()).map(|()| messages.len())
        };
        assert_eq!(refusal(MAX_MISSING).unwrap(), 1 + MAX_MISSING);
        assert_eq!(refusal(MAX_MISSING + 1).unwrap_err().status(), 400);
    }

    fn call(n: usize) -> ToolCall<'static> {
        let id = Cow::Owned(format!("c{n}"));
        let name = Cow::Borrowed("f");
        ToolCall { id, name, arguments: Cow::Borrowed("{}"), signature: None, cache_control: None }
    }

    #[test]
    fn results_of_ours_come_in_the_order_of_the_calls() {
        let mut answer = Message::new(Role::Tool, vec![Part::text("1")]);
        answer.tool_call_id = Some("c0".into());
        let calls = (0..3).map(|n| Part::ToolCall(Box::new(call(n)))).collect();
        let mut messages = vec![Message::new(Role::Assistant, calls), answer];
        repair(&mut messages, &mut TranslationNotes::default()).unwrap();
        let ids: Vec<_> = messages.iter().filter_map(|message| message.tool_call_id.as_deref()).collect();
        assert_eq!(ids, ["c0", "c1", "c2"]);
    }
}
