//! Admits a request or refuses it: a list of steps, read from top to bottom. Each step may refuse.
//!
//! The order matters: no body is read before the client is authenticated. The decisions are made in `route::admission`;
//! here are only their order and what each step needs from the connection.

use super::batches::{self, OwnCall};
use super::downstream::PingoraDownstream;
use super::native::{self, Ctx};
use super::{
    Gateway, control_plane, fine_tuning, mcp, models, options, realtime, responses_socket, session_tokens,
};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HOST, UPGRADE};
use http::{HeaderValue, Method, Uri, Version};
use jiff::Timestamp;
use judgment::route::admission::{
    BodyContent, BodyReading, Endpoint, FormModel, ModelQuery, Plane, RequestHead, TokenShape,
    batch_provider, creates_own, depends_on_provider, mcp_entries,
};
use judgment::route::attempt::{Attempt, Request};
use judgment::route::request_mode::RequestMode;
use memory::auth::certificate_keys::key_of_certificate;
use memory::auth::{self, ClientIdentity, KeySearch};
use memory::net::inbound::client_certificate::ClientCertificate;
use memory::net::inbound::content_coding::ContentCoding;
use memory::state::authentication;
use memory::state::held_bytes::Hold;
use memory::state::large_work;
use memory::state::snapshot::SettingsSnapshot;
use motion::engine::body_pace::BodyPace;
use motion::engine::cors;
use motion::engine::downstream::Downstream;
use motion::engine::guarding::guard_upgrade;
use motion::engine::orchestrator::Admitted;
use motion::engine::planner::Planned;
use motion::engine::request_context::{CalledApi, RequestContext};
use motion::engine::request_span::new_trace_id;
use motion::engine::reusable_timer::ReusableTimer;
use motion::engine::turn::Turn;
use motion::tools::{self, ToolsCall};
use pingora::http::RequestHeader;
use pingora_core::Result;
use pingora_proxy::Session;
use std::sync::Arc;
use std::time::Instant;
use words::api::body::Body;
use words::api::operation::Operation;
use words::api::responses;
use words::api::tool_rounds::McpEntry;
use words::api::trace::{TRACEPARENT, TraceParent};
use words::error::{Error, Kind};

/// Admits a request and dispatches it. `Ok(true)`: the client has its response. `Ok(false)`: Pingora proxies it.
pub(super) async fn admit(gateway: &Gateway, session: &mut Session, ctx: &mut Ctx) -> Result<bool> {
    ctx.preset = session_tokens::apply(session, &ctx.request.snapshot);
    match admit_request(gateway, session, &mut ctx.request).await {
        Ok(Admission::Run(admitted)) => dispatch(gateway, session, ctx, admitted).await,
        Ok(Admission::Control) => Box::pin(control_plane::serve(gateway, session, &mut ctx.request)).await,
        Ok(Admission::Models(query)) => {
            Box::pin(models::serve(gateway, session, &mut ctx.request, query)).await
        }
        Ok(Admission::Batches(call)) => {
            Box::pin(batches::serve(gateway, session, &mut ctx.request, call)).await
        }
        Ok(Admission::Mcp(body, server)) => {
            Box::pin(mcp::serve(gateway, session, &mut ctx.request, &body, server.as_deref())).await
        }
        Ok(Admission::Tools(entries, uri, body)) => {
            let mut downstream = PingoraDownstream::new(session);
            let call = ToolsCall { entries: &entries, uri, body };
            let ran = tools::run(&gateway.planner, &mut downstream, &mut ctx.request, call);
            let ran = Box::pin(ran).await;
            ran.map(|()| true).map_err(|error| native::fail_request(&mut ctx.request, error))
        }
        Ok(Admission::ResponsesSocket) => {
            Box::pin(responses_socket::serve(gateway, session, &mut ctx.request)).await
        }
        Ok(Admission::SessionToken(body, shape)) => {
            session_tokens::serve(gateway, session, &mut ctx.request, &body, shape).await
        }
        Ok(Admission::Options) => Box::pin(options::answer(session, &mut ctx.request)).await,
        Err(error) => {
            if error.kind == Kind::MalformedHttp {
                // The end of this request is unknown, so what follows must not be parsed as another one.
                session.set_keepalive(None);
            }
            Err(native::fail_request(&mut ctx.request, error))
        }
    }
}

