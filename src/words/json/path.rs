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
use std::ops::Range;

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

    /// Its first member, and what leads on from there.
    fn split_first(&self) -> Option<(&str, &[PathStep])> {
        match self.steps.split_first()? {
            (PathStep::Member(name), rest) => Some((name, rest)),
            _ => None,
        }
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
///
/// Nothing is kept of what stays: the text is passed over once for all paths together, and what a path leads into once more for that path.
pub fn without<'p>(text: &str, paths: impl IntoIterator<Item = &'p JsonPath>) -> Option<String> {
    let paths: Vec<(&str, &[PathStep])> = paths.into_iter().filter_map(JsonPath::split_first).collect();
    let mut cuts = Cuts { text: text.as_bytes(), places: Vec::new() };
    for (name, value) in walk::members(cuts.text)? {
        for (_, rest) in paths.iter().filter(|(first, _)| is_name(name, first)) {
            cuts.add(Some(name), value, rest);
        }
    }
    (!cuts.places.is_empty()).then(|| cuts.splice(text))
}

/// Whether a name, as it stands between its quotes, is this one. A name that is no text is none.
fn is_name(raw: &[u8], name: &str) -> bool {
    match memchr::memchr(b'\\', raw) {
        None => raw == name.as_bytes(),
        Some(_) => unquote(&[b"\"", raw, b"\""].concat()).is_some_and(|plain| plain == name),
    }
}

/// What is cut out of a text.
struct Cuts<'t> {
    text: &'t [u8],
    /// Whole members and items, without the commas around them.
    places: Vec<Range<usize>>,
}

impl<'t> Cuts<'t> {
    /// Cuts what the rest of a path names in this member or item: an empty one names all of it.
    fn add(&mut self, name: Option<&'t [u8]>, value: &'t [u8], rest: &[PathStep]) {
        let Some((step, behind)) = rest.split_first() else {
            // The quote before a name belongs to it.
            let start = name.map_or_else(|| self.offset(value), |name| self.offset(name).saturating_sub(1));
            return self.places.push(start..self.offset(value) + value.len());
        };
        match step {
            PathStep::Member(wanted) => {
                for (name, value) in walk::members(value).into_iter().flatten() {
                    if is_name(name, wanted) {
                        self.add(Some(name), value, behind);
                    }
                }
            }
            PathStep::Item(index) => {
                if let Some(item) = walk::items(value).and_then(|mut items| items.nth(*index)) {
                    self.add(None, item, behind);
                }
            }
            PathStep::EveryItem => {
                walk::items(value).into_iter().flatten().for_each(|item| self.add(None, item, behind));
            }
        }
    }

    /// Where a part of the text begins in it.
    fn offset(&self, part: &[u8]) -> usize {
        part.as_ptr().addr() - self.text.as_ptr().addr()
    }

    /// The text without them, and without a comma for each.
    fn splice(mut self, text: &str) -> String {
        self.places.sort_unstable_by_key(|place| (place.start, std::cmp::Reverse(place.end)));
        let mut kept = String::with_capacity(text.len());
        let mut at = 0;
        for place in self.places {
            // It is in a place that was cut already.
            if place.start < at {
                continue;
            }
            kept.push_str(text.get(at..place.start).unwrap_or_default());
            let behind = text.get(place.end..).unwrap_or_default();
            let next = behind.trim_start();
            at = match next.strip_prefix(',') {
                Some(rest) => text.len() - rest.trim_start().len(),
                None => text.len() - next.len(),
            };
            // The last one of several: the comma before it goes.
            if !next.starts_with(',') && kept.trim_end().ends_with(',') {
                kept.truncate(kept.trim_end().len() - 1);
            }
        }
        kept.push_str(text.get(at..).unwrap_or_default());
        kept
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
                    r#"{"tools":[{"n":"x","f":{"strict":true,"k":1e3}},{"f":{"strict":false}}], "m":[[1,2],[3]], "e\u0041":2}"#,
                ),
            ),
            (&["tools[*].f.strict", "m", "a", "eA"], Some(r#"{"tools":[{"n":"x","f":{"k":1e3}},{"f":{}}]}"#)),
            (
                &["tools[0].f.strict", "tools[1]", "m", "a", "eA"],
                Some(r#"{"tools":[{"n":"x","f":{"k":1e3}}]}"#),
            ),
            (&["m[*][0]", "tools", "a", "eA"], Some(r#"{"m":[[2],[]]}"#)),
            (&["tools[*]", "m[1][0]", "a", "eA"], Some(r#"{"tools":[], "m":[[1,2],[]]}"#)),
            // What is not there changes nothing.
            (&["b", "a.b", "a[0]", "tools.f", "tools[7].f", "m[0].x"], None),
            (&[], None),
        ] {
            assert_eq!(dropped(text, paths).as_deref(), wanted, "{paths:?}");
        }
        assert_eq!(dropped(r#"{"a":1,"a":2}"#, &["a"]).as_deref(), Some("{}"));
        assert_eq!(dropped(r#"[1]"#, &["a"]), None);
        for (text, paths, wanted) in [
            (r#"{ "a" : 1 , "b" : 2 }"#, &["a"][..], r#"{ "b" : 2 }"#),
            (r#"{ "a" : 1 , "b" : 2 }"#, &["b"], r#"{ "a" : 1 }"#),
            (r#"{ "a" : 1 , "b" : 2 }"#, &["b", "a"], "{ }"),
            (r#"{"a":[ 1 , 2,3 ]}"#, &["a[1]", "a[2]"], r#"{"a":[ 1 ]}"#),
            (r#"{"a":[1,[2],"x,"]}"#, &["a[*]", "a[1][0]", "a[2]"], r#"{"a":[]}"#),
            (r#"{"a":[["b,"],2],"c":1}"#, &["a[1]", "a"], r#"{"c":1}"#),
        ] {
            assert_eq!(dropped(text, paths).as_deref(), Some(wanted), "{text} {paths:?}");
        }
    }

    /// Half of a pair of surrogates is no text: such a name is none of a path's, and hides no other.
    #[test]
    fn a_name_that_is_no_text_hides_no_other() {
        let text = r#"{"m":[{"role":"user","name":"x","\ud800":1}],"\udc00":{"a":1},"a":2}"#;
        assert_eq!(
            dropped(text, &["m[*].name", "a"]).as_deref(),
            Some(r#"{"m":[{"role":"user","\ud800":1}],"\udc00":{"a":1}}"#)
        );
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
