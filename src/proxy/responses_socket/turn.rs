//! One event of a websocket, run as the POST that asks for the same response: the steps of `proxy::admit` whose body has come already, then
//! the engine.
//!
//! Knows no connection. What it sends goes to `turn_downstream`.

use super::super::{Gateway, admit};
use super::answer::Failure;
use super::handshake::Handshake;
use super::turn_downstream::TurnDownstream;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use judgment::route::admission::{BodyReading, Plane, RequestHead};
use judgment::route::attempt::{Attempt, Request};
use judgment::route::compiled::CompiledConfig;
use memory::auth;
use memory::state::held_bytes::Hold;
use motion::engine::downstream::Downstream;
use motion::engine::header_edit::{HeaderCase, edit_response_headers};
use motion::engine::orchestrator::Admitted;
use motion::engine::request_context::{CalledApi, RequestContext};
use motion::engine::{error_response, response_headers};
use pingora_core::protocols::http::HttpTask;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};
use words::api::Dialect;
use words::api::error_body::ErrorView;
use words::api::responses::socket::{Conversation, CreateEvent, warmed_up};
use words::error::Error;

/// An event, and what it is run with.
pub(super) struct TurnCall {
    pub gateway: Gateway,
    pub handshake: Arc<Handshake>,
    /// Which event of its connection it is, from 1.
    pub number: u64,
    pub event: Bytes,
    /// What the connection remembers.
    pub last: Option<Arc<Conversation>>,
    pub parts: mpsc::Sender<HttpTask>,
    pub leaves: watch::Receiver<bool>,
}

/// What is known at the end of a turn.
#[derive(Default)]
pub(super) struct TurnEnd {
    /// The items of the conversation up to this request; `None`: its beginning is the provider's alone.
    pub items: Option<Vec<u8>>,
    /// Counts them.
    pub hold: Option<Hold>,
    /// Whether the gateway wrote the response's items.
    pub is_translated: bool,
    pub failure: Option<Failure>,
}

/// A turn under way.
struct Turn<'a> {
    gateway: &'a Gateway,
    handshake: &'a Handshake,
    last: Option<&'a Conversation>,
    ctx: RequestContext,
    downstream: TurnDownstream,
    /// As in [`TurnEnd`].
    items: Option<Vec<u8>>,
    hold: Hold,
}

/// Runs an event to the end of its response. All that the client gets of it is sent as parts, errors too.
pub(super) async fn run(call: TurnCall) -> TurnEnd {
    let TurnCall { gateway, handshake, number, event, last, parts, leaves } = call;
    let mut ctx = RequestContext::new(&gateway.engine.shared);
    // One for each response: ids of items are made from it.
    ctx.span.trace_id = format!("{}-{number}", handshake.trace_id).into();
    ctx.span.parent = handshake.parent;
    ctx.reply.used_prefixes = ctx.snapshot.reply_headers.used_in(&handshake.headers);
    ctx.record.traffic.bytes_in = event.len() as u64;
    let request = match handshake.request(event.len()) {
        Ok(request) => request,
        Err(error) => return TurnEnd { failure: Some(Failure::of(&error)), ..TurnEnd::default() },
    };
    let downstream = TurnDownstream { request, address: handshake.address, parts, leaves, sent_status: None };
    let hold = ctx.load.held.another();
    let last = last.as_deref();
    let mut turn =
        Turn { gateway: &gateway, handshake: &handshake, last, ctx, downstream, items: None, hold };
    let sent = match turn.admit(event).await {
        Ok(Some(admitted)) => gateway.engine.run(&mut turn.downstream, &mut turn.ctx, admitted).await,
        Ok(None) => Ok(()),
        Err(error) => error_response::send(&mut turn.downstream, &mut turn.ctx, error).await,
    };
    let Turn { mut ctx, downstream, items, hold, .. } = turn;
    let failure = ctx.failure.as_ref().map(Failure::of).filter(|_| sent.is_err());
    let translation = ctx.facts.attempt.as_ref().and_then(|attempt| attempt.translation.as_ref());
    let is_translated = translation.is_some_and(|translation| !translation.is_patch());
    gateway.engine.record(&downstream, &mut ctx);
    TurnEnd { items, hold: Some(hold), is_translated, failure }
}

impl Failure {
    fn of(error: &Error) -> Self {
        Self { status: error.status(), body: ErrorView::from(error).body(Dialect::OpenAi) }
    }
}

impl<'a> Turn<'a> {
    /// `None`: the client has its response.
    async fn admit(&mut self, event: Bytes) -> Result<Option<Box<Admitted>>, Error> {
        let reading = self.identify().await?;
        let read = self.gateway.engine.shared.large_work.run(event.len(), || CreateEvent::read(event)).await;
        let event = read?;
        let mut request = self.request(&reading, &event, self.resent_at_once(&event)).await?;
        let mut config = self.config(&mut request).await?;
        if let Some(earlier) = self.resent_for(&event, &request, &config)? {
            request = self.request(&reading, &event, Some(earlier)).await?;
            config = self.config(&mut request).await?;
        }
        self.items = match self.earlier(&event) {
            Some(earlier) => earlier.is_whole().then(|| earlier.followed_by(&event.items())),
            None => event.previous.is_none().then(|| event.items()),
        };
        self.hold.set(self.items.as_ref().map_or(0, Vec::len))?;
        if !event.generates {
            self.warm_up(&event).await?;
            return Ok(None);
        }
        let planner = &self.gateway.planner;
        let planned =
            planner.plan(&self.downstream.request, &mut self.ctx, &mut request, config, false).await;
        match planned {
            Ok(planned) => Ok(Some(planned.admit(request))),
            Err(error) => {
                self.ctx.record.named.model = request.model;
                Err(error)
            }
        }
    }

