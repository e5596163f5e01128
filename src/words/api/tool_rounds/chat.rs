//! A chat whose MCP tools the gateway calls.
//!
//! The client gets one answer: the texts of all rounds, joined by a blank line, and never a call of the gateway's tools. What was called is
//! in `mcp_calls`. A round in which the model calls a function of the client's, too, ends the chat with that call alone: the history that the
//! client sends next has no place for the others, so they are not made, and the model calls them again when it needs them.

use super::chat_delta::DeltaSum;
use super::usage_sum::UsageSum;
use super::{RoundCall, RoundResult, RoundTools, Rounds};
use crate::api::body::{Body, Edit};
use crate::api::sse::write_event;
use crate::error::Error;
use crate::json::Json;
use crate::json::splice::{Object, Splice, append_member};
use crate::json::walk;
use crate::json::write::ObjectWriter;
use bytes::Bytes;
use serde_json::Value;
use std::borrow::Cow;

/// Between the texts of two rounds.
const GAP: &str = "\n\n";

/// Lists of a delta whose items have an `index`, by which libraries join them.
const INDEXED: [&str; 3] = ["content_blocks", "reasoning_details", "images"];

/// What each chunk of a stream begins with.
const HEAD: [&str; 4] = ["id", "object", "created", "model"];

/// The state of a chat.
#[derive(Debug)]
pub struct ChatConversation {
    body: Body,
    tools: RoundTools,
    /// `tool_choice` of the first round, where it is another than the client's.
    choice: Option<String>,
    /// The messages after the client's, each behind a comma.
    appended: String,
    /// The texts of the rounds before.
    texts: String,
    /// How many items of each of [`INDEXED`] the rounds before have.
    before: Vec<(&'static str, u64)>,
    usage: UsageSum,
    /// What was called: JSON texts.
    reported: Vec<String>,
    calls: Vec<RoundCall>,
    round: u32,
    is_last: bool,
    is_over: bool,
    whole: Vec<u8>,
    stream: ChatStream,
}

/// The stream of one round; what the client knows of the first stays.
#[derive(Debug, Default)]
struct ChatStream {
    /// The members of [`HEAD`] in the first chunk: JSON texts.
    head: Vec<(&'static str, String)>,
    sum: DeltaSum,
    /// The calls of the round: the model's index, and whose it is.
    by_index: Vec<(u64, Caller)>,
    has_text: bool,
    /// How many items of each of [`INDEXED`] the round has.
    items: Vec<(&'static str, u64)>,
    usage: Option<String>,
    /// The chunk with the usage alone.
    usage_chunk: Option<String>,
    /// Deltas of calls whose name has not come yet: the model's index, and the JSON text.
    unnamed: Vec<(u64, String)>,
    end: StreamEnd,
    is_done: bool,
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum StreamEnd {
    #[default]
    Open,
    /// The model has said all that it wanted.
    Finished,
    /// It was cut: a call may lack its end.
    Cut,
}

/// Who makes a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    Gateway,
    /// The client, to whom it has this index.
    Client(usize),
}

impl ChatConversation {
    /// # Errors
    /// 400: the request has what cannot be done for it.
    pub fn new(body: Body, tools: RoundTools) -> Result<Self, Error> {
        if tools.has_approvals() {
            let message = "Chat completions have no approvals. Set require_approval to \"never\" for each MCP server, or use /v1/responses.";
            return Err(Error::invalid_request("tools", message));
        }
        if body.raw("n").is_some_and(|n| n != "1" && n != "null") {
            let message =
                "n must be 1 where the gateway calls tools: each choice would be another conversation.";
            return Err(Error::invalid_request("n", message));
        }
        let choice = tools.choice(body.raw("tool_choice"), true)?;
        Ok(Self {
            body,
            tools,
            choice,
            appended: String::new(),
            texts: String::new(),
            before: Vec::new(),
            usage: UsageSum::default(),
            reported: Vec::new(),
            calls: Vec::new(),
            round: 0,
            is_last: false,
            is_over: false,
            whole: Vec::new(),
            stream: ChatStream::default(),
        })
    }

    /// The model has called tools of the gateway: whether they are called, and another round follows.
    fn goes_on(&self, calls_own: bool, calls_others: bool) -> bool {
        calls_own && !calls_others && !self.is_last
    }

    /// Keeps what the model has said, and what it calls.
    fn keep_round(&mut self, message: &str, calls: Vec<RoundCall>) {
        self.appended.push(',');
        self.appended.push_str(message);
        self.calls = calls;
    }

    fn add_text(&mut self, text: &str) {
        if !text.is_empty() {
            self.texts = joined(&self.texts, text);
        }
    }

    /// The calls of a message that are the gateway's, and the texts of the others.
    fn split_calls(&self, calls: Option<&str>) -> SplitCalls {
        let mut split = SplitCalls::default();
        let items = calls.and_then(|calls| walk::items(calls.as_bytes()));
        for item in items.into_iter().flatten().filter_map(|item| std::str::from_utf8(item).ok()) {
            let read = Object::read(item);
            let function = read.as_ref().and_then(|call| call.inner("function"));
            let name = function.as_ref().and_then(|function| function.string("name").map(Cow::into_owned));
            match (read, function, name.and_then(|name| self.tools.find(&name))) {
                (Some(call), Some(function), Some(tool)) => {
                    let id = call.string("id").unwrap_or_default().into_owned();
                    let arguments = function.get("arguments");
                    let text = arguments.and_then(|json| json.text().map(String::from));
                    let arguments = text.or_else(|| arguments.map(|json| json.get().to_owned()));
                    split.own.push(RoundCall {
                        id,
                        tool,
                        arguments: arguments.unwrap_or_default(),
                        approval: None,
                    });
                }
                _ => split.others.push(item.to_owned()),
            }
        }
        split
    }

    /// The last response as the client gets it.
    fn finished(&self, text: &str, root: &Object<'_>, split: &SplitCalls) -> Vec<u8> {
        let mut splice = Splice::new(text);
        let choice = root.list("choices").into_iter().next();
        let message = choice.as_ref().and_then(|choice| choice.inner("message"));
        if let (Some(choice), Some(message)) = (&choice, &message) {
            if !split.own.is_empty() && split.others.is_empty() {
                splice.remove(message, |name, _| name == "tool_calls");
                if !choice.string("finish_reason").is_some_and(|reason| is_cut(&reason)) {
                    splice.replace(choice, "finish_reason", "\"stop\"");
                }
            } else if !split.own.is_empty() {
                splice.replace(message, "tool_calls", format!("[{}]", split.others.join(",")));
            }
            let content = message.string("content").unwrap_or_default();
            if !self.texts.is_empty() {
                let whole = joined(&self.texts, &content);
                splice.replace(message, "content", Json::from_value(&whole).get());
            }
        }
        if let Some(usage) = self.usage.json() {
            splice.replace(root, "usage", usage);
        }
        let body = splice.finish().unwrap_or_else(|| text.as_bytes().to_vec());
        if self.reported.is_empty() {
            return body;
        }
        append_member(&body, "mcp_calls", &format!("[{}]", self.reported.join(","))).unwrap_or(body)
    }

    /// A chunk with a choice.
    fn take_chunk(
        &mut self,
        name: Option<&str>,
        text: &str,
        root: &Object<'_>,
        choice: &Object<'_>,
        out: &mut Vec<u8>,
    ) {
        let mut splice = Splice::new(text);
        self.begin_chunk(root, &mut splice);
        let delta = choice.inner("delta");
        self.stream.sum.add(choice.json_of("delta").unwrap_or_default());
        let has_error = root.get("error").is_some_and(|error| !error.is_null());
        if has_error {
            self.stream.end = StreamEnd::Cut;
        }
        let mut shows = has_error || choice.get("logprobs").is_some_and(|value| !value.is_null());
        if let Some(delta) = &delta {
            shows |= self.take_delta(delta, &mut splice);
        }
        if let Some(reason) = choice.string("finish_reason") {
            let is_good = !is_cut(&reason) && self.stream.end != StreamEnd::Cut;
            self.stream.end = if is_good { StreamEnd::Finished } else { StreamEnd::Cut };
            let by_index = &self.stream.by_index;
            let calls_own = by_index.iter().any(|(_, caller)| *caller == Caller::Gateway);
            // A call without a name is not the gateway's.
            let calls_others = by_index.iter().any(|(_, caller)| *caller != Caller::Gateway)
                || !self.stream.unnamed.is_empty();
            if is_good && self.goes_on(calls_own, calls_others) {
                splice.replace(choice, "finish_reason", "null");
            } else {
                shows = true;
                if calls_own && !calls_others && is_good {
                    splice.replace(choice, "finish_reason", "\"stop\"");
                }
            }
        }
        let has_usage = root.get("usage").is_some_and(|usage| !usage.is_null());
        let written = splice.finish();
        let written = written.as_deref().unwrap_or(text.as_bytes());
        if shows {
            write_event(out, name, written);
        } else if has_usage {
            self.stream.usage_chunk = String::from_utf8(written.to_vec()).ok();
        }
    }

    /// What all chunks of the client's stream have alike.
    fn begin_chunk<'t>(&mut self, root: &Object<'t>, splice: &mut Splice<'t>) {
        if self.stream.head.is_empty() {
            let of = |name: &&'static str| Some((*name, root.json_of(name)?.to_owned()));
            self.stream.head = HEAD.iter().filter_map(of).collect();
        } else if self.round > 0 {
            for (name, json) in
                self.stream.head.iter().filter(|(name, _)| *name == "id" || *name == "created")
            {
                splice.replace(root, name, json.clone());
            }
        }
        if let Some(usage) = root.json_of("usage").filter(|usage| *usage != "null") {
            self.stream.usage = Some(usage.to_owned());
            if let Some(sum) = self.usage.with(usage) {
                splice.replace(root, "usage", sum);
            }
        }
    }

    /// Changes a delta to what the client gets. Returns whether anything is left of it.
    fn take_delta<'t>(&mut self, delta: &Object<'t>, splice: &mut Splice<'t>) -> bool {
        if let Some(content) = delta.string("content").filter(|content| !content.is_empty()) {
            if !self.stream.has_text && !self.texts.is_empty() {
                splice.replace(delta, "content", Json::from_value(&format!("{GAP}{content}")).get());
            }
            self.stream.has_text = true;
        }
        let kept = delta.json_of("tool_calls").map(|calls| self.client_calls(calls));
        let hides_calls = kept.as_ref().is_some_and(Vec::is_empty);
        if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
            splice.replace(delta, "tool_calls", format!("[{}]", kept.join(",")));
        }
        for name in INDEXED {
            if let Some(items) = delta.json_of(name).filter(|items| items.starts_with('[')) {
                splice.replace(delta, name, self.later_items(name, items));
            }
        }
        // Libraries join the texts of deltas, and that of the role with them.
        let hides_role = self.round > 0;
        let is_hidden = |name: &str| (hides_role && name == "role") || (hides_calls && name == "tool_calls");
        splice.remove(delta, |name, _| is_hidden(name));
        let is_something =
            |value: &Json<'_>| !value.is_null() && value.get() != "\"\"" && value.get() != "[]";
        delta.members().any(|(name, value)| !is_hidden(name) && is_something(value))
    }

