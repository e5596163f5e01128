//! A response whose MCP tools the gateway calls, with the items that OpenAI has for it: `mcp_list_tools`, `mcp_call`,
//! `mcp_approval_request`.
//!
//! The model sees functions. Each round is sent the whole conversation, so that every provider can go on with it. A round that calls a
//! function of the client's, or a tool that waits for approval, is the last; what else it calls is called before the response ends.

use super::input_items::{APPROVAL, CALL, InputItems, function_output, item, item_id, request_tag};
use super::responses_stream::ItemStream;
use super::usage_sum::UsageSum;
use super::{ResponseIds, RoundCall, RoundResult, RoundTools, Rounds};
use crate::api::body::{Body, Edit};
use crate::error::Error;
use crate::json::Json;
use crate::json::splice::{Object, Splice};
use crate::json::walk;
use crate::json::write::ObjectWriter;
use bytes::Bytes;
use std::borrow::Cow;

/// Calls that the client must make before the model can go on.
const OF_CLIENT: [&str; 8] = [
    "function_call",
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "tool_search_call",
    "mcp_approval_request",
];

/// The state of a response.
#[derive(Debug)]
pub struct ResponsesConversation {
    body: Body,
    pub(super) tools: RoundTools,
    choice: Option<String>,
    /// The items that the model is sent, separated by commas.
    items: String,
    /// The client's output by its place; `None` while a call is under way.
    output: Vec<Option<String>>,
    /// Which call has which place in the output.
    places: Vec<(String, usize)>,
    /// In the ids of this request's items.
    tag: String,
    /// Outputs of calls that no round was sent yet: items, separated by commas.
    unsent: String,
    usage: UsageSum,
    calls: Vec<RoundCall>,
    round: u32,
    is_last: bool,
    is_over: bool,
    /// The id of the first round's response, which the client gets.
    first_id: Option<String>,
    /// The last response of a provider, or what the last event of its stream has of it.
    last: String,
    pub(super) stream: ItemStream,
}

/// What is to become of a call of the model's.
#[derive(Debug)]
pub(super) enum ItemCaller {
    /// The gateway makes it.
    Gateway(RoundCall),
    /// The client must approve it.
    Waits(RoundCall),
    /// It is the client's, or the provider's own.
    Other,
}

impl ResponsesConversation {
    /// `trace_id`: ids of items are made from it.
    ///
    /// # Errors
    /// 400: the request has what cannot be done for it.
    pub fn new(body: Body, tools: RoundTools, trace_id: &str) -> Result<Self, Error> {
        if body.is_true("background") {
            let message = "Responses in the background cannot have tools that the gateway calls.";
            return Err(Error::invalid_request("background", message));
        }
        if body.raw("conversation").is_some_and(|conversation| conversation != "null") {
            let message = "The gateway sends each round the whole conversation, which a stored one would then have twice. Send the items, or \
                           previous_response_id.";
            return Err(Error::invalid_request("conversation", message));
        }
        let choice = tools.choice(body.raw("tool_choice"), false)?;
        let InputItems { items, approved, listed, .. } = InputItems::read(&body, &tools)?;
        let lists = tools
            .servers()
            .enumerate()
            .filter(|(_, (label, _))| !listed.iter().any(|listed| listed == label));
        let output =
            lists.map(|(place, (label, tools))| Some(list_item(trace_id, place, label, &tools))).collect();
        Ok(Self {
            choice,
            items,
            output,
            places: Vec::new(),
            tag: request_tag(trace_id, &body),
            unsent: String::new(),
            usage: UsageSum::default(),
            calls: approved,
            round: 0,
            is_last: false,
            is_over: false,
            first_id: None,
            last: String::new(),
            stream: ItemStream::default(),
            tools,
            body,
        })
    }

    pub(super) const fn is_first_round(&self) -> bool {
        self.round == 0
    }

    /// The items of the output so far.
    pub(super) fn ready_items(&self) -> Vec<(usize, String)> {
        let ready = self.output.iter().enumerate();
        ready.filter_map(|(place, item)| Some((place, item.clone()?))).collect()
    }

