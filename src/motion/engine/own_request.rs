//! A request of the gateway's own, on behalf of a client's: a model that judges, a text that becomes a vector, a provider's list of models.
//!
//! It takes the way of any other request, with a client in memory. It has its own plan, retries and record, so what it costs is counted; it is under no limits, guardrails or cache, which are the client's request's.

use super::Engine;
use super::memory_downstream::MemoryDownstream;
use super::orchestrator::Admitted;
use super::request_context::{CalledApi, RequestContext};
use super::request_env::RequestEnv;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode, Uri};
use judgment::route::admission::Endpoint;
use judgment::route::attempt::Request;
use judgment::route::compile::{Sources, compile_without_hooks};
use judgment::route::plan::Plan;
use memory::auth::ClientIdentity;
use memory::state::snapshot::SettingsSnapshot;
use pingora::http::RequestHeader;
use std::sync::Arc;
use std::time::Duration;
use words::api::body::Body;
use words::config::headers::GatewayHeaders;
use words::config::policies::Policies;
use words::error::Error;

/// What a request of the gateway's own is sent with.
pub(super) struct OwnRequest<'a> {
    /// The settings of the client's request.
    pub snapshot: &'a Arc<SettingsSnapshot>,
    /// Who pays for it.
    pub client: Option<&'a Arc<ClientIdentity>>,
    pub trace_id: &'a Arc<str>,
    /// Of an operation whose body, where it has one, is JSON.
    pub path: &'static str,
    /// A config, the id of a saved one, or the `@slug` of a provider.
    pub config: &'a str,
    /// How long the provider may take, where its config does not say.
    pub timeout: Option<Duration>,
    /// The largest response, bytes.
    pub max_response: usize,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum OwnError {
    /// The request cannot be sent.
    Refused(Box<Error>),
    /// It was sent, and there is no complete response.
    Failed(Box<Error>),
    /// The provider's response is an error: its status and its body.
    Status(StatusCode, Vec<u8>),
}

impl Engine {
    /// Sends a request of the gateway's own, and returns the body of its response. `body`: JSON to post; `None` is a GET.
    pub(super) fn send_own<'a>(
        self: &'a Arc<Self>,
        own: &'a OwnRequest<'_>,
        body: Option<String>,
    ) -> BoxFuture<'a, Result<Vec<u8>, OwnError>> {
        // Boxed, since it runs within the run of a client's request.
        Box::pin(self.send_in_turn(own, body))
    }

    async fn send_in_turn(
        self: &Arc<Self>,
        own: &OwnRequest<'_>,
        body: Option<String>,
    ) -> Result<Vec<u8>, OwnError> {
        let mut ctx = RequestContext::new(&self.shared);
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
        let admitted = self
            .admit_own(&ctx, own, body, |body| Request::new(endpoint, method, uri, body))
            .map_err(|error| OwnError::Refused(Box::new(error)))?;
        let mut downstream =
            MemoryDownstream::new(RequestHeader::from(head), None).with_limit(own.max_response);
        let sent = self.run(&mut downstream, &mut ctx, admitted).await;
        self.record(&downstream, &mut ctx);
        let response = downstream.into_response().filter(|_| sent.is_ok());
        let Some((header, body, true)) = response else {
            let incomplete =
                || Error::invalid_response("The provider gave no complete response.", "incomplete");
            return Err(OwnError::Failed(Box::new(ctx.failure.unwrap_or_else(incomplete))));
        };
        if header.status.is_success() {
            Ok(body.concat())
        } else {
            Err(OwnError::Status(header.status, body.concat()))
        }
    }

    fn admit_own(
        self: &Arc<Self>,
        ctx: &RequestContext,
        own: &OwnRequest<'_>,
        body: Option<String>,
        request: impl FnOnce(Option<Body>) -> Request,
    ) -> Result<Box<Admitted>, Error> {
        let body = body.map(|body| Body::parse(Bytes::from(body))).transpose();
        let request = request(body.map_err(|why| Error::bad_request(why.to_string()))?);
        let is_provider = own.config.starts_with('@');
        let policies =
            own.timeout.map(|limit| Policies { request_timeout: Some(limit), ..Policies::default() });
        let gateway_headers = GatewayHeaders {
            provider: Some(own.config).filter(|_| is_provider),
            config: Some(own.config).filter(|_| !is_provider),
            policies: policies.map(|policies| Box::new(policies.into())),
            ..GatewayHeaders::default()
        };
        let sources = Sources::new(&ctx.snapshot, &gateway_headers, None, &request, ctx.workspace());
        let config = Arc::new(compile_without_hooks(&sources)?);
        let mut env =
            RequestEnv { shared: Arc::clone(&self.shared), client: own.client.cloned(), request: None };
        let mut plan = Plan::new(config, None);
        let first = plan
            .first(&mut env)
            .ok_or_else(|| Error::bad_request("The config of this request has no target for it."))?;
        Ok(Box::new(Admitted { plan, request, env, first, prepared: None }))
    }
}

impl OwnError {
    /// What happened, for whoever needed the response.
    pub fn message(&self) -> String {
        match self {
            Self::Refused(error) | Self::Failed(error) => error.message.clone(),
            Self::Status(status, _) => format!("The provider responded with status {}.", status.as_u16()),
        }
    }
}
