//! Providers: what `@slug` means in a workspace.
//!
//! One of the three views of a stored provider: see [`super::credential`]. A provider uses the account of an integration, or is
//! one itself. Those of the settings file are listed, and read-only.

use super::call::{Call, by_id_or_slug};
use super::credential::{
    self, AccountInput, CONFIGURATIONS, EXPIRES, KEY, LimitedAs, NOTE, RATES, USAGE, has_role,
    integration_of, new_slug, set_account, set_common,
};
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::limits::RESET_USAGE;
use super::page::{self, Page};
use super::records::{archived, changed, created, member, members, put, time};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use super::used::Used;
use memory::store::{Kind, Record};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
use words::error::Error;
use words::settings::StoredProvider;
use words::settings::scopes::Scope;

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    optional("integration_id", Type::Name(128), "Slug or id of the integration whose account it uses."),
    optional("provider", Type::Vendor, "The vendor, where it has an account of its own instead."),
    KEY,
    CONFIGURATIONS,
    optional("slug", Type::Slug(1, 128), "What `@slug` names; unique in the workspace."),
    NOTE,
    optional("workspace_id", Type::Name(128), "Id or slug of the workspace."),
    USAGE,
    RATES,
    EXPIRES,
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    NOTE,
    KEY,
    CONFIGURATIONS,
    USAGE,
    RATES,
    EXPIRES,
    RESET_USAGE,
];

const MADE: &[Field] =
    &[required("id", Type::Uuid, "The provider."), required("slug", Type::Text(128), "What `@slug` names.")];

const ITEM: &[Field] = &[
    nullable("id", Type::Uuid, "The provider; null for one of the settings."),
    required("slug", Type::Text(128), "What `@slug` names."),
    required("name", Type::Text(255), "For people."),
    nullable("note", Type::Text(2048), "For people."),
    required("status", Type::OneOf(&["active", "expired", "exhausted"]), "Whether it can be used."),
    required("provider", Type::Text(64), "The vendor."),
    nullable("integration_id", Type::Text(128), "Slug of the integration whose account it uses."),
    nullable("workspace_id", Type::Uuid, "Where it is used; null for every workspace."),
    required("masked_key", Type::Text(64), "The key's first two and last three characters."),
    nullable("usage_limits", Type::AnyObject, "How much may be used."),
    nullable(
        "rate_limits",
        Type::AnyOf(&[Type::List(&Type::AnyObject, 0, 20), Type::AnyObject]),
        "How much may be used in a unit of time: a list. In the list of providers a single one stands alone.",
    ),
    nullable("last_reset_at", Type::Time, "When its usage counted from 0 last."),
    nullable("expires_at", Type::Time, "When it goes out of use."),
    nullable("created_at", Type::Time, "When it was made."),
    nullable("last_updated_at", Type::Time, "When it was changed last."),
    required("origin", Type::OneOf(&["settings", "store"]), "`settings`: from the settings file, read-only."),
    required("object", Type::Text(20), "`provider`."),
];

pub(super) const ROUTES: &[Route] = &[
    post("/v1/providers", Access::Scope(&[Scope::ProvidersCreate]), "Stores a provider", |call| {
        Box::pin(create(call))
    })
    .body(CREATE)
    .replies(Shape::Object(MADE))
    .changes("providers", "create"),
    get("/v1/providers", Access::Scope(&[Scope::ProvidersList]), "Lists providers", |call| {
        Box::pin(list(call))
    })
    .query(page::WORKSPACE_QUERY)
    .replies(Shape::List(ITEM)),
    get("/v1/providers/{slug}", Access::Scope(&[Scope::ProvidersRead]), "Reads a provider", |call| {
        Box::pin(read(call))
    })
    .query(page::IN_WORKSPACE)
    .replies(Shape::Object(ITEM)),
    put_route(
        "/v1/providers/{slug}",
        Access::Scope(&[Scope::ProvidersUpdate]),
        "Changes a provider",
        |call| Box::pin(update(call)),
    )
    .query(page::IN_WORKSPACE)
    .body(UPDATE)
    .replies(Shape::Object(MADE))
    .changes("providers", "update"),
    delete(
        "/v1/providers/{slug}",
        Access::Scope(&[Scope::ProvidersDelete]),
        "Takes a provider out of use",
        |call| Box::pin(remove(call)),
    )
    .query(page::IN_WORKSPACE)
    .replies(Shape::Empty)
    .changes("providers", "delete"),
];

async fn create(mut call: Call) -> Result<Reply, Error> {
    let workspace = Some(call.new_workspace()?);
    let slug = new_slug(&call, workspace)?;
    let name = call.text("name").unwrap_or_default();
    let record = match call.text("integration_id") {
        Some(integration) => {
            let catalog = call.catalog()?;
            let found = by_id_or_slug(&catalog, Kind::Provider, workspace, integration);
            let found = found.filter(|found| has_role(found, "is_integration"));
            let Some(integration) = found else {
                return Err(Error::invalid_request(
                    "integration_id",
                    "There is no such integration in the workspace.",
                ));
            };
            let mut record = derived(&call, &integration, workspace, slug, name);
            let mut body = members(&record);
            set_common(&call, &mut body, LimitedAs::Provider)?;
            record.body = Value::Object(body).to_string().into();
            record
        }
        None => own_account(&call, workspace, slug)?,
    };
    call.commit(vec![put(record.clone())]).await?;
    Ok(Reply::from(json!({"id": record.id, "slug": record.slug})))
}

