//! Reads a JSON object, or the text of a query parameter, by a table of fields.

use super::{Field, Type};
use crate::config::node::{Kind, Node};
use crate::config::read::{Problems, nearest};
use jiff::Timestamp;
use serde_json::{Map, Value};
use uuid::Uuid;

/// Reads an object. Members that are null are kept as null, absent ones are absent. Flags become booleans, times UTC.
///
/// What is wrong is added to `problems`; the result has the members that are right.
pub(in super::super) fn read_object(
    fields: &[Field],
    node: &Node,
    path: &str,
    problems: &Problems,
) -> Map<String, Value> {
    let mut read = Map::new();
    let Kind::Map(entries) = &node.kind else {
        problems.push(path, node.place, format!("must be an object, not {}", node.type_name()));
        return read;
    };
    for entry in entries {
        let at = joined(path, &entry.name);
        let Some(field) = fields.iter().find(|field| field.name == entry.name) else {
            let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
            problems.push(
                at,
                entry.place,
                match nearest(&names, &entry.name) {
                    Some(name) => format!("unknown key; did you mean {name}?"),
                    None => "unknown key".to_owned(),
                },
            );
            continue;
        };
        if read.contains_key(field.name) {
            problems.push(at, entry.place, "stands twice");
            continue;
        }
        if entry.value.kind == Kind::Null {
            match field.is_nullable {
                true => drop(read.insert(field.name.to_owned(), Value::Null)),
                false => problems.push(at, entry.place, "must not be null"),
            }
            continue;
        }
        let value = read_value(&field.of, &entry.value, &at, problems);
        read.insert(field.name.to_owned(), value.unwrap_or(Value::Null));
    }
    for field in fields.iter().filter(|field| field.is_required) {
        if !entries.iter().any(|entry| entry.name == field.name) {
            problems.push(joined(path, field.name), node.place, "is required");
        }
    }
    read
}

/// Reads the value of a query parameter.
pub(in super::super) fn read_text(of: &Type, text: &str, path: &str, problems: &Problems) -> Option<Value> {
    let kind = match of {
        Type::Integer(..) | Type::Number(..) => {
            text.parse().map_or_else(|_| Kind::Text(text.to_owned()), Kind::Number)
        }
        Type::Flag => match text {
            "true" | "1" => Kind::Bool(true),
            "false" | "0" => Kind::Bool(false),
            _ => Kind::Text(text.to_owned()),
        },
        _ => Kind::Text(text.to_owned()),
    };
    read_value(of, &Node { kind, place: None }, path, problems)
}