/// Who responds to an admitted request.
enum Admission {
    Control,
    /// The gateway itself, to OPTIONS.
    Options,
    /// The gateway itself, as an MCP server; the slug of the only one behind it that is meant.
    Mcp(Body, Option<String>),
    /// The gateway, which calls MCP tools between rounds with a model.
    Tools(Vec<McpEntry>, Uri, Body),
    /// The gateway itself, with its list of models.
    Models(ModelQuery),
    /// The gateway itself, with its files and batches.
    Batches(OwnCall),
    /// The gateway itself, which is the other end of the websocket.
    ResponsesSocket,
    /// The gateway itself, with a token of a realtime session.
    SessionToken(Body, TokenShape),
    /// A provider. Boxed because it is moved several times.
    Run(Box<Admitted>),
}

/// The steps of `route::admission`, and what each needs from the connection.
async fn admit_request(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
) -> std::result::Result<Admission, Error> {
    let snapshot = start(gateway, session, ctx);
    let header = session.req_header();
    let control_paths = &gateway.control_routes.paths;
    let head = RequestHead::new(&header.method, &header.uri, &header.headers, &snapshot, control_paths);
    let endpoint = head.endpoint;
    // Set first: every refusal is written in the operation's dialect.
    ctx.api = CalledApi::of(&endpoint);
    check_framing(header)?;
    if ctx.reply.allowed_origin.is_some() && cors::is_preflight(&header.method, &header.headers) {
        return Ok(Admission::Options);
    }
    let client = identify(gateway, &head).await?;
    head.check_origin()?;
    ctx.record.client = Some(Arc::clone(&client));
    let plane = head.plane(&client)?;
    head.check_scope(&plane, &client)?;
    let reading = match plane {
        Plane::Data { body } => body,
        Plane::Control => return Ok(Admission::Control),
        Plane::Models(query) => {
            ctx.api = CalledApi { operation: query.operation(), mode: RequestMode::Api, ..ctx.api };
            return Ok(Admission::Models(query));
        }
        Plane::SessionToken { body, shape } => {
            let body = read_body(gateway, session, ctx, body).await?;
            return Ok(Admission::SessionToken(body, shape));
        }
        Plane::Options => return Ok(Admission::Options),
        Plane::Mcp { body, server } => {
            let body = read_body(gateway, session, ctx, body).await?;
            return Ok(Admission::Mcp(body, server));
        }
        Plane::ResponsesSocket => return Ok(Admission::ResponsesSocket),
        Plane::Files => return Ok(Admission::Batches(OwnCall::default())),
    };
    let (mut body, form_model) = take_body(gateway, session, ctx, reading, &client).await?;
    if creates_own(&endpoint, body.as_ref()) {
        return Ok(Admission::Batches(OwnCall { body, provider: None }));
    }
    let header = session.req_header();
    let entries = entries_to_call(gateway, header, ctx, &endpoint, body.as_ref(), &client).await?;
    let uri = auth::clean_uri(&header.headers, &header.uri, &snapshot.service_keys);
    if let Some(body) = body.take_if(|_| !entries.is_empty()) {
        return Ok(Admission::Tools(entries, uri, body));
    }
    let mut request = Request::new(endpoint, header.method.clone(), uri, body);
    request.set_form_model(form_model);
    request.stream_usage = gateway.planner.requests_stream_usage(&snapshot);
    request.read_headers(&header.headers);
    if depends_on_provider(&endpoint, &header.headers, request.uri.query()) {
        let config = gateway.planner.find_config(header, ctx, &mut request).await?;
        if let Some(provider) = batch_provider(&config, &endpoint, request.uri.query())? {
            return Ok(Admission::Batches(OwnCall { body: None, provider: Some(provider) }));
        }
    }
    let request = render_prompt(gateway, ctx, request).await?;
    plan_request(gateway, session, ctx, request).await
}

