//! What a role allows, by the matrix of `docs/keys.md` ("Roles") and the switches of a workspace.
//!
//! Keys of services act by their scopes alone. A person's key or token may do what both its scopes and the person's role allow:
//! [`may`] is the one place that decides it, and `control/dispatch.rs` asks it for every request. Which role a user has is in the store
//! ([`client_role`]).
//!
//! Whose requests a person sees is `DataAccess`, of the role and the workspace's switches. It is put into the filter of every
//! question to the ledger, and an export keeps it.

use super::identity::{ClientIdentity, IdentityKind, Role};
use crate::store::{Catalog, Kind, Record, Status};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;
use words::settings::scopes::{KeyType, Scope, ScopeSet};

/// What a workspace allows its managers and members, by the names of the API: `membersWriteConfigs`.
pub type Switches = BTreeMap<String, bool>;

/// What limits a client besides the scopes of its key or token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientRole {
    /// By its scopes alone: a key of a service, or a token that names neither a role nor a user of the store.
    Scopes,
    /// As a person with this role in the client's workspace.
    Person(Role, Switches),
    /// As a person without a role there: a user who is no member of the workspace, or none any more.
    Stranger,
}

/// What a client who may see requests of its workspace may see of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataAccess {
    /// Only those of the keys of its own user.
    pub own_keys_only: bool,
    /// Neither bodies nor headers.
    pub without_bodies: bool,
}

impl DataAccess {
    /// By the role and the switches `...ViewAllData`, and `...ViewLogs` where only `...ViewLogMetadata` makes up for it.
    pub fn of(client_role: &ClientRole) -> Self {
        let ClientRole::Person(role, switches) = client_role else { return Self::default() };
        let is_off = |who: &str, what: &str| switches.get(&format!("{who}View{what}")) == Some(&false);
        let of =
            |who: &str| Self { own_keys_only: is_off(who, "AllData"), without_bodies: is_off(who, "Logs") };
        match role {
            Role::Owner | Role::WorkspaceAdmin => Self::default(),
            Role::Admin => Self { own_keys_only: false, ..of(ADMINS) },
            Role::Manager => of(MANAGERS),
            Role::Member => of(MEMBERS),
        }
    }
}

/// Whose switches they are.
const ADMINS: &str = "organisationAdmins";
const MANAGERS: &str = "managers";
const MEMBERS: &str = "members";

/// The stored user that a client is.
pub fn user_of(identity: &ClientIdentity, catalog: &Catalog) -> Option<Uuid> {
    identity.user.as_deref().and_then(|user| user_of_token(catalog, user)).map(|user| user.id)
}

/// The ids of the keys of a person, those that have ended among them.
pub fn keys_of_user(identity: &ClientIdentity, catalog: &Catalog) -> Vec<String> {
    let Some(user) = user_of(identity, catalog).map(|user| user.to_string()) else { return Vec::new() };
    let keys = catalog.all(Kind::ApiKey).filter(|key| key.body.contains(&user));
    let own = keys.filter(|key| text(&members(key), "user_id") == Some(&user));
    own.map(|key| key.id.to_string()).collect()
}

/// The role of a client in its own workspace.
pub fn client_role(identity: &ClientIdentity, catalog: &Catalog) -> ClientRole {
    match person(identity, catalog) {
        Some(Some(role)) => ClientRole::Person(role, switches(catalog, identity.workspace)),
        Some(None) => ClientRole::Stranger,
        None => ClientRole::Scopes,
    }
}

/// The name of the role that a client has in its own workspace, as records and tokens write it.
pub fn role_name(identity: &ClientIdentity, catalog: &Catalog) -> Option<&'static str> {
    person(identity, catalog).flatten().map(Role::name)
}

/// The role of a client that is a person; `None`: it is none.
fn person(identity: &ClientIdentity, catalog: &Catalog) -> Option<Option<Role>> {
    let user = identity.user.as_deref();
    match (identity.kind, identity.role) {
        (_, Some(role)) => Some(Some(role)),
        (IdentityKind::Stored(KeyType::WorkspaceUser), None) => Some(
            user.and_then(|user| user_by_id(catalog, user))
                .and_then(|user| role_of(catalog, user, identity.workspace)),
        ),
        (IdentityKind::Jwt, None) => {
            let user = user.and_then(|user| user_of_token(catalog, user))?;
            Some(role_of(catalog, user, identity.workspace))
        }
        _ => None,
    }
}