fn read_value(of: &Type, node: &Node, path: &str, problems: &Problems) -> Option<Value> {
    let problem = |message: String| {
        problems.push(path, node.place, message);
        None
    };
    let wrong = |wanted: &str| problem(format!("must be {wanted}, not {}", node.type_name()));
    match (of, &node.kind) {
        (Type::Text(max) | Type::Name(max), Kind::Text(text)) => match text {
            _ if text.chars().count() > *max => problem(format!("must have at most {max} characters")),
            _ if matches!(of, Type::Name(_)) && text.trim().is_empty() => {
                problem("must not be blank".to_owned())
            }
            _ => Some(Value::from(text.as_str())),
        },
        (Type::Slug(min, max), Kind::Text(text)) => {
            let is_slug = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            match is_slug && (*min..=*max).contains(&text.len()) {
                true => Some(Value::from(text.as_str())),
                false => {
                    problem(format!("must be {min} to {max} letters, digits, dashes, underscores and dots"))
                }
            }
        }
        (Type::Uuid, Kind::Text(text)) => match Uuid::try_parse(text) {
            Ok(id) => Some(Value::from(id.to_string())),
            Err(_) => problem("must be a UUID".to_owned()),
        },
        (Type::Time, Kind::Text(text)) => match text.parse::<Timestamp>() {
            Ok(time) => Some(Value::from(format!("{time:.3}"))),
            Err(_) => problem("must be a time such as 2026-05-03T17:08:55Z".to_owned()),
        },
        (Type::Flag | Type::Bit, Kind::Bool(flag)) => Some(Value::Bool(*flag)),
        (Type::Flag | Type::Bit, Kind::Number(number)) if matches!(number.as_f64(), Some(0.0 | 1.0)) => {
            Some(Value::Bool(number.as_f64() == Some(1.0)))
        }
        (Type::Integer(min, max), Kind::Number(number)) => match number.as_i64().or_else(|| whole(number)) {
            Some(number) if number < *min => problem(format!("must be at least {min}")),
            Some(number) if number > *max => problem(format!("must be at most {max}")),
            Some(number) => Some(Value::from(number)),
            None => wrong("an integer"),
        },
        (Type::Number(min, max), Kind::Number(number)) => match number.as_f64().unwrap_or(f64::NAN) {
            value if value < *min => problem(format!("must be at least {min}")),
            value if value <= *max => Some(Value::Number(number.clone())),
            _ => problem(format!("must be at most {max}")),
        },
        (Type::OneOf(names), Kind::Text(text)) => match names.contains(&text.as_str()) {
            true => Some(Value::from(text.as_str())),
            false => problem(format!("must be one of {}", names.join(", "))),
        },
        (Type::List(of, min, max), Kind::List(items)) => {
            if !(*min..=*max).contains(&items.len()) {
                return problem(format!("must have {min} to {max} items"));
            }
            let read =
                |(index, item): (usize, &Node)| read_value(of, item, &format!("{path}[{index}]"), problems);
            Some(items.iter().enumerate().filter_map(read).collect())
        }
        (Type::Map(of, max), Kind::Map(entries)) => {
            if entries.len() > *max {
                return problem(format!("must have at most {max} members"));
            }
            let mut read = Map::new();
            for entry in entries {
                let at = joined(path, &entry.name);
                if let Some(value) = read_value(of, &entry.value, &at, problems) {
                    read.insert(entry.name.clone(), value);
                }
            }
            Some(Value::Object(read))
        }
        (Type::Object(fields), Kind::Map(_)) => {
            Some(Value::Object(read_object(fields, node, path, problems)))
        }
        (Type::AnyOf(types), _) => match types.iter().find(|of| fits(of, &node.kind)) {
            Some(of) => read_value(of, node, path, problems),
            None => wrong(&types.iter().map(kind_name).collect::<Vec<_>>().join(" or ")),
        },
        (Type::AnyObject, Kind::Map(_)) | (Type::Any, _) => {
            serde_json::from_str(&node.to_json()).ok().or_else(|| wrong("a JSON value"))
        }
        _ => wrong(kind_name(of)),
    }
}

fn whole(number: &serde_json::Number) -> Option<i64> {
    number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 9e15).map(|value| value as i64)
}

/// Whether a value of this kind can be of this type, whatever its content.
fn fits(of: &Type, kind: &Kind) -> bool {
    match of {
        Type::Text(_) | Type::Name(_) | Type::Slug(..) | Type::Uuid | Type::Time | Type::OneOf(_) => {
            matches!(kind, Kind::Text(_))
        }
        Type::Flag | Type::Bit => matches!(kind, Kind::Bool(_)),
        Type::Integer(..) | Type::Number(..) => matches!(kind, Kind::Number(_)),
        Type::List(..) => matches!(kind, Kind::List(_)),
        Type::Map(..) | Type::Object(_) | Type::AnyObject => matches!(kind, Kind::Map(_)),
        Type::AnyOf(types) => types.iter().any(|of| fits(of, kind)),
        Type::Any => true,
    }
}

fn kind_name(of: &Type) -> &'static str {
    match of {
        Type::Text(_) | Type::Name(_) | Type::Slug(..) | Type::Uuid | Type::Time | Type::OneOf(_) => {
            "a string"
        }
        Type::Flag | Type::Bit => "a boolean",
        Type::Integer(..) => "an integer",
        Type::Number(..) => "a number",
        Type::List(..) => "an array",
        Type::Map(..) | Type::Object(_) | Type::AnyObject => "an object",
        Type::AnyOf(_) | Type::Any => "a value",
    }
}

fn joined(path: &str, name: &str) -> String {
    // A name may be anything a client has written.
    let name: String = name.chars().take(64).collect();
    match path {
        "" => name,
        path => format!("{path}.{name}"),
    }
}
