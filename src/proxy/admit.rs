//! May this request pass, and where to: a list read from top to bottom. Each step may answer and end the
//! story.
//!
//! Order is meaning: nobody's body is read before we know who sends it. What a step means lives in its own
//! file or room; here is only the order, and what each step needs of the one before.

use super::downstream::PingoraDownstream;
use super::native::{self, Ctx};
use super::{Gateway, control_plane};
use crate::api::body::Body;
use crate::api::operation::{BodyKind, Operation};
use crate::api::trace::TraceParent;
use crate::auth;
use crate::config::headers::GatewayHeaders;
use crate::engine::downstream::Downstream;
use crate::engine::orchestrator::Admitted;
use crate::engine::request_context::{RequestContext, new_trace_id};
use crate::engine::request_env::RequestEnv;
use crate::engine::upstream_headers;
use crate::error::Error;
use crate::route::attempt::{Attempt, Request};
use crate::route::compile::{Sources, compile};
use crate::route::compiled::CompiledConfig;
use crate::route::plan::Plan;
use crate::route::request_snapshot::RequestSnapshot;
use crate::state::snapshot::SettingsSnapshot;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use pingora_core::Result;
use pingora_proxy::Session;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Instant;

/// The most of `x-gateway-metadata` an access line carries, bytes.
const MAX_METADATA_BYTES: usize = 4096;

/// Takes a request in. `Ok(true)`: the client has its response. `Ok(false)`: Pingora proxies it.
pub(super) async fn admit(gateway: &Gateway, session: &mut Session, ctx: &mut Ctx) -> Result<bool> {
    start(gateway, session, &mut ctx.request);
    let call = match classify(gateway, session, &mut ctx.request) {
        Ok(Plane::Control) => {
            return Box::pin(control_plane::serve(gateway, session, &mut ctx.request)).await;
        }
        Ok(Plane::Data(call)) => call,
        Err(error) => return Err(native::fail_request(&mut ctx.request, error)),
    };
    let admitted = match prepare(gateway, session, &mut ctx.request, call).await {
        Ok(admitted) => admitted,
        Err(error) => return Err(native::fail_request(&mut ctx.request, error)),
    };
    dispatch(gateway, session, ctx, admitted).await
}

/// Everything before the first attempt.
async fn prepare(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    call: ApiCall,
) -> std::result::Result<Admitted, Error> {
    if let Err(error) = upstream_headers::check_connection_header(&session.req_header().headers) {
        session.set_keepalive(None);
        return Err(error);
    }
    let body = read_body(session, ctx, &call).await?;
    let mut request = build_request(session, call, body);
    let config = resolve_config(gateway, session, ctx, &mut request)?;
    buffer_upload(session, ctx, &config, &mut request).await?;
    if request.body.is_none() && !session.is_body_done() {
        PingoraDownstream::new(session).send_continue().await?;
    }
    let mut env = routing_env(gateway, session, ctx, &config, &request);
    let mut plan = Plan::new(Arc::clone(&config), request.model.clone());
    let first = plan.first(&mut env).ok_or_else(|| Error::internal("a config without a target"))?;
    ctx.record.is_single_attempt = config.is_single_attempt();
    Ok(Admitted { plan, request, env, first, prepared: None })
}

/// What was read goes through the engine; what is not read, and may be sent once only, is proxied natively.
async fn dispatch(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut Ctx,
    mut admitted: Admitted,
) -> Result<bool> {
    let is_upgrade = session.is_upgrade_req();
    if is_upgrade || (admitted.request.body.is_none() && ctx.request.record.is_single_attempt) {
        let attempt = match Attempt::new(Arc::clone(&admitted.first.0), &admitted.request) {
            Ok(attempt) => attempt,
            Err(error) => return Err(native::fail_request(&mut ctx.request, error)),
        };
        if attempt.goes_native(is_upgrade) {
            let started = native::start(&gateway.engine, session, ctx, attempt).await;
            return started.map(|()| false).map_err(|error| native::fail_request(&mut ctx.request, error));
        }
        admitted.prepared = Some(Box::new(attempt));
    }
    let mut downstream = PingoraDownstream::new(session);
    let sent = gateway.engine.run(&mut downstream, &mut ctx.request, admitted).await;
    sent.map(|()| true).map_err(|_| native::stopped())
}

