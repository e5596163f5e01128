//! JSON in a model's text: in fenced blocks, or as pieces in braces.
//!
//! A piece ends at the first closing brace, as at Portkey: an object with an object in it is found only in a fenced
//! block.

use serde_json::Value;

/// The most pieces that are read: each is parsed.
const MAX_PIECES: usize = 1000;
const FENCE: &str = "```";

/// What stands in the fenced blocks of a text, parsed, with any label or none.
pub(super) fn in_fences(text: &str) -> Vec<Value> {
    blocks(text)
        .filter_map(|(label, inside)| {
            let labelled = |label: &str| inside.trim_start().strip_prefix(label).and_then(parse);
            parse(inside).or_else(|| label.and_then(labelled))
        })
        .collect()
}

/// The pieces in braces, parsed.
pub(super) fn in_braces(text: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut rest = text;
    for _ in 0..MAX_PIECES {
        let Some((piece, behind)) = first_piece(rest) else { break };
        found.extend(parse(piece));
        rest = behind;
    }
    found
}

/// From the first opening brace to the first closing one behind it, and what follows.
fn first_piece(text: &str) -> Option<(&str, &str)> {
    let start = text.find('{')?;
    let length = text.get(start..)?.find('}')? + 1;
    Some((text.get(start..start + length)?, text.get(start + length..)?))
}

/// The fenced blocks of a text: the label, if there is one, and everything between the fences.
pub(super) fn blocks(text: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let inside = rest.get(rest.find(FENCE)?..)?.trim_start_matches('`');
        let end = inside.find(FENCE)?;
        rest = inside.get(end..)?.trim_start_matches('`');
        let inside = inside.get(..end)?;
        let is_part = |c: char| !c.is_whitespace() && !"{[\"".contains(c);
        let label = inside.split_once(|c| !is_part(c)).map_or(inside, |(label, _)| label);
        Some((Some(label).filter(|label| !label.is_empty()), inside))
    })
    .take(MAX_PIECES)
}

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fences_have_any_label_or_none() {
        for (text, wanted) in [
            ("a ```json\n{\"a\": {\"b\": 1}}\n``` b", vec![json!({"a": {"b": 1}})]),
            ("```{\"a\":1}```", vec![json!({"a": 1})]),
            ("```json{\"a\":1}```", vec![json!({"a": 1})]),
            ("````jsonc\n[1]\n````", vec![json!([1])]),
            ("```\n1\n``` and ```JSON\n2```", vec![json!(1), json!(2)]),
            ("```js\nlet a = 1;\n```", vec![]),
            ("```json\n{\"a\":1}", vec![]),
        ] {
            assert_eq!(in_fences(text), wanted, "{text}");
        }
    }

    #[test]
    fn braces_end_at_the_first_closing_one() {
        for (text, wanted) in [
            (r#"a {"b":1} c {"d":2}"#, vec![json!({"b": 1}), json!({"d": 2})]),
            (r#"{"a":{"b":1}}"#, vec![]),
            ("{a}", vec![]),
            ("} {", vec![]),
        ] {
            assert_eq!(in_braces(text), wanted, "{text}");
        }
    }
}