    /// Keeps a place in the client's output.
    pub(super) fn reserve(&mut self) -> usize {
        self.output.push(None);
        self.output.len() - 1
    }

    pub(super) fn place_call(&mut self, id: &str, place: usize) {
        self.places.push((id.to_owned(), place));
    }

    /// What the item of a round is.
    pub(super) fn caller(&self, item: &Object<'_>) -> ItemCaller {
        if item.string("type").as_deref() != Some("function_call") {
            return ItemCaller::Other;
        }
        let text = |name: &str| item.string(name).unwrap_or_default().into_owned();
        let Some(tool) = self.tools.find(&text("name")) else { return ItemCaller::Other };
        let call = RoundCall { id: text("call_id"), tool, arguments: text("arguments"), approval: None };
        let waits = self.tools.get(tool).is_some_and(|tool| tool.needs_approval);
        if waits { ItemCaller::Waits(call) } else { ItemCaller::Gateway(call) }
    }

    /// Takes a complete item of a round. `place`: its place in the client's output, if it has one. Returns that, and the item as the client
    /// gets it; `None` for a call that is still to be made.
    pub(super) fn take_item(&mut self, text: &str, place: Option<usize>) -> (usize, Option<String>) {
        let Some(item) = Object::read(text) else { return (place.unwrap_or_default(), None) };
        let place = place.unwrap_or_else(|| self.reserve());
        self.keep_item(text, &item);
        let shown = match self.caller(&item) {
            ItemCaller::Gateway(call) => {
                self.place_call(&call.id, place);
                self.calls.push(call);
                None
            }
            ItemCaller::Waits(call) => {
                self.is_over = true;
                Some(self.approval_item(place, &call))
            }
            ItemCaller::Other => {
                let kind = item.string("type").unwrap_or_default();
                self.is_over |= OF_CLIENT.contains(&&*kind);
                Some(text.to_owned())
            }
        };
        if let Some(slot) = self.output.get_mut(place) {
            slot.clone_from(&shown);
        }
        (place, shown)
    }

    /// Keeps an item for the next round. Of what the provider does not store it knows no id, and no reasoning without its content.
    fn keep_item(&mut self, text: &str, item: &Object<'_>) {
        let is_stored = self.body.raw("store") != Some("false");
        let is_reasoning = item.string("type").as_deref() == Some("reasoning");
        let has_content = item.string("encrypted_content").is_some();
        if !is_stored && is_reasoning && !has_content {
            return;
        }
        let mut splice = Splice::new(text);
        if !is_stored && !is_reasoning {
            splice.remove(item, |name, _| name == "id");
        }
        let kept = splice.finish().and_then(|kept| String::from_utf8(kept).ok());
        self.append(kept.as_deref().unwrap_or(text));
    }

    fn append(&mut self, item: &str) {
        if !self.items.is_empty() {
            self.items.push(',');
        }
        self.items.push_str(item);
    }

    /// Keeps the id of the first response: a client's library wants one from the beginning to the end.
    pub(super) fn keep_id(&mut self, response: &str) {
        if self.first_id.is_none() {
            self.first_id = Object::read(response).and_then(|root| root.string("id").map(Cow::into_owned));
        }
    }

    /// Takes the end of a round: the response as its provider has it.
    pub(super) fn take_end(&mut self, response: &str) {
        self.last = response.to_owned();
        self.keep_id(response);
        let Some(root) = Object::read(response) else { return self.is_over = true };
        if let Some(usage) = root.json_of("usage") {
            self.usage.add(usage);
        }
        let is_complete = root.string("status").is_none_or(|status| status == "completed");
        if !is_complete {
            // What the model calls may lack its end.
            self.calls.clear();
        }
        self.is_over |= !is_complete || self.is_last || self.calls.is_empty();
    }

    pub(super) fn end_round(&mut self) {
        self.round += 1;
    }

