//! The report of an import: one line for each key of the input, whatever the importer did with it.
//!
//! Made by a walk over the whole input, not by the importer: what it did not look at is reported as not taken. Not here: what a key
//! means (the tables of the products).

use super::cursor::InputAt;
use super::key_table::{Key, Segment, find};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use words::config::node::{Node, NodeKind};

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Taken {
    /// It means the same here.
    Exact,
    /// It is here in another way; the text says which.
    Different,
    /// It is not here; the text says why, and what to do instead.
    Not,
}

impl Taken {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Different => "different",
            Self::Not => "not taken",
        }
    }
}

/// What the importer has found out so far, by path.
#[derive(Default)]
pub struct Findings {
    /// By the number of the file, and the path in it.
    found: BTreeMap<usize, BTreeMap<String, (Taken, String)>>,
}

impl Findings {
    pub fn exact(&mut self, at: &InputAt<'_>, text: impl Into<String>) {
        self.add(at, Taken::Exact, text.into());
    }

    pub fn different(&mut self, at: &InputAt<'_>, text: impl Into<String>) {
        self.add(at, Taken::Different, text.into());
    }

    /// Also of everything below it that has no finding of its own.
    pub fn not_taken(&mut self, at: &InputAt<'_>, text: impl Into<String>) {
        self.add(at, Taken::Not, text.into());
    }

    /// Whether something was found out about this key.
    pub fn has(&self, at: &InputAt<'_>) -> bool {
        self.found.get(&at.file).is_some_and(|found| found.contains_key(&at.path))
    }

    /// As [`Findings::not_taken`], and whatever was found out below it before is no longer so.
    pub fn refused(&mut self, file: usize, path: &str, why: &str) {
        let found = self.found.entry(file).or_default();
        for (name, finding) in found.range_mut(path.to_owned()..) {
            match name.strip_prefix(path) {
                None => break,
                Some(rest) if rest.is_empty() || rest.starts_with(['.', '[']) => {
                    *finding = (Taken::Not, why.to_owned());
                }
                Some(_) => {}
            }
        }
        found.insert(path.to_owned(), (Taken::Not, why.to_owned()));
    }

    /// A key and all below it, such as parameters that are taken over as they are.
    pub fn whole(&mut self, at: &InputAt<'_>, taken: Taken, text: &str) {
        self.add(at, taken, text.to_owned());
        for (_, below) in at.entries() {
            self.whole(&below, taken, text);
        }
        for below in at.items().iter().filter(|_| !is_leaf(at.node)) {
            self.whole(below, taken, text);
        }
    }

    fn add(&mut self, at: &InputAt<'_>, taken: Taken, text: String) {
        self.found.entry(at.file).or_default().insert(at.path.clone(), (taken, text));
    }

    /// The report of the file of this number, with its name.
    pub fn report(&self, number: usize, name: &str, root: &Node, keys: &[Key]) -> FileReport {
        let none = BTreeMap::new();
        let found = self.found.get(&number).unwrap_or(&none);
        let mut walk = Walk { found, keys, lines: Vec::new() };
        walk.visit(root, root.place, &mut Vec::new(), "");
        FileReport { file: name.to_owned(), lines: walk.lines }
    }
}

/// Whether a value has a line of its own: all but objects and lists with one in them.
pub fn is_leaf(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Map(entries) => entries.is_empty(),
        NodeKind::List(items) => {
            items.iter().all(|item| !matches!(item.kind, NodeKind::Map(_) | NodeKind::List(_)))
        }
        _ => true,
    }
}

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyLine {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    pub taken: Taken,
    pub text: String,
}

/// The report of one file.
#[derive(Debug, Serialize)]
pub struct FileReport {
    pub file: String,
    pub lines: Vec<KeyLine>,
}

impl FileReport {
    /// How many lines are of this kind.
    pub fn count(&self, taken: Taken) -> usize {
        self.lines.iter().filter(|line| line.taken == taken).count()
    }

    /// A line for each key.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for KeyLine { path, line, column, taken, text: what } in &self.lines {
            let place = match (line, column) {
                (Some(line), Some(column)) => format!(":{line}:{column}"),
                _ => String::new(),
            };
            // A name of the input may have any characters in it.
            let line = format!("{:<9} {}{place}: {path}: {what}", taken.as_str(), self.file);
            let line: String =
                line.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        }
        text
    }
}

