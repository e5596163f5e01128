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
    AccountInput, CONFIGURATIONS, KEY, LimitedAs, NOTE, RATES, USAGE, has_role, items_with_role, set_account,
    set_common,
};
use super::declared::Managed;
use super::field::{Field, Type, not_null, nullable, optional, required};
use super::limit_owner;
use super::limits::RESET_USAGE;
use super::origin::{ORIGIN, SET};
use super::page;
use super::providers;
use super::records::{archived, member, members, overlay, put, set};
use super::resource::{Draft, Item, Resource, create, delete, list, read, update, view};
use super::route::{Route, Shape};
use super::used::Used;
use knowledge::price::OwnPrices;
use memory::store::{Change, Kind, Record, Status};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;
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
    ORIGIN,
    SET,
    required("object", Type::Text(20), "`integration`."),
];

const READS: &[Scope] = &[Scope::OrganisationIntegrationsRead, Scope::WorkspaceIntegrationsRead];
const UPDATES: &[Scope] = &[Scope::OrganisationIntegrationsUpdate, Scope::WorkspaceIntegrationsUpdate];

const LIST: &[Field] = &[
    page::WORKSPACE,
    optional(
        "type",
        Type::OneOf(&["all", "organisation", "workspace"]),
        "`organisation`: only those of the organisation; `workspace`: only those of a workspace.",
    ),
];

pub(super) const ROUTES: &[Route] = &[
    create::<Integration>(
        &[Scope::OrganisationIntegrationsCreate, Scope::WorkspaceIntegrationsCreate],
        "Stores a provider's credential",
        CREATE,
        Shape::Object(MADE),
    ),
    list::<Integration>(
        &[Scope::OrganisationIntegrationsList, Scope::WorkspaceIntegrationsList],
        "Lists integrations",
        LIST,
        ITEM,
    ),
    read::<Integration>(READS, "Reads an integration", ITEM).query(page::IN_WORKSPACE),
    update::<Integration>(UPDATES, "Changes an integration", UPDATE, Shape::Empty).query(page::IN_WORKSPACE),
    delete::<Integration>(
        &[Scope::OrganisationIntegrationsDelete, Scope::WorkspaceIntegrationsDelete],
        "Removes an integration",
    )
    .query(page::IN_WORKSPACE),
];

/// As files have it.
pub(super) const MANAGED: Managed = Managed::of::<Integration>("integrations");

struct Integration;

impl Resource for Integration {
    const KIND: Kind = Kind::Provider;
    const NAME: &'static str = "integrations";
    const PATHS: [&'static str; 2] = ["/v1/integrations", "/v1/integrations/{slug}"];
    const PAGE_SIZE: usize = 100;

    /// Without a name, of the organisation, where the client may make such.
    fn workspace(call: &Call) -> Result<Option<Uuid>, Error> {
        let is_of_one = call.text("workspace_id").is_some() || call.identity.is_bound;
        if is_of_one { call.new_workspace().map(Some) } else { Ok(None) }
    }

    fn fill(call: &Call, Draft { before, record, body }: &mut Draft<'_>) -> Result<(), Error> {
        if before.is_none() {
            let slug = default_provider_slug(call);
            let is_provider =
                wants_provider(call) && slug.is_none_or(|slug| record.slug.as_deref() == Some(slug));
            set(body, "ai_provider", call.text("ai_provider_id"));
            set(body, "is_integration", true);
            set(body, "is_provider", is_provider);
        }
        set_common(call, body, LimitedAs::Integration)?;
        set_adjustments(call, body)?;
        let input = AccountInput::read(call)?;
        if before.is_none() || !input.is_empty() {
            set_account(call, record, body, &input)?;
        }
        Ok(())
    }

    /// The provider under another slug, where a new integration shall have one.
    fn more_changes(call: &Call, before: Option<&Record>, record: &Record) -> Result<Vec<Change>, Error> {
        let slug = default_provider_slug(call).filter(|_| before.is_none());
        let Some(slug) = slug.filter(|_| !has_role(record, "is_provider")) else { return Ok(Vec::new()) };
        call.check_free_slug(Kind::Provider, "default_provider_slug", slug)?;
        let name = call.text("name").unwrap_or_default();
        Ok(vec![put(providers::derived(call, record, record.workspace, slug.to_owned(), name))])
    }

    fn items(call: &Call) -> Result<Vec<Item>, Error> {
        let mut items = items_with_role(call, "is_integration")?;
        let is_wanted = |workspace: Option<Uuid>| match call.query_text("type") {
            Some("organisation") => workspace.is_none(),
            Some("workspace") => workspace.is_some(),
            _ => true,
        };
        items.retain(|item| matches!(item, Item::Stored(record) if is_wanted(record.workspace)));
        Ok(items)
    }

    fn find(call: &Call) -> Result<Arc<Record>, Error> {
        let record = call.find(Self::KIND)?;
        if has_role(&record, "is_integration") {
            Ok(record)
        } else {
            Err(Error::not_found(format!("There is no integration {:?}.", call.named())))
        }
    }

    async fn shown(call: &Call, record: &Arc<Record>) -> Result<Value, Error> {
        let body = members(record);
        let used = Used::of(call, record, LimitedAs::Integration.scope()).await;
        let limits = |name: &str| member(&body, &format!("{}{name}", LimitedAs::Integration.prefix()));
        let or = |value: Value, other: Value| if value.is_null() { other } else { value };
        let is_enabled = |entry: &&Value| entry.get("enabled").and_then(Value::as_bool) == Some(true);
        let own = json!({
            "ai_provider_id": member(&body, "ai_provider"),
            "status": used.status(),
            "description": or(member(&body, "description"), member(&body, "note")),
            "type": if record.workspace.is_some() { "workspace" } else { "organisation" },
            "usage_limits": used.shown(limits("usage_limits")),
            "rate_limits": or(limits("rate_limits"), json!([])),
            "last_reset_at": used.last_reset(&body, record.created_at),
            "configurations": member(&body, "account"),
            "allow_all_models": models::allows_others(&body),
            "workspace_count": workspaces::entries(&body).iter().filter(is_enabled).count(),
            "global_workspace_access_settings": record.workspace.is_none().then(|| workspaces::global(&body)),
            "object": "integration",
        });
        Ok(view(ITEM, record, own))
    }

    /// With the providers that use it.
    fn removal(call: &Call, record: &Record) -> Result<Vec<Change>, Error> {
        let catalog = call.catalog()?;
        let derived = catalog.children(Self::KIND, record.id);
        let derived: Vec<&Record> =
            derived.filter(|record| record.status == Status::Active).map(|record| &**record).collect();
        for provider in &derived {
            limit_owner::check_removal(call, provider)?;
        }
        Ok([record].into_iter().chain(derived).map(|record| put(archived(record, call.now))).collect())
    }
}

/// Whether a new integration shall be usable at once.
fn wants_provider(call: &Call) -> bool {
    call.flag("create_default_provider") != Some(false)
}

/// The slug under which it shall be usable.
fn default_provider_slug(call: &Call) -> Option<&str> {
    call.text("default_provider_slug").filter(|_| wants_provider(call))
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
