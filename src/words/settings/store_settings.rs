//! `store`: where what the control plane keeps is stored, and the master key of its secrets.
//!
//! Not here: opening it, and whether a URL of PostgreSQL can be read as a whole (`store`).

use crate::config::members::{Form, MemberTable, form, list};
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use crate::json::schema::pattern;

/// `store`; all of it may be absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreSettings {
    /// May hold a password. `None`: a file in the state directory.
    pub url: Option<Secret>,
    /// `None`: a file beside the database.
    pub encryption_key: Option<Secret>,
    pub previous_encryption_keys: Vec<Secret>,
}

const URL: Form<Secret> = form(url, |doc| {
    let examples = ["sqlite:///var/lib/turnpike/turnpike.db", "postgres://turnpike@db.internal/turnpike"];
    pattern(doc, URL_PATTERN, &examples)
});

/// What URLs of a database look like in the schema.
pub(super) const URL_PATTERN: &str = "^sqlite:.|^postgres(ql)?://.";

const KEY: Form<Secret> = form(key, |doc| {
    let text = "^[0-9A-Fa-f]{64}$|^[A-Za-z0-9+/]{43}=$";
    pattern(doc, text, &["credential:store-key", "${TURNPIKE_STORE_KEY}"])
});

impl StoreSettings {
    pub(super) const DOC: &str =
        "Where keys, workspaces, configs and the like of the control API are kept (docs/store.md).";

    pub(super) fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let url = "sqlite:///PATH, or postgres://USER:PASSWORD@HOST/DATABASE where several gateways share it. Default: turnpike.db in \
                   server.state_dir.";
        let current = "The master key of the secrets in it: 32 bytes as 64 hex digits or in base64. Default: master.key beside the \
                       database, made at the first start.";
        let previous = "Master keys of before, which still unseal while `turnpike store rekey` runs.";
        let keys = list(KEY, "A key in the same form.");
        let settings = Self {
            url: table.get("url", URL, url),
            encryption_key: table.get("encryption_key", KEY, current),
            previous_encryption_keys: table
                .get("previous_encryption_keys", keys, previous)
                .unwrap_or_default(),
        };
        if let Some(at) = table.at("previous_encryption_keys")
            && at.node.items().is_some_and(|items| !items.is_empty())
            && table.at("encryption_key").is_none()
        {
            at.problem("is only used with encryption_key, the key that is used now");
        }
        Some(settings)
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
