//! Secrets: keys that providers give out with a prefix of their own, tokens of `Authorization`, signed tokens (JWT), private
//! keys (PEM), and values that their name calls a secret (`password = …`).
//!
//! Prefixes and lengths are those that the providers publish, mostly for the secret scanning of code hosts. A key without
//! prefix and name is not found: it looks like any identifier.

use super::bytes::{Bytes, is_word};
use super::category::Category;
use std::ops::Range;

/// How keys of one provider look.
struct Key {
    prefix: &'static [u8],
    /// How many characters follow the prefix at least.
    min: usize,
    /// How many at most; what is longer is none.
    max: usize,
    alphabet: Alphabet,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    /// Letters and digits.
    Alphanumeric,
    /// Upper-case letters and digits.
    Upper,
    /// Lower-case hexadecimal digits.
    Hex,
    /// Letters, digits, `_` and `-`.
    Token,
    /// As `Token`, and dots.
    Dotted,
    /// As `Token`, and slashes.
    Path,
}

const fn key(prefix: &'static str, min: usize, max: usize, alphabet: Alphabet) -> Key {
    Key { prefix: prefix.as_bytes(), min, max, alphabet }
}

/// By the first letter of the prefix. A longer prefix stands before one that it begins with.
const KEYS: [Key; 57] = {
    use Alphabet::{Alphanumeric, Dotted, Hex, Path, Token, Upper};
    [
        key("A3T", 17, 17, Upper),
        key("ABIA", 16, 16, Upper),
        key("ACCA", 16, 16, Upper),
        key("AKIA", 16, 16, Upper),
        key("ASIA", 16, 16, Upper),
        key("AIza", 35, 35, Token),
        key("GOCSPX-", 28, 28, Token),
        key("SG.", 60, 80, Dotted),
        key("SK", 32, 32, Hex),
        key("csk-", 40, 60, Alphanumeric),
        key("dapi", 32, 34, Hex),
        key("doo_v1_", 64, 64, Hex),
        key("dop_v1_", 64, 64, Hex),
        key("dor_v1_", 64, 64, Hex),
        key("dp.pt.", 40, 44, Alphanumeric),
        key("fw_", 20, 40, Alphanumeric),
        key("github_pat_", 50, 100, Token),
        key("ghp_", 36, 255, Alphanumeric),
        key("gho_", 36, 255, Alphanumeric),
        key("ghu_", 36, 255, Alphanumeric),
        key("ghs_", 36, 255, Alphanumeric),
        key("ghr_", 36, 255, Alphanumeric),
        key("glpat-", 20, 60, Dotted),
        key("gldt-", 20, 60, Token),
        key("gsk_", 40, 80, Alphanumeric),
        key("hf_", 30, 60, Alphanumeric),
        key("hooks.slack.com/services/", 30, 80, Path),
        key("hvs.", 24, 200, Token),
        key("key-", 32, 32, Hex),
        key("lin_api_", 40, 48, Alphanumeric),
        key("lsv2_pt_", 32, 60, Token),
        key("lsv2_sk_", 32, 60, Token),
        key("nvapi-", 40, 90, Token),
        key("npm_", 36, 36, Alphanumeric),
        key("ntn_", 40, 60, Alphanumeric),
        key("pplx-", 40, 64, Alphanumeric),
        key("pypi-AgE", 50, 250, Token),
        key("rk_live_", 20, 250, Alphanumeric),
        key("rk_test_", 20, 250, Alphanumeric),
        key("r8_", 37, 40, Alphanumeric),
        key("shpat_", 32, 32, Hex),
        key("shpca_", 32, 32, Hex),
        key("shppa_", 32, 32, Hex),
        key("shpss_", 32, 32, Hex),
        key("sk-", 20, 250, Token),
        key("sk_live_", 20, 250, Alphanumeric),
        key("sk_test_", 20, 250, Alphanumeric),
        key("sq0atp-", 22, 22, Token),
        key("sq0csp-", 43, 43, Token),
        key("tvly-", 20, 60, Token),
        key("whsec_", 30, 80, Token),
        key("xapp-", 30, 200, Token),
        key("xai-", 60, 100, Alphanumeric),
        key("xoxb-", 20, 200, Token),
        key("xoxp-", 20, 200, Token),
        key("xoxe.", 20, 250, Token),
        key("ya29.", 30, 250, Token),
    ]
};

