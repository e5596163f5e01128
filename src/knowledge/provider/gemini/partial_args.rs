//! The arguments of a call that Vertex AI streams in pieces, put together into one JSON object.
//!
//! Each piece names its place with a JSON path; the text of a string may come in several pieces. For example:
//!
//! ```text
//! {"jsonPath":"$.city","stringValue":"Zü","willContinue":true}
//! {"jsonPath":"$.city","stringValue":"rich"}
//! {"jsonPath":"$.days[0].count","numberValue":3}        {"city":"Zürich","days":[{"count":3}]}
//! ```
//!
//! Only paths to one place are understood (names and indexes): others cannot say where a value goes.

use words::api::gemini::wire::GeminiPartialArg;
use words::json::Json;

/// The maximum of text and names held for one call, in bytes.
const MAX_BYTES: usize = 8 << 20;
/// The maximum of values held for one call. Members are searched one by one, which this bounds.
const MAX_VALUES: usize = 10_000;
/// The deepest place that is understood.
const MAX_DEPTH: usize = 64;

/// The arguments so far.
#[derive(Debug, Default)]
pub(super) struct PartialArgs {
    members: Vec<(String, Value)>,
    bytes: usize,
    values: usize,
}

#[derive(Debug)]
enum Value {
    Text(String),
    /// JSON text of a number, `true`, `false` or `null`.
    Scalar(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Index(usize),
}

impl PartialArgs {
    /// Takes one piece. `false`: its place is unknown, or the arguments are too large.
    #[must_use]
    pub fn take(&mut self, piece: &GeminiPartialArg<'_>) -> bool {
        let path = piece.json_path.as_deref().unwrap_or_default();
        let Some(steps) = steps(path) else { return false };
        let text = piece.string_value.as_deref();
        self.bytes += path.len() + text.map_or(8, str::len);
        if self.bytes > MAX_BYTES {
            return false;
        }
        let Some(place) = self.place(&steps) else { return false };
        match (text, &piece.number_value, piece.bool_value) {
            (Some(more), ..) => match place {
                Value::Text(text) => text.push_str(more),
                place => *place = Value::Text(more.to_owned()),
            },
            (None, Some(number), _) => *place = Value::Scalar(number.get().to_owned()),
            (None, None, Some(flag)) => *place = Value::Scalar(flag.to_string()),
            // Nothing yet of a value whose pieces follow, or `nullValue`.
            (None, None, None) if piece.will_continue == Some(true) => {}
            (None, None, None) => *place = Value::null(),
        }
        true
    }

    /// The JSON text of the arguments.
    pub fn json(&self) -> String {
        let mut out = String::new();
        write_object(&self.members, &mut out);
        out
    }

    /// The value at a path, made if it is not there.
    fn place(&mut self, steps: &[Step]) -> Option<&mut Value> {
        let (Step::Member(name), rest) = steps.split_first()? else { return None };
        let values = &mut self.values;
        let mut place = member(&mut self.members, name, values)?;
        for step in rest {
            place = match step {
                Step::Member(name) => {
                    if !matches!(place, Value::Object(_)) {
                        *place = Value::Object(Vec::new());
                    }
                    let Value::Object(members) = place else { return None };
                    member(members, name, values)?
                }
                Step::Index(index) => {
                    if !matches!(place, Value::List(_)) {
                        *place = Value::List(Vec::new());
                    }
                    let Value::List(items) = place else { return None };
                    item(items, *index, values)?
                }
            };
        }
        Some(place)
    }
}

impl Value {
    fn null() -> Self {
        Self::Scalar("null".to_owned())
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(Json::from_value(text).get()),
            Self::Scalar(json) => out.push_str(json),
            Self::Object(members) => write_object(members, out),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    item.write(out);
                }
                out.push(']');
            }
        }
    }
}

fn write_object(members: &[(String, Value)], out: &mut String) {
    out.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        out.push_str(Json::from_value(name).get());
        out.push(':');
        value.write(out);
    }
    out.push('}');
}

fn member<'v>(
    members: &'v mut Vec<(String, Value)>,
    name: &str,
    values: &mut usize,
) -> Option<&'v mut Value> {
    let at = match members.iter().position(|(existing, _)| existing == name) {
        Some(at) => at,
        None => {
            count(values, 1)?;
            members.push((name.to_owned(), Value::null()));
            members.len() - 1
        }
    };
    members.get_mut(at).map(|(_, value)| value)
}