/// The role of a stored user in a workspace, if it has one.
pub fn role_of_user(catalog: &Catalog, user: Uuid, workspace: Option<Uuid>) -> Option<Role> {
    let user = catalog.get(Kind::User, user).filter(|record| record.status == Status::Active)?;
    role_of(catalog, user, workspace)
}

fn user_by_id<'c>(catalog: &'c Catalog, id: &str) -> Option<&'c Arc<Record>> {
    let found = catalog.get(Kind::User, Uuid::try_parse(id).ok()?);
    found.filter(|record| record.status == Status::Active)
}

/// The user that a token names, by id or e-mail address.
fn user_of_token<'c>(catalog: &'c Catalog, user: &str) -> Option<&'c Arc<Record>> {
    let has_address = |record: &&Arc<Record>| {
        // Most bodies need not be read.
        record.body.contains(user) && text(&members(record), "email") == Some(user)
    };
    let by_address =
        || catalog.all(Kind::User).filter(|record| record.status == Status::Active).find(has_address);
    user_by_id(catalog, user).or_else(by_address)
}

/// Owners and admins of the organisation have that role in every workspace; others have the role of their membership.
fn role_of(catalog: &Catalog, user: &Record, workspace: Option<Uuid>) -> Option<Role> {
    let of_organisation = text(&members(user), "role").and_then(Role::of_organisation);
    match of_organisation {
        Some(role @ (Role::Owner | Role::Admin)) => Some(role),
        _ => {
            let member = catalog.by_slug(Kind::Member, workspace, &user.id.to_string())?;
            text(&members(member), "role").and_then(Role::of_workspace)
        }
    }
}

pub(super) fn switches(catalog: &Catalog, workspace: Option<Uuid>) -> Switches {
    let record = workspace.and_then(|id| catalog.get(Kind::Workspace, id));
    let body = record.map(|record| members(record)).unwrap_or_default();
    switches_of(body.get("security_settings"))
}

/// The switches that a workspace's `security_settings` are.
pub fn switches_of(settings: Option<&Value>) -> Switches {
    let settings = settings.and_then(Value::as_object).into_iter().flatten();
    settings.filter_map(|(name, value)| Some((name.clone(), value.as_bool()?))).collect()
}

fn members(record: &Record) -> Map<String, Value> {
    serde_json::from_str(&record.body).unwrap_or_default()
}

fn text<'m>(members: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    members.get(name)?.as_str()
}

impl Role {
    /// For messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin => "admin of the organisation",
            Self::WorkspaceAdmin => "admin",
            Self::Manager => "manager",
            Self::Member => "member",
        }
    }

    /// The role that a token names. A token acts in a workspace, so that an organisation's owner is its admin there.
    pub(crate) fn of_token(name: &str) -> Option<Self> {
        match name {
            "owner" | "admin" => Some(Self::WorkspaceAdmin),
            "manager" => Some(Self::Manager),
            "member" => Some(Self::Member),
            _ => None,
        }
    }

    /// Higher roles may do all that lower ones may.
    pub(super) const fn rank(self) -> u8 {
        match self {
            Self::Owner => 4,
            Self::Admin => 3,
            Self::WorkspaceAdmin => 2,
            Self::Manager => 1,
            Self::Member => 0,
        }
    }

    /// As the API has it, in the organisation and in a workspace.
    const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Admin | Self::WorkspaceAdmin => "admin",
            Self::Manager => "manager",
            Self::Member => "member",
        }
    }

    /// As the API has it for users of the organisation.
    pub fn of_organisation(name: &str) -> Option<Self> {
        match name {
            "owner" => Some(Self::Owner),
            "admin" => Some(Self::Admin),
            "member" => Some(Self::Member),
            _ => None,
        }
    }

    /// As the API has it for members of a workspace.
    pub fn of_workspace(name: &str) -> Option<Self> {
        match name {
            "admin" => Some(Self::WorkspaceAdmin),
            "manager" => Some(Self::Manager),
            "member" => Some(Self::Member),
            _ => None,
        }
    }
}

