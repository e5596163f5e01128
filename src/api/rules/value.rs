//! One value against one [`Rule`], and OpenAI's words for what is wrong with it.
//!
//! Values come as JSON text known to be valid; of lists and objects only the members that a rule speaks of
//! are read.

use super::items::{Items, Role};
use super::{Rule, missing};
use crate::api::body::{Outline, Text};
use crate::error::Error;
use std::borrow::Cow;
use std::fmt;

/// Spec "Limits": metadata objects. Lengths in characters.
const METADATA_PAIRS: usize = 16;
const METADATA_KEY: usize = 64;
const METADATA_VALUE: usize = 512;

const BIAS: Rule = Rule::Number { least: -100.0, most: 100.0 };

impl Rule {
    /// Whether `value` may stand in the field `name`.
    pub(super) fn check(self, name: &str, value: &[u8]) -> Result<(), Error> {
        let kind = Noun::of(value);
        match self {
            Rule::Any => Ok(()),
            Rule::Text => expect(kind == Noun::Text, name, "a string", value),
            Rule::Flag => expect(kind == Noun::Flag, name, "a boolean", value),
            Rule::Object => expect(kind == Noun::Object, name, "an object", value),
            Rule::TextOrObject => {
                expect(matches!(kind, Noun::Text | Noun::Object), name, "a string or an object", value)
            }
            Rule::TextOrList { most } => match kind {
                Noun::Text => Ok(()),
                Noun::List => length(name, Items::read(value).map_or(0, |items| items.count), 0, most),
                _ => wrong_type(name, "a string or an array", value),
            },
            Rule::List { least, most } => list(name, value, least, most),
            Rule::Number { least, most } => number(name, value, least, most),
            Rule::Integer { least, most } => integer_within(name, value, least, most),
            Rule::OneOf(words) => match serde_json::from_slice(value) {
                Ok(Text(word)) => one_of(name, &word, words),
                Err(_) => wrong_type(name, "a string", value),
            },
            Rule::Messages { roles } => messages(name, value, roles),
            Rule::Biases => biases(name, value),
            Rule::Metadata => metadata(name, value),
        }
    }
}

/// What a JSON text is, told by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noun {
    Text,
    Flag,
    Object,
    List,
    Null,
    Integer,
    Decimal,
}

impl Noun {
    fn of(value: &[u8]) -> Self {
        match value.first() {
            Some(b'"') => Noun::Text,
            Some(b't' | b'f') => Noun::Flag,
            Some(b'{') => Noun::Object,
            Some(b'[') => Noun::List,
            Some(b'n') => Noun::Null,
            _ if value.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => Noun::Decimal,
            _ => Noun::Integer,
        }
    }

    fn phrase(self) -> &'static str {
        match self {
            Noun::Text => "a string",
            Noun::Flag => "a boolean",
            Noun::Object => "an object",
            Noun::List => "an array",
            Noun::Null => "null",
            Noun::Integer => "an integer",
            Noun::Decimal => "a decimal number",
        }
    }
}

fn invalid(name: &str, message: impl fmt::Display) -> Result<(), Error> {
    Err(Error::invalid_request(name, format!("Invalid '{name}': {message}")))
}

fn wrong_type(name: &str, wanted: &str, value: &[u8]) -> Result<(), Error> {
    let got = Noun::of(value).phrase();
    let message = format!("Invalid type for '{name}': expected {wanted}, but got {got} instead.");
    Err(Error::invalid_request(name, message))
}

fn expect(fits: bool, name: &str, wanted: &str, value: &[u8]) -> Result<(), Error> {
    if fits { Ok(()) } else { wrong_type(name, wanted, value) }
}

/// As much of the caller's text as an error message quotes.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    const MOST: usize = 40;
    match text.char_indices().nth(MOST).and_then(|(end, _)| text.get(..end)) {
        Some(start) => Cow::Owned(format!("{start}…")),
        None => Cow::Borrowed(text),
    }
}

/// Whether `word` is one of `words`.
pub(super) fn one_of(name: &str, word: &str, words: &[&str]) -> Result<(), Error> {
    if words.contains(&word) {
        return Ok(());
    }
    let list: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let list = match list.split_last() {
        Some((last, rest)) if rest.len() > 1 => format!("{}, and {last}", rest.join(", ")),
        _ => list.join(" and "),
    };
    let message = format!("Invalid value: '{}'. Supported values are: {list}.", shown(word));
    Err(Error::invalid_request(name, message))
}

fn number(name: &str, value: &[u8], least: f64, most: f64) -> Result<(), Error> {
    let kind = Noun::of(value);
    if !matches!(kind, Noun::Integer | Noun::Decimal) {
        return wrong_type(name, "a decimal", value);
    }
    let written = std::str::from_utf8(value).unwrap_or_default();
    let number: f64 = written.parse().unwrap_or(f64::NAN);
    let written = shown(written);
    if number > most {
        let rule = "decimal above maximum value. Expected a value <=";
        invalid(name, format_args!("{rule} {most}, but got {written} instead."))
    } else if number >= least {
        Ok(())
    } else {
        let rule = "decimal below minimum value. Expected a value >=";
        invalid(name, format_args!("{rule} {least}, but got {written} instead."))
    }
}

