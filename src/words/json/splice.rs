//! Changes members inside a JSON text; everything else keeps its bytes.
//!
//! For nested members. Top-level members of a request are changed by [`crate::api::body::Edit`]. For example,
//! with `a` replaced by `2` and the nulls of `b` removed:
//!
//! ```text
//! { "a" : 1.0, "b":{ "c":null,"d":"x","e":null } }
//! { "a" : 2, "b":{ "d":"x" } }
//! ```

use super::write::write_string;
use super::{Json, proof, walk};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// The changes of one text, collected first and applied together by [`Splice::finish`].
#[derive(Debug)]
pub struct Splice<'t> {
    text: &'t str,
    changes: Vec<(Range<usize>, String)>,
    /// The added members: the change, and where its object begins.
    added: Vec<Added>,
    /// Where objects begin that lost all their members.
    emptied: HashSet<usize>,
}

#[derive(Debug)]
struct Added {
    change: usize,
    object: usize,
    /// The object had no members before.
    was_empty: bool,
}

/// A JSON object inside the text.
#[derive(Debug)]
pub struct Object<'t> {
    text: &'t str,
    members: Vec<(Cow<'t, str>, Json<'t>)>,
}

impl<'t> Object<'t> {
    pub fn read(text: &'t str) -> Option<Self> {
        text.starts_with('{').then_some(())?;
        Some(Self { text, members: Json::members(text)? })
    }

    /// The object in a member, if it is one.
    pub fn inner(&self, name: &str) -> Option<Object<'t>> {
        Self::read(self.json_of(name)?)
    }

    /// The objects in a member that is a list.
    pub fn list(&self, name: &str) -> Vec<Object<'t>> {
        let items = self.json_of(name).and_then(|text| walk::items(text.as_bytes()));
        let objects =
            items.into_iter().flatten().filter_map(|item| Self::read(std::str::from_utf8(item).ok()?));
        objects
            .map(|mut object| {
                // A list may have very many objects, of two members each.
                object.members.shrink_to_fit();
                object
            })
            .collect()
    }

    pub fn get(&self, name: &str) -> Option<&Json<'t>> {
        self.members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    /// All values of a name that occurs more than once: parsers differ in which one they take.
    pub fn every<'o>(&'o self, name: &'o str) -> impl Iterator<Item = &'o Json<'t>> {
        self.members.iter().filter(move |(member, _)| member == name).map(|(_, value)| value)
    }

    /// All members, in order.
    pub fn members(&self) -> impl Iterator<Item = (&str, &Json<'t>)> {
        self.members.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// The JSON text of a member.
    pub fn json_of(&self, name: &str) -> Option<&'t str> {
        self.get(name)?.source()
    }

    /// The text of a member that is a string.
    pub fn string(&self, name: &str) -> Option<Cow<'_, str>> {
        self.get(name)?.text()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(name, _)| name.as_ref())
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

impl<'t> Splice<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, changes: Vec::new(), added: Vec::new(), emptied: HashSet::new() }
    }

    /// The position of a slice of the text.
    fn place(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        start..start + part.len()
    }

    /// Replaces a member's value with `json`.
    pub fn replace(&mut self, object: &Object<'t>, name: &str, json: impl Into<String>) {
        if let Some(value) = object.json_of(name) {
            self.changes.push((self.place(value), json.into()));
        }
    }

    /// Renames a member, to a name without escapes. One whose name contains escapes is kept.
    pub fn rename(&mut self, object: &Object<'t>, name: &str, other: &str) {
        let found = object.members.iter().find(|(member, _)| member == name);
        if let Some((Cow::Borrowed(found), _)) = found {
            self.changes.push((self.place(found), other.to_owned()));
        }
    }

    /// Adds a member at the end of the object.
    pub fn append(&mut self, object: &Object<'t>, name: &str, json: &str) {
        let place = self.place(object.text);
        let last = object.members.last().and_then(|(_, value)| value.source());
        let at = last.map_or(place.start + 1, |value| self.place(value).end);
        let was_empty = object.members.is_empty();
        self.added.push(Added { change: self.changes.len(), object: place.start, was_empty });
        self.changes.push((at..at, format!(",{}:{json}", Json::from_value(name).get())));
    }

    /// Inserts `json` before the object, for example `{..},` between two objects of a list.
    pub fn insert_before(&mut self, object: &Object<'t>, json: &str) {
        let at = self.place(object.text).start;
        self.changes.push((at..at, json.to_owned()));
    }

    /// Removes members. A member whose name contains escapes is kept, because its position is unknown.
    pub fn remove(&mut self, object: &Object<'t>, unwanted: impl Fn(&str, &Json<'t>) -> bool) {
        let mut kept = 0;
        for (index, (name, value)) in object.members.iter().enumerate() {
            if !unwanted(name, value) {
                kept += 1;
                continue;
            }
            let Some(range) = self.removal(object, index, kept) else {
                kept += 1;
                continue;
            };
            self.changes.push((range, String::new()));
        }
        if kept == 0 {
            self.emptied.insert(self.place(object.text).start);
        }
    }

    /// The range to remove; `None` where it is unknown because of escapes in a name.
    fn removal(&self, object: &Object<'t>, index: usize, kept: usize) -> Option<Range<usize>> {
        let name_at = |index: usize| match &object.members.get(index)?.0 {
            Cow::Borrowed(name) => Some(self.place(name).start.saturating_sub(1)),
            Cow::Owned(_) => None,
        };
        let end_at = |index: usize| Some(self.place(object.members.get(index)?.1.source()?).end);
        let member = name_at(index)?..end_at(index)?;
        let before = index.checked_sub(1).and_then(end_at);
        let has_next = kept == 0 && index + 1 < object.members.len();
        let after = if has_next { Some(name_at(index + 1)?) } else { None };
        Some(removal(member, before, after, kept))
    }

    /// The first member added to an object without members follows no other one.
    fn remove_first_commas(&mut self) {
        let mut filled = HashSet::new();
        for added in &self.added {
            if (added.was_empty || self.emptied.contains(&added.object))
                && filled.insert(added.object)
                && let Some((_, text)) = self.changes.get_mut(added.change)
            {
                text.remove(0);
            }
        }
    }

    /// The text with all changes applied; `None` if there are none.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.changes.is_empty() {
            return None;
        }
        self.remove_first_commas();
        self.changes.sort_by_key(|(range, _)| range.start);
        Some(apply(self.text.as_bytes(), &self.changes))
    }
}

