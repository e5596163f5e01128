//! The calls of a response of OpenAI's Responses API. A stream says the arguments of each several times: in deltas, when they are done, in
//! the item, and in the response that has the item.
//!
//! Where a filter looks at calls, deltas are left out and one that has all stands before the event that ends them. Deltas of kinds that are
//! not known are left out without one: the item has all.

use super::responses::{ItemKey, PartKey};
use super::{Refusal, TextFilters, quoted};
use std::collections::{HashMap, HashSet};
use words::json::splice::{Object, Splice};

/// The events of calls: that of a piece, that of the end, and the member of the latter that has all.
pub(super) const EVENTS: [CallEvents; 5] = [
    CallEvents {
        delta: "response.function_call_arguments.delta",
        done: "response.function_call_arguments.done",
        member: "arguments",
    },
    CallEvents {
        delta: "response.mcp_call_arguments.delta",
        done: "response.mcp_call_arguments.done",
        member: "arguments",
    },
    CallEvents {
        delta: "response.custom_tool_call_input.delta",
        done: "response.custom_tool_call_input.done",
        member: "input",
    },
    CallEvents {
        delta: "response.code_interpreter_call_code.delta",
        done: "response.code_interpreter_call_code.done",
        member: "code",
    },
    CallEvents {
        delta: "response.apply_patch_call_operation_diff.delta",
        done: "response.apply_patch_call_operation_diff.done",
        member: "diff",
    },
];

/// What the key of a call costs besides its text, bytes.
const KEY_COST: usize = 64;

/// The members of an item that have what is called.
const OF_ITEM: [&str; 7] = ["arguments", "input", "action", "actions", "operation", "code", "queries"];

/// The events of one kind of call.
#[derive(Debug)]
pub(super) struct CallEvents {
    pub delta: &'static str,
    pub done: &'static str,
    pub member: &'static str,
}

/// The calls that were filtered.
#[derive(Debug, Default)]
pub(super) struct CallTexts {
    /// By the name of the call and the member: what the provider sent, and what was passed on.
    passed: HashMap<(PartKey, String), Passed>,
    /// The calls whose deltas were left out.
    begun: HashSet<PartKey>,
}

#[derive(Debug)]
struct Passed {
    raw: String,
    text: String,
}

/// The members of events of calls, of kinds that are not in [`EVENTS`], that have what is called.
pub(super) const OF_EVENT: [&str; 6] = ["arguments", "input", "code", "command", "diff", "query"];

/// Whether an event has a piece of a call.
pub(super) fn is_delta(kind: &str) -> bool {
    kind.strip_suffix(".delta").is_some_and(|kind| kind.contains("_call") && !kind.contains("output"))
}

impl CallTexts {
    /// Notes that a piece of a call was left out; how many bytes are kept for it from now on.
    pub fn begin(&mut self, keys: impl Iterator<Item = PartKey>) -> usize {
        let cost = |key: &PartKey| match key {
            (ItemKey::Id(id), _) => KEY_COST + id.len(),
            (ItemKey::Index(_), _) => KEY_COST,
        };
        let bytes = |key: PartKey| {
            let bytes = cost(&key);
            if self.begun.insert(key) { bytes } else { 0 }
        };
        keys.map(bytes).sum()
    }

    /// Whether pieces of a call were left out, which ends now.
    pub fn end(&mut self, keys: impl Iterator<Item = PartKey>) -> bool {
        keys.fold(false, |is_begun, key| self.begun.remove(&key) | is_begun)
    }

    /// Filters what is called by a member of an event or an item; the text or JSON that was passed on, and how many bytes are kept of it
    /// from now on.
    pub fn member<'t>(
        &mut self,
        object: &Object<'t>,
        name: &str,
        keys: &[PartKey],
        splice: &mut Splice<'t>,
        filters: &mut TextFilters,
    ) -> Result<Option<(String, usize)>, Refusal> {
        let Some(value) = object.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
        let string = value.text();
        let raw = string.as_deref().unwrap_or_else(|| value.get());
        if raw.is_empty() || matches!(value.get(), "true" | "false") {
            return Ok(None);
        }
        let is_json = raw.starts_with(['{', '[']) && string.is_none();
        let before = keys.iter().find_map(|key| self.passed.get(&(key.clone(), name.to_owned())));
        let before = before.filter(|passed| passed.raw == raw).map(|passed| passed.text.clone());
        let mut kept = 0;
        let text = match before {
            Some(text) => text,
            None => {
                let mut text = raw.to_owned();
                filters.pass_arguments(0, &mut text)?;
                for key in keys {
                    kept += KEY_COST + raw.len() + text.len();
                    let passed = Passed { raw: raw.to_owned(), text: text.clone() };
                    self.passed.insert((key.clone(), name.to_owned()), passed);
                }
                text
            }
        };
        if text != raw {
            splice.replace(object, name, if is_json { text.clone() } else { quoted(&text) });
        }
        Ok(Some((text, kept)))
    }

    /// Filters an item that is a call; how many bytes are kept of it.
    pub fn item<'t>(
        &mut self,
        item: &Object<'t>,
        keys: &[PartKey],
        splice: &mut Splice<'t>,
        filters: &mut TextFilters,
    ) -> Result<usize, Refusal> {
        let mut kept = 0;
        for name in OF_ITEM {
            kept += self.member(item, name, keys, splice, filters)?.map_or(0, |(_, kept)| kept);
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_whose_pieces_are_left_out_is_counted_once() {
        let mut calls = CallTexts::default();
        let keys = |id: &str| [(ItemKey::Id(id.to_owned()), 0), (ItemKey::Index(0), 0)].into_iter();
        assert_eq!(calls.begin(keys("abc")), 2 * KEY_COST + 3);
        assert_eq!(calls.begin(keys("abc")), 0);
        assert_eq!(calls.begin(keys("other")), KEY_COST + 5);
        assert!(calls.end(keys("abc")) && !calls.end(keys("abc")));
    }
}
