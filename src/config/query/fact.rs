//! The values that queries test: one value of the request, converted as JavaScript would.
//!
//! Values borrow the client's bytes where possible; a list or an object is parsed only when its text or
//! number is needed. Not here: where the values come from (`route::facts`), and the operators (`query`).
//!
//! Examples: `["7",null]` has the text `7,` and the number 7; `"10 apples"` has the number 10.

use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Write;

/// The values of a request that conditions may test (reference section 3). `None`: there is no such value.
pub trait Facts {
    /// A member of the metadata header's JSON object.
    fn metadata(&self, name: &str) -> Option<Fact<'_>>;
    /// A top-level member of the JSON body as the client sent it, before `override_params`.
    fn param(&self, name: &str) -> Option<Fact<'_>>;
    /// A header by its lower-case name; never one of the gateway's own or a credential.
    fn header(&self, name: &str) -> Option<Cow<'_, str>>;
    /// The path as the client sent it: `/v1/chat/completions`.
    fn pathname(&self) -> &str;
}

/// One JSON value.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Cow<'a, str>),
    /// A list or an object, as its JSON text.
    Compound(&'a str),
}

#[derive(Deserialize)]
struct Borrowed<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Fact<'a> {
    /// Reads the JSON text of one value; `None` if it is not valid JSON.
    pub fn from_json(text: &'a str) -> Option<Self> {
        let text = text.trim();
        Some(match text.bytes().next()? {
            b'n' => Self::Null,
            b't' => Self::Bool(true),
            b'f' => Self::Bool(false),
            b'{' | b'[' => Self::Compound(text),
            b'"' => {
                let Borrowed(text) = serde_json::from_str(text).ok()?;
                Self::Text(text)
            }
            _ => Self::Number(text.parse().ok()?),
        })
    }

    /// The number JavaScript's `parseFloat` returns for it; NaN if there is none.
    pub fn number(&self) -> f64 {
        match self {
            Self::Null | Self::Bool(_) => f64::NAN,
            Self::Number(number) => *number,
            Self::Text(text) => parse_float(text),
            Self::Compound(text) => first_number(&parse_json(text)),
        }
    }

    /// The text JavaScript's `String` returns for it.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Null => "null".into(),
            Self::Bool(flag) => if *flag { "true" } else { "false" }.into(),
            Self::Number(number) => number_text(*number).into(),
            Self::Text(text) => Cow::Borrowed(text),
            Self::Compound(text) => {
                let mut out = String::new();
                write_text(&parse_json(text), &mut out);
                out.into()
            }
        }
    }
}

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// JavaScript joins a list to a text before parsing it, so its first item decides; an object has no number.
fn first_number(value: &Value) -> f64 {
    match value {
        Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
        Value::String(text) => parse_float(text),
        Value::Array(items) => items.first().map_or(f64::NAN, first_number),
        Value::Null | Value::Bool(_) | Value::Object(_) => f64::NAN,
    }
}

fn write_text(value: &Value, out: &mut String) {
    match value {
        // JavaScript writes null within a list as an empty text.
        Value::Null => {}
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(number.as_f64().unwrap_or(f64::NAN))),
        Value::String(text) => out.push_str(text),
        Value::Object(_) => out.push_str("[object Object]"),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                write_text(item, out);
            }
        }
    }
}

/// The number as ECMA-262 6.1.6.1.20 writes it, except for the last digits of integers above 2^53.
fn number_text(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if (1e-6..1e21).contains(&size) {
        return number.to_string();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let mut out = String::new();
    // Writing into a String cannot fail.
    let _ = write!(out, "{number:e}");
    match out.split_once('e') {
        Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
        _ => out,
    }
}

/// JavaScript's `parseFloat`: the longest number at the start of the text, after whitespace; NaN if there is
/// none.
pub fn parse_float(text: &str) -> f64 {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = text.len() - unsigned.len();
    if unsigned.starts_with("Infinity") {
        return if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    let bytes = unsigned.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if end + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if end == 0 {
        return f64::NAN;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let power = digits(end + 1 + sign);
        if power > 0 {
            end += 1 + sign + power;
        }
    }
    text.get(..sign + end).and_then(|number| number.parse().ok()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, proptest};

    #[test]
    fn numbers_are_parsed_as_javascript_does() {
        for (text, wanted) in [
            ("11", 11.0),
            (" \n\t-1.5e2x", -150.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("1e", 1.0),
            ("1e+", 1.0),
            ("1e+2", 100.0),
            ("10 apples", 10.0),
            ("0x10", 0.0),
            ("1_000", 1.0),
            ("-Infinityx", f64::NEG_INFINITY),
            ("1e999", f64::INFINITY),
        ] {
            assert_eq!(parse_float(text), wanted, "{text}");
        }
        for text in ["", "abc", ".", "-", "+.", "e5", "- 1", "inf", "nan", "true"] {
            assert!(parse_float(text).is_nan(), "{text}");
        }
    }

    #[test]
    fn values_have_the_text_and_number_of_javascript() {
        for (json, text, number) in [
            ("null", "null", None),
            ("true", "true", None),
            ("1.0", "1", Some(1.0)),
            ("-0", "0", Some(0.0)),
            ("0.5", "0.5", Some(0.5)),
            ("1e21", "1e+21", Some(1e21)),
            ("1.5e-7", "1.5e-7", Some(1.5e-7)),
            ("1e999", "Infinity", Some(f64::INFINITY)),
            (r#""a\"b""#, "a\"b", None),
            (r#"["7",[null,true],{}]"#, "7,,true,[object Object]", Some(7.0)),
            ("[]", "", None),
            ("[[8,9]]", "8,9", Some(8.0)),
            (r#"{"a":1}"#, "[object Object]", None),
        ] {
            let fact = Fact::from_json(json).unwrap();
            assert_eq!(fact.text(), text, "{json}");
            assert_eq!(Some(fact.number()).filter(|number| !number.is_nan()), number, "{json}");
        }
        assert_eq!(Fact::from_json(""), None);
        assert_eq!(Fact::from_json("x"), None);
    }

    #[test]
    fn plain_text_is_not_copied() {
        assert!(matches!(Fact::from_json(r#""gpt-4o""#), Some(Fact::Text(Cow::Borrowed("gpt-4o")))));
    }

    proptest! {
        #[test]
        fn any_text_is_converted(text in ".{0,24}") {
            parse_float(&text);
            if let Some(fact) = Fact::from_json(&text) {
                fact.text();
                fact.number();
            }
        }

        #[test]
        fn numbers_round_trip(number in proptest::num::f64::NORMAL) {
            prop_assert!(parse_float(&number_text(number)) == number);
            let text = format!("{number:e} and so on");
            prop_assert!(parse_float(&text) == number);
        }
    }
}
