//! The input of a response as the model gets it: items of the gateway's earlier calls become the function calls that they were.
//!
//! Providers have no such items for calls that they have not made themselves.

use super::{RoundCall, RoundResult, RoundTools};
use crate::api::body::Body;
use crate::api::mcp::names;
use crate::error::Error;
use crate::json::splice::Object;
use crate::json::walk;
use crate::json::write::ObjectWriter;

/// What the ids of items begin with; the number of the round follows, and the model's id of the call.
pub(super) const CALL: &str = "mcp_";
pub(super) const APPROVAL: &str = "mcpr_";

/// The input of a request.
#[derive(Debug, Default)]
pub(super) struct InputItems {
    /// Items for the model, separated by commas.
    pub items: String,
    /// What the client has approved, to be called before the first round.
    pub approved: Vec<RoundCall>,
    /// The servers whose tools the client has been told.
    pub listed: Vec<String>,
    /// Calls that wait for the client's word.
    waiting: Vec<Waiting>,
}

/// A call that waits for approval.
#[derive(Debug)]
struct Waiting {
    /// Of the item that requests it.
    item: String,
    id: String,
    /// `None`: the request has no such tool any more.
    tool: Option<usize>,
    arguments: String,
}

impl InputItems {
    /// # Errors
    /// 400: an approval is of a call that is not in the input.
    pub fn read(body: &Body, tools: &RoundTools) -> Result<Self, Error> {
        let mut input = Self::default();
        let text = body.raw("input").unwrap_or("[]").trim();
        if text.starts_with('"') {
            input.push(format!("{{\"type\":\"message\",\"role\":\"user\",\"content\":{text}}}"));
            return Ok(input);
        }
        if !text.starts_with('[') && text != "null" {
            return Err(Error::invalid_request("input", "input must be a text or a list of items."));
        }
        let is_continued = body.raw("previous_response_id").is_some_and(|id| id != "null");
        for (place, item) in walk::items(text.as_bytes()).into_iter().flatten().enumerate() {
            let item = std::str::from_utf8(item).unwrap_or("null");
            let read = Object::read(item);
            let kind = read.as_ref().and_then(|object| object.string("type"));
            let taken = match (&read, kind.as_deref()) {
                (Some(object), Some(kind)) => input.take(kind, object, tools, place, is_continued)?,
                _ => false,
            };
            if !taken {
                input.push(item.to_owned());
            }
        }
        for left in std::mem::take(&mut input.waiting) {
            input.push(function_output(&left.id, "Error: The user has not approved this call."));
        }
        Ok(input)
    }

    /// Takes an item of the gateway's. Returns false for any other.
    fn take(
        &mut self,
        kind: &str,
        item: &Object<'_>,
        tools: &RoundTools,
        place: usize,
        is_continued: bool,
    ) -> Result<bool, Error> {
        let text = |name: &str| item.string(name).unwrap_or_default().into_owned();
        let label = text("server_label");
        let is_own = tools.has_server(&label);
        match kind {
            "mcp_list_tools" if is_own => self.listed.push(label),
            "mcp_call" if is_own => {
                let request = text("approval_request_id");
                let approved =
                    self.approved.iter().position(|call| call.approval.as_deref() == Some(&*request));
                let id = match approved.map(|at| self.approved.remove(at)) {
                    // It was called in an earlier turn, and its call stands where it was requested.
                    Some(call) => call.id,
                    None => {
                        let id = call_id(&text("id"), CALL);
                        let name = function(tools, &label, &text("name"));
                        self.push(function_call(&id, &name, &text("arguments")));
                        id
                    }
                };
                let error = item.string("error").map(|error| RoundResult::error(error).for_model());
                self.push(function_output(&id, &error.unwrap_or_else(|| text("output"))));
            }
            "mcp_approval_request" if is_own => {
                let id = call_id(&text("id"), APPROVAL);
                let name = text("name");
                if !is_continued {
                    self.push(function_call(&id, &function(tools, &label, &name), &text("arguments")));
                }
                let tool = tools.find_named(&label, &name);
                self.waiting.push(Waiting { item: text("id"), id, tool, arguments: text("arguments") });
            }
            "mcp_approval_response" => return self.take_answer(item, place),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the client's word on a call. Returns false where the request for it is not the gateway's.
    fn take_answer(&mut self, item: &Object<'_>, place: usize) -> Result<bool, Error> {
        let id = item.string("approval_request_id").unwrap_or_default();
        if !id.starts_with(APPROVAL) {
            return Ok(false);
        }
        let id = call_id(&id, APPROVAL);
        let Some(at) = self.waiting.iter().position(|waiting| waiting.id == id) else {
            let message = "The input must have the mcp_approval_request of this id, before the response to it: the gateway keeps no calls.";
            return Err(Error::invalid_request(format!("input[{place}].approval_request_id"), message));
        };
        let waiting = self.waiting.remove(at);
        let is_approved = item.get("approve").is_some_and(crate::json::Json::is_true);
        match (is_approved, waiting.tool) {
            (true, Some(tool)) => {
                let Waiting { item, id, arguments, .. } = waiting;
                self.approved.push(RoundCall { id, tool, arguments, approval: Some(item) });
            }
            (true, None) => self.push(function_output(&waiting.id, "Error: There is no such tool any more.")),
            (false, _) => {
                let reason = item.string("reason").unwrap_or_default();
                let gap = if reason.is_empty() { "" } else { " " };
                let why = format!("Error: The user has refused this call.{gap}{reason}");
                self.push(function_output(&waiting.id, &why));
            }
        }
        Ok(true)
    }

    fn push(&mut self, item: String) {
        if !self.items.is_empty() {
            self.items.push(',');
        }
        self.items.push_str(&item);
    }
}

/// What the model calls a tool, also one that this request has no more.
fn function(tools: &RoundTools, label: &str, name: &str) -> String {
    let tool = tools.find_named(label, name).and_then(|place| tools.get(place));
    tool.map_or_else(|| names::prefixed(label, name).replace('.', "_"), |tool| tool.function.clone())
}

/// The id of an item for a call: a model may use an id of its own in each round.
pub(super) fn item_id(prefix: &str, round: u32, call: &str) -> String {
    format!("{prefix}{round}_{call}")
}

/// The model's id of the call that an item is for.
fn call_id(id: &str, prefix: &str) -> String {
    let Some(rest) = id.strip_prefix(prefix) else { return id.to_owned() };
    let numbered = rest.split_once('_');
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbered.filter(|(round, _)| is_number(round)).map_or(rest, |(_, call)| call).to_owned()
}

fn function_call(id: &str, name: &str, arguments: &str) -> String {
    item(&[("type", "function_call"), ("call_id", id), ("name", name), ("arguments", arguments)])
}

/// The output of a call, as an item.
pub(super) fn function_output(id: &str, output: &str) -> String {
    item(&[("type", "function_call_output"), ("call_id", id), ("output", output)])
}

/// An item of texts.
pub(super) fn item(members: &[(&str, &str)]) -> String {
    let mut out = Vec::new();
    let mut object = ObjectWriter::open(&mut out);
    members.iter().for_each(|(name, text)| object.text(*name, text));
    object.close();
    String::from_utf8(out).unwrap_or_default()
}