/// The longest key, header of a private key, or value with a name.
pub const MAX: usize = 256;
/// The longest signed token that is replaced whole.
pub(crate) const MAX_JWT: usize = 2048;
/// The longest private key that is replaced whole: one of RSA with 4096 bits has 3.3 KB.
pub(crate) const MAX_PRIVATE_KEY: usize = 3500;

const PEM_BEGIN: &[u8] = b"-----BEGIN ";
const PEM_KEY: &[u8] = b"PRIVATE KEY";

/// A provider's key at the beginning of a word.
pub fn api_key(bytes: Bytes<'_>, start: usize) -> Option<Range<usize>> {
    let first = bytes.at(start);
    let keys = KEYS.iter().filter(|key| key.prefix.first() == Some(&first));
    let mut fitting = keys.filter(|key| bytes.starts_with(start, key.prefix));
    fitting.find_map(|key| {
        let from = start + key.prefix.len();
        let end = bytes.run(from, key.max + 1, |byte| key.alphabet.has(byte));
        let end = if bytes.before(end) == b'.' { end - 1 } else { end };
        let body = bytes.slice(from..end);
        let ends = end - from <= key.max && !is_word(bytes.at(end));
        (ends && body.len() >= key.min && is_random(body)).then_some(start..end)
    })
}

/// The token behind `Bearer `, from the end of that word.
pub fn bearer(bytes: Bytes<'_>, word_end: usize) -> Option<Range<usize>> {
    let start = bytes.run(word_end, 2, |byte| byte == b' ');
    let end = bytes
        .run(start, MAX, |byte| is_word(byte) || matches!(byte, b'-' | b'.' | b'~' | b'+' | b'/' | b'='));
    let end = if bytes.before(end) == b'.' { end - 1 } else { end };
    let is_token = start > word_end && end - start >= 16 && is_random(bytes.slice(start..end));
    is_token.then_some(start..end)
}

/// A signed token at the beginning of a word, of at most `max` bytes: its first part is an object in base64url.
pub fn jwt(bytes: Bytes<'_>, start: usize, max: usize) -> Option<Range<usize>> {
    let is_part = |byte: u8| is_word(byte) || byte == b'-';
    let header = bytes.run(start, max, is_part);
    if header - start < 10 || !bytes.starts_with(header, b".eyJ") {
        return None;
    }
    let payload = bytes.run(header + 1, max - (header - start), is_part);
    let left = max.saturating_sub(payload - start + 1);
    let end = match bytes.at(payload) {
        b'.' => bytes.run(payload + 1, left, is_part),
        _ => payload,
    };
    Some(start..end)
}

/// A private key at the hyphens in front of its `BEGIN`: up to its `END`, or so much of it as is there or fits.
pub fn private_key(bytes: Bytes<'_>, start: usize, max: usize) -> Option<Range<usize>> {
    if !bytes.starts_with(start, PEM_BEGIN) {
        return None;
    }
    let label =
        bytes.slice(start + PEM_BEGIN.len()..bytes.run(start + PEM_BEGIN.len(), 60, |byte| byte != b'\n'));
    let named = label.windows(PEM_KEY.len()).position(|part| part == PEM_KEY)?;
    if label.get(..named)?.contains(&b'-') {
        return None;
    }
    let body = start + PEM_BEGIN.len() + named + PEM_KEY.len();
    let rest = bytes.slice(body..(start + max).min(bytes.0.len()));
    let end = memchr::memmem::find(rest, b"-----END ").map(|end| {
        let label = bytes.run(body + end + 9, 40, |byte| byte != b'-' && byte != b'\n');
        bytes.run(label, 5, |byte| byte == b'-')
    });
    let end = end.unwrap_or_else(|| {
        bytes.run(body, start + max - body, |byte| {
            is_word(byte)
                || matches!(byte, b'-' | b'+' | b'/' | b'=' | b'\n' | b'\r' | b'\\' | b' ' | b':' | b',')
        })
    });
    Some(start..end.min(start + max))
}

