//! Integrations: a credential with a provider, of the organisation or of one workspace.
//!
//! One of the three views of a stored provider: see [`super::credential`]. By default an integration is a provider as well,
//! under the same slug.

mod models;
mod workspaces;

pub(super) use models::ROUTES as MODEL_ROUTES;
pub(super) use workspaces::ROUTES as WORKSPACE_ROUTES;

use super::call::Call;
use super::credential::{
    AccountInput, CONFIGURATIONS, KEY, LimitedAs, NOTE, RATES, USAGE, has_role, new_slug, set_account,
    set_common,
};
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::limits::RESET_USAGE;
use super::page::{self, Page};
use super::records::{archived, changed, created, member, members, overlay, put, time};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use super::used::Used;
use super::{ORGANISATION, providers};
use knowledge::price::OwnPrices;
use memory::store::{Kind, Record, Status};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use words::error::Error;
use words::settings::scopes::Scope;

const CREATE: &[Field] = &[
    required("name", Type::Name(255), "For people; the slug begins with it."),
    required("ai_provider_id", Type::Vendor, "The vendor: `openai`, `anthropic` … (docs/providers.md)."),
    KEY,
    optional("slug", Type::Slug(1, 128), "Its name, unique in the workspace."),
    optional("description", Type::Text(2048), "For people."),
    NOTE,
    optional(
        "workspace_id",
        Type::Name(128),
        "Id or slug; without one, keys of the organisation make it usable in every workspace.",
    ),
    optional("organisation_id", Type::Text(64), "Taken from the key."),
    CONFIGURATIONS,
    optional(
        "create_default_provider",
        Type::Flag,
        "Whether it can be used as `@slug` at once; true by default.",
    ),
    optional(
        "default_provider_slug",
        Type::Slug(1, 128),
        "The slug of that provider; the integration's where absent.",
    ),
    USAGE,
    RATES,
    ADJUSTMENTS,
];

const FACTOR: Type = Type::Number(0.0, 1e6);

/// Negotiated discounts and surcharges.
const ADJUSTMENTS: Field = optional(
    "pricing_adjustments",
    Type::Object(&[optional(
        "multiplier",
        Type::Object(&[
            optional("default", FACTOR, "For all that has no factor of its own."),
            optional("request_token", FACTOR, "Tokens of requests."),
            optional("response_token", FACTOR, "Tokens of responses."),
            optional("cache_read_input_token", FACTOR, "Tokens read from the provider's cache."),
            optional("cache_write_input_token", FACTOR, "Tokens written to the provider's cache."),
            optional("reasoning_token", FACTOR, "Tokens of reasoning."),
            optional("request_audio_token", FACTOR, "Tokens of audio in requests."),
            optional("response_audio_token", FACTOR, "Tokens of audio in responses."),
            optional(
                "image",
                Type::Map(&FACTOR, 64),
                "Images, by quality and size; `default` for all others.",
            ),
            optional("additional_units", Type::Map(&FACTOR, 64), "What else is counted."),
        ]),
        "Factors on the prices of all: 0.8 is 20 % off.",
    )]),
    "Negotiated prices. Fixed prices of a model (`pricing_config`) are not changed by them. Null: none.",
);

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    KEY,
    optional("description", Type::Text(2048), "For people."),
    NOTE,
    CONFIGURATIONS,
    USAGE,
    RATES,
    RESET_USAGE,
    ADJUSTMENTS,
];

