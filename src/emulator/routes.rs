//! The routing table from method and path to dialect, and the path of a request through it.
//!
//! Only the end of a path is matched, so that every base URL works (`/v1`, `/openai/v1`, none).
//! [`super::passthrough`] echoes requests to unknown paths.

use super::body::Disconnect;
use super::call::{Call, query};
use super::multipart::{self, Form};
use super::reply::{ApiError, Reply};
use super::request_body::{BodyError, RequestBody};
use super::request_guard::RequestGuard;
use super::script::{Fault, Script};
use super::serve::HttpResponse;
use super::socket::ConnectionHandle;
use super::state::State;
use super::{
    anthropic, batches, bedrock, chat, cohere, completions, control, embeddings, files, fine_tuning, gemini,
    media, models, passthrough, realtime, respond, responses,
};
use bytes::Bytes;
use http::Request;
use http::request::Parts;
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use std::sync::Arc;

/// The largest JSON body that is read, in bytes.
const MAX_JSON: usize = 64 << 20;

pub(super) enum Route<'a> {
    /// Reads the whole body; the second field is the id in the path.
    Json(fn(&Call<'_>) -> Result<Reply, ApiError>, &'a str),
    /// Parses a form while it arrives.
    Form(fn(&Call<'_>, &Form) -> Result<Reply, ApiError>),
    /// A websocket.
    Realtime,
    /// Reads any body chunk by chunk and echoes the request.
    Passthrough,
    /// Replays a recording.
    Replay(&'a str),
}

fn route(parts: &Parts) -> Route<'_> {
    if let Some(id) = parts.headers.get("x-replay-id") {
        return Route::Replay(id.to_str().unwrap_or_default());
    }
    #[cfg(feature = "vendors")]
    if let Some(route) = super::vendors::route(parts) {
        return route;
    }
    let segments: Vec<&str> = parts.uri.path().split('/').collect();
    let json = |respond, id| Route::Json(respond, id);
    match (parts.method.as_str(), segments.as_slice()) {
        ("POST", [.., "chat", "completions"]) => json(chat::create, ""),
        ("POST", [.., "completions"]) => json(completions::create, ""),
        ("POST", [.., "embeddings"]) => json(embeddings::create, ""),
        ("POST", [.., "messages"]) => json(anthropic::create, ""),
        ("POST", [.., "messages", "count_tokens"]) => json(anthropic::count_tokens, ""),
        ("POST", [.., "responses"]) => json(responses::create, ""),
        ("POST", [.., "responses", "input_tokens"]) => json(responses::input_tokens, ""),
        ("GET", [.., "responses", id]) => json(responses::one, id),
        ("DELETE", [.., "responses", id]) => json(responses::delete, id),
        ("GET", [.., "responses", id, "input_items"]) => json(responses::input_items, id),
        ("POST", [.., "responses", id, "cancel"]) => json(responses::cancel, id),
        ("POST", [.., "models", id]) => json(gemini::respond, id),
        ("POST", [.., "model", id, "converse"]) => json(bedrock::converse, id),
        ("POST", [.., "model", id, "converse-stream"]) => json(bedrock::converse_stream, id),
        ("POST", [.., "model", id, "count-tokens"]) => json(bedrock::count_tokens, id),
        ("POST", [.., "v2", "chat"]) => json(cohere::create, ""),
        ("GET", [.., "models"]) => json(models::list, ""),
        ("GET", [.., "models", id]) => json(models::one, id),
        ("POST", [.., "files"]) => Route::Form(files::upload),
        ("POST", [.., "files", "upload"]) => Route::Form(files::upload_named),
        ("GET", [.., "files"]) => json(files::list, ""),
        ("GET", [.., "files", id]) => json(files::one, id),
        ("GET", [.., "files", id, "content"]) => json(files::content, id),
        ("DELETE", [.., "files", id]) => json(files::delete, id),
        ("POST", [.., "batches"]) => json(batches::create, ""),
        ("GET", [.., "batches"]) => json(batches::list, ""),
        ("GET", [.., "batches", id]) => json(batches::one, id),
        ("POST", [.., "batches", id, "cancel"]) => json(batches::cancel, id),
        ("POST", [.., "fine_tuning", "jobs"]) => json(fine_tuning::create, ""),
        ("GET", [.., "fine_tuning", "jobs"]) => json(fine_tuning::list, ""),
        ("GET", [.., "fine_tuning", "jobs", id]) => json(fine_tuning::one, id),
        ("POST", [.., "fine_tuning", "jobs", id, "cancel"]) => json(fine_tuning::cancel, id),
        ("GET", [.., "fine_tuning", "jobs", id, "events"]) => json(fine_tuning::events, id),
        ("GET", [.., "fine_tuning", "jobs", id, "checkpoints"]) => json(fine_tuning::checkpoints, id),
        ("POST", [.., "moderations"]) => json(media::moderate, ""),
        ("POST", [.., "images", "generations"]) => json(media::images, ""),
        ("POST", [.., "images", "edits" | "variations"]) => Route::Form(media::image_edits),
        ("POST", [.., "audio", "speech"]) => json(media::speech, ""),
        ("POST", [.., "audio", "transcriptions" | "translations"]) => Route::Form(media::transcribe),
        ("POST", [.., "rerank"]) => json(media::rerank, ""),
        ("GET", [.., "realtime"]) => Route::Realtime,
        _ => Route::Passthrough,
    }
}

/// Responds to one request; an error if the connection is to be dropped.
pub(super) async fn serve_request(
    state: Arc<State>,
    connection: Arc<ConnectionHandle>,
    request: Request<Incoming>,
) -> Result<HttpResponse, Disconnect> {
    let (mut parts, incoming) = request.into_parts();
    if let Some(what) = parts.uri.path().strip_prefix("/_emulator/") {
        return Ok(control::respond(&state, &parts, what).await);
    }
    let mut guard = RequestGuard::new(state, connection);
    let mut request_body = RequestBody::new(incoming);
    let (script, refusal) = match header_script(guard.state(), &parts) {
        Ok(script) => (script, None),
        Err(refusal) => (None, Some(refusal)),
    };
    let tag = parts.headers.get("x-emulator-tag").and_then(|tag| tag.to_str().ok());
    let tag = tag.or_else(|| script.as_ref()?.tag.as_deref());
    if tag.is_some() || guard.state().log_all {
        guard.log(tag, &parts);
        request_body.observe();
    }
    let route = route(&parts);
    if let (Route::Realtime, None) = (&route, &refusal) {
        return realtime::upgrade_connection(&mut parts, script, guard).await;
    }
    let reply = match refusal {
        Some(refusal) => request_body.drain().await.map(|_| refusal.into()),
        None => reply(route, &parts, script.as_ref(), &mut guard, &mut request_body).await,
    };
    guard.log_body(&mut request_body);
    let mut reply = reply?;
    if let Some(script) = script {
        // A recording keeps its own cuts unless the script sets some.
        let cuts = script.cuts.or(reply.script.cuts);
        reply.script = Script { cuts, ..script };
    }
    respond::into_response(reply, guard).await
}

fn header_script(state: &State, parts: &Parts) -> Result<Option<Script>, ApiError> {
    let Some(text) = parts.headers.get("x-emulator-script") else { return Ok(None) };
    let script = Script::parse(text.to_str().unwrap_or("?"));
    Ok(Some(state.spend(script.map_err(|why| ApiError::invalid("x-emulator-script", why))?)))
}

async fn reply(
    route: Route<'_>,
    parts: &Parts,
    script: Option<&Script>,
    guard: &mut RequestGuard,
    request_body: &mut RequestBody,
) -> Result<Reply, Disconnect> {
    // Such a fault happens before an upload is read, as with a provider that crashes.
    let streamed = matches!(route, Route::Form(_) | Route::Passthrough);
    if streamed && script.is_some_and(|script| script.fault.is_some_and(Fault::before_headers)) {
        return Ok(Reply::json(Bytes::new()));
    }
    let state = guard.state().clone();
    match route {
        Route::Json(respond, id) => {
            let body = match request_body.whole(MAX_JSON).await {
                Ok(body) => body,
                Err(BodyError::Disconnected) => return Err(Disconnect),
                Err(BodyError::TooLarge) => return Ok(ApiError::too_large(MAX_JSON).into()),
            };
            let id = percent_decode_str(id).decode_utf8_lossy();
            let reply = respond(&Call { state: &state, parts, body: &body, id: &id, script });
            let reply = reply.unwrap_or_else(Reply::from);
            if let Some(tag) = reply.script.tag.as_deref().filter(|_| !guard.logged()) {
                guard.log(Some(tag), parts);
                request_body.observe_late(&body);
            }
            Ok(reply)
        }
        Route::Form(respond) => {
            let body = Bytes::new();
            let call = Call { state: &state, parts, body: &body, id: "", script };
            let form = multipart::read(parts, request_body).await?;
            Ok(form.and_then(|form| respond(&call, &form)).unwrap_or_else(Reply::from))
        }
        Route::Replay(id) => {
            request_body.drain().await?;
            Ok(replay(&state, parts, id))
        }
        Route::Passthrough | Route::Realtime => passthrough::echo(parts, request_body).await,
    }
}

fn replay(state: &State, parts: &Parts, id: &str) -> Reply {
    let id = percent_decode_str(id).decode_utf8_lossy();
    let Some(mut reply) = state.recordings.as_ref().and_then(|recordings| recordings.reply(&id)) else {
        return ApiError::not_found(format!("No recording with the id `{id}` is loaded.")).into();
    };
    reply.script.cuts = respond::replay_cuts(&parts.headers);
    reply
}

/// `after` and `limit` of a list request.
pub(super) fn page(parts: &Parts) -> (Option<String>, usize) {
    let limit = query(parts, "limit").and_then(|limit| limit.parse().ok());
    (query(parts, "after"), limit.unwrap_or(20).clamp(1, 10_000))
}