    /// The items of a list with the indexes that they have behind those of the rounds before.
    fn later_items(&mut self, name: &'static str, items: &str) -> String {
        let before = add(&mut self.before, name, |before| before);
        let mut later = Vec::new();
        for text in walk::items(items.as_bytes()).into_iter().flatten() {
            let Some(text) = std::str::from_utf8(text).ok() else { continue };
            let index = Object::read(text).and_then(|item| item.get("index")?.read::<u64>());
            later.push(match index {
                Some(index) => {
                    add(&mut self.stream.items, name, |count| count.max(index.saturating_add(1)));
                    with_index(text, before.saturating_add(index))
                }
                None => text.to_owned(),
            });
        }
        format!("[{}]", later.join(","))
    }

    /// The calls of a delta that are the client's to make, by the indexes that it gets.
    fn client_calls(&mut self, calls: &str) -> Vec<String> {
        let mut kept = Vec::new();
        for text in walk::items(calls.as_bytes()).into_iter().flatten() {
            let Some(text) = std::str::from_utf8(text).ok() else { continue };
            let Some(call) = Object::read(text) else { continue };
            let index = call.get("index").and_then(|index| index.read::<u64>()).unwrap_or_default();
            self.stream.unnamed.push((index, text.to_owned()));
            let Some(caller) = self.caller(index, &call) else { continue };
            let (ready, unnamed) =
                std::mem::take(&mut self.stream.unnamed).into_iter().partition(|(of, _)| *of == index);
            self.stream.unnamed = unnamed;
            if let Caller::Client(place) = caller {
                let ready: Vec<(u64, String)> = ready;
                kept.extend(ready.iter().map(|(_, text)| with_index(text, place as u64)));
            }
        }
        kept
    }

