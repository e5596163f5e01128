//! Finds the string members of one name anywhere in a JSON text, without reading the text.
//!
//! A quick check before a text is read: what looks like such a member may stand elsewhere than expected.

use memchr::memmem;

/// What stands behind the opening quote of each string member of this name. `quoted`: the name with its quotes.
pub(super) fn string_members<'t>(text: &'t [u8], quoted: &'t str) -> impl Iterator<Item = &'t [u8]> {
    memmem::find_iter(text, quoted).filter_map(move |at| {
        let rest = text.get(at + quoted.len()..).unwrap_or_default().trim_ascii_start();
        rest.strip_prefix(b":")?.trim_ascii_start().strip_prefix(b"\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_with_strings_are_found_at_any_depth() {
        let text = br#"{"name" : "a","x":[{"name":1,"names":"b"},{"name":"c","t":"\"name\":\"d\""}]}"#;
        let found: Vec<&[u8]> = string_members(text, "\"name\"").map(|rest| &rest[..1]).collect();
        assert_eq!(found, [b"a", b"c"]);
    }
}
