//! Who made a signed link, or follows the log: what is kept of the key, and whether that key is still good for it.
//!
//! A link has no key in it, and ends with the key that made it: it names the key, and its signature has what only that key's secret
//! leads to. Signing is `export_file`'s.

use crate::call::Call;
use jiff::Timestamp;
use memory::auth::identity::Role;
use memory::auth::roles::{self, user_of};
use memory::auth::{ClientIdentity, IdentityKind, LivingKey};
use memory::state::Shared;
use memory::store::{Kind, Status};
use std::sync::Arc;
use uuid::Uuid;
use words::settings::scopes::Scope;

/// What made a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LinkMaker {
    /// A key of the store, by its record.
    Stored(Uuid),
    /// A key of the settings, by its name.
    Settings(String),
    /// A token. It is not kept: the link says what its rights depend on, and ends with it.
    Token(TokenClaims),
}

/// Of a token, what decides about the sight of logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenClaims {
    workspace: Option<Uuid>,
    is_bound: bool,
    role: Option<Role>,
    /// The stored user that it names.
    user: Option<Uuid>,
}

/// What stands for nothing.
const NONE: &str = "-";
const ROLES: [Role; 5] = [Role::Owner, Role::Admin, Role::WorkspaceAdmin, Role::Manager, Role::Member];

impl LinkMaker {
    /// `None` for a client that has no key.
    pub fn of(call: &Call) -> Option<Self> {
        let identity = &call.identity;
        match identity.kind {
            IdentityKind::Anonymous => None,
            IdentityKind::Settings => identity.name.as_deref().map(|name| Self::Settings(name.to_owned())),
            IdentityKind::Stored(_) => identity.key_id.map(Self::Stored),
            IdentityKind::Jwt => Some(Self::Token(TokenClaims {
                workspace: identity.workspace,
                is_bound: identity.is_bound,
                role: identity.role,
                user: call.catalog().ok().and_then(|catalog| user_of(identity, &catalog)),
            })),
        }
    }

    /// As a link has it.
    pub fn text(&self) -> String {
        let id = |id: &Option<Uuid>| id.map_or_else(|| NONE.to_owned(), |id| id.to_string());
        match self {
            Self::Stored(record) => format!("key.{record}"),
            Self::Settings(name) => format!("settings.{name}"),
            Self::Token(TokenClaims { workspace, is_bound, role, user }) => {
                let role = role.and_then(|role| ROLES.iter().position(|other| *other == role));
                let role = role.map_or_else(|| NONE.to_owned(), |place| place.to_string());
                format!("token.{}.{}.{role}.{}", id(workspace), u8::from(*is_bound), id(user))
            }
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('.')?;
        match kind {
            "key" => Uuid::try_parse(rest).ok().map(Self::Stored),
            "settings" => Some(Self::Settings(rest.to_owned())),
            "token" => {
                let parts: Vec<&str> = rest.split('.').collect();
                let [workspace, is_bound, role, user] = parts.as_slice() else { return None };
                Some(Self::Token(TokenClaims {
                    workspace: optional(workspace, |text| Uuid::try_parse(text).ok())?,
                    is_bound: *is_bound == "1",
                    role: optional(role, |text| ROLES.get(text.parse::<usize>().ok()?).copied())?,
                    user: optional(user, |text| Uuid::try_parse(text).ok())?,
                }))
            }
            _ => None,
        }
    }

    /// The key as it is now, with the rights that are left to it; `None`: it is no more, or has not this scope any more.
    pub fn living(&self, shared: &Shared, scope: Scope, now: Timestamp) -> Option<LivingKey> {
        let snapshot = shared.settings_arc();
        let catalog = shared.store()?.catalog();
        let found = match self {
            Self::Stored(record) => snapshot.service_keys.living_stored(*record, now)?,
            Self::Settings(name) => snapshot.service_keys.living_of_settings(name)?,
            Self::Token(claims) => {
                // Tokens of another identity provider count for nothing any more.
                let issuer = snapshot.service_keys.tokens()?.settings().issuer.clone();
                let is_there =
                    |kind, id| catalog.get(kind, id).is_some_and(|record| record.status == Status::Active);
                let is_gone = |kind, id: Option<Uuid>| id.is_some_and(|id| !is_there(kind, id));
                if is_gone(Kind::User, claims.user) || is_gone(Kind::Workspace, claims.workspace) {
                    return None;
                }
                LivingKey { identity: Arc::new(claims.identity(scope)), secrets: vec![issuer.into_bytes()] }
            }
        };
        let client_role = roles::client_role(&found.identity, &catalog);
        roles::may(&found.identity, &client_role, scope).then_some(found)
    }
}

impl TokenClaims {
    /// `scope`: one that the token had when it was read.
    fn identity(&self, scope: Scope) -> ClientIdentity {
        ClientIdentity {
            kind: IdentityKind::Jwt,
            is_bound: self.is_bound,
            scopes: [scope].into_iter().collect(),
            user: self.user.map(|user| user.to_string().into()),
            role: self.role,
            ..ClientIdentity::anonymous(self.workspace)
        }
    }
}

/// A part of a text that may stand for nothing; the outer `None`: it cannot be read.
fn optional<T>(text: &str, read: impl FnOnce(&str) -> Option<T>) -> Option<Option<T>> {
    if text == NONE { Some(None) } else { read(text).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maker_reads_back_as_it_was_written() {
        let id = Uuid::from_u128(7);
        let claims = |role, user| TokenClaims { workspace: Some(id), is_bound: true, role, user };
        for maker in [
            LinkMaker::Stored(id),
            LinkMaker::Settings("a.b - \u{e9}".to_owned()),
            LinkMaker::Token(claims(Some(Role::Member), Some(id))),
            LinkMaker::Token(claims(None, None)),
            LinkMaker::Token(TokenClaims {
                workspace: None,
                is_bound: false,
                role: Some(Role::Owner),
                user: None,
            }),
        ] {
            assert_eq!(LinkMaker::parse(&maker.text()).as_ref(), Some(&maker), "{}", maker.text());
        }
        for text in ["", "key", "key.7", "token.-.1.9.-", "token.-.1.-", "token.x.1.-.-", "other.7"] {
            assert_eq!(LinkMaker::parse(text), None, "{text}");
        }
    }
}
