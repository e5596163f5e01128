//! `auth.keys[]`: the service keys with which clients authenticate.
//!
//! Not here: provider keys, and looking up the key of a request.

use super::values::non_empty;
use crate::config::read::{Cursor, ObjectReader};
use crate::config::secret::Secret;
use std::collections::HashSet;

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
        let (mut names, mut texts) = (HashSet::new(), HashSet::new());
        let keys = items.iter().filter_map(|at| Self::read(at, &mut names, &mut texts)).collect();
        fields.reject_unknown(&["keys"]);
        keys
    }

    /// `names` and `texts`: those of the keys before.
    fn read<'a>(at: &Cursor<'a>, names: &mut HashSet<&'a str>, texts: &mut HashSet<&'a str>) -> Option<Self> {
        let mut fields = at.fields()?;
        let name = fields.required(&["name"]).and_then(|at| Self::name(&at, names));
        let key = fields.required(&["key"]).and_then(|at| Self::key(&at, texts));
        fields.reject_unknown(&["name", "key"]);
        Some(Self { name: name?, key: key? })
    }

    fn name<'a>(at: &Cursor<'a>, before: &mut HashSet<&'a str>) -> Option<String> {
        let name = non_empty(at)?;
        if name.chars().count() > 64 || name.chars().any(char::is_control) {
            at.problem("must be at most 64 characters in one line");
            return None;
        }
        if !before.insert(name) {
            at.problem("is the name of another key; names must differ");
        }
        Some(name.to_owned())
    }

    fn key<'a>(at: &Cursor<'a>, before: &mut HashSet<&'a str>) -> Option<Secret> {
        let key = at.text()?;
        if key.chars().count() < MIN_CHARACTERS {
            at.problem(format!("must have at least {MIN_CHARACTERS} characters"));
            return None;
        }
        if !key.bytes().all(|b| b.is_ascii_graphic()) {
            at.problem("must be visible ASCII characters without spaces: it travels in a header");
            return None;
        }
        if !before.insert(key) {
            at.problem("is the same as another key; keys must differ");
        }
        Some(Secret::new(key))
    }
}