    /// Who the client is now: its key may have ended since the handshake.
    async fn identify(&mut self) -> Result<BodyReading, Error> {
        let header = &self.downstream.request;
        let paths = &self.gateway.control_routes.paths;
        let snapshot = Arc::clone(&self.ctx.snapshot);
        let head = RequestHead::new(&header.method, &header.uri, &header.headers, &snapshot, paths);
        self.ctx.api = CalledApi::of(&head.endpoint);
        let client = admit::identify(self.gateway, &head).await?;
        head.check_origin()?;
        self.ctx.record.client = Some(Arc::clone(&client));
        let plane = head.plane(&client)?;
        head.check_scope(&plane, &client)?;
        match plane {
            Plane::Data { body: Some(reading) } => Ok(reading),
            _ => Err(Error::not_found("No responses are made at this path.")),
        }
    }

    /// The request with the body of this event, and of the conversation before it where that is sent again.
    async fn request(
        &mut self,
        reading: &BodyReading,
        event: &CreateEvent,
        earlier: Option<&Conversation>,
    ) -> Result<Request, Error> {
        let gateway = self.gateway;
        let shared = &gateway.engine.shared;
        let before = earlier.map_or(0, Conversation::size);
        reading.check_size(before)?;
        self.ctx.load.held.set(event.size() + before)?;
        let parse = || {
            let body = event.request(earlier);
            reading.check_size(body.len())?;
            reading.parse(body)
        };
        let body = shared.large_work.run(event.size() + before, parse).await?;
        self.downstream.request = self.handshake.request(body.bytes().len())?;
        let header = &self.downstream.request;
        let client =
            self.ctx.record.client.clone().unwrap_or_else(|| self.ctx.snapshot.service_keys.anonymous());
        let body = admit::with_kept_items(gateway, &mut self.ctx, &client, reading, body).await?;
        let paths = &gateway.control_routes.paths;
        let endpoint =
            RequestHead::new(&header.method, &header.uri, &header.headers, &self.ctx.snapshot, paths)
                .endpoint;
        let uri = auth::clean_uri(&header.headers, &header.uri, &self.ctx.snapshot.service_keys);
        let mut request = Request::new(endpoint, header.method.clone(), uri, Some(body));
        request.stream_usage = gateway.planner.requests_stream_usage(&self.ctx.snapshot);
        request.read_headers(&header.headers);
        Ok(request)
    }

    async fn config(&mut self, request: &mut Request) -> Result<Arc<CompiledConfig>, Error> {
        self.gateway.planner.config(&self.downstream.request, &mut self.ctx, request).await
    }

    /// The conversation that the event goes on from, if it is the connection's.
    fn earlier(&self, event: &CreateEvent) -> Option<&'a Conversation> {
        self.last.filter(|last| Some(last.id()) == event.previous.as_deref())
    }

    /// The conversation to send again whoever the provider is: nobody keeps it.
    fn resent_at_once(&self, event: &CreateEvent) -> Option<&'a Conversation> {
        self.earlier(event).filter(|earlier| earlier.is_whole() && !earlier.is_stored())
    }

    /// The conversation to send again because a target keeps no responses.
    ///
    /// # Errors
    /// 400: no target keeps responses, and the connection has not the one that the event goes on from.
    fn resent_for(
        &self,
        event: &CreateEvent,
        request: &Request,
        config: &CompiledConfig,
    ) -> Result<Option<&'a Conversation>, Error> {
        let Some(id) = event.previous.as_deref().filter(|_| self.resent_at_once(event).is_none()) else {
            return Ok(None);
        };
        let is_translated = |target: &Arc<_>| Attempt::is_translated(target, request);
        let earlier = self.earlier(event).filter(|earlier| earlier.is_whole());
        match earlier {
            Some(_) => Ok(earlier.filter(|_| config.targets().iter().any(is_translated))),
            None if config.targets().iter().all(is_translated) => Err(Error::previous_response_not_found(id)),
            None => Ok(None),
        }
    }

    /// Sends the response to an event that asks for none. No provider is called.
    async fn warm_up(&mut self, event: &CreateEvent) -> Result<(), Error> {
        let id = format!("resp_{}", self.ctx.span.trace_id);
        let stream = warmed_up(event, &id, Timestamp::now().as_second());
        let mut header = response_headers::new_header(StatusCode::OK)?;
        edit_response_headers(&mut header, HeaderCase::Lower, |headers| {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        });
        self.ctx.record.streamed = true;
        self.ctx.record.traffic.bytes_out = stream.len() as u64;
        let parts =
            vec![HttpTask::Header(Box::new(header), false), HttpTask::Body(Some(stream.into()), true)];
        self.downstream.send(parts).await
    }
}
