//! One text for all spellings of a JSON value: members by name, numbers by value, strings without needless escapes.
//!
//! Two values that a reader cannot tell apart have the same text, whatever their white space, the order of their members, `1.0` or `1e0`, `"a"` or
//! `"\u0061"`. Members of one name keep their order, because readers differ in which of them counts. The text is for digests and comparisons, and is not always JSON:
//! what has no text as Unicode (`"\ud800"`) is written as it stands, behind a mark.

use super::string::unquote;
use super::walk;
use std::borrow::Cow;

/// The most levels of lists and objects: those of a provider's own parser.
const MAX_DEPTH: usize = 128;
/// Behind this exponent, numbers are compared as they are written.
const MAX_EXPONENT: usize = 9;

/// The value is nested too deeply to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooDeep;

/// Writes the text of a value that is valid JSON.
///
/// # Errors
/// It has more than 128 levels.
pub fn write(json: &[u8], out: &mut Vec<u8>) -> Result<(), TooDeep> {
    value(json.trim_ascii(), 0, out)
}

/// As [`write`], for an object without the members that `leaves_out` names. What is no object is written as a whole.
///
/// # Errors
/// As [`write`].
pub fn write_without(
    json: &[u8],
    leaves_out: impl Fn(&str) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), TooDeep> {
    let json = json.trim_ascii();
    match walk::members(json) {
        Some(members) => object(members, Some(&leaves_out), 0, out),
        None => value(json, 0, out),
    }
}

fn value(json: &[u8], depth: usize, out: &mut Vec<u8>) -> Result<(), TooDeep> {
    if depth > MAX_DEPTH {
        return Err(TooDeep);
    }
    if let Some(members) = walk::members(json) {
        return object(members, None, depth, out);
    }
    if let Some(items) = walk::items(json) {
        out.push(b'[');
        for item in items {
            value(item, depth + 1, out)?;
            out.push(b',');
        }
        out.push(b']');
        return Ok(());
    }
    match json.first() {
        Some(b'"') => string(json, out),
        Some(b'-' | b'0'..=b'9') => number(json, out),
        _ => out.extend_from_slice(json),
    }
    Ok(())
}

fn object(
    members: walk::Members<'_>,
    leaves_out: Option<&dyn Fn(&str) -> bool>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), TooDeep> {
    let mut sorted: Vec<(Cow<'_, [u8]>, &[u8])> = Vec::with_capacity(8);
    for (raw, json) in members {
        let name = name(raw);
        if leaves_out.is_some_and(|leaves_out| std::str::from_utf8(&name).is_ok_and(leaves_out)) {
            continue;
        }
        sorted.push((name, json));
    }
    // Stable: members of one name stay in their order.
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    out.push(b'{');
    for (name, json) in sorted {
        text(&name, out);
        out.push(b':');
        value(json, depth + 1, out)?;
        out.push(b',');
    }
    out.push(b'}');
    Ok(())
}

/// A member's name without escapes; as it stands behind a mark where it has no text.
fn name(raw: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', raw).is_none() {
        return Cow::Borrowed(raw);
    }
    let quoted = [b"\"", raw, b"\""].concat();
    match unquote(&quoted) {
        Some(text) => Cow::Owned(text.into_owned().into_bytes()),
        None => Cow::Owned([b"\\", raw].concat()),
    }
}

fn string(json: &[u8], out: &mut Vec<u8>) {
    if memchr::memchr(b'\\', json).is_none() {
        return out.extend_from_slice(json);
    }
    match unquote(json) {
        Some(plain) => text(plain.as_bytes(), out),
        None => {
            out.push(b'\\');
            out.extend_from_slice(json);
        }
    }
}

/// A text in quotes, with no escapes but those of quotes and backslashes.
fn text(plain: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut from = 0;
    for at in memchr::memchr2_iter(b'"', b'\\', plain) {
        out.extend_from_slice(plain.get(from..at).unwrap_or_default());
        out.push(b'\\');
        from = at;
    }
    out.extend_from_slice(plain.get(from..).unwrap_or_default());
    out.push(b'"');
}

