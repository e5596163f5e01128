//! Names of members. Google takes both spellings of each, `maxOutputTokens` and `max_output_tokens`.

use std::borrow::Cow;

/// The name as Google's JSON writes it: `max_output_tokens` as `maxOutputTokens`.
pub fn camel(name: &str) -> Cow<'_, str> {
    if !name.contains('_') || name.starts_with('_') {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len());
    let mut raise = false;
    for char in name.chars() {
        match char {
            '_' => raise = true,
            char if std::mem::take(&mut raise) => out.extend(char.to_uppercase()),
            char => out.push(char),
        }
    }
    Cow::Owned(out)
}

/// The other spelling: `maxOutputTokens` as `max_output_tokens`.
pub(super) fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for char in name.chars() {
        if char.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(char.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_one_name() {
        for (name, wanted) in [
            ("max_output_tokens", "maxOutputTokens"),
            ("maxOutputTokens", "maxOutputTokens"),
            ("seed", "seed"),
            ("_hidden", "_hidden"),
        ] {
            assert_eq!(camel(name), wanted);
        }
    }
}