    pub(super) fn fail(&mut self) {
        self.calls.clear();
        self.is_over = true;
    }

    /// A response of a provider as the client gets it. `is_whole`: with all the output.
    pub(super) fn client_response(&self, response: &str, is_whole: bool) -> String {
        let Some(root) = Object::read(response) else { return response.to_owned() };
        let mut splice = Splice::new(response);
        if let Some(id) = &self.first_id {
            splice.replace(&root, "id", Json::from_value(id).get());
        }
        splice.replace(&root, "tools", self.tools.original());
        splice.replace(&root, "tool_choice", self.body.raw("tool_choice").unwrap_or("\"auto\""));
        if is_whole {
            let output: Vec<&str> = self.output.iter().flatten().map(String::as_str).collect();
            let output = format!("[{}]", output.join(","));
            if root.has("output") {
                splice.replace(&root, "output", output);
            } else {
                splice.append(&root, "output", &output);
            }
            if let Some(usage) = self.usage.json() {
                splice.replace(&root, "usage", usage);
            }
        }
        let written = splice.finish().and_then(|written| String::from_utf8(written).ok());
        written.unwrap_or_else(|| response.to_owned())
    }

    /// The last response, whole.
    pub(super) fn last_response(&self) -> String {
        self.client_response(&self.last, true)
    }

    /// A call that the model has begun, as an item.
    pub(super) fn begun_item(&self, place: usize, call: &RoundCall) -> String {
        self.item_of(place, &RoundCall { arguments: String::new(), ..call.clone() }, None)
    }

    fn approval_item(&self, place: usize, call: &RoundCall) -> String {
        let tool = self.tools.get(call.tool);
        item(&[
            ("id", &item_id(APPROVAL, &self.tag, place, &call.id)),
            ("type", "mcp_approval_request"),
            ("arguments", &call.arguments),
            ("name", tool.map_or("", |tool| &tool.name)),
            ("server_label", tool.map_or("", |tool| &tool.label)),
        ])
    }

    /// A call as an item at its place; without a result it is under way.
    fn item_of(&self, place: usize, call: &RoundCall, result: Option<&RoundResult>) -> String {
        let tool = self.tools.get(call.tool);
        let mut out = Vec::new();
        let mut object = ObjectWriter::open(&mut out);
        object.text("id", &item_id(CALL, &self.tag, place, &call.id));
        object.text("type", "mcp_call");
        let status = match result {
            None => "in_progress",
            Some(result) if result.is_error => "failed",
            Some(_) => "completed",
        };
        object.text("status", status);
        match &call.approval {
            Some(request) => object.text("approval_request_id", request),
            None => object.raw("approval_request_id", "null"),
        }
        object.text("arguments", &call.arguments);
        match result.filter(|result| result.is_error) {
            Some(result) => object.raw("error", &tool_error(&result.text)),
            None => object.raw("error", "null"),
        }
        object.text("name", tool.map_or("", |tool| &tool.name));
        match result.filter(|result| !result.is_error) {
            Some(result) => object.text("output", &result.text),
            None => object.raw("output", "null"),
        }
        object.text("server_label", tool.map_or("", |tool| &tool.label));
        object.close();
        String::from_utf8(out).unwrap_or_default()
    }
}

/// An error of a tool as OpenAI's libraries read it.
fn tool_error(text: &str) -> String {
    let content = item(&[("type", "text"), ("text", text)]);
    format!("{{\"type\":\"mcp_tool_execution_error\",\"content\":[{content}]}}")
}

/// The tools of a server as an item.
fn list_item(trace_id: &str, place: usize, label: &str, definitions: &[&str]) -> String {
    let tools: Vec<String> = definitions.iter().map(|definition| listed_tool(definition)).collect();
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    object.text("id", &format!("mcpl_{trace_id}_{place}"));
    object.text("type", "mcp_list_tools");
    object.text("server_label", label);
    object.raw("tools", &format!("[{}]", tools.join(",")));
    object.raw("error", "null");
    object.close();
    String::from_utf8(out).unwrap_or_default()
}

