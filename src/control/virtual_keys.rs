//! Virtual keys: the older form of providers, with the account in the same object.
//!
//! One of the three views of a stored provider: see [`super::credential`].

use super::call::Call;
use super::credential::{
    self, ALLOWED_MODELS, CONFIGURATIONS, EXPIRES, KEY, LimitedAs, NOTE, RATES, USAGE, integration_of,
    items_with_role,
};
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::limits::RESET_USAGE;
use super::origin::{ORIGIN, SET};
use super::page;
use super::providers::Provider;
use super::records::{member, members};
use super::reply::Reply;
use super::resource::{Changed, Draft, Item, Resource, create, delete, list, read, update, view};
use super::route::{Route, Shape};
use super::used::Used;
use memory::store::{Kind, Record};
use serde_json::{Value, json};
use std::sync::Arc;
use words::error::Error;
use words::settings::scopes::Scope;
use words::tables::concat;

const ANY_TEXT: Type = Type::Text(64 << 10);

/// The members of an account in camel case, as Portkey's clients send them, and what is common to all requests.
const ACCOUNT: [Field; 24] = [
    KEY,
    NOTE,
    CONFIGURATIONS,
    USAGE,
    RATES,
    EXPIRES,
    ALLOWED_MODELS,
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

const CREATE: &[Field] = &concat::<_, 28>(
    &[
        required("name", Type::Name(255), "For people; the slug begins with it."),
        required("provider", Type::Vendor, "The vendor: `openai`, `anthropic` … (docs/providers.md)."),
        optional("slug", Type::Slug(1, 128), "What `@slug` names; made of the name where absent."),
        optional("workspace_id", Type::Name(128), "Id or slug of the workspace."),
    ],
    &ACCOUNT,
);

const UPDATE: &[Field] =
    &concat::<_, 26>(&[not_null("name", Type::Name(255), "For people."), RESET_USAGE], &ACCOUNT);

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
    nullable(
        "allowed_models",
        Type::List(&Type::Text(256), 0, 500),
        "The models that may be used; null: all.",
    ),
    nullable("expires_at", Type::Time, "When it goes out of use."),
    nullable("last_reset_at", Type::Time, "When usage was counted anew."),
    nullable("integration_id", Type::Text(128), "Slug of the integration whose account it uses."),
    nullable("workspace_id", Type::Uuid, "Where it is used; null for every workspace."),
    nullable("tags", Type::Any, "Not used."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`virtual-key`."),
];

pub(super) const ROUTES: &[Route] = &[
    create::<VirtualKey>(&[Scope::VirtualKeysCreate], "Stores a provider's key", CREATE, Shape::Data(MADE)),
    list::<VirtualKey>(&[Scope::VirtualKeysList], "Lists virtual keys", page::WORKSPACE_QUERY, ITEM),
    read::<VirtualKey>(&[Scope::VirtualKeysRead], "Reads a virtual key", ITEM).query(page::IN_WORKSPACE),
    update::<VirtualKey>(&[Scope::VirtualKeysUpdate], "Changes a virtual key", UPDATE, Shape::Data(MADE))
        .query(page::IN_WORKSPACE),
    delete::<VirtualKey>(&[Scope::VirtualKeysDelete], "Removes a virtual key").query(page::IN_WORKSPACE),
];

struct VirtualKey;

impl Resource for VirtualKey {
    const KIND: Kind = Kind::Provider;
    const NAME: &'static str = "virtual-keys";
    const PATHS: [&'static str; 2] = ["/v1/virtual-keys", "/v1/virtual-keys/{slug}"];
    const CHANGED: Changed = Changed::Made;

    fn fill(call: &Call, draft: &mut Draft<'_>) -> Result<(), Error> {
        Provider::fill(call, draft)
    }

    fn made(record: &Record) -> Reply {
        Reply::data(json!({"id": record.id, "slug": record.slug, "object": "virtual-key"}))
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        items_with_role(call, "is_provider")
    }

    fn find(call: &Call) -> Result<Arc<Record>, Error> {
        Provider::find(call)
    }

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let body = members(record);
        let integration = integration_of(call, record)?;
        let account = members(&integration);
        let used = Used::of(call, record, LimitedAs::Provider.scope()).await;
        let own = json!({
            "status": credential::status(&body, &used, call.now),
            "ai_provider_name": member(&account, "ai_provider"),
            "model_config": member(&account, "account"),
            "key": "",
            "masked_api_key": member(&account, "masked_key"),
            "usage_limits": used.shown(member(&body, "usage_limits")),
            "last_reset_at": used.last_reset(&body, record.created_at),
            "integration_id": integration.slug,
            "object": "virtual-key",
        });
        Ok(view(ITEM, record, own))
    }
}
