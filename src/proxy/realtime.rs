//! The websocket of a realtime session, between the client's connection and the provider's: every message passes
//! `engine::realtime` on its way.
//!
//! Messages pass whole and as they are. Not here: what passes (`engine::realtime`), and tokens of sessions (`session_tokens`).

use super::Gateway;
use super::downstream::PingoraDownstream;
use super::native::{self, Ctx};
use bytes::Bytes;
use http::StatusCode;
use http::header::UPGRADE;
use judgment::route::admission::meant;
use judgment::route::attempt::Attempt;
use memory::net::outbound::connection::UpstreamConnection;
use memory::state::lifecycle::Lifecycle;
use motion::engine::downstream::Downstream;
use motion::engine::failure;
use motion::engine::realtime::{self, ClientStep, RealtimeSession};
use motion::engine::request_span::new_trace_id;
use motion::engine::upstream_headers::remove_hop_by_hop;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use serde_json::{Map, Value};
use std::sync::Arc;
use words::api::realtime::events::{error_event, update_event};
use words::api::realtime::frames::{Frame, FrameError, FrameReader, Sender, close_frame, text_frame};
use words::error::Error;

/// The code of the close frame of a session that is ended because of its key (RFC 6455, 7.4.1).
const POLICY_VIOLATION: u16 = 1008;
const NO_KEY: &str = "the key of this session is not good any more";
/// That of one that ends with the process.
const GOING_AWAY: u16 = 1001;
/// That of one for which there is not enough memory.
const TRY_AGAIN: u16 = 1013;

/// A session that is open.
struct Tunnel<'a> {
    session: &'a mut Session,
    ctx: &'a mut Ctx,
    provider: UpstreamConnection,
    realtime: RealtimeSession,
    lifecycle: Lifecycle,
    of_client: FrameReader,
    of_provider: FrameReader,
}

/// Why a session is over. Both ends are told by then, as far as they can be.
struct Over;

/// Opens the session and carries it to its end. `preset`: what it is set to first.
pub(super) async fn run(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut Ctx,
    attempt: Arc<Attempt>,
    preset: Option<Map<String, Value>>,
) -> Result<bool> {
    let client = session.req_header().clone();
    let opened = open(gateway, session, ctx, &attempt, &client).await;
    let (provider, response, is_end) =
        opened.map_err(|error| native::fail_request(&mut ctx.request, error))?;
    let is_open = response.status == StatusCode::SWITCHING_PROTOCOLS;
    let mut response = response;
    native::response_filter(&client, &mut response, ctx);
    let head = vec![HttpTask::Header(response, is_end)];
    let sent = PingoraDownstream::new(session).send(head).await;
    sent.map_err(|error| native::fail_request(&mut ctx.request, error))?;
    if !is_open {
        return pass_refusal(session, ctx, provider, is_end).await;
    }
    let limits = &ctx.request.snapshot.settings.limits;
    let max = limits.max_body_bytes;
    let idle = limits.upstream_read_timeout;
    // A client that listens may be silent as long as its provider.
    session.set_read_timeout(Some(idle));
    let realtime = RealtimeSession::new(&gateway.engine, &ctx.request, attempt, client);
    let mut tunnel = Tunnel {
        session,
        ctx,
        provider,
        realtime,
        lifecycle: gateway.engine.shared.lifecycle.clone(),
        of_client: FrameReader::new(Sender::Client, max),
        of_provider: FrameReader::new(Sender::Provider, max),
    };
    tunnel.carry(preset).await;
    let Tunnel { realtime, .. } = tunnel;
    realtime.end().await;
    Ok(true)
}

async fn open(
    gateway: &Gateway,
    session: &Session,
    ctx: &mut Ctx,
    attempt: &Attempt,
    client: &RequestHeader,
) -> std::result::Result<(UpstreamConnection, Box<ResponseHeader>, bool), Error> {
    let is_websocket = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"websocket");
    if !client.headers.get(UPGRADE).is_some_and(is_websocket) {
        return Err(Error::bad_request("A realtime session is a websocket: send Upgrade: websocket."));
    }
    if meant::models_in_query(&client.uri).len() > 1 {
        return Err(Error::invalid_request("model", "The query names two models: a session has one."));
    }
    let mut header = client.clone();
    remove_hop_by_hop(&mut header);
    if native::upstream_request_filter(session, &mut header, ctx).is_err() {
        let failed = ctx.request.failure.take();
        return Err(failed.unwrap_or_else(|| Error::internal("no header to send")));
    }
    realtime::open(&gateway.engine, &mut ctx.request, attempt, header).await
}

/// Sends the client the response of a provider that opens no session.
async fn pass_refusal(
    session: &mut Session,
    ctx: &mut Ctx,
    mut provider: UpstreamConnection,
    mut is_end: bool,
) -> Result<bool> {
    while !is_end {
        let (mut chunk, end) = match provider.read_task().await {
            Ok(HttpTask::Body(chunk, end)) => (chunk, end),
            Ok(_) => (None, true),
            Err(error) => {
                let error = failure::translate(&error.into_up(), None);
                return Err(native::fail_request(&mut ctx.request, error));
            }
        };
        is_end = end;
        native::response_body_filter(&mut chunk, end, ctx);
        let sent = PingoraDownstream::new(session).send(vec![HttpTask::Body(chunk, end)]).await;
        sent.map_err(|error| native::fail_request(&mut ctx.request, error))?;
    }
    ctx.request.facts.state.response_ended();
    Ok(true)
}