/// The MCP servers of a request that the gateway calls: those that it names for its provider as well, if its config says so.
async fn entries_to_call(
    gateway: &Gateway,
    header: &RequestHeader,
    ctx: &mut RequestContext,
    endpoint: &Endpoint,
    body: Option<&Body>,
    client: &ClientIdentity,
) -> std::result::Result<Vec<McpEntry>, Error> {
    let entries = mcp_entries(endpoint, body, client, false)?;
    let Some(body) = body.filter(|_| entries.has_others) else { return Ok(entries.own) };
    let uri = auth::clean_uri(&header.headers, &header.uri, &ctx.snapshot.service_keys);
    let mut request = Request::new(*endpoint, header.method.clone(), uri, Some(body.clone()));
    request.read_headers(&header.headers);
    let config = gateway.planner.find_config(header, ctx, &mut request).await?;
    let entries = if config.calls_all_mcp_servers() {
        mcp_entries(endpoint, Some(body), client, true)?
    } else {
        entries
    };
    Ok(entries.own)
}

/// The last steps: the plan of a request that goes to a provider.
async fn plan_request(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    mut request: Request,
) -> std::result::Result<Admission, Error> {
    let is_tuning = request.operation == Operation::FineTuningCreate;
    let planned = if is_tuning && fine_tuning::names_own_files(request.body.as_ref()) {
        Box::pin(plan_with_own_files(gateway, session, ctx, &mut request)).await
    } else {
        plan(gateway, session, ctx, &mut request).await
    };
    match planned {
        Ok(planned) => Ok(Admission::Run(planned.admit(request))),
        Err(error) => {
            ctx.record.named.model = request.model;
            Err(error)
        }
    }
}

/// The steps of a request whose body is there, if it is read at all.
async fn plan(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    request: &mut Request,
) -> std::result::Result<Planned, Error> {
    let planner = &gateway.planner;
    let config = planner.config(session.req_header(), ctx, request).await?;
    if request.reads_late(&config) && !session.is_upgrade_req() {
        // What judges the request could not see its body otherwise.
        let limit = ctx.snapshot.settings.limits.max_body_bytes;
        let has_body = !session.is_body_done();
        if let Some(reading) = BodyReading::late(&session.req_header().headers, limit, has_body) {
            request.set_late_body(read_body(gateway, session, ctx, reading).await?);
        }
    }
    if request.body.is_none() && config.may_repeat() && !session.is_upgrade_req() {
        // An upload that may have to be sent twice is read into memory; one that streams through can be sent only once.
        let limit = ctx.snapshot.settings.limits.max_body_bytes;
        if let Some(reading) = BodyReading::upload(&session.req_header().headers, limit) {
            request.body = Some(read_body(gateway, session, ctx, reading).await?);
        }
    }
    if request.body.is_none() && !session.is_body_done() {
        PingoraDownstream::new(session).send_continue().await?;
    }
    // An attempt that may be proxied natively is made now.
    let at_once = config.is_single_attempt() || session.is_upgrade_req();
    planner.plan(session.req_header(), ctx, request, config, at_once).await
}

/// Plans a fine-tuning job that is made of the gateway's own files. They are uploaded last: a request that is refused uploads nothing.
async fn plan_with_own_files(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    request: &mut Request,
) -> std::result::Result<Planned, Error> {
    let uploads = fine_tuning::convert_own_files(gateway, session, ctx, request).await?;
    let planned = plan(gateway, session, ctx, request).await?;
    planned.check(&gateway.engine, request, ctx).await?;
    for upload in uploads {
        fine_tuning::upload(gateway, session, ctx, upload).await?;
    }
    Ok(planned)
}

/// The client. Waits only for a token that names a key the gateway has not fetched yet.
pub(super) async fn identify(
    gateway: &Gateway,
    head: &RequestHead<'_>,
) -> std::result::Result<Arc<ClientIdentity>, Error> {
    match head.client(Timestamp::now()) {
        Err(error) if auth::needs_new_keys(&error) => {
            Box::pin(authentication::fetch_keys(&gateway.engine.shared)).await;
            head.client(Timestamp::now())
        }
        identified => identified,
    }
}