/// A JSON object with one more member at its end; `None` where the text is no object.
pub fn append_member(text: &[u8], name: &str, json: &str) -> Option<Vec<u8>> {
    let text = text.trim_ascii();
    let mut last = None;
    proof::outline(text, |member| {
        last = Some(member.value.end);
        Some(())
    })?;
    let (before, behind) = text.split_at_checked(last.unwrap_or(1))?;
    let mut out = Vec::with_capacity(text.len() + name.len() + json.len() + 8);
    out.extend_from_slice(before);
    if last.is_some() {
        out.push(b',');
    }
    write_string(&mut out, name);
    out.push(b':');
    out.extend_from_slice(json.as_bytes());
    out.extend_from_slice(behind);
    Some(out)
}

/// The range to cut so that a member is removed and the commas stay right: the member with the comma before it, or,
/// while no member before it is kept, with the comma behind it. `before` is where the previous member ends, `after`
/// where the next one begins.
pub fn removal(
    member: Range<usize>,
    before: Option<usize>,
    after: Option<usize>,
    kept: usize,
) -> Range<usize> {
    match (before, after) {
        (Some(before), _) if kept > 0 => before..member.end,
        (_, Some(after)) => member.start..after,
        _ => member,
    }
}

/// The text with the changes applied. They must be sorted by their start, and no two may change one place: the texts of
/// both would stand there.
pub fn apply(text: &[u8], changes: &[(Range<usize>, impl AsRef<[u8]>)]) -> Vec<u8> {
    let grown: usize = changes.iter().map(|(_, with)| with.as_ref().len()).sum();
    let mut out = Vec::with_capacity(text.len() + grown);
    let mut copied = 0;
    for (range, with) in changes {
        out.extend_from_slice(text.get(copied..range.start.max(copied)).unwrap_or_default());
        out.extend_from_slice(with.as_ref());
        copied = range.end.max(copied);
    }
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_appended_to_an_object_and_to_nothing_else() {
        for (text, wanted) in [
            ("{}", r#"{"a\"b":1}"#),
            (" { } ", r#"{"a\"b":1 }"#),
            (" { \"x\": [1, {}] }\n", r#"{ "x": [1, {}],"a\"b":1 }"#),
        ] {
            assert_eq!(append_member(text.as_bytes(), "a\"b", "1").unwrap(), wanted.as_bytes());
        }
        for text in ["", "[]", "1", "{", "{\"x\":}", "{} {}", "{\"x\":1,}"] {
            assert_eq!(append_member(text.as_bytes(), "a", "1"), None, "{text}");
        }
    }

    #[test]
    fn only_what_is_changed_changes() {
        let text = r#" { "a" : 1.0, "b":{ "c":null,"d":"x","e":null } , "f":[{"g":1},2,{}] } "#;
        let text = text.trim();
        let whole = Object::read(text).unwrap();
        let mut splice = Splice::new(text);
        let inner = whole.inner("b").unwrap();
        splice.remove(&inner, |_, value| value.is_null());
        splice.append(&inner, "h", "\"new\"");
        for object in whole.list("f") {
            splice.append(&object, "i", "2");
        }
        splice.replace(&whole, "a", "2");
        let wanted = r#"{ "a" : 2, "b":{ "d":"x","h":"new" } , "f":[{"g":1,"i":2},2,{"i":2}] }"#;
        assert_eq!(String::from_utf8(splice.finish().unwrap()).unwrap(), wanted);
        assert!(Splice::new(text).finish().is_none());
    }

    #[test]
    fn what_is_added_has_its_commas_whatever_was_there() {
        for (text, removed, wanted) in [
            ("{}", "", r#"{"x":1,"y":2}"#),
            ("{ }", "", r#"{"x":1,"y":2 }"#),
            (r#"{"a":0}"#, "", r#"{"a":0,"x":1,"y":2}"#),
            (r#"{"a":0}"#, "a", r#"{"x":1,"y":2}"#),
            (r#"{"a":0,"b":1}"#, "ab", r#"{"x":1,"y":2}"#),
            (r#"{"a":0,"b":1}"#, "b", r#"{"a":0,"x":1,"y":2}"#),
        ] {
            // Members are removed before the others are added, or in between.
            for is_between in [false, true] {
                let object = Object::read(text).unwrap();
                let mut splice = Splice::new(text);
                let remove = |splice: &mut Splice<'static>| {
                    splice.remove(&object, |name, _| removed.contains(name));
                };
                if !is_between {
                    remove(&mut splice);
                }
                splice.append(&object, "x", "1");
                if is_between {
                    remove(&mut splice);
                }
                splice.append(&object, "y", "2");
                let changed = String::from_utf8(splice.finish().unwrap()).unwrap();
                assert_eq!(changed, wanted, "{text} without {removed:?}");
            }
        }
    }
}
