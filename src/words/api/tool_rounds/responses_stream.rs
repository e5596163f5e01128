//! The stream of a response whose MCP tools the gateway calls: the events of all rounds, numbered anew, with the calls as OpenAI's are.
//!
//! Which item is whose, and what is kept of it, is the conversation's.

use super::RoundCall;
use super::responses::{ItemCaller, ResponsesConversation};
use crate::api::sse::write_event;
use crate::json::Json;
use crate::json::splice::{Object, Splice};
use crate::json::write::ObjectWriter;

/// What the client's stream knows.
#[derive(Debug, Default)]
pub(super) struct ItemStream {
    /// The number of the next event.
    number: u64,
    /// Whether the client has the items that were there before the model's first.
    has_lead: bool,
    /// Of this round: the provider's place of an item, and what becomes of its events.
    shown: Vec<(u64, Shown)>,
    /// The name of the event that ends the response, once it has come.
    ending: Option<String>,
}

/// How the events of an item reach the client.
#[derive(Debug, Clone)]
enum Shown {
    /// As they are, at this place of the output.
    At(usize),
    /// As those of a call of the gateway's.
    Call { place: usize, item_id: String },
    /// Only once it is whole, as a request for approval.
    Waits(usize),
}

impl ItemStream {
    fn emit(&mut self, kind: &str, members: &[(&str, &str)], out: &mut Vec<u8>) {
        let mut event = Vec::new();
        let mut object = ObjectWriter::open(&mut event);
        object.text("type", kind);
        members.iter().for_each(|(name, json)| object.raw(*name, json));
        object.number("sequence_number", self.number);
        object.close();
        self.number += 1;
        write_event(out, Some(kind), &event);
    }

    /// An event with another number, and another place of its item.
    fn relay(&mut self, text: &str, root: &Object<'_>, place: Option<usize>, out: &mut Vec<u8>) {
        let mut splice = Splice::new(text);
        // A heartbeat has none.
        if root.has("sequence_number") {
            splice.replace(root, "sequence_number", self.number.to_string());
            self.number += 1;
        }
        if let Some(place) = place {
            splice.replace(root, "output_index", place.to_string());
        }
        let written = splice.finish();
        let kind = root.string("type");
        write_event(out, kind.as_deref(), written.as_deref().unwrap_or(text.as_bytes()));
    }

    fn added(&mut self, place: usize, item: &str, out: &mut Vec<u8>) {
        self.emit("response.output_item.added", &[("output_index", &place.to_string()), ("item", item)], out);
    }

    fn done(&mut self, place: usize, item: &str, out: &mut Vec<u8>) {
        self.emit("response.output_item.done", &[("output_index", &place.to_string()), ("item", item)], out);
    }

    /// An event about an item.
    fn step(&mut self, kind: &str, place: usize, item_id: &str, more: &[(&str, &str)], out: &mut Vec<u8>) {
        let place = place.to_string();
        let id = Json::from_value(item_id);
        let mut members = vec![("item_id", id.get()), ("output_index", &*place)];
        members.extend(more);
        self.emit(kind, &members, out);
    }

    /// A call has ended; the item is whole.
    pub fn call_ended(&mut self, place: usize, item: &str, is_error: bool, out: &mut Vec<u8>) {
        if !self.has_lead {
            // What was approved is called before the response begins: the client gets it then.
            return;
        }
        let id = Object::read(item).and_then(|item| item.string("id").map(String::from)).unwrap_or_default();
        let kind = if is_error { "response.mcp_call.failed" } else { "response.mcp_call.completed" };
        self.step(kind, place, &id, &[], out);
        self.done(place, item, out);
    }

    pub fn end_round(&mut self) {
        self.shown.clear();
    }

    pub fn close(&mut self, response: &str, out: &mut Vec<u8>) {
        if let Some(kind) = self.ending.take() {
            self.emit(&kind, &[("response", response)], out);
        }
    }

    /// `body`: an error as a response has it. `last`: the last response.
    pub fn fail(&mut self, body: &[u8], last: &str, out: &mut Vec<u8>) {
        let text = std::str::from_utf8(body).unwrap_or_default().trim();
        let error = Object::read(text).and_then(|root| root.inner("error"));
        let of =
            |name: &str| error.as_ref().and_then(|error| error.json_of(name)).unwrap_or("null").to_owned();
        let code = of("code");
        let message = of("message");
        self.emit("error", &[("code", &code), ("message", &message), ("param", &of("param"))], out);
        let failed = Object::read(last).and_then(|root| {
            let mut splice = Splice::new(last);
            splice.replace(&root, "status", "\"failed\"");
            splice.replace(&root, "error", format!("{{\"code\":\"server_error\",\"message\":{message}}}"));
            String::from_utf8(splice.finish()?).ok()
        });
        self.emit("response.failed", &[("response", failed.as_deref().unwrap_or(last))], out);
    }
}

