//! Paths into a JSON text, as configs write them, and the removal of what they name.
//!
//! `tools[*].function.strict`: members joined by dots, items of lists as `[0]`, all items as `[*]`. Values that are not named keep
//! their text. Not JSONPath: no filters, and no names with a dot or a bracket in them.
//!
//! ```text
//! {"a":[{"x":1.0,"y":2},{"x":3}],"b":0}   without a[*].x and b
//! {"a":[{"y":2},{}]}
//! ```

use super::string::unquote;
use super::walk;
use std::borrow::Cow;

/// The longest path, bytes.
pub const MAX_PATH: usize = 256;
/// The most steps of a path.
pub const MAX_STEPS: usize = 16;

/// A path to a member, or to an item of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath {
    /// Not empty; the first is a member.
    steps: Vec<PathStep>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathStep {
    Member(Box<str>),
    Item(usize),
    EveryItem,
}

impl JsonPath {
    /// `None`: it is no path.
    pub fn parse(text: &str) -> Option<Self> {
        let mut steps = Vec::new();
        for part in text.split('.') {
            let (name, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
            if name.is_empty() || name.contains(']') {
                return None;
            }
            steps.push(PathStep::Member(name.into()));
            while !rest.is_empty() {
                let (index, behind) = rest.strip_prefix('[')?.split_once(']')?;
                steps.push(match index {
                    "*" => PathStep::EveryItem,
                    _ if index.len() <= 6 && index.bytes().all(|byte| byte.is_ascii_digit()) => {
                        PathStep::Item(index.parse().ok()?)
                    }
                    _ => return None,
                });
                rest = behind;
            }
        }
        (text.len() <= MAX_PATH && steps.len() <= MAX_STEPS).then_some(Self { steps })
    }

    /// The member of the whole text that it leads through.
    pub fn first(&self) -> &str {
        match self.steps.first() {
            Some(PathStep::Member(name)) => name,
            _ => "",
        }
    }

    /// Whether it names a member of the whole text, and nothing within it.
    pub fn is_member(&self) -> bool {
        self.steps.len() == 1
    }

    /// The same path, whose first member has another name and is in an object of this name.
    #[must_use]
    pub fn moved_to(&self, object: &str, name: &str) -> Self {
        let behind = self.steps.iter().skip(1).cloned();
        let before = [object, name].map(|name| PathStep::Member(name.into()));
        Self { steps: before.into_iter().chain(behind).collect() }
    }
}

/// A JSON text, which must be valid and begin without white space, without what the paths name. `None`: it has none of that.
pub fn without<'p>(text: &str, paths: impl IntoIterator<Item = &'p JsonPath>) -> Option<String> {
    let paths: Vec<&[PathStep]> = paths.into_iter().map(|path| path.steps.as_slice()).collect();
    removed(text, &paths)
}

fn removed(text: &str, paths: &[&[PathStep]]) -> Option<String> {
    let bytes = text.as_bytes();
    let mut kept = Kept { parts: Vec::new(), has_changed: false };
    if let Some(members) = walk::members(bytes) {
        for (raw, value) in members {
            let name = std::str::from_utf8(raw).ok()?;
            let value = std::str::from_utf8(value).ok()?;
            let plain = match name.contains('\\') {
                true => Cow::Owned(unquote(format!("\"{name}\"").as_bytes())?.into_owned()),
                false => Cow::Borrowed(name),
            };
            let is_named = |step: &PathStep| matches!(step, PathStep::Member(member) if **member == *plain);
            kept.add(value, &following(paths, &is_named), |value| format!("\"{name}\":{value}"));
        }
        return kept.into_text('{', '}');
    }
    for (index, value) in walk::items(bytes)?.enumerate() {
        let value = std::str::from_utf8(value).ok()?;
        let is_named = |step: &PathStep| match step {
            PathStep::Item(item) => *item == index,
            PathStep::EveryItem => true,
            PathStep::Member(_) => false,
        };
        kept.add(value, &following(paths, &is_named), str::to_owned);
    }
    kept.into_text('[', ']')
}

/// What is left of those paths whose first step leads to this member or item.
fn following<'p>(paths: &[&'p [PathStep]], is_named: &dyn Fn(&PathStep) -> bool) -> Vec<&'p [PathStep]> {
    let split = paths.iter().filter_map(|path| path.split_first());
    split.filter(|(step, _)| is_named(step)).map(|(_, rest)| rest).collect()
}

/// The members or items that stay.
struct Kept {
    parts: Vec<String>,
    has_changed: bool,
}

impl Kept {
    /// `paths`: what is left of the paths to `value`; an empty one names the value itself.
    fn add(&mut self, value: &str, paths: &[&[PathStep]], write: impl Fn(&str) -> String) {
        if paths.iter().any(|rest| rest.is_empty()) {
            self.has_changed = true;
            return;
        }
        let changed = if paths.is_empty() { None } else { removed(value, paths) };
        self.has_changed |= changed.is_some();
        self.parts.push(write(changed.as_deref().unwrap_or(value)));
    }

