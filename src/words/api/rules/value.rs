//! Checks one value against one [`Rule`]; the messages are OpenAI's.
//!
//! Values are valid JSON text. Of lists and objects only the members that a rule concerns are read.

use super::items::{self, Items, Role};
use super::{Rule, lists, missing, tools};
use crate::error::Error;
use crate::json::JsonStr;
use crate::json::outline::Outline;
use crate::json::walk;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

// Limits of metadata objects. Lengths are in characters.
pub(crate) const MAX_METADATA_PAIRS: usize = 16;
pub(crate) const MAX_METADATA_KEY: usize = 64;
pub(crate) const MAX_METADATA_VALUE: usize = 512;

const BIAS: Rule = Rule::Number { min: -100.0, max: 100.0 };

impl Rule {
    /// Checks whether the field `name` may have this value.
    pub(super) fn check(self, name: &str, value: &[u8]) -> Result<(), Error> {
        let kind = JsonKind::from_json(value);
        match self {
            Rule::Any => Ok(()),
            Rule::Text => expect(kind == JsonKind::Text, name, "a string", value),
            Rule::Flag => expect(kind == JsonKind::Flag, name, "a boolean", value),
            Rule::Object => expect(kind == JsonKind::Object, name, "an object", value),
            Rule::TextOrTexts { max } => lists::text_or_texts(name, value, max),
            Rule::Prompt => lists::prompt(name, value),
            Rule::Tools { max, nested } => tools::tools(name, value, max, nested),
            Rule::ToolChoice(values) => tools::tool_choice(name, value, values),
            Rule::Functions { min, max } => tools::functions(name, value, min, max),
            Rule::FunctionCall => tools::function_call(name, value),
            Rule::List { min, max } => list(name, value, min, max),
            Rule::Number { min, max } => number(name, value, min, max),
            Rule::Integer { min, max } => integer_within(name, value, min, max),
            Rule::OneOf(allowed) => match serde_json::from_slice(value) {
                Ok(JsonStr(text)) => one_of(name, &text, allowed),
                Err(_) => wrong_type(name, "a string", value),
            },
            Rule::Messages { roles } => messages(name, value, roles),
            Rule::Biases => biases(name, value),
            Rule::Format(kinds) => format_kind(name, value, kinds),
            Rule::TextOptions(kinds) => {
                expect(kind == JsonKind::Object, name, "an object", value)?;
                let format = items::member(value, "format");
                format.map_or(Ok(()), |format| format_kind(&format!("{name}.format"), format, kinds))
            }
            Rule::Metadata => metadata(name, value),
            Rule::Integrations => integrations(name, value),
        }
    }
}

/// The kind of a JSON text, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonKind {
    Text,
    Flag,
    Object,
    List,
    Null,
    Integer,
    Decimal,
}

impl JsonKind {
    pub(super) fn from_json(value: &[u8]) -> Self {
        match value.first() {
            Some(b'"') => JsonKind::Text,
            Some(b't' | b'f') => JsonKind::Flag,
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::List,
            Some(b'n') => JsonKind::Null,
            _ if value.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => JsonKind::Decimal,
            _ => JsonKind::Integer,
        }
    }

    pub(super) fn phrase(self) -> &'static str {
        match self {
            JsonKind::Text => "a string",
            JsonKind::Flag => "a boolean",
            JsonKind::Object => "an object",
            JsonKind::List => "an array",
            JsonKind::Null => "null",
            JsonKind::Integer => "an integer",
            JsonKind::Decimal => "a decimal number",
        }
    }
}

fn invalid(name: &str, message: impl fmt::Display) -> Result<(), Error> {
    Err(Error::invalid_request(name, format!("Invalid '{name}': {message}")))
}

pub(super) fn wrong_type(name: &str, wanted: &str, value: &[u8]) -> Result<(), Error> {
    let got = JsonKind::from_json(value).phrase();
    let message = format!("Invalid type for '{name}': expected {wanted}, but got {got} instead.");
    Err(Error::invalid_request(name, message))
}