fn item<'v>(items: &'v mut Vec<Value>, index: usize, values: &mut usize) -> Option<&'v mut Value> {
    if items.len() <= index {
        let length = index.checked_add(1)?;
        count(values, length - items.len())?;
        items.resize_with(length, Value::null);
    }
    items.get_mut(index)
}

/// Counts new values; `None` when there are too many.
fn count(values: &mut usize, more: usize) -> Option<()> {
    *values = values.saturating_add(more);
    (*values <= MAX_VALUES).then_some(())
}

/// The steps of a path like `$.days[0]['the name']`; `None` when it does not name one place.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == MAX_DEPTH {
            return None;
        }
        let (step, behind) = match rest.strip_prefix('.') {
            Some(name) => {
                let end = name.find(['.', '[']).unwrap_or(name.len());
                let (name, behind) = name.split_at_checked(end)?;
                if name.is_empty() || name == "*" {
                    return None;
                }
                (Step::Member(name.to_owned()), behind)
            }
            None => bracketed(rest.strip_prefix('[')?)?,
        };
        steps.push(step);
        rest = behind;
    }
    Some(steps).filter(|steps| !steps.is_empty())
}

/// A step in brackets, behind the opening one: an index or a quoted name. Also returns what follows it.
fn bracketed(text: &str) -> Option<(Step, &str)> {
    let Some(quote) = text.chars().next().filter(|char| matches!(char, '\'' | '"')) else {
        let (index, behind) = text.split_once(']')?;
        return Some((Step::Index(index.parse().ok()?), behind));
    };
    let mut name = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            _ if char == quote => {
                let behind = text.get(at + 1..)?.strip_prefix(']')?;
                return Some((Step::Member(name), behind));
            }
            '\\' => match chars.next()?.1 {
                'n' => name.push('\n'),
                't' => name.push('\t'),
                'r' => name.push('\r'),
                char @ ('\'' | '"' | '\\' | '/') => name.push(char),
                _ => return None,
            },
            char => name.push(char),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_together(pieces: &[&str]) -> Option<String> {
        let mut args = PartialArgs::default();
        pieces.iter().all(|piece| args.take(&serde_json::from_str(piece).unwrap())).then(|| args.json())
    }

    #[test]
    fn values_are_placed_at_their_paths() {
        let pieces = [
            r#"{"jsonPath":"$.city","stringValue":"Z\u00fc","willContinue":true}"#,
            r#"{"jsonPath":"$.city","stringValue":"rich \"8","willContinue":true}"#,
            r#"{"jsonPath":"$.city","stringValue":""}"#,
            r#"{"jsonPath":"$.days[1].count","numberValue":3.0}"#,
            r#"{"jsonPath":"$.days[0]","boolValue":true}"#,
            r#"{"jsonPath":"$['a.b'][\"c'\"]","nullValue":"NULL_VALUE"}"#,
            r#"{"jsonPath":"$.empty","stringValue":""}"#,
        ];
        assert_eq!(
            put_together(&pieces).unwrap(),
            r#"{"city":"Zürich \"8","days":[true,{"count":3.0}],"a.b":{"c'":null},"empty":""}"#
        );
        assert_eq!(put_together(&[]).unwrap(), "{}");
    }

    #[test]
    fn a_path_to_no_single_place_is_refused() {
        for path in ["", "$", "a", "$..a", "$.*", "$[*]", "$[-1]", "$[0]", "$.a[", "$.a['b", "$.a[1:2]"] {
            let piece = serde_json::json!({ "jsonPath": path, "boolValue": true }).to_string();
            assert_eq!(put_together(&[&piece]), None, "{path}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        assert_eq!(put_together(&[r#"{"jsonPath":"$.a[4000000000]","boolValue":true}"#]), None);
        assert_eq!(put_together(&[r#"{"jsonPath":"$.a[18446744073709551615]","boolValue":true}"#]), None);
        let deep = serde_json::json!({ "jsonPath": format!("$.a{}", "[0]".repeat(100)), "boolValue": true });
        assert_eq!(put_together(&[&deep.to_string()]), None);
        let long = serde_json::json!({ "jsonPath": "$.a", "stringValue": "x".repeat(1 << 20) }).to_string();
        assert_eq!(put_together(&[long.as_str(); 9]), None);
    }
}
