//! May this request pass, and where to: a list read from top to bottom. Each step may answer and end the
//! story.
//!
//! Order is meaning: nobody's body is read before we know who sends it. What a step means lives in its own
//! file or room; here is only the order, and what each step needs of the one before.

use super::ctx::{Ctx, Errand, new_trace_id};
use super::head::{Names, edit_request};
use super::known::Known;
use super::{Gateway, answer, authorize, failure, handover, orchestrate, upstream};
use crate::api::body::Body;
use crate::api::operation::{BodyKind, Operation};
use crate::api::trace::TraceParent;
use crate::config::headers::GatewayHeaders;
use crate::error::Error;
use crate::route::attempt::{Attempt, REPLAYED, Request};
use crate::route::compile::{Sources, compile};
use crate::route::leaf::Leaf;
use crate::route::plan::{Plan, Why};
use crate::route::told::Told;
use crate::route::tree::Tree;
use crate::state::live::Live;
use crate::state::who;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use pingora_core::Result;
use pingora_proxy::Session;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most of `x-gateway-metadata` an access line carries, bytes.
const MOST_METADATA: usize = 4096;

/// Takes a request in. `Ok(true)`: it was answered. `Ok(false)`: Pingora takes it upstream.
pub(super) async fn request(gateway: &Gateway, session: &mut Session, ctx: &mut Ctx) -> Result<bool> {
    begin(gateway, session, ctx);
    let call = match door(gateway, session, ctx) {
        Ok(Door::Control) => return Box::pin(handover::answer(gateway, session, ctx)).await,
        Ok(Door::Data(call)) => call,
        Err(error) => return Err(failure::of_ours(ctx, error)),
    };
    if let Err(error) = upstream::check_hop(&session.req_header().headers) {
        session.set_keepalive(None);
        return Err(failure::of_ours(ctx, error));
    }
    let mut read = match body(session, ctx, &call).await {
        Ok(body) => request_of(session, call, body),
        Err(error) => return Err(failure::of_ours(ctx, error)),
    };
    let tree = match plan(gateway, session, ctx, &mut read) {
        Ok(tree) => tree,
        Err(error) => return Err(failure::of_ours(ctx, error)),
    };
    if let Err(error) = hold_upload(session, ctx, &tree, &mut read).await {
        return Err(failure::of_ours(ctx, error));
    }
    if read.body.is_none() && !session.is_body_done() {
        let told = welcome(session).await;
        told.map_err(|error| failure::of_ours(ctx, error))?;
    }
    let mut known = known(gateway, session, ctx, &tree, &read);
    let mut plan = Plan::new(Arc::clone(&tree), read.model.clone());
    let Some(first) = plan.first(&mut known) else {
        return Err(failure::of_ours(ctx, Error::internal("a config without a target")));
    };
    let drive = Drive { plan, request: read, known, first };
    ctx.record.is_plain = tree.is_plain();
    match tree.is_plain() || session.is_upgrade_req() {
        true => plain(gateway, session, ctx, drive).await,
        false => orchestrate(gateway, session, ctx, drive, None).await,
    }
}

/// What is known when the first target is.
struct Drive {
    plan: Plan,
    request: Request,
    known: Known,
    first: (Arc<Leaf>, Why),
}

/// One target, one try: Pingora takes it there itself, unless the answer must be held.
async fn plain(gateway: &Gateway, session: &mut Session, ctx: &mut Ctx, drive: Drive) -> Result<bool> {
    let attempt = match Attempt::new(Arc::clone(&drive.first.0), &drive.request) {
        Ok(attempt) => attempt,
        Err(error) => return Err(failure::of_ours(ctx, error)),
    };
    if attempt.local.is_some() {
        ctx.errand = Some(Errand::new(Arc::new(attempt)));
        Box::pin(answer::local(session, ctx)).await?;
        return Ok(true);
    }
    if !goes_direct(session, &drive.request, &attempt) {
        return orchestrate(gateway, session, ctx, drive, Some(attempt)).await;
    }
    let names = Names::of_request(ctx, &attempt.leaf, session.is_upgrade_req());
    // Pingora copies the head it sends on. Written as a whole address, its target must stay as it was written.
    if names == Names::Lower && session.req_header().raw_path().starts_with(b"/") {
        edit_request(session.req_header_mut(), names, |_| {});
    }
    let errand = Errand::new(Arc::new(attempt));
    ctx.errand = Some(errand.clone());
    // An upgraded connection has no other way than the direct one.
    match authorize::authorized(gateway, session, ctx, &errand, None).await {
        Ok(()) => Ok(false),
        Err(error) => Err(failure::of_ours(ctx, error)),
    }
}

/// `made`: the first attempt, where it was made already.
async fn orchestrate(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut Ctx,
    drive: Drive,
    made: Option<Attempt>,
) -> Result<bool> {
    let Drive { plan, request, known, first: (leaf, why) } = drive;
    let driver = orchestrate::Drive {
        gateway,
        session,
        ctx,
        plan,
        request,
        known,
        made: made.map(Box::new),
        begun: false,
        rescue: None,
        stale: false,
    };
    driver.run(orchestrate::Turn { leaf, wait: Duration::ZERO, why }).await?;
    Ok(true)
}

