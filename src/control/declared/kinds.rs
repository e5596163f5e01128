//! The kinds of objects that files have, in the order in which they are made: what others name comes first.

use super::super::call::Call;
use super::super::numbered::{Numbered, PARTIAL, PROMPT};
use super::super::resource::Resource;
use super::super::route::{Body, Route};
use super::super::stage::{check_scope, route};
use super::super::{
    collections, configs, guardrails, integrations, labels, mcp_bundles, mcp_servers, model_names, partials,
    policies, prompts, providers, workspaces,
};
use crate::field::Field;
use memory::auth::ClientIdentity;
use memory::store::Kind;
use serde_json::{Map, Value};
use uuid::Uuid;
use words::error::Error;

/// A kind of objects.
#[derive(Clone, Copy)]
pub(crate) struct Managed {
    /// As in `turnpike get`.
    pub name: &'static str,
    pub kind: Kind,
    /// The paths of all of them, and of one.
    all: &'static str,
    one: &'static str,
    /// The members that may have secrets in them.
    secret: &'static [&'static str],
    /// Where the request would make one; `None`: in the organisation.
    workspace: fn(&Call) -> Result<Option<Uuid>, Error>,
}

const SERVICE_KEYS: Managed = Managed {
    name: "api-keys",
    kind: Kind::ApiKey,
    all: "/v1/api-keys",
    one: "/v1/api-keys/{id}",
    secret: &[],
    workspace: key_workspace,
};

/// All of them. Workspaces name configs and guardrails by default: they are made first, and changed last but for keys (`plan`).
pub(super) const KINDS: [Managed; 15] = [
    workspaces::MANAGED,
    labels::MANAGED,
    collections::MANAGED,
    integrations::MANAGED,
    providers::MANAGED,
    guardrails::MANAGED,
    partials::MANAGED,
    prompts::MANAGED,
    configs::MANAGED,
    model_names::MANAGED,
    mcp_servers::MANAGED,
    mcp_bundles::MANAGED,
    policies::MANAGED_USAGE,
    policies::MANAGED_RATE,
    SERVICE_KEYS,
];

/// The types of keys, each with a path of its own where one is made.
pub(super) const KEY_TYPES: [(&str, &str); 3] = [
    ("organisation-service", "/v1/api-keys/organisation/service"),
    ("workspace-service", "/v1/api-keys/workspace/service"),
    ("workspace-user", "/v1/api-keys/workspace/user"),
];

impl Managed {
    pub(crate) const fn of<R: Resource>(name: &'static str) -> Self {
        let [all, one] = R::PATHS;
        Self { name, kind: R::KIND, all, one, secret: R::SECRET, workspace: R::workspace }
    }

    pub fn find(name: &str) -> Option<&'static Self> {
        static KINDS_IN_PLACE: [Managed; 15] = KINDS;
        KINDS_IN_PLACE.iter().find(|managed| managed.name == name)
    }

    /// The route that makes one with these members.
    ///
    /// # Errors
    /// 400 for a key of an unknown type.
    pub fn creation(&self, members: &Map<String, Value>) -> Result<&'static Route, Error> {
        if self.kind != Kind::ApiKey {
            return route("POST", self.all);
        }
        let of = members.get("type").and_then(Value::as_str).unwrap_or("workspace-service");
        match KEY_TYPES.iter().find(|(name, _)| *name == of) {
            Some((_, path)) => route("POST", path),
            None => Err(Error::invalid_request("type", format!("There is no type of keys {of:?}."))),
        }
    }

    /// # Errors
    /// 500: it has no such route.
    pub fn update(&self) -> Result<&'static Route, Error> {
        route("PUT", self.one)
    }

    /// # Errors
    /// 500: it has no such route.
    pub fn reading(&self) -> Result<&'static Route, Error> {
        route("GET", self.one)
    }

    /// # Errors
    /// 500: it has no such route.
    pub fn deletion(&self) -> Result<&'static Route, Error> {
        route("DELETE", self.one)
    }

    /// Whether a client may see all objects of this kind that it may see any of. Keys of each type have scopes of their own.
    ///
    /// # Errors
    /// 403 without the scopes.
    pub fn check_readable(&self, identity: &ClientIdentity) -> Result<(), Error> {
        check_scope(self.reading()?, identity)?;
        check_scope(route("GET", self.all)?, identity)?;
        if self.kind != Kind::ApiKey {
            return Ok(());
        }
        KEY_TYPES.iter().try_for_each(|(_, path)| check_scope(route("POST", path)?, identity))
    }

    /// Where an object with the members of this call would be made.
    ///
    /// # Errors
    /// 400 and 403 for a workspace that the client cannot name.
    pub fn workspace(&self, call: &Call) -> Result<Option<Uuid>, Error> {
        match self.kind {
            Kind::Workspace => Ok(None),
            // The provider that an integration of the organisation is.
            Kind::Provider if call.body.get("workspace_id").is_some_and(Value::is_null) => Ok(None),
            _ => (self.workspace)(call),
        }
    }

    /// The members that may have secrets in them.
    pub fn secrets(&self) -> &'static [&'static str] {
        if self.kind == Kind::Provider { &["key", "configurations"] } else { self.secret }
    }

    /// The member by which an object is found in its workspace.
    pub fn identity(&self) -> &'static str {
        if matches!(self.kind, Kind::Label | Kind::ApiKey) { "name" } else { "slug" }
    }

    /// The role that its records have, where one kind of records is several kinds of objects.
    pub fn role(&self) -> Option<&'static str> {
        match self.name {
            "integrations" => Some("is_integration"),
            "providers" => Some("is_provider"),
            _ => None,
        }
    }

    /// What has versions.
    pub fn numbered(&self) -> Option<Numbered> {
        match self.kind {
            Kind::Prompt => Some(PROMPT),
            Kind::Partial => Some(PARTIAL),
            _ => None,
        }
    }
}

fn key_workspace(call: &Call) -> Result<Option<Uuid>, Error> {
    match call.text("type") {
        Some("organisation-service") => Ok(None),
        _ => call.new_workspace().map(Some),
    }
}

/// The members that a route takes.
pub(super) fn fields(route: &'static Route) -> &'static [Field] {
    match route.body {
        Body::Object(fields) | Body::Raw(fields) => fields,
        Body::None => &[],
    }
}

/// Members of calls that say where an object is, or that are taken from the key.
pub(super) const PLACES: [&str; 4] = ["slug", "workspace_id", "organisation_id", "organization_id"];
