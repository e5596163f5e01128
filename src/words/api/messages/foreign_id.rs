//! Ids of tool calls as a client of Anthropic's API may have them.
//!
//! Anthropic's own API refuses ids with other characters than letters, digits, `_` and `-`, and a client may take its conversation
//! there. Another provider's id (Kimi's `functions.Bash:0`) is therefore given to the client encoded, and becomes the maker's own
//! again when it comes back: `xid_ZnVuY3Rpb25zLkJhc2g6MA`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::borrow::Cow;

const PREFIX: &str = "xid_";

fn is_legal(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// The id that the client gets.
pub(super) fn for_client(id: &str) -> Cow<'_, str> {
    if id.is_empty() || is_legal(id) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(id)))
}

/// The maker's id, of one that a client sends.
pub(super) fn from_client(id: Cow<'_, str>) -> Cow<'_, str> {
    let decoded = id.strip_prefix(PREFIX).and_then(|code| URL_SAFE_NO_PAD.decode(code).ok());
    let maker = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    // Nothing else was encoded.
    match maker.filter(|maker| !maker.is_empty() && !is_legal(maker)) {
        Some(maker) => Cow::Owned(maker),
        None => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_comes_back() {
        for id in ["functions.Bash:0", "call|fc_1", "ü", "toolu_01", "xid_abc", "xid_ZnVu", "xid_", "", "a b"]
        {
            let client = for_client(id).into_owned();
            assert!(id.is_empty() || is_legal(&client), "{client}");
            assert_eq!(from_client(client.into()), id);
        }
        assert_eq!(for_client("functions.Bash:0"), "xid_ZnVuY3Rpb25zLkJhc2g6MA");
    }
}
