//! What a client may give to others: scopes to keys, roles to people, and rights to roles by the switches of a workspace.
//!
//! Nobody gives what they do not hold. Which requests give something is `control`'s; what a role allows is in [`super::roles`].

use super::identity::{ClientIdentity, IdentityKind, Role};
use super::roles::{ClientRole, DataAccess, Switches, rights, switches};
use crate::store::Catalog;
use uuid::Uuid;
use words::settings::scopes::{KeyType, Scope, ScopeSet};

/// What a client may give to a key: what it holds. Keys of the organisation cannot hold the right to call, and yet make the keys that
/// call: they may give what their type excludes.
pub fn grantable(identity: &ClientIdentity) -> ScopeSet {
    let excluded = KeyType::WorkspaceService.scopes().without(&KeyType::OrganisationService.scopes());
    if identity.is_bound { identity.scopes } else { identity.scopes.or(&excluded) }
}

/// What the key or token of a person was made without. A key with few scopes gives no more than these, however much the person's role
/// allows. What no key of its type may hold (keys of users manage no keys) is not among it: there the role alone decides.
fn left_out(identity: &ClientIdentity) -> ScopeSet {
    let possible = match identity.kind {
        IdentityKind::Stored(kind) => kind.scopes(),
        IdentityKind::Jwt => {
            let kind = if identity.is_bound { KeyType::WorkspaceUser } else { KeyType::OrganisationService };
            // Only a token whose role may write (`auth.jwt.write_roles`) has any of these.
            let may_write = identity.scopes.iter().any(|scope| !scope.is_for_tokens(kind, false));
            Scope::ALL.iter().copied().filter(|scope| scope.is_for_tokens(kind, may_write)).collect()
        }
        // They act for no person.
        IdentityKind::Anonymous | IdentityKind::Settings => ScopeSet::default(),
    };
    possible.without(&identity.scopes)
}

/// Whether a client may give a role in this workspace (`None`: in the organisation): that of a member, and a higher one where it holds all
/// that this allows beyond what every member may. A person gives besides none that is above its own.
pub fn may_give(
    identity: &ClientIdentity,
    client_role: &ClientRole,
    role: Role,
    catalog: &Catalog,
    workspace: Option<Uuid>,
) -> bool {
    let switches = switches(catalog, workspace);
    let more = rights(role, &switches).without(&rights(Role::Member, &switches));
    match client_role {
        ClientRole::Person(own, own_switches) => {
            // What the own role does not allow is judged by its rank: the key has nothing of that.
            let lost = rights(*own, own_switches).and(&left_out(identity));
            own.rank() >= role.rank() && more.and(&lost).is_empty()
        }
        ClientRole::Stranger => false,
        ClientRole::Scopes => more.without(&grantable(identity)).is_empty(),
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
        ClientRole::Person(role, _) => rights(*role, before).without(&left_out(identity)),
        ClientRole::Stranger => ScopeSet::default(),
        ClientRole::Scopes => grantable(identity),
    };
    let holds = |scopes: &[Scope]| scopes.iter().any(|scope| held.contains(*scope));
    let DataAccess { own_keys_only, without_bodies } = DataAccess::of(client_role);
    let sees_requests = [Scope::LogsList, Scope::LogsView, Scope::LogsExport, Scope::AnalyticsView];
    let own = DataAccess {
        own_keys_only: own_keys_only || !holds(&sees_requests),
        without_bodies: without_bodies || !holds(&[Scope::LogsView, Scope::LogsExport]),
    };
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
    fn a_persons_key_gives_no_role_with_rights_that_it_does_not_hold() {
        let catalog = Catalog::default();
        let admin = ClientRole::Person(Role::WorkspaceAdmin, Switches::new());
        let roles = [Role::WorkspaceAdmin, Role::Manager, Role::Member];
        let gives = |kind, scopes| {
            let identity = ClientIdentity { kind, ..holder(scopes) };
            roles.map(|role| may_give(&identity, &admin, role, &catalog, None))
        };
        let narrow: ScopeSet = [Scope::WorkspaceUsersUpdate].into_iter().collect();
        let of_user = KeyType::WorkspaceUser.scopes();
        let of_tokens: ScopeSet =
            of_user.iter().filter(|scope| scope.is_for_tokens(KeyType::WorkspaceUser, false)).collect();
        for kind in [IdentityKind::Stored(KeyType::WorkspaceUser), IdentityKind::Jwt] {
            assert_eq!(gives(kind, narrow), [false, false, true], "{kind:?}");
            assert_eq!(gives(kind, of_user), [true; 3], "{kind:?}");
        }
        assert_eq!(gives(IdentityKind::Jwt, of_tokens), [true; 3]);
        // Of a role that may write, cut down by the identity provider.
        let policies = of_user.iter().filter(|scope| scope.resource() == "policies").collect();
        let cut = of_user.without(&policies);
        assert_eq!(gives(IdentityKind::Jwt, cut), [false, true, true]);
        assert_eq!(gives(IdentityKind::Stored(KeyType::WorkspaceUser), of_tokens), [false, false, true]);
        let off = [("membersWriteConfigs", false), ("membersViewAllData", false), ("membersViewLogs", false)];
        let before: Switches = off.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        let given = |scopes: &[Scope], name: &str| {
            let identity = ClientIdentity {
                kind: IdentityKind::Stored(KeyType::WorkspaceUser),
                ..holder(scopes.iter().copied().collect())
            };
            let mut after = before.clone();
            after.insert(name.to_owned(), true);
            given_by_switches(&identity, &admin, &before, &after)
        };
        let update = Scope::WorkspacesUpdate;
        let writes = [update, Scope::ConfigsCreate, Scope::ConfigsUpdate, Scope::ConfigsDelete];
        assert_eq!(given(&[update], "membersWriteConfigs").as_deref(), Some("configs.create"));
        assert_eq!(given(&writes, "membersWriteConfigs"), None);
        assert_eq!(given(&[update], "membersViewAllData").as_deref(), Some("the sight of all requests"));
        assert_eq!(given(&[update, Scope::AnalyticsView], "membersViewAllData"), None);
        assert!(given(&[update, Scope::AnalyticsView], "membersViewLogs").is_some());
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
