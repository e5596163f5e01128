//! Virtual keys: the older form of providers, with the account in the same object.
//!
//! One of the three views of a stored provider: see [`super::credential`].

use super::call::Call;
use super::credential::{
    self, CONFIGURATIONS, EXPIRES, KEY, LimitedAs, NOTE, RATES, USAGE, has_role, integration_of, new_slug,
};
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::limits::RESET_USAGE;
use super::page::{self, Page};
use super::providers::{find, own_account, updated};
use super::records::{archived, member, members, put};
use super::reply::Reply;
use super::route::{Access, Route, Shape, delete, get, post, put as put_route};
use super::used::Used;
use memory::store::{Kind, Record};
use serde_json::{Value, json};
use std::sync::Arc;
use words::error::Error;
use words::settings::scopes::Scope;

const ANY_TEXT: Type = Type::Text(64 << 10);

/// The members of an account in camel case, as Portkey's clients send them, and what is common to all requests.
const ACCOUNT: [Field; 23] = [
    KEY,
    NOTE,
    CONFIGURATIONS,
    USAGE,
    RATES,
    EXPIRES,
    optional("apiVersion", ANY_TEXT, "Of Azure."),
    optional("resourceName", ANY_TEXT, "Of Azure."),
    optional("deploymentName", ANY_TEXT, "Of Azure."),
    optional(
        "deploymentConfig",
        Type::List(&Type::AnyObject, 0, 100),
        "Deployments of Azure: `{apiVersion, deploymentName, alias, is_default}`.",
    ),
    optional("azureAuthMode", ANY_TEXT, "Of Azure."),
    optional("azureEntraTenantId", ANY_TEXT, "Of Azure."),
    optional("azureEntraClientId", ANY_TEXT, "Of Azure."),
    optional("azureEntraClientSecret", ANY_TEXT, "Of Azure."),
    optional("awsAccessKeyId", ANY_TEXT, "Of Bedrock."),
    optional("awsSecretAccessKey", ANY_TEXT, "Of Bedrock."),
    optional("awsSessionToken", ANY_TEXT, "Of Bedrock."),
    optional("awsRegion", ANY_TEXT, "Of Bedrock."),
    optional("vertexProjectId", ANY_TEXT, "Of Vertex AI."),
    optional("vertexRegion", ANY_TEXT, "Of Vertex AI."),
    optional("vertexServiceAccountJson", Type::AnyOf(&[Type::AnyObject, ANY_TEXT]), "Of Vertex AI."),
    optional("workersAiAccountId", ANY_TEXT, "Of Workers AI."),
    optional("customHost", ANY_TEXT, "Base URL in place of the provider's own."),
];

const CREATE: &[Field] = &joined::<4, 27>([
    required("name", Type::Name(255), "For people; the slug begins with it."),
    required("provider", Type::Vendor, "The vendor: `openai`, `anthropic` … (docs/providers.md)."),
    optional("slug", Type::Slug(1, 128), "What `@slug` names; made of the name where absent."),
    optional("workspace_id", Type::Name(128), "Id or slug of the workspace."),
]);

const UPDATE: &[Field] = &joined::<2, 25>([not_null("name", Type::Name(255), "For people."), RESET_USAGE]);

/// These fields and those of an account.
#[allow(clippy::indexing_slicing, reason = "computed by the compiler, which refuses what is out of bounds")]
const fn joined<const OWN: usize, const ALL: usize>(own: [Field; OWN]) -> [Field; ALL] {
    let mut all = [own[0]; ALL];
    let mut index = 0;
    while index < ALL {
        all[index] = if index < OWN { own[index] } else { ACCOUNT[index - OWN] };
        index += 1;
    }
    all
}

const MADE: &[Field] = &[
    required("id", Type::Uuid, "The virtual key."),
    required("slug", Type::Text(128), "What `@slug` names."),
    required("object", Type::Text(20), "`virtual-key`."),
];

