//! The texts of a response of OpenAI's Responses API. A stream says each of them several times: in deltas, when the text is done, and
//! in the part, the item and the response that hold it.
//!
//! A text is filtered the first time it comes, and later ones are replaced by what was passed on then. Events that are
//! left with no text are dropped, and what a filter held back gets an event of its own; `sequence_number` counts what the client gets.
//! What is held back stays so until its part ends, whatever other events come meanwhile: those name what they belong to, so their order
//! does not matter. Each part is a choice for the filters, and all of them together are one text.
//!
//! ```text
//! output_text.delta "the se"            output_text.delta "the "
//! output_text.delta "cret"              (held back)
//! output_text.done "the secret"         output_text.delta "***", output_text.done "the ***"
//! response.completed ..."the secret"..  response.completed ..."the ***"..
//! ```

use super::calls::{self, CallEvents, CallTexts};
use super::unlisted::{others, others_of_part, unlisted_event};
use super::{Change, Refusal, Rewritten, TextFilters, objects, quoted};
use std::borrow::Cow;
use std::collections::HashMap;
use words::api::responses::{is_call, is_listed_event, is_listed_item, text_of_part};
use words::json::splice::{Object, Splice};
use words::json::write::{ObjectWriter, key};

/// The most that is kept of the texts of a stream, bytes.
const MAX_KEPT: usize = 64 << 20;
/// What a part costs besides its text, bytes.
const PART_COST: usize = 128;
/// The texts of a part, by the events that have them.
const TEXTS: [TextEvents; 2] = [
    TextEvents {
        delta: "response.output_text.delta",
        done: "response.output_text.done",
        member: "text",
        has_logprobs: true,
    },
    TextEvents {
        delta: "response.refusal.delta",
        done: "response.refusal.done",
        member: "refusal",
        has_logprobs: false,
    },
];
/// The members of an event that name the part it belongs to.
const PLACE: [&str; 3] = ["item_id", "output_index", "content_index"];

/// The events of one kind of text.
#[derive(Debug)]
struct TextEvents {
    delta: &'static str,
    done: &'static str,
    /// The member of the latter, and of the part, that has all of it.
    member: &'static str,
    has_logprobs: bool,
}

/// What is known of the texts so far.
#[derive(Debug, Default)]
pub(super) struct ResponseText {
    parts: Vec<PartText>,
    /// The parts by every name that their events gave them.
    by_key: HashMap<PartKey, usize>,
    /// The parts whose deltas arrive. Some of their text may be held back.
    open: Vec<OpenPart>,
    /// The calls between the texts.
    calls: CallTexts,
    /// The last part that is no refusal, and the last that is one: the next one of its kind goes on with its text.
    last_text: Option<usize>,
    last_refusal: Option<usize>,
    /// How many events more than the provider sent were written.
    added: i64,
    /// Bytes kept in `parts` and `calls`.
    kept: usize,
}

/// An item, and the place of a part in its content.
pub(super) type PartKey = (ItemKey, u32);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ItemKey {
    Id(String),
    /// The place in the output.
    Index(u32),
}

/// The names of one part.
#[derive(Debug, Clone)]
struct PartNames {
    id: Option<String>,
    index: Option<u32>,
    part: u32,
}

/// What was passed on of the text of one part.
#[derive(Debug, Default)]
struct PartText {
    text: String,
    changed: bool,
    /// It is one of [`ResponseText::open`].
    is_open: bool,
}

/// A part whose deltas arrive.
#[derive(Debug)]
struct OpenPart {
    number: usize,
    events: &'static TextEvents,
    names: PartNames,
    /// The members that name it, JSON texts.
    place: [Option<String>; 3],
}

impl PartNames {
    fn of_event(event: &Object<'_>) -> Self {
        let number = |name| event.get(name).and_then(|value| value.read::<u32>());
        let id = event.string("item_id").map(std::borrow::Cow::into_owned);
        Self { id, index: number("output_index"), part: number("content_index").unwrap_or_default() }
    }

