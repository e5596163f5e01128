//! May this request pass, and where to: a list read from top to bottom. Each step may answer and end the
//! story.
//!
//! Order is meaning: nobody's body is read before we know who sends it. What a step means lives in its own
//! file or room; here is only the order, and what each step needs of the one before.

use super::{Gateway, control_plane};
use crate::api::body::Body;
use crate::api::trace::TraceParent;
use crate::auth::ClientIdentity;
use crate::config::headers::GatewayHeaders;
use crate::engine::header_edit::{HeaderCase, edit_request_headers};
use crate::engine::request_context::{AttemptHandle, RequestContext, new_trace_id};
use crate::engine::request_env::RequestEnv;
use crate::engine::{credentials, failure, orchestrator, response};
use crate::error::{Error, Kind};
use crate::route::admission::{BodyContent, BodyReading, Plane, RequestHead};
use crate::route::attempt::{Attempt, PINGORA_RETRY_BUFFER, Request};
use crate::route::compile::Sources;
use crate::route::compiled::CompiledConfig;
use crate::route::plan::{Plan, Reason};
use crate::route::request_snapshot::RequestSnapshot;
use crate::route::target::Target;
use crate::state::snapshot::SettingsSnapshot;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use pingora_core::Result;
use pingora_proxy::Session;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most of `x-gateway-metadata` an access line carries, bytes.
const MAX_METADATA_BYTES: usize = 4096;

/// Takes a request in. `Ok(true)`: it was answered. `Ok(false)`: Pingora takes it upstream.
pub(super) async fn admit(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
) -> Result<bool> {
    match admit_request(gateway, session, ctx).await {
        Ok(Some(admitted)) => dispatch(gateway, session, ctx, admitted).await,
        Ok(None) => Box::pin(control_plane::serve(gateway, session, ctx)).await,
        Err(error) => {
            if error.kind == Kind::MalformedHttp {
                // Where this request ends is uncertain: what follows must not be taken for another one.
                session.set_keepalive(None);
            }
            Err(failure::fail_request(ctx, error))
        }
    }
}

/// A request that may pass, and its first target.
struct Admitted {
    plan: Plan,
    request: Request,
    env: RequestEnv,
    first: (Arc<Target>, Reason),
    /// The attempt at the first target, where there is no other.
    attempt: Option<Attempt>,
}

/// The steps of `route::admission`, and what each needs of the connection. `None`: the control plane responds.
async fn admit_request(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
) -> std::result::Result<Option<Admitted>, Error> {
    let snapshot = start(gateway, session, ctx);
    let header = session.req_header();
    let control_paths = &gateway.control_routes.paths;
    let head = RequestHead::new(&header.method, &header.uri, &header.headers, &snapshot, control_paths);
    let endpoint = head.endpoint;
    // First of all: every refusal is written in the operation's dialect.
    (ctx.operation, ctx.mode) = (endpoint.operation, endpoint.mode);
    let client = head.client()?;
    ctx.record.key.clone_from(&client.name);
    ctx.bearer_is_service_key = client.by_bearer;
    let Plane::Data { body: reading } = head.plane()? else { return Ok(None) };
    let body = match reading {
        Some(reading) => Some(read_body(session, ctx, reading).await?),
        None => None,
    };
    let header = session.req_header();
    let mut request = Request::new(endpoint, header.method.clone(), header.uri.clone(), body);
    let config = find_config(gateway, &header.headers, ctx, &client, &request)?;
    request.check(&config)?;
    if request.body.is_none() && config.may_repeat() && !session.is_upgrade_req() {
        let limit = snapshot.settings.limits.max_body_bytes;
        if let Some(reading) = BodyReading::upload(&session.req_header().headers, limit) {
            request.body = Some(read_body(session, ctx, reading).await?);
        }
    }
    if request.body.is_none() && !session.is_body_done() {
        send_continue(session).await?;
    }
    let mut env = routing_env(gateway, session, ctx, &config, &request);
    let mut plan = Plan::new(Arc::clone(&config), request.model.clone());
    let first = plan.first(&mut env).ok_or_else(|| Error::internal("a config without a target"))?;
    ctx.record.is_single_attempt = config.is_single_attempt();
    let attempt = match config.is_single_attempt() || session.is_upgrade_req() {
        true => Some(Attempt::new(Arc::clone(&first.0), &request)?),
        false => None,
    };
    Ok(Some(Admitted { plan, request, env, first, attempt }))
}

/// One target, one try: Pingora takes it there itself, unless the answer must be held.
async fn dispatch(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    mut admitted: Admitted,
) -> Result<bool> {
    let attempt = match admitted.attempt.take() {
        None => return orchestrate(gateway, session, ctx, admitted, None).await,
        Some(attempt) if attempt.local_response.is_some() => {
            ctx.attempt_handle = Some(AttemptHandle::new(Arc::new(attempt)));
            Box::pin(response::send_local(session, ctx)).await?;
            return Ok(true);
        }
        Some(attempt) if !is_passthrough(session, &admitted.request, &attempt) => {
            return orchestrate(gateway, session, ctx, admitted, Some(attempt)).await;
        }
        Some(attempt) => attempt,
    };
    let case = HeaderCase::for_request(ctx, &attempt.target, session.is_upgrade_req());
    // Pingora copies the head it sends on. Written as a whole address, its target must stay as it was written.
    if case == HeaderCase::Lower && session.req_header().raw_path().starts_with(b"/") {
        edit_request_headers(session.req_header_mut(), case, |_| {});
    }
    let handle = AttemptHandle::new(Arc::new(attempt));
    ctx.attempt_handle = Some(handle.clone());
    // An upgraded connection has no other way than the direct one.
    match credentials::acquire_credentials(&gateway.engine, session, ctx, &handle, None).await {
        Ok(()) => Ok(false),
        Err(error) => Err(failure::fail_request(ctx, error)),
    }
}