/// What a client in this role may do, of the scopes it has.
pub fn allowed(identity: &ClientIdentity, client_role: &ClientRole) -> ScopeSet {
    identity.scopes.iter().filter(|scope| may(identity, client_role, *scope)).collect()
}

/// Whether a client in this role may do this: its scopes and the person's role both allow it. Whether it may do so in a workspace
/// other than its own is decided where the workspace is named (`control/call.rs`).
pub fn may(identity: &ClientIdentity, client_role: &ClientRole, scope: Scope) -> bool {
    identity.scopes.contains(scope)
        && match client_role {
            ClientRole::Scopes => true,
            ClientRole::Person(role, switches) => allows(*role, scope, switches),
            ClientRole::Stranger => is_call(scope),
        }
}

/// Everything that a role can allow, with all switches on.
pub fn most(role: Role) -> ScopeSet {
    match role {
        Role::Owner | Role::Admin => ScopeSet::all(),
        Role::WorkspaceAdmin | Role::Manager | Role::Member => KeyType::WorkspaceService.scopes(),
    }
}

/// What a role allows in a workspace with these switches.
pub(super) fn rights(role: Role, switches: &Switches) -> ScopeSet {
    most(role).iter().filter(|scope| allows(role, *scope, switches)).collect()
}

fn allows(role: Role, scope: Scope, switches: &Switches) -> bool {
    let switched = |default: bool| match switch(role, scope) {
        // Without their bodies.
        Some(name)
            if name.ends_with("ViewLogs")
                && switches.get(&name.replace("Logs", "LogMetadata")) == Some(&true) =>
        {
            true
        }
        Some(name) => switches.get(&name).copied().unwrap_or(default),
        None => default,
    };
    let in_workspace = most(role).contains(scope);
    match role {
        Role::Owner => true,
        Role::Admin => switched(true),
        Role::WorkspaceAdmin => in_workspace,
        Role::Manager => in_workspace && (is_call(scope) || switched(!is_if_allowed(scope))),
        // Calling models is not an administrative right.
        Role::Member => in_workspace && (is_call(scope) || switched(!scope.writes() && !is_keys(scope))),
    }
}

/// What managers may do only where the workspace says so: its settings and limits, its members, its keys.
fn is_if_allowed(scope: Scope) -> bool {
    is_workspace_settings(scope)
        || (scope.writes() && (scope.resource() == "workspace_users" || is_keys(scope)))
}

/// The settings of a workspace, and its limits.
fn is_workspace_settings(scope: Scope) -> bool {
    scope == Scope::WorkspacesUpdate || (scope.resource() == "policies" && scope.writes())
}

/// To call models and tools, and to write what calls leave behind.
fn is_call(scope: Scope) -> bool {
    matches!(scope.action(), "invoke" | "render")
        || matches!(scope, Scope::CompletionsWrite | Scope::LogsWrite | Scope::FeedbacksWrite)
}

fn is_keys(scope: Scope) -> bool {
    scope.resource().ends_with("_api_keys")
}

