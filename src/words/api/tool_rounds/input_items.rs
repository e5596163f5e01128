//! The input of a response as the model gets it: items of the gateway's earlier calls become the function calls that they were.
//!
//! Providers have no such items for calls that they have not made themselves.

use super::{RoundCall, RoundResult, RoundTools};
use crate::api::body::Body;
use crate::api::mcp::names;
use crate::api::mcp::reply::member;
use crate::error::Error;
use crate::json::Json;
use crate::json::splice::Object;
use crate::json::walk;
use crate::json::write::ObjectWriter;
use ring::digest::{Context, SHA256};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Write as _;

/// How many digits the tag of a request has: ids of calls have 40 letters at most at some providers.
const TAG_DIGITS: usize = 6;
/// What the ids of items begin with. A tag of the request follows, the item's place in the output, and the model's id of the call.
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
    /// The requests for approval whose call was made in an earlier turn.
    called: Vec<String>,
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
        let items: Vec<&str> = walk::items(text.as_bytes())
            .into_iter()
            .flatten()
            .map(|item| std::str::from_utf8(item).unwrap_or("null"))
            .collect();
        input.called = items.iter().filter_map(|item| called_request(item)).collect();
        for (place, item) in items.into_iter().enumerate() {
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
                let id = text("id");
                let own = OwnId::read(&id, CALL);
                // A provider that keeps the conversation has it, and its output comes with the response's id.
                if is_continued && own.is_some() {
                    return Ok(true);
                }
                let id = own.map_or(&*id, |own| own.unique).to_owned();
                self.push(function_call(&id, &function(tools, &label, &text("name")), &text("arguments")));
                let error = item.get("error").and_then(error_text);
                let error = error.map(|error| RoundResult::error(error).for_model());
                self.push(function_output(&id, &error.unwrap_or_else(|| text("output"))));
            }
            // It was called in an earlier turn: the item of that has all of it.
            "mcp_approval_request" if is_own && self.called.contains(&text("id")) => {}
            "mcp_approval_request" if is_own => {
                let item = text("id");
                // A provider that keeps the conversation knows the call by its own id, and is told of this one only.
                let own =
                    OwnId::read(&item, APPROVAL).map(|own| if is_continued { own.call } else { own.unique });
                let id = own.unwrap_or(&item).to_owned();
                let name = text("name");
                if !is_continued {
                    self.push(function_call(&id, &function(tools, &label, &name), &text("arguments")));
                }
                let tool = tools.find_named(&label, &name);
                self.waiting.push(Waiting { item, id, tool, arguments: text("arguments") });
            }
            "mcp_approval_response" => return self.take_answer(item, place),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes the client's word on a call. Returns false where the request for it is not the gateway's.
    fn take_answer(&mut self, item: &Object<'_>, place: usize) -> Result<bool, Error> {
        let id = item.string("approval_request_id").unwrap_or_default();
        let Some(at) = self.waiting.iter().position(|waiting| waiting.item == id) else {
            if self.called.iter().any(|called| *called == id) {
                return Ok(true);
            }
            // A provider has approvals of its own, with other ids.
            if OwnId::read(&id, APPROVAL).is_none() {
                return Ok(false);
            }
            let message = "The input must have the mcp_approval_request of this id, before the response to it: the gateway keeps no calls.";
            return Err(Error::invalid_request(format!("input[{place}].approval_request_id"), message));
        };
        let waiting = self.waiting.remove(at);
        let is_approved = item.get("approve").is_some_and(Json::is_true);
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

/// The request for approval whose call an item is.
fn called_request(item: &str) -> Option<String> {
    let item = Object::read(item).filter(|item| item.string("type").as_deref() == Some("mcp_call"))?;
    item.string("approval_request_id").map(Cow::into_owned)
}

/// The text of a call's error, in the form of today or in that of 2025. `None`: it has none.
fn error_text(error: &Json<'_>) -> Option<String> {
    if error.is_null() {
        return None;
    }
    let of_text = || error.text().map(Cow::into_owned);
    let parts = member(error.get(), "content").and_then(|content| content.read::<Vec<Value>>());
    let of_parts = || {
        let parts = parts.as_ref()?;
        let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    };
    let of_message =
        || member(error.get(), "message").and_then(|message| message.text().map(Cow::into_owned));
    of_text().or_else(of_parts).or_else(of_message).or_else(|| Some(error.get().to_owned()))
}

/// What the model calls a tool, also one that this request has no more.
fn function(tools: &RoundTools, label: &str, name: &str) -> String {
    let tool = tools.find_named(label, name).and_then(|place| tools.get(place));
    tool.map_or_else(|| names::prefixed(label, name).replace('.', "_"), |tool| tool.function.clone())
}

/// The id of an item for a call: a model may use one id of its own for many. `tag`: of the request.
pub(super) fn item_id(prefix: &str, tag: &str, place: usize, call: &str) -> String {
    format!("{prefix}{tag}_{place}_{call}")
}

/// A text that no other request of a conversation has.
pub(super) fn request_tag(trace_id: &str, body: &Body) -> String {
    let mut context = Context::new(&SHA256);
    context.update(trace_id.as_bytes());
    context.update(body.bytes());
    let mut tag = String::new();
    for byte in context.finish().as_ref().iter().take(TAG_DIGITS / 2) {
        // Writing into a String cannot fail.
        let _ = write!(tag, "{byte:02x}");
    }
    tag
}

/// The id of an item that the gateway has made.
struct OwnId<'i> {
    /// What no other call of a conversation has.
    unique: &'i str,
    /// The model's id of the call.
    call: &'i str,
}

impl<'i> OwnId<'i> {
    /// `None`: it is another's.
    fn read(id: &'i str, prefix: &str) -> Option<Self> {
        let unique = id.strip_prefix(prefix)?;
        let mut parts = unique.splitn(3, '_');
        let tag = parts.next()?;
        let place = parts.next()?;
        let is_tag = tag.len() == TAG_DIGITS && tag.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_place = !place.is_empty() && place.bytes().all(|byte| byte.is_ascii_digit());
        let call = parts.next().filter(|_| is_tag && is_place)?;
        Some(Self { unique, call })
    }
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
