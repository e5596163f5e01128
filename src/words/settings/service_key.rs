//! `auth.keys[]`: the service keys with which clients authenticate.
//!
//! Not here: provider keys, and looking up the key of a request.

use super::auth::{Scopes, WORKSPACE};
use super::key_limits::KeyLimits;
use super::logs::{PAYLOADS, Payloads};
use super::model_pattern::{ALLOWED_MODELS, AllowedNames};
use super::scopes::{KeyType, ScopeSet};
use crate::config::members::{Form, MemberTable, form, non_empty};
use crate::config::secret::Secret;
use crate::json::schema::pattern;
use serde_json::json;
use std::cell::RefCell;
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
    /// The models that it may use; `None`: all.
    pub allowed_models: Option<AllowedNames>,
    /// What it may use.
    pub limits: KeyLimits,
}

/// The names and keys that were read so far: no two service keys may share one.
#[derive(Default)]
pub(super) struct UsedKeys {
    names: RefCell<HashSet<String>>,
    keys: RefCell<HashSet<Secret>>,
}

const NAME: Form<String> = form(
    |at| {
        let name = non_empty(at)?;
        if name.chars().count() > 64 || name.chars().any(char::is_control) {
            at.problem("must be at most 64 characters in one line");
            return None;
        }
        Some(name.to_owned())
    },
    |doc| {
        json!({
            "anyOf": [{"type": "string", "pattern": "\\S", "maxLength": 64}, {"$ref": "#/$defs/reference"}],
            "description": doc,
            "examples": ["team-a"],
        })
    },
);

const KEY: Form<Secret> = form(
    |at| {
        let key = at.text()?;
        if key.chars().count() < MIN_CHARACTERS {
            at.problem(format!("must have at least {MIN_CHARACTERS} characters"));
            return None;
        }
        if !key.bytes().all(|b| b.is_ascii_graphic()) {
            at.problem("must be visible ASCII characters without spaces: it travels in a header");
            return None;
        }
        Some(Secret::new(key))
    },
    |doc| pattern(doc, "^[!-~]{8,}$", &["${TURNPIKE_KEY}", "credential:service-key"]),
);

impl ServiceKey {
    /// `used`: the names and keys of those before.
    pub(super) fn members(table: &mut MemberTable<'_>, used: &UsedKeys) -> Option<Self> {
        let workspace = "The slug of the workspace the key is bound to. Without it the key acts in the default workspace and may \
                         enter every other.";
        let log_payloads = "Whose bodies are kept in the log. Default: as logs.payloads says.";
        let name = table.needed("name", NAME, "In the access line; names must differ.");
        let key = table.needed("key", KEY, "At least 8 visible ASCII characters; keys must differ.");
        let workspace = table.get("workspace", WORKSPACE, workspace);
        let of_workspace = workspace.is_some();
        let scopes = table.get(
            "scopes",
            Scopes { of_workspace },
            "What the key may do (docs/keys.md). Default: everything.",
        );
        let log_payloads = table.get("log_payloads", PAYLOADS, log_payloads);
        let allowed = "The models that the key may use, by the names that clients use or as they are sent; * is any text \
                       (docs/models.md). Default: all.";
        let allowed_models = table.get("allowed_models", ALLOWED_MODELS, allowed);
        let limits = KeyLimits::members(table);
        if name.as_ref().is_some_and(|name| !used.names.borrow_mut().insert(name.clone())) {
            table.problem("name", "is the name of another key; names must differ");
        }
        if key.as_ref().is_some_and(|key| !used.keys.borrow_mut().insert(key.clone())) {
            table.problem("key", "is the same as another key; keys must differ");
        }
        let everything = if of_workspace { KeyType::WorkspaceService.scopes() } else { ScopeSet::all() };
        let scopes = scopes.unwrap_or(everything);
        Some(Self { name: name?, key: key?, scopes, workspace, log_payloads, allowed_models, limits })
    }
}