/// The name of the switch for it.
fn switch(role: Role, scope: Scope) -> Option<String> {
    let who = match role {
        Role::Manager => MANAGERS,
        Role::Member => MEMBERS,
        Role::Admin => {
            let is_view = scope.resource() == "logs" && !scope.writes();
            return is_view.then(|| format!("{ADMINS}ViewLogs"));
        }
        Role::Owner | Role::WorkspaceAdmin => return None,
    };
    if is_workspace_settings(scope) {
        return (role == Role::Manager).then(|| "managersUpdateWs".to_owned());
    }
    let what = match scope.resource() {
        "configs" => "Configs",
        "prompts" => "Prompts",
        "guardrails" => "Guardrails",
        "virtual_keys" | "providers" => "VirtualKeys",
        "workspace_service_api_keys" | "workspace_user_api_keys" => "ApiKeys",
        "logs" => "Logs",
        "analytics" => "Analytics",
        "workspace_users" => "WsUsers",
        "workspace_integrations" => "WsIntegrations",
        "workspace_mcp_integrations" => "WsMcpIntegrations",
        "mcp_servers" => "McpServers",
        _ => return None,
    };
    let does = if scope.writes() { "Write" } else { "View" };
    Some(format!("{who}{does}{what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holder(scopes: ScopeSet) -> ClientIdentity {
        ClientIdentity { scopes, ..ClientIdentity::anonymous(None) }
    }

    fn may_as(role: Role, scope: Scope, switches: &Switches) -> bool {
        may(&holder(ScopeSet::all()), &ClientRole::Person(role, switches.clone()), scope)
    }

    /// The matrix of `docs/keys.md`: owner, admin, workspace admin, manager, member.
    #[test]
    fn the_matrix_holds_without_switches() {
        let roles = [Role::Owner, Role::Admin, Role::WorkspaceAdmin, Role::Manager, Role::Member];
        for (scope, wanted) in [
            (Scope::WorkspacesCreate, [true, true, false, false, false]),
            (Scope::OrganisationServiceApiKeysCreate, [true, true, false, false, false]),
            (Scope::AuditLogsList, [true, true, false, false, false]),
            (Scope::WorkspacesUpdate, [true, true, true, false, false]),
            (Scope::PoliciesUpdate, [true, true, true, false, false]),
            (Scope::PoliciesRead, [true, true, true, true, true]),
            (Scope::WorkspaceUsersCreate, [true, true, true, false, false]),
            (Scope::WorkspaceServiceApiKeysCreate, [true, true, true, false, false]),
            (Scope::ConfigsUpdate, [true, true, true, true, false]),
            (Scope::ProvidersCreate, [true, true, true, true, false]),
            (Scope::ConfigsRead, [true, true, true, true, true]),
            (Scope::LogsView, [true, true, true, true, true]),
            (Scope::WorkspaceServiceApiKeysList, [true, true, true, true, false]),
            (Scope::CompletionsWrite, [true, true, true, true, true]),
            (Scope::FeedbacksWrite, [true, true, true, true, true]),
        ] {
            let found = roles.map(|role| may_as(role, scope, &Switches::new()));
            assert_eq!(found, wanted, "{scope}");
        }
    }

    #[test]
    fn switches_give_and_take() {
        for (role, scope, name, before) in [
            (Role::Admin, Scope::LogsView, "organisationAdminsViewLogs", true),
            (Role::Manager, Scope::ConfigsUpdate, "managersWriteConfigs", true),
            (Role::Manager, Scope::WorkspacesUpdate, "managersUpdateWs", false),
            (Role::Manager, Scope::PoliciesCreate, "managersUpdateWs", false),
            (Role::Manager, Scope::WorkspaceUsersCreate, "managersWriteWsUsers", false),
            (Role::Member, Scope::PromptsCreate, "membersWritePrompts", false),
            (Role::Member, Scope::LogsView, "membersViewLogs", true),
            (Role::Member, Scope::WorkspaceUserApiKeysCreate, "membersWriteApiKeys", false),
        ] {
            assert_eq!(may_as(role, scope, &Switches::new()), before, "{name}");
            for wanted in [true, false] {
                let switches = Switches::from([(name.to_owned(), wanted)]);
                assert_eq!(may_as(role, scope, &switches), wanted, "{name}");
                assert!(may_as(Role::WorkspaceAdmin, scope, &switches), "{name}");
            }
        }
        let switches = Switches::from([("membersWriteConfigs".to_owned(), true)]);
        assert!(!may_as(Role::Member, Scope::WorkspacesDelete, &switches));
    }

    #[test]
    fn logs_may_be_shown_without_their_bodies() {
        let switches = |all: &[(&str, bool)]| -> Switches {
            all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let access = |role, switches: &Switches| DataAccess::of(&ClientRole::Person(role, switches.clone()));
        for (role, who) in
            [(Role::Admin, "organisationAdmins"), (Role::Manager, "managers"), (Role::Member, "members")]
        {
            let [logs, metadata, all] =
                ["Logs", "LogMetadata", "AllData"].map(|what| format!("{who}View{what}"));
            for (given, may, wanted) in [
                (vec![], true, (false, false)),
                (vec![(&*logs, false)], false, (false, true)),
                (vec![(&*logs, false), (&*metadata, true)], true, (false, true)),
                (vec![(&*logs, true), (&*metadata, false)], true, (false, false)),
                (vec![(&*metadata, true)], true, (false, false)),
                (vec![(&*all, false)], true, (role != Role::Admin, false)),
            ] {
                let given = switches(&given);
                for scope in [Scope::LogsView, Scope::LogsList, Scope::LogsExport] {
                    assert_eq!(may_as(role, scope, &given), may, "{role:?} {given:?}");
                }
                let found = access(role, &given);
                assert_eq!((found.own_keys_only, found.without_bodies), wanted, "{role:?} {given:?}");
                assert_eq!(access(Role::WorkspaceAdmin, &given), DataAccess::default());
            }
            assert!(may_as(role, Scope::LogsWrite, &switches(&[(&*logs, false)])));
            assert!(may_as(role, Scope::AnalyticsView, &switches(&[(&*logs, false)])));
        }
        assert_eq!(DataAccess::of(&ClientRole::Scopes), DataAccess::default());
    }

    #[test]
    fn scopes_bind_whatever_the_role() {
        let reader = holder([Scope::ConfigsRead].into_iter().collect());
        let owner = ClientRole::Person(Role::Owner, Switches::new());
        for client_role in [ClientRole::Scopes, owner] {
            assert!(may(&reader, &client_role, Scope::ConfigsRead));
            assert!(!may(&reader, &client_role, Scope::ConfigsUpdate));
        }
        assert!(!may(&reader, &ClientRole::Stranger, Scope::ConfigsRead));
    }

    fn record(
        kind: Kind,
        id: u128,
        workspace: Option<Uuid>,
        slug: Option<String>,
        body: &Value,
    ) -> Arc<Record> {
        let now = jiff::Timestamp::UNIX_EPOCH;
        Arc::new(Record {
            kind,
            id: Uuid::from_u128(id),
            parent: workspace,
            workspace,
            slug,
            number: None,
            status: Status::Active,
            revision: 1,
            created_at: now,
            updated_at: now,
            body: body.to_string().into(),
            sealed: None,
        })
    }

    #[test]
    fn a_role_is_that_of_the_token_or_else_of_the_user_in_the_workspace() {
        let home = Uuid::from_u128(1);
        let member = |id: u128, role: &str| {
            let user = Uuid::from_u128(id).to_string();
            record(Kind::Member, 100 + id, Some(home), Some(user), &json!({"role": role}))
        };
        let user = |id: u128, role: &str| {
            record(Kind::User, id, None, None, &json!({"role": role, "email": format!("u{id}@example.com")}))
        };
        let switched = json!({"security_settings": {"membersWriteConfigs": true}});
        let catalog = Catalog::new(
            [
                record(Kind::Workspace, 1, None, Some("home".to_owned()), &switched),
                user(10, "owner"),
                user(11, "member"),
                member(11, "manager"),
                user(12, "member"),
            ],
            1,
        );
        let key = |user: u128| ClientIdentity {
            kind: IdentityKind::Stored(KeyType::WorkspaceUser),
            user: Some(Uuid::from_u128(user).to_string().into()),
            ..ClientIdentity::anonymous(Some(home))
        };
        let token = |user: &str, role| ClientIdentity {
            kind: IdentityKind::Jwt,
            user: Some(user.into()),
            role,
            ..ClientIdentity::anonymous(Some(home))
        };
        let person =
            |role| ClientRole::Person(role, Switches::from([("membersWriteConfigs".to_owned(), true)]));
        for (identity, wanted) in [
            (key(10), person(Role::Owner)),
            (key(11), person(Role::Manager)),
            (key(12), ClientRole::Stranger),
            (key(99), ClientRole::Stranger),
            (token("u10@example.com", None), person(Role::Owner)),
            (token("u10@example.com", Some(Role::Member)), person(Role::Member)),
            (token("u11@example.com", None), person(Role::Manager)),
            (token("u12@example.com", None), ClientRole::Stranger),
            (token("u1", None), ClientRole::Scopes),
            (ClientIdentity { kind: IdentityKind::Settings, ..key(11) }, ClientRole::Scopes),
            (
                ClientIdentity { kind: IdentityKind::Stored(KeyType::WorkspaceService), ..key(11) },
                ClientRole::Scopes,
            ),
        ] {
            assert_eq!(client_role(&identity, &catalog), wanted, "{identity:?}");
        }
    }
}
