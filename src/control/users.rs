//! Users of the organisation and invites, as far as roles need them. Nothing is mailed: an invite is a record,
//! and its link is given to the person by whoever made it.

use super::call::{Call, by_id_or_slug};
use super::field::{Field, Type, nullable, optional, required};
use super::giving;
use super::records::{changed, created, member, members, put, set, time};
use super::reply::Reply;
use super::resource::{
    Changed, Draft, Item, Resource, create, delete, list, read, stored_items, update, view,
};
use super::route::{Access, Route, Shape, post};
use jiff::{SignedDuration, Timestamp};
use memory::auth::identity::Role;
use memory::auth::key_records::revoked;
use memory::store::{Catalog, Change, Kind, Record};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use words::error::Error;
use words::settings::scopes::Scope;

const ROLE: Type = Type::OneOf(&["owner", "admin", "member"]);
const WORKSPACE_ROLE: Type = Type::Object(&[
    required("id", Type::Name(128), "Id or slug of the workspace."),
    required("role", Type::OneOf(&["admin", "manager", "member"]), "What the person may do in it."),
]);

const INVITE: &[Field] = &[
    required("email", Type::Email, "The person's address."),
    required("role", Type::OneOf(&["admin", "member"]), "What the person is in the organisation."),
    required("workspaces", Type::List(&WORKSPACE_ROLE, 0, 100), "Workspaces the person is a member of."),
    optional("first_name", Type::Text(255), "For people."),
    optional("last_name", Type::Text(255), "For people."),
    optional("workspace_api_key_details", Type::AnyObject, "Kept; keys are made by /v1/api-keys."),
];

const UPDATE: &[Field] = &[
    optional("role", ROLE, "What the user is in the organisation."),
    optional("first_name", Type::Text(255), "For people."),
    optional("last_name", Type::Text(255), "For people."),
];

const USER: &[Field] = &[
    required("object", Type::Text(20), "`user`."),
    required("id", Type::Uuid, "The user."),
    nullable("first_name", Type::Text(255), "For people."),
    nullable("last_name", Type::Text(255), "For people."),
    required("email", Type::Text(320), "The user's address."),
    required("role", ROLE, "What the user is in the organisation."),
    required("created_at", Type::Time, "When the user was made."),
    required("last_updated_at", Type::Time, "When the user was changed last."),
    nullable("workspace_ids", Type::List(&Type::Uuid, 0, 10_000), "The workspaces the user is a member of."),
];

const INVITED: &[Field] = &[
    required("id", Type::Uuid, "The invite."),
    required("invite_link", Type::Text(2048), "For the person."),
];

const SHOWN: &[Field] = &[
    required("object", Type::Text(20), "`invite`."),
    required("id", Type::Uuid, "The invite."),
    required("email", Type::Text(320), "The person's address."),
    required("role", ROLE, "What the person becomes in the organisation."),
    required("created_at", Type::Time, "When it was made."),
    required("expires_at", Type::Time, "When it ends."),
    nullable("accepted_at", Type::Time, "When it was taken up."),
    required("status", Type::OneOf(&["pending", "cancelled", "accepted", "expired"]), "Where it stands."),
    required("invited_by", Type::Text(128), "Who made it."),
    required(
        "workspaces",
        Type::List(&Type::AnyObject, 0, 100),
        "Workspaces the person becomes a member of.",
    ),
];

const LIST: &[Field] = &[
    optional("email", Type::Text(320), "Only of this address."),
    optional("role", ROLE, "Only with this role."),
    optional(
        "status",
        Type::OneOf(&["pending", "cancelled", "accepted", "expired"]),
        "Only invites that stand there.",
    ),
];

const CREATES: &[Scope] = &[Scope::OrganisationUsersCreate];
const LISTS: &[Scope] = &[Scope::OrganisationUsersList];
const READS: &[Scope] = &[Scope::OrganisationUsersRead];
const UPDATES: &[Scope] = &[Scope::OrganisationUsersUpdate];
const DELETES: &[Scope] = &[Scope::OrganisationUsersDelete];

pub(super) const ROUTES: &[Route] = &[
    list::<User>(LISTS, "Lists users", LIST, USER),
    read::<User>(READS, "Reads a user", USER),
    update::<User>(UPDATES, "Changes a user", UPDATE, Shape::Object(USER)),
    delete::<User>(DELETES, "Removes a user"),
    create::<Invite>(CREATES, "Invites a person", INVITE, Shape::Object(INVITED)),
    list::<Invite>(LISTS, "Lists invites", LIST, SHOWN),
    read::<Invite>(READS, "Reads an invite", SHOWN),
    delete::<Invite>(DELETES, "Cancels an invite"),
    post(
        "/v1/admin/users/invites/{id}/resend",
        Access::Scope(CREATES),
        "Makes an invite good for seven days again",
        |call| Box::pin(renew(call)),
    )
    .replies(Shape::Empty)
    .changes("invites", "resend"),
    post(
        "/v1/admin/users/invites/{id}/accept",
        Access::Scope(CREATES),
        "Makes the invited person a user",
        |call| Box::pin(accept(call)),
    )
    .replies(Shape::Object(USER))
    .changes("invites", "accept"),
];