fn expect(fits: bool, name: &str, wanted: &str, value: &[u8]) -> Result<(), Error> {
    if fits { Ok(()) } else { wrong_type(name, wanted, value) }
}

/// The part of the client's text that an error message quotes.
pub(super) fn truncated(text: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 40;
    match text.char_indices().nth(MAX_CHARS).and_then(|(end, _)| text.get(..end)) {
        Some(start) => Cow::Owned(format!("{start}…")),
        None => Cow::Borrowed(text),
    }
}

/// Checks that `text` is one of `allowed`.
pub(super) fn one_of(name: &str, text: &str, allowed: &[&str]) -> Result<(), Error> {
    if allowed.contains(&text) {
        return Ok(());
    }
    let list: Vec<String> = allowed.iter().map(|value| format!("'{value}'")).collect();
    let list = match list.split_last() {
        Some((last, rest)) if rest.len() > 1 => format!("{}, and {last}", rest.join(", ")),
        _ => list.join(" and "),
    };
    invalid_value(name, text, &list)
}

/// The error for a value that is not one of `supported`.
pub(super) fn invalid_value(name: &str, text: &str, supported: &str) -> Result<(), Error> {
    let message = format!("Invalid value: '{}'. Supported values are: {supported}.", truncated(text));
    Err(Error::invalid_request(name, message))
}

fn number(name: &str, value: &[u8], min: f64, max: f64) -> Result<(), Error> {
    let kind = JsonKind::from_json(value);
    if !matches!(kind, JsonKind::Integer | JsonKind::Decimal) {
        return wrong_type(name, "a decimal", value);
    }
    let written = std::str::from_utf8(value).unwrap_or_default();
    let number: f64 = written.parse().unwrap_or(f64::NAN);
    let written = truncated(written);
    if number > max {
        let rule = "decimal above maximum value. Expected a value <=";
        invalid(name, format_args!("{rule} {max}, but got {written} instead."))
    } else if number >= min {
        Ok(())
    } else {
        let rule = "decimal below minimum value. Expected a value >=";
        invalid(name, format_args!("{rule} {min}, but got {written} instead."))
    }
}

/// A whole number. `2.0` is one too, because JSON does not distinguish it from `2`.
fn whole_number(value: &[u8]) -> Option<i128> {
    let written = std::str::from_utf8(value).ok()?;
    match JsonKind::from_json(value) {
        // A number too large for this type is outside every range, on the side of its sign.
        JsonKind::Integer => {
            let saturated = if written.starts_with('-') { i128::MIN } else { i128::MAX };
            Some(written.parse().unwrap_or(saturated))
        }
        JsonKind::Decimal => {
            let number: f64 = written.parse().ok()?;
            // The fraction of infinity is NaN, so infinity is not whole. `as` saturates.
            (number.fract() == 0.0).then_some(number as i128)
        }
        _ => None,
    }
}

pub(super) fn integer(value: &[u8]) -> Option<i64> {
    i64::try_from(whole_number(value)?).ok()
}

fn integer_within(name: &str, value: &[u8], min: i64, max: i64) -> Result<(), Error> {
    let Some(number) = whole_number(value) else { return wrong_type(name, "an integer", value) };
    let written = String::from_utf8_lossy(value);
    let written = truncated(&written);
    if number > i128::from(max) {
        let rule = "integer above maximum value. Expected a value <=";
        invalid(name, format_args!("{rule} {max}, but got {written} instead."))
    } else if number < i128::from(min) {
        let rule = "integer below minimum value. Expected a value >=";
        invalid(name, format_args!("{rule} {min}, but got {written} instead."))
    } else {
        Ok(())
    }
}

pub(super) fn length(name: &str, count: usize, min: usize, max: usize) -> Result<(), Error> {
    if count > max {
        let rule = "array too long. Expected an array with maximum length";
        invalid(name, format_args!("{rule} {max}, but got an array with length {count} instead."))
    } else if count < min {
        let rule = "empty array. Expected an array with minimum length";
        invalid(name, format_args!("{rule} {min}, but got an empty array instead."))
    } else {
        Ok(())
    }
}

