//! The texts of a response of OpenAI's Responses API. A stream says each of them several times: in deltas, when the text is done, and
//! in the part, the item and the response that hold it.
//!
//! A text is filtered the first time it comes, and later ones are replaced by what was passed on then. Events that are
//! left with no text are dropped, and what a filter held back gets an event of its own; `sequence_number` counts what the client gets.
//!
//! ```text
//! output_text.delta "the se"            output_text.delta "the "
//! output_text.delta "cret"              (held back)
//! output_text.done "the secret"         output_text.delta "***", output_text.done "the ***"
//! response.completed ..."the secret"..  response.completed ..."the ***"..
//! ```

use super::{Change, Refusal, Rewritten, TextFilters, objects, quoted};
use crate::json::splice::{Object, Splice};
use crate::json::write::{ObjectWriter, key};
use std::collections::HashMap;

/// The most that is kept of the texts of a stream, bytes.
const MAX_KEPT: usize = 64 << 20;
/// What a part costs besides its text, bytes.
const PART_COST: usize = 128;
const DELTA: &str = "response.output_text.delta";
/// The members of an event that name the part it belongs to.
const PLACE: [&str; 3] = ["item_id", "output_index", "content_index"];

/// What is known of the texts so far.
#[derive(Debug, Default)]
pub(super) struct ResponseText {
    parts: Vec<PartText>,
    /// The parts by every name that their events gave them.
    by_key: HashMap<PartKey, usize>,
    open: Option<OpenPart>,
    /// How many events more than the provider sent were written.
    added: i64,
    /// Bytes kept in `parts`.
    kept: usize,
}

/// An item, and the place of a part in its content.
type PartKey = (ItemKey, u32);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum ItemKey {
    Id(String),
    /// The place in the output.
    Index(u32),
}

/// The names of one part.
#[derive(Debug)]
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
}

