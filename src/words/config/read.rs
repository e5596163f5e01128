//! Reads a [`Node`] tree field by field and collects every problem on the way, each with its path.
//!
//! The one place that words the messages for a wrong type, a missing field or an unknown key. Not here: what
//! the fields mean (the calling modules).
//!
//! Example: reading `retry` of `{"retry":{"attempts":"3","x":1}}` with `fields()`,
//! `required(&["attempts"])`, `integer()` and `reject_unknown(&["attempts"])` yields the problems
//! `retry.attempts: must be an integer, not a string` and `retry.x: unknown key`.

use super::node::{Entry, Node, NodeKind};
use crate::error::Problem;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;

/// Maximum number of problems reported in full; further ones are only counted. Otherwise a hostile text of
/// ten thousand unknown keys would get a response of megabytes.
const MAX_REPORTED: usize = 200;

/// Maximum bytes of a key in a problem's path; longer keys are cut off.
const MAX_NAME_LEN: usize = 64;

/// The problems found so far, and where secrets were read.
#[derive(Debug, Default)]
pub struct Problems {
    reported: RefCell<Vec<Problem>>,
    count: Cell<usize>,
    secrets: RefCell<Vec<(u64, u64)>>,
}

impl Problems {
    pub fn push(&self, path: impl Into<String>, place: Option<(u64, u64)>, message: impl Into<String>) {
        self.count.set(self.count.get() + 1);
        if self.count.get() <= MAX_REPORTED {
            self.reported.borrow_mut().push(Problem { path: path.into(), message: message.into(), place });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// The places in the text of the values that were read as secrets, good ones and bad ones.
    pub fn secret_places(&self) -> Vec<(u64, u64)> {
        self.secrets.borrow().clone()
    }

    /// All problems in the order they were found. Beyond `MAX_REPORTED`, a last one gives the number of the
    /// others.
    pub fn into_vec(self) -> Vec<Problem> {
        let mut reported = self.reported.into_inner();
        let more = self.count.get() - reported.len();
        if more > 0 {
            reported.push(Problem { path: String::new(), message: format!("and {more} more"), place: None });
        }
        reported
    }
}

/// A node and its path in the text.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    pub node: &'a Node,
    pub path: String,
    problems: &'a Problems,
}

impl<'a> Cursor<'a> {
    pub fn root(node: &'a Node, problems: &'a Problems) -> Self {
        Self { node, path: String::new(), problems }
    }

    /// The number of problems found so far, anywhere in the text.
    pub fn problem_count(&self) -> usize {
        self.problems.count.get()
    }

    /// Reports a problem with this value.
    pub fn problem(&self, message: impl Into<String>) {
        self.problems.push(self.path.clone(), self.node.place, message);
    }

    /// Notes that this value is a secret.
    pub(crate) fn note_secret(&self) {
        self.problems.secrets.borrow_mut().extend(self.node.place);
    }

    fn wrong_type(&self, wanted: &str) {
        self.problem(format!("must be {wanted}, not {}", self.node.type_name()));
    }

    /// A string.
    pub fn text(&self) -> Option<&'a str> {
        match &self.node.kind {
            NodeKind::Text(text) => Some(text),
            _ => {
                self.wrong_type("a string");
                None
            }
        }
    }

    /// A boolean.
    pub fn flag(&self) -> Option<bool> {
        match self.node.kind {
            NodeKind::Bool(flag) => Some(flag),
            _ => {
                self.wrong_type("a boolean");
                None
            }
        }
    }

    /// Any number.
    pub fn number(&self) -> Option<f64> {
        match &self.node.kind {
            NodeKind::Number(number) => number.as_f64(),
            _ => {
                self.wrong_type("a number");
                None
            }
        }
    }