struct Walk<'f> {
    found: &'f BTreeMap<String, (Taken, String)>,
    keys: &'f [Key],
    lines: Vec<KeyLine>,
}

impl Walk<'_> {
    fn visit(&mut self, node: &Node, place: Option<(u64, u64)>, segments: &mut Vec<Segment>, path: &str) {
        match &node.kind {
            NodeKind::Map(entries) if !entries.is_empty() => {
                for entry in entries {
                    let below =
                        if path.is_empty() { entry.name.clone() } else { format!("{path}.{}", entry.name) };
                    segments.push(Segment::Name(entry.name.clone()));
                    self.visit(&entry.value, entry.place, segments, &below);
                    segments.pop();
                }
            }
            NodeKind::List(items) if !is_leaf(node) || self.has_items(path, items.len()) => {
                for (index, item) in items.iter().enumerate() {
                    segments.push(Segment::Item);
                    self.visit(item, item.place, segments, &format!("{path}[{index}]"));
                    segments.pop();
                }
            }
            _ => self.line(place, segments, path),
        }
    }

    /// Whether the importer has looked at items of a plain list one by one.
    fn has_items(&self, path: &str, count: usize) -> bool {
        (0..count).any(|index| self.found.contains_key(&format!("{path}[{index}]")))
    }

    fn line(&mut self, place: Option<(u64, u64)>, segments: &[Segment], path: &str) {
        let (taken, text) = self.outcome(segments, path);
        let line = place.map(|(line, _)| line);
        let column = place.map(|(_, column)| column);
        self.lines.push(KeyLine { path: path.to_owned(), line, column, taken, text });
    }

    fn outcome(&self, segments: &[Segment], path: &str) -> (Taken, String) {
        if let Some((taken, text)) = self.found.get(path) {
            return (*taken, text.clone());
        }
        if let Some(text) = self.above(path) {
            return (Taken::Not, text.to_owned());
        }
        match find(self.keys, segments) {
            Some(key) if key.is_read => (Taken::Not, "has no effect where it stands".to_owned()),
            Some(key) => (key.taken, key.text.to_owned()),
            None => (Taken::Not, "unknown to this importer".to_owned()),
        }
    }

    /// Why something above it was not taken.
    fn above(&self, path: &str) -> Option<&str> {
        let mut path = path;
        while let Some(end) = path.rfind(['.', '[']) {
            path = path.get(..end)?;
            if let Some((Taken::Not, text)) = self.found.get(path) {
                return Some(text);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::key_table::{dropped, read};
    use super::*;

    const KEYS: &[Key] = &[
        read("a.b", Taken::Exact, "here"),
        dropped("a.c[].d", "is a matter of the other gateway"),
        dropped("free.**", "all of it"),
    ];

    #[test]
    fn each_key_has_a_line_whatever_was_looked_at() {
        let text =
            "a: {b: 1, c: [{d: 2, e: 3}], f: []}\nfree: {x: {y: 1}}\nlist: [p, q]\nlost: {x: 1, y: 2}\n";
        let (node, _) = words::settings::read_yaml(text).unwrap();
        let root = InputAt::root(&node, 0);
        let mut findings = Findings::default();
        findings.exact(&root.member("list").unwrap().items().remove(1), "taken");
        findings.not_taken(&root.member("lost").unwrap(), "gone");
        findings.exact(&root.member("lost").unwrap().member("y").unwrap(), "kept");
        let report = findings.report(0, "f", &node, KEYS);
        let lines: Vec<_> =
            report.lines.iter().map(|line| (line.path.as_str(), line.taken, line.text.as_str())).collect();
        assert_eq!(
            lines,
            [
                ("a.b", Taken::Not, "has no effect where it stands"),
                ("a.c[0].d", Taken::Not, "is a matter of the other gateway"),
                ("a.c[0].e", Taken::Not, "unknown to this importer"),
                ("a.f", Taken::Not, "unknown to this importer"),
                ("free.x.y", Taken::Not, "all of it"),
                ("list[0]", Taken::Not, "unknown to this importer"),
                ("list[1]", Taken::Exact, "taken"),
                ("lost.x", Taken::Not, "gone"),
                ("lost.y", Taken::Exact, "kept"),
            ]
        );
        assert!(report.text().starts_with("not taken f:1:5: a.b: has no effect"), "{}", report.text());
    }
}