/// How long an invite can be taken up.
const INVITE_DAYS: i64 = 7;

/// Whether the client may take the role of this user.
///
/// # Errors
/// 403 for a role that it could not give, 409 for the last owner's.
fn check_loss(call: &Call, user: &Map<String, Value>) -> Result<(), Error> {
    let role = member(user, "role");
    giving::check_role(call, role.as_str().and_then(Role::of_organisation), None, "role")?;
    let owners =
        call.list(Kind::User)?.iter().filter(|user| member(&members(user), "role") == "owner").count();
    if role == "owner" && owners < 2 {
        return Err(Error::conflict("The organisation's last owner stays one."));
    }
    Ok(())
}

struct User;

impl Resource for User {
    const KIND: Kind = Kind::User;
    const NAME: &'static str = "users";
    const IS_NAMED: bool = false;
    const PATHS: [&'static str; 2] = ["/v1/admin/users", "/v1/admin/users/{id}"];
    const CHANGED: Changed = Changed::Shown;

    fn fill(call: &Call, Draft { body, .. }: &mut Draft<'_>) -> Result<(), Error> {
        if call.text("role").is_some_and(|role| member(body, "role") == role) {
            return Err(Error::invalid_request("role", "The user has this role already."));
        }
        giving::check_role(call, call.text("role").and_then(Role::of_organisation), None, "role")?;
        if call.has("role") {
            check_loss(call, body)?;
        }
        for name in ["role", "first_name", "last_name"] {
            if let Some(value) = call.body.get(name).filter(|value| !value.is_null()) {
                set(body, name, value.clone());
            }
        }
        Ok(())
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        listed(call, Self::KIND).map(stored_items)
    }

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        Ok(user(&*call.catalog()?, record))
    }

    /// With the person's memberships and keys.
    fn removal(call: &Call, record: &Record) -> Result<Vec<Change>, Error> {
        check_loss(call, &members(record))?;
        let catalog = call.catalog()?;
        let id = record.id.to_string();
        let mut changes = vec![Change::Delete { kind: Self::KIND, id: record.id }];
        for kind in [Kind::Member, Kind::ApiKey] {
            let of_user = catalog.all(kind).filter(|found| member(&members(found), "user_id") == id.as_str());
            changes.extend(of_user.map(|found| match kind {
                Kind::ApiKey => put(revoked(found, call.now)),
                kind => Change::Delete { kind, id: found.id },
            }));
        }
        Ok(changes)
    }
}

struct Invite;

impl Resource for Invite {
    const KIND: Kind = Kind::Invite;
    const NAME: &'static str = "invites";
    const IS_NAMED: bool = false;
    const PATHS: [&'static str; 2] = ["/v1/admin/users/invites", "/v1/admin/users/invites/{id}"];

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let mut found = listed(call, Self::KIND)?;
        let status = call.query_text("status");
        found
            .retain(|record| status.is_none_or(|status| invite_status(&members(record), call.now) == status));
        Ok(stored_items(found))
    }

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let status = invite_status(&members(record), call.now);
        Ok(view(SHOWN, record, json!({"status": status, "object": "invite"})))
    }

    async fn create(mut call: Call) -> Result<Reply, Error> {
        let email = call.text("email").unwrap_or_default().to_owned();
        let is_taken = |kind: Kind, status: Option<&str>| {
            let catalog = call.catalog()?;
            let found = catalog.all(kind).any(|record| {
                let body = members(record);
                member(&body, "email") == email.as_str()
                    && status.is_none_or(|status| invite_status(&body, call.now) == status)
            });
            Ok::<_, Error>(found)
        };
        if is_taken(Kind::User, None)? || is_taken(Kind::Invite, Some("pending"))? {
            return Err(Error::conflict("There is a user or a pending invite with this address."));
        }
        check_roles(&call, &call.body)?;
        let body = json!({
            "email": email,
            "role": member(&call.body, "role"),
            "workspaces": member(&call.body, "workspaces"),
            "first_name": member(&call.body, "first_name"),
            "last_name": member(&call.body, "last_name"),
            "expires_at": invite_end(call.now),
            "status": "pending",
            "invited_by": call.actor(),
        });
        let record = created(Kind::Invite, None, String::new(), &body, call.now);
        let record = Record { slug: None, ..record };
        let link = format!("/v1/admin/users/invites/{}/accept", record.id);
        call.commit(vec![put(record.clone())]).await?;
        Ok(Reply::from(json!({"id": record.id, "invite_link": link})))
    }

    /// Cancels it: the invite stays.
    async fn delete(mut call: Call) -> Result<Reply, Error> {
        let record = pending(&call)?;
        let mut body = members(&record);
        set(&mut body, "status", "cancelled");
        call.commit(vec![put(changed(&record, &Value::Object(body), call.now))]).await?;
        Ok(Reply::empty())
    }
}