    fn of_item(item: &Object<'_>, index: Option<u32>, part: u32) -> Self {
        Self { id: item.string("id").map(std::borrow::Cow::into_owned), index, part }
    }

    /// Whether it is a part of this item.
    fn is_in(&self, id: Option<&str>, index: Option<u32>) -> bool {
        match (self.id.as_deref(), id) {
            (Some(own), Some(id)) => own == id,
            _ => self.index == index,
        }
    }

    /// All keys, the surest first.
    fn keys(&self) -> impl Iterator<Item = PartKey> {
        let id = self.id.clone().map(ItemKey::Id);
        // A server that names no item has only one.
        let index = self.index.or(id.is_none().then_some(0)).map(ItemKey::Index);
        let part = self.part;
        id.into_iter().chain(index).map(move |item| (item, part))
    }
}

impl ResponseText {
    /// Filters one event of a stream.
    pub fn event(
        &mut self,
        text: &str,
        event: &Object<'_>,
        filters: &mut TextFilters,
    ) -> Result<Rewritten, Refusal> {
        let kind = event.string("type").unwrap_or_default();
        let number = event.get("sequence_number").and_then(|number| number.read::<i64>());
        let names = PartNames::of_event(event);
        let mut before = self.before(&kind, event, &names, number, filters)?;
        let mut splice = Splice::new(text);
        if let Some(of) = calls::EVENTS.iter().find(|of| of.done == kind) {
            before.extend(self.call_done(of, event, &names, &mut splice, filters)?);
        }
        let of_text = TEXTS.iter().find(|of| of.delta == kind || of.done == kind);
        let keeps = match &*kind {
            kind if let Some(of) = of_text => {
                let is_delta = kind == of.delta;
                if is_delta {
                    self.delta(of, event, &names, &mut splice, filters)?
                } else {
                    self.replace(event, of.member, &names, &mut splice, filters).map(|_| true)?
                }
            }
            kind if filters.reads_calls() && calls::is_delta(kind) => {
                let kept = self.calls.begin(names.keys());
                self.keep(kept)?;
                false
            }
            "response.output_text.annotation.added" => !self.find(&names).is_some_and(|part| part.changed),
            "response.content_part.added" | "response.content_part.done" => {
                if let Some(part) = event.inner("part")
                    && let Some(member) = text_member(&part)
                {
                    self.replace(&part, member, &names, &mut splice, filters)?;
                    others_of_part(&part, &mut splice, filters)?;
                }
                true
            }
            // All of it follows. One text in pieces of a kind that is in no list has no place to be looked at.
            kind if kind.ends_with(".delta") && !is_listed_event(kind) && filters.reads_calls() => false,
            kind => {
                if let Some(item) = event.inner("item") {
                    self.item(&item, names.index, &mut splice, filters)?;
                }
                if let Some(response) = event.inner("response") {
                    self.response(&response, &mut splice, filters)?;
                }
                if !is_listed_event(kind) {
                    unlisted_event(kind, event, &mut splice, filters)?;
                } else if kind.contains("_call") && !calls::EVENTS.iter().any(|of| of.done == kind) {
                    self.call_event(event, &names, &mut splice, filters)?;
                }
                if is_last(kind) {
                    self.end(filters)?;
                }
                true
            }
        };
        if !keeps {
            self.added -= 1;
            return Ok(Rewritten { before, event: Change::Dropped });
        }
        if let Some(number) = number.filter(|_| self.added != 0) {
            splice.replace(event, "sequence_number", (number + self.added).to_string());
        }
        Ok(Rewritten { before, event: splice.finish().map_or(Change::None, Change::Data) })
    }

