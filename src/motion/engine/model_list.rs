//! Makes the gateway's own list of models: asks every stored provider for its list, all at once, and keeps the results.
//!
//! Each question is a request of the gateway's own (`own_request`). Does not send the response (`proxy::models`).

use super::Engine;
use super::own_request::{OwnError, OwnRequest, Payer};
use super::request_context::RequestContext;
use futures_util::future::join_all;
use jiff::Timestamp;
use judgment::route::model_names::{is_allowed, is_for_client};
use judgment::route::provider_ref::split_slug;
use knowledge::price::{OwnPrices, PriceBook};
use memory::auth::ClientIdentity;
use memory::state::directory::Directory;
use memory::state::model_lists::{Fetched, ModelLists};
use memory::state::snapshot::SettingsSnapshot;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::chat::ProviderError;
use words::api::error_names::ErrorNames;
use words::api::model_facts::ModelFacts;
use words::api::model_list::{self, ListedModel, ProviderModel};
use words::config::Config;
use words::settings::{ModelEntry, ModelRoute, StoredProvider};

/// How long a provider may take for its list: clients such as Claude Code give up after three seconds.
const DEADLINE: Duration = Duration::from_secs(2);
/// The largest list that is read, bytes.
const MAX_LIST: usize = 16 << 20;

/// The gateway's list of models.
#[derive(Debug, Default)]
pub struct GatewayModels {
    pub models: Vec<ListedModel>,
    /// The providers that gave no list, and why.
    pub warnings: Vec<String>,
}

/// The names that work as `model` for the client: those of `models`, the models of every stored provider, and the saved configs that name
/// their models. `only`: of one stored provider.
pub async fn gateway_models(engine: &Arc<Engine>, ctx: &RequestContext, only: Option<&str>) -> GatewayModels {
    let directory = ctx.snapshot.directory(ctx.workspace());
    let client = ctx.record.client.clone().unwrap_or_else(|| ctx.snapshot.service_keys.anonymous());
    let is_wanted = |slug: &str| only.is_none_or(|only| only == slug);
    let wanted: Vec<(&str, &StoredProvider)> =
        directory.providers().filter(|(slug, _)| is_wanted(slug)).collect();
    let lists =
        join_all(wanted.iter().map(|(slug, stored)| provider_models(engine, ctx, slug, stored))).await;
    let mut found = GatewayModels::default();
    let mut listed = Vec::new();
    for ((slug, stored), list) in wanted.into_iter().zip(lists) {
        match list {
            Ok(models) => listed.push(ListedProvider { slug, stored, models }),
            Err(why) => found.warnings.push(format!("@{slug}: not listed, {why}")),
        }
    }
    if only.is_none() {
        found.models = Names {
            directory,
            snapshot: &ctx.snapshot,
            client: &client,
            listed: &listed,
            book: &engine.shared.prices.load(),
        }
        .all();
    }
    for ListedProvider { slug, stored, models } in &listed {
        let is_usable = |model: &&ProviderModel| {
            stored.allows(&model.id)
                && is_allowed(&client, &format!("@{slug}/{}", model.id), Some(slug), Some(&model.id))
        };
        let models = models.iter().filter(is_usable);
        found.models.extend(models.map(|model| ListedModel::of_provider(model, slug, &stored.provider)));
    }
    if only.is_none() {
        let is_callable = |id: &&str| directory.provider(id).is_none();
        let named = directory.configs().filter(|(_, config)| names_models(config, false));
        let named = named.map(|(id, _)| id).filter(is_callable).map(ListedModel::of_config);
        found.models.extend(named.filter(|model| is_allowed(&client, &model.id, None, None)));
    }
    found
}

/// A stored provider and the models that it lists.
struct ListedProvider<'a> {
    slug: &'a str,
    stored: &'a StoredProvider,
    models: Arc<[ProviderModel]>,
}

/// The names of `models` that a client may use.
struct Names<'a> {
    directory: Directory<'a>,
    snapshot: &'a SettingsSnapshot,
    client: &'a ClientIdentity,
    listed: &'a [ListedProvider<'a>],
    book: &'a PriceBook,
}