/// The users or invites with the address and the role of the query, where it has them.
fn listed(call: &Call, kind: Kind) -> Result<Vec<Arc<Record>>, Error> {
    let mut found = call.list(kind)?;
    found.retain(|record| {
        let body = members(record);
        ["email", "role"]
            .iter()
            .all(|name| call.query_text(name).is_none_or(|wanted| member(&body, name) == wanted))
    });
    Ok(found)
}

fn invite_end(now: Timestamp) -> Value {
    time(now.checked_add(SignedDuration::from_hours(24 * INVITE_DAYS)).unwrap_or(now))
}

/// Nothing is mailed, so nothing is mailed again: the link is good for the whole time once more.
async fn renew(mut call: Call) -> Result<Reply, Error> {
    let record = call.find(Kind::Invite)?;
    let mut body = members(&record);
    check_roles(&call, &body)?;
    match invite_status(&body, call.now) {
        "pending" | "expired" => {}
        status => return Err(Error::conflict(format!("The invite is {status}."))),
    }
    body.insert("expires_at".to_owned(), invite_end(call.now));
    call.commit(vec![put(changed(&record, &Value::Object(body), call.now))]).await?;
    Ok(Reply::empty())
}

/// Makes the user and the memberships that an invite names.
async fn accept(mut call: Call) -> Result<Reply, Error> {
    let before = pending(&call)?;
    let mut body = members(&before);
    check_roles(&call, &body)?;
    let catalog = call.catalog()?;
    let names = ["email", "role", "first_name", "last_name"];
    let of_user: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), member(&body, name))).collect();
    let user_record = created(Kind::User, None, String::new(), &Value::Object(of_user), call.now);
    let user_record = Record { slug: None, ..user_record };
    let mut changes = vec![put(user_record.clone())];
    let workspaces = member(&body, "workspaces");
    for item in workspaces.as_array().map(Vec::as_slice).unwrap_or_default() {
        let named = item.get("id").and_then(Value::as_str).unwrap_or_default();
        let workspace = by_id_or_slug(&catalog, Kind::Workspace, None, named);
        let Some(workspace) = workspace else {
            return Err(Error::conflict(format!("The workspace {named:?} of the invite is gone.")));
        };
        let membership = json!({"user_id": user_record.id, "role": item.get("role")});
        let record =
            created(Kind::Member, Some(workspace.id), user_record.id.to_string(), &membership, call.now);
        changes.push(put(Record { parent: Some(workspace.id), ..record }));
    }
    body.insert("status".to_owned(), "accepted".into());
    body.insert("accepted_at".to_owned(), time(call.now));
    changes.push(put(changed(&before, &Value::Object(body), call.now)));
    call.commit(changes).await?;
    Ok(Reply::from(user(&*call.catalog()?, &user_record)))
}

/// The roles that an invite gives, whoever has made it.
///
/// # Errors
/// 403 for one that the client may not give.
fn check_roles(call: &Call, invite: &serde_json::Map<String, Value>) -> Result<(), Error> {
    let catalog = call.catalog()?;
    let role = member(invite, "role").as_str().and_then(Role::of_organisation);
    giving::check_role(call, role, None, "role")?;
    let workspaces = member(invite, "workspaces");
    for (index, item) in workspaces.as_array().into_iter().flatten().enumerate() {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let workspace = by_id_or_slug(&catalog, Kind::Workspace, None, text("id")).map(|found| found.id);
        let role = Role::of_workspace(text("role"));
        giving::check_role(call, role, workspace, format!("workspaces[{index}].role"))?;
    }
    Ok(())
}

fn pending(call: &Call) -> Result<Arc<Record>, Error> {
    let record = call.find(Kind::Invite)?;
    match invite_status(&members(&record), call.now) {
        "pending" => Ok(record),
        status => Err(Error::conflict(format!("The invite is {status}."))),
    }
}

fn invite_status(body: &serde_json::Map<String, Value>, now: Timestamp) -> &'static str {
    let expiry = member(body, "expires_at").as_str().and_then(|text| text.parse::<Timestamp>().ok());
    match member(body, "status").as_str() {
        Some("accepted") => "accepted",
        Some("cancelled") => "cancelled",
        _ if expiry.is_some_and(|expiry| expiry <= now) => "expired",
        _ => "pending",
    }
}

fn user(catalog: &Catalog, record: &Record) -> Value {
    let id = record.id.to_string();
    let memberships = catalog.all(Kind::Member).filter(|found| found.slug.as_deref() == Some(id.as_str()));
    let workspaces: Vec<Value> = memberships.map(|found| json!(found.workspace)).collect();
    view(USER, record, json!({"workspace_ids": workspaces, "object": "user"}))
}
