//! What limits look at of a request: who sends it, its metadata, its target.
//!
//! Which limits are for these facts is the room `limits`'s.

use super::Metadata;
use crate::engine::request_context::RequestContext;
use http::Method;
use judgment::route::attempt::Request;
use judgment::route::target::Target;
use memory::auth::{ClientIdentity, ORGANISATION};
use memory::limits::{Facts, Id, Named, TargetFacts};
use memory::state::directory::SavedName;
use std::sync::Arc;
use uuid::Uuid;
use words::api::operation::Operation;

/// What limits look at of a request.
pub(in crate::engine) struct RequestFacts<'a> {
    pub client: Option<&'a ClientIdentity>,
    pub workspace: Option<Uuid>,
    pub config: Option<&'a SavedName>,
    /// The slug of the prompt.
    pub prompt: Option<&'a str>,
    pub operation: Operation,
    pub metadata: &'a Metadata,
}

impl<'a> RequestFacts<'a> {
    /// Of a request that was admitted.
    pub fn of(ctx: &'a RequestContext) -> Self {
        let own = Self {
            client: ctx.record.client.as_deref(),
            workspace: ctx.workspace().or_else(|| ctx.snapshot.stored.default_workspace()),
            config: ctx.limits.config.as_ref(),
            prompt: ctx.record.named.prompt.as_ref().map(|found| &*found.prompt.slug),
            operation: ctx.api.operation,
            metadata: &ctx.limits.metadata,
        };
        let Some(behalf) = &ctx.limits.behalf else { return own };
        let config = behalf.config.as_ref();
        Self { config, prompt: behalf.prompt.as_deref(), metadata: &behalf.metadata, ..own }
    }

    /// The facts of the request as a whole, or of an attempt at this target.
    pub fn at(&self, target: Option<TargetFacts<'a>>) -> Facts<'a> {
        let api_key = self.client.and_then(|client| {
            client.key_id.map(Id::Record).or_else(|| client.id.as_deref().map(Id::Settings))
        });
        Facts {
            organisation: Some(ORGANISATION),
            workspace: self.workspace,
            api_key,
            config: self.config.map(|saved| Named {
                slug: &saved.slug,
                id: saved.id.map_or(Id::Settings(&saved.slug), Id::Record),
            }),
            prompt: self.prompt,
            endpoint_type: Some(self.operation.reference_name()),
            metadata: self.metadata,
            target,
        }
    }
}

/// What limits look at of an attempt's target.
pub(in crate::engine) fn target_facts<'a>(target: &'a Target, model: Option<&'a str>) -> TargetFacts<'a> {
    TargetFacts {
        model,
        provider: target.provider.id(),
        virtual_key: target
            .slug
            .as_deref()
            .map(|slug| Named { slug, id: target.ids.provider.map_or(Id::Settings(slug), Id::Record) }),
        integration: target.ids.integration,
    }
}

/// Whose requests are alike: those of one key.
pub(in crate::engine) fn key(client: Option<&Arc<ClientIdentity>>) -> &str {
    client.and_then(|client| client.id.as_deref()).unwrap_or_default()
}

/// Whether no limit is for it: it reads what is kept at a provider, which clients whose limits are spent still may, or counts tokens.
/// Providers do not charge for counts and limit them apart; agents count before each message, and must have the limits left for it.
pub(in crate::engine) fn only_reads(request: &Request) -> bool {
    use Operation as O;
    if matches!(request.operation, O::CountTokens | O::GeminiCountTokens | O::ResponsesInputTokens) {
        return true;
    }
    request.method == Method::GET
        && matches!(
            request.operation,
            O::FilesList
                | O::FilesGet
                | O::FilesContent
                | O::BatchesList
                | O::BatchesGet
                | O::BatchesOutput
                | O::FineTuningList
                | O::FineTuningGet
                | O::FineTuningEvents
                | O::FineTuningCheckpoints
                | O::ResponsesGet
                | O::ResponsesInputItems
                | O::Models
                | O::ModelsGet
                | O::GeminiModels
                | O::GeminiModelsGet
        )
}