const MADE: &[Field] =
    &[required("id", Type::Uuid, "The integration."), required("slug", Type::Text(128), "Its name.")];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The integration."),
    required("slug", Type::Text(128), "Its name."),
    required("organisation_id", Type::Uuid, "The organisation."),
    required("ai_provider_id", Type::Text(64), "The vendor."),
    required("name", Type::Text(255), "For people."),
    required("status", Type::OneOf(&["active", "exhausted"]), "Whether it can be used."),
    nullable("description", Type::Text(2048), "For people."),
    required("created_at", Type::Time, "When it was made."),
    required("last_updated_at", Type::Time, "When it was changed last."),
    nullable("workspace_id", Type::Uuid, "Where it is used; null for every workspace."),
    required("type", Type::OneOf(&["organisation", "workspace"]), "Where it is used."),
    nullable("usage_limits", Type::AnyObject, "How much all its providers together may be used."),
    required(
        "rate_limits",
        Type::List(&Type::AnyObject, 0, 20),
        "How much all its providers together may be used in a unit of time.",
    ),
    nullable("last_reset_at", Type::Time, "When its usage counted from 0 last."),
    required("masked_key", Type::Text(64), "The key's first two and last three characters."),
    required("configurations", Type::AnyObject, "What else the account has, secrets masked."),
    nullable("pricing_adjustments", Type::AnyObject, "Negotiated prices."),
    required("allow_all_models", Type::Flag, "Whether models that are not listed may be used."),
    required(
        "workspace_count",
        Type::Integer(0, i64::MAX),
        "Workspaces with an entry that lets them use it.",
    ),
    nullable(
        "global_workspace_access_settings",
        Type::AnyObject,
        "What holds for workspaces without an entry; null for an integration of one workspace.",
    ),
    required("object", Type::Text(20), "`integration`."),
];

const CREATES: Access =
    Access::Scope(&[Scope::OrganisationIntegrationsCreate, Scope::WorkspaceIntegrationsCreate]);
const LISTS: Access = Access::Scope(&[Scope::OrganisationIntegrationsList, Scope::WorkspaceIntegrationsList]);
const READS: Access = Access::Scope(&[Scope::OrganisationIntegrationsRead, Scope::WorkspaceIntegrationsRead]);
const UPDATES: Access =
    Access::Scope(&[Scope::OrganisationIntegrationsUpdate, Scope::WorkspaceIntegrationsUpdate]);
const DELETES: Access =
    Access::Scope(&[Scope::OrganisationIntegrationsDelete, Scope::WorkspaceIntegrationsDelete]);

pub(super) const ROUTES: &[Route] = &[
    post("/v1/integrations", CREATES, "Stores a provider's credential", |call| Box::pin(create(call)))
        .body(CREATE)
        .replies(Shape::Object(MADE))
        .changes("integrations", "create"),
    get("/v1/integrations", LISTS, "Lists integrations", |call| Box::pin(list(call)))
        .query(page::WORKSPACE_QUERY)
        .replies(Shape::List(ITEM)),
    get("/v1/integrations/{slug}", READS, "Reads an integration", |call| Box::pin(read(call)))
        .query(page::IN_WORKSPACE)
        .replies(Shape::Object(ITEM)),
    put_route("/v1/integrations/{slug}", UPDATES, "Changes an integration", |call| Box::pin(update(call)))
        .query(page::IN_WORKSPACE)
        .body(UPDATE)
        .replies(Shape::Empty)
        .changes("integrations", "update"),
    delete("/v1/integrations/{slug}", DELETES, "Removes an integration", |call| Box::pin(remove(call)))
        .query(page::IN_WORKSPACE)
        .replies(Shape::Empty)
        .changes("integrations", "delete"),
];

async fn create(mut call: Call) -> Result<Reply, Error> {
    let vendor = call.text("ai_provider_id").unwrap_or_default();
    let is_bound = call.identity.is_bound;
    let workspace =
        if call.text("workspace_id").is_some() || is_bound { Some(call.new_workspace()?) } else { None };
    let slug = new_slug(&call, workspace)?;
    let name = call.text("name").unwrap_or_default();
    let wants_provider = call.flag("create_default_provider") != Some(false);
    let provider_slug = call.text("default_provider_slug").filter(|_| wants_provider).map(str::to_owned);
    let is_provider = wants_provider && provider_slug.as_ref().is_none_or(|given| *given == slug);
    let mut body = Map::from_iter([
        ("ai_provider".to_owned(), vendor.into()),
        ("is_integration".to_owned(), true.into()),
        ("is_provider".to_owned(), is_provider.into()),
    ]);
    set_common(&call, &mut body, LimitedAs::Integration)?;
    set_adjustments(&call, &mut body)?;
    let mut record = created(Kind::Provider, workspace, slug, &Value::Null, call.now);
    set_account(&call, &mut record, &mut body, &AccountInput::read(&call)?)?;
    record.body = Value::Object(body).to_string().into();
    let mut changes = vec![put(record.clone())];
    if let Some(provider_slug) = provider_slug.filter(|_| !is_provider) {
        call.check_free_slug(Kind::Provider, "default_provider_slug", &provider_slug)?;
        changes.push(put(providers::derived(&call, &record, workspace, provider_slug, name)));
    }
    call.commit(changes).await?;
    Ok(Reply::from(json!({"id": record.id, "slug": record.slug})))
}