/// Refuses what only malformed or malicious requests have: HTTP/1.1 demands a `Host` (RFC 9112, 3.2), and of two lengths,
/// even equal ones, the next server might see only one (RFC 9110, 8.6).
fn check_framing(header: &RequestHeader) -> std::result::Result<(), Error> {
    if header.version == Version::HTTP_11 && !header.headers.contains_key(HOST) {
        return Err(
            Error::bad_framing("The request has no Host header. HTTP/1.1 demands one.").with_param("host")
        );
    }
    let mut lengths = header.headers.get_all(CONTENT_LENGTH).iter();
    let is_list = |value: &HeaderValue| value.as_bytes().contains(&b',');
    if lengths.next().is_some_and(is_list) || lengths.next().is_some() {
        let message = "The request has more than one Content-Length. Send one.";
        return Err(Error::bad_framing(message).with_param("content-length"));
    }
    Ok(())
}

/// A request that was read goes through the engine. One that was not read, and may be sent only once, is proxied
/// natively.
async fn dispatch(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut Ctx,
    mut admitted: Box<Admitted>,
) -> Result<bool> {
    if ctx.request.api.operation == Operation::FineTuningCancel
        && !admitted.first.0.provider.sends_cancelled_job()
    {
        let ctx = &mut ctx.request;
        match Box::pin(fine_tuning::cancel(gateway, session, ctx, &mut admitted)).await {
            Ok(None) => {}
            Ok(Some(refusal)) => {
                let sent = fine_tuning::send(session, ctx, refusal).await;
                return sent.map(|()| true).map_err(|error| native::fail_request(ctx, error));
            }
            Err(error) => return Err(native::fail_request(ctx, error)),
        }
    }
    let is_upgrade = session.is_upgrade_req() && admitted.request.body.is_none();
    // Pingora would forward the body of the response to a HEAD that was sent as GET.
    let keeps_method = session.req_header().method == admitted.request.method;
    let native = |attempt: &mut Box<Attempt>| keeps_method && gateway.engine.goes_native(attempt, is_upgrade);
    if let Some(attempt) = admitted.prepared.take_if(native) {
        if is_upgrade && !attempt.target.hooks.is_empty() {
            let headers = &session.req_header().headers;
            let request = &admitted.request;
            let target = &attempt.target;
            let judged = guard_upgrade(&gateway.engine, &mut ctx.request, headers, request, target).await;
            judged.map_err(|error| native::fail_request(&mut ctx.request, error))?;
        }
        ctx.request.record.is_single_attempt = admitted.plan.is_single_attempt();
        let held = gateway.engine.hold_native(&mut ctx.request, &admitted.request, attempt).await;
        let held = held.map_err(|error| native::fail_request(&mut ctx.request, error))?;
        let is_session = is_upgrade && admitted.request.operation == Operation::Realtime;
        let started = native::start(&gateway.engine, session, ctx, held).await;
        if let (true, Ok(()), Some(attempt)) = (is_session, &started, ctx.request.facts.attempt.clone()) {
            let preset = ctx.preset.take();
            return Box::pin(realtime::run(gateway, session, ctx, attempt, preset)).await;
        }
        return started.map(|()| false).map_err(|error| native::fail_request(&mut ctx.request, error));
    }
    let is_list = ctx.request.api.operation == Operation::ListGenerateContent;
    let mut downstream = PingoraDownstream::new(session).with_list(is_list);
    let sent = gateway.engine.run(&mut downstream, &mut ctx.request, admitted).await;
    sent.map(|()| true).map_err(|_| native::stopped())
}