    /// A whole number; `2.0` counts as one.
    pub fn integer(&self) -> Option<i64> {
        let whole = match &self.node.kind {
            NodeKind::Number(number) => number
                .as_i64()
                .or_else(|| number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9e15).map(|f| f as i64)),
            _ => None,
        };
        if whole.is_none() {
            self.wrong_type("an integer");
        }
        whole
    }

    /// A whole number from `min` to `max`, both included.
    pub fn integer_within(&self, min: i64, max: i64) -> Option<i64> {
        let number = self.integer()?;
        if number < min {
            self.problem(format!("must be at least {min}"));
        } else if number > max {
            self.problem(format!("must be at most {max}"));
        } else {
            return Some(number);
        }
        None
    }

    /// The value of one of `variants`, chosen by its name.
    pub fn one_of<T: Copy>(&self, variants: &[(&str, T)]) -> Option<T> {
        let given = self.text()?;
        let found = variants.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
        if found.is_none() {
            let list: Vec<&str> = variants.iter().map(|(name, _)| *name).collect();
            self.problem(format!("must be one of: {}", list.join(", ")));
        }
        found
    }

    /// An array, as its items with their paths.
    pub fn list(&self) -> Option<Vec<Cursor<'a>>> {
        match &self.node.kind {
            NodeKind::List(items) => {
                let at = |(index, node)| Cursor {
                    node,
                    path: format!("{}[{index}]", self.path),
                    problems: self.problems,
                };
                Some(items.iter().enumerate().map(at).collect())
            }
            _ => {
                self.wrong_type("an array");
                None
            }
        }
    }

    /// An array of strings; items of another type are reported and left out.
    pub fn texts(&self) -> Option<Vec<String>> {
        Some(self.list()?.iter().filter_map(|item| item.text().map(str::to_owned)).collect())
    }

    /// An object, to be read field by field.
    pub fn fields(&self) -> Option<ObjectReader<'a>> {
        match &self.node.kind {
            NodeKind::Map(entries) => Some(ObjectReader { entries, at: self.clone(), consumed: Vec::new() }),
            _ => {
                self.wrong_type("an object");
                None
            }
        }
    }

    /// An object with free names, as its entries with their paths. Duplicate names are reported.
    pub fn entries(&self) -> Option<Vec<(&'a Entry, Cursor<'a>)>> {
        let NodeKind::Map(entries) = &self.node.kind else {
            self.wrong_type("an object");
            return None;
        };
        let mut names = HashSet::with_capacity(entries.len());
        for entry in entries.iter().filter(|entry| !names.insert(entry.name.as_str())) {
            self.problems.push(self.join(&entry.name), entry.place, "stands twice");
        }
        Some(entries.iter().map(|entry| (entry, self.child(entry))).collect())
    }

    /// The first member called `name`, when this is an object that has one other than `null`. Reports nothing.
    pub fn member(&self, name: &str) -> Option<Cursor<'a>> {
        let NodeKind::Map(entries) = &self.node.kind else { return None };
        let entry = entries.iter().find(|entry| entry.name == name)?;
        (entry.value.kind != NodeKind::Null).then(|| self.child(entry))
    }

    fn child(&self, entry: &'a Entry) -> Cursor<'a> {
        Cursor { node: &entry.value, path: self.join(&entry.name), problems: self.problems }
    }

    fn join(&self, name: &str) -> String {
        let name = match name.char_indices().find(|(at, _)| *at >= MAX_NAME_LEN) {
            Some((end, _)) => Cow::Owned(format!("{}...", name.get(..end).unwrap_or_default())),
            None => Cow::Borrowed(name),
        };
        if self.path.is_empty() { name.into_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// An object being read field by field. Call [`ObjectReader::reject_unknown`] at the end: it reports every
/// key that was not read.
#[derive(Debug)]
pub struct ObjectReader<'a> {
    entries: &'a [Entry],
    pub at: Cursor<'a>,
    consumed: Vec<&'a str>,
}

impl<'a> ObjectReader<'a> {
    /// The field called by one of `names`, which are aliases; giving more than one of them is a problem.
    /// `null` counts as absent.
    pub fn get(&mut self, names: &[&str]) -> Option<Cursor<'a>> {
        let mut found: Option<&'a Entry> = None;
        for entry in self.entries.iter().filter(|entry| names.contains(&entry.name.as_str())) {
            if let Some(first) = found {
                let message = if first.name == entry.name {
                    "stands twice".to_owned()
                } else {
                    format!("means the same as {}; give one of them", first.name)
                };
                self.at.problems.push(self.at.join(&entry.name), entry.place, message);
            } else {
                found = Some(entry);
            }
            if !self.consumed.contains(&entry.name.as_str()) {
                self.consumed.push(&entry.name);
            }
        }
        let entry = found?;
        (entry.value.kind != NodeKind::Null).then(|| self.at.child(entry))
    }

    /// The field that [`ObjectReader::get`] would return, without marking it as read or reporting duplicates.
    pub fn peek(&self, names: &[&str]) -> Option<Cursor<'a>> {
        let entry = self.entries.iter().find(|entry| names.contains(&entry.name.as_str()))?;
        (entry.value.kind != NodeKind::Null).then(|| self.at.child(entry))
    }

    /// Reports a missing field, at the position of the object.
    pub fn missing(&self, name: &str, message: impl Into<String>) {
        self.at.problems.push(self.at.join(name), self.at.node.place, message);
    }

    /// Like [`ObjectReader::get`], but reports the field if it is absent.
    pub fn required(&mut self, names: &[&str]) -> Option<Cursor<'a>> {
        let found = self.get(names);
        if found.is_none() {
            self.missing(names.first().copied().unwrap_or_default(), "is required");
        }
        found
    }

    pub fn text(&mut self, names: &[&str]) -> Option<String> {
        self.get(names)?.text().map(str::to_owned)
    }

    pub fn flag(&mut self, names: &[&str]) -> Option<bool> {
        self.get(names)?.flag()
    }

    /// Whether one of `names` is present with a value other than `null` and the empty string.
    pub fn has(&self, names: &[&str]) -> bool {
        let is_set = |kind: &NodeKind| {
            !matches!(kind, NodeKind::Null) && !matches!(kind, NodeKind::Text(t) if t.is_empty())
        };
        self.entries.iter().any(|entry| names.contains(&entry.name.as_str()) && is_set(&entry.value.kind))
    }

    /// The entries not read so far, for objects that allow free keys. A duplicate name is reported and
    /// returned once.
    pub fn rest(&mut self) -> Vec<(&'a Entry, Cursor<'a>)> {
        let consumed: HashSet<&str> = self.consumed.iter().copied().collect();
        let mut names = HashSet::new();
        let mut rest = Vec::new();
        for entry in self.entries.iter().filter(|entry| !consumed.contains(entry.name.as_str())) {
            if names.insert(entry.name.as_str()) {
                rest.push((entry, self.at.child(entry)));
            } else {
                self.at.problems.push(self.at.join(&entry.name), entry.place, "stands twice");
            }
        }
        self.consumed.extend(names);
        rest
    }

    /// Reports every key that was not read. `valid_keys` are only used to suggest the intended key.
    pub fn reject_unknown(self, valid_keys: &[&str]) {
        self.reject_unknown_with(valid_keys, &[]);
    }

    /// The same, with what to write in place of keys that are written where they mean nothing, such as those of other gateways.
    pub fn reject_unknown_with(mut self, valid_keys: &[&str], hints: &[(&str, &str)]) {
        for (entry, at) in self.rest() {
            // Beyond `MAX_REPORTED` problems are only counted, so no suggestion is needed: finding one is the
            // expensive part when there are many.
            let near = match at.problem_count() {
                0..MAX_REPORTED => nearest(valid_keys, &entry.name),
                _ => None,
            };
            let hint = hints.iter().find(|(name, _)| *name == entry.name);
            let message = match near {
                _ if hint.is_some() => {
                    format!("unknown key; {}", hint.map(|(_, text)| *text).unwrap_or_default())
                }
                Some(name) => format!("unknown key; did you mean {name}?"),
                None => "unknown key".to_owned(),
            };
            at.problems.push(at.path, entry.place.or(entry.value.place), message);
        }
    }
}