    /// Filters the event that ends the arguments of a call; the data and name of an event before it, with what was left out.
    fn call_done<'t>(
        &mut self,
        of: &CallEvents,
        event: &Object<'t>,
        names: &PartNames,
        splice: &mut Splice<'t>,
        filters: &mut TextFilters,
    ) -> Result<Option<(Vec<u8>, &'static str)>, Refusal> {
        let keys: Vec<PartKey> = names.keys().collect();
        let passed = self.calls.member(event, of.member, &keys, splice, filters)?;
        let is_begun = self.calls.end(names.keys());
        let Some((text, kept)) = passed else { return Ok(None) };
        self.keep(kept)?;
        if !is_begun {
            return Ok(None);
        }
        let number = event.get("sequence_number").and_then(|number| number.read::<i64>());
        let mut data = Vec::new();
        let mut delta = ObjectWriter::open(&mut data);
        delta.text(key!("type"), of.delta);
        for name in PLACE {
            delta.optional_raw(name, event.json_of(name));
        }
        delta.text(key!("delta"), &text);
        if let Some(number) = number {
            delta.raw(key!("sequence_number"), &(number + self.added).to_string());
        }
        delta.close();
        self.added += 1;
        Ok(Some((data, of.delta)))
    }

    /// Filters what is called in an event of a call that has no place of its own in a stream.
    fn call_event<'t>(
        &mut self,
        event: &Object<'t>,
        names: &PartNames,
        splice: &mut Splice<'t>,
        filters: &mut TextFilters,
    ) -> Result<(), Refusal> {
        let keys: Vec<PartKey> = names.keys().collect();
        for name in calls::OF_EVENT {
            let kept = self.calls.member(event, name, &keys, splice, filters)?.map_or(0, |(_, kept)| kept);
            self.keep(kept)?;
        }
        Ok(())
    }

    /// Ends what ends with this event: events with what was held back.
    fn before(
        &mut self,
        kind: &str,
        event: &Object<'_>,
        names: &PartNames,
        number: Option<i64>,
        filters: &mut TextFilters,
    ) -> Result<Vec<(Vec<u8>, &'static str)>, Refusal> {
        match kind {
            "response.output_text.done" | "response.refusal.done" | "response.content_part.done" => {
                let part = names.keys().find_map(|key| self.by_key.get(&key)).copied();
                self.close(number, filters, |open| Some(open.number) == part)
            }
            "response.output_item.done" => {
                let item = event.inner("item");
                let id = item.as_ref().and_then(|item| item.string("id"));
                self.close(number, filters, |open| open.names.is_in(id.as_deref(), names.index))
            }
            kind if is_last(kind) => self.close(number, filters, |_| true),
            _ => Ok(Vec::new()),
        }
    }

    /// Filters a whole response; `None` if it stays as it is.
    pub fn whole(
        &mut self,
        text: &str,
        response: &Object<'_>,
        filters: &mut TextFilters,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let mut splice = Splice::new(text);
        self.response(response, &mut splice, filters)?;
        self.end(filters)?;
        Ok(splice.finish())
    }

    /// All of the response was read: one without text ends as well.
    fn end(&self, filters: &mut TextFilters) -> Result<(), Refusal> {
        if self.parts.is_empty() { Ok(filters.pass_rest(0, &mut String::new())?) } else { Ok(()) }
    }

    fn response<'t>(
        &mut self,
        response: &Object<'t>,
        splice: &mut Splice<'t>,
        filters: &mut TextFilters,
    ) -> Result<(), Refusal> {
        let mut all = String::new();
        for (index, item) in objects(response, "output")? {
            all.push_str(&self.item(&item, Some(index), splice, filters)?);
        }
        // Some servers send what SDKs add: all texts in one.
        let Some(raw) = text(response, "output_text")? else { return Ok(()) };
        if all.is_empty() {
            filters.pass_text(0, &raw, &mut all)?;
            filters.pass_rest(0, &mut all)?;
        }
        if all != raw {
            splice.replace(response, "output_text", quoted(&all));
        }
        Ok(())
    }

    /// Filters the texts of an item of the output; returns them.
    fn item<'t>(
        &mut self,
        item: &Object<'t>,
        index: Option<u32>,
        splice: &mut Splice<'t>,
        filters: &mut TextFilters,
    ) -> Result<String, Refusal> {
        match item.string("type").as_deref() {
            None | Some("message") => {}
            Some(kind) => {
                let keys = || PartNames::of_item(item, index, 0).keys().collect::<Vec<PartKey>>();
                if is_call(kind) {
                    let kept = self.calls.item(item, &keys(), splice, filters)?;
                    self.keep(kept)?;
                } else if !is_listed_item(kind) {
                    others(item, &["content"], splice, filters)?;
                    for (_, part) in objects(item, "content")? {
                        others(&part, &[], splice, filters)?;
                    }
                }
                return Ok(String::new());
            }
        }
        let keys: Vec<PartKey> = PartNames::of_item(item, index, 0).keys().collect();
        let kept = self.calls.member(item, "refusal", &keys, splice, filters)?.map_or(0, |(_, kept)| kept);
        self.keep(kept)?;
        if item.json_of("content").is_some_and(|content| content.starts_with('"')) {
            return self.replace(item, "content", &PartNames::of_item(item, index, 0), splice, filters);
        }
        let mut all = String::new();
        for (place, part) in objects(item, "content")? {
            if let Some(member) = text_member(&part) {
                let names = PartNames::of_item(item, index, place);
                let text = self.replace(&part, member, &names, splice, filters)?;
                others_of_part(&part, splice, filters)?;
                // What SDKs put together has no refusal in it.
                all.push_str(if member == "text" { &text } else { "" });
            }
        }
        Ok(all)
    }

    /// Filters a delta; false if nothing is left of it.
    fn delta<'t>(
        &mut self,
        events: &'static TextEvents,
        event: &Object<'t>,
        names: &PartNames,
        splice: &mut Splice<'t>,
        filters: &mut TextFilters,
    ) -> Result<bool, Refusal> {
        let Some(raw) = text(event, "delta")? else { return Ok(true) };
        let number = self.number_of(names, events.member, filters)?;
        let mut passed = String::new();
        filters.pass_text(choice(number), &raw, &mut passed)?;
        let part = self.parts.get_mut(number);
        if part.is_some_and(|part| !std::mem::replace(&mut part.is_open, true)) {
            let place = PLACE.map(|name| event.json_of(name).map(str::to_owned));
            self.open.push(OpenPart { number, events, names: names.clone(), place });
        }
        let changed = passed != raw;
        let part = self.append(number, &passed)?;
        part.changed |= changed;
        if part.changed {
            clear(splice, event, "logprobs");
        }
        if changed {
            splice.replace(event, "delta", quoted(&passed));
        }
        Ok(!passed.is_empty())
    }

    /// Replaces a text by what was passed on of it; filters it if it comes for the first time. Returns it.
    fn replace<'t>(
        &mut self,
        object: &Object<'t>,
        member: &str,
        names: &PartNames,
        splice: &mut Splice<'t>,
        filters: &mut TextFilters,
    ) -> Result<String, Refusal> {
        let Some(raw) = text(object, member)? else { return Ok(String::new()) };
        if self.find(names).is_none() {
            let number = self.number_of(names, member, filters)?;
            let mut passed = String::new();
            filters.pass_text(choice(number), &raw, &mut passed)?;
            filters.pass_rest(choice(number), &mut passed)?;
            let changed = passed != raw;
            self.append(number, &passed)?.changed = changed;
        }
        let Some(part) = self.find(names) else { return Ok(String::new()) };
        if part.text != raw {
            splice.replace(object, member, quoted(&part.text));
        }
        if part.changed {
            clear(splice, object, "logprobs");
            clear(splice, object, "annotations");
        }
        Ok(part.text.clone())
    }

    /// Open parts end: the data and name of an event for each of which text was held back.
    fn close(
        &mut self,
        number: Option<i64>,
        filters: &mut TextFilters,
        ends: impl Fn(&OpenPart) -> bool,
    ) -> Result<Vec<(Vec<u8>, &'static str)>, Refusal> {
        let mut events = Vec::new();
        for ended in self.open.extract_if(.., |open| ends(open)).collect::<Vec<_>>() {
            let mut held = String::new();
            filters.pass_rest(choice(ended.number), &mut held)?;
            self.append(ended.number, &held)?.is_open = false;
            if held.is_empty() {
                continue;
            }
            let mut data = Vec::new();
            let mut event = ObjectWriter::open(&mut data);
            event.text(key!("type"), ended.events.delta);
            for (name, json) in PLACE.into_iter().zip(&ended.place) {
                event.optional_raw(name, json.as_deref());
            }
            event.text(key!("delta"), &held);
            if ended.events.has_logprobs {
                event.raw(key!("logprobs"), "[]");
            }
            if let Some(number) = number {
                event.raw(key!("sequence_number"), &(number + self.added).to_string());
            }
            event.close();
            self.added += 1;
            events.push((data, ended.events.delta));
        }
        Ok(events)
    }

    /// The part by its id, or else by its place: some servers name the items anew in the last event.
    fn find(&self, names: &PartNames) -> Option<&PartText> {
        let number = names.keys().find_map(|key| self.by_key.get(&key))?;
        self.parts.get(*number)
    }

    /// The number of a part with its text in this member, which is added if its surest name is new.
    fn number_of(
        &mut self,
        names: &PartNames,
        member: &str,
        filters: &mut TextFilters,
    ) -> Result<usize, Refusal> {
        if let Some(number) = names.keys().next().and_then(|key| self.by_key.get(&key)) {
            return Ok(*number);
        }
        let number = self.parts.len();
        self.parts.push(PartText::default());
        let last = if member == "refusal" { &mut self.last_refusal } else { &mut self.last_text };
        if let Some(before) = last.replace(number) {
            filters.follow(choice(number), choice(before));
        }
        for key in names.keys() {
            self.by_key.entry(key).or_insert(number);
        }
        self.keep(PART_COST + names.id.as_ref().map_or(0, String::len))?;
        Ok(number)
    }

    fn append(&mut self, number: usize, text: &str) -> Result<&mut PartText, Refusal> {
        self.keep(text.len())?;
        let part = self.parts.get_mut(number).ok_or_else(|| Refusal::unreadable("a text has no place"))?;
        part.text.push_str(text);
        Ok(part)
    }

    fn keep(&mut self, bytes: usize) -> Result<(), Refusal> {
        self.kept += bytes;
        if self.kept > MAX_KEPT { Err(Refusal::unreadable("its text is over 64 MiB")) } else { Ok(()) }
    }
}

/// The number of a part, as filters know it.
fn choice(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Whether nothing follows an event of this type. What a response that failed holds back is lost.
fn is_last(kind: &str) -> bool {
    matches!(kind, "response.completed" | "response.incomplete" | "response.cancelled")
}

/// The text in a member; `None`: there is none.
fn text<'o>(object: &'o Object<'_>, name: &str) -> Result<Option<Cow<'o, str>>, Refusal> {
    let Some(value) = object.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let text = value.text().ok_or_else(|| Refusal::unreadable(&format!("its {name} is no text")))?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// The member of a part of a message whose text is filtered. Reasoning is not.
fn text_member(part: &Object<'_>) -> Option<&'static str> {
    let is_refusal = !part.has("type") && part.has("refusal") && !part.has("text");
    if is_refusal { Some("refusal") } else { text_of_part(&part.string("type").unwrap_or_default()) }
}

/// Empties a list that describes text which was changed.
fn clear<'t>(splice: &mut Splice<'t>, object: &Object<'t>, name: &str) {
    if object.json_of(name).is_some_and(|list| list.starts_with('[') && list != "[]") {
        splice.replace(object, name, "[]");
    }
}

#[cfg(test)]
mod tests;