/// A provider with an account of its own: an integration and a provider in one.
pub(super) fn own_account(call: &Call, workspace: Option<Uuid>, slug: String) -> Result<Record, Error> {
    if call.text("provider").is_none() {
        return Err(Error::invalid_request("integration_id", "Send integration_id, or provider and key."));
    }
    let mut body = Map::from_iter([
        ("ai_provider".to_owned(), call.text("provider").into()),
        ("is_integration".to_owned(), true.into()),
        ("is_provider".to_owned(), true.into()),
    ]);
    set_common(call, &mut body, LimitedAs::Provider)?;
    let mut record = created(Kind::Provider, workspace, slug, &Value::Null, call.now);
    set_account(call, &mut record, &mut body, &AccountInput::read(call)?)?;
    record.body = Value::Object(body).to_string().into();
    Ok(record)
}

/// A provider that uses the account of an integration.
pub(super) fn derived(
    call: &Call,
    integration: &Record,
    workspace: Option<Uuid>,
    slug: String,
    name: &str,
) -> Record {
    let body = json!({"name": name, "is_provider": true, "is_integration": false});
    Record { parent: Some(integration.id), ..created(Kind::Provider, workspace, slug, &body, call.now) }
}

/// A member of the list.
enum Listed<'a> {
    Stored(&'a Arc<Record>),
    OfSettings((&'a String, &'a StoredProvider)),
}

async fn list(call: Call) -> Result<Reply, Error> {
    let mut found = call.list(Kind::Provider)?;
    found.retain(|record| has_role(record, "is_provider"));
    let settings = call.snapshot.settings.providers.iter();
    let all: Vec<Listed<'_>> =
        found.iter().map(Listed::Stored).chain(settings.map(Listed::OfSettings)).collect();
    let page = Page::of(&call, 50);
    let mut shown = Vec::new();
    for item in page.part(&all) {
        shown.push(match item {
            Listed::Stored(record) => listed(view(&call, record).await?),
            Listed::OfSettings((slug, stored)) => view_of_settings(slug, &stored.provider),
        });
    }
    Ok(page.reply_with(all.len(), shown))
}

/// A provider as a member of the list: Portkey's clients read an object there, and a list from the provider itself.
fn listed(mut item: Value) -> Value {
    if let Some(limits) = item.get_mut("rate_limits")
        && let Some([one]) = limits.as_array().map(Vec::as_slice)
    {
        *limits = one.clone();
    }
    item
}

async fn read(call: Call) -> Result<Reply, Error> {
    let named = call.named();
    if let Some(stored) = call.snapshot.settings.providers.get(named) {
        return Ok(Reply::from(view_of_settings(named, &stored.provider)));
    }
    let record = find(&call)?;
    Ok(Reply::from(view(&call, &record).await?))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = find(&call)?;
    let record = updated(&call, &before)?;
    call.commit(vec![put(record)]).await?;
    Ok(Reply::from(json!({"id": before.id, "slug": before.slug})))
}

/// The record after an update by the request's body.
pub(super) fn updated(call: &Call, before: &Record) -> Result<Record, Error> {
    call.check_owner(before)?;
    let mut body = members(before);
    set_common(call, &mut body, LimitedAs::Provider)?;
    let mut record = changed(before, &Value::Null, call.now);
    let input = AccountInput::read(call)?;
    if !input.is_empty() {
        if before.parent.is_some() {
            return Err(
                Error::conflict("The account is its integration's; change that one.").with_param("key")
            );
        }
        set_account(call, &mut record, &mut body, &input)?;
    }
    record.body = Value::Object(body).to_string().into();
    Ok(record)
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let record = find(&call)?;
    call.check_owner(&record)?;
    call.commit(vec![put(archived(&record, call.now))]).await?;
    Ok(Reply::empty())
}

/// The provider that the path names.
pub(super) fn find(call: &Call) -> Result<Arc<Record>, Error> {
    if call.snapshot.settings.providers.contains_key(call.named()) {
        return Err(Error::conflict("The provider is one of the settings file, and changed there."));
    }
    let record = call.find(Kind::Provider)?;
    if has_role(&record, "is_provider") {
        Ok(record)
    } else {
        Err(Error::not_found(format!("There is no provider {:?}.", call.named())))
    }
}

async fn view(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
    let body = members(record);
    let integration = integration_of(call, record)?;
    let account = members(&integration);
    let used = Used::of(call, record, LimitedAs::Provider.scope()).await;
    Ok(json!({
        "id": record.id,
        "slug": record.slug,
        "name": member(&body, "name"),
        "note": member(&body, "note"),
        "status": credential::status(&body, &used, call.now),
        "provider": member(&account, "ai_provider"),
        "integration_id": integration.slug,
        "workspace_id": record.workspace,
        "masked_key": member(&account, "masked_key"),
        "usage_limits": used.shown(member(&body, "usage_limits")),
        "rate_limits": member(&body, "rate_limits"),
        "last_reset_at": used.last_reset(&body, record.created_at),
        "expires_at": member(&body, "expires_at"),
        "created_at": time(record.created_at),
        "last_updated_at": time(record.updated_at),
        "origin": "store",
        "object": "provider",
    }))
}

fn view_of_settings(slug: &str, vendor: &str) -> Value {
    json!({
        "id": null, "slug": slug, "name": slug, "note": null, "status": "active", "provider": vendor,
        "integration_id": null, "workspace_id": null, "masked_key": "", "usage_limits": null, "rate_limits": null,
        "last_reset_at": null, "expires_at": null, "created_at": null, "last_updated_at": null, "origin": "settings", "object": "provider",
    })
}
