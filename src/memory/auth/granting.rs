//! What a client may give to others: scopes to keys, roles to people, and rights to roles by the switches of a workspace.
//!
//! Nobody gives what they do not hold. Which requests give something is `control`'s; what a role allows is in [`super::roles`].

use super::identity::{ClientIdentity, Role};
use super::roles::{ClientRole, DataAccess, Switches, rights, switches};
use crate::store::Catalog;
use uuid::Uuid;
use words::settings::scopes::{KeyType, ScopeSet};

/// What a client may give to a key: what it holds. Keys of the organisation cannot hold the right to call, and yet make the keys that
/// call: they may give what their type excludes.
pub fn grantable(identity: &ClientIdentity) -> ScopeSet {
    let excluded = KeyType::WorkspaceService.scopes().without(&KeyType::OrganisationService.scopes());
    if identity.is_bound { identity.scopes } else { identity.scopes.or(&excluded) }
}

/// Whether a client may give a role in this workspace (`None`: in the organisation): a person one that is not above its own; who acts by
/// scopes alone, that of a member, and a higher one where it holds all that this allows beyond what every member may.
pub fn may_give(
    identity: &ClientIdentity,
    client_role: &ClientRole,
    role: Role,
    catalog: &Catalog,
    workspace: Option<Uuid>,
) -> bool {
    match client_role {
        ClientRole::Person(own, _) => own.rank() >= role.rank(),
        ClientRole::Stranger => false,
        ClientRole::Scopes => {
            let switches = switches(catalog, workspace);
            let more = rights(role, &switches).without(&rights(Role::Member, &switches));
            more.without(&grantable(identity)).is_empty()
        }
    }
}

/// What new switches of a workspace give to one of the roles and the client does not have: rights, or the sight of requests.
///
/// `None`: nothing. For messages.
pub fn given_by_switches(
    identity: &ClientIdentity,
    client_role: &ClientRole,
    before: &Switches,
    after: &Switches,
) -> Option<String> {
    let held = match client_role {
        ClientRole::Person(role, _) => rights(*role, before),
        ClientRole::Stranger => ScopeSet::default(),
        ClientRole::Scopes => grantable(identity),
    };
    let own = DataAccess::of(client_role);
    for role in [Role::Admin, Role::Manager, Role::Member] {
        let given = rights(role, after).without(&rights(role, before)).without(&held);
        if let Some(scope) = given.iter().next() {
            return Some(scope.as_str().to_owned());
        }
        let access = |switches: &Switches| DataAccess::of(&ClientRole::Person(role, switches.clone()));
        let was = access(before);
        let becomes = access(after);
        if own.own_keys_only && was.own_keys_only && !becomes.own_keys_only {
            return Some("the sight of all requests".to_owned());
        }
        if own.without_bodies && was.without_bodies && !becomes.without_bodies {
            return Some("the sight of bodies".to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::settings::scopes::Scope;

    fn holder(scopes: ScopeSet) -> ClientIdentity {
        ClientIdentity { scopes, ..ClientIdentity::anonymous(None) }
    }

    #[test]
    fn a_role_is_given_by_its_holders_alone() {
        let roles = [Role::Owner, Role::Admin, Role::WorkspaceAdmin, Role::Manager, Role::Member];
        let catalog = Catalog::default();
        let gives = |identity: &ClientIdentity, client_role: &ClientRole| {
            roles.map(|role| may_give(identity, client_role, role, &catalog, None))
        };
        for (index, own) in roles.into_iter().enumerate() {
            let given = gives(&holder(ScopeSet::all()), &ClientRole::Person(own, Switches::new()));
            let wanted: Vec<bool> = (0..roles.len()).map(|other| other >= index).collect();
            assert_eq!(given.as_slice(), wanted, "{own:?}");
        }
        assert_eq!(gives(&holder(ScopeSet::all()), &ClientRole::Stranger), [false; 5]);
        let key = |scopes: ScopeSet, is_bound| ClientIdentity { is_bound, ..holder(scopes) };
        let of_organisation = key(KeyType::OrganisationService.scopes(), false);
        assert_eq!(gives(&of_organisation, &ClientRole::Scopes), [true; 5]);
        let of_workspace = key(KeyType::WorkspaceService.scopes(), true);
        assert_eq!(gives(&of_workspace, &ClientRole::Scopes), [false, false, true, true, true]);
        let members_only =
            key([Scope::WorkspaceUsersCreate, Scope::WorkspaceUsersUpdate].into_iter().collect(), true);
        assert_eq!(gives(&members_only, &ClientRole::Scopes), [false, false, false, false, true]);
        let invites = key([Scope::OrganisationUsersCreate].into_iter().collect(), false);
        assert_eq!(gives(&invites, &ClientRole::Scopes), [false, false, false, false, true]);
    }

    #[test]
    fn switches_give_only_what_the_client_has() {
        let switches = |all: &[(&str, bool)]| -> Switches {
            all.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let may_update = switches(&[
            ("managersUpdateWs", true),
            ("managersViewAllData", false),
            ("managersViewLogs", false),
        ]);
        let manager = ClientRole::Person(Role::Manager, may_update.clone());
        let given = |role: &ClientRole, scopes: ScopeSet, more: &[(&str, bool)]| {
            let mut after = may_update.clone();
            after.extend(switches(more));
            given_by_switches(&holder(scopes), role, &may_update, &after)
        };
        let by_manager = |more: &[(&str, bool)]| given(&manager, ScopeSet::all(), more);
        assert_eq!(by_manager(&[("membersWriteConfigs", true), ("managersWriteConfigs", false)]), None);
        assert_eq!(by_manager(&[("managersWriteWsUsers", true)]).as_deref(), Some("workspace_users.create"));
        assert_eq!(
            by_manager(&[("membersWriteApiKeys", true)]).as_deref(),
            Some("workspace_service_api_keys.create")
        );
        assert_eq!(
            by_manager(&[("managersViewAllData", true)]).as_deref(),
            Some("the sight of all requests")
        );
        assert!(by_manager(&[("managersViewLogs", true)]).is_some());
        let all =
            [("managersWriteWsUsers", true), ("membersWriteApiKeys", true), ("managersViewAllData", true)];
        let admin = ClientRole::Person(Role::WorkspaceAdmin, may_update.clone());
        assert_eq!(given(&admin, ScopeSet::all(), &all), None);
        assert_eq!(given(&ClientRole::Scopes, ScopeSet::all(), &all), None);
        let narrow = [Scope::WorkspacesUpdate].into_iter().collect();
        assert!(given(&ClientRole::Scopes, narrow, &all).is_some());
    }
}
