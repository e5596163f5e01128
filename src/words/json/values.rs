//! Counts the values of a JSON text without parsing it: what a reader must keep of a text grows with their number, however
//! short they are.

use memchr::memchr2;

/// Whether a valid JSON text has more than `limit` values ([`count`]).
pub(crate) fn more_than(text: &[u8], limit: usize) -> bool {
    // Each value takes a byte at least.
    text.len() > limit && count(text, limit) > limit
}

/// The number of values of a valid JSON text, counted no further than one beyond `limit`: each comma, and each list or object
/// that begins, is one. So a value beside others counts once, and a list or an object once more. What is in strings does not count.
pub fn count(text: &[u8], limit: usize) -> usize {
    let mut rest = text;
    let mut count = 0;
    while count <= limit {
        let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b',' | b'{' | b'[')) else { break };
        let is_value = rest.get(at) != Some(&b'"');
        rest = rest.get(at + 1..).unwrap_or_default();
        if is_value {
            count += 1;
        } else {
            rest = after_string(rest);
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
    fn values_are_counted_and_what_is_in_strings_is_not() {
        let cases = [
            ("{}", 1),
            ("[1,2,3]", 3),
            (r#"{"role":"user","content":"a"}"#, 2),
            (r#"[{"role":"user","content":"a"},{"role":"user","content":"b"}]"#, 6),
            (r#"{"a":[{},{}],"b":{"c":"{{{[,\"{,"}}"#, 7),
            (r#"{"{":"\\","b":[]}"#, 3),
            (r#""{,""#, 0),
        ];
        for (text, count) in cases {
            assert_eq!(super::count(text.as_bytes(), usize::MAX), count, "{text}");
            assert!(!more_than(text.as_bytes(), count), "{text}");
            assert!(count == 0 || super::count(text.as_bytes(), count - 1) == count, "{text}");
        }
    }
}
