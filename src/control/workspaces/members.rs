//! The members of a workspace: users and their roles in it.

use super::super::call::Call;
use super::super::field::{Field, Type, nullable, optional, required};
use super::super::giving;
use super::super::records::{created, member, members, put, time};
use super::super::reply::Reply;
use super::super::resource::{Draft, Item, Resource, create, delete, list, read, stored_items, update};
use super::super::route::{Route, Shape};
use memory::auth::identity::Role;
use memory::auth::key_records::revoked;
use memory::store::{Catalog, Change, Kind, Record, Status};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

const ROLE: Type = Type::OneOf(&["admin", "manager", "member"]);

pub(super) const USER: Type = Type::Object(&[
    required("id", Type::Uuid, "The user."),
    required("role", ROLE, "What the user may do in the workspace."),
]);

const ADD: &[Field] = &[required("users", Type::List(&USER, 1, 100), "The users to add.")];
const CHANGE: &[Field] = &[required("role", ROLE, "What the user may do in the workspace.")];

const VIEW: &[Field] = &[
    required("object", Type::Text(20), "`workspace-user`."),
    required("id", Type::Uuid, "The user."),
    nullable("email", Type::Text(320), "The user's address."),
    nullable("first_name", Type::Text(255), "As the user gave it."),
    nullable("last_name", Type::Text(255), "As the user gave it."),
    nullable("org_role", Type::Text(20), "What the user is in the organisation."),
    required("role", Type::Text(20), "What the user may do in the workspace."),
    required("created_at", Type::Time, "When the user was added."),
    required("last_updated_at", Type::Time, "When the role was changed last."),
    required("status", Type::Text(20), "`active`."),
    required("workspace_id", Type::Uuid, "The workspace."),
];

const LIST: &[Field] = &[
    optional("email", Type::Text(320), "Only the user with this address."),
    optional("role", Type::Text(20), "Only members with this role in the workspace."),
];

pub(in super::super) const ROUTES: &[Route] = &[
    create::<Member>(&[Scope::WorkspaceUsersCreate], "Adds members", ADD, Shape::Empty),
    list::<Member>(&[Scope::WorkspaceUsersList], "Lists members", LIST, VIEW),
    read::<Member>(&[Scope::WorkspaceUsersRead], "Reads a member", VIEW),
    update::<Member>(&[Scope::WorkspaceUsersUpdate], "Changes a member's role", CHANGE, Shape::Empty),
    delete::<Member>(&[Scope::WorkspaceUsersDelete], "Removes a member"),
];

/// # Errors
/// 403 for a member whose role the client could not give.
fn check_loss(call: &Call, record: &Record) -> Result<(), Error> {
    let role = member(&members(record), "role");
    giving::check_role(call, role.as_str().and_then(Role::of_workspace), record.workspace, "role")
}

/// The user that a membership is of.
fn user_of<'c>(catalog: &'c Catalog, record: &Record) -> Option<&'c Record> {
    catalog.get(Kind::User, user_id(&members(record))?).map(|user| &**user)
}

fn user_id(body: &Map<String, Value>) -> Option<Uuid> {
    body.get("user_id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok())
}

struct Member;

impl Resource for Member {
    const KIND: Kind = Kind::Member;
    const NAME: &'static str = "workspace-users";
    const IS_NAMED: bool = false;
    const PATHS: [&'static str; 2] =
        ["/v1/admin/workspaces/{id}/users", "/v1/admin/workspaces/{id}/users/{user_id}"];
    const KEPT: &'static [&'static str] = &["role"];

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        if let Some(before) = draft.before {
            check_loss(call, before)?;
        }
        giving::check_role(
            call,
            call.text("role").and_then(Role::of_workspace),
            draft.record.workspace,
            "role",
        )
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let workspace = call.find(Kind::Workspace)?;
        let catalog = call.catalog()?;
        let mut found: Vec<Arc<Record>> = catalog.children(Self::KIND, workspace.id).cloned().collect();
        if let Some(role) = call.query_text("role") {
            found.retain(|record| member(&members(record), "role") == role);
        }
        if let Some(email) = call.query_text("email") {
            let is_wanted = |record: &Record| {
                user_of(&catalog, record).is_some_and(|user| member(&members(user), "email") == email)
            };
            found.retain(|record| is_wanted(record));
        }
        Ok(stored_items(found))
    }

    fn find(call: &Call) -> Result<Arc<Record>, Error> {
        let workspace = call.find(Kind::Workspace)?;
        let found = call.catalog()?.by_slug(Self::KIND, Some(workspace.id), call.param("user_id")).cloned();
        found.ok_or_else(|| Error::not_found("The workspace has no such member."))
    }

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let catalog = call.catalog()?;
        let body = members(record);
        let id = user_id(&body);
        let user = user_of(&catalog, record).map(members).unwrap_or_default();
        Ok(json!({
            "object": "workspace-user",
            "id": id,
            "email": member(&user, "email"),
            "first_name": member(&user, "first_name"),
            "last_name": member(&user, "last_name"),
            "org_role": member(&user, "role"),
            "role": member(&body, "role"),
            "created_at": time(record.created_at),
            "last_updated_at": time(record.updated_at),
            "status": "active",
            "workspace_id": record.parent,
        }))
    }

    /// With the user's keys of this workspace.
    fn removal(call: &Call, record: &Record) -> Result<Vec<Change>, Error> {
        check_loss(call, record)?;
        let catalog = call.catalog()?;
        let keys = catalog.all(Kind::ApiKey).filter(|key| {
            key.workspace == record.workspace
                && key.status == Status::Active
                && Some(&member(&members(key), "user_id")) == members(record).get("user_id")
        });
        let mut changes = vec![Change::Delete { kind: Self::KIND, id: record.id }];
        changes.extend(keys.map(|key| put(revoked(key, call.now))));
        Ok(changes)
    }

    /// All that the request names.
    async fn create(mut call: Call) -> Result<Reply, Error> {
        let workspace = call.find(Kind::Workspace)?;
        call.commit(memberships(&call, workspace.id, call.body.get("users"))?).await?;
        Ok(Reply::empty())
    }
}

/// The changes that add the users of a request to a workspace.
pub(super) fn memberships(call: &Call, workspace: Uuid, users: Option<&Value>) -> Result<Vec<Change>, Error> {
    let catalog = call.catalog()?;
    let users = users.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    users.iter().enumerate().map(|(index, user)| membership(&catalog, workspace, index, user, call)).collect()
}

/// The change that adds a user: `{id, role}`.
fn membership(
    catalog: &Catalog,
    workspace: Uuid,
    index: usize,
    user: &Value,
    call: &Call,
) -> Result<Change, Error> {
    let id = user.get("id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok());
    let found = id.and_then(|id| catalog.get(Kind::User, id)).filter(|user| user.status == Status::Active);
    let Some(found) = found else {
        return Err(Error::invalid_request(format!("users[{index}].id"), "There is no such user."));
    };
    let role =
        user.get("role").and_then(Value::as_str).filter(|role| ["admin", "manager", "member"].contains(role));
    let Some(role) = role else {
        return Err(Error::invalid_request(
            format!("users[{index}].role"),
            "The role must be admin, manager or member.",
        ));
    };
    giving::check_role(call, Role::of_workspace(role), Some(workspace), format!("users[{index}].role"))?;
    let body = json!({"user_id": found.id, "role": role});
    let record = created(Kind::Member, Some(workspace), found.id.to_string(), &body, call.now);
    Ok(put(Record { parent: Some(workspace), ..record }))
}