impl Names<'_> {
    /// Each with what it stands for. A pattern stands for what its provider lists; one of a config for nothing that could be listed.
    fn all(&self) -> Vec<ListedModel> {
        let entries = self.directory.models();
        let entries = entries.filter(|entry| is_for_client(entry, self.snapshot, self.client));
        let mut found: Vec<ListedModel> = Vec::new();
        for entry in entries {
            match &entry.route {
                ModelRoute::Provider(slug) => self.of_provider(entry, slug, &mut found),
                ModelRoute::Saved(_) | ModelRoute::Inline(_) => {
                    let name = entry.name.as_str();
                    if entry.name.is_exact()
                        && self.means(name, entry)
                        && is_allowed(self.client, name, None, None)
                    {
                        found.push(ListedModel::of_config(name).named(name));
                    }
                }
            }
        }
        found
    }

    /// Whether a request with this name means the entry: another one may come first.
    fn means(&self, name: &str, entry: &Arc<ModelEntry>) -> bool {
        self.directory.model(name).is_some_and(|(meant, _)| Arc::ptr_eq(meant, entry))
    }

    fn of_provider(&self, entry: &Arc<ModelEntry>, slug: &str, found: &mut Vec<ListedModel>) {
        let Some((stored, _)) = self.directory.provider(slug) else { return };
        let list = self.listed.iter().find(|listed| listed.slug == slug);
        let mut models = list.into_iter().flat_map(|listed| listed.models.iter());
        let mut add = |name: &str, model: &ProviderModel| {
            let is_usable = stored.allows(&model.id) && self.means(name, entry);
            if is_usable && is_allowed(self.client, name, Some(slug), Some(&model.id)) {
                found.push(ListedModel::of_provider(model, slug, &stored.provider).named(name));
            }
        };
        if entry.name.is_exact() {
            let name = entry.name.as_str();
            let id = entry.model_for(name);
            let own = self.directory.own_prices(slug).map(|own| &**own);
            let unlisted = || {
                let model = ProviderModel { id: id.as_str().into(), created: 0, facts: None };
                described(self.book, &stored.provider, own, model)
            };
            let model = models.find(|model| *model.id == *id).cloned().unwrap_or_else(unlisted);
            return add(name, &model);
        }
        for model in models {
            if let Some(name) = entry.name_of(&model.id) {
                add(&name, model);
            }
        }
    }
}

/// The models of one stored provider: kept, or asked for now.
async fn provider_models(
    engine: &Arc<Engine>,
    ctx: &RequestContext,
    slug: &str,
    stored: &StoredProvider,
) -> Fetched {
    let lists = &engine.shared.model_lists;
    let generation = ctx.snapshot.routing_generation();
    let key = ModelLists::key(ctx.workspace(), slug);
    if let Some(kept) = lists.get(&key, generation, Instant::now()) {
        return kept;
    }
    let fetching = lists.fetching(&key, generation);
    let _one = fetching.lock().await;
    if let Some(kept) = lists.get(&key, generation, Instant::now()) {
        return kept;
    }
    match tokio::time::timeout(DEADLINE, Box::pin(fetch_models(engine, ctx, slug, stored))).await {
        Ok(fetched) => {
            lists.insert(&key, generation, fetched.clone(), Instant::now());
            fetched
        }
        Err(_) => lists.insert_unanswered(&key, generation, Instant::now()),
    }
}

/// Asks a stored provider for its list.
async fn fetch_models(
    engine: &Arc<Engine>,
    ctx: &RequestContext,
    slug: &str,
    stored: &StoredProvider,
) -> Fetched {
    let payer = Payer::of(ctx);
    let request = OwnRequest {
        snapshot: &ctx.snapshot,
        payer: &payer,
        trace_id: &ctx.span.trace_id,
        path: "/v1/models",
        config: &format!("@{slug}"),
        timeout: Some(DEADLINE),
        max_response: MAX_LIST,
        is_judged: false,
        is_of_config: false,
    };
    let list = (engine.send_own)(engine, &request, None).await.map_err(|why| match why {
        OwnError::Refused(error) | OwnError::Failed(error) => reason(error.status(), error.kind.row().code),
        OwnError::Status(status, body) => {
            let error = ProviderError::read(status.as_u16(), &body);
            let code = error.code.as_deref().or_else(|| ErrorNames::of(&error).openai_code);
            reason(status.as_u16(), code.unwrap_or_default())
        }
    })?;
    let read = || {
        let own = ctx.snapshot.directory(ctx.workspace()).own_prices(slug).map(|own| &**own);
        let book = engine.shared.prices.load_full();
        let models = model_list::read(&list)?.into_iter();
        Some(models.map(|model| described(&book, &stored.provider, own, model)).collect::<Vec<_>>())
    };
    let models = engine.shared.large_work.run(list.len(), read).await;
    Ok(models.ok_or_else(|| Arc::from("no list of models"))?.into())
}

/// A model with what the catalogue knows of it.
fn described(book: &PriceBook, vendor: &str, own: Option<&OwnPrices>, model: ProviderModel) -> ProviderModel {
    let mut facts = model.facts.unwrap_or_default();
    book.describe(vendor, &model.id, own, Timestamp::now(), &mut facts);
    ProviderModel { facts: Some(facts).filter(|facts| **facts != ModelFacts::default()), ..model }
}

/// Whether every target of a config names its provider and its model, so that the config's name can stand for a model.
/// `has_model`: a level above names one.
fn names_models(config: &Config, has_model: bool) -> bool {
    let model = config.policies.override_params.iter().find(|(name, _)| name == "model");
    let has_model = has_model || model.is_some();
    if !config.targets.is_empty() {
        return config.targets.iter().all(|target| names_models(target, has_model));
    }
    let model = model.and_then(|(_, json)| serde_json::from_str::<String>(json).ok());
    let has_slug = model.is_some_and(|model| split_slug(&model).is_some());
    has_model && (config.provider.is_some() || config.virtual_key.is_some() || has_slug)
}

fn reason(status: u16, code: &str) -> Arc<str> {
    format!("{status} {code}").trim_end().into()
}