    /// Who makes a call; `None` while it has no name.
    fn caller(&mut self, index: u64, call: &Object<'_>) -> Option<Caller> {
        let by_index = &mut self.stream.by_index;
        if let Some((_, caller)) = by_index.iter().find(|(found, _)| *found == index) {
            return Some(*caller);
        }
        let name = call.inner("function").and_then(|function| function.string("name").map(Cow::into_owned));
        let name = name.filter(|name| !name.is_empty());
        // A call that is no function has its name elsewhere, and is none of the gateway's.
        let is_function = call.string("type").is_none_or(|kind| kind == "function");
        let caller = match name {
            None if is_function => return None,
            Some(name) if self.tools.find(&name).is_some() => Caller::Gateway,
            _ => Caller::Client(by_index.iter().filter(|(_, caller)| *caller != Caller::Gateway).count()),
        };
        by_index.push((index, caller));
        Some(caller)
    }
}

/// An item of a delta with another index.
fn with_index(text: &str, index: u64) -> String {
    let Some(call) = Object::read(text) else { return text.to_owned() };
    let mut splice = Splice::new(text);
    splice.replace(&call, "index", index.to_string());
    let written = splice.finish().and_then(|written| String::from_utf8(written).ok());
    written.unwrap_or_else(|| text.to_owned())
}

