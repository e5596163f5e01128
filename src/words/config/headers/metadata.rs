//! Reads the metadata header: a JSON object within the limits of metadata (`docs/headers.md`).
//!
//! Values may be of any type, because conditions compare numbers and booleans too. Not here: who uses it.

use super::raw::RawHeader;
use crate::api::rules::{MAX_METADATA_KEY, MAX_METADATA_PAIRS, MAX_METADATA_VALUE};
use crate::error::Error;
use crate::json::string::unquote;
use crate::json::walk;

/// The header's value as JSON text.
///
/// # Errors
/// 400 for anything but an object, and for one beyond the limits. The message repeats no part of the value.
pub(super) fn read(header: RawHeader<'_>) -> Result<&str, Error> {
    let text = header.json_object()?;
    let mut pairs = 0;
    let mut long_key = false;
    let mut long_value = false;
    for (name, value) in walk::members(text.as_bytes()).into_iter().flatten() {
        pairs += 1;
        long_key |= chars(name, true) > MAX_METADATA_KEY;
        long_value |= chars(value, false) > MAX_METADATA_VALUE;
    }
    let problem = if pairs > MAX_METADATA_PAIRS {
        format!("has {pairs} members; at most {MAX_METADATA_PAIRS} are allowed")
    } else if long_key {
        format!("has a key of more than {MAX_METADATA_KEY} characters")
    } else if long_value {
        format!("has a value of more than {MAX_METADATA_VALUE} characters")
    } else {
        return Ok(text);
    };
    Err(header.error(&problem))
}

/// The characters of a string, or of the JSON text of another value. `is_name`: the quotes were taken off.
fn chars(json: &[u8], is_name: bool) -> usize {
    let text = match is_name {
        true if !json.contains(&b'\\') => None,
        true => unquote(&[b"\"", json, b"\""].concat()).map(|text| text.chars().count()),
        false => unquote(json).map(|text| text.chars().count()),
    };
    text.unwrap_or_else(|| String::from_utf8_lossy(json).chars().count())
}
