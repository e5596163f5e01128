//! One attempt's exchange with its provider: connected, sent, and the answer read piece by piece.
//!
//! On Pingora's connections, but not in its proxy loop: that would be a second session for each attempt, with a head
//! written and parsed once more. Knows the provider only: what the pieces mean is `trial`'s and `relay`'s.

use super::failure;
use super::request_context::AttemptHandle;
use super::upstream_request;
use crate::net::outbound::connection::UpstreamConnection;
use crate::net::outbound::connector::Connector;
use crate::state::Shared;
use crate::state::snapshot::SettingsSnapshot;
use bytes::Bytes;
use parking_lot::Mutex;
use pingora::http::RequestHeader;
use pingora_core::protocols::http::HttpTask;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error as PingoraError, ErrorType, Result};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::mpsc::Receiver;

/// Connections one attempt may use up: other addresses, and one in the place of a dead one.
const MOST_CONNECTIONS: usize = 16;
/// What is read ahead of who takes it, in pieces and in bytes.
const MOST_WAITING: usize = 32;
const MOST_WAITING_BYTES: usize = 64 << 10;

/// Everything one attempt needs to be made.
pub(crate) struct Exchange {
    pub shared: Arc<Shared>,
    pub connections: Arc<Connector>,
    pub live: Arc<SettingsSnapshot>,
    pub errand: AttemptHandle,
    /// Complete but for what the HTTP version asks for.
    pub head: RequestHeader,
    pub body: RequestBody,
    pub outlet: Arc<ResponseQueue>,
    /// Whoever takes the pieces bounds the wait for each of them.
    pub is_timed: bool,
}

/// The request's body.
pub(crate) enum RequestBody {
    Nothing,
    Held(Bytes),
    /// It comes from the caller while it is sent.
    Live(Receiver<HttpTask>),
}

/// Where the pieces of an answer wait to be taken.
#[derive(Default)]
pub(crate) struct ResponseQueue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    pieces: VecDeque<HttpTask>,
    bytes: usize,
}

impl ResponseQueue {
    pub fn take(&self) -> Option<HttpTask> {
        let mut waiting = self.0.lock();
        let piece = waiting.pieces.pop_front()?;
        waiting.bytes -= bytes_of(&piece);
        Some(piece)
    }

    pub fn put(&self, piece: HttpTask) {
        let mut waiting = self.0.lock();
        waiting.bytes += bytes_of(&piece);
        waiting.pieces.push_back(piece);
    }

    /// Waits until there is room. Wakes nobody: whoever takes a piece goes on with the exchange next.
    async fn room(&self) {
        poll_fn(|_| {
            let waiting = self.0.lock();
            let full = waiting.pieces.len() >= MOST_WAITING || waiting.bytes >= MOST_WAITING_BYTES;
            if full { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }
}

fn bytes_of(piece: &HttpTask) -> usize {
    match piece {
        HttpTask::Body(Some(chunk), _) => chunk.len(),
        _ => 0,
    }
}

impl Exchange {
    /// Carries it out. What comes of it, failures too, is put into the outlet.
    pub async fn run(mut self) {
        if let Err(error) = self.attempt().await {
            self.outlet.put(HttpTask::Failed(error));
        }
    }

    async fn attempt(&mut self) -> Result<()> {
        let body = match &self.body {
            RequestBody::Held(body) => body.len(),
            _ => 0,
        };
        let mut failed = None;
        for _ in 0..MOST_CONNECTIONS {
            let peer = match upstream_request::peer(&self.shared, &self.errand, &self.live, false).await {
                Ok(peer) => peer,
                Err(error) => return Err(failure::fail_attempt(&self.errand, error)),
            };
            let (mut connection, reused) = match self.connections.get(&peer, body).await {
                Ok(opened) => opened,
                Err(error) => {
                    let error = failure::fail_to_connect(&self.shared, error.into_up(), Some(&self.errand));
                    if !error.retry() {
                        return Err(error);
                    }
                    failed = Some(error);
                    continue;
                }
            };
            match self.once(&mut connection, &peer).await {
                Ok(can_be_used_again) => {
                    if can_be_used_again {
                        self.connections.release(connection, &peer).await;
                    }
                    return Ok(());
                }
                Err(error) => {
                    if matches!(error.etype(), ErrorType::H2Downgrade | ErrorType::InvalidH2) {
                        self.connections.prefer_h1(&peer);
                    }
                    if matches!(connection, UpstreamConnection::H2(_)) {
                        // Other requests are on it.
                        self.connections.release(connection, &peer).await;
                    }
                    let repeats = !matches!(self.body, RequestBody::Live(_));
                    let error =
                        failure::error_while_proxy(error.into_up(), Some(&self.errand), reused, repeats);
                    if !error.retry() {
                        return Err(error);
                    }
                    failed = Some(error);
                }
            }
        }
        Err(failed.unwrap_or_else(|| PingoraError::explain(ErrorType::ConnectError, "no connection to use")))
    }

    /// One try on one connection; whether the connection is as good as new behind it.
    async fn once(&mut self, connection: &mut UpstreamConnection, peer: &HttpPeer) -> Result<bool> {
        if !self.is_timed {
            connection.set_read_timeout(peer.options.read_timeout);
        }
        let over = matches!(self.body, RequestBody::Nothing);
        connection.send_header(Box::new(self.head.clone()), over, peer.is_tls()).await?;
        let unsent = match &self.body {
            RequestBody::Nothing => None,
            // A provider may answer without having read it all.
            RequestBody::Held(body) => connection.send_body(Some(body.clone()), true).await.err(),
            RequestBody::Live(_) => return Box::pin(self.both_ways(connection)).await,
        };
        loop {
            match connection.read_task().await {
                Ok(piece) => {
                    if self.tell(piece) {
                        return Ok(unsent.is_none());
                    }
                    self.outlet.room().await;
                }
                Err(error) => return Err(unsent.unwrap_or(error)),
            }
        }
    }

    /// The body goes out as it comes in, and the answer may begin before that is over.
    async fn both_ways(&mut self, connection: &mut UpstreamConnection) -> Result<bool> {
        let (mut sending, mut answering, mut unsent) = (true, true, None);
        let mut is_sent = false;
        while sending || answering {
            let RequestBody::Live(body) = &mut self.body else { break };
            tokio::select! {
                piece = connection.read_task(), if answering => match piece {
                    Ok(piece) => {
                        answering = !self.tell(piece);
                        // What is left of the body is not wanted any more: the caller is not made to send it.
                        sending &= answering;
                        self.outlet.room().await;
                    }
                    Err(error) => return Err(unsent.unwrap_or(error)),
                },
                chunk = body.recv(), if sending => {
                    let Some(HttpTask::Body(chunk, end)) = chunk else {
                        // Half a body must not pass for a whole one.
                        return Err(PingoraError::explain(ErrorType::ConnectionClosed, "the caller's body broke off"));
                    };
                    (sending, is_sent) = (!end, end);
                    if let Err(error) = connection.send_body(chunk, end).await {
                        (sending, is_sent, unsent) = (false, false, Some(error));
                    }
                }
            }
        }
        Ok(is_sent)
    }

    /// Puts a piece out; true when it was the last one.
    fn tell(&self, piece: HttpTask) -> bool {
        if let HttpTask::Header(head, _) = &piece {
            upstream_request::mark_response_header(head, &self.errand);
        }
        let end = piece.is_end();
        if end {
            upstream_request::mark_response_end(&self.errand);
        }
        self.outlet.put(piece);
        end
    }
}
