//! Names of tools in a chat that passes on, and back: see `tool_names`, which does the same for chats that are translated.
//!
//! For example, Mistral gets `{"function":{"name":"fs_read_1a2b3c4d"}}` for a tool called `fs.read`, and a call of it goes back to
//! the client as one of `fs.read`, whole or in a stream.

use crate::provider::string_members::string_members;
use crate::provider::tool_names::{NameRule, ToolNames};
use std::borrow::Cow;
use words::api::body::{Body, Edit};
use words::error::Error;
use words::json::Json;
use words::json::splice::{Object, Splice};

/// The members of a request that may name tools.
const MEMBERS: [&str; 5] = ["tools", "functions", "tool_choice", "function_call", "messages"];

/// Changes the names that `rule` does not allow, in what `edits` make of a body. `None` if there are none.
///
/// # Errors
/// 400 for a conversation with too many values to be changed.
pub(super) fn shorten(
    body: &Body,
    rule: NameRule,
    edits: &mut Vec<Edit<'static>>,
) -> Result<Option<ToolNames>, Error> {
    // Most requests have only legal names, and no tools at all.
    if !MEMBERS.iter().any(|member| body.value(member).is_some_and(|value| has_other_name(value, rule))) {
        return Ok(None);
    }
    body.check_values("this provider")?;
    let mut names = ToolNames::default();
    for member in MEMBERS {
        let edited = edits.iter().rposition(|edit| match edit {
            Edit::Set(name, _) | Edit::Remove(name) => *name == member,
        });
        let text = match edited.and_then(|at| edits.get(at)) {
            Some(Edit::Set(_, json)) => json.as_ref(),
            Some(Edit::Remove(_)) => continue,
            None => body.raw(member).unwrap_or_default(),
        };
        let Some(changed) = renamed(member, text, rule, &mut names) else { continue };
        if let Some(at) = edited {
            edits.remove(at);
        }
        edits.push(Edit::Set(member, Cow::Owned(changed)));
    }
    Ok(Some(names).filter(|names| !names.is_empty()))
}

/// Whether some member called `name` has a text that is no legal name; it need not be a tool's.
fn has_other_name(text: &[u8], rule: NameRule) -> bool {
    string_members(text, "\"name\"").any(|rest| {
        let end = memchr::memchr2(b'"', b'\\', rest.get(..=rule.max).unwrap_or(rest));
        let name = end.filter(|end| rest.get(*end) == Some(&b'"')).and_then(|end| rest.get(..end));
        name.and_then(|name| std::str::from_utf8(name).ok()).is_none_or(|name| !rule.allows(name))
    })
}

struct Renaming<'t, 'n> {
    splice: Splice<'t>,
    rule: NameRule,
    names: &'n mut ToolNames,
}

/// A member with the names changed; `None` if none of them is.
fn renamed(member: &str, text: &str, rule: NameRule, names: &mut ToolNames) -> Option<String> {
    let mut renaming = Renaming { splice: Splice::new(text), rule, names };
    if text.starts_with('[') {
        let list: Vec<Json<'_>> = serde_json::from_str(text).ok()?;
        for object in list.iter().filter_map(|json| Object::read(json.source()?)) {
            match member {
                "messages" => renaming.message(&object),
                "functions" => renaming.name(&object),
                _ => renaming.tool(&object),
            }
        }
    } else if let Some(choice) = Object::read(text) {
        renaming.name(&choice);
        renaming.tool(&choice);
        let allowed = choice.inner("allowed_tools").map(|allowed| allowed.list("tools"));
        allowed.iter().flatten().for_each(|tool| renaming.tool(tool));
    }
    renaming.splice.finish().and_then(|changed| String::from_utf8(changed).ok())
}

impl<'t> Renaming<'t, '_> {
    fn message(&mut self, message: &Object<'t>) {
        message.list("tool_calls").iter().for_each(|call| self.tool(call));
        if let Some(call) = message.inner("function_call") {
            self.name(&call);
        }
        if matches!(message.string("role").as_deref(), Some("tool" | "function")) {
            self.name(message);
        }
    }

    /// A declaration, a call or a choice.
    fn tool(&mut self, tool: &Object<'t>) {
        for kind in ["function", "custom"] {
            if let Some(named) = tool.inner(kind) {
                self.name(&named);
            }
        }
    }

    fn name(&mut self, named: &Object<'t>) {
        let legal = named.string("name").and_then(|name| self.names.shorten_name(&name, self.rule));
        if let Some(legal) = legal {
            self.splice.replace(named, "name", Json::from_value(&legal).get());
        }
    }
}