/// What the plan may ask about.
fn routing_env(
    gateway: &Gateway,
    session: &Session,
    ctx: &RequestContext,
    config: &CompiledConfig,
    request: &Request,
) -> RequestEnv {
    let request_snapshot = config.uses_facts().then(|| {
        let header = session.req_header();
        Box::new(RequestSnapshot {
            snapshot: Arc::clone(&ctx.snapshot),
            headers: header.headers.clone(),
            metadata: ctx.record.metadata.as_ref().map(|metadata| metadata.get().to_owned()),
            pathname: header.uri.path().to_owned(),
            body: request.body.clone(),
        })
    });
    RequestEnv {
        shared: Arc::clone(&gateway.engine.shared),
        key_name: ctx.record.key.clone(),
        request: request_snapshot,
    }
}

/// An upload that could have to be sent twice is held, when it is not too large; what streams by can be sent
/// once only.
async fn buffer_upload(
    session: &mut Session,
    ctx: &mut RequestContext,
    config: &CompiledConfig,
    request: &mut Request,
) -> std::result::Result<(), Error> {
    let limit = ctx.snapshot.settings.limits.max_body_bytes;
    let length = content_length(&session.req_header().headers);
    let buffers =
        request.body.is_none() && config.may_repeat() && length.is_some_and(|n| n > 0 && n <= limit);
    if buffers && !session.is_upgrade_req() {
        let bytes = collect(session, length, limit).await?;
        ctx.record.bytes_in = bytes.len() as u64;
        request.body = Some(Body::opaque(bytes));
    }
    Ok(())
}

/// Which plane a request is for.
enum Plane {
    Control,
    Data(ApiCall),
}

/// What a request to the data plane is for.
struct ApiCall {
    operation: Operation,
    /// Where the path below the version segment, and below `proxy/`, begins.
    path_offset: usize,
    /// It came by `/v1/proxy/`, which passes what it does not understand.
    is_proxied: bool,
}

/// Everything starts here: trace id, settings in force, the count of requests under way.
fn start(gateway: &Gateway, session: &mut Session, ctx: &mut RequestContext) {
    let snapshot = &ctx.snapshot;
    let header = session.req_header();
    ctx.trace_id = trace_id(&header.headers, snapshot).into();
    ctx.is_http10 = header.version == http::Version::HTTP_10;
    if gateway.engine.shared.lifecycle.is_draining() {
        session.set_keepalive(None);
    }
    // HTTP/2 sessions do not come through the front: their time limits are set here.
    session.set_read_timeout(Some(snapshot.settings.limits.body_timeout));
    session.set_write_timeout(Some(snapshot.settings.limits.write_timeout));
}

/// The caller's trace id, the trace of its `traceparent`, or a new one.
fn trace_id(headers: &HeaderMap, snapshot: &SettingsSnapshot) -> String {
    let given = snapshot.trace_headers.iter().find_map(|name| headers.get(name)?.to_str().ok());
    if let Some(id) = given.filter(|id| !id.is_empty() && id.len() <= 256) {
        return id.to_owned();
    }
    let parent = headers.get("traceparent").and_then(|value| TraceParent::parse(value.to_str().ok()?));
    parent.map_or_else(new_trace_id, |parent| parent.trace_id())
}

/// Who calls, and what for.
fn classify(
    gateway: &Gateway,
    session: &Session,
    ctx: &mut RequestContext,
) -> std::result::Result<Plane, Error> {
    let header = session.req_header();
    let path = header.uri.path();
    let relative_path = path.strip_prefix("/v1/");
    // Dialect first: whatever fails from here on is told in it.
    let passthrough_path = relative_path.and_then(|rest| rest.strip_prefix("proxy/"));
    let relative = passthrough_path.or(relative_path);
    if let Some(relative) = relative {
        ctx.operation = Operation::find(&header.method, relative);
    }
    if gateway.control_routes.paths.owns_path(path) {
        return Ok(Plane::Control);
    }
    let identity = auth::authenticate(&header.headers, &ctx.snapshot.service_keys)?;
    ctx.record.key = identity.name;
    ctx.bearer_is_service_key = identity.by_bearer;
    let Some(relative) = relative.filter(|relative| !relative.is_empty()) else {
        return Err(Error::not_found(format!(
            "There is nothing at {path}. The API is below /v1, for example /v1/chat/completions."
        )));
    };
    if relative_path.is_some_and(|rest| gateway.control_routes.paths.owns_relative(rest)) {
        return Ok(Plane::Control);
    }
    if !matches!(header.method.as_str(), "GET" | "POST" | "PUT" | "DELETE") {
        return Err(Error::method_not_allowed(format!(
            "{} is not passed on. Use POST, GET, PUT or DELETE.",
            header.method
        )));
    }
    let is_proxied = passthrough_path.is_some();
    ctx.is_proxied = is_proxied;
    let path_offset = path.len() - relative.len();
    Ok(Plane::Data(ApiCall { operation: ctx.operation, path_offset, is_proxied }))
}

