//! `auth.keys[]`: the service keys with which clients authenticate.
//!
//! Not here: provider keys, and looking up the key of a request.

use super::values::non_empty;
use crate::config::read::{Cursor, ObjectReader};
use crate::config::secret::Secret;

const MIN_CHARACTERS: usize = 8;

/// A client's key and its name in logs and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceKey {
    pub name: String,
    pub key: Secret,
}

impl ServiceKey {
    /// Reads `auth`. Without any key, clients need none.
    pub(super) fn read_all(mut fields: ObjectReader<'_>) -> Vec<Self> {
        let items = fields.get(&["keys"]).and_then(|at| at.list()).unwrap_or_default();
        let mut keys: Vec<Self> = Vec::with_capacity(items.len());
        for at in &items {
            keys.extend(Self::read(at, &keys));
        }
        fields.reject_unknown(&["keys"]);
        keys
    }

    fn read(at: &Cursor<'_>, before: &[Self]) -> Option<Self> {
        let mut fields = at.fields()?;
        let name = fields.required(&["name"]).and_then(|at| Self::name(&at, before));
        let key = fields.required(&["key"]).and_then(|at| Self::key(&at, before));
        fields.reject_unknown(&["name", "key"]);
        Some(Self { name: name?, key: key? })
    }

    fn name(at: &Cursor<'_>, before: &[Self]) -> Option<String> {
        let name = non_empty(at)?;
        if name.chars().count() > 64 || name.chars().any(char::is_control) {
            at.problem("must be at most 64 characters in one line");
            return None;
        }
        if before.iter().any(|other| other.name == name) {
            at.problem("is the name of another key; names must differ");
        }
        Some(name.to_owned())
    }

    fn key(at: &Cursor<'_>, before: &[Self]) -> Option<Secret> {
        let key = at.text()?;
        if key.chars().count() < MIN_CHARACTERS {
            at.problem(format!("must have at least {MIN_CHARACTERS} characters"));
            return None;
        }
        if !key.bytes().all(|b| b.is_ascii_graphic()) {
            at.problem("must be visible ASCII characters without spaces: it travels in a header");
            return None;
        }
        let key = Secret::new(key);
        if before.iter().any(|other| other.key == key) {
            at.problem("is the same as another key; keys must differ");
        }
        Some(key)
    }
}
