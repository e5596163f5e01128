//! `store`: where what the control plane keeps is stored, and the master key of its secrets.
//!
//! Not here: opening it, and whether a URL of PostgreSQL can be read as a whole (`store`).

use crate::config::read::{Cursor, ObjectReader};
use crate::config::secret::Secret;

/// `store`; all of it may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// May hold a password. `None`: a file in the state directory.
    pub url: Option<Secret>,
    /// `None`: a file beside the database.
    pub encryption_key: Option<Secret>,
    pub previous_encryption_keys: Vec<Secret>,
}

impl StoreSettings {
    pub(super) fn read(mut fields: ObjectReader<'_>) -> Self {
        let url = fields.get(&["url"]).and_then(|at| url(&at));
        let encryption_key = fields.get(&["encryption_key"]).and_then(|at| key(&at));
        let previous = fields.get(&["previous_encryption_keys"]).and_then(|at| at.list()).unwrap_or_default();
        let previous_encryption_keys: Vec<Secret> = previous.iter().filter_map(key).collect();
        if let (false, None, Some(at)) = (
            previous.is_empty(),
            fields.peek(&["encryption_key"]),
            fields.peek(&["previous_encryption_keys"]),
        ) {
            at.problem("is only used with encryption_key, the key that is used now");
        }
        fields.reject_unknown(&["url", "encryption_key", "previous_encryption_keys"]);
        Self { url, encryption_key, previous_encryption_keys }
    }
}

/// A URL of SQLite or PostgreSQL.
pub(super) fn url(at: &Cursor<'_>) -> Option<Secret> {
    let text = at.text()?;
    let rest =
        ["sqlite:", "postgres://", "postgresql://"].into_iter().find_map(|begin| text.strip_prefix(begin));
    if rest.is_none_or(str::is_empty) {
        at.problem("must be sqlite:///PATH or postgres://USER:PASSWORD@HOST/DATABASE");
        return None;
    }
    Some(Secret::new(text))
}

/// 64 hex digits, or base64 of 32 bytes.
fn key(at: &Cursor<'_>) -> Option<Secret> {
    let text = at.text()?;
    let is_hex = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_base64 = |digits: &str| {
        digits.len() == 43 && digits.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
    };
    if !is_hex && !text.strip_suffix('=').is_some_and(is_base64) {
        at.problem(
            "must be a key of 32 bytes: 64 hex digits, or 44 characters of base64 (openssl rand -hex 32)",
        );
        return None;
    }
    Some(Secret::new(text))
}
