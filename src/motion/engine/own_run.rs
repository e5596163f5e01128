//! Sends a request of the gateway's own: plans it, runs it with a client in memory, and records it.
//!
//! What such a request is: `own_request`.

use super::Engine;
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
use judgment::route::compile::{Sources, compile_without_hooks};
use judgment::route::plan::Plan;
use pingora::http::RequestHeader;
use std::sync::Arc;
use words::api::body::Body;
use words::config::headers::GatewayHeaders;
use words::config::policies::Policies;
use words::error::Error;

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
    ctx.record.client = own.client.cloned();
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
    let admitted = admit_own(engine, &ctx, own, body, |body| Request::new(endpoint, method, uri, body))
        .map_err(|error| OwnError::Refused(Box::new(error)))?;
    let mut downstream = MemoryDownstream::new(RequestHeader::from(head), None).with_limit(own.max_response);
    let sent = engine.run(&mut downstream, &mut ctx, admitted).await;
    engine.record(&downstream, &mut ctx);
    let response = downstream.into_response().filter(|_| sent.is_ok());
    let Some((header, body, true)) = response else {
        let incomplete = || Error::invalid_response("The provider gave no complete response.", "incomplete");
        return Err(OwnError::Failed(Box::new(ctx.failure.unwrap_or_else(incomplete))));
    };
    if header.status.is_success() {
        Ok(body.concat())
    } else {
        Err(OwnError::Status(header.status, body.concat()))
    }
}

fn admit_own(
    engine: &Arc<Engine>,
    ctx: &RequestContext,
    own: &OwnRequest<'_>,
    body: Option<String>,
    request: impl FnOnce(Option<Body>) -> Request,
) -> Result<Box<Admitted>, Error> {
    let body = body.map(|body| Body::parse(Bytes::from(body))).transpose();
    let request = request(body.map_err(|why| Error::bad_request(why.to_string()))?);
    let is_provider = own.config.starts_with('@');
    let policies = own.timeout.map(|limit| Policies { request_timeout: Some(limit), ..Policies::default() });
    let gateway_headers = GatewayHeaders {
        provider: Some(own.config).filter(|_| is_provider),
        config: Some(own.config).filter(|_| !is_provider),
        policies: policies.map(|policies| Box::new(policies.into())),
        ..GatewayHeaders::default()
    };
    let sources = Sources::new(&ctx.snapshot, &gateway_headers, None, &request, ctx.workspace());
    let config = Arc::new(compile_without_hooks(&sources)?);
    let mut env =
        RequestEnv { shared: Arc::clone(&engine.shared), client: own.client.cloned(), request: None };
    let mut plan = Plan::new(config, None);
    let first = plan
        .first(&mut env)
        .ok_or_else(|| Error::bad_request("The config of this request has no target for it."))?;
    Ok(Box::new(Admitted { plan, request, env, first, prepared: None }))
}