/// Sets the trace id and the connection's timeouts. Returns the request's settings.
fn start(gateway: &Gateway, session: &mut Session, ctx: &mut RequestContext) -> Arc<SettingsSnapshot> {
    let snapshot = Arc::clone(&ctx.snapshot);
    if !snapshot.settings.auth.client_certificates.is_empty() {
        present_certificate(session, &snapshot);
    }
    let header = session.req_header();
    let parent = header.headers.get(&TRACEPARENT);
    ctx.span.parent = parent.and_then(|value| TraceParent::parse(value.to_str().ok()?));
    ctx.span.trace_id = trace_id(header, ctx.span.parent, &snapshot);
    ctx.reply.used_prefixes = snapshot.reply_headers.used_in(&header.headers);
    ctx.reply.allowed_origin = cors::allowed_origin(snapshot.settings.cors.as_ref(), &header.headers);
    ctx.reply.is_http10 = header.version == http::Version::HTTP_10;
    if gateway.engine.shared.lifecycle.is_draining() {
        session.set_keepalive(None);
    }
    let header = session.req_header();
    let offer = header.headers.get(&UPGRADE);
    if header.method != Method::GET
        || offer.is_some_and(|offer| !offer.as_bytes().eq_ignore_ascii_case(b"websocket"))
    {
        // Only a GET opens a websocket (RFC 6455, section 4.1). Some clients offer HTTP/2 with every request (`Upgrade: h2c`, as Java's does):
        // theirs are requests like any other, and pass all layers.
        session.req_header_mut().remove_header(&UPGRADE);
    }
    // HTTP/2 sessions do not pass through `listener`'s own loop, so their timeouts are set here.
    session.set_read_timeout(Some(snapshot.settings.limits.body_timeout));
    session.set_write_timeout(Some(snapshot.settings.limits.write_timeout));
    snapshot
}

/// Gives a request the service key that its client's certificate stands for.
fn present_certificate(session: &mut Session, snapshot: &SettingsSnapshot) {
    let Some(certificate) = ClientCertificate::of(session.as_downstream()) else { return };
    let header = session.req_header();
    let auth = &snapshot.settings.auth;
    let found = key_of_certificate(certificate, auth, &header.headers, &header.uri, &snapshot.service_keys);
    if let Some((name, value)) = found {
        // Only a name that is none fails, and this one was checked.
        let _ = session.req_header_mut().insert_header(name, value);
    }
}

/// The client's trace id, or the one in its `traceparent`, or a new one. One with a service key in it is none.
fn trace_id(header: &RequestHeader, parent: Option<TraceParent>, snapshot: &SettingsSnapshot) -> Arc<str> {
    let headers = &header.headers;
    let given = snapshot.trace_headers.iter().find_map(|name| headers.get(name)?.to_str().ok());
    let is_good = |id: &&str| {
        let search = || KeySearch::new(headers, &header.uri, &snapshot.service_keys);
        !id.is_empty() && id.len() <= 256 && !search().is_in_name(id)
    };
    if let Some(id) = given.filter(is_good) {
        return id.into();
    }
    parent.map_or_else(new_trace_id, |parent| parent.trace_id().into())
}

/// The body, if it is to be read, and the model that it names where it is a form.
async fn take_body(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    reading: Option<BodyReading>,
    client: &ClientIdentity,
) -> std::result::Result<(Option<Body>, Option<FormModel>), Error> {
    let Some(reading) = reading else { return Ok((None, None)) };
    let body = read_body(gateway, session, ctx, reading).await?;
    let body = with_kept_items(gateway, ctx, client, &reading, body).await?;
    let is_form = reading.content == BodyContent::Form;
    let headers = &session.req_header().headers;
    let model = if is_form { FormModel::find(headers, body.bytes()) } else { None };
    Ok((Some(body), model))
}

/// Reads the whole body.
async fn read_body(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    reading: BodyReading,
) -> std::result::Result<Body, Error> {
    let waiting = Instant::now();
    let pace = BodyPace::new(waiting, &ctx.snapshot.settings.limits);
    let bytes = collect(session, &reading, &pace, &mut ctx.load.held).await?;
    ctx.record.traffic.body_wait = waiting.elapsed();
    ctx.record.traffic.bytes_in = bytes.len() as u64;
    let coding = match reading.content {
        BodyContent::JsonObject => ContentCoding::of(&session.req_header().headers)?,
        BodyContent::AnyJson | BodyContent::Form | BodyContent::Opaque => None,
    };
    let bytes = match coding {
        Some(coding) => unpack(gateway, session, ctx, coding, &bytes, reading.limit).await?,
        None => bytes,
    };
    gateway.engine.shared.large_work.run(bytes.len(), || reading.parse(bytes)).await
}

