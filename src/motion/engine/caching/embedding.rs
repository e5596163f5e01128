//! The vector of a text, from the embedding model that the settings name.
//!
//! A failure means that nothing of similar meaning is found, and never fails the client's request. So does a limit of the client that has no
//! room for it.

use crate::engine::Engine;
use crate::engine::own_request::{OwnError, OwnRequest, Payer};
use crate::engine::request_context::RequestContext;
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// The largest response with one vector, bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// A response with vectors, as OpenAI has it.
#[derive(Deserialize)]
struct Response {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    embedding: Vec<f32>,
}

/// The vector of a text. `None`: there is no model for it, or it did not respond in time.
pub(super) async fn vector(engine: &Arc<Engine>, ctx: &RequestContext, text: &str) -> Option<Vec<f32>> {
    let settings = ctx.snapshot.settings.semantic_cache.as_ref()?;
    let payer = Payer::of(ctx);
    let request = OwnRequest {
        snapshot: &ctx.snapshot,
        payer: &payer,
        trace_id: &ctx.span.trace_id,
        path: "/v1/embeddings",
        config: &settings.provider,
        timeout: None,
        max_response: MAX_RESPONSE,
        is_judged: false,
        is_of_config: false,
    };
    let mut body = json!({"model": settings.model, "input": text, "encoding_format": "float"});
    if let (Some(dimensions), Some(members)) = (settings.dimensions, body.as_object_mut()) {
        members.insert("dimensions".to_owned(), dimensions.into());
    }
    let sending = (engine.send_own)(engine, &request, Some(body.to_string()));
    let (result, vector) = match tokio::time::timeout(settings.timeout, sending).await {
        Ok(Ok(body)) => match serde_json::from_slice::<Response>(&body) {
            Ok(response) => ("ok", response.data.into_iter().next().map(|item| item.embedding)),
            Err(why) => {
                log::debug!(target: "turnpike", "the embedding model's response cannot be read: {why}");
                ("unreadable", None)
            }
        },
        Ok(Err(why)) => {
            log::debug!(target: "turnpike", "the embedding model gave no vector: {}", why.message());
            (if matches!(why, OwnError::Refused(_)) { "refused" } else { "failed" }, None)
        }
        Err(_) => ("timeout", None),
    };
    engine.shared.metrics.record_embedding(result);
    vector
}