/// # Errors
/// 400 for factors that no price can have.
fn set_adjustments(call: &Call, body: &mut Map<String, Value>) -> Result<(), Error> {
    if !call.body.get("pricing_adjustments").is_none_or(OwnPrices::reads_adjustments) {
        return Err(Error::invalid_request(
            "pricing_adjustments.multiplier",
            "Factors are numbers from 0 to 1000000, and default is above 0. A model that costs nothing has prices of 0 in its \
             pricing_config.",
        ));
    }
    overlay(body, &call.body, &["pricing_adjustments"]);
    Ok(())
}

async fn list(call: Call) -> Result<Reply, Error> {
    let mut found = call.list(Kind::Provider)?;
    found.retain(|record| has_role(record, "is_integration"));
    let page = Page::of(&call, 100);
    let mut shown = Vec::new();
    for record in page.part(&found) {
        shown.push(view(&call, record).await);
    }
    Ok(page.reply_with(found.len(), shown))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let record = find(&call)?;
    Ok(Reply::from(view(&call, &record).await))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = find(&call)?;
    call.check_owner(&before)?;
    let mut body = members(&before);
    set_common(&call, &mut body, LimitedAs::Integration)?;
    set_adjustments(&call, &mut body)?;
    let mut record = changed(&before, &Value::Null, call.now);
    let input = AccountInput::read(&call)?;
    if !input.is_empty() {
        set_account(&call, &mut record, &mut body, &input)?;
    }
    record.body = Value::Object(body).to_string().into();
    call.commit(vec![put(record)]).await?;
    Ok(Reply::empty())
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let record = find(&call)?;
    call.check_owner(&record)?;
    let catalog = call.catalog()?;
    let mut changes = vec![put(archived(&record, call.now))];
    let derived =
        catalog.children(Kind::Provider, record.id).filter(|record| record.status == Status::Active);
    changes.extend(derived.map(|record| put(archived(record, call.now))));
    call.commit(changes).await?;
    Ok(Reply::empty())
}

fn find(call: &Call) -> Result<Arc<Record>, Error> {
    let record = call.find(Kind::Provider)?;
    if has_role(&record, "is_integration") {
        Ok(record)
    } else {
        Err(Error::not_found(format!("There is no integration {:?}.", call.named())))
    }
}

async fn view(call: &Call, record: &Record) -> Value {
    let body = members(record);
    let used = Used::of(call, record, LimitedAs::Integration.scope()).await;
    let own = |name: &str| format!("{}{name}", LimitedAs::Integration.prefix());
    let description = match member(&body, "description") {
        Value::Null => member(&body, "note"),
        text => text,
    };
    let is_enabled = |entry: &&Value| entry.get("enabled").and_then(Value::as_bool) == Some(true);
    let enabled = workspaces::entries(&body).iter().filter(is_enabled).count();
    json!({
        "id": record.id,
        "slug": record.slug,
        "organisation_id": ORGANISATION,
        "ai_provider_id": member(&body, "ai_provider"),
        "name": member(&body, "name"),
        "status": used.status(),
        "description": description,
        "created_at": time(record.created_at),
        "last_updated_at": time(record.updated_at),
        "workspace_id": record.workspace,
        "type": if record.workspace.is_some() { "workspace" } else { "organisation" },
        "usage_limits": used.shown(member(&body, &own("usage_limits"))),
        "rate_limits": body.get(&own("rate_limits")).cloned().unwrap_or_else(|| json!([])),
        "last_reset_at": used.last_reset(&body, record.created_at),
        "masked_key": member(&body, "masked_key"),
        "configurations": member(&body, "account"),
        "pricing_adjustments": member(&body, "pricing_adjustments"),
        "allow_all_models": models::allows_others(&body),
        "workspace_count": enabled,
        "global_workspace_access_settings": record.workspace.is_none().then(|| workspaces::global(&body)),
        "object": "integration",
    })
}