    fn into_text(self, open: char, close: char) -> Option<String> {
        self.has_changed.then(|| format!("{open}{}{close}", self.parts.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn dropped(text: &str, paths: &[&str]) -> Option<String> {
        let paths: Vec<JsonPath> = paths.iter().map(|path| JsonPath::parse(path).unwrap()).collect();
        without(text, &paths)
    }

    #[test]
    fn named_members_and_items_are_removed_and_the_rest_keeps_its_text() {
        let text = r#"{"a": 1.0, "tools":[{"n":"x","f":{"strict":true,"k":1e3}},{"f":{"strict":false}}], "m":[[1,2],[3]], "e\u0041":2}"#;
        for (paths, wanted) in [
            (
                &["a"][..],
                Some(
                    r#"{"tools":[{"n":"x","f":{"strict":true,"k":1e3}},{"f":{"strict":false}}],"m":[[1,2],[3]],"e\u0041":2}"#,
                ),
            ),
            (&["tools[*].f.strict", "m", "a", "eA"], Some(r#"{"tools":[{"n":"x","f":{"k":1e3}},{"f":{}}]}"#)),
            (
                &["tools[0].f.strict", "tools[1]", "m", "a", "eA"],
                Some(r#"{"tools":[{"n":"x","f":{"k":1e3}}]}"#),
            ),
            (&["m[*][0]", "tools", "a", "eA"], Some(r#"{"m":[[2],[]]}"#)),
            (&["tools[*]", "m[1][0]", "a", "eA"], Some(r#"{"tools":[],"m":[[1,2],[]]}"#)),
            // What is not there changes nothing.
            (&["b", "a.b", "a[0]", "tools.f", "tools[7].f", "m[0].x"], None),
            (&[], None),
        ] {
            assert_eq!(dropped(text, paths).as_deref(), wanted, "{paths:?}");
        }
        assert_eq!(dropped(r#"{"a":1,"a":2}"#, &["a"]).as_deref(), Some("{}"));
        assert_eq!(dropped(r#"[1]"#, &["a"]), None);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        let long = "a".repeat(MAX_PATH + 1);
        let deep = vec!["a"; MAX_STEPS + 1].join(".");
        for text in [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "[0]",
            "a[",
            "a[]",
            "a[-1]",
            "a[0",
            "a]0[",
            "a[0]b",
            "a[**]",
            "a[1234567]",
            &long,
            &deep,
        ] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
        for text in ["a", "a.b", "a[0]", "a[*].b[1][2].c", "response_format.json_schema", "ä b"] {
            assert!(JsonPath::parse(text).is_some(), "{text}");
        }
    }

    #[test]
    fn a_path_moves_into_an_object() {
        let path = JsonPath::parse("stop[0]").unwrap().moved_to("generationConfig", "stopSequences");
        assert_eq!(path, JsonPath::parse("generationConfig.stopSequences[0]").unwrap());
        assert_eq!(
            without(r#"{"generationConfig":{"stopSequences":["a","b"]}}"#, [&path]).as_deref(),
            Some(r#"{"generationConfig":{"stopSequences":["b"]}}"#)
        );
    }

    /// The obvious way, over a tree.
    fn remove_from(value: &mut Value, steps: &[PathStep]) {
        let Some((step, rest)) = steps.split_first() else { return };
        match (step, value) {
            (PathStep::Member(name), Value::Object(members)) if rest.is_empty() => {
                members.remove(&**name);
            }
            (PathStep::Member(name), Value::Object(members)) => {
                if let Some(inner) = members.get_mut(&**name) {
                    remove_from(inner, rest);
                }
            }
            (PathStep::EveryItem, Value::Array(items)) if rest.is_empty() => items.clear(),
            (PathStep::EveryItem, Value::Array(items)) => {
                items.iter_mut().for_each(|item| remove_from(item, rest));
            }
            (PathStep::Item(index), Value::Array(items)) if rest.is_empty() && *index < items.len() => {
                items.remove(*index);
            }
            (PathStep::Item(index), Value::Array(items)) => {
                if let Some(item) = items.get_mut(*index) {
                    remove_from(item, rest);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn the_text_agrees_with_the_tree() {
        let tree =
            json!({"a": [{"b": [1, {"c": [true, null]}], "d": "x"}, [], 5], "b": {"a": {"b": [0]}}, "": {}});
        for path in [
            "a",
            "a[0]",
            "a[2]",
            "a[3]",
            "a[*]",
            "a[0].b[1].c[0]",
            "a[*].b[*]",
            "a[*].b[1].c",
            "a[*].d",
            "b.a.b[0]",
            "b.a",
            "b[0]",
            "d",
        ] {
            let parsed = JsonPath::parse(path).unwrap();
            let mut wanted = tree.clone();
            remove_from(&mut wanted, &parsed.steps);
            let text = tree.to_string();
            let found = without(&text, [&parsed]).unwrap_or(text);
            assert_eq!(serde_json::from_str::<Value>(&found).unwrap(), wanted, "{path}");
        }
    }
}
