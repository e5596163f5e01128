//! Reads a JSON object, or the text of a query parameter, by a table of fields.

use super::{Field, Type};
use jiff::Timestamp;
use knowledge::provider;
use serde_json::{Map, Number, Value};
use uuid::Uuid;
use words::api::operation::Operation;
use words::config::node::{Entry, Node, NodeKind};
use words::config::read::{Problems, nearest};
use words::settings::model_pattern::{self, ModelPattern};
use words::settings::scopes::Scope;
use words::settings::service_key::sha256_bytes;

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
    let NodeKind::Map(entries) = &node.kind else {
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
        if entry.value.kind == NodeKind::Null {
            if field.is_nullable {
                drop(read.insert(field.name.to_owned(), Value::Null));
            } else {
                problems.push(at, entry.place, "must not be null");
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
            text.parse().map_or_else(|_| NodeKind::Text(text.to_owned()), NodeKind::Number)
        }
        Type::Switch if text.is_empty() => NodeKind::Bool(true),
        Type::Flag | Type::Switch => match text {
            "true" | "1" => NodeKind::Bool(true),
            "false" | "0" => NodeKind::Bool(false),
            _ => NodeKind::Text(text.to_owned()),
        },
        _ => NodeKind::Text(text.to_owned()),
    };
    read_value(of, &Node { kind, place: None }, path, problems)
}

fn read_value(of: &Type, node: &Node, path: &str, problems: &Problems) -> Option<Value> {
    let read = match (of, &node.kind) {
        (Type::AnyOf(types), kind) => match types.iter().find(|of| fits(of, kind)) {
            Some(of) => return read_value(of, node, path, problems),
            None => Err(wrong_type(&types.iter().map(kind_name).collect::<Vec<_>>().join(" or "), node)),
        },
        (Type::AnyObject | Type::ConfigObject, NodeKind::Map(_)) | (Type::Any, _) => {
            serde_json::from_str(&node.to_json()).map_err(|_| wrong_type("a JSON value", node))
        }
        (Type::Object(fields), NodeKind::Map(_)) => {
            Ok(Value::Object(read_object(fields, node, path, problems)))
        }
        (Type::List(of, min, max), NodeKind::List(items)) if (*min..=*max).contains(&items.len()) => {
            let item =
                |(index, item): (usize, &Node)| read_value(of, item, &format!("{path}[{index}]"), problems);
            Ok(items.iter().enumerate().filter_map(item).collect())
        }
        (Type::List(_, min, max), NodeKind::List(_)) => Err(format!("must have {min} to {max} items")),
        (Type::Map(of, max), NodeKind::Map(entries)) if entries.len() <= *max => {
            let member = |entry: &Entry| {
                let value = read_value(of, &entry.value, &joined(path, &entry.name), problems)?;
                Some((entry.name.clone(), value))
            };
            Ok(Value::Object(entries.iter().filter_map(member).collect()))
        }
        (Type::Map(_, max), NodeKind::Map(_)) => Err(format!("must have at most {max} members")),
        (Type::Flag | Type::Switch | Type::Bit, NodeKind::Bool(flag)) => Ok(Value::Bool(*flag)),
        (Type::Flag | Type::Switch | Type::Bit, NodeKind::Number(number))
            if matches!(number.as_f64(), Some(0.0 | 1.0)) =>
        {
            Ok(Value::Bool(number.as_f64() == Some(1.0)))
        }
        (of, NodeKind::Text(text)) if fits(of, &node.kind) => string(of, text),
        (of, NodeKind::Number(value)) if fits(of, &node.kind) => number(of, value),
        _ => Err(wrong_type(kind_name(of), node)),
    };
    read.map_err(|message| problems.push(path, node.place, message)).ok()
}

fn wrong_type(wanted: &str, node: &Node) -> String {
    format!("must be {wanted}, not {}", node.type_name())
}

