//! The values that queries test: one value of the request, converted as JavaScript would.
//!
//! Values borrow the client's bytes and are unread until an operator needs them: a comparison with a text costs no more
//! than that text is long, and the text of a value is made only as far as patterns look at it. So a condition on a
//! value of megabytes costs little, and so do thousands. Not here: where the values come from (`route::facts`), and
//! the operators (`query`).
//!
//! Examples: `["7",null]` has the text `7,` and the number 7; `"10 apples"` has the number 10.

use crate::config::pattern::Excerpt;
use crate::json::{string, walk};
use std::borrow::Cow;
use std::fmt::Write;

/// Of a JSON list so much is looked at for its text.
const MAX_LIST_BYTES: usize = 64 << 10;

/// Of a text so much is looked at for the number it begins with.
const MAX_NUMBER_BYTES: usize = 1 << 10;

/// The values of a request that conditions may test. `None`: there is no such value.
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

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Cow<'a, str>),
    /// A JSON string with its quotes.
    String(&'a [u8]),
    /// A list or an object, as its JSON text.
    Compound(&'a [u8]),
}

impl<'a> Fact<'a> {
    /// Reads the JSON text of one value, which is proven valid; `None` if it does not look like one.
    pub fn from_json(text: &'a [u8]) -> Option<Self> {
        let text = text.trim_ascii();
        Some(match text.first()? {
            b'n' => Self::Null,
            b't' => Self::Bool(true),
            b'f' => Self::Bool(false),
            b'{' | b'[' => Self::Compound(text),
            b'"' => Self::String(text),
            _ => Self::Number(number(text)?),
        })
    }

    /// The number JavaScript's `parseFloat` returns for it; NaN if there is none.
    pub fn number(&self) -> f64 {
        match self {
            Self::Null | Self::Bool(_) => f64::NAN,
            Self::Number(number) => *number,
            Self::Text(text) => {
                parse_float(text.get(..text.floor_char_boundary(MAX_NUMBER_BYTES)).unwrap_or_default())
            }
            Self::String(quoted) => parse_float(&string::beginning(quoted, MAX_NUMBER_BYTES).0),
            Self::Compound(text) => first_number(text),
        }
    }

    /// Whether it is this text.
    pub fn is_text(&self, wanted: &str) -> bool {
        match self {
            Self::Text(text) => text == wanted,
            // A byte takes 1 to 6 bytes in JSON, so most values need not be read.
            Self::String(quoted) => {
                let len = quoted.len().saturating_sub(2);
                (wanted.len()..=6 * wanted.len()).contains(&len)
                    && string::unquote(quoted).is_some_and(|text| text == wanted)
            }
            _ => false,
        }
    }

    /// The text JavaScript's `String` returns for it, as far as patterns look at it.
    pub fn excerpt(&self) -> Excerpt<'_> {
        match self {
            Self::Null => Excerpt::of("null"),
            Self::Bool(flag) => Excerpt::of(if *flag { "true" } else { "false" }),
            Self::Number(number) => Excerpt::of(number_text(*number)),
            Self::Text(text) => Excerpt::of(&**text),
            Self::String(quoted) => match string::beginning(quoted, Excerpt::MAX_BYTES) {
                (text, true) => Excerpt::of(text),
                (text, false) => Excerpt::beginning_of(text),
            },
            Self::Compound(text) if text.starts_with(b"{") => Excerpt::of(OBJECT_TEXT),
            Self::Compound(text) => {
                let mut out = String::new();
                match write_list(text, &mut out) {
                    Some(()) => Excerpt::of(out),
                    None => Excerpt::beginning_of(out),
                }
            }
        }
    }
}

/// JavaScript's text of any object.
const OBJECT_TEXT: &str = "[object Object]";