/// What the plan may ask about.
fn known(gateway: &Gateway, session: &Session, ctx: &Ctx, tree: &Tree, request: &Request) -> Known {
    let live = ctx.live.as_ref().filter(|_| tree.asks_facts());
    let told = live.map(|live| {
        let head = session.req_header();
        Box::new(Told {
            live: Arc::clone(live),
            headers: head.headers.clone(),
            metadata: ctx.record.metadata.as_ref().map(|metadata| metadata.get().to_owned()),
            pathname: head.uri.path().to_owned(),
            body: request.body.clone(),
        })
    });
    Known { shared: Arc::clone(&gateway.shared), key: ctx.record.key.clone(), told }
}

/// An upload that could have to be sent twice is held, when it is not too large; what streams by can be sent
/// once only.
async fn hold_upload(
    session: &mut Session,
    ctx: &mut Ctx,
    tree: &Tree,
    request: &mut Request,
) -> std::result::Result<(), Error> {
    let limit = ctx.live.as_ref().map_or(0, |live| live.settings.limits.max_body_bytes);
    let length = content_length(&session.req_header().headers);
    let holds = request.body.is_none() && tree.may_repeat() && length.is_some_and(|n| n > 0 && n <= limit);
    if holds && !session.is_upgrade_req() {
        let bytes = collect(session, length, limit).await?;
        ctx.record.bytes_in = bytes.len() as u64;
        request.body = Some(Body::opaque(bytes));
    }
    Ok(())
}

/// Which plane a request is for.
enum Door {
    Control,
    Data(Call),
}

/// What a request to the data plane is for.
struct Call {
    operation: Operation,
    /// Where the path below the version segment, and below `proxy/`, begins.
    below: usize,
    /// It came by `/v1/proxy/`, which passes what it does not understand.
    is_proxied: bool,
}

/// Everything starts here: trace id, settings in force, the count of requests under way.
fn begin(gateway: &Gateway, session: &mut Session, ctx: &mut Ctx) {
    let live = gateway.shared.live_arc();
    let head = session.req_header();
    ctx.trace_id = trace_id(&head.headers, &live);
    ctx.is_http10 = head.version == http::Version::HTTP_10;
    ctx.under_way = Some(gateway.shared.phase.enter());
    if gateway.shared.phase.is_draining() {
        session.set_keepalive(None);
    }
    // HTTP/2 sessions do not come through the front: their time limits are set here.
    session.set_read_timeout(Some(live.settings.limits.body_timeout));
    session.set_write_timeout(Some(live.settings.limits.write_timeout));
    ctx.live = Some(live);
}

/// The caller's trace id, the trace of its `traceparent`, or a new one.
fn trace_id(headers: &HeaderMap, live: &Live) -> String {
    let given = live.trace_headers.iter().find_map(|name| headers.get(name)?.to_str().ok());
    if let Some(id) = given.filter(|id| !id.is_empty() && id.len() <= 256) {
        return id.to_owned();
    }
    let parent = headers.get("traceparent").and_then(|value| TraceParent::parse(value.to_str().ok()?));
    parent.map_or_else(new_trace_id, |parent| parent.trace_id())
}

/// Who calls, and what for.
fn door(gateway: &Gateway, session: &Session, ctx: &mut Ctx) -> std::result::Result<Door, Error> {
    let Some(live) = &ctx.live else { return Err(Error::internal("no settings")) };
    let head = session.req_header();
    let path = head.uri.path();
    let below = path.strip_prefix("/v1/");
    // Dialect first: whatever fails from here on is told in it.
    let proxied = below.and_then(|below| below.strip_prefix("proxy/"));
    let relative = proxied.or(below);
    if let Some(relative) = relative {
        ctx.operation = Operation::find(&head.method, relative);
    }
    if gateway.handover.owns_path(path) {
        return Ok(Door::Control);
    }
    let who = who::find(&head.headers, live)?;
    ctx.record.key = who.name;
    ctx.bearer_is_ours = who.by_bearer;
    let Some(relative) = relative.filter(|relative| !relative.is_empty()) else {
        return Err(Error::not_found(format!(
            "There is nothing at {path}. The API is below /v1, for example /v1/chat/completions."
        )));
    };
    if below.is_some_and(|below| gateway.handover.owns(below)) {
        return Ok(Door::Control);
    }
    if !matches!(head.method.as_str(), "GET" | "POST" | "PUT" | "DELETE") {
        return Err(Error::method_not_allowed(format!(
            "{} is not passed on. Use POST, GET, PUT or DELETE.",
            head.method
        )));
    }
    let is_proxied = proxied.is_some();
    ctx.is_proxied = is_proxied;
    let below = path.len() - relative.len();
    Ok(Door::Data(Call { operation: ctx.operation, below, is_proxied }))
}

