//! Writes a [`Tree`] as YAML: objects in lines of their own, small ones further in on one line.
//!
//! The same tree gives the same bytes. Not here: the order of sections (`moved`).

use super::tree::{Member, Tree};
use std::fmt::Write;

/// What stands on one line is not longer.
const WIDTH: usize = 110;
/// Objects of these levels have a line for each member: the sections, and the providers, configs and models in them.
const OPEN_LEVELS: usize = 2;

/// The text of an object.
pub fn write(tree: &Tree) -> String {
    let mut out = String::new();
    if let Tree::Map(members) = tree {
        block_map(members, 0, &mut out);
    }
    out
}

/// A line for each member.
fn block_map(members: &[Member], level: usize, out: &mut String) {
    let indent = "  ".repeat(level);
    for member in members {
        for line in member.comment.lines() {
            let line = format!("{indent}# {line}");
            out.push_str(line.trim_end());
            out.push('\n');
        }
        // Writing to a string does not fail.
        let _ = write!(out, "{indent}{}:", scalar(&member.name, false));
        below(&member.value, level, out);
    }
}

/// The value behind a name or a dash: on the same line where it is small.
fn below(value: &Tree, level: usize, out: &mut String) {
    let is_open = level < OPEN_LEVELS && matches!(value, Tree::Map(members) if !members.is_empty());
    let column = out.len() - out.rfind('\n').map_or(0, |end| end + 1);
    if !is_open
        && let Some(flow) = flow(value).filter(|flow| column + 1 + flow.len() <= WIDTH || is_scalar(value))
    {
        let plain = match value {
            Tree::Text(text) => scalar(text, false),
            _ => flow,
        };
        out.push(' ');
        out.push_str(&plain);
        out.push('\n');
        return;
    }
    out.push('\n');
    match value {
        Tree::Map(members) => block_map(members, level + 1, out),
        Tree::List(items) => block_list(items, level + 1, out),
        _ => {}
    }
}

fn block_list(items: &[Tree], level: usize, out: &mut String) {
    let indent = "  ".repeat(level);
    for item in items {
        match item {
            // The members stand below each other, the first behind the dash.
            Tree::Map(members) if flow(item).is_none_or(|flow| indent.len() + 2 + flow.len() > WIDTH) => {
                let mut inner = String::new();
                block_map(members, level + 1, &mut inner);
                let inner = inner.strip_prefix(&format!("{indent}  ")).unwrap_or(&inner).to_owned();
                let _ = write!(out, "{indent}- {inner}");
            }
            item => {
                let _ = write!(out, "{indent}-");
                below(item, level.max(OPEN_LEVELS), out);
            }
        }
    }
}

fn is_scalar(value: &Tree) -> bool {
    !matches!(value, Tree::Map(_) | Tree::List(_))
}

/// The value on one line; `None`: it has comments.
fn flow(value: &Tree) -> Option<String> {
    Some(match value {
        Tree::Null => "null".to_owned(),
        Tree::Flag(flag) => flag.to_string(),
        Tree::Number(number) => number.clone(),
        Tree::Text(text) => scalar(text, true),
        Tree::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(flow).collect();
            format!("[{}]", items?.join(", "))
        }
        Tree::Map(members) => {
            let member = |member: &Member| {
                let value = flow(&member.value).filter(|_| member.comment.is_empty())?;
                Some(format!("{}: {value}", scalar(&member.name, true)))
            };
            let members: Option<Vec<String>> = members.iter().map(member).collect();
            format!("{{{}}}", members?.join(", "))
        }
    })
}

/// A text, in quotes where it would be read as something else without. `is_flow`: between brackets.
fn scalar(text: &str, is_flow: bool) -> String {
    if is_plain(text, is_flow) {
        return text.to_owned();
    }
    let quoted = serde_json::Value::from(text).to_string();
    // Characters that YAML does not take as they are, or that nobody would notice.
    let is_odd = |c: char| {
        matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    quoted.chars().fold(String::with_capacity(quoted.len()), |mut out, c| {
        if is_odd(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
        out
    })
}

fn is_plain(text: &str, is_flow: bool) -> bool {
    let begins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '$' | '.');
    let inside = |c: char| {
        c.is_ascii_alphanumeric() || " _./:@+-$*=()%~".contains(c) || (!is_flow && "{},[]".contains(c))
    };
    let is_word = matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null" | "nan" | "inf" | ".inf" | ".nan"
    );
    // Numbers, times and dates begin with a digit; a model such as 4o does as well, in quotes.
    let looks_numeric = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    text.starts_with(begins)
        && text.chars().all(inside)
        && !is_word
        && !looks_numeric
        && !text.contains(": ")
        && !text.ends_with([':', ' '])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let mut tree = Tree::of([
            (
                "providers",
                Tree::of([("a.b", Tree::of([("api_key", Tree::text("${A}")), ("n", Tree::whole(7))]))]),
            ),
            (
                "models",
                Tree::of([
                    ("gpt-*", Tree::text("@a.b/*")),
                    ("4o", Tree::text("a: b # c\n\"d\"")),
                    (
                        "yes",
                        Tree::of([("to", Tree::List(vec![Tree::text("x,y"), Tree::Flag(true), Tree::Null]))]),
                    ),
                ]),
            ),
            ("long", Tree::List(vec![Tree::of([("a", Tree::text("b".repeat(120))), ("c", Tree::map())]); 2])),
        ]);
        if let Tree::Map(members) = &mut tree {
            members[1].comment = "Two\nlines".to_owned();
        }
        let text = write(&tree);
        let (node, problems) = words::settings::read_yaml(&text).unwrap();
        assert!(problems.is_empty(), "{problems:?}");
        let read = Tree::from_node(&node, &mut |text| text.to_owned());
        if let Tree::Map(members) = &mut tree {
            members[1].comment.clear();
        }
        assert_eq!(read, tree, "{text}");
        assert!(text.contains("\n# Two\n# lines\nmodels:\n  gpt-*: \"@a.b/*\"\n"), "{text}");
    }
}
