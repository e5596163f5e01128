//! Filters JSON of a kind that no list names: each text in it by itself, whatever it is called, and nothing that names, seals or is a medium.
//!
//! Nothing is kept of it: what comes again is filtered again.

use super::super::text_filters::TextFilters;
use super::{Refusal, quoted};
use std::ops::Range;
use words::api::responses::is_listed_part;
use words::api::unlisted::{is_medium, is_seal, is_telling_number, names_something};
use words::error::Error;
use words::json::Json;
use words::json::splice::{Object, Splice, apply};
use words::json::walk;

/// How deep it is read; what is deeper is one text, as it is written.
const MAX_DEPTH: usize = 64;

/// The JSON of a member called `name`, if it has changed.
///
/// # Errors
/// The response is denied.
pub(in super::super) fn filtered(
    name: &str,
    json: &str,
    filters: &mut TextFilters,
) -> Result<Option<String>, Error> {
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    let mut walk = Walk { json, filters, changes: &mut changes };
    walk.value(name, json, 0)?;
    let changed = (!changes.is_empty()).then(|| apply(json.as_bytes(), &changes));
    Ok(changed.and_then(|bytes| String::from_utf8(bytes).ok()))
}

/// Filters an event of a kind that is in no list: a vendor may have added it.
pub(super) fn unlisted_event<'t>(
    kind: &str,
    event: &Object<'t>,
    splice: &mut Splice<'t>,
    filters: &mut TextFilters,
) -> Result<(), Refusal> {
    let has_text = || {
        let has_some = |name: &str| !event.list(name).is_empty() || event.inner(name).is_some();
        ["choices", "candidates", "delta"].iter().any(|name| has_some(name))
            || event.string("delta").is_some()
    };
    if kind.is_empty() && filters.reads_calls() && has_text() {
        return Err(Refusal::unreadable("an event of its stream has no type, but a text"));
    }
    // Read as what they are.
    others(event, &["response", "item", "part", "error"], splice, filters)?;
    match event.json_of("error").filter(|_| !kind.is_empty()) {
        Some(error) => member(event, "error", error, splice, filters),
        None => Ok(()),
    }
}

/// Filters what a part of a kind that is in no list has besides a text: what was spoken, for one.
pub(super) fn others_of_part<'t>(
    part: &Object<'t>,
    splice: &mut Splice<'t>,
    filters: &mut TextFilters,
) -> Result<(), Refusal> {
    if is_listed_part(&part.string("type").unwrap_or_default()) {
        return Ok(());
    }
    others(part, &["text", "refusal", "data", "annotations", "logprobs"], splice, filters)
}

/// Filters every text in the members, but those of `without`.
pub(super) fn others<'t>(
    object: &Object<'t>,
    without: &[&str],
    splice: &mut Splice<'t>,
    filters: &mut TextFilters,
) -> Result<(), Refusal> {
    if !filters.reads_calls() {
        return Ok(());
    }
    let members = object.members().filter(|(name, _)| !without.contains(name));
    for (name, json) in members.filter_map(|(name, value)| Some((name, value.source()?))) {
        member(object, name, json, splice, filters)?;
    }
    Ok(())
}

fn member<'t>(
    object: &Object<'t>,
    name: &str,
    json: &str,
    splice: &mut Splice<'t>,
    filters: &mut TextFilters,
) -> Result<(), Refusal> {
    if let Some(changed) = filtered(name, json, filters)? {
        splice.replace(object, name, changed);
    }
    Ok(())
}

struct Walk<'w> {
    json: &'w str,
    filters: &'w mut TextFilters,
    changes: &'w mut Vec<(Range<usize>, String)>,
}

impl Walk<'_> {
    fn value(&mut self, name: &str, json: &str, depth: usize) -> Result<(), Error> {
        if is_seal(name) || names_something(name) {
            return Ok(());
        }
        match json.bytes().next() {
            Some(b'"') => {
                let text =
                    Json::parse(json).and_then(|json| json.text().map(String::from)).unwrap_or_default();
                if is_medium(name, &text) { Ok(()) } else { self.text(json, text) }
            }
            Some(b'{' | b'[') if depth >= MAX_DEPTH => self.text(json, json.to_owned()),
            Some(b'{') => {
                let Some(object) = Object::read(json) else { return Ok(()) };
                let mut members = object.members().filter_map(|(name, value)| Some((name, value.source()?)));
                members.try_for_each(|(name, value)| self.value(name, value, depth + 1))
            }
            Some(b'[') => {
                let items = walk::items(json.as_bytes()).into_iter().flatten();
                let mut items = items.filter_map(|item| std::str::from_utf8(item).ok());
                items.try_for_each(|item| self.value(name, item, depth + 1))
            }
            _ if is_telling_number(json) => self.text(json, json.to_owned()),
            _ => Ok(()),
        }
    }

    fn text(&mut self, json: &str, before: String) -> Result<(), Error> {
        let mut text = before.clone();
        self.filters.pass_arguments(0, &mut text)?;
        if text != before {
            let start = (json.as_ptr() as usize).saturating_sub(self.json.as_ptr() as usize);
            self.changes.push((start..start + json.len(), quoted(&text)));
        }
        Ok(())
    }
}