/// Reads the body where it may choose the target; leaves it to stream where nothing needs it.
async fn body(session: &mut Session, ctx: &mut Ctx, call: &Call) -> std::result::Result<Option<Body>, Error> {
    let limit = ctx.live.as_ref().map_or(0, |live| live.settings.limits.max_body_bytes);
    let head = session.req_header();
    let length = content_length(&head.headers);
    let compressed = head.headers.contains_key(header::CONTENT_ENCODING);
    // Any other path: JSON is read so that @slug/model and override_params work there too; what is too long
    // to read streams through as it comes.
    let passed_on = call.is_proxied || call.operation == Operation::Passthrough;
    let wanted = match call.operation.body_kind() {
        _ if passed_on => {
            is_json(&head.headers) && !compressed && length.is_some_and(|n| n > 0 && n <= limit)
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
    // Only what passes as it is may go direct, and then Pingora replays what it buffered; a length that is not told
    // may be small.
    if passed_on && length.is_none_or(|length| length <= REPLAYED) {
        session.downstream_session.enable_retry_buffering();
    }
    let bytes = collect(session, length, limit).await?;
    ctx.record.body_wait = waiting.elapsed();
    ctx.record.bytes_in = bytes.len() as u64;
    match Body::parse(bytes.clone()) {
        Ok(body) => Ok(Some(body)),
        Err(_) if passed_on => Ok(Some(Body::opaque(bytes))),
        Err(_) if bytes.is_empty() => {
            Err(Error::bad_request("The request body must be a JSON object, and it is empty."))
        }
        Err(why) => Err(Error::bad_request(format!("The request body must be a JSON object: {why}."))),
    }
}

/// Tells a caller that waits to be asked for its body to send it: the provider never hears of that.
async fn welcome(session: &mut Session) -> std::result::Result<(), Error> {
    if session.req_header().headers.contains_key(header::EXPECT) {
        let told = session.downstream_session.write_continue_response().await;
        told.map_err(|_| Error::client_closed())?;
    }
    Ok(())
}

/// The body's bytes. One piece stays as it is; several are put together once.
async fn collect(
    session: &mut Session,
    length: Option<usize>,
    limit: usize,
) -> std::result::Result<Bytes, Error> {
    welcome(session).await?;
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    loop {
        let piece = match session.downstream_session.read_request_body().await {
            Ok(piece) => piece,
            Err(error) => {
                // Where the body ends is unknown now: what follows must not be taken for a request.
                session.set_keepalive(None);
                return Err(failure::translate(&error.into_down(), None));
            }
        };
        let Some(piece) = piece else { break };
        if whole.len() + first.as_ref().map_or(0, Bytes::len) + piece.len() > limit {
            return Err(Error::body_too_large(limit as u64));
        }
        match first.take() {
            None if whole.is_empty() => first = Some(piece),
            None => whole.extend_from_slice(&piece),
            Some(before) => {
                whole.reserve(length.unwrap_or(2 * before.len()).max(before.len() + piece.len()));
                whole.extend_from_slice(&before);
                whole.extend_from_slice(&piece);
            }
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

fn request_of(session: &Session, call: Call, body: Option<Body>) -> Request {
    let head = session.req_header();
    let Call { operation, below, is_proxied } = call;
    let mut request = Request::new(operation, head.method.clone(), head.uri.clone(), below, body);
    request.is_proxied = is_proxied;
    request
}

/// The tree the request asks for: remembered, or compiled now.
fn plan(
    gateway: &Gateway,
    session: &Session,
    ctx: &mut Ctx,
    request: &mut Request,
) -> std::result::Result<Arc<Tree>, Error> {
    let Some(live) = ctx.live.clone() else { return Err(Error::internal("no settings")) };
    let headers = &session.req_header().headers;
    let asked = GatewayHeaders::read(headers, &live.settings.header_prefixes)?;
    let bearer = asked.bearer.filter(|_| !ctx.bearer_is_ours);
    ctx.record.metadata = asked
        .metadata
        .filter(|text| text.len() <= MOST_METADATA)
        .and_then(|text| RawValue::from_string(text.to_owned()).ok());
    let sources = Sources {
        settings: &live.settings,
        hosts: &live.hosts,
        asked: &asked,
        bearer,
        model_slug: request.slug.as_deref(),
    };
    let key = sources.key(live.generation);
    let known = key.as_deref().and_then(|key| gateway.trees.find(key));
    let tree = match known {
        Some(tree) => tree,
        None => {
            let tree = Arc::new(compile(&sources)?);
            if let Some(key) = key {
                gateway.trees.keep(key, &tree);
            }
            tree
        }
    };
    request.check(&tree)?;
    Ok(tree)
}

/// Whether Pingora may take the request upstream itself.
fn goes_direct(session: &Session, request: &Request, attempt: &Attempt) -> bool {
    if session.is_upgrade_req() {
        return attempt.translation.is_none();
    }
    attempt.goes_direct(request)
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let media = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}
