//! A client's request that came over no connection, such as a line of a batch, or a call that a provider's own batch needs: admitted,
//! run and recorded as any other.
//!
//! Not a request of the gateway's own (`own_request`), which has no hooks but its workspace's.

pub use super::attempt::GivenResponse;
use super::error_response;
use super::memory_downstream::MemoryDownstream;
pub use super::memory_downstream::ResponseHead;
use super::orchestrator::Admitted;
use super::planner::Planner;
use super::record_builder::RecordSource;
use super::request_context::{CalledApi, OfflineTerms, RequestContext};
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, StatusCode, Uri};
use judgment::route::admission::Endpoint;
use judgment::route::attempt::Request;
use judgment::route::compiled::CompiledConfig;
use judgment::route::request_mode::RequestMode;
use memory::auth::ClientIdentity;
use memory::limits::{Advance, AdvanceEstimate};
use pingora::http::RequestHeader;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use words::api::body::Body;
use words::api::operation::BodyKind;
use words::api::trace::{TRACEPARENT, TraceParent};
use words::error::Error;

/// A request: of an operation with a JSON body or without one, or below `/v1/proxy/`, where the body is any, and is sent as it is.
#[derive(Debug)]
pub struct OfflineRequest<'a> {
    pub method: Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    /// Empty: it has none.
    pub body: Bytes,
    /// Whether limits count it. A call that only manages what other requests are charged for is under none.
    pub is_limited: bool,
    /// Whether it is sent once only, whatever its config's retries are.
    pub is_sent_once: bool,
    /// What is held of budgets for it, and others, already.
    pub advance: Option<Arc<Advance>>,
    pub trace_id: &'a Arc<str>,
    /// Who sends it, or why that one may not.
    pub client: Result<Arc<ClientIdentity>, Error>,
    /// The largest response, bytes.
    pub max_response: usize,
    /// What a provider's batch job has made of the request: no target is called.
    pub given: Option<GivenResponse>,
    /// Where the client's connection comes from, if it has one.
    pub address: Option<IpAddr>,
}

/// A complete response, of a provider or of the gateway.
#[derive(Debug)]
pub struct OfflineResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<Bytes>,
}

impl Planner {
    /// Runs a request to its end. Its client leaves when `leaves` becomes true.
    ///
    /// # Errors
    /// Why there is no complete response.
    pub async fn run_offline(
        &self,
        request: OfflineRequest<'_>,
        leaves: watch::Receiver<bool>,
    ) -> Result<OfflineResponse, String> {
        self.send_offline(request, leaves, None, None).await
    }

    /// Runs a request to its end, and sends the body of a successful response to `chunks` as it arrives, and its head to `head` before
    /// that, where anyone wants it; any other response is in the result. A receiver that is dropped ends the request.
    ///
    /// # Errors
    /// Why there is no complete response: what was sent to `chunks` is not whole.
    pub async fn stream_offline(
        &self,
        request: OfflineRequest<'_>,
        leaves: watch::Receiver<bool>,
        head: Option<oneshot::Sender<ResponseHead>>,
        chunks: mpsc::Sender<Bytes>,
    ) -> Result<OfflineResponse, String> {
        self.send_offline(request, leaves, head, Some(chunks)).await
    }

    /// Adds what a request is expected to use of budgets to the sum of its batch. Sends nothing.
    ///
    /// # Errors
    /// The request would be refused: it uses nothing.
    pub(crate) async fn estimate_offline(
        &self,
        request: OfflineRequest<'_>,
        sum: &mut AdvanceEstimate,
    ) -> Result<(), Error> {
        let header = header(&request).map_err(|why| Error::bad_request(why.to_string()))?;
        let mut ctx = RequestContext::new(&self.engine.shared);
        ctx.load.in_flight = None;
        let mut request = self.read_offline(&mut ctx, request).await?;
        self.add_to_advance(&header, &mut ctx, &mut request, sum).await
    }

