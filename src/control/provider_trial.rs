//! Whether a provider responds now, and which models it says it has: small requests of the calling key, admitted, limited, logged and
//! charged as those at the data port.

use super::call::{Call, left};
use super::field::{Field, Type, nullable, optional, required};
use super::page;
use super::reply::Reply;
use super::route::{Access, Route, Shape, get, post};
use super::work::Work;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Uri};
use memory::auth::ClientIdentity;
use memory::store::Kind;
use motion::engine::offline::{OfflineRequest, OfflineResponse};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

/// The largest response, bytes: vendors list a thousand models.
const MAX_RESPONSE: usize = 4 << 20;
/// Enough for a word, after a little thought.
const MAX_TOKENS: u32 = 64;

const BODY: &[Field] = &[optional(
    "model",
    Type::Name(512),
    "The model. By default the first one that the provider is restricted to.",
)];

const TESTED: &[Field] = &[
    required("is_success", Type::Flag, "Whether a chat was responded to."),
    required("status", Type::Integer(100, 999), "The status of the response."),
    required("model", Type::Text(512), "The model that was requested."),
    required("latency_ms", Type::Number(0.0, 1e9), "How long it took."),
    nullable("message", Type::Text(MAX_MESSAGE), "Why it failed."),
    required("trace_id", Type::Uuid, "The request in the log."),
    required("object", Type::Text(20), "`provider-test`."),
];

const MODELS: &[Field] = &[
    required("is_success", Type::Flag, "Whether the provider sent a list of models."),
    required("status", Type::Integer(100, 999), "The status of the response."),
    nullable("message", Type::Text(MAX_MESSAGE), "Why there is no list."),
    required(
        "data",
        Type::List(&Type::AnyObject, 0, MAX_RESPONSE / 2),
        "The models as the vendor lists them; empty where it failed.",
    ),
    required("trace_id", Type::Uuid, "The request in the log."),
    required("object", Type::Text(20), "`provider-models`."),
];

/// The most bytes of what a vendor says of a failure.
const MAX_MESSAGE: usize = 16 << 10;

const ACCESS: Access = Access::Scope(&[Scope::CompletionsWrite]);

pub(super) const ROUTES: &[Route] = &[
    post("/v1/providers/{slug}/test", ACCESS, "Sends a small chat to a provider", |call| {
        Box::pin(test(call))
    })
    .body(BODY)
    .query(page::IN_WORKSPACE)
    .works_at(Work::Trial)
    .replies(Shape::Object(TESTED))
    .on_control_port_only(),
    get(
        "/v1/providers/{slug}/models",
        ACCESS,
        "Lists the models of a provider, as its vendor does",
        |call| Box::pin(models(call)),
    )
    .query(page::IN_WORKSPACE)
    .works_at(Work::Trial)
    .replies(Shape::Object(MODELS))
    .on_control_port_only(),
];

/// A provider that is tried.
struct Tried {
    slug: String,
    /// Who tries it: a client of the organisation in the provider's own workspace.
    client: Arc<ClientIdentity>,
    /// The first model that it is restricted to.
    model: Option<String>,
}

/// # Errors
/// 404 for a provider that the key may not see; 400 for one that `@slug` does not mean for the client that tries it, because the settings or
/// a workspace have another one of this slug.
fn tried(call: &Call) -> Result<Tried, Error> {
    if let Some(stored) = call.snapshot.settings.providers.get(call.named()) {
        let model = stored.allowed.as_ref().and_then(|allowed| allowed.names().next().map(str::to_owned));
        return Ok(Tried { slug: call.named().to_owned(), client: Arc::clone(&call.identity), model });
    }
    let record = call.find(Kind::Provider)?;
    let allowed = super::records::member(&super::records::members(&record), "allowed_models");
    let model = allowed.get(0).and_then(Value::as_str).map(str::to_owned);
    let client = match record.workspace {
        Some(workspace) if !call.identity.is_bound => {
            Arc::new(ClientIdentity { workspace: Some(workspace), ..(*call.identity).clone() })
        }
        _ => Arc::clone(&call.identity),
    };
    let slug = record.slug.clone().unwrap_or_default();
    if call.snapshot.directory(client.workspace).provider_ids(&slug).provider != Some(record.id) {
        let message = format!(
            "Another provider has the slug {slug:?} as well, and requests that name @{slug} here are sent to that one. Give one of them \
             another slug."
        );
        return Err(Error::invalid_request("slug", message));
    }
    Ok(Tried { slug, client, model })
}