/// A tool as OpenAI lists it: with names of other members than MCP's.
fn listed_tool(definition: &str) -> String {
    let object = Object::read(definition);
    let of = |name: &str| object.as_ref().and_then(|object| object.json_of(name));
    let mut out = Vec::new();
    let mut tool = ObjectWriter::open(&mut out);
    tool.raw("annotations", of("annotations").unwrap_or("null"));
    tool.raw("description", of("description").unwrap_or("null"));
    tool.raw("input_schema", of("inputSchema").unwrap_or("{}"));
    tool.raw("name", of("name").unwrap_or("\"\""));
    tool.close();
    String::from_utf8(out).unwrap_or_default()
}

impl Rounds for ResponsesConversation {
    fn take_calls(&mut self) -> Vec<RoundCall> {
        std::mem::take(&mut self.calls)
    }

    fn take_result(&mut self, call: &RoundCall, result: &RoundResult, out: &mut Vec<u8>) {
        let output = function_output(&call.id, &result.for_model());
        self.append(&output);
        if !self.unsent.is_empty() {
            self.unsent.push(',');
        }
        self.unsent.push_str(&output);
        let found = self.places.iter().position(|(id, _)| *id == call.id);
        let place = match found {
            Some(at) => self.places.swap_remove(at).1,
            None => self.reserve(),
        };
        let item = self.item_of(place, call, Some(result));
        self.stream.call_ended(place, &item, result.is_error, out);
        if let Some(slot) = self.output.get_mut(place) {
            *slot = Some(item);
        }
    }

    fn request(&mut self, is_last: bool) -> Bytes {
        self.is_last = is_last;
        self.unsent.clear();
        let given = self.body.raw("tool_choice");
        let choice = RoundTools::choice_of_round(self.choice.as_deref(), given, self.round, is_last);
        let mut edits = self.tools.edits(false, choice);
        let input = format!("[{}]", self.items);
        if !self.items.is_empty() || self.body.raw("input").is_some_and(|input| input != "null") {
            edits.push(Edit::Set("input", Cow::Borrowed(&*input)));
        }
        self.body.edit(&edits)
    }

    fn take_response(&mut self, body: &[u8]) -> Result<(), Error> {
        let unreadable =
            || Error::invalid_response("The provider's response is none of the Responses API.", "no object");
        let text = std::str::from_utf8(body).map_err(|_| unreadable())?.trim();
        let root = Object::read(text).ok_or_else(unreadable)?;
        let output = root.json_of("output").and_then(|output| walk::items(output.as_bytes()));
        for item in output.into_iter().flatten().filter_map(|item| std::str::from_utf8(item).ok()) {
            self.take_item(item, None);
        }
        self.take_end(text);
        self.end_round();
        Ok(())
    }

    fn take_event(&mut self, name: Option<&str>, data: &[u8], out: &mut Vec<u8>) {
        super::responses_stream::take_event(self, name, data, out);
    }

    fn end_stream(&mut self) {
        self.end_round();
        self.stream.end_round();
        self.is_over |= self.calls.is_empty();
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn close_stream(&mut self, out: &mut Vec<u8>) {
        let response = self.last_response();
        self.stream.close(&response, out);
    }

    fn fail_stream(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let response = self.last_response();
        self.stream.fail(body, &response, out);
    }

    fn take_whole(&mut self) -> Vec<u8> {
        self.last_response().into_bytes()
    }

    fn response_ids(&self) -> Option<ResponseIds> {
        let shown = self.first_id.clone()?;
        let last = Object::read(&self.last)?.string("id")?.into_owned();
        let unsent = self.unsent.clone();
        (last != shown || !unsent.is_empty()).then_some(ResponseIds { shown, last, unsent })
    }

    fn size(&self) -> usize {
        let output: usize = self.output.iter().flatten().map(String::len).sum();
        self.body.bytes().len() + self.items.len() + output
    }
}
