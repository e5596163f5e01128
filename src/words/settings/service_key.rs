//! `auth.keys[]`: the service keys with which clients authenticate.
//!
//! Not here: provider keys, and looking up the key of a request.

use super::auth;
use super::key_limits::KeyLimits;
use super::logs::Payloads;
use super::scopes::{KeyType, ScopeSet};
use super::values::{is_id, non_empty};
use crate::config::read::Cursor;
use crate::config::secret::Secret;
use std::collections::HashSet;

const MIN_CHARACTERS: usize = 8;

/// A client's key and its name in logs and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceKey {
    pub name: String,
    pub key: Secret,
    /// What it may do on either plane; everything where the file gives no scopes.
    pub scopes: ScopeSet,
    /// The slug of the workspace it is bound to. Without one it acts in the default workspace and may enter every other.
    pub workspace: Option<String>,
    /// Whose bodies are kept in the log, in place of `logs.payloads`.
    pub log_payloads: Option<Payloads>,
    /// What it may use.
    pub limits: KeyLimits,
}

impl ServiceKey {
    /// `names` and `texts`: those of the keys before.
    pub(super) fn read<'a>(
        at: &Cursor<'a>,
        names: &mut HashSet<&'a str>,
        texts: &mut HashSet<&'a str>,
    ) -> Option<Self> {
        let mut fields = at.fields()?;
        let name = fields.required(&["name"]).and_then(|at| Self::name(&at, names));
        let key = fields.required(&["key"]).and_then(|at| Self::key(&at, texts));
        let workspace = fields.get(&["workspace"]).and_then(|at| Self::workspace(&at));
        let is_bound = workspace.is_some();
        let scopes = match fields.get(&["scopes"]) {
            Some(at) => auth::scopes(&at, is_bound),
            None if is_bound => KeyType::WorkspaceService.scopes(),
            None => ScopeSet::all(),
        };
        let log_payloads = fields.get(&["log_payloads"]).and_then(|at| at.one_of(&Payloads::ALL));
        let limits = KeyLimits::read(&mut fields);
        fields.reject_unknown(&[
            "name",
            "key",
            "scopes",
            "workspace",
            "log_payloads",
            "usage_limits",
            "rate_limits",
        ]);
        Some(Self { name: name?, key: key?, scopes, workspace, log_payloads, limits })
    }

    fn workspace(at: &Cursor<'_>) -> Option<String> {
        let slug = non_empty(at)?;
        if !is_id(slug) {
            at.problem(
                "is no slug of a workspace: letters, digits, dots, dashes and underscores, at most 128",
            );
        }
        Some(slug.to_owned())
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
