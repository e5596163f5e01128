//! Makes the gateway's own list of models: asks every stored provider for its list, all at once, and keeps the results.
//!
//! Each question is a request of the gateway's own (`own_request`). Does not send the response (`proxy::models`).

use super::Engine;
use super::own_request::{OwnError, OwnRequest};
use super::request_context::RequestContext;
use futures_util::future::join_all;
use judgment::route::provider_ref::split_slug;
use memory::state::model_lists::Fetched;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::chat::ProviderError;
use words::api::error_names::ErrorNames;
use words::api::model_list::{self, ListedModel};
use words::config::Config;
use words::settings::StoredProvider;

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

/// The models that work as `model`: those of every stored provider, and the saved configs that name their models.
/// `only`: of one stored provider.
pub async fn gateway_models(engine: &Arc<Engine>, ctx: &RequestContext, only: Option<&str>) -> GatewayModels {
    let directory = ctx.snapshot.directory(ctx.workspace());
    let is_wanted = |slug: &str| only.is_none_or(|only| only == slug);
    let wanted: Vec<(&str, &StoredProvider)> =
        directory.providers().filter(|(slug, _)| is_wanted(slug)).collect();
    let lists = join_all(wanted.iter().map(|(slug, _)| provider_models(engine, ctx, slug))).await;
    let mut found = GatewayModels::default();
    for ((slug, stored), list) in wanted.into_iter().zip(lists) {
        let provider = stored.provider.as_str();
        match list {
            Ok(models) => {
                let is_allowed =
                    |name: &str| stored.models.as_ref().is_none_or(|allowed| allowed.allows(name));
                let models = models.iter().filter(|model| is_allowed(&model.id));
                found.models.extend(models.map(|model| ListedModel::of_provider(model, slug, provider)));
            }
            Err(why) => found.warnings.push(format!("@{slug}: not listed, {why}")),
        }
    }
    if only.is_none() {
        let is_callable = |id: &&str| directory.provider(id).is_none();
        let named = directory.configs().filter(|(_, config)| names_models(config, false));
        found.models.extend(named.map(|(id, _)| id).filter(is_callable).map(ListedModel::of_config));
    }
    found
}

/// The models of one stored provider: kept, or asked for now.
async fn provider_models(engine: &Arc<Engine>, ctx: &RequestContext, slug: &str) -> Fetched {
    let lists = &engine.shared.model_lists;
    let generation = ctx.snapshot.routing_generation();
    let key = ctx.workspace().map_or_else(|| slug.to_owned(), |workspace| format!("{workspace}/{slug}"));
    if let Some(kept) = lists.get(&key, generation, Instant::now()) {
        return kept;
    }
    let fetching = lists.fetching(&key, generation);
    let _one = fetching.lock().await;
    if let Some(kept) = lists.get(&key, generation, Instant::now()) {
        return kept;
    }
    match tokio::time::timeout(DEADLINE, Box::pin(fetch_models(engine, ctx, slug))).await {
        Ok(fetched) => {
            lists.insert(&key, generation, fetched.clone(), Instant::now());
            fetched
        }
        Err(_) => lists.insert_unanswered(&key, generation, Instant::now()),
    }
}

/// Asks a stored provider for its list.
async fn fetch_models(engine: &Arc<Engine>, ctx: &RequestContext, slug: &str) -> Fetched {
    let request = OwnRequest {
        snapshot: &ctx.snapshot,
        client: ctx.record.client.as_ref(),
        trace_id: &ctx.span.trace_id,
        path: "/v1/models",
        config: &format!("@{slug}"),
        timeout: Some(DEADLINE),
        max_response: MAX_LIST,
    };
    let list = (engine.send_own)(engine, &request, None).await.map_err(|why| match why {
        OwnError::Refused(error) | OwnError::Failed(error) => reason(error.status(), error.kind.row().code),
        OwnError::Status(status, body) => {
            let error = ProviderError::read(status.as_u16(), &body);
            let code = error.code.as_deref().or_else(|| ErrorNames::of(&error).openai_code);
            reason(status.as_u16(), code.unwrap_or_default())
        }
    })?;
    let models = model_list::read(&list).ok_or_else(|| Arc::from("no list of models"))?;
    Ok(models.into())
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
