//! The arguments of calls, in requests and responses of every dialect. Calls that only the provider carries out are read as the client's are:
//! what a model has written is judged whoever runs it.

use super::super::arguments;
use super::super::judged::Part;
use super::super::pieces::Piece;
use super::{Reader, items, object};
use words::api::responses::is_call;
use words::json::Json;
use words::json::splice::Object;

/// The members of an item of the Responses API that have what is called.
pub(super) const OF_ITEM: [&str; 7] =
    ["arguments", "input", "action", "actions", "operation", "code", "queries"];

/// The members of what a call has found that are no text: names of files are judged by choice.
const OF_RESULT: [&str; 8] =
    ["type", "id", "file_id", "url", "filename", "file_name", "displayName", "display_name"];

impl<'t> Reader<'t> {
    /// The calls of a message of a chat.
    pub(super) fn calls_of_message(&mut self, message: &Object<'t>, is_new: bool) {
        for call in message.list("tool_calls") {
            // As some servers of open models take them.
            self.member_arguments(&call, "arguments", is_new);
            if let Some(function) = call.inner("function") {
                self.member_arguments(&function, "arguments", is_new);
                self.others_of_call(&function, is_new);
            }
            if let Some(custom) = call.inner("custom") {
                self.member_arguments(&custom, "input", is_new);
                self.others_of_call(&custom, is_new);
            }
            self.others_of_call(&call, is_new);
        }
        if let Some(call) = message.inner("function_call") {
            self.member_arguments(&call, "arguments", is_new);
            self.others_of_call(&call, is_new);
        }
    }

    /// A block of Anthropic's content, where it is a call.
    pub(super) fn call_of_block(&mut self, block: &Object<'t>, is_new: bool) {
        if block.string("type").is_some_and(|kind| kind.ends_with("tool_use")) {
            self.member_arguments(block, "input", is_new);
        }
    }

    /// An item of the Responses API, where it is a call.
    pub(super) fn call_item(&mut self, item: &Object<'t>, is_new: bool) {
        if item.string("type").is_some_and(|kind| is_call(&kind)) {
            OF_ITEM.iter().for_each(|name| self.member_arguments(item, name, is_new));
        }
    }

    /// What an item of the Responses API has of the results of its call: of a search in files, and of code that has run.
    pub(super) fn found_by_call(&mut self, item: &Object<'t>, is_new: bool) {
        if !item.string("type").is_some_and(|kind| kind.ends_with("_call")) {
            return;
        }
        self.in_part(Part::Tool, |reader| {
            for found in ["results", "outputs"].into_iter().flat_map(|name| item.every(name)) {
                reader.texts_but(found, &OF_RESULT, is_new);
                for found in items(found).iter().filter_map(object) {
                    reader.file_names(&found, is_new);
                }
            }
        });
    }

    /// A part of Google's content, where it is a call.
    pub(super) fn call_of_google(&mut self, part: &Object<'t>, is_new: bool) {
        for call in ["functionCall", "function_call"].into_iter().filter_map(|name| part.inner(name)) {
            self.member_arguments(&call, "args", is_new);
            self.others_of_call(&call, is_new);
        }
    }

    fn member_arguments(&mut self, object: &Object<'t>, name: &str, is_new: bool) {
        self.in_part(Part::Arguments, |reader| {
            object.every(name).for_each(|value| reader.arguments(value, is_new));
        });
    }

    /// Arguments: JSON, or JSON in a string, or the text of a freeform tool.
    pub(super) fn arguments(&mut self, value: &Json<'t>, is_new: bool) {
        let Some(source) = value.source() else { return };
        let place = self.place(source);
        let Some(string) = value.text() else {
            return self.leaves(place.start, arguments::leaves(source).unwrap_or_default(), is_new);
        };
        match arguments::leaves(&string) {
            Some(leaves) => {
                for leaf in leaves {
                    let piece =
                        Piece { inner: Some(leaf.place), ..Piece::whole(place.clone(), leaf.text.len()) };
                    self.push(leaf.text, is_new, piece);
                }
            }
            None if string.is_empty() => {}
            None => {
                let piece = Piece::whole(place, string.len());
                self.push(string.into_owned(), is_new, piece);
            }
        }
    }

    /// The names of an object's members.
    pub(super) fn names(&mut self, object: &Json<'t>, is_new: bool) {
        let Some(source) = object.source() else { return };
        let start = self.place(source).start;
        self.leaves(start, arguments::names(source), is_new);
    }

    /// A number within JSON that has no place of its own. It is no prose.
    pub(super) fn number(&mut self, value: &Json<'t>, is_new: bool) {
        let source = value
            .source()
            .filter(|source| source.starts_with(|first: char| first == '-' || first.is_ascii_digit()));
        if let Some(source) = source {
            let piece = Piece::whole(self.place(source), source.len());
            self.in_part(Part::Other, |reader| reader.push(source.to_owned(), is_new, piece));
        }
    }

    /// Texts of JSON that begins at this place.
    fn leaves(&mut self, start: usize, leaves: Vec<arguments::Leaf>, is_new: bool) {
        for leaf in leaves {
            // The place of a name that is not known is empty.
            let within =
                if leaf.place.is_empty() { 0..0 } else { start + leaf.place.start..start + leaf.place.end };
            let piece = Piece::whole(within, leaf.text.len());
            self.push(leaf.text, is_new, piece);
        }
    }
}
