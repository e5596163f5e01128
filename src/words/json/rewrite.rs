//! A JSON text with the values of a changed tree: what is equal in both keeps its text, and members keep their order.
//!
//! For who changes a tree and not a text. [`super::splice`] changes a text in its places.

use super::splice::Object;
use super::{Json, tree, walk};
use serde_json::Value;

/// Writes `new` with the text of what is in `text` as well.
pub fn rewritten(text: &str, new: &Value) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    write(text.trim(), new, &mut out);
    out
}

fn write(text: &str, new: &Value, out: &mut String) {
    if is_equal(text, new) {
        out.push_str(text);
        return;
    }
    match (new, Object::read(text), list(text)) {
        (Value::Object(members), Some(object), _) => {
            let kept =
                object.members().filter_map(|(name, json)| Some((name, json.get(), members.get(name)?)));
            let added = members.iter().filter(|(name, _)| !object.has(name));
            let all = kept.chain(added.map(|(name, value)| (name.as_str(), "", value)));
            out.push('{');
            for (index, (name, text, value)) in all.enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                out.push_str(Json::from_value(name).get());
                out.push(':');
                write(text, value, out);
            }
            out.push('}');
        }
        (Value::Array(new), _, Some(old)) => write_list(&old, new, out),
        _ => out.push_str(Json::from_value(new).get()),
    }
}

/// Items that were put in or taken out stand between those that are equal at the beginning and at the end.
fn write_list(old: &[&str], new: &[Value], out: &mut String) {
    let pairs = |old: &mut dyn Iterator<Item = &&str>, new: &mut dyn Iterator<Item = &Value>| {
        old.zip(new).take_while(|(old, new)| is_equal(old, new)).count()
    };
    let first = pairs(&mut old.iter(), &mut new.iter());
    let room = old.len().min(new.len()) - first;
    let last = pairs(&mut old.iter().rev(), &mut new.iter().rev()).min(room);
    let is_same_length = old.len() == new.len();
    out.push('[');
    for (index, value) in new.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        let from_end = new.len() - index;
        let place = match (index < first || is_same_length, from_end <= last) {
            (true, _) => Some(index),
            (_, true) => Some(old.len() - from_end),
            _ => None,
        };
        write(place.and_then(|place| old.get(place)).copied().unwrap_or_default(), value, out);
    }
    out.push(']');
}

fn list(text: &str) -> Option<Vec<&str>> {
    let items = walk::items(text.as_bytes())?;
    items.map(|item| std::str::from_utf8(item).ok()).collect()
}

fn is_equal(text: &str, value: &Value) -> bool {
    tree::read(text).is_ok_and(|old| old == *value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_equal_keeps_its_text_and_its_order() {
        let text = r#"{"z": 1.50, "m":[ {"role":"user" ,"content":"a"}, {"b":1,"a":2.0} ],"gone":1,"s":{"zz":1,"aa":[1.0]}}"#;
        for (new, wanted) in [
            (json!({"z": 1.5, "m": [{"role": "user", "content": "a"}, {"b": 1, "a": 2.0}], "gone": 1, "s": {"zz": 1, "aa": [1.0]}}), text.to_owned()),
            (
                json!({"z": 1.5, "m": [{"role": "user", "content": "Pa"}, {"b": 1, "a": 2.0}], "s": {"zz": 1, "aa": [1.0]}, "new": {}}),
                r#"{"z":1.50,"m":[{"role":"user","content":"Pa"},{"b":1,"a":2.0}],"s":{"zz":1,"aa":[1.0]},"new":{}}"#.to_owned(),
            ),
            (
                json!({"z": 2, "m": [{"x": 1}, {"role": "user", "content": "a"}, {"b": 1, "a": 2.0}], "gone": 1, "s": {"zz": 1, "aa": [1.0]}}),
                r#"{"z":2,"m":[{"x":1},{"role":"user" ,"content":"a"},{"b":1,"a":2.0}],"gone":1,"s":{"zz":1,"aa":[1.0]}}"#.to_owned(),
            ),
            (json!([1]), "[1]".to_owned()),
        ] {
            let written = rewritten(text, &new);
            assert_eq!(written, wanted);
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), new);
        }
    }

    #[test]
    fn lists_of_any_change_are_written() {
        for (text, new) in [
            ("[1,1,1]", json!([1, 1])),
            ("[1]", json!([1, 1, 1])),
            ("[]", json!([{}])),
            ("[{\"a\":1}]", json!([])),
            ("[1,2,3]", json!([1, 9, 2, 3])),
            ("[1,2,3]", json!([3, 2, 1])),
        ] {
            assert_eq!(serde_json::from_str::<Value>(&rewritten(text, &new)).unwrap(), new, "{text}");
        }
    }
}
