//! The names under which the tools of several servers stand in one list: `server__tool`, at most 64 characters.
//!
//! A name that is too long, or has characters that model providers refuse, is shortened, and ends with a hash of the whole. The server's
//! part never has `__` and does not end with `_`, so that the first `__` of a name is where it ends.

use ring::digest::{SHA256, digest};
use std::fmt::Write;

/// Between the server's part and the tool's.
pub const SEPARATOR: &str = "__";
/// The longest name: what OpenAI and Anthropic take.
pub const MAX_NAME: usize = 64;
/// The most of the server's part.
const MAX_SERVER: usize = 32;
/// Digits of a hash.
const DIGITS: usize = 12;

/// The server's part of its tools' names.
pub fn server_part(slug: &str) -> String {
    let is_plain = !slug.contains(SEPARATOR) && !slug.ends_with('_') && slug.len() <= MAX_SERVER;
    if is_plain && slug.bytes().all(is_allowed) { slug.to_owned() } else { hashed(slug, MAX_SERVER, '-') }
}

/// The name of a server's tool in a list of several servers.
pub fn prefixed(slug: &str, tool: &str) -> String {
    let server = server_part(slug);
    let left = MAX_NAME - server.len() - SEPARATOR.len();
    let is_plain = !tool.is_empty() && tool.len() <= left && tool.bytes().all(is_allowed);
    let tool = if is_plain { tool.to_owned() } else { hashed(tool, left, '_') };
    format!("{server}{SEPARATOR}{tool}")
}

/// The name of a tool in the list of its server alone.
pub fn plain(tool: &str) -> String {
    let is_plain = !tool.is_empty() && tool.len() <= MAX_NAME && tool.bytes().all(is_allowed);
    if is_plain { tool.to_owned() } else { hashed(tool, MAX_NAME, '_') }
}

/// The server's part of a name of such a list.
pub fn server_of(name: &str) -> Option<&str> {
    name.split_once(SEPARATOR).map(|(server, _)| server)
}

const fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The beginning of a text, and a hash of all of it.
fn hashed(text: &str, max: usize, fill: char) -> String {
    let mut hash = String::new();
    for byte in digest(&SHA256, text.as_bytes()).as_ref().iter().take(DIGITS / 2) {
        // Writing into a String cannot fail.
        let _ = write!(hash, "{byte:02x}");
    }
    let kept = max.saturating_sub(DIGITS + 1);
    let mut short = String::with_capacity(max);
    for char in text.chars() {
        if short.len() == kept {
            break;
        }
        let is_own = char.is_ascii_alphanumeric() || (char == '_' && fill == '_');
        short.push(if is_own { char } else { fill });
    }
    format!("{short}{fill}{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_where_they_can_be() {
        assert_eq!(prefixed("tools", "add"), "tools__add");
        assert_eq!(prefixed("tools", "__add__"), "tools____add__");
        assert_eq!(server_of("tools____add__"), Some("tools"));
        assert_eq!(server_of("add"), None);
    }

    #[test]
    fn long_and_odd_names_are_shortened_and_stay_apart() {
        let long = "t".repeat(200);
        let other = format!("{}u", "t".repeat(199));
        let names = [
            prefixed("s", &long),
            prefixed("s", &other),
            prefixed("s", "größe"),
            prefixed("s", "grüße"),
            prefixed("s", ""),
            prefixed("a__b", "c"),
            prefixed("a", "b__c"),
            prefixed("a_", "b"),
            prefixed("a", "_b"),
            prefixed(&"s".repeat(50), &long),
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(name.len() <= MAX_NAME && name.bytes().all(is_allowed), "{name}");
            assert!(names.iter().skip(at + 1).all(|other| other != name), "{name}");
        }
        for slug in ["a__b", "a_", "plain", "ends__", &"s".repeat(50)] {
            assert_eq!(server_of(&prefixed(slug, &long)), Some(&*server_part(slug)), "{slug}");
        }
    }
}