/// Digits without zeros at either end, and a power of ten.
fn number(json: &[u8], out: &mut Vec<u8>) {
    let (mantissa, exponent) = match json.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (json.get(..at).unwrap_or_default(), json.get(at + 1..).unwrap_or_default()),
        None => (json, &b"0"[..]),
    };
    let exponent: Option<i64> = std::str::from_utf8(exponent)
        .ok()
        .filter(|text| text.len() <= MAX_EXPONENT)
        .and_then(|text| text.strip_prefix('+').unwrap_or(text).parse().ok());
    let Some(exponent) = exponent else { return out.extend_from_slice(json) };
    let (is_negative, mantissa) = match mantissa.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, mantissa),
    };
    let point = mantissa.iter().position(|byte| *byte == b'.');
    let fraction = point.map_or(0, |at| mantissa.len() - at - 1);
    let digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
    let Some(first) = digits.iter().position(|digit| *digit != b'0') else { return out.push(b'0') };
    let last = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(first);
    let dropped = digits.len() - 1 - last;
    let power = exponent
        .saturating_sub(i64::try_from(fraction).unwrap_or(i64::MAX))
        .saturating_add(i64::try_from(dropped).unwrap_or(i64::MAX));
    if is_negative {
        out.push(b'-');
    }
    out.extend_from_slice(digits.get(first..=last).unwrap_or_default());
    if power != 0 {
        out.push(b'e');
        out.extend_from_slice(power.to_string().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::spellings::{any_value, is_equal, respelt};
    use proptest::prelude::*;

    fn canonical(json: &str) -> String {
        let mut out = Vec::new();
        write(json.as_bytes(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn spellings_of_one_value_are_one_text() {
        let same: [&[&str]; 9] = [
            &["1", "1.0", "1e0", "10e-1", "0.1E1", "1.000", "100e-2", " 1 "],
            &["0", "-0", "0.0", "0e5", "-0.00E-3"],
            &["-120", "-1.2e2", "-12e1", "-120.0"],
            &["12345678901234567890123", "12345678901234567890123.0"],
            &[r#""a\u0062""#, r#""ab""#, "\"\\u0061b\""],
            &[r#""/""#, r#""\/""#],
            &[r#"{"a":1,"b":[2,3]}"#, r#"{ "b" : [ 2.0 , 3 ] , "\u0061" : 1e0 }"#],
            &["[]", "[ ]"],
            &["\"\\ud83d\\ude00\"", "\"\u{1f600}\""],
        ];
        for spellings in same {
            let texts: Vec<String> = spellings.iter().map(|json| canonical(json)).collect();
            assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
        }
    }

    #[test]
    fn values_that_differ_have_different_texts() {
        let different = [
            "1",
            "10",
            "-1",
            "1.5",
            "\"1\"",
            "0.1",
            "1e1000000000000",
            "1e1000000000001",
            "[1]",
            "[[1]]",
            "[1,1]",
            "[]",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":2,"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"a":[1]}"#,
            "\"\"",
            "null",
            "true",
            r#""\ud800""#,
            r#""\udc00""#,
            r#""\\ud800""#,
            r#""a\"b""#,
            r#""a\\\"b""#,
            "9007199254740993",
            "9007199254740992",
            r#"["a","b"]"#,
            r#"["a\",\"b"]"#,
        ];
        for (index, one) in different.iter().enumerate() {
            for other in &different[index + 1..] {
                assert_ne!(canonical(one), canonical(other), "{one} {other}");
            }
        }
    }

    #[test]
    fn members_are_left_out_at_the_top_only() {
        let mut out = Vec::new();
        let json = br#"{"stream":true,"x":{"stream":1},"a":2}"#;
        write_without(json, |name| name == "stream", &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"a":2,"x":{"stream":1,},}"#);
    }

    #[test]
    fn what_is_too_deep_is_refused() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(write(deep(129).as_bytes(), &mut Vec::new()).is_ok());
        assert_eq!(write(deep(100_000).as_bytes(), &mut Vec::new()), Err(TooDeep));
    }

    proptest! {
        #[test]
        fn texts_are_equal_exactly_when_values_are(one in any_value(), other in any_value()) {
            let equal = canonical(&one.to_string()) == canonical(&other.to_string());
            prop_assert_eq!(equal, is_equal(&one, &other));
        }

        #[test]
        fn the_spelling_does_not_matter(value in any_value(), seed in any::<u64>()) {
            prop_assert_eq!(canonical(&value.to_string()), canonical(&respelt(&value, seed)));
        }

        #[test]
        fn nonsense_ends(text in prop::collection::vec(prop::sample::select(&b"[]{}\",:\\ 1ae-."[..]), 0..40)) {
            let _ = write(&text, &mut Vec::new());
        }
    }
}