/// `made`: the first attempt, where it was made already.
async fn orchestrate(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    admitted: Admitted,
    prepared: Option<Attempt>,
) -> Result<bool> {
    let Admitted { plan, request, env, first: (target, reason), .. } = admitted;
    let driver = orchestrator::Orchestrator {
        engine: &gateway.engine,
        session,
        ctx,
        plan,
        request,
        known: env,
        made: prepared.map(Box::new),
        begun: false,
        rescue: None,
        stale: false,
    };
    driver.run(orchestrator::NextAttempt { leaf: target, wait: Duration::ZERO, why: reason }).await?;
    Ok(true)
}

/// What the plan may ask about.
fn routing_env(
    gateway: &Gateway,
    session: &Session,
    ctx: &RequestContext,
    config: &CompiledConfig,
    request: &Request,
) -> RequestEnv {
    let snapshot = ctx.snapshot.as_ref().filter(|_| config.uses_facts());
    let request_snapshot = snapshot.map(|snapshot| {
        let header = session.req_header();
        Box::new(RequestSnapshot {
            snapshot: Arc::clone(snapshot),
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

/// Everything starts here: trace id, settings in force, the count of requests under way.
fn start(gateway: &Gateway, session: &mut Session, ctx: &mut RequestContext) -> Arc<SettingsSnapshot> {
    let snapshot = gateway.engine.shared.settings_arc();
    let header = session.req_header();
    ctx.trace_id = trace_id(&header.headers, &snapshot);
    ctx.is_http10 = header.version == http::Version::HTTP_10;
    ctx.in_flight = Some(gateway.engine.shared.lifecycle.enter());
    if gateway.engine.shared.lifecycle.is_draining() {
        session.set_keepalive(None);
    }
    // HTTP/2 sessions do not come through the front: their time limits are set here.
    session.set_read_timeout(Some(snapshot.settings.limits.body_timeout));
    session.set_write_timeout(Some(snapshot.settings.limits.write_timeout));
    ctx.snapshot = Some(Arc::clone(&snapshot));
    snapshot
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

/// Reads a body whole.
async fn read_body(
    session: &mut Session,
    ctx: &mut RequestContext,
    reading: BodyReading,
) -> std::result::Result<Body, Error> {
    let waiting = Instant::now();
    // Only what passes as it is may go direct, and then Pingora replays what it buffered.
    let is_small = reading.length.is_some_and(|length| length <= PINGORA_RETRY_BUFFER);
    if is_small && reading.content == BodyContent::AnyJson {
        session.downstream_session.enable_retry_buffering();
    }
    let bytes = collect(session, &reading).await?;
    ctx.record.body_wait = waiting.elapsed();
    ctx.record.bytes_in = bytes.len() as u64;
    reading.parse(bytes)
}

/// Tells a caller that waits to be asked for its body to send it: the provider never hears of that.
async fn send_continue(session: &mut Session) -> std::result::Result<(), Error> {
    if session.req_header().headers.contains_key(header::EXPECT) {
        let sent = session.downstream_session.write_continue_response().await;
        sent.map_err(|_| Error::client_closed())?;
    }
    Ok(())
}

/// The body's bytes. One piece stays as it is; several are put together once.
async fn collect(session: &mut Session, reading: &BodyReading) -> std::result::Result<Bytes, Error> {
    send_continue(session).await?;
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    loop {
        let chunk = match session.downstream_session.read_request_body().await {
            Ok(chunk) => chunk,
            Err(error) => {
                // Where the body ends is unknown now: what follows must not be taken for a request.
                session.set_keepalive(None);
                return Err(failure::translate(&error.into_down(), None));
            }
        };
        let Some(chunk) = chunk else { break };
        reading.check_size(whole.len() + first.as_ref().map_or(0, Bytes::len) + chunk.len())?;
        match first.take() {
            None if whole.is_empty() => first = Some(chunk),
            None => whole.extend_from_slice(&chunk),
            Some(before) => {
                whole.reserve(reading.length.unwrap_or(2 * before.len()).max(before.len() + chunk.len()));
                whole.extend_from_slice(&before);
                whole.extend_from_slice(&chunk);
            }
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

/// The compiled config the request asks for: remembered, or compiled now.
fn find_config(
    gateway: &Gateway,
    headers: &HeaderMap,
    ctx: &mut RequestContext,
    client: &ClientIdentity,
    request: &Request,
) -> std::result::Result<Arc<CompiledConfig>, Error> {
    let Some(snapshot) = &ctx.snapshot else { return Err(Error::internal("no settings")) };
    let gateway_headers = GatewayHeaders::read(headers, &snapshot.settings.header_prefixes)?;
    ctx.record.metadata = gateway_headers
        .metadata
        .filter(|text| text.len() <= MAX_METADATA_BYTES)
        .and_then(|text| RawValue::from_string(text.to_owned()).ok());
    let sources = Sources::new(snapshot, &gateway_headers, client, request);
    gateway.config_cache.find_or_compile(&sources, snapshot.generation)
}

/// Whether Pingora may take the request upstream itself.
fn is_passthrough(session: &Session, request: &Request, attempt: &Attempt) -> bool {
    if session.is_upgrade_req() {
        return attempt.translation.is_none();
    }
    attempt.goes_direct(request)
}