/// The candidate nearest to `written`, at an edit distance of at most two.
pub fn nearest<'k>(candidates: &[&'k str], written: &str) -> Option<&'k str> {
    let distances = candidates.iter().map(|name| (edit_distance(name, written), *name));
    distances
        .filter(|(distance, _)| *distance <= 2)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Levenshtein distance, for suggestions only. Long names, and names whose lengths differ too much to be
/// near, are not compared: they are as far as can be.
pub fn edit_distance(a: &str, b: &str) -> usize {
    if a.len() > MAX_NAME_LEN || b.len() > MAX_NAME_LEN || a.len().abs_diff(b.len()) > 8 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut last = i + 1;
        if let Some(first) = row.first_mut() {
            *first = last;
        }
        for (cell, right) in row.iter_mut().skip(1).zip(b.chars()) {
            let cost = diagonal + usize::from(left != right);
            diagonal = *cell;
            *cell = cost.min(diagonal + 1).min(last + 1);
            last = *cell;
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_found_in_one_pass_and_has_its_path() {
        let node = Node::from_json(br#"{"a":1,"b":{"c":"x","modle":1},"d":[1,"y"]}"#).unwrap();
        let problems = Problems::default();
        let at = Cursor::root(&node, &problems);
        let mut fields = at.fields().unwrap();
        assert_eq!(fields.text(&["a"]), None);
        let mut inner = fields.get(&["b"]).unwrap().fields().unwrap();
        inner.get(&["c"]).unwrap().integer();
        inner.required(&["e"]);
        inner.reject_unknown(&["model"]);
        fields.get(&["d"]).unwrap().texts();
        fields.reject_unknown(&[]);
        let found: Vec<String> = problems.into_vec().iter().map(Problem::to_string).collect();
        assert_eq!(
            found,
            [
                "a: must be a string, not a number",
                "b.c: must be an integer, not a string",
                "b.e: is required",
                "b.modle: unknown key; did you mean model?",
                "d[0]: must be a string, not a number",
            ]
        );
    }

    #[test]
    fn problems_past_the_limit_are_only_counted() {
        let keys: Vec<String> = (0..5_000).map(|n| format!("\"{n}{}\":1", "k".repeat(200))).collect();
        let node = Node::from_json(format!("{{{}}}", keys.join(",")).as_bytes()).unwrap();
        let problems = Problems::default();
        Cursor::root(&node, &problems).fields().unwrap().reject_unknown(&["weight"]);
        let reported = problems.into_vec();
        assert_eq!(reported.len(), MAX_REPORTED + 1);
        assert_eq!(reported[MAX_REPORTED].to_string(), "and 4800 more");
        assert!(reported.iter().all(|problem| problem.path.len() <= MAX_NAME_LEN + 3));
    }

    #[test]
    fn giving_an_alias_and_its_name_is_refused() {
        let node = Node::from_json(br#"{"aws_region":"a","cloud_a_region":"b"}"#).unwrap();
        let problems = Problems::default();
        let mut fields = Cursor::root(&node, &problems).fields().unwrap();
        fields.text(&["cloud_a_region", "aws_region"]);
        fields.reject_unknown(&[]);
        assert_eq!(problems.into_vec().len(), 1);
    }
}