/// A value of one of the types that are written as strings.
fn string(of: &Type, text: &str) -> Result<Value, String> {
    let value = match of {
        Type::Text(max) | Type::Name(max) if text.chars().count() > *max => {
            return Err(format!("must have at most {max} characters"));
        }
        Type::Name(_) if text.trim().is_empty() => return Err("must not be blank".to_owned()),
        Type::Slug(min, max) => {
            let is_slug = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            if !is_slug || !(*min..=*max).contains(&text.len()) {
                return Err(format!("must be {min} to {max} letters, digits, dashes, underscores and dots"));
            }
            text.to_owned()
        }
        Type::Uuid => Uuid::try_parse(text).map_err(|_| "must be a UUID")?.to_string(),
        Type::Sha256 if sha256_bytes(text).is_none() => {
            return Err("must be a SHA-256 in 64 hexadecimal digits".to_owned());
        }
        Type::Time => {
            let wrong = |_| "must be a time such as 2026-05-03T17:08:55Z or 2026-05-03T19:08:55+02:00";
            let time: Timestamp = text.parse().or_else(|_| with_plus(text).parse()).map_err(wrong)?;
            format!("{time:.3}")
        }
        Type::OneOf(names) if !names.contains(&text) => {
            return Err(format!("must be one of {}", names.join(", ")));
        }
        Type::Names(names) => {
            if let Some(name) = text.split(',').find(|name| !names.contains(&name.trim_matches(' '))) {
                return Err(format!("{name:?} must be one of {}", names.join(", ")));
            }
            text.to_owned()
        }
        Type::Ids(max) => {
            let is_id = |b: u8| b.is_ascii_alphanumeric() || b"-_., ".contains(&b);
            if text.len() > *max || !text.bytes().all(is_id) {
                return Err(format!("must be ids or slugs with commas, at most {max} characters"));
            }
            text.to_owned()
        }
        Type::Email if !is_email(text) => return Err("must be an address such as ann@example.com".to_owned()),
        Type::Scope if Scope::parse(text).is_none() => {
            return Err(format!("{text:?} is no scope; docs/keys.md lists them"));
        }
        Type::ModelName if ModelPattern::parse(text).is_none() => return Err(model_pattern::RULE.to_owned()),
        Type::Operation if !Operation::labels().any(|label| label == text) => {
            return Err(format!("{text:?} is no operation; docs/operations.md lists them"));
        }
        Type::Vendor if provider::find(text).is_none() => return Err(provider::unknown(text)),
        _ => text.to_owned(),
    };
    Ok(value.into())
}

/// A time whose offset has lost its plus: in a query it means a space unless it is encoded, and few clients do that.
fn with_plus(time: &str) -> String {
    match time.rsplit_once(' ') {
        Some((time, offset)) if time.contains('T') => format!("{time}+{offset}"),
        _ => time.to_owned(),
    }
}

fn number(of: &Type, value: &Number) -> Result<Value, String> {
    let bounds = match of {
        Type::Integer(min, max) => {
            let Some(whole) = value.as_i64().or_else(|| whole(value)) else {
                return Err("must be an integer, not a number".to_owned());
            };
            match whole {
                whole if whole < *min => Err(format!("must be at least {min}")),
                whole if whole > *max => Err(format!("must be at most {max}")),
                whole => return Ok(whole.into()),
            }
        }
        Type::Number(min, max) => match value.as_f64().unwrap_or(f64::NAN) {
            number if number < *min => Err(format!("must be at least {min}")),
            number if number <= *max => Ok(()),
            _ => Err(format!("must be at most {max}")),
        },
        _ => Ok(()),
    };
    bounds.map(|()| Value::Number(value.clone()))
}

fn whole(number: &Number) -> Option<i64> {
    number.as_f64().filter(|value| value.fract() == 0.0 && value.abs() < 9e15).map(|value| value as i64)
}

/// `name@host` without spaces, in the bounds of the schema.
fn is_email(text: &str) -> bool {
    let is_part = |part: &str, max: usize| {
        (1..=max).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_graphic() && b != b'@')
    };
    text.split_once('@').is_some_and(|(name, host)| is_part(name, 64) && is_part(host, 255))
}

/// Whether values of this type are texts.
fn is_text(of: &Type) -> bool {
    matches!(
        of,
        Type::Text(_)
            | Type::Name(_)
            | Type::Slug(..)
            | Type::Uuid
            | Type::Sha256
            | Type::Time
            | Type::OneOf(_)
            | Type::Names(_)
            | Type::Ids(_)
            | Type::Email
            | Type::Vendor
            | Type::PolicyKey
            | Type::Scope
            | Type::ModelName
            | Type::Operation
    )
}

/// Whether a value of this kind can be of this type, whatever its content.
fn fits(of: &Type, kind: &NodeKind) -> bool {
    match of {
        of if is_text(of) => matches!(kind, NodeKind::Text(_)),
        Type::Flag | Type::Switch | Type::Bit => matches!(kind, NodeKind::Bool(_)),
        Type::Integer(..) | Type::Number(..) => matches!(kind, NodeKind::Number(_)),
        Type::List(..) => matches!(kind, NodeKind::List(_)),
        Type::Map(..) | Type::Object(_) | Type::AnyObject | Type::ConfigObject => {
            matches!(kind, NodeKind::Map(_))
        }
        Type::AnyOf(types) => types.iter().any(|of| fits(of, kind)),
        _ => true,
    }
}

fn kind_name(of: &Type) -> &'static str {
    match of {
        of if is_text(of) => "a string",
        Type::Flag | Type::Switch | Type::Bit => "a boolean",
        Type::Integer(..) => "an integer",
        Type::Number(..) => "a number",
        Type::List(..) => "an array",
        Type::Map(..) | Type::Object(_) | Type::AnyObject | Type::ConfigObject => "an object",
        _ => "a value",
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