/// A whole response, or the data of one event, with the client's names; `None` if it names no tool that was changed.
pub(in crate::provider) fn restore(data: &[u8], names: &ToolNames) -> Option<Vec<u8>> {
    string_members(data, "\"name\"").next()?;
    let text = std::str::from_utf8(data).ok()?.trim_start();
    let response = Object::read(text)?;
    let mut splice = Splice::new(text);
    for choice in response.list("choices") {
        let message = choice.inner("delta").or_else(|| choice.inner("message"));
        let Some(message) = message else { continue };
        let mut named: Vec<Object<'_>> = message.inner("function_call").into_iter().collect();
        for call in message.list("tool_calls") {
            named.extend(call.inner("function").or_else(|| call.inner("custom")));
        }
        for object in &named {
            let original = object.string("name").and_then(|name| names.original(&name).map(str::to_owned));
            if let Some(original) = original {
                splice.replace(object, "name", Json::from_value(&original).get());
            }
        }
    }
    splice.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::translation::{PrepareOptions, prepare};
    use crate::provider::translation_notes::TranslationNotes;
    use crate::provider::{Call, find};
    use http::Method;
    use serde_json::{Value, json};
    use words::api::operation::Operation;
    use words::config::account::Account;

    fn shortened(body: &Value) -> Option<(Value, ToolNames)> {
        let body = Body::parse(body.to_string().into()).unwrap();
        let mut edits = Vec::new();
        let names = shorten(&body, NameRule::COMMON, &mut edits).unwrap()?;
        Some((serde_json::from_slice(&body.edit(&edits)).unwrap(), names))
    }

    /// A conversation with these names wherever a tool is named.
    fn conversation(name: &str, other: &str) -> Value {
        let function = |name: &str| json!({"type": "function", "function": {"name": name, "arguments": "{\"name\":\"a.b\"}"}});
        json!({
            "tools": [function(name), {"type": "custom", "custom": {"name": other}}],
            "functions": [{"name": name, "parameters": {"properties": {"name": {"const": "x.y"}}}}],
            "function_call": {"name": name},
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [function(other)]}},
            "messages": [
                {"role": "user", "name": "Bob B.", "content": "x"},
                {"role": "assistant", "tool_calls": [function(name)], "function_call": {"name": other, "arguments": ""}},
                {"role": "tool", "name": name, "content": "\"name\": \"c.d\""}],
        })
    }

    #[test]
    fn names_change_where_tools_are_named_and_nowhere_else() {
        let long = "l".repeat(65);
        let (sent, names) = shortened(&conversation("fs.read", &long)).unwrap();
        let first = sent.pointer("/tools/0/function/name").and_then(Value::as_str).unwrap();
        let second = sent.pointer("/tools/1/custom/name").and_then(Value::as_str).unwrap();
        assert!(NameRule::COMMON.allows(first) && NameRule::COMMON.allows(second), "{first} {second}");
        assert_eq!(sent, conversation(first, second));
        assert_eq!(names.original(first), Some("fs.read"));
        assert_eq!(names.original(second), Some(long.as_str()));
        assert!(shortened(&conversation("fs_read", "other-1")).is_none());
    }

    /// What the client gets for a response to a chat with this body.
    fn returned(
        provider: &str,
        body: &Value,
        response: impl FnOnce(&str) -> String,
        streamed: bool,
    ) -> String {
        let body = Body::parse(body.to_string().into()).unwrap();
        let call = Call {
            operation: Operation::ChatCompletions,
            method: &Method::POST,
            path: "chat/completions",
            query: None,
            model: Some("m"),
            streamed,
        };
        let options = PrepareOptions {
            strict: true,
            stream_usage: false,
            client_betas: None,
            learned: None,
            prompt_cache: None,
        };
        let mut notes = TranslationNotes::default();
        let provider = find(provider).unwrap();
        let prepared =
            prepare(provider, &call, &Account::default(), Some(&body), options, &mut notes).unwrap();
        let sent: Value = serde_json::from_slice(&prepared.body.unwrap()).unwrap();
        let sent = sent.pointer("/tools/0/function/name").and_then(Value::as_str).unwrap();
        let mut rewriter = prepared.translation.unwrap().rewriter(streamed, "1", 0);
        let mut out = Vec::new();
        rewriter.push(response(sent).as_bytes(), &mut out);
        rewriter.finish(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_chat_that_passes_on_has_its_names_back_whole_and_streamed() {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function", "function": {"name": "fs.read", "parameters": {}}}]});
        for provider in ["mistral-ai", "openai", "groq", "deepseek"] {
            let whole = |name: &str| {
                json!({"id": "r", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls",
                    "message": {"role": "assistant", "content": null, "refusal": null, "tool_calls": [
                        {"id": "aaaaaaaaa", "type": "function", "function": {"name": name, "arguments": "{}"}}]}}]})
                .to_string()
            };
            assert_eq!(returned(provider, &body, whole, false), whole("fs.read"), "{provider}");
            let events = |name: &str| {
                let delta = json!({"id": "r", "object": "chat.completion.chunk", "choices": [{"index": 0, "finish_reason": null,
                    "delta": {"role": "assistant", "tool_calls": [{"index": 0, "id": "aaaaaaaaa", "type": "function",
                        "function": {"name": name, "arguments": "{}"}}]}}]});
                format!("data: {delta}\n\ndata: [DONE]\n\n")
            };
            assert_eq!(returned(provider, &body, events, true), events("fs.read"), "{provider}");
        }
    }

    #[test]
    fn calls_go_back_under_the_clients_name() {
        let (sent, names) = shortened(&conversation("查询", "1st")).unwrap();
        let sent = sent.pointer("/tools/0/function/name").and_then(Value::as_str).unwrap();
        for member in ["message", "delta"] {
            let response = |name: &str| {
                json!({"choices": [{"index": 0, member: {"function_call": {"name": name},
                    "tool_calls": [{"index": 0, "function": {"arguments": sent}}, {"function": {"name": name}}]}}]})
            };
            let restored = restore(response(sent).to_string().as_bytes(), &names).unwrap();
            assert_eq!(serde_json::from_slice::<Value>(&restored).unwrap(), response("查询"));
            assert_eq!(restore(response("other").to_string().as_bytes(), &names), None);
        }
        assert_eq!(restore(b"[DONE]", &names), None);
    }
}
