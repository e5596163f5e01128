//! Reads YAML text into a [`Node`] tree with the line and column of every value and every key.
//!
//! YAML 1.2 core types: quoted scalars stay strings, only `true` and `false` are booleans. Anchors and merge
//! keys work, within limits that stop alias bombs. Not here: what the keys mean, and references to secrets.

use crate::config::node::{Entry, Node, NodeKind};
use crate::error::Problem;
use crate::json::bounded_yaml::{MAX_NODES, options};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, Location, MessageFormatter, Spanned, UserMessageFormatter};
use std::fmt;

/// Maximum nesting of a settings file. Twice this depth overflowed the 2 MiB stack of a thread in a debug
/// build; configs with three levels of targets need less than half of it.
const MAX_DEPTH: usize = 32;

/// Reads `text` into a tree and the problems that do not prevent reading. A duplicate key is such a problem:
/// its first value is used, so that the rest of the file is checked as well.
///
/// # Errors
/// The one problem that makes the text unreadable, with its line and column.
pub fn read(text: &str) -> Result<(Node, Vec<Problem>), Problem> {
    let error = match parse(text, DuplicateKeyPolicy::Error) {
        Ok(node) => return Ok((node, Vec::new())),
        Err(error) => error,
    };
    match error.without_snippet() {
        Error::DuplicateMappingKey { key, .. } => {
            let message = match key {
                Some(key) => format!("the key {key} stands twice"),
                None => "a key stands twice".to_owned(),
            };
            let twice = Problem { message, ..problem(&error) };
            let node = parse(text, DuplicateKeyPolicy::FirstWins).map_err(|error| problem(&error))?;
            Ok((node, vec![twice]))
        }
        _ => Err(problem(&error)),
    }
}

fn parse(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Node, Error> {
    let tree: Spanned<Tree> = serde_saphyr::from_str_with_options(text, options(duplicate_keys, MAX_DEPTH))?;
    Ok(into_node(tree))
}

fn problem(error: &Error) -> Problem {
    let message = match error.without_snippet() {
        Error::Budget { breach: BudgetBreach::Nodes { .. }, .. } => format!(
            "the file has more than {MAX_NODES} values and names; keep keys, providers and configs in the store instead, which has no such bound"
        ),
        error => UserMessageFormatter.format_message(error).replace('\n', " "),
    };
    Problem { path: String::new(), message, place: error.location().and_then(place) }
}

fn place(at: Location) -> Option<(u64, u64)> {
    (at.line() > 0).then(|| (at.line(), at.column()))
}

/// Converts a tree. The value of an alias has the position where it was defined, which is where to fix it.
fn into_node(tree: Spanned<Tree>) -> Node {
    Node { kind: tree.value.0, place: place(tree.defined) }
}

struct Tree(NodeKind);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KindVisitor).map(Tree)
    }
}

struct KindVisitor;

