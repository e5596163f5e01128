//! Assembles the tool calls of one choice.
//!
//! Vendors disagree on how the fragments of a call are matched: by `index` (OpenAI), by id with every index 0
//! (some Gemini proxies), or not at all. Some send the id first and the name later. For example:
//!
//! ```text
//! {"index":0,"id":"a","function":{"arguments":"{"}}         no name yet: held
//! {"index":0,"function":{"name":"f","arguments":"}"}}       ToolCall a f, Arguments "{", Arguments "}"
//! {"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}   same index, other id: a new call
//! ```

use super::chunk::{CallIn, FunctionIn, non_empty_text};
use std::borrow::Cow;
use words::api::chat::{Event, EventSink};
use words::json::Json;

/// More calls than any model makes in one response.
const MAX_CALLS: usize = 256;
/// The maximum of arguments held for a call without a name so far, in bytes.
const MAX_HELD_ARGUMENTS: usize = 1 << 20;

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    /// The vendor's index.
    key: Option<u64>,
    id: String,
    emitted: bool,
    /// Arguments that arrived before the name.
    held: String,
    signature: Option<String>,
}

/// A call, or a fragment of one, as the vendor sent it.
struct Fragment<'a> {
    call: &'a CallIn<'a>,
    function: Option<&'a FunctionIn<'a>>,
    signature: Option<Cow<'a, str>>,
    /// Whether it is part of a delta, and continues an earlier fragment if it matches one.
    streamed: bool,
}

impl Calls {
    /// Takes the calls of one message, or the call fragments of one delta.
    pub fn take(&mut self, choice: u32, calls: &Json<'_>, streamed: bool, sink: EventSink<'_>) {
        let list: Vec<CallIn<'_>> = calls.read().unwrap_or_default();
        for call in &list {
            let function = call.function.as_ref().or(call.custom.as_ref());
            let signature = call.extra_content.as_ref().and_then(|extra| extra.google.as_ref());
            let signature = signature.and_then(|google| non_empty_text(&google.thought_signature));
            let fragment = Fragment { call, function, signature, streamed };
            self.take_one(choice, fragment, sink);
        }
    }

    /// Takes a call in OpenAI's retired format: one call without an id.
    pub(crate) fn take_function(
        &mut self,
        choice: u32,
        function: &Json<'_>,
        streamed: bool,
        sink: EventSink<'_>,
    ) {
        if let Some(function) = function.read::<FunctionIn<'_>>() {
            let call = CallIn { index: Json::parse("0"), ..CallIn::default() };
            let fragment = Fragment { call: &call, function: Some(&function), signature: None, streamed };
            self.take_one(choice, fragment, sink);
        }
    }

    fn take_one(&mut self, choice: u32, fragment: Fragment<'_>, sink: EventSink<'_>) {
        let Fragment { call, function, signature, streamed } = fragment;
        let id = non_empty_text(&call.id).unwrap_or_default();
        let name = function.and_then(|function| non_empty_text(&function.name)).unwrap_or_default();
        let key = call.index.as_ref().and_then(|index| index.read::<u64>());
        let found = if streamed { self.find(key, &id, &name) } else { None };
        let at = match found {
            Some(at) => at,
            None if self.0.len() >= MAX_CALLS => return,
            None => {
                self.0.push(Call { key, id: id.into_owned(), ..Call::default() });
                self.0.len() - 1
            }
        };
        let Some(entry) = self.0.get_mut(at) else { return };
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        let signature =
            signature.or_else(|| function.and_then(|function| non_empty_text(&function.thought_signature)));
        entry.signature = entry.signature.take().or(signature.map(Cow::into_owned));
        if !name.is_empty() {
            entry.start(choice, at, &name, sink);
        }
        if let Some(fragment) = function.and_then(arguments) {
            entry.append_arguments(choice, at, &fragment, sink);
        }
    }

    /// Finds the call that a fragment belongs to; `None` for a new one.
    fn find(&self, key: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let same = match key {
            Some(_) => self.0.iter().rposition(|call| call.key == key)?,
            None if !id.is_empty() => return self.0.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => return None,
            None => return self.0.len().checked_sub(1),
        };
        // A different call under the same index.
        let other = |call: &Call| !id.is_empty() && !name.is_empty() && !call.id.is_empty() && call.id != id;
        (!self.0.get(same).is_some_and(other)).then_some(same)
    }

    /// Whether a call has an id or arguments but no name, so that no client could execute it.
    pub(crate) fn has_nameless(&self) -> bool {
        let is_empty = |call: &Call| call.id.is_empty() && call.held.is_empty();
        self.0.iter().any(|call| !call.emitted && !is_empty(call))
    }
}

impl Call {
    fn start(&mut self, choice: u32, index: u32, name: &str, sink: EventSink<'_>) {
        // Some vendors repeat the name in every fragment.
        if std::mem::replace(&mut self.emitted, true) {
            return;
        }
        let signature = self.signature.as_deref();
        sink(Event::ToolCall { choice, index, id: &self.id, name, signature });
        if !self.held.is_empty() {
            sink(Event::Arguments { choice, index, fragment: &std::mem::take(&mut self.held) });
        }
    }

    fn append_arguments(&mut self, choice: u32, index: u32, fragment: &str, sink: EventSink<'_>) {
        if self.emitted {
            sink(Event::Arguments { choice, index, fragment });
        } else if self.held.len() + fragment.len() <= MAX_HELD_ARGUMENTS {
            self.held.push_str(fragment);
        }
    }
}

/// The arguments as JSON text: a string as in the standard, or the object itself.
fn arguments<'f>(function: &'f FunctionIn<'_>) -> Option<Cow<'f, str>> {
    if let Some(input) = non_empty_text(&function.input) {
        return Some(Cow::Owned(serde_json::json!({ "input": input }).to_string()));
    }
    let json = function.arguments.as_ref().filter(|json| !json.is_null())?;
    match json.text() {
        Some(text) => Some(text).filter(|text| !text.is_empty()),
        None => Some(Cow::Borrowed(json.get())),
    }
}