/// A whole number: JSON does not tell 2 from 2.0, so neither do we.
fn whole(value: &[u8]) -> Option<i128> {
    let written = std::str::from_utf8(value).ok()?;
    match Noun::of(value) {
        // What does not even fit here is beyond every range, on the side its sign says.
        Noun::Integer => {
            let beyond = if written.starts_with('-') { i128::MIN } else { i128::MAX };
            Some(written.parse().unwrap_or(beyond))
        }
        Noun::Decimal => {
            let number: f64 = written.parse().ok()?;
            // Infinity has a fraction that is not a number. `as` saturates.
            (number.fract() == 0.0).then_some(number as i128)
        }
        _ => None,
    }
}

pub(super) fn integer(value: &[u8]) -> Option<i64> {
    i64::try_from(whole(value)?).ok()
}

fn integer_within(name: &str, value: &[u8], least: i64, most: i64) -> Result<(), Error> {
    let Some(number) = whole(value) else { return wrong_type(name, "an integer", value) };
    let written = String::from_utf8_lossy(value);
    let written = shown(&written);
    if number > i128::from(most) {
        let rule = "integer above maximum value. Expected a value <=";
        invalid(name, format_args!("{rule} {most}, but got {written} instead."))
    } else if number < i128::from(least) {
        let rule = "integer below minimum value. Expected a value >=";
        invalid(name, format_args!("{rule} {least}, but got {written} instead."))
    } else {
        Ok(())
    }
}

fn length(name: &str, count: usize, least: usize, most: usize) -> Result<(), Error> {
    if count > most {
        let rule = "array too long. Expected an array with maximum length";
        invalid(name, format_args!("{rule} {most}, but got an array with length {count} instead."))
    } else if count < least {
        let rule = "empty array. Expected an array with minimum length";
        invalid(name, format_args!("{rule} {least}, but got an empty array instead."))
    } else {
        Ok(())
    }
}

fn list(name: &str, value: &[u8], least: usize, most: usize) -> Result<(), Error> {
    let Some(items) = Items::read(value) else { return wrong_type(name, "an array", value) };
    length(name, items.count, least, most)?;
    match items.odd {
        Some(index) => not_an_object(name, index),
        None => Ok(()),
    }
}

fn not_an_object(name: &str, index: usize) -> Result<(), Error> {
    let name = format!("{name}[{index}]");
    let message = format!("Invalid type for '{name}': expected an object.");
    Err(Error::invalid_request(name, message))
}

fn messages(name: &str, value: &[u8], roles: &[&str]) -> Result<(), Error> {
    let Some(items) = Items::read(value) else { return wrong_type(name, "an array", value) };
    length(name, items.count, 1, usize::MAX)?;
    if let Some(index) = items.odd {
        return not_an_object(name, index);
    }
    for (index, role) in items.roles.iter().enumerate() {
        let name = || format!("{name}[{index}].role");
        match role {
            Role::Told(role) if roles.contains(&&**role) => {}
            Role::Told(role) => one_of(&name(), role, roles)?,
            Role::Odd => {
                let message = format!("Invalid type for '{}': expected a string.", name());
                return Err(Error::invalid_request(name(), message));
            }
            Role::Absent => return Err(missing(&name())),
        }
    }
    Ok(())
}

fn biases(name: &str, value: &[u8]) -> Result<(), Error> {
    let Ok(Outline(biases)) = serde_json::from_slice(value) else {
        return wrong_type(name, "an object", value);
    };
    biases.iter().try_for_each(|(token, bias)| {
        let name = || format!("{name}.{}", shown(token));
        BIAS.check("", bias.get().as_bytes()).or_else(|_| BIAS.check(&name(), bias.get().as_bytes()))
    })
}

fn metadata(name: &str, value: &[u8]) -> Result<(), Error> {
    let Ok(Outline(pairs)) = serde_json::from_slice(value) else {
        return wrong_type(name, "an object", value);
    };
    if pairs.len() > METADATA_PAIRS {
        let rule = "too many properties. Expected an object with at most";
        let count = pairs.len();
        let got = format_args!("{rule} {METADATA_PAIRS} properties, but got {count} instead.");
        return invalid(name, got);
    }
    for (key, value) in pairs {
        if key.chars().count() > METADATA_KEY {
            let rule = "key too long. Expected keys with maximum length";
            return invalid(name, format_args!("{rule} {METADATA_KEY}, but got '{}'.", shown(&key)));
        }
        let name = format!("{name}.{key}");
        let Ok(Text(text)) = serde_json::from_str(value.get()) else {
            return wrong_type(&name, "a string", value.get().as_bytes());
        };
        let count = text.chars().count();
        if count > METADATA_VALUE {
            let rule = "string too long. Expected a string with maximum length";
            let got = format_args!("{rule} {METADATA_VALUE}, but got a string with length {count} instead.");
            return invalid(&name, got);
        }
    }
    Ok(())
}
