//! A response of the Responses API in the other kind than the one it came in: a whole one as events, events as a whole one.
//!
//! For providers that send the kind that was not requested. Not an encoder: nothing is made anew, so ids, items and members
//! that this gateway does not know are kept.

use crate::api::sse::write_event;
use crate::json::Json;
use crate::json::splice::{Object, Splice};
use crate::json::write::{ObjectWriter, key};

/// What an event means for the response as a whole.
#[derive(Debug)]
pub enum Ending<'t> {
    /// Others follow.
    Open,
    /// The whole response, JSON text.
    Complete(&'t str),
    /// The text that holds the error.
    Failed(&'t str),
}

/// Reads an event: the last one of a stream has the whole response.
pub fn ending(text: &str) -> Ending<'_> {
    let Some(event) = Object::read(text) else { return Ending::Open };
    let kind = event.string("type").unwrap_or_default();
    match (&*kind, event.json_of("response")) {
        ("error", _) => Ending::Failed(text),
        ("response.failed", Some(response)) => Ending::Failed(response),
        ("response.completed" | "response.incomplete" | "response.cancelled", Some(response)) => {
            Ending::Complete(response)
        }
        _ => Ending::Open,
    }
}

/// Appends the events of a whole response; false, with nothing written, if it is not complete.
pub fn write_events(text: &str, out: &mut Vec<u8>) -> bool {
    let Some(response) = Object::read(text) else { return false };
    let last = match response.string("status").as_deref() {
        Some("queued" | "in_progress" | "failed" | "cancelled") => return false,
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    let Some(output) = list(&response, "output") else { return false };
    let begun = with(
        text,
        &response,
        &[
            ("status", "\"in_progress\""),
            ("incomplete_details", "null"),
            ("output", "[]"),
            ("output_text", "\"\""),
            ("completed_at", "null"),
            ("usage", "null"),
        ],
    );
    let mut events = Events { out, number: 0 };
    for kind in ["response.created", "response.in_progress"] {
        events.write(kind, |event| event.raw(key!("response"), &begun));
    }
    for (index, item) in (0..).zip(&output) {
        events.item(index, item.get());
    }
    events.write(last, |event| event.raw(key!("response"), text));
    true
}

/// Writes numbered events.
struct Events<'o> {
    out: &'o mut Vec<u8>,
    number: u64,
}

/// Where the text of an event belongs: its item, and its place there.
#[derive(Clone, Copy)]
struct Place<'t> {
    /// JSON text.
    item_id: Option<&'t str>,
    output_index: u64,
    /// The name and the number of the place.
    part: Option<(&'static str, u64)>,
}

