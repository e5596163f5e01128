//! The texts in the arguments of a call: every text, name and number of their JSON, each with its place.
//!
//! They are judged as a program reads them, without JSON's escapes, so that no spelling hides a text. What is no JSON (the text of a freeform
//! tool) is one text.

use super::body_texts::items;
use std::ops::Range;
use words::json::Json;
use words::json::splice::{Object, apply};
use words::json::surrogates;

/// How deep arguments are read; what is deeper is one text, as it is written.
const MAX_DEPTH: usize = 64;

/// One text in arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    pub text: String,
    /// Its JSON in the arguments.
    pub place: Range<usize>,
}

/// The texts of arguments that are an object or a list; `None` where they are neither.
pub(super) fn leaves(arguments: &str) -> Option<Vec<Leaf>> {
    let source = surrogates::replaced(arguments);
    let trimmed = source.trim();
    if !trimmed.starts_with(['{', '[']) {
        return None;
    }
    let mut reader = Reader { source: &source, found: Vec::new() };
    reader.value(&Json::parse(trimmed)?, 0);
    Some(reader.found)
}

/// The names of an object's members alone; none where it is no object.
pub(super) fn names(object: &str) -> Vec<Leaf> {
    let mut reader = Reader { source: object, found: Vec::new() };
    reader.members(object, &mut |_, _| {});
    reader.found
}

/// The arguments with other texts, by their places; texts that are the same need not be given.
pub(super) fn replaced(arguments: &str, changes: &[(Range<usize>, &str)]) -> String {
    let quoted: Vec<(Range<usize>, String)> = changes
        .iter()
        .filter(|(place, _)| !place.is_empty())
        .map(|(place, text)| (place.clone(), Json::from_value(*text).get().to_owned()))
        .collect();
    String::from_utf8(apply(arguments.as_bytes(), &quoted)).unwrap_or_default()
}

/// Has every text of the arguments changed by `change`, which returns the new text where there is one.
pub fn change_each(arguments: &mut String, mut change: impl FnMut(&str) -> Option<String>) {
    let Some(leaves) = leaves(arguments) else {
        if !arguments.is_empty()
            && let Some(new) = change(arguments)
        {
            *arguments = new;
        }
        return;
    };
    let new: Vec<(Range<usize>, String)> =
        leaves.into_iter().filter_map(|leaf| Some((leaf.place, change(&leaf.text)?))).collect();
    if !new.is_empty() {
        let changes: Vec<(Range<usize>, &str)> =
            new.iter().map(|(place, text)| (place.clone(), text.as_str())).collect();
        *arguments = replaced(arguments, &changes);
    }
}

struct Reader<'t> {
    source: &'t str,
    found: Vec<Leaf>,
}

impl<'t> Reader<'t> {
    fn place(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.source.as_ptr() as usize);
        start..start + part.len()
    }

    fn push(&mut self, text: String, place: Range<usize>) {
        if !text.is_empty() {
            self.found.push(Leaf { text, place });
        }
    }

    fn value(&mut self, value: &Json<'t>, depth: usize) {
        let Some(json) = value.source() else { return };
        let place = self.place(json);
        match json.bytes().next() {
            Some(b'"') => self.push(value.text().unwrap_or_default().into_owned(), place),
            Some(b'{' | b'[') if depth >= MAX_DEPTH => self.push(json.to_owned(), place),
            Some(b'{') => self.members(json, &mut |reader, value| reader.value(value, depth + 1)),
            Some(b'[') => items(value).iter().for_each(|item| self.value(item, depth + 1)),
            Some(b'-' | b'0'..=b'9') => self.push(json.to_owned(), place),
            _ => {}
        }
    }

    /// The names of an object's members, each followed by what `then` reads of its value.
    fn members(&mut self, json: &'t str, then: &mut dyn FnMut(&mut Self, &Json<'t>)) {
        let Some(object) = Object::read(json) else { return };
        let mut end = self.place(json).start + 1;
        for (name, value) in object.members() {
            let Some(source) = value.source() else { continue };
            let at = self.place(source);
            self.push(name.to_owned(), self.name(end..at.start));
            then(self, value);
            end = at.end;
        }
    }

    /// The place of a name between two values: nothing but it stands in quotes there.
    fn name(&self, between: Range<usize>) -> Range<usize> {
        let text = self.source.get(between.clone()).unwrap_or_default();
        match text.find('"').zip(text.rfind('"')) {
            Some((first, last)) => between.start + first..between.start + last + 1,
            None => 0..0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(arguments: &str) -> Option<Vec<String>> {
        leaves(arguments).map(|leaves| leaves.into_iter().map(|leaf| leaf.text).collect())
    }

    #[test]
    fn every_text_name_and_number_is_read_without_escapes() {
        let read = texts(r#" {"a":"x\ny","b\u0041":[1.50,true,null,{"c":"\u0042"}], "d" : "" }"#).unwrap();
        assert_eq!(read, ["a", "x\ny", "bA", "1.50", "c", "B", "d"]);
        assert_eq!(texts(r#"{"a":"\ud800 b"}"#).unwrap(), ["a", "\u{fffd} b"]);
        assert_eq!(texts(r#"{"a":1,"a":2}"#).unwrap(), ["a", "1", "a", "2"]);
        assert_eq!((texts("*** Begin Patch"), texts("{\"a\""), texts("")), (None, None, None));
        let deep = "[".repeat(100) + &"]".repeat(100);
        assert_eq!(texts(&deep).unwrap(), ["[".repeat(36) + &"]".repeat(36)]);
    }

    #[test]
    fn each_text_is_changed_where_it_stands_and_the_rest_keeps_its_bytes() {
        let secret = |text: &str| text.contains("sec").then(|| text.replace("sec", "\"*\""));
        for (arguments, wanted) in [
            (r#"{ "a" : "a sec", "b\u0073ec" : [1, "x"]}"#, r#"{ "a" : "a \"*\"", "b\"*\"" : [1, "x"]}"#),
            ("a sec", "a \"*\""),
            (r#"{"a":1.0}"#, r#"{"a":1.0}"#),
        ] {
            let mut changed = arguments.to_owned();
            change_each(&mut changed, secret);
            assert_eq!(changed, wanted);
        }
        let mut number = r#"{"ssn": 123456789}"#.to_owned();
        change_each(&mut number, |text| (text == "123456789").then(|| "***".to_owned()));
        assert_eq!(number, r#"{"ssn": "***"}"#);
    }
}