impl Tunnel<'_> {
    async fn carry(&mut self, preset: Option<Map<String, Value>>) {
        if let Some(preset) = preset {
            let update = update_event(&Value::Object(preset));
            if self.take_message(Bytes::new(), update.as_bytes()).await.is_err() {
                return;
            }
        }
        let lifecycle = self.lifecycle.clone();
        loop {
            let step = tokio::select! {
                () = lifecycle.aborted() => self.end_with_process().await,
                read = self.session.downstream_session.read_request_body() => match read {
                    Ok(Some(bytes)) => self.take_of_client(&bytes).await,
                    Ok(None) => return,
                    Err(error) => {
                        self.ctx.request.failure = Some(failure::translate(&error.into_down(), None));
                        return;
                    }
                },
                task = self.provider.read_task() => match task {
                    Ok(HttpTask::UpgradedBody(chunk, is_end)) => {
                        let taken = self.take_of_provider(&chunk.unwrap_or_default()).await;
                        if is_end { Err(Over) } else { taken }
                    }
                    Ok(_) => Err(Over),
                    Err(error) => {
                        let target = self.ctx.request.facts.attempt.as_ref().map(|attempt| attempt.target.as_ref());
                        self.ctx.request.failure = Some(failure::translate(&error.into_up(), target));
                        Err(Over)
                    }
                },
            };
            if step.is_err() {
                // What is sent last is flushed; the connection ends with the request.
                let _ = PingoraDownstream::new(self.session).send(vec![HttpTask::Done]).await;
                return;
            }
        }
    }

    async fn take_of_client(&mut self, bytes: &[u8]) -> std::result::Result<(), Over> {
        self.ctx.request.record.traffic.bytes_in += bytes.len() as u64;
        self.of_client.push(bytes);
        loop {
            match self.of_client.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Control { raw })) => self.send_provider(raw).await?,
                Ok(Some(Frame::Message { raw, payload })) => self.take_message(raw, &payload).await?,
                Err(error) => return self.refuse_frames(error).await,
            }
        }
        self.hold_memory().await
    }

    /// Takes a message of the client; the one without frames is the gateway's own.
    async fn take_message(&mut self, raw: Bytes, payload: &[u8]) -> std::result::Result<(), Over> {
        let is_own = raw.is_empty();
        match self.realtime.from_client(payload).await {
            ClientStep::Pass if is_own => {
                let text = std::str::from_utf8(payload).unwrap_or_default();
                self.send_provider(text_frame(Sender::Client, text)).await
            }
            ClientStep::Pass => self.send_provider(raw).await,
            ClientStep::Replace(text) => self.send_provider(text_frame(Sender::Client, &text)).await,
            ClientStep::Drop => Ok(()),
            ClientStep::Refuse(event) => self.send_client(text_frame(Sender::Provider, &event)).await,
            ClientStep::End(event) => {
                self.send_client(text_frame(Sender::Provider, &event)).await?;
                self.close(POLICY_VIOLATION, NO_KEY).await
            }
        }
    }

    async fn take_of_provider(&mut self, bytes: &[u8]) -> std::result::Result<(), Over> {
        self.of_provider.push(bytes);
        loop {
            match self.of_provider.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Control { raw })) => self.send_client(raw).await?,
                Ok(Some(Frame::Message { raw, payload })) => {
                    let step = self.realtime.from_provider(&payload, &raw).await;
                    // First: what a client does not take any more must end at its provider all the same.
                    if let Some(event) = step.to_provider {
                        self.send_provider(text_frame(Sender::Client, &event)).await?;
                    }
                    self.send_client(raw).await?;
                    if let Some(event) = step.to_client {
                        self.send_client(text_frame(Sender::Provider, &event)).await?;
                    }
                    if step.ends {
                        return self.close(POLICY_VIOLATION, NO_KEY).await;
                    }
                }
                Err(error) => return self.refuse_frames(error).await,
            }
        }
        self.hold_memory().await
    }

    async fn refuse_frames(&mut self, error: FrameError) -> std::result::Result<(), Over> {
        let (code, reason) = error.close();
        self.close(code, reason).await
    }

    /// Counts what has arrived of messages that are not whole yet.
    async fn hold_memory(&mut self) -> std::result::Result<(), Over> {
        let held = self.of_client.held() + self.of_provider.held();
        match self.ctx.request.load.held.set(held) {
            Ok(()) => Ok(()),
            Err(_) => self.close(TRY_AGAIN, "the gateway has no memory left for this message").await,
        }
    }

    /// Ends the session because the time of a stop or an upgrade is over.
    async fn end_with_process(&mut self) -> std::result::Result<(), Over> {
        let error = Error::draining();
        let event = error_event(&error, None, &new_trace_id());
        self.ctx.request.failure = Some(error);
        self.send_client(text_frame(Sender::Provider, &event)).await?;
        self.close(GOING_AWAY, "the gateway stops; connect again").await
    }

    /// Ends the session at both ends.
    async fn close(&mut self, code: u16, reason: &str) -> std::result::Result<(), Over> {
        let _ = self.send_provider(close_frame(Sender::Client, 1000, "")).await;
        self.send_client(close_frame(Sender::Provider, code, reason)).await?;
        Err(Over)
    }

    async fn send_provider(&mut self, frames: Bytes) -> std::result::Result<(), Over> {
        let sent = self.provider.send_body(Some(frames), false).await;
        sent.map_err(|error| {
            self.ctx.request.failure = Some(failure::translate(&error.into_up(), None));
            Over
        })
    }

    async fn send_client(&mut self, frames: Bytes) -> std::result::Result<(), Over> {
        let mut chunk = Some(frames);
        native::response_body_filter(&mut chunk, false, self.ctx);
        let sent =
            PingoraDownstream::new(self.session).send(vec![HttpTask::UpgradedBody(chunk, false)]).await;
        sent.map_err(|error| {
            self.ctx.request.failure = Some(error);
            Over
        })
    }
}