const ITEM: &[Field] = &[
    required("id", Type::Uuid, "The virtual key."),
    required("slug", Type::Text(128), "What `@slug` names."),
    required("name", Type::Text(255), "For people."),
    nullable("note", Type::Text(2048), "For people."),
    required("status", Type::OneOf(&["active", "expired", "exhausted"]), "Whether it can be used."),
    required("ai_provider_name", Type::Text(64), "The vendor."),
    required("model_config", Type::AnyObject, "What else the account has, without secrets."),
    required("key", Type::Text(0), "Empty: no credential ever comes back."),
    required("masked_api_key", Type::Text(64), "The key's first two and last three characters."),
    nullable("usage_limits", Type::AnyObject, "How much may be used."),
    nullable("rate_limits", Type::List(&Type::AnyObject, 0, 20), "How much may be used in a unit of time."),
    nullable("expires_at", Type::Time, "When it goes out of use."),
    nullable("last_reset_at", Type::Time, "When usage was counted anew."),
    nullable("integration_id", Type::Text(128), "Slug of the integration whose account it uses."),
    nullable("workspace_id", Type::Uuid, "Where it is used; null for every workspace."),
    nullable("tags", Type::Any, "Not used."),
    required("object", Type::Text(20), "`virtual-key`."),
];

pub(super) const ROUTES: &[Route] = &[
    post("/v1/virtual-keys", Access::Scope(&[Scope::VirtualKeysCreate]), "Stores a provider's key", |call| {
        Box::pin(create(call))
    })
    .body(CREATE)
    .replies(Shape::Data(MADE))
    .changes("virtual-keys", "create"),
    get("/v1/virtual-keys", Access::Scope(&[Scope::VirtualKeysList]), "Lists virtual keys", |call| {
        Box::pin(list(call))
    })
    .query(page::WORKSPACE_QUERY)
    .replies(Shape::List(ITEM)),
    get("/v1/virtual-keys/{slug}", Access::Scope(&[Scope::VirtualKeysRead]), "Reads a virtual key", |call| {
        Box::pin(read(call))
    })
    .query(page::IN_WORKSPACE)
    .replies(Shape::Object(ITEM)),
    put_route(
        "/v1/virtual-keys/{slug}",
        Access::Scope(&[Scope::VirtualKeysUpdate]),
        "Changes a virtual key",
        |call| Box::pin(update(call)),
    )
    .query(page::IN_WORKSPACE)
    .body(UPDATE)
    .replies(Shape::Data(MADE))
    .changes("virtual-keys", "update"),
    delete(
        "/v1/virtual-keys/{slug}",
        Access::Scope(&[Scope::VirtualKeysDelete]),
        "Removes a virtual key",
        |call| Box::pin(remove(call)),
    )
    .query(page::IN_WORKSPACE)
    .replies(Shape::Empty)
    .changes("virtual-keys", "delete"),
];

async fn create(mut call: Call) -> Result<Reply, Error> {
    let workspace = Some(call.new_workspace()?);
    let slug = new_slug(&call, workspace)?;
    let record = own_account(&call, workspace, slug)?;
    call.commit(vec![put(record.clone())]).await?;
    Ok(Reply::data(made(&record)))
}

async fn list(call: Call) -> Result<Reply, Error> {
    let mut found = call.list(Kind::Provider)?;
    found.retain(|record| has_role(record, "is_provider"));
    let page = Page::of(&call, 50);
    let mut shown = Vec::new();
    for record in page.part(&found) {
        shown.push(view(&call, record).await?);
    }
    Ok(page.reply_with(found.len(), shown))
}

async fn read(call: Call) -> Result<Reply, Error> {
    let record = find(&call)?;
    Ok(Reply::from(view(&call, &record).await?))
}

async fn update(mut call: Call) -> Result<Reply, Error> {
    let before = find(&call)?;
    let record = updated(&call, &before)?;
    call.commit(vec![put(record)]).await?;
    Ok(Reply::data(made(&before)))
}

async fn remove(mut call: Call) -> Result<Reply, Error> {
    let record = find(&call)?;
    call.check_owner(&record)?;
    call.commit(vec![put(archived(&record, call.now))]).await?;
    Ok(Reply::empty())
}

fn made(record: &Record) -> Value {
    json!({"id": record.id, "slug": record.slug, "object": "virtual-key"})
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
        "ai_provider_name": member(&account, "ai_provider"),
        "model_config": member(&account, "account"),
        "key": "",
        "masked_api_key": member(&account, "masked_key"),
        "usage_limits": used.shown(member(&body, "usage_limits")),
        "rate_limits": member(&body, "rate_limits"),
        "expires_at": member(&body, "expires_at"),
        "last_reset_at": used.last_reset(&body, record.created_at),
        "integration_id": integration.slug,
        "workspace_id": record.workspace,
        "tags": null,
        "object": "virtual-key",
    }))
}
