//! Providers: what `@slug` means in a workspace.
//!
//! One of the three views of a stored provider: see [`super::credential`]. A provider uses the account of an integration, or is
//! one itself. Those of the settings file are listed, and read-only.

use super::call::{Call, by_id_or_slug};
use super::credential::{
    self, ALLOWED_MODELS, AccountInput, CONFIGURATIONS, EXPIRES, KEY, LimitedAs, NOTE, RATES, USAGE,
    has_role, integration_of, items_with_role, set_account, set_common,
};
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::limits::RESET_USAGE;
use super::origin::{ORIGIN, SET};
use super::page;
use super::records::{created, member, members, set};
use super::resource::{Changed, Draft, Item, Resource, create, delete, list, read, update, view};
use super::route::{Route, Shape};
use super::used::Used;
use memory::store::{Kind, Record};
use serde_json::{Value, json};
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
    ALLOWED_MODELS,
];

const UPDATE: &[Field] = &[
    not_null("name", Type::Name(255), "For people."),
    NOTE,
    KEY,
    CONFIGURATIONS,
    USAGE,
    RATES,
    EXPIRES,
    ALLOWED_MODELS,
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
    nullable(
        "allowed_models",
        Type::List(&Type::Text(256), 0, 500),
        "The models that may be used; null: all.",
    ),
    nullable("expires_at", Type::Time, "When it goes out of use."),
    nullable("created_at", Type::Time, "When it was made."),
    nullable("last_updated_at", Type::Time, "When it was changed last."),
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`provider`."),
];

pub(super) const ROUTES: &[Route] = &[
    create::<Provider>(&[Scope::ProvidersCreate], "Stores a provider", CREATE, Shape::Object(MADE)),
    list::<Provider>(&[Scope::ProvidersList], "Lists providers", page::WORKSPACE_QUERY, ITEM),
    read::<Provider>(&[Scope::ProvidersRead], "Reads a provider", ITEM).query(page::IN_WORKSPACE),
    update::<Provider>(&[Scope::ProvidersUpdate], "Changes a provider", UPDATE, Shape::Object(MADE))
        .query(page::IN_WORKSPACE),
    delete::<Provider>(&[Scope::ProvidersDelete], "Takes a provider out of use").query(page::IN_WORKSPACE),
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<Provider>("providers");

pub(super) struct Provider;

impl Resource for Provider {
    const KIND: Kind = Kind::Provider;
    const NAME: &'static str = "providers";
    const PATHS: [&'static str; 2] = ["/v1/providers", "/v1/providers/{slug}"];
    const CHANGED: Changed = Changed::Made;

    /// One with an account of its own is an integration and a provider in one.
    fn fill(call: &Call, Draft { before, record, body }: &mut Draft<'_>) -> Result<(), Error> {
        if before.is_none() {
            let integration = match (call.text("integration_id"), call.text("provider")) {
                (Some(named), _) => Some(integration(call, record.workspace, named)?),
                (None, Some(vendor)) => {
                    set(body, "ai_provider", vendor);
                    None
                }
                (None, None) => {
                    let message = "Send integration_id, or provider and key.";
                    return Err(Error::invalid_request("integration_id", message));
                }
            };
            set(body, "is_integration", integration.is_none());
            set(body, "is_provider", true);
            record.parent = integration.map(|integration| integration.id);
        }
        set_common(call, body, LimitedAs::Provider)?;
        if before.is_none() && record.parent.is_some() {
            return Ok(());
        }
        let input = AccountInput::read(call)?;
        if before.is_none() || !input.is_empty() {
            if record.parent.is_some() {
                return Err(
                    Error::conflict("The account is its integration's; change that one.").with_param("key")
                );
            }
            set_account(call, record, body, &input)?;
        }
        Ok(())
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let settings = call.snapshot.settings.providers.iter();
        let mut items = items_with_role(call, "is_provider")?;
        items.extend(settings.map(|(slug, stored)| Item::Unstored(view_of_settings(slug, stored))));
        Ok(items)
    }

    fn unstored(call: &Call) -> Result<Option<Value>, Error> {
        let stored = call.snapshot.settings.providers.get(call.named());
        Ok(stored.map(|stored| view_of_settings(call.named(), stored)))
    }

    /// # Errors
    /// 409 for a provider of the settings.
    fn find(call: &Call) -> Result<Arc<Record>, Error> {
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

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let body = members(record);
        let integration = integration_of(call, record)?;
        let account = members(&integration);
        let used = Used::of(call, record, LimitedAs::Provider.scope()).await;
        let own = json!({
            "status": credential::status(&body, &used, call.now),
            "provider": member(&account, "ai_provider"),
            "integration_id": integration.slug,
            "masked_key": member(&account, "masked_key"),
            "usage_limits": used.shown(member(&body, "usage_limits")),
            "last_reset_at": used.last_reset(&body, record.created_at),
            "object": "provider",
        });
        Ok(view(ITEM, record, own))
    }

    /// Portkey's clients read an object as `rate_limits` of a list's items, and a list from the provider itself.
    async fn listed(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let mut item = Self::shown(call, record).await?;
        if let Some(limits) = item.get_mut("rate_limits")
            && let Some([one]) = limits.as_array().map(Vec::as_slice)
        {
            *limits = one.clone();
        }
        Ok(item)
    }
}

/// The integration that a request names for a provider of the workspace.
fn integration(call: &Call, workspace: Option<Uuid>, named: &str) -> Result<Arc<Record>, Error> {
    let found = by_id_or_slug(&*call.catalog()?, Kind::Provider, workspace, named);
    found.filter(|found| has_role(found, "is_integration")).ok_or_else(|| {
        Error::invalid_request("integration_id", "There is no such integration in the workspace.")
    })
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

fn view_of_settings(slug: &str, stored: &StoredProvider) -> Value {
    let allowed = stored.allowed.as_ref().map(|allowed| allowed.names().collect::<Vec<_>>());
    json!({
        "id": null, "slug": slug, "name": slug, "note": null, "status": "active", "provider": stored.provider,
        "allowed_models": allowed,
        "integration_id": null, "workspace_id": null, "masked_key": "", "usage_limits": null, "rate_limits": null,
        "last_reset_at": null, "expires_at": null, "created_at": null, "last_updated_at": null, "origin": "settings", "object": "provider",
    })
}
