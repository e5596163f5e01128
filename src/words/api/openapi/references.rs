//! `$ref` within one document. References to other documents are refused: the gateway fetches none.

use super::document::DocumentProblem;
use percent_encoding::percent_decode_str;
use serde_json::Value;

/// How many references may follow one another.
const MAX_HOPS: usize = 16;
/// Members whose values are no part of a description.
const EXAMPLES: [&str; 5] = ["example", "examples", "default", "enum", "const"];
/// Members whose own members have free names.
const MAPS: [&str; 8] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "schemas",
    "$defs",
    "parameters",
    "requestBodies",
    "responses",
];

/// What a local reference refers to.
pub(super) fn target<'d>(document: &'d Value, reference: &str) -> Option<&'d Value> {
    let pointer = reference.strip_prefix('#')?;
    let pointer = percent_decode_str(pointer).decode_utf8().ok()?;
    document.pointer(&pointer)
}

/// The value, or what its references lead to. `None`: nothing, or themselves.
pub(super) fn resolved<'d>(document: &'d Value, value: &'d Value) -> Option<&'d Value> {
    let mut found = value;
    for _ in 0..MAX_HOPS {
        match found.get("$ref").and_then(Value::as_str) {
            Some(reference) => found = target(document, reference)?,
            None => return Some(found),
        }
    }
    None
}

/// Finds references that lead out of the document, or to nothing.
pub(super) fn check(document: &Value, max: usize, problems: &mut Vec<DocumentProblem>) {
    let mut scan = Scan { document, max, problems, at: Vec::new() };
    scan.value(document, false);
}

/// A step to a value.
#[derive(Clone, Copy)]
enum Step<'d> {
    Member(&'d str),
    Item(usize),
}

struct Scan<'s> {
    document: &'s Value,
    max: usize,
    problems: &'s mut Vec<DocumentProblem>,
    /// Where it is. Names may be long, so that a path is written for a problem alone.
    at: Vec<Step<'s>>,
}

impl<'s> Scan<'s> {
    /// `is_map`: the members of the value have free names.
    fn value(&mut self, value: &'s Value, is_map: bool) {
        if self.problems.len() >= self.max {
            return;
        }
        match value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.at.push(Step::Item(index));
                    self.value(item, false);
                    self.at.pop();
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.at.push(Step::Member(name));
                    match member.as_str() {
                        Some(reference) if name == "$ref" => self.reference(reference),
                        _ if !is_map && is_no_description(name) => {}
                        _ => self.value(member, !is_map && MAPS.contains(&name.as_str())),
                    }
                    self.at.pop();
                }
            }
            _ => {}
        }
    }

    fn reference(&mut self, reference: &str) {
        let why = if !reference.starts_with('#') {
            "refers to another document, and the gateway fetches none: put all into one document".to_owned()
        } else if target(self.document, reference).is_none() {
            format!("refers to {reference}, which is not there")
        } else {
            return;
        };
        let step = |step: &Step<'_>| match step {
            Step::Member(name) => format!(".{name}"),
            Step::Item(index) => format!("[{index}]"),
        };
        self.problems.push(DocumentProblem::new(self.at.iter().map(step).collect::<String>(), why));
    }
}

fn is_no_description(name: &str) -> bool {
    EXAMPLES.contains(&name) || name.starts_with("x-")
}
