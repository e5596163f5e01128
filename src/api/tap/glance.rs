//! A whole answer of a common sort, read at a glance: a few searches instead of a pass over every byte.
//!
//! Only where nothing can be mistaken: each wanted name stands there once at the most. In JSON a name in
//! quotes with a colon behind it is a member's name wherever it stands, since inside a string the quotes
//! carry a backslash. Anything else is left to the full scan.

use memchr::memmem;

/// The longest answer looked at this way: what is longer comes in pieces anyway.
const LONGEST: usize = 64 << 10;

/// The wanted values, as JSON text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Glance<'a> {
    pub usage: Option<&'a [u8]>,
    pub model: Option<&'a [u8]>,
    pub finish: Option<&'a [u8]>,
}

/// Looks at a whole answer of chat, completions or embeddings. `None` where a look is not enough.
pub(super) fn look(answer: &[u8]) -> Option<Glance<'_>> {
    let text = answer.trim_ascii();
    if text.len() > LONGEST || text.first() != Some(&b'{') || text.last() != Some(&b'}') {
        return None;
    }
    // An error is rare and its shapes are many.
    if memmem::find(text, b"\"error\"").is_some() {
        return None;
    }
    Some(Glance {
        usage: object(only(text, b"\"usage\"")?)?,
        model: word(only(text, b"\"model\"")?)?,
        finish: word(only(text, b"\"finish_reason\"")?)?,
    })
}

/// What stands behind the colon of the only member of this name; empty where there is none.
fn only<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let Some(at) = memmem::find(text, name) else { return Some(b"") };
    let rest = text.get(at + name.len()..)?;
    if memmem::find(rest, name).is_some() {
        return None;
    }
    rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start)
}

/// A string without escapes, quotes included; nothing for `null`.
fn word(value: &[u8]) -> Option<Option<&[u8]>> {
    match value.first() {
        None => Some(None),
        Some(b'"') => {
            let end = memchr::memchr2(b'"', b'\\', value.get(1..)?)?;
            (value.get(end + 1) == Some(&b'"')).then(|| value.get(..end + 2))
        }
        Some(_) => value.starts_with(b"null").then_some(None),
    }
}

/// An object, up to where its braces close; nothing for `null`. A brace inside a string deceives it: whoever
/// parses the text finds that out.
fn object(value: &[u8]) -> Option<Option<&[u8]>> {
    if value.first() != Some(&b'{') {
        return (value.is_empty() || value.starts_with(b"null")).then_some(None);
    }
    let mut depth = 0usize;
    for (at, byte) in value.iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return value.get(..=at).map(Some);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_answer_is_read_and_a_doubtful_one_is_left() {
        let answer =
            br#" {"model": "m","choices":[{"message":{"content":"\"usage\":{}"},"finish_reason":"stop"}],
            "usage" : {"a":1,"b":{"c":2}}} "#;
        let glance = look(answer).unwrap();
        assert_eq!(glance.usage, Some(&br#"{"a":1,"b":{"c":2}}"#[..]));
        assert_eq!(glance.model, Some(&b"\"m\""[..]));
        assert_eq!(glance.finish, Some(&b"\"stop\""[..]));
        let none = Glance { usage: None, model: None, finish: None };
        assert_eq!(look(br#"{"usage":null,"data":[]}"#), Some(none));
        for doubtful in [
            &br#"{"error":{"message":"no"}}"#[..],
            br#"{"choices":[{"finish_reason":"stop"},{"finish_reason":"length"}]}"#,
            br#"{"x":{"usage":{"a":1}},"usage":{"a":2}}"#,
            br#"{"model":"a\"b"}"#,
            br#"{"model":1}"#,
            b"[1]",
            b"{\"model\":\"m\"",
            b"",
        ] {
            assert_eq!(look(doubtful), None, "{}", String::from_utf8_lossy(doubtful));
        }
    }
}