fn list(name: &str, value: &[u8], min: usize, max: usize) -> Result<(), Error> {
    let Some(items) = Items::read(value) else { return wrong_type(name, "an array", value) };
    length(name, items.count, min, max)?;
    match items.first_non_object {
        Some(index) => not_an_object(name, index),
        None => Ok(()),
    }
}

pub(super) fn not_an_object(name: &str, index: usize) -> Result<(), Error> {
    let name = format!("{name}[{index}]");
    let message = format!("Invalid type for '{name}': expected an object.");
    Err(Error::invalid_request(name, message))
}

fn messages(name: &str, value: &[u8], roles: &[&str]) -> Result<(), Error> {
    let Some(items) = Items::read(value) else { return wrong_type(name, "an array", value) };
    length(name, items.count, 1, usize::MAX)?;
    if let Some(index) = items.first_non_object {
        return not_an_object(name, index);
    }
    for (index, role) in items.roles.iter().enumerate() {
        let name = || format!("{name}[{index}].role");
        match role {
            Role::Named(role) if roles.contains(&&**role) => {}
            Role::Named(role) => one_of(&name(), role, roles)?,
            Role::NotString => {
                let message = format!("Invalid type for '{}': expected a string.", name());
                return Err(Error::invalid_request(name(), message));
            }
            Role::Absent => return Err(missing(&name())),
        }
    }
    Ok(())
}

fn biases(name: &str, value: &[u8]) -> Result<(), Error> {
    let Ok(Outline::<&RawValue>(biases)) = serde_json::from_slice(value) else {
        return wrong_type(name, "an object", value);
    };
    biases.iter().try_for_each(|(token, bias)| {
        let name = || format!("{name}.{}", truncated(token));
        BIAS.check("", bias.get().as_bytes()).or_else(|_| BIAS.check(&name(), bias.get().as_bytes()))
    })
}

fn metadata(name: &str, value: &[u8]) -> Result<(), Error> {
    let Ok(Outline::<&RawValue>(pairs)) = serde_json::from_slice(value) else {
        return wrong_type(name, "an object", value);
    };
    if pairs.len() > MAX_METADATA_PAIRS {
        let rule = "too many properties. Expected an object with at most";
        let count = pairs.len();
        let got = format_args!("{rule} {MAX_METADATA_PAIRS} properties, but got {count} instead.");
        return invalid(name, got);
    }
    for (key, value) in pairs {
        if key.chars().count() > MAX_METADATA_KEY {
            let rule = "key too long. Expected keys with maximum length";
            return invalid(name, format_args!("{rule} {MAX_METADATA_KEY}, but got '{}'.", truncated(&key)));
        }
        let name = format!("{name}.{key}");
        let Ok(JsonStr(text)) = serde_json::from_str(value.get()) else {
            return wrong_type(&name, "a string", value.get().as_bytes());
        };
        let count = text.chars().count();
        if count > MAX_METADATA_VALUE {
            let rule = "string too long. Expected a string with maximum length";
            let got =
                format_args!("{rule} {MAX_METADATA_VALUE}, but got a string with length {count} instead.");
            return invalid(&name, got);
        }
    }
    Ok(())
}

fn format_kind(name: &str, value: &[u8], kinds: &'static [&'static str]) -> Result<(), Error> {
    expect(JsonKind::from_json(value) == JsonKind::Object, name, "an object", value)?;
    let name = format!("{name}.type");
    items::member(value, "type")
        .map_or_else(|| Err(missing(&name)), |kind| Rule::OneOf(kinds).check(&name, kind))
}

fn integrations(name: &str, value: &[u8]) -> Result<(), Error> {
    list(name, value, 0, 5)?;
    for (index, item) in walk::items(value).into_iter().flatten().enumerate() {
        let at = |member: &str| format!("{name}[{index}].{member}");
        match items::member(item, "type") {
            None => return Err(missing(&at("type"))),
            Some(kind) => Rule::Text.check(&at("type"), kind)?,
        }
        if let Some(wandb) = items::member(item, "wandb") {
            Rule::Object.check(&at("wandb"), wandb)?;
        }
    }
    Ok(())
}