async fn test(mut call: Call) -> Result<Reply, Error> {
    let tried = tried(&call)?;
    let named = call.text("model").map(str::to_owned).or_else(|| tried.model.clone());
    let is_name = |name: &String| !name.contains('*');
    let Some(model) = named.filter(is_name) else {
        return Err(Error::invalid_request("model", "Name a model: the provider is restricted to none."));
    };
    let body = json!({
        "model": model,
        "max_completion_tokens": MAX_TOKENS,
        "messages": [{"role": "user", "content": "Reply with OK."}],
    });
    let trace_id = Uuid::now_v7();
    let begun = Instant::now();
    let uri = Uri::from_static("/v1/chat/completions");
    let response = send(&mut call, &tried, Method::POST, &uri, body.to_string().into(), trace_id).await?;
    let is_success = response.status.is_success();
    Ok(Reply::from(json!({
        "is_success": is_success,
        "status": response.status.as_u16(),
        "model": model,
        "latency_ms": begun.elapsed().as_secs_f64() * 1000.0,
        "message": (!is_success).then(|| message(&response)),
        "trace_id": trace_id,
        "object": "provider-test",
    })))
}

async fn models(mut call: Call) -> Result<Reply, Error> {
    let tried = tried(&call)?;
    let trace_id = Uuid::now_v7();
    let uri = Uri::from_static("/v1/models");
    // As long as it arrives, and while it is read and written again.
    let _held = call.hold(3 * MAX_RESPONSE)?;
    let response = send(&mut call, &tried, Method::GET, &uri, Bytes::new(), trace_id).await?;
    let list = response.status.is_success().then(|| list(&response)).flatten();
    // The status of the vendor is not that of this call: its 401 says nothing of the client's key.
    Ok(Reply::from(json!({
        "is_success": list.is_some(),
        "status": response.status.as_u16(),
        "message": match (&list, response.status.is_success()) {
            (Some(_), _) => None,
            (None, true) => Some("The provider responded with something else than a list of models.".to_owned()),
            (None, false) => Some(message(&response)),
        },
        "data": list.unwrap_or_default(),
        "trace_id": trace_id,
        "object": "provider-models",
    })))
}

/// The objects of a list of models; `None`: it is none.
fn list(response: &OfflineResponse) -> Option<Vec<Value>> {
    let read: Value = serde_json::from_slice(&response.body.concat()).ok()?;
    let items = read.get("data")?.as_array()?;
    Some(items.iter().filter(|item| item.is_object()).cloned().collect())
}

/// Sends a request for the calling key; it ends where the client of the control port leaves.
async fn send(
    call: &mut Call,
    tried: &Tried,
    method: Method,
    uri: &Uri,
    body: Bytes,
    trace_id: Uuid,
) -> Result<OfflineResponse, Error> {
    let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    let provider = HeaderValue::try_from(format!("@{}", tried.slug));
    let provider =
        provider.map_err(|_| Error::not_found("The slug has characters that no header may have."))?;
    headers.extend(
        call.snapshot
            .settings
            .prefixed_headers("provider")
            .into_iter()
            .next()
            .map(|name| (Some(name), provider)),
    );
    let trace_id = Arc::from(trace_id.to_string());
    let request = OfflineRequest {
        method,
        uri,
        headers: &headers,
        body,
        is_limited: true,
        is_sent_once: true,
        advance: None,
        trace_id: &trace_id,
        client: Ok(Arc::clone(&tried.client)),
        max_response: MAX_RESPONSE,
        given: None,
        address: None,
    };
    let (leaving, leaves) = watch::channel(false);
    let departure = call.departure.take();
    let running = call.planner.run_offline(request, leaves);
    tokio::pin!(running);
    let response = tokio::select! {
        response = &mut running => response,
        () = left(departure) => {
            leaving.send_replace(true);
            // To its end, so that it is recorded.
            let _ = running.await;
            return Err(Error::client_closed());
        }
    };
    response.map_err(|why| Error::invalid_response(why, "incomplete"))
}

/// What a response that is no success says, cut.
fn message(response: &OfflineResponse) -> String {
    let body = response.body.concat();
    let read: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut message = match read.pointer("/error/message").and_then(Value::as_str) {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(body.get(..body.len().min(512)).unwrap_or(&body)).into_owned(),
    };
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    message
}