/// The value of a JSON number.
fn number(text: &[u8]) -> Option<f64> {
    let text = text.get(..MAX_NUMBER_BYTES).unwrap_or(text);
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// JavaScript joins a list to a text before parsing it, so its first item decides; an object has no number.
fn first_number(text: &[u8]) -> f64 {
    let begins_value = |byte: &u8| !matches!(byte, b'[' | b' ' | b'\t' | b'\r' | b'\n');
    let Some(value) = text.iter().position(begins_value).and_then(|at| text.get(at..)) else {
        return f64::NAN;
    };
    match value.first() {
        Some(b'"') => parse_float(&string::beginning(value, MAX_NUMBER_BYTES).0),
        Some(b'-' | b'0'..=b'9') => {
            walk::value_end(value, 0).and_then(|end| number(value.get(..end)?)).unwrap_or(f64::NAN)
        }
        _ => f64::NAN,
    }
}

/// Writes the text of a list: the texts of its items, joined by commas. `None` if only the beginning was written.
fn write_list(list: &[u8], out: &mut String) -> Option<()> {
    let begin = list.get(..MAX_LIST_BYTES).unwrap_or(list);
    let mut at = 0;
    while let Some(byte) = begin.get(at) {
        let end = match byte {
            b'[' | b']' | b' ' | b'\t' | b'\r' | b'\n' => at + 1,
            b',' => {
                out.push(',');
                at + 1
            }
            b'{' => {
                out.push_str(OBJECT_TEXT);
                walk::value_end(begin, at)?
            }
            b'"' => {
                let (text, whole) = string::beginning(list.get(at..)?, Excerpt::MAX_BYTES);
                out.push_str(&text);
                whole.then(|| walk::value_end(list, at))??
            }
            _ => {
                let end = walk::value_end(begin, at)?;
                match byte {
                    // JavaScript writes null within a list as an empty text.
                    b'n' => {}
                    b't' => out.push_str("true"),
                    b'f' => out.push_str("false"),
                    _ => out.push_str(&number_text(number(begin.get(at..end)?).unwrap_or(f64::NAN))),
                }
                end
            }
        };
        if out.len() > Excerpt::MAX_BYTES {
            return None;
        }
        at = end;
    }
    (at >= list.len()).then_some(())
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
pub(crate) fn parse_float(text: &str) -> f64 {
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
            let fact = Fact::from_json(json.as_bytes()).unwrap();
            assert_eq!(fact.excerpt(), Excerpt::of(text), "{json}");
            assert_eq!(Some(fact.number()).filter(|number| !number.is_nan()), number, "{json}");
        }
        assert_eq!(Fact::from_json(b""), None);
        assert_eq!(Fact::from_json(b"x"), None);
    }

    #[test]
    fn a_text_is_compared_as_a_whole() {
        for (json, text) in [
            (r#""""#, ""),
            (r#""a\"b""#, "a\"b"),
            (r#""\u0061\u00e9\ud83d\ude00""#, "aé😀"),
            (r#""\u0061\u0062""#, "ab"),
            (r#""é""#, "é"),
        ] {
            let fact = Fact::from_json(json.as_bytes()).unwrap();
            assert!(fact.is_text(text), "{json}");
            assert!(!fact.is_text(&format!("{text}x")) && !fact.is_text("abc"), "{json}");
        }
        let long = format!("\"{}\"", "a".repeat(40_000));
        assert!(!Fact::from_json(long.as_bytes()).unwrap().is_text(&"a".repeat(Excerpt::MAX_BYTES)));
        assert!(!Fact::Null.is_text("null") && !Fact::Compound(b"[]").is_text(""));
    }

    /// The excerpt of a long value is the beginning of its text, in whatever way JSON writes it.
    #[test]
    fn of_a_long_value_patterns_see_the_beginning() {
        for unit in ["a", "é", "😀", r"\n", r"\u0061", r"\u00e9", r"\ud83d\ude00", r"x\\\u20ac"] {
            let unescaped: String = serde_json::from_str(&format!("\"{unit}\"")).unwrap();
            for count in [1, 100, 4_000, 4_096, 5_461, 8_192, 16_383, 16_384, 16_385, 40_000, 120_000] {
                let whole = unescaped.repeat(count);
                let string = format!("\"{}\"", unit.repeat(count));
                let list = format!("[{string}]");
                for json in [&string, &list] {
                    let fact = Fact::from_json(json.as_bytes()).unwrap();
                    let excerpt = fact.excerpt();
                    let end = whole.floor_char_boundary(Excerpt::MAX_BYTES);
                    let wanted = whole.get(..end).unwrap_or_default();
                    assert_eq!(excerpt.text(), wanted, "{unit} {count}");
                    // A list is not read to its end when its JSON is that long.
                    let is_read = json.starts_with('"') || json.len() <= MAX_LIST_BYTES;
                    assert_eq!(excerpt.is_whole(), is_read && end == whole.len(), "{unit} {count}");
                }
            }
        }
    }

    #[test]
    fn of_a_long_list_patterns_see_the_beginning() {
        let excerpt = |json: &str| {
            let fact = Fact::from_json(json.as_bytes()).unwrap();
            let excerpt = fact.excerpt();
            (excerpt.text().to_owned(), excerpt.is_whole())
        };
        let object = format!(r#"[1,{{"a":"{}"}},2]"#, "x".repeat(100_000));
        assert_eq!(excerpt(&object), ("1,[object Object]".to_owned(), false));
        let object = format!(r#"[1,{{"a":"{}"}},2]"#, "x".repeat(10_000));
        assert_eq!(excerpt(&object), ("1,[object Object],2".to_owned(), true));
        let strings = format!(r#"["{0}","{0}","{0}"]"#, "x".repeat(9_000));
        assert_eq!(excerpt(&strings), (format!("{0},{1}", "x".repeat(9_000), "x".repeat(7_383)), false));
        let (spaces, whole) = excerpt(&format!("[1,{}2]", " ".repeat(100_000)));
        assert_eq!((spaces.as_str(), whole), ("1,", false));
        let (deep, whole) = excerpt(&format!("{}{}", "[".repeat(30_000), "]".repeat(30_000)));
        assert_eq!((deep.as_str(), whole), ("", true));
        let deep = format!("{}7{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        assert_eq!(Fact::from_json(deep.as_bytes()).unwrap().number(), 7.0);
    }

    proptest! {
        #[test]
        fn any_text_is_converted(text in ".{0,24}") {
            parse_float(&text);
            if let Some(fact) = Fact::from_json(text.as_bytes()) {
                fact.excerpt();
                fact.number();
                fact.is_text(&text);
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
