//! What a role allows, by the matrix of reference 4.4 and the switches of a workspace.
//!
//! Keys of services act by their scopes alone. A person's key or token may do what both its scopes and the person's role allow:
//! [`may`] is the one place that decides it. Which role a user has is in the store.

use super::identity::{ClientIdentity, Role};
use crate::settings::scopes::{KeyType, Scope, ScopeSet};
use std::collections::BTreeMap;
use uuid::Uuid;

/// What a workspace allows its managers and members, by the names of the API: `membersWriteConfigs`.
pub type Switches = BTreeMap<String, bool>;

impl Role {
    /// The role that a token names. A token acts in a workspace, so that an organisation's owner is its admin there.
    pub fn of_token(name: &str) -> Option<Self> {
        match name {
            "owner" | "admin" => Some(Self::WorkspaceAdmin),
            "manager" => Some(Self::Manager),
            "member" => Some(Self::Member),
            _ => None,
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

/// Whether `identity` may do this in `workspace` (`None`: in the organisation as a whole). `role`: the role of the person it belongs
/// to, there; `None` for keys of services, which act by their scopes. `switches`: those of the workspace.
pub fn may(
    identity: &ClientIdentity,
    scope: Scope,
    workspace: Option<Uuid>,
    role: Option<Role>,
    switches: &Switches,
) -> bool {
    identity.scopes.contains(scope)
        && identity.may_enter(workspace)
        && role.or(identity.role).is_none_or(|role| allows(role, scope, switches))
}

/// All that a role can come to allow, whatever the switches are.
pub fn most(role: Role) -> ScopeSet {
    match role {
        Role::Owner | Role::Admin => ScopeSet::all(),
        Role::WorkspaceAdmin | Role::Manager | Role::Member => KeyType::WorkspaceService.scopes(),
    }
}

fn allows(role: Role, scope: Scope, switches: &Switches) -> bool {
    let switched = |default: bool| match switch(role, scope) {
        Some(name) => switches.get(&name).copied().unwrap_or(default),
        None => default,
    };
    let in_workspace = most(role).contains(scope);
    match role {
        Role::Owner | Role::Admin => true,
        Role::WorkspaceAdmin => in_workspace,
        Role::Manager => in_workspace && switched(!is_if_allowed(scope)),
        // To call models is no administration.
        Role::Member => in_workspace && (is_call(scope) || switched(!scope.writes() && !is_keys(scope))),
    }
}

/// What managers may do only where the workspace says so: its settings, its members, its keys.
fn is_if_allowed(scope: Scope) -> bool {
    scope == Scope::WorkspacesUpdate
        || (scope.writes() && (scope.resource() == "workspace_users" || is_keys(scope)))
}

fn is_call(scope: Scope) -> bool {
    matches!(scope.action(), "invoke" | "render")
        || matches!(scope, Scope::CompletionsWrite | Scope::LogsWrite)
}

fn is_keys(scope: Scope) -> bool {
    scope.resource().ends_with("_api_keys")
}

/// The name of the switch for it.
fn switch(role: Role, scope: Scope) -> Option<String> {
    let who = match role {
        Role::Manager => "managers",
        Role::Member => "members",
        Role::Owner | Role::Admin | Role::WorkspaceAdmin => return None,
    };
    if scope == Scope::WorkspacesUpdate {
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

    fn holder(scopes: ScopeSet, workspace: Option<Uuid>) -> ClientIdentity {
        ClientIdentity { scopes, workspace, is_bound: workspace.is_some(), ..ClientIdentity::anonymous(None) }
    }

    /// The matrix of the reference: owner, admin, workspace admin, manager, member.
    #[test]
    fn the_matrix_holds_without_switches() {
        let roles = [Role::Owner, Role::Admin, Role::WorkspaceAdmin, Role::Manager, Role::Member];
        let all = holder(ScopeSet::all(), None);
        for (scope, wanted) in [
            (Scope::WorkspacesCreate, [true, true, false, false, false]),
            (Scope::OrganisationServiceApiKeysCreate, [true, true, false, false, false]),
            (Scope::AuditLogsList, [true, true, false, false, false]),
            (Scope::WorkspacesUpdate, [true, true, true, false, false]),
            (Scope::WorkspaceUsersCreate, [true, true, true, false, false]),
            (Scope::WorkspaceServiceApiKeysCreate, [true, true, true, false, false]),
            (Scope::ConfigsUpdate, [true, true, true, true, false]),
            (Scope::ProvidersCreate, [true, true, true, true, false]),
            (Scope::ConfigsRead, [true, true, true, true, true]),
            (Scope::LogsView, [true, true, true, true, true]),
            (Scope::WorkspaceServiceApiKeysList, [true, true, true, true, false]),
            (Scope::CompletionsWrite, [true, true, true, true, true]),
        ] {
            let found = roles.map(|role| may(&all, scope, None, Some(role), &Switches::new()));
            assert_eq!(found, wanted, "{scope}");
        }
    }

    #[test]
    fn switches_give_and_take() {
        let all = holder(ScopeSet::all(), None);
        for (role, scope, name, before) in [
            (Role::Manager, Scope::ConfigsUpdate, "managersWriteConfigs", true),
            (Role::Manager, Scope::WorkspacesUpdate, "managersUpdateWs", false),
            (Role::Manager, Scope::WorkspaceUsersCreate, "managersWriteWsUsers", false),
            (Role::Member, Scope::PromptsCreate, "membersWritePrompts", false),
            (Role::Member, Scope::LogsView, "membersViewLogs", true),
            (Role::Member, Scope::WorkspaceUserApiKeysCreate, "membersWriteApiKeys", false),
        ] {
            assert_eq!(may(&all, scope, None, Some(role), &Switches::new()), before, "{name}");
            for wanted in [true, false] {
                let switches = Switches::from([(name.to_owned(), wanted)]);
                assert_eq!(may(&all, scope, None, Some(role), &switches), wanted, "{name}");
                assert!(may(&all, scope, None, Some(Role::WorkspaceAdmin), &switches), "{name}");
            }
        }
        let switches = Switches::from([("membersWriteConfigs".to_owned(), true)]);
        assert!(!may(&all, Scope::WorkspacesDelete, None, Some(Role::Member), &switches));
    }

    #[test]
    fn scopes_and_workspace_bind_whatever_the_role() {
        let home = Some(Uuid::from_u128(1));
        let bound = holder([Scope::ConfigsRead].into_iter().collect(), home);
        let none = Switches::new();
        for role in [None, Some(Role::Owner)] {
            assert!(may(&bound, Scope::ConfigsRead, home, role, &none));
            assert!(!may(&bound, Scope::ConfigsUpdate, home, role, &none));
            assert!(!may(&bound, Scope::ConfigsRead, Some(Uuid::from_u128(2)), role, &none));
            assert!(!may(&bound, Scope::ConfigsRead, None, role, &none));
        }
    }
}
