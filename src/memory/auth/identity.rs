//! Who sends a request, and what it may do: the outcome of authentication, on both planes.
//!
//! Plain data. Which scope a request needs is decided where its operation or route is.

use jiff::Timestamp;
use std::sync::Arc;
use uuid::Uuid;
use words::config::policies::Priority;
use words::config::secret::Secret;
use words::error::Error;
use words::settings::AllowedNames;
use words::settings::logs::Payloads;
use words::settings::scopes::{KeyType, Scope, ScopeSet};

/// An authenticated client, or one of whom no key is demanded. Kept behind an `Arc`: a request clones the pointer.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientIdentity {
    pub kind: IdentityKind,
    /// For logs and metrics; need not be unique. `None` where no key was demanded.
    pub name: Option<Arc<str>>,
    /// Identifies the client: data that is kept for a client is kept under it. `None` where no key was demanded.
    pub id: Option<Arc<str>>,
    /// The record of a stored key.
    pub key_id: Option<Uuid>,
    /// The workspace it acts in where it names none.
    pub workspace: Option<Uuid>,
    /// Whether it must stay in that workspace.
    pub is_bound: bool,
    pub scopes: ScopeSet,
    /// The user that a key belongs to, or that a token names.
    pub user: Option<Arc<str>>,
    /// The role that a token gives. The roles of users are in the store.
    pub role: Option<Role>,
    pub defaults: KeyDefaults,
    /// When the key or token expires.
    pub expires_at: Option<Timestamp>,
    /// The token of an identity provider that it showed.
    pub shown: Option<ShownToken>,
}

/// A token of an identity provider, for what is done in the name of whoever it names.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownToken {
    pub text: Secret,
    /// Whom it names, by issuer and subject: the same for all tokens of a person. A token without a subject stands for itself alone.
    pub person: Arc<str>,
}

/// A key that is found by what names it and not by its text: for what must end with the key that made it.
#[derive(Debug, Clone)]
pub struct LivingKey {
    pub identity: Arc<ClientIdentity>,
    /// Digests of its secrets that are good, the newest first. Of a key that was made elsewhere it may be one that others have too: alone
    /// it must open nothing.
    pub secrets: Vec<Vec<u8>>,
}

/// How a client was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityKind {
    /// Not at all: the data port demands no key.
    Anonymous,
    /// By a key of the settings.
    Settings,
    /// By a stored key.
    Stored(KeyType),
    /// By a token of an identity provider.
    Jwt,
}

/// What a key or token sets for the requests made with it.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyDefaults {
    /// The config of requests that name none.
    pub config_id: Option<Arc<str>>,
    /// Members that take precedence over those of a request's metadata.
    pub metadata: Vec<(Arc<str>, Arc<str>)>,
    /// Whether a request may name a config in place of `config_id`.
    pub allow_config_override: bool,
    /// Whose bodies are kept in the log, in place of the settings' `logs.payloads`.
    pub log_payloads: Option<Payloads>,
    /// The priority of requests that say none, and the highest that they may have.
    pub priority: Option<Priority>,
    /// The models that its requests may use; `None`: all.
    pub allowed_models: Option<AllowedNames>,
}

impl Default for KeyDefaults {
    fn default() -> Self {
        Self {
            config_id: None,
            metadata: Vec::new(),
            allow_config_override: true,
            log_payloads: None,
            priority: None,
            allowed_models: None,
        }
    }
}

/// What a person is in the organisation, or in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Of the organisation.
    Owner,
    /// Of the organisation.
    Admin,
    /// Of a workspace.
    WorkspaceAdmin,
    /// Of a workspace.
    Manager,
    /// Of a workspace; in the organisation it gives no rights.
    Member,
}

impl ClientIdentity {
    /// A client of whom no key is demanded: it may call, and nothing else.
    pub fn anonymous(workspace: Option<Uuid>) -> Self {
        let calls = [Scope::CompletionsWrite, Scope::McpInvoke, Scope::AgentsInvoke, Scope::GuardrailsInvoke];
        Self {
            kind: IdentityKind::Anonymous,
            name: None,
            id: None,
            key_id: None,
            workspace,
            is_bound: true,
            scopes: calls.into_iter().collect(),
            user: None,
            role: None,
            defaults: KeyDefaults::default(),
            expires_at: None,
            shown: None,
        }
    }

    /// Whether it may act in this workspace; `None` is the organisation as a whole.
    pub fn may_enter(&self, workspace: Option<Uuid>) -> bool {
        !self.is_bound || (workspace.is_some() && workspace == self.workspace)
    }

    /// # Errors
    /// 403 without the scope; 401 where no key was demanded and so none was sent.
    pub fn require(&self, scope: Scope) -> Result<(), Error> {
        if self.scopes.contains(scope) {
            return Ok(());
        }
        match self.kind {
            IdentityKind::Anonymous => Err(super::no_key()),
            _ => Err(Error::missing_scope(scope.as_str())),
        }
    }
}