/// The value behind a name that calls it a secret, from the end of the name.
pub(crate) fn named_value(bytes: Bytes<'_>, name: Range<usize>) -> Option<Range<usize>> {
    let at = bytes.run(name.end, 1, |byte| matches!(byte, b'"' | b'\''));
    let at = bytes.run(at, 2, |byte| byte == b' ');
    let sign = bytes.run(at, 2, |byte| matches!(byte, b'=' | b':' | b'>'));
    if sign == at {
        return None;
    }
    let min = secret_name(bytes, name)?;
    let at = bytes.run(sign, 2, |byte| byte == b' ');
    let is_quoted = matches!(bytes.at(at), b'"' | b'\'');
    let start = at + usize::from(is_quoted);
    let end = bytes.run(start, MAX, |byte| match byte {
        b'"' | b'\'' | b'`' | b',' | b';' | b'<' | b'>' | b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'&'
        | b'\\' => false,
        _ => byte.is_ascii_graphic(),
    });
    let end = if bytes.before(end) == b'.' { end - 1 } else { end };
    let value = bytes.slice(start..end);
    // A longer value is cut; a call or a reference is no value.
    let is_value = value.len() >= min && is_random(value) && !matches!(bytes.at(end), b'(' | b'[' | b'{');
    is_value.then_some(start..end)
}

/// How long a value must be to be a secret under this name; `None` where the name means none.
fn secret_name(bytes: Bytes<'_>, name: Range<usize>) -> Option<usize> {
    let word = bytes.slice(name.clone());
    let ends_with = |ending: &str| {
        let from = word.len().checked_sub(ending.len());
        from.and_then(|from| word.get(from..)).is_some_and(|end| end.eq_ignore_ascii_case(ending.as_bytes()))
    };
    if word.len() > 48 {
        None
    } else if ends_with("password") || ends_with("passwd") || ends_with("pwd") {
        Some(8)
    } else if [
        "secret",
        "token",
        "apikey",
        "api_key",
        "access_key",
        "secret_key",
        "accountkey",
        "auth_key",
        "private_key",
    ]
    .into_iter()
    .any(ends_with)
        || ends_with("key") && bytes.has_before(name.start, 7, &["api-", "access-", "secret-", "x-api-"])
    {
        Some(16)
    } else {
        None
    }
}

/// Keys have letters and digits, and not one character repeated.
fn is_random(body: &[u8]) -> bool {
    let has_letter = body.iter().any(u8::is_ascii_alphabetic);
    let has_digit = body.iter().any(u8::is_ascii_digit);
    let first = body.first();
    let differing = body.iter().take(64).filter(|byte| Some(*byte) != first).count();
    has_letter && has_digit && differing >= 5
}

impl Alphabet {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Self::Token => is_word(byte) || byte == b'-',
            Self::Dotted => is_word(byte) || matches!(byte, b'-' | b'.'),
            Self::Path => is_word(byte) || matches!(byte, b'-' | b'/'),
        }
    }
}

