//! Assembles the tool calls of one choice; `call_identity` says which fragments belong together.

use super::call_identity::{CallIdentity, Fragment as Identity, key};
use super::chunk::{CallIn, FunctionIn, non_empty_text};
use std::borrow::Cow;
use words::api::chat::{Event, EventSink};
use words::json::Json;

/// The maximum of arguments held for a call without a name so far, in bytes.
const MAX_HELD_ARGUMENTS: usize = 1 << 20;

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    identity: CallIdentity,
    list: Vec<Call>,
}

#[derive(Debug, Default)]
struct Call {
    /// Empty where the vendor sends none, or that of another call.
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
    /// Its place among several of one delta.
    place: Option<usize>,
}

impl Calls {
    /// Takes the calls of one message, or the call fragments of one delta.
    pub fn take(&mut self, choice: u32, calls: &Json<'_>, streamed: bool, sink: EventSink<'_>) {
        let list: Vec<CallIn<'_>> = calls.read().unwrap_or_default();
        for (place, call) in list.iter().enumerate() {
            let place = (list.len() > 1).then_some(place);
            let function = call.function.as_ref().or(call.custom.as_ref());
            let signature = call.extra_content.as_ref().and_then(|extra| extra.google.as_ref());
            let signature = signature.and_then(|google| non_empty_text(&google.thought_signature));
            let fragment = Fragment { call, function, signature, streamed, place };
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
            let fragment =
                Fragment { call: &call, function: Some(&function), signature: None, streamed, place: None };
            self.take_one(choice, fragment, sink);
        }
    }

    fn take_one(&mut self, choice: u32, fragment: Fragment<'_>, sink: EventSink<'_>) {
        let Fragment { call, function, signature, streamed, place } = fragment;
        let id = non_empty_text(&call.id).unwrap_or_default();
        let name = function.and_then(|function| non_empty_text(&function.name)).unwrap_or_default();
        let pieces = function.and_then(arguments);
        let identity = Identity {
            key: key(call.index.as_ref()),
            id: &id,
            name: &name,
            arguments: pieces.as_deref().unwrap_or_default(),
            place,
        };
        let Some(found) = self.identity.take(identity, streamed) else { return };
        if found.is_new {
            self.list.push(Call::default());
        }
        let is_free = !id.is_empty() && !self.list.iter().any(|call| call.id == id);
        let Some(entry) = self.list.get_mut(found.at) else { return };
        if is_free && entry.id.is_empty() && !entry.emitted {
            entry.id = id.into_owned();
        }
        let at = u32::try_from(found.at).unwrap_or(u32::MAX);
        let signature =
            signature.or_else(|| function.and_then(|function| non_empty_text(&function.thought_signature)));
        entry.signature = entry.signature.take().or(signature.map(Cow::into_owned));
        if !name.is_empty() {
            entry.start(choice, at, &name, sink);
        }
        if let Some(fragment) = pieces {
            entry.append_arguments(choice, at, &fragment, sink);
        }
    }

    /// Whether a call has an id or arguments but no name, so that no client could execute it.
    pub(crate) fn has_nameless(&self) -> bool {
        let is_empty = |call: &Call| call.id.is_empty() && call.held.is_empty();
        self.list.iter().any(|call| !call.emitted && !is_empty(call))
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