/// Unpacks a compressed body. What comes after sees the request as if it had come unpacked.
async fn unpack(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
    coding: ContentCoding,
    packed: &Bytes,
    limit: usize,
) -> std::result::Result<Bytes, Error> {
    /// The most that deflate makes of a byte (<https://zlib.net/zlib_tech.html>). The others have no such bound.
    const DEFLATE_RATIO: usize = 1032;
    let most = match coding {
        ContentCoding::Gzip | ContentCoding::Deflate => packed.len().saturating_mul(DEFLATE_RATIO),
        ContentCoding::Brotli | ContentCoding::Zstd => limit,
    };
    let held = &mut ctx.load.held;
    let work = || coding.unpack(packed, limit, &mut |bytes| held.set(bytes));
    let bytes = gateway.engine.shared.large_work.run(most.min(limit), work).await?;
    ctx.load.held.set(bytes.len())?;
    let header = session.req_header_mut();
    header.remove_header(&http::header::CONTENT_ENCODING);
    header.remove_header(&http::header::CONTENT_LENGTH);
    Ok(bytes)
}

/// Puts the earlier items that a request refers to in the place of their references, as far as they are kept.
pub(super) async fn with_kept_items(
    gateway: &Gateway,
    ctx: &mut RequestContext,
    client: &ClientIdentity,
    reading: &BodyReading,
    body: Body,
) -> std::result::Result<Body, Error> {
    if !matches!(ctx.api.operation, Operation::Responses | Operation::ResponsesCompact) {
        return Ok(body);
    }
    let shared = &gateway.engine.shared;
    let kept = |id: &str| shared.kept_items.get(client.id.as_deref(), id);
    let size = body.bytes().len();
    let Some(bytes) = shared.large_work.run(size, || responses::with_kept_items(&body, kept)).await? else {
        return Ok(body);
    };
    ctx.load.held.set(size + bytes.len())?;
    drop(body);
    let body = shared.large_work.run(bytes.len(), || reading.parse(bytes)).await?;
    ctx.load.held.set(body.bytes().len())?;
    Ok(body)
}

/// The bytes of the body. A single chunk is used as it is; several are copied into one buffer.
async fn collect(
    session: &mut Session,
    reading: &BodyReading,
    pace: &BodyPace,
    held: &mut Hold,
) -> std::result::Result<Bytes, Error> {
    let mut downstream = PingoraDownstream::new(session);
    downstream.send_continue().await?;
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    let mut timer = ReusableTimer::default();
    let mut size = 0;
    let mut turn = Turn::default();
    loop {
        turn.give_up().await;
        let left = pace.deadline(size).saturating_duration_since(Instant::now());
        let chunk = timer.timeout(left, downstream.next_chunk()).await.unwrap_or_else(|| {
            downstream.close_after_response();
            Err(pace.error())
        });
        let Some(chunk) = chunk? else { break };
        size += chunk.len();
        turn.count(chunk.len());
        reading.check_size(size)?;
        held.set(size)?;
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
    Ok(large_work::freed_elsewhere(first.unwrap_or_else(|| whole.freeze())))
}

/// A request to a prompt's completions as the chat or completion that it stands for.
async fn render_prompt(
    gateway: &Gateway,
    ctx: &mut RequestContext,
    request: Request,
) -> std::result::Result<Request, Error> {
    if request.operation != Operation::PromptCompletions {
        return Ok(request);
    }
    let workspace = ctx.record.client.as_ref().and_then(|client| client.workspace);
    let prompts = ctx.snapshot.stored.prompts(workspace);
    let work = request.rendering_work(prompts).max(ctx.record.traffic.bytes_in as usize);
    let rendered = gateway.engine.shared.large_work.run(work, || request.rendered(prompts)).await?;
    ctx.record.named.prompt = rendered.prompt.as_ref().map(|call| call.found.clone());
    ctx.load.held.set(rendered.size())?;
    Ok(rendered)
}