/// Which category a secret is of that begins at a word, and where it ends.
pub(crate) fn secret_at(
    bytes: Bytes<'_>,
    word: Range<usize>,
    max_jwt: usize,
) -> Option<(Category, Range<usize>)> {
    // The end of a longer thing of hyphens is none of its own.
    if bytes.before(word.start) == b'-' && is_word(bytes.before(word.start.saturating_sub(1))) {
        return named_value(bytes, word).map(|range| (Category::ApiKey, range));
    }
    if bytes.starts_with(word.start, b"eyJ") {
        return jwt(bytes, word.start, max_jwt).map(|range| (Category::Jwt, range));
    }
    let is_bearer = word.len() == 6 && bytes.slice(word.clone()).eq_ignore_ascii_case(b"bearer");
    // A prefix ends in punctuation, or its key is one long word.
    let may_be_key = word.len() > 16 || matches!(bytes.at(word.end), b'-' | b'.');
    let key = if may_be_key { api_key(bytes, word.start) } else { None };
    let range = if is_bearer { bearer(bytes, word.end) } else { key.or_else(|| named_value(bytes, word)) };
    range.map(|range| (Category::ApiKey, range))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<(Category, &str)> {
        let bytes = Bytes(text.as_bytes());
        let mut at = 0;
        while at < text.len() {
            let end = bytes.run(at, usize::MAX, is_word);
            if let Some((category, range)) = (end > at).then(|| secret_at(bytes, at..end, MAX_JWT)).flatten()
            {
                return text.get(range).map(|value| (category, value));
            }
            at = end + 1;
        }
        None
    }

    /// Made of a prefix and a body, so that no scanner of code takes this file for a leak.
    fn made(prefix: &str, body: &str) -> String {
        format!("{prefix}{body}")
    }

    #[test]
    fn keys_of_providers() {
        let body = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
        let first = |length: usize| body.get(..length).unwrap();
        let hex = "0123456789abcdef0123456789abcdef";
        for key in [
            made("sk-proj-", body),
            made("sk-ant-api03-", body),
            made("sk-", body),
            made("AKIA", "IOSFODNN7EXAMPLE"),
            made("AIza", first(35)),
            made("ghp_", first(36)),
            made("github_pat_", &format!("{body}_{body}")),
            made("xoxb-", "123456789012-1234567890123-abcDEF123ghi"),
            made("sk_live_", first(24)),
            made("hf_", first(34)),
            made("npm_", first(36)),
            made("SG.", &format!("{}.{body}abc", first(22))),
            made("shpat_", hex),
            made("glpat-", first(20)),
            made("gsk_", body),
            made("hooks.slack.com/services/", "T00000000/B00000000/XXXXXXXXXXXX"),
            made("dapi", hex),
        ] {
            assert_eq!(found(&format!("use {key}, then")), Some((Category::ApiKey, key.as_str())), "{key}");
        }
    }

    #[test]
    fn what_only_begins_like_a_key_is_none() {
        for text in [
            "sk-learn-is-a-library-for-machine",
            "sk-12345",
            "AKIAIOSFODNN7EXAMPLEandmore",
            "ghp_short",
            "task-a1B2c3D4e5F6g7H8i9J0k1L2",
            "AKIAAAAAAAAAAAAAAAAA",
            "xoxb-and-nothing",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn tokens_of_authorization_and_signed_ones() {
        assert_eq!(
            found("Authorization: Bearer abcdef0123456789ABCDEF"),
            Some((Category::ApiKey, "abcdef0123456789ABCDEF"))
        );
        assert_eq!(found("the bearer of this letter, whoever"), None);
        let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P";
        assert_eq!(found(&format!("Bearer {jwt} ok")), Some((Category::ApiKey, jwt)));
        assert_eq!(found(&format!("token {jwt}.")), Some((Category::Jwt, jwt)));
        assert_eq!(found("eyJhbGciOiJIUzI1NiJ9 alone"), None);
    }

    #[test]
    fn values_that_their_name_calls_a_secret() {
        for (text, value) in [
            ("DB_PASSWORD=hunter2hunter", "hunter2hunter"),
            ("\"api_key\": \"0123456789abcdef0123\"", "0123456789abcdef0123"),
            ("client_secret = 'Zx9-abcdef-0123456789'", "Zx9-abcdef-0123456789"),
            ("x-api-key: 0123456789abcdef0123", "0123456789abcdef0123"),
            ("password: correct4horse!", "correct4horse!"),
        ] {
            assert_eq!(found(text), Some((Category::ApiKey, value)), "{text}");
        }
        for text in [
            "password: required",
            "the password is long",
            "max_tokens: 1234567890123456789",
            "token = get_token(request1)",
            "password: ${DB_PASSWORD1}",
            "api_key=os.environ['KEY']",
            "key: value1234567890123456",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn private_keys_to_their_end_or_as_far_as_they_fit() {
        let lines = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n".repeat(3);
        let kind = "RSA PRIVATE KEY";
        let key = format!("-----BEGIN {kind}-----\n{lines}-----END {kind}-----");
        let text = format!("a {key}\nb");
        let bytes = Bytes(text.as_bytes());
        assert_eq!(private_key(bytes, 2, MAX_PRIVATE_KEY), Some(2..2 + key.len()));
        assert_eq!(private_key(bytes, 2, 100), Some(2..102));
        let open = format!("-----BEGIN {kind}-----\n{lines}");
        assert_eq!(private_key(Bytes(open.as_bytes()), 0, MAX_PRIVATE_KEY), Some(0..open.len()));
        for text in ["-----BEGIN CERTIFICATE-----\nMIIE", "-----BEGIN a----- PRIVATE KEY", "-----"] {
            assert_eq!(private_key(Bytes(text.as_bytes()), 0, MAX_PRIVATE_KEY), None, "{text}");
        }
    }
}