    async fn send_offline(
        &self,
        mut request: OfflineRequest<'_>,
        leaves: watch::Receiver<bool>,
        head: Option<oneshot::Sender<ResponseHead>>,
        chunks: Option<mpsc::Sender<Bytes>>,
    ) -> Result<OfflineResponse, String> {
        let header = header(&request).map_err(|why| why.to_string())?;
        let mut ctx = RequestContext::new(&self.engine.shared);
        ctx.span.trace_id = Arc::clone(request.trace_id);
        let parent = request.headers.get(&TRACEPARENT);
        ctx.span.parent = parent.and_then(|value| TraceParent::parse(value.to_str().ok()?));
        if request.given.is_some() {
            ctx.record.source = RecordSource::BatchJob;
        }
        ctx.offline = OfflineTerms {
            given: request.given.take().map(Box::new),
            is_unlimited: !request.is_limited,
            is_sent_once: request.is_sent_once,
            watch: None,
        };
        ctx.record.traffic.bytes_in = request.body.len() as u64;
        let max_response = request.max_response;
        let address = request.address;
        let admitted = self.admit_offline(&header, &mut ctx, request).await;
        let mut downstream = MemoryDownstream::new(header, None)
            .with_limit(max_response)
            .with_address(address)
            .leaving_with(leaves)
            .with_head_to(head)
            .with_chunks_to(chunks);
        let sent = match admitted {
            Ok(admitted) => self.engine.run(&mut downstream, &mut ctx, admitted).await,
            Err(error) => error_response::send(&mut downstream, &mut ctx, error).await,
        };
        self.engine.record(&downstream, &mut ctx);
        match downstream.into_response() {
            Some((header, body, true)) if sent.is_ok() => {
                Ok(OfflineResponse { status: header.status, headers: header.headers.clone(), body })
            }
            _ => {
                let why = ctx.failure.map(|error| error.message);
                Err(why.unwrap_or_else(|| "The response is not complete.".to_owned()))
            }
        }
    }

    /// The compiled config of requests with these headers: which targets they have.
    ///
    /// # Errors
    /// As [`Planner::config`].
    pub(crate) async fn offline_config(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        client: Arc<ClientIdentity>,
    ) -> Result<Arc<CompiledConfig>, Error> {
        let mut header = RequestHeader::build(Method::POST, uri.path().as_bytes(), None)
            .map_err(|why| Error::internal(why.to_string()))?;
        for (name, value) in headers {
            header.append_header(name, value).map_err(|why| Error::bad_request(why.to_string()))?;
        }
        let mut ctx = RequestContext::new(&self.engine.shared);
        ctx.load.in_flight = None;
        ctx.record.client = Some(client);
        let endpoint = Endpoint::find(&Method::POST, uri.path());
        let mut request = Request::new(endpoint, Method::POST, uri.clone(), None);
        self.find_config(&header, &mut ctx, &mut request).await
    }

    async fn parse(&self, body: Bytes) -> Result<Body, Error> {
        let parsed = self.engine.shared.large_work.run(body.len(), || Body::parse(body)).await;
        parsed.map_err(|why| {
            Error::bad_request(format!("The request body must be a JSON object: {why}.")).with_param("body")
        })
    }

    async fn admit_offline(
        &self,
        header: &RequestHeader,
        ctx: &mut RequestContext,
        offline: OfflineRequest<'_>,
    ) -> Result<Box<Admitted>, Error> {
        let mut request = self.read_offline(ctx, offline).await?;
        let planned = match self.config(header, ctx, &mut request).await {
            Ok(config) => self.plan(header, ctx, &mut request, config, false).await,
            Err(error) => Err(error),
        };
        match planned {
            Ok(planned) => Ok(planned.admit(request)),
            Err(error) => {
                ctx.record.named.model = request.model;
                Err(error)
            }
        }
    }

    async fn read_offline(
        &self,
        ctx: &mut RequestContext,
        offline: OfflineRequest<'_>,
    ) -> Result<Request, Error> {
        let endpoint = Endpoint::find(&offline.method, offline.uri.path());
        ctx.api = CalledApi::of(&endpoint);
        ctx.record.client = Some(offline.client?);
        ctx.limits.advance = offline.advance;
        let body = match (endpoint.mode, offline.body) {
            (RequestMode::Passthrough, body) if body.is_empty() => None,
            // A form.
            (RequestMode::Api, body) if endpoint.operation.body_kind() == BodyKind::Opaque => {
                Some(Body::opaque(body))
            }
            // Not to be edited either: `override_params` are for the bodies of operations.
            (RequestMode::Passthrough, body) => Some(Body::opaque(body)),
            (RequestMode::Api, body)
                if body.is_empty() && endpoint.operation.body_kind() != BodyKind::Json =>
            {
                None
            }
            (RequestMode::Api, body) => Some(self.parse(body).await?),
        };
        let mut request = Request::new(endpoint, offline.method, offline.uri.clone(), body);
        request.is_own = endpoint.mode == RequestMode::Passthrough;
        request.stream_usage = self.requests_stream_usage(&ctx.snapshot);
        request.read_headers(offline.headers);
        Ok(request)
    }
}

fn header(request: &OfflineRequest<'_>) -> pingora_core::Result<RequestHeader> {
    let target = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let mut header = RequestHeader::build(request.method.clone(), target.as_bytes(), None)?;
    for (name, value) in request.headers {
        header.append_header(name, value)?;
    }
    header.insert_header(CONTENT_LENGTH, request.body.len())?;
    Ok(header)
}
