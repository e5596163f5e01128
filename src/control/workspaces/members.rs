//! The members of a workspace: users and their roles in it.

use super::super::call::Call;
use super::super::field::{Field, Type, nullable, required};
use super::super::page::{self, Page};
use super::super::records::{changed, created, member, members, put, time};
use super::super::reply::Reply;
use super::super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use memory::auth::key_records::revoked;
use memory::store::{Catalog, Change, Kind, Record, Status};
use serde_json::{Value, json};
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

pub(in super::super) const ROUTES: &[Route] = &[
    post(
        "/v1/admin/workspaces/{id}/users",
        Access::Scope(&[Scope::WorkspaceUsersCreate]),
        "Adds members",
        |call| Box::pin(add(call)),
    )
    .body(ADD)
    .replies(Shape::Empty)
    .changes("workspace-users", "create"),
    get(
        "/v1/admin/workspaces/{id}/users",
        Access::Scope(&[Scope::WorkspaceUsersList]),
        "Lists members",
        |call| Box::pin(list(call)),
    )
    .query(page::QUERY)
    .replies(Shape::List(VIEW)),
    get(
        "/v1/admin/workspaces/{id}/users/{user_id}",
        Access::Scope(&[Scope::WorkspaceUsersRead]),
        "Reads a member",
        |call| Box::pin(read(call)),
    )
    .replies(Shape::Object(VIEW)),
    put_route(
        "/v1/admin/workspaces/{id}/users/{user_id}",
        Access::Scope(&[Scope::WorkspaceUsersUpdate]),
        "Changes a member's role",
        |call| Box::pin(change(call)),
    )
    .body(CHANGE)
    .replies(Shape::Empty)
    .changes("workspace-users", "update"),
    delete(
        "/v1/admin/workspaces/{id}/users/{user_id}",
        Access::Scope(&[Scope::WorkspaceUsersDelete]),
        "Removes a member",
        |call| Box::pin(remove(call)),
    )
    .replies(Shape::Empty)
    .changes("workspace-users", "delete"),
];

/// The members that a new workspace is made with.
pub(super) fn of_new_workspace(
    call: &Call,
    workspace: Uuid,
    users: Option<&Value>,
) -> Result<Vec<Change>, Error> {
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
    let body = json!({"user_id": found.id, "role": role});
    let record = created(Kind::Member, Some(workspace), found.id.to_string(), &body, call.now);
    Ok(put(Record { parent: Some(workspace), ..record }))
}

async fn add(mut call: Call) -> Result<Reply, Error> {
    let workspace = call.find(Kind::Workspace)?;
    let catalog = call.catalog()?;
    let users = call.body.get("users").and_then(Value::as_array).cloned().unwrap_or_default();
    let changes: Result<Vec<Change>, Error> = users
        .iter()
        .enumerate()
        .map(|(index, user)| membership(&catalog, workspace.id, index, user, &call))
        .collect();
    call.commit(changes?).await?;
    Ok(Reply::empty())
}

async fn list(call: Call) -> Result<Reply, Error> {
    let workspace = call.find(Kind::Workspace)?;
    let catalog = call.catalog()?;
    let found: Vec<_> = catalog.children(Kind::Member, workspace.id).collect();
    Ok(Page::of(&call, 50).reply(&found, |record| view(&catalog, record)))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let record = find(&call)?;
    Ok(Reply::from(view(&*call.catalog()?, &record)))
}

async fn change(mut call: Call) -> Result<Reply, Error> {
    let record = find(&call)?;
    let mut body = members(&record);
    body.insert("role".to_owned(), member(&call.body, "role"));
    let record = changed(&record, &Value::Object(body), call.now);
    call.commit(vec![put(record)]).await?;
    Ok(Reply::empty())
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let record = find(&call)?;
    let mut changes = vec![Change::Delete { kind: Kind::Member, id: record.id }];
    // The user's keys of this workspace end with the membership.
    let catalog = call.catalog()?;
    let keys = catalog.all(Kind::ApiKey).filter(|key| {
        key.workspace == record.workspace
            && key.status == Status::Active
            && Some(&member(&members(key), "user_id")) == members(&record).get("user_id")
    });
    changes.extend(keys.map(|key| put(revoked(key, call.now))));
    call.commit(changes).await?;
    Ok(Reply::empty())
}

fn find(call: &Call) -> Result<Arc<Record>, Error> {
    let workspace = call.find(Kind::Workspace)?;
    let found = call.catalog()?.by_slug(Kind::Member, Some(workspace.id), call.param("user_id")).cloned();
    found.ok_or_else(|| Error::not_found("The workspace has no such member."))
}

fn view(catalog: &Catalog, record: &Record) -> Value {
    let body = members(record);
    let id = body.get("user_id").and_then(Value::as_str).and_then(|id| Uuid::try_parse(id).ok());
    let user = id.and_then(|id| catalog.get(Kind::User, id)).map(|user| members(user)).unwrap_or_default();
    json!({
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
    })
}
