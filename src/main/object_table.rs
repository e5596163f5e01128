//! Objects of the control API as text for a terminal: a table of many, the members of one.
//!
//! For people: programs take `--json`.

use serde_json::Value;
use std::ops::RangeInclusive;

/// The members that a table begins with, where the objects have them.
const FIRST: [&str; 12] = [
    "id",
    "slug",
    "name",
    "email",
    "role",
    "type",
    "model",
    "operation",
    "status",
    "response_status_code",
    "workspace_id",
    "created_at",
];
/// Columns of a table, at least where there are so many.
const MIN_COLUMNS: usize = 4;
/// Characters of a value in a table.
const MAX_WIDTH: usize = 60;

/// A table of objects. `columns`: the members that the API's document has of each.
pub fn objects(columns: &[&str], objects: &[Value]) -> String {
    let columns = chosen(columns);
    let mut rows = vec![columns.iter().map(|name| name.to_uppercase()).collect::<Vec<_>>()];
    let cell = |object: &Value, name: &str| clipped(&text(object.get(name)));
    rows.extend(objects.iter().map(|object| columns.iter().map(|name| cell(object, name)).collect()));
    aligned(&rows)
}

/// The members of one object, a line each.
pub fn members(object: &Value) -> String {
    let Some(members) = object.as_object().filter(|members| !members.is_empty()) else {
        return "done\n".to_owned();
    };
    let rows: Vec<Vec<String>> =
        members.iter().map(|(name, value)| vec![visible(name), text(Some(value))]).collect();
    aligned(&rows)
}

fn chosen<'c>(columns: &[&'c str]) -> Vec<&'c str> {
    let first = FIRST.iter().filter_map(|name| columns.iter().find(|column| *column == name));
    let mut chosen: Vec<&str> = first.copied().collect();
    for column in columns {
        if chosen.len() >= MIN_COLUMNS {
            break;
        }
        if !chosen.contains(column) {
            chosen.push(column);
        }
    }
    chosen
}

/// A value on one line.
fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "\"\"".to_owned(),
        Some(Value::String(text)) => visible(text),
        Some(other) => visible(&other.to_string()),
    }
}

/// Characters without a width, and those that change the direction of others.
const IS_FORMAT: [RangeInclusive<char>; 4] =
    ['\u{200b}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2060}'..='\u{206f}', '\u{feff}'..='\u{feff}'];

/// Control characters as escapes: a name may be anything, and a terminal obeys some of them.
pub fn visible(text: &str) -> String {
    let shown = |char: char| {
        let is_plain = !char.is_control() && !IS_FORMAT.iter().any(|range| range.contains(&char));
        if is_plain { char.to_string() } else { char.escape_unicode().to_string() }
    };
    text.chars().map(shown).collect()
}

pub fn clipped(text: &str) -> String {
    if text.chars().count() <= MAX_WIDTH {
        return text.to_owned();
    }
    text.chars().take(MAX_WIDTH - 1).chain(['…']).collect()
}

/// Rows with cells of equal width, and nothing after the last one.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let padded: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        out.push_str(padded.join("  ").trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_has_the_names_first_and_no_control_characters() {
        let columns = ["created_at", "note", "name", "id"];
        let objects = [
            json!({"id": "1", "name": "a\u{1b}[31m", "note": null, "created_at": "2026"}),
            json!({"id": "22", "name": "x".repeat(100), "note": "n"}),
        ];
        let table = super::objects(&columns, &objects);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("ID  NAME ") && lines[0].ends_with("CREATED_AT  NOTE"), "{table}");
        assert!(lines[1].starts_with("1   a\\u{1b}[31m ") && lines[1].ends_with("2026        -"), "{table}");
        assert!(lines[2].starts_with(&format!("22  {}…", "x".repeat(59))), "{table}");
        assert_eq!(super::objects(&columns, &[]), "ID  NAME  CREATED_AT  NOTE\n");
    }

    #[test]
    fn an_object_has_a_line_for_each_member() {
        let object = json!({"id": "1", "config": {"retry": {"attempts": 2}}, "note": ""});
        let lines = members(&object);
        for line in ["id      1\n", "config  {\"retry\":{\"attempts\":2}}\n", "note    \"\"\n"] {
            assert!(lines.contains(line), "{lines}");
        }
        assert_eq!(members(&json!({})), "done\n");
    }
}
