//! Checks of requests that give something to others: scopes to keys, roles to people, and rights to roles by the switches of a workspace.
//!
//! Every route that does so calls one of these (the list of those routes is a test here). What may be given is decided in
//! `auth::granting`.

use super::call::Call;
use memory::auth::granting::{given_by_switches, grantable, may_give};
use memory::auth::identity::Role;
use memory::auth::roles::{DataAccess, client_role, role_of_user, switches_of, user_of};
use serde_json::Value;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::{KeyType, Scope, ScopeSet};

/// # Errors
/// 403 for scopes that the client may not give to a key.
pub(super) fn check_scopes(call: &Call, wanted: &ScopeSet) -> Result<(), Error> {
    let beyond: Vec<&str> = wanted.without(&grantable(&call.identity)).iter().map(Scope::as_str).collect();
    if beyond.is_empty() {
        Ok(())
    } else {
        Err(Error::forbidden(format!(
            "The calling key cannot give a right it does not have: {}.",
            beyond.join(", ")
        ))
        .with_param("scopes"))
    }
}

/// A role that a request gives. `workspace`: where; `None`: in the organisation. `param`: where it stands in the request.
///
/// # Errors
/// 403 for one that the client may not give.
pub(super) fn check_role(
    call: &Call,
    role: Option<Role>,
    workspace: Option<Uuid>,
    param: impl Into<String>,
) -> Result<(), Error> {
    let Some(role) = role else { return Ok(()) };
    let catalog = call.catalog()?;
    if may_give(&call.identity, &client_role(&call.identity, &catalog), role, &catalog, workspace) {
        return Ok(());
    }
    let message = format!(
        "The calling key can neither give nor take the role {}: it is above its own, or allows what the key does not hold.",
        role.as_str()
    );
    Err(Error::forbidden(message).with_param(param.into()))
}

/// # Errors
/// 403 for switches that give a role what the client does not have.
pub(super) fn check_switches(
    call: &Call,
    before: Option<&Value>,
    after: Option<&Value>,
) -> Result<(), Error> {
    let catalog = call.catalog()?;
    let client_role = client_role(&call.identity, &catalog);
    let given = given_by_switches(&call.identity, &client_role, &switches_of(before), &switches_of(after));
    given.map_or(Ok(()), |what| {
        let message = format!("The calling key cannot give a right it does not have: {what}.");
        Err(Error::forbidden(message).with_param("security_settings"))
    })
}

/// A key that a request makes, changes or puts into the client's hand.
pub(super) struct GivenKey<'a> {
    pub kind: KeyType,
    /// Whose it is.
    pub user: Option<&'a str>,
    pub workspace: Option<Uuid>,
    pub scopes: ScopeSet,
}

impl GivenKey<'_> {
    /// # Errors
    /// 403 where the key holds more than the client: scopes, the role of another person, or the sight of requests.
    pub fn check(&self, call: &Call) -> Result<(), Error> {
        check_scopes(call, &self.scopes)?;
        let catalog = call.catalog()?;
        let user = self.user.and_then(|user| Uuid::try_parse(user).ok());
        if user.is_some() && user == user_of(&call.identity, &catalog) {
            return Ok(());
        }
        if let Some(user) = user.filter(|_| self.kind == KeyType::WorkspaceUser) {
            check_role(call, role_of_user(&catalog, user, self.workspace), self.workspace, "user_id")?;
        }
        let DataAccess { own_keys_only, without_bodies } = call.data_access();
        // Keys of services see all; those of another person with the same role see the same, but of that person.
        let sees_more = own_keys_only || without_bodies && self.kind != KeyType::WorkspaceUser;
        let shown = [Scope::LogsList, Scope::LogsView, Scope::LogsExport, Scope::AnalyticsView];
        match shown.into_iter().find(|scope| sees_more && self.scopes.contains(*scope)) {
            None => Ok(()),
            Some(scope) => Err(Error::forbidden(format!(
                "The calling key sees not all requests, and cannot give a key that sees more: {scope}."
            ))
            .with_param("scopes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::field::{Field, Type};
    use super::super::route::Body;
    use super::super::routes::routes;

    /// Members of bodies that give something.
    const GIVING: [&str; 5] = ["scopes", "role", "security_settings", "user_id", "users"];

    fn gives(fields: &[Field]) -> bool {
        fields.iter().any(|field| GIVING.contains(&field.name) || is_giving(&field.of))
    }

    fn is_giving(of: &Type) -> bool {
        match of {
            Type::Object(fields) => gives(fields),
            Type::List(item, ..) | Type::Map(item, ..) => is_giving(item),
            Type::AnyOf(types) => types.iter().any(is_giving),
            _ => false,
        }
    }

    /// A route that begins to take such a member must be checked, and be in this list. `tests/giving.rs` has a case for each of them, and for those
    /// without a body that give what is stored: a rotation, and an invite that is renewed or accepted.
    #[test]
    fn every_route_that_gives_something_is_listed() {
        let found: Vec<String> = routes()
            .filter(|route| route.change.is_some())
            .filter(|route| matches!(route.body, Body::Object(fields) if gives(fields)))
            .map(|route| format!("{} {}", route.method, route.path))
            .collect();
        assert_eq!(
            found,
            [
                "POST /v1/admin/workspaces",
                "PUT /v1/admin/workspaces/{id}",
                "POST /v1/admin/workspaces/{id}/users",
                "PUT /v1/admin/workspaces/{id}/users/{user_id}",
                "PUT /v1/admin/users/{id}",
                "POST /v1/admin/users/invites",
                "POST /v1/api-keys/organisation/service",
                "POST /v1/api-keys/workspace/service",
                "POST /v1/api-keys/workspace/user",
                "PUT /v1/api-keys/{id}",
            ]
        );
    }
}
