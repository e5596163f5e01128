//! Members and kinds that no list of the gateway names: what of them cannot be a text that somebody reads.
//!
//! A vendor may have added them, so they are judged as texts are. Judged and changed elsewhere (`guard::body_texts`, `provider::rewriter`).

/// From here on a text of a medium's alphabet, in a member that is called after one, is that medium.
const MIN_MEDIUM: usize = 256;
/// Shorter numbers are counts, places and settings.
const MIN_DIGITS: usize = 6;

/// Whether a member of this name seals something: its provider takes it as it is, and nobody reads it.
pub fn is_seal(name: &str) -> bool {
    matches!(name, "signature" | "thoughtSignature" | "thought_signature") || name.starts_with("encrypted_")
}

/// Whether a member of a response says what something is, or names it.
pub fn names_something(name: &str) -> bool {
    matches!(name, "type" | "id" | "object" | "status" | "role" | "index") || name.ends_with("_id")
}

/// Whether this is a picture, a voice or a film: a URL with its data, or its data in a member that is called so.
pub fn is_medium(name: &str, text: &str) -> bool {
    let is_url = ["data:image/", "data:audio/", "data:video/"].iter().any(|start| text.starts_with(start));
    let is_called = || {
        let name = name.to_ascii_lowercase();
        let called = ["image", "audio", "video", "frame", "screenshot", "base64", "b64", "bytes", "embeds"];
        called.iter().any(|medium| name.contains(medium))
    };
    let is_of_alphabet = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte);
    is_url || (text.len() >= MIN_MEDIUM && text.bytes().all(is_of_alphabet) && is_called())
}

/// Whether a JSON text is a number that may say something: a card's, a telephone's.
pub fn is_telling_number(json: &str) -> bool {
    let is_number = json.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    is_number && json.bytes().filter(u8::is_ascii_digit).count() >= MIN_DIGITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_what_is_called_and_looks_like_them() {
        let data = "QUJD".repeat(100);
        assert!(is_medium("imageB64", &data) && is_medium("reference_images", &data));
        assert!(is_medium("note", "data:image/png;base64,AA=="));
        assert!(!is_medium("note", &data) && !is_medium("image", "a picture of a kestrel"));
        assert!(!is_medium("image", &format!("{data} and words")));
        assert!(!is_medium("note", "data:text/plain;base64,AA=="));
    }

    #[test]
    fn short_numbers_are_counts() {
        assert!(is_telling_number("4111111111111111") && is_telling_number("-123456.0"));
        assert!(
            !is_telling_number("0")
                && !is_telling_number("12345")
                && !is_telling_number("\"4111111111111111\"")
        );
    }
}
