//! Counts the objects of a JSON text without parsing it.

use memchr::{memchr_iter, memchr2};

/// Whether a valid JSON text has more than `limit` objects. Braces in strings do not count.
pub fn more_than(text: &[u8], limit: usize) -> bool {
    // Most texts have fewer braces than that, in strings or not.
    memchr_iter(b'{', text).nth(limit).is_some() && count(text, limit) > limit
}

/// The number of objects of a valid JSON text, counted no further than one beyond `limit`. Braces in strings do not count.
pub fn count(text: &[u8], limit: usize) -> usize {
    let (mut rest, mut count) = (text, 0);
    while count <= limit {
        let Some(at) = memchr2(b'"', b'{', rest) else { break };
        let is_object = rest.get(at) == Some(&b'{');
        rest = rest.get(at + 1..).unwrap_or_default();
        match is_object {
            true => count += 1,
            false => rest = after_string(rest),
        }
    }
    count
}

/// What follows a string whose opening quote was read.
fn after_string(text: &[u8]) -> &[u8] {
    let mut rest = text;
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let is_escape = rest.get(at) == Some(&b'\\');
        rest = rest.get(at + 1 + usize::from(is_escape)..).unwrap_or_default();
        if !is_escape {
            return rest;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_and_braces_in_strings_are_not() {
        let cases = [
            ("{}", 1),
            (r#"{"a":[{},{}],"b":{"c":"{{{\"{"}}"#, 4),
            (r#"{"{":"\\","b":{}}"#, 2),
            (r#""{""#, 0),
        ];
        for (text, count) in cases {
            assert!(!more_than(text.as_bytes(), count), "{text}");
            assert!(count == 0 || more_than(text.as_bytes(), count - 1), "{text}");
        }
    }
}