/// Whether a model was stopped before it had said all.
fn is_cut(finish_reason: &str) -> bool {
    matches!(finish_reason, "length" | "content_filter" | "error")
}

/// The calls of a message.
#[derive(Debug, Default)]
struct SplitCalls {
    own: Vec<RoundCall>,
    /// Those of the client: JSON texts.
    others: Vec<String>,
}

impl Rounds for ChatConversation {
    fn take_calls(&mut self) -> Vec<RoundCall> {
        std::mem::take(&mut self.calls)
    }

    fn take_result(&mut self, call: &RoundCall, result: &RoundResult, out: &mut Vec<u8>) {
        let mut message = Vec::new();
        let mut object = ObjectWriter::open(&mut message);
        object.text("role", "tool");
        object.text("tool_call_id", &call.id);
        object.text("content", &result.for_model());
        object.close();
        self.appended.push(',');
        self.appended.push_str(&String::from_utf8(message).unwrap_or_default());
        let Some(tool) = self.tools.get(call.tool) else { return };
        let mut report = Vec::new();
        let mut object = ObjectWriter::open(&mut report);
        object.text("server_label", &tool.label);
        object.text("name", &tool.name);
        object.text("arguments", &call.arguments);
        object.text("status", if result.is_error { "failed" } else { "completed" });
        object.close();
        let report = String::from_utf8(report).unwrap_or_default();
        let mut chunk = Vec::new();
        let mut object = ObjectWriter::open(&mut chunk);
        for (name, json) in &self.stream.head {
            object.raw(*name, json);
        }
        object.raw("choices", r#"[{"index":0,"delta":{},"finish_reason":null}]"#);
        object.raw("mcp_calls", &format!("[{report}]"));
        object.close();
        write_event(out, None, &chunk);
        self.reported.push(report);
    }

    fn request(&mut self, is_last: bool) -> Bytes {
        self.is_last = is_last;
        let given = self.body.raw("tool_choice");
        let choice = RoundTools::choice_of_round(self.choice.as_deref(), given, self.round, is_last);
        let mut edits = self.tools.edits(true, choice);
        let messages = self.body.raw("messages").and_then(|list| list.trim_end().strip_suffix(']'));
        let messages = messages.filter(|_| !self.appended.is_empty());
        let messages = messages.map(|list| with_items(list, &self.appended));
        edits.extend(messages.map(|messages| Edit::Set("messages", Cow::Owned(messages))));
        self.body.edit(&edits)
    }

    fn take_response(&mut self, body: &[u8]) -> Result<(), Error> {
        let unreadable =
            || Error::invalid_response("The provider's response is no chat completion.", "no object");
        let text = std::str::from_utf8(body).map_err(|_| unreadable())?.trim();
        let root = Object::read(text).ok_or_else(unreadable)?;
        if let Some(usage) = root.json_of("usage") {
            self.usage.add(usage);
        }
        let choice = root.list("choices").into_iter().next();
        let message = choice.as_ref().and_then(|choice| choice.inner("message"));
        let split = self.split_calls(message.as_ref().and_then(|message| message.json_of("tool_calls")));
        let content = message.as_ref().and_then(|message| message.string("content")).unwrap_or_default();
        let reason = choice.as_ref().and_then(|choice| choice.string("finish_reason")).unwrap_or_default();
        if !is_cut(&reason) && self.goes_on(!split.own.is_empty(), !split.others.is_empty()) {
            let message = choice.as_ref().and_then(|choice| choice.json_of("message")).unwrap_or_default();
            self.keep_round(message, split.own);
            self.add_text(&content);
            self.round += 1;
        } else {
            self.whole = self.finished(text, &root, &split);
            self.is_over = true;
        }
        Ok(())
    }

    fn take_event(&mut self, name: Option<&str>, data: &[u8], out: &mut Vec<u8>) {
        if data == b"[DONE]" {
            self.stream.is_done = true;
            return;
        }
        let text = std::str::from_utf8(data).unwrap_or_default().trim();
        let Some(root) = Object::read(text) else { return write_event(out, name, data) };
        let choices = root.list("choices");
        if let Some(choice) = choices.first() {
            return self.take_chunk(name, text, &root, choice, out);
        }
        match root.json_of("usage").filter(|usage| *usage != "null") {
            Some(usage) => {
                self.stream.usage = Some(usage.to_owned());
                self.stream.usage_chunk = Some(text.to_owned());
            }
            None => {
                if root.has("error") {
                    self.stream.end = StreamEnd::Cut;
                }
                write_event(out, name, data);
            }
        }
    }

    fn end_stream(&mut self) {
        let head = std::mem::take(&mut self.stream.head);
        let ended = std::mem::replace(&mut self.stream, ChatStream { head, ..ChatStream::default() });
        if let Some(usage) = &ended.usage {
            self.usage.add(usage);
        }
        let message = ended.sum.message();
        let calls = message.get("tool_calls").map(Value::to_string);
        let split = self.split_calls(calls.as_deref());
        let is_whole = ended.end == StreamEnd::Finished;
        if is_whole && self.goes_on(!split.own.is_empty(), !split.others.is_empty()) {
            self.keep_round(&message.to_string(), split.own);
            for (name, count) in ended.items {
                add(&mut self.before, name, |before| before.saturating_add(count));
            }
            self.add_text(message.get("content").and_then(Value::as_str).unwrap_or_default());
            self.round += 1;
        } else {
            self.stream.usage_chunk = ended.usage_chunk;
            self.stream.is_done = ended.is_done;
            self.is_over = true;
        }
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn close_stream(&mut self, out: &mut Vec<u8>) {
        if let Some(chunk) = self.stream.usage_chunk.take()
            && let Some(root) = Object::read(&chunk)
        {
            let mut splice = Splice::new(&chunk);
            for (name, json) in
                self.stream.head.iter().filter(|(name, _)| *name == "id" || *name == "created")
            {
                splice.replace(&root, name, json.clone());
            }
            if let Some(sum) = self.usage.json() {
                splice.replace(&root, "usage", sum);
            }
            let written = splice.finish();
            write_event(out, None, written.as_deref().unwrap_or(chunk.as_bytes()));
        }
        if self.stream.is_done {
            write_event(out, None, b"[DONE]");
        }
    }

    fn fail_stream(&mut self, body: &[u8], out: &mut Vec<u8>) {
        write_event(out, None, body);
    }

    fn take_whole(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.whole)
    }

    fn size(&self) -> usize {
        self.body.bytes().len() + self.appended.len() + self.texts.len()
    }
}

/// A list without its last bracket, and more items, each behind a comma.
fn with_items(list: &str, more: &str) -> String {
    let is_empty = list.trim_end().ends_with('[');
    let more = if is_empty { more.strip_prefix(',').unwrap_or_default() } else { more };
    format!("{list}{more}]")
}

/// Changes the count of a name, which is 0 at first, and returns it.
fn add(counts: &mut Vec<(&'static str, u64)>, name: &'static str, change: impl FnOnce(u64) -> u64) -> u64 {
    let found = counts.iter_mut().find(|(of, _)| *of == name);
    match found {
        Some((_, count)) => {
            *count = change(*count);
            *count
        }
        None => {
            let count = change(0);
            counts.push((name, count));
            count
        }
    }
}

fn joined(one: &str, other: &str) -> String {
    let gap = if one.is_empty() || other.is_empty() { "" } else { GAP };
    format!("{one}{gap}{other}")
}