impl Events<'_> {
    fn write(&mut self, kind: &str, fill: impl FnOnce(&mut ObjectWriter<'_>)) {
        let mut data = Vec::new();
        let mut event = ObjectWriter::open(&mut data);
        event.text(key!("type"), kind);
        fill(&mut event);
        event.number(key!("sequence_number"), self.number);
        event.close();
        self.number += 1;
        write_event(self.out, Some(kind), &data);
    }

    /// An event about a place of an item; `members` are JSON texts.
    fn at(&mut self, kind: &str, place: Place<'_>, members: &[(&str, &str)]) {
        self.write(kind, |event| {
            event.optional_raw(key!("item_id"), place.item_id);
            event.number(key!("output_index"), place.output_index);
            if let Some((name, number)) = place.part {
                event.number(name, number);
            }
            members.iter().for_each(|(name, json)| event.raw(*name, json));
        });
    }

    fn item(&mut self, output_index: u64, text: &str) {
        let Some(item) = Object::read(text) else { return };
        let begun = with(
            text,
            &item,
            match item.string("type").as_deref() {
                Some("message") => &[("status", "\"in_progress\""), ("content", "[]")],
                Some("function_call") => &[("status", "\"in_progress\""), ("arguments", "\"\"")],
                Some("custom_tool_call") => &[("status", "\"in_progress\""), ("input", "\"\"")],
                Some("reasoning") => &[("summary", "[]"), ("content", "[]")],
                _ => &[],
            },
        );
        self.of_item("response.output_item.added", output_index, &begun);
        let place = Place { item_id: item.json_of("id"), output_index, part: None };
        match item.string("type").as_deref() {
            Some("message") => {
                for (number, part) in (0..).zip(&list(&item, "content").unwrap_or_default()) {
                    self.part(Place { part: Some(("content_index", number)), ..place }, part.get());
                }
            }
            Some("function_call") => self.arguments(place, &item),
            Some("custom_tool_call") => {
                if let Some(input) = item.json_of("input") {
                    self.at("response.custom_tool_call_input.delta", place, &[("delta", input)]);
                    self.at("response.custom_tool_call_input.done", place, &[("input", input)]);
                }
            }
            Some("reasoning") => self.reasoning(place, &item),
            _ => {}
        }
        self.of_item("response.output_item.done", output_index, text);
    }

    fn of_item(&mut self, kind: &str, output_index: u64, item: &str) {
        self.write(kind, |event| {
            event.number(key!("output_index"), output_index);
            event.raw(key!("item"), item);
        });
    }

    /// A part of a message: text or a refusal; of any other only that it is there.
    fn part(&mut self, place: Place<'_>, text: &str) {
        let Some(part) = Object::read(text) else { return };
        let (name, family) = match part.string("type").as_deref() {
            Some("refusal") => ("refusal", "response.refusal"),
            _ => ("text", "response.output_text"),
        };
        let begun = with(text, &part, &[(name, "\"\""), ("annotations", "[]"), ("logprobs", "[]")]);
        self.at("response.content_part.added", place, &[("part", &begun)]);
        if let Some(whole) = part.json_of(name).filter(|whole| whole.starts_with('"')) {
            let logprobs = part.json_of("logprobs").unwrap_or("[]");
            let logprobs = Some(("logprobs", logprobs)).filter(|_| name == "text");
            let members = |name| -> Vec<_> { std::iter::once((name, whole)).chain(logprobs).collect() };
            if whole != "\"\"" {
                self.at(&[family, ".delta"].concat(), place, &members("delta"));
            }
            for (number, citation) in (0..).zip(&list(&part, "annotations").unwrap_or_default()) {
                let number = u64::to_string(&number);
                let members = [("annotation_index", number.as_str()), ("annotation", citation.get())];
                self.at("response.output_text.annotation.added", place, &members);
            }
            self.at(&[family, ".done"].concat(), place, &members(name));
        }
        self.at("response.content_part.done", place, &[("part", text)]);
    }

    fn arguments(&mut self, place: Place<'_>, call: &Object<'_>) {
        let Some(arguments) = call.json_of("arguments") else { return };
        self.at("response.function_call_arguments.delta", place, &[("delta", arguments)]);
        let name = call.json_of("name").map(|name| ("name", name));
        let members: Vec<_> = name.into_iter().chain([("arguments", arguments)]).collect();
        self.at("response.function_call_arguments.done", place, &members);
    }

    fn reasoning(&mut self, place: Place<'_>, item: &Object<'_>) {
        for (number, text) in (0..).zip(&list(item, "summary").unwrap_or_default()) {
            let place = Place { part: Some(("summary_index", number)), ..place };
            let Some(part) = Object::read(text.get()) else { continue };
            let begun = with(text.get(), &part, &[("text", "\"\"")]);
            self.at("response.reasoning_summary_part.added", place, &[("part", &begun)]);
            if let Some(whole) = part.json_of("text") {
                self.at("response.reasoning_summary_text.delta", place, &[("delta", whole)]);
                self.at("response.reasoning_summary_text.done", place, &[("text", whole)]);
            }
            self.at("response.reasoning_summary_part.done", place, &[("part", text.get())]);
        }
        for (number, text) in (0..).zip(&list(item, "content").unwrap_or_default()) {
            let place = Place { part: Some(("content_index", number)), ..place };
            let Some(part) = Object::read(text.get()) else { continue };
            if let Some(whole) = part.json_of("text") {
                self.at("response.reasoning_text.delta", place, &[("delta", whole)]);
                self.at("response.reasoning_text.done", place, &[("text", whole)]);
            }
        }
    }
}

/// The values of a member that is a list.
fn list<'t>(object: &Object<'t>, name: &str) -> Option<Vec<Json<'t>>> {
    serde_json::from_str(object.json_of(name)?).ok()
}

/// The object with other values for those of the members that it has.
fn with<'t>(text: &'t str, object: &Object<'t>, values: &[(&str, &str)]) -> String {
    let mut splice = Splice::new(text);
    values.iter().for_each(|(name, json)| splice.replace(object, name, *json));
    let changed = splice.finish().and_then(|text| String::from_utf8(text).ok());
    changed.unwrap_or_else(|| text.to_owned())
}