/// Takes one event of a round.
pub(super) fn take_event(of: &mut ResponsesConversation, name: Option<&str>, data: &[u8], out: &mut Vec<u8>) {
    let text = std::str::from_utf8(data).unwrap_or_default().trim();
    let Some(root) = Object::read(text) else {
        // `[DONE]`, which the API does not have.
        return;
    };
    let kind = root.string("type").unwrap_or_default().into_owned();
    match &*kind {
        "response.created" | "response.in_progress" | "response.queued" => {
            if of.is_first_round() {
                of.keep_id(root.json_of("response").unwrap_or("{}"));
                let response = of.client_response(root.json_of("response").unwrap_or("{}"), false);
                of.stream.emit(&kind, &[("response", &response)], out);
            }
        }
        "response.completed" | "response.incomplete" | "response.failed" => {
            if kind != "response.failed" {
                lead(of, out);
            }
            of.take_end(root.json_of("response").unwrap_or("{}"));
            of.stream.ending = Some(kind);
        }
        "error" => {
            of.fail();
            of.stream.relay(text, &root, None, out);
        }
        "keepalive" => of.stream.relay(text, &root, None, out),
        _ => {
            lead(of, out);
            let index = root.get("output_index").and_then(|index| index.read::<u64>());
            match index {
                Some(index) => take_item_event(of, &kind, index, text, &root, out),
                None if kind.is_empty() => write_event(out, name, data),
                None => of.stream.relay(text, &root, None, out),
            }
        }
    }
}

/// The items that are there before the model's: lists of tools, and calls that the client has approved.
fn lead(of: &mut ResponsesConversation, out: &mut Vec<u8>) {
    if std::mem::replace(&mut of.stream.has_lead, true) {
        return;
    }
    for (place, item) in of.ready_items() {
        let read = Object::read(&item);
        let id = read.as_ref().and_then(|item| item.string("id")).unwrap_or_default().into_owned();
        let is_list = read.is_some_and(|item| item.string("type").as_deref() == Some("mcp_list_tools"));
        of.stream.added(place, &item, out);
        if is_list {
            of.stream.step("response.mcp_list_tools.in_progress", place, &id, &[], out);
            of.stream.step("response.mcp_list_tools.completed", place, &id, &[], out);
        }
        of.stream.done(place, &item, out);
    }
}

fn take_item_event(
    of: &mut ResponsesConversation,
    kind: &str,
    index: u64,
    text: &str,
    root: &Object<'_>,
    out: &mut Vec<u8>,
) {
    let item = root.inner("item");
    let shown = of.stream.shown.iter().find(|(found, _)| *found == index).map(|(_, shown)| shown.clone());
    let shown = shown.unwrap_or_else(|| {
        let shown = first_shown(of, item.as_ref(), out);
        of.stream.shown.push((index, shown.clone()));
        shown
    });
    let is_done = kind == "response.output_item.done";
    match shown {
        Shown::At(place) => {
            if let Some(item) = root.json_of("item").filter(|_| is_done) {
                of.take_item(item, Some(place));
            }
            of.stream.relay(text, root, Some(place), out);
        }
        Shown::Waits(place) => {
            if let Some(item) = root.json_of("item").filter(|_| is_done)
                && let (_, Some(shown)) = of.take_item(item, Some(place))
            {
                of.stream.added(place, &shown, out);
                of.stream.done(place, &shown, out);
            }
        }
        Shown::Call { place, item_id } => match kind {
            "response.output_item.done" => {
                of.take_item(root.json_of("item").unwrap_or_default(), Some(place));
            }
            "response.function_call_arguments.delta" => {
                let delta = root.json_of("delta").unwrap_or("\"\"");
                of.stream.step(
                    "response.mcp_call_arguments.delta",
                    place,
                    &item_id,
                    &[("delta", delta)],
                    out,
                );
            }
            "response.function_call_arguments.done" => {
                let arguments = root.json_of("arguments").unwrap_or("\"\"");
                let more = [("arguments", arguments)];
                of.stream.step("response.mcp_call_arguments.done", place, &item_id, &more, out);
            }
            _ => {}
        },
    }
}

/// How an item is shown whose first event has come.
fn first_shown(of: &mut ResponsesConversation, item: Option<&Object<'_>>, out: &mut Vec<u8>) -> Shown {
    let place = of.reserve();
    match item.map(|item| of.caller(item)) {
        None | Some(ItemCaller::Other) => Shown::At(place),
        Some(ItemCaller::Waits(_)) => Shown::Waits(place),
        Some(ItemCaller::Gateway(call)) => {
            let item_id = begin_call(of, &call, place, out);
            Shown::Call { place, item_id }
        }
    }
}

fn begin_call(of: &mut ResponsesConversation, call: &RoundCall, place: usize, out: &mut Vec<u8>) -> String {
    let item = of.begun_item(place, call);
    let id = Object::read(&item).and_then(|item| item.string("id").map(String::from)).unwrap_or_default();
    of.stream.added(place, &item, out);
    of.stream.step("response.mcp_call.in_progress", place, &id, &[], out);
    id
}