/// The part whose deltas arrive. Some of its text may be held back.
#[derive(Debug)]
struct OpenPart {
    number: usize,
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
        let interrupts = match &*kind {
            DELTA => !self.is_open(&names),
            // The text goes on behind a citation. That of a response that failed is lost as far as it was held.
            "response.output_text.annotation.added" | "response.failed" => false,
            kind => kind.starts_with("response."),
        };
        let before = if interrupts { self.close(number, filters)? } else { None };
        let mut splice = Splice::new(text);
        let keeps = match &*kind {
            DELTA => self.delta(event, &names, &mut splice, filters)?,
            "response.output_text.annotation.added" => !self.find(&names).is_some_and(|part| part.changed),
            "response.output_text.done" => {
                self.replace(event, "text", &names, &mut splice, filters).map(|_| true)?
            }
            "response.content_part.added" | "response.content_part.done" => {
                if let Some(part) = event.inner("part").filter(is_text) {
                    self.replace(&part, "text", &names, &mut splice, filters)?;
                }
                true
            }
            _ => {
                if let Some(item) = event.inner("item") {
                    self.item(&item, names.index, &mut splice, filters)?;
                }
                if let Some(response) = event.inner("response") {
                    self.response(&response, &mut splice, filters)?;
                }
                true
            }
        };
        let before = before.map(|data| (data, DELTA));
        if !keeps {
            self.added -= 1;
            return Ok(Rewritten { before, event: Change::Dropped });
        }
        if let Some(number) = number.filter(|_| self.added != 0) {
            splice.replace(event, "sequence_number", (number + self.added).to_string());
        }
        Ok(Rewritten { before, event: splice.finish().map_or(Change::None, Change::Data) })
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
        Ok(splice.finish())
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
        let Some(raw) = response.string("output_text").filter(|raw| !raw.is_empty()) else { return Ok(()) };
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
        if item.string("type").is_some_and(|kind| kind != "message") {
            return Ok(String::new());
        }
        if item.string("content").is_some() {
            return self.replace(item, "content", &PartNames::of_item(item, index, 0), splice, filters);
        }
        let mut all = String::new();
        for (place, part) in objects(item, "content")? {
            if is_text(&part) {
                let names = PartNames::of_item(item, index, place);
                all.push_str(&self.replace(&part, "text", &names, splice, filters)?);
            }
        }
        Ok(all)
    }

    /// Filters a delta; false if nothing is left of it.
    fn delta<'t>(
        &mut self,
        event: &Object<'t>,
        names: &PartNames,
        splice: &mut Splice<'t>,
        filters: &mut TextFilters,
    ) -> Result<bool, Refusal> {
        let raw = event.string("delta").unwrap_or_default();
        if raw.is_empty() {
            return Ok(true);
        }
        let mut passed = String::new();
        filters.pass_text(0, &raw, &mut passed)?;
        let number = self.number_of(names)?;
        if self.open.is_none() {
            let place = PLACE.map(|name| event.json_of(name).map(str::to_owned));
            self.open = Some(OpenPart { number, place });
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
        let Some(raw) = object.string(member).filter(|raw| !raw.is_empty()) else { return Ok(String::new()) };
        if self.find(names).is_none() {
            let mut passed = String::new();
            filters.pass_text(0, &raw, &mut passed)?;
            filters.pass_rest(0, &mut passed)?;
            let number = self.number_of(names)?;
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

    /// The text of the open part is interrupted or ends: the data of an event with what was held back of it.
    fn close(&mut self, number: Option<i64>, filters: &mut TextFilters) -> Result<Option<Vec<u8>>, Refusal> {
        let Some(open) = self.open.take() else { return Ok(None) };
        let mut held = String::new();
        filters.pass_rest(0, &mut held)?;
        if held.is_empty() {
            return Ok(None);
        }
        self.append(open.number, &held)?;
        let mut data = Vec::new();
        let mut event = ObjectWriter::open(&mut data);
        event.text(key!("type"), DELTA);
        for (name, json) in PLACE.into_iter().zip(&open.place) {
            event.optional_raw(name, json.as_deref());
        }
        event.text(key!("delta"), &held);
        event.raw(key!("logprobs"), "[]");
        if let Some(number) = number {
            event.raw(key!("sequence_number"), &(number + self.added).to_string());
        }
        event.close();
        self.added += 1;
        Ok(Some(data))
    }

    fn is_open(&self, names: &PartNames) -> bool {
        let number = names.keys().next().and_then(|key| self.by_key.get(&key));
        self.open.as_ref().is_some_and(|open| number == Some(&open.number))
    }

    /// The part by its id, or else by its place: some servers name the items anew in the last event.
    fn find(&self, names: &PartNames) -> Option<&PartText> {
        let number = names.keys().find_map(|key| self.by_key.get(&key))?;
        self.parts.get(*number)
    }

    /// The number of a part, which is added if its surest name is new.
    fn number_of(&mut self, names: &PartNames) -> Result<usize, Refusal> {
        if let Some(number) = names.keys().next().and_then(|key| self.by_key.get(&key)) {
            return Ok(*number);
        }
        let number = self.parts.len();
        self.parts.push(PartText::default());
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
        match self.kept > MAX_KEPT {
            true => Err(Refusal::unreadable("its text is over 64 MiB")),
            false => Ok(()),
        }
    }
}

/// Whether a part of a message is text that is filtered. Refusals and reasoning are not.
fn is_text(part: &Object<'_>) -> bool {
    let kind = part.string("type").unwrap_or_default();
    !matches!(&*kind, "refusal" | "reasoning_text" | "summary_text")
}

/// Empties a list that describes text which was changed.
fn clear<'t>(splice: &mut Splice<'t>, object: &Object<'t>, name: &str) {
    if object.json_of(name).is_some_and(|list| list.starts_with('[') && list != "[]") {
        splice.replace(object, name, "[]");
    }
}