/// Reads the body where it may choose the target; leaves it to stream where nothing needs it.
async fn read_body(
    session: &mut Session,
    ctx: &mut RequestContext,
    call: &ApiCall,
) -> std::result::Result<Option<Body>, Error> {
    let limit = ctx.snapshot.settings.limits.max_body_bytes;
    let header = session.req_header();
    let length = content_length(&header.headers);
    let compressed = header.headers.contains_key(header::CONTENT_ENCODING);
    // Any other path: JSON is read so that @slug/model and override_params work there too; what is too long
    // to read streams through as it comes.
    let is_passthrough = call.is_proxied || call.operation == Operation::Passthrough;
    let wanted = match call.operation.body_kind() {
        _ if is_passthrough => {
            is_json(&header.headers) && !compressed && length.is_some_and(|n| n > 0 && n <= limit)
        }
        kind => kind == BodyKind::Json,
    };
    if !wanted {
        return Ok(None);
    }
    if compressed {
        let message = "The body is compressed. Send it without Content-Encoding.";
        return Err(Error::bad_request(message).with_param("content-encoding"));
    }
    if length.is_some_and(|length| length > limit) {
        return Err(Error::body_too_large(limit as u64));
    }
    let waiting = Instant::now();
    let bytes = collect(session, length, limit).await?;
    ctx.record.body_wait = waiting.elapsed();
    ctx.record.bytes_in = bytes.len() as u64;
    match Body::parse(bytes.clone()) {
        Ok(body) => Ok(Some(body)),
        Err(_) if is_passthrough => Ok(Some(Body::opaque(bytes))),
        Err(_) if bytes.is_empty() => {
            Err(Error::bad_request("The request body must be a JSON object, and it is empty."))
        }
        Err(reason) => Err(Error::bad_request(format!("The request body must be a JSON object: {reason}."))),
    }
}

/// The body's bytes. One piece stays as it is; several are put together once.
async fn collect(
    session: &mut Session,
    length: Option<usize>,
    limit: usize,
) -> std::result::Result<Bytes, Error> {
    let mut downstream = PingoraDownstream::new(session);
    downstream.send_continue().await?;
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    loop {
        let Some(chunk) = downstream.next_chunk().await? else { break };
        if whole.len() + first.as_ref().map_or(0, Bytes::len) + chunk.len() > limit {
            return Err(Error::body_too_large(limit as u64));
        }
        match first.take() {
            None if whole.is_empty() => first = Some(chunk),
            None => whole.extend_from_slice(&chunk),
            Some(before) => {
                whole.reserve(length.unwrap_or(2 * before.len()).max(before.len() + chunk.len()));
                whole.extend_from_slice(&before);
                whole.extend_from_slice(&chunk);
            }
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

fn build_request(session: &Session, call: ApiCall, body: Option<Body>) -> Request {
    let header = session.req_header();
    let ApiCall { operation, path_offset, is_proxied } = call;
    let mut request = Request::new(operation, header.method.clone(), header.uri.clone(), path_offset, body);
    request.is_proxied = is_proxied;
    request
}

/// The tree the request asks for: remembered, or compiled now.
fn resolve_config(
    gateway: &Gateway,
    session: &Session,
    ctx: &mut RequestContext,
    request: &mut Request,
) -> std::result::Result<Arc<CompiledConfig>, Error> {
    let snapshot = Arc::clone(&ctx.snapshot);
    let headers = &session.req_header().headers;
    let gateway_headers = GatewayHeaders::read(headers, &snapshot.settings.header_prefixes)?;
    let bearer = gateway_headers.bearer.filter(|_| !ctx.bearer_is_service_key);
    ctx.record.metadata = gateway_headers
        .metadata
        .filter(|text| text.len() <= MAX_METADATA_BYTES)
        .and_then(|text| RawValue::from_string(text.to_owned()).ok());
    let sources = Sources {
        settings: &snapshot.settings,
        hosts: &snapshot.hosts,
        gateway_headers: &gateway_headers,
        bearer,
        model_slug: request.slug.as_deref(),
    };
    let key = sources.key(snapshot.generation);
    let cached = key.as_deref().and_then(|key| gateway.config_cache.get(key));
    let config = match cached {
        Some(config) => config,
        None => {
            let config = Arc::new(compile(&sources)?);
            if let Some(key) = key {
                gateway.config_cache.insert(key, &config);
            }
            config
        }
    };
    request.check(&config)?;
    Ok(config)
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}
