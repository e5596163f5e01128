//! `auth.keys[]`: the service keys with which clients authenticate.
//!
//! Not here: provider keys, and looking up the key of a request.

use super::auth::{Scopes, WORKSPACE};
use super::key_limits::KeyLimits;
use super::logs::{PAYLOADS, Payloads};
use super::model_pattern::{ALLOWED_MODELS, AllowedNames};
use super::scopes::{KeyType, ScopeSet};
use crate::config::members::{Choice, Form, MemberTable, form, non_empty};
use crate::config::policies::{PRIORITIES, Priority};
use crate::config::secret::Secret;
use crate::json::schema::pattern;
use ring::digest::{SHA256, digest};
use serde_json::json;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

const MIN_CHARACTERS: usize = 8;

/// A client's key and its name in logs and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceKey {
    pub name: String,
    pub key: KeyValue,
    /// What it may do on either plane; everything where the file gives no scopes.
    pub scopes: ScopeSet,
    /// The slug of the workspace it is bound to. Without one it acts in the default workspace and may enter every other.
    pub workspace: Option<String>,
    /// Whose bodies are kept in the log, in place of `logs.payloads`.
    pub log_payloads: Option<Payloads>,
    /// Who gets a free place first: that of its requests where they say nothing, and the highest that they may have.
    pub priority: Option<Priority>,
    /// The models that it may use; `None`: all.
    pub allowed_models: Option<AllowedNames>,
    /// What it may use.
    pub limits: KeyLimits,
}

/// A key, or what it is recognized by.
#[derive(Clone, PartialEq, Eq)]
pub enum KeyValue {
    Text(Secret),
    /// Its SHA-256.
    Sha256([u8; 32]),
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl KeyValue {
    /// Its SHA-256.
    pub fn sha256(&self) -> [u8; 32] {
        match self {
            Self::Text(key) => sha256(key.expose().as_bytes()),
            Self::Sha256(digest) => *digest,
        }
    }

    /// `None`: only its digest is given.
    pub fn text(&self) -> Option<&Secret> {
        match self {
            Self::Text(key) => Some(key),
            Self::Sha256(_) => None,
        }
    }
}

/// The SHA-256 of a key.
pub fn sha256(key: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, key).as_ref());
    bytes
}

/// The bytes of a SHA-256 in hexadecimal, in letters of either case.
pub fn sha256_bytes(text: &str) -> Option<[u8; 32]> {
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut bytes = [0; 32];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)).take(if is_hex { 32 } else { 0 }) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    is_hex.then_some(bytes)
}

/// The names and keys that were read so far: no two service keys may share one.
#[derive(Default)]
pub(super) struct UsedKeys {
    names: RefCell<HashSet<String>>,
    keys: RefCell<HashSet<[u8; 32]>>,
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

const DIGEST: Form<[u8; 32]> = form(
    |at| {
        let digest = sha256_bytes(at.text()?);
        if digest.is_none() {
            at.problem("must be a SHA-256 in 64 hexadecimal digits");
        }
        digest
    },
    |doc| pattern(doc, "^[0-9A-Fa-f]{64}$", &["${TEAM_A_KEY_SHA256}"]),
);

impl ServiceKey {
    /// `used`: the names and keys of those before.
    pub(super) fn members(table: &mut MemberTable<'_>, used: &UsedKeys) -> Option<Self> {
        let workspace = "The slug of the workspace the key is bound to. Without it the key acts in the default workspace and may \
                         enter every other.";
        let log_payloads = "Whose bodies are kept in the log. Default: as logs.payloads says.";
        let name = table.needed("name", NAME, "In the access line; names must differ.");
        let text = "At least 8 visible ASCII characters; keys must differ.";
        let digest = "In place of `key`: the SHA-256 of a key that clients have already, in hexadecimal.";
        let text = table.get("key", KEY, text).map(KeyValue::Text);
        let digest = table.get("sha256", DIGEST, digest).map(KeyValue::Sha256);
        match (table.at("key"), table.at("sha256")) {
            (None, None) => table.missing("key", "is required, or sha256 in its place"),
            (Some(_), Some(at)) => at.problem("stands in place of key; give one of them"),
            _ => {}
        }
        let key = text.or(digest);
        let workspace = table.get("workspace", WORKSPACE, workspace);
        let of_workspace = workspace.is_some();
        let scopes = table.get(
            "scopes",
            Scopes { of_workspace },
            "What the key may do (docs/keys.md). Default: everything.",
        );
        let log_payloads = table.get("log_payloads", PAYLOADS, log_payloads);
        let priority = "Who gets a free place of `concurrency` first: the priority of its requests, and the highest that they may have.";
        let priority = table.get("priority", Choice(PRIORITIES), priority);
        let allowed = "The models that the key may use, by the names that clients use or as they are sent; * is any text \
                       (docs/models.md). Default: all.";
        let allowed_models = table.get("allowed_models", ALLOWED_MODELS, allowed);
        let limits = KeyLimits::members(table);
        if name.as_ref().is_some_and(|name| !used.names.borrow_mut().insert(name.clone())) {
            table.problem("name", "is the name of another key; names must differ");
        }
        if key.as_ref().is_some_and(|key| !used.keys.borrow_mut().insert(key.sha256())) {
            let name = if table.at("key").is_some() { "key" } else { "sha256" };
            table.problem(name, "is the same as another key; keys must differ");
        }
        let everything = if of_workspace { KeyType::WorkspaceService.scopes() } else { ScopeSet::all() };
        let scopes = scopes.unwrap_or(everything);
        Some(Self {
            name: name?,
            key: key?,
            scopes,
            workspace,
            log_payloads,
            priority,
            allowed_models,
            limits,
        })
    }
}
