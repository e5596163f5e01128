//! Sends a request of the gateway's own: plans it, has the limits of its client hold it, runs it with a client in memory, and records it.
//!
//! What such a request is: `own_request`.

use super::Engine;
use super::error_response;
use super::limit_holds::reserve_request;
use super::memory_downstream::MemoryDownstream;
use super::orchestrator::Admitted;
use super::own_request::{OwnError, OwnRequest};
use super::request_context::{CalledApi, RequestContext};
use super::request_env::RequestEnv;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Uri};
use judgment::route::admission::Endpoint;
use judgment::route::attempt::Request;
use judgment::route::compile::{Sources, compile_own};
use judgment::route::config_hooks::OwnHooks;
use judgment::route::plan::Plan;
use pingora::http::RequestHeader;
use std::sync::Arc;
use words::api::body::Body;
use words::config::headers::GatewayHeaders;
use words::config::policies::Policies;
use words::error::{Error, Kind};

/// Sends a request of the gateway's own, and returns the body of its response. `body`: JSON to post; `None` is a GET.
pub(super) fn send<'a>(
    engine: &'a Arc<Engine>,
    own: &'a OwnRequest<'_>,
    body: Option<String>,
) -> BoxFuture<'a, Result<Vec<u8>, OwnError>> {
    // Boxed, since it runs within the run of a client's request.
    Box::pin(send_in_turn(engine, own, body))
}

async fn send_in_turn(
    engine: &Arc<Engine>,
    own: &OwnRequest<'_>,
    body: Option<String>,
) -> Result<Vec<u8>, OwnError> {
    let mut ctx = RequestContext::new(&engine.shared);
    ctx.snapshot = Arc::clone(own.snapshot);
    ctx.span.trace_id = Arc::clone(own.trace_id);
    ctx.record.client.clone_from(&own.payer.client);
    ctx.record.named.metadata.clone_from(&own.payer.metadata);
    ctx.limits.advance.clone_from(&own.payer.advance);
    ctx.limits.behalf = Some(Box::new(own.payer.behalf.clone()));
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let uri = Uri::from_static(own.path);
    let endpoint = Endpoint::find(&method, uri.path());
    ctx.api = CalledApi::of(&endpoint);
    let mut head = http::Request::new(());
    (*head.method_mut(), *head.uri_mut()) = (method.clone(), uri.clone());
    if body.is_some() {
        head.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let (head, ()) = head.into_parts();
    let body = body.map(|body| Body::parse(Bytes::from(body))).transpose();
    let body = body.map_err(|why| OwnError::Refused(Box::new(Error::bad_request(why.to_string()))))?;
    let request = Request::new(endpoint, method, uri, body);
    let mut downstream = MemoryDownstream::new(RequestHeader::from(head), None).with_limit(own.max_response);
    let sent = match plan_own(engine, &mut ctx, own, request).await {
        Ok(admitted) => engine.run(&mut downstream, &mut ctx, admitted).await,
        // Its client sees in the log what was refused.
        Err(error) if error.limit.is_some() => error_response::send(&mut downstream, &mut ctx, error).await,
        Err(error) => return Err(OwnError::Refused(Box::new(error))),
    };
    let failure = ctx.failure.clone();
    engine.record(&downstream, &mut ctx);
    // Nothing was sent to a provider, or no other target had room.
    let is_refused = |error: &Error| {
        error.limit.is_some() || matches!(error.kind, Kind::HooksFailed | Kind::ModelForbidden)
    };
    if let Some(error) = failure.as_ref().filter(|error| is_refused(error)) {
        return Err(OwnError::Refused(Box::new(error.clone())));
    }
    let response = downstream.into_response().filter(|_| sent.is_ok());
    let Some((header, body, true)) = response else {
        let incomplete = || Error::invalid_response("The provider gave no complete response.", "incomplete");
        return Err(OwnError::Failed(Box::new(failure.unwrap_or_else(incomplete))));
    };
    if header.status.is_success() {
        Ok(body.concat())
    } else {
        Err(OwnError::Status(header.status, body.concat()))
    }
}

/// Plans it, and holds what it may use.
///
/// # Errors
/// 400 where it cannot be sent, and those of limits.
async fn plan_own(
    engine: &Arc<Engine>,
    ctx: &mut RequestContext,
    own: &OwnRequest<'_>,
    mut request: Request,
) -> Result<Box<Admitted>, Error> {
    if own.is_of_config {
        let client = own.payer.client.as_ref();
        request.allowed_models = client.and_then(|client| client.defaults.allowed_models.clone());
    }
    let is_provider = own.config.starts_with('@');
    let policies = own.timeout.map(|limit| Policies { request_timeout: Some(limit), ..Policies::default() });
    let gateway_headers = GatewayHeaders {
        provider: Some(own.config).filter(|_| is_provider),
        config: Some(own.config).filter(|_| !is_provider),
        policies: policies.map(|policies| Box::new(policies.into())),
        ..GatewayHeaders::default()
    };
    let hooks = if own.is_judged { OwnHooks::OfWorkspace } else { OwnHooks::None };
    let sources = Sources::new(&ctx.snapshot, &gateway_headers, None, &request, ctx.workspace());
    let config = Arc::new(compile_own(&sources, hooks)?);
    let client = own.payer.client.clone();
    let mut env = RequestEnv::plain(&engine.shared, client);
    let mut plan = Plan::new(Arc::clone(&config), None);
    let first = plan
        .first(&mut env)
        .ok_or_else(|| Error::bad_request("The config of this request has no target for it."))?;
    reserve_request(engine, ctx, &mut request, &config, &first.0).await?;
    Ok(Box::new(Admitted { plan, request, env, first, prepared: None }))
}