impl<'de> Visitor<'de> for KindVisitor {
    type Value = NodeKind;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a settings value")
    }

    fn visit_unit<E>(self) -> Result<NodeKind, E> {
        Ok(NodeKind::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<NodeKind, E> {
        Ok(NodeKind::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<NodeKind, E> {
        Ok(NodeKind::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<NodeKind, E> {
        Ok(NodeKind::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<NodeKind, E> {
        Ok(Number::from_f64(value).map_or(NodeKind::Null, NodeKind::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<NodeKind, E> {
        Ok(NodeKind::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NodeKind, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<Spanned<Tree>>()? {
            items.push(into_node(item));
        }
        Ok(NodeKind::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodeKind, A::Error> {
        let mut entries = Vec::new();
        while let Some((name, value)) = map.next_entry::<Spanned<String>, Spanned<Tree>>()? {
            let place = place(name.defined);
            entries.push(Entry { name: name.value, place, value: into_node(value) });
        }
        Ok(NodeKind::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists every value and key as `line:column text`, depth first.
    fn outline(node: &Node, out: &mut Vec<String>) {
        let at = |place: Option<(u64, u64)>| place.map_or("-".to_owned(), |(l, c)| format!("{l}:{c}"));
        match &node.kind {
            NodeKind::List(items) => {
                out.push(format!("{} list", at(node.place)));
                items.iter().for_each(|item| outline(item, out));
            }
            NodeKind::Map(entries) => {
                out.push(format!("{} map", at(node.place)));
                for entry in entries {
                    out.push(format!("{} {}:", at(entry.place), entry.name));
                    outline(&entry.value, out);
                }
            }
            _ => out.push(format!("{} {}", at(node.place), node.to_json())),
        }
    }

    #[test]
    fn every_value_and_key_has_its_place_and_its_core_type() {
        let text = "a: 1\nb:\n  - \"1\"\n  - yes\n  - true\n  - {c: 1.5, d: }\n  - 0x1F\n  - 010\n8: ~\n";
        let (node, problems) = read(text).unwrap();
        let mut found = Vec::new();
        outline(&node, &mut found);
        assert_eq!(
            found,
            [
                "1:1 map",
                "1:1 a:",
                "1:4 1",
                "2:1 b:",
                "3:3 list",
                "3:5 \"1\"",
                "4:5 \"yes\"",
                "5:5 true",
                "6:5 map",
                "6:6 c:",
                "6:9 1.5",
                "6:14 d:",
                "6:15 null",
                "7:5 31",
                "8:5 10.0",
                "9:1 8:",
                "9:4 null",
            ]
        );
        assert_eq!(problems, []);
    }

    #[test]
    fn aliases_and_merge_keys_keep_the_place_where_the_value_was_written() {
        let (node, _) = read("a: &x {k: 1, l: 2}\nb: *x\nc:\n  <<: *x\n  k: 3\n").unwrap();
        assert_eq!(node.to_json(), r#"{"a":{"k":1,"l":2},"b":{"k":1,"l":2},"c":{"k":3,"l":2}}"#);
        let mut found = Vec::new();
        outline(&node, &mut found);
        assert_eq!(found.iter().filter(|line| *line == "1:17 2").count(), 3);
    }

    #[test]
    fn unreadable_text_is_one_problem_with_a_place() {
        let bomb = {
            let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
            for n in 1..9 {
                let last = n - 1;
                let refs = vec![format!("*a{last}"); 10].join(", ");
                text.push_str(&format!("a{n}: &a{n} [{refs}]\n"));
            }
            text
        };
        let deep = "[".repeat(100_000);
        let nested: String = (0..200).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        for text in [
            "a: [1\n",
            "a: b: c\n",
            "a:\n\tb: 1\n",
            "a: *x\n",
            "a: !foo 1\n",
            "a: 1\n---\nb: 2\n",
            "a: .inf\n",
        ]
        .into_iter()
        .chain([bomb.as_str(), deep.as_str(), nested.as_str()])
        {
            let problem = read(text).unwrap_err();
            let start: String = text.chars().take(30).collect();
            assert!(problem.place.is_some(), "{start}: {problem:?}");
            assert!(!problem.message.contains('\n'), "{start}: {problem:?}");
        }
    }

    #[test]
    fn a_file_with_too_many_values_is_refused_with_a_hint_at_the_store() {
        let list = |values: usize| format!("a: [{}]", vec!["1"; values].join(","));
        assert!(read(&list(MAX_NODES - 3)).is_ok());
        let problem = read(&list(MAX_NODES)).unwrap_err();
        assert!(problem.message.contains("250000") && problem.message.contains("store"), "{problem:?}");
        assert_eq!(problem.place.map(|(line, _)| line), Some(1));
    }

    #[test]
    fn a_duplicate_key_is_a_problem_and_the_rest_is_still_read() {
        let (node, problems) = read("a:\n  b: 1\n  b: 2\nc: 3\n").unwrap();
        assert_eq!(node.to_json(), r#"{"a":{"b":1},"c":3}"#);
        let problem = problems.first().unwrap();
        assert_eq!((problem.place, problem.message.as_str()), (Some((3, 3)), "the key b stands twice"));
    }
}
