//! One attempt's exchange with its provider: opened, then read part by part. Dropping it before the response is
//! complete closes the upstream connection at once.
//!
//! A state machine and not a task: it makes progress only while its owner awaits the next part, so a response that is
//! not consumed is not read. It does not interpret the parts (`attempt_run`).

use super::attempt::{GivenResponse, LocalResponse};
use super::attempt_state::AttemptState;
use super::caching::FlightReader;
use super::connections::{Connections, OpenConnection};
use super::failure::{UpstreamFailure, refused_by_proxy};
use super::mcp::McpWatch;
use super::opener::{Opener, RequestBody};
use super::places::Places;
use super::response_headers;
use super::reusable_timer::ReusableTimer;
use super::streamed_upload::{BodyChunk, StreamedUpload, UploadEvent};
use super::turn::Turn;
use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use judgment::route::target::Target;
use memory::cache::CachedResponse;
use memory::net::outbound::proxied::Proxied;
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use pingora_core::{Error as PingoraError, ErrorType};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;
use words::error::Error;

/// How long [`UpstreamStream::drain`] waits for the end of a response that the client already has.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The most parts that are gathered for one write.
const MAX_BATCH: usize = 32;
/// The largest request body that is sent so fast that the sending needs no timeout, bytes.
const MAX_UNTIMED_BODY: usize = 64 << 10;

/// The exchange of one attempt, as its owner reads it.
pub(super) struct UpstreamStream {
    exchange: Exchange,
    timer: ReusableTimer,
    /// The longest wait for one part; `None` if the connection itself has a timeout.
    read_timeout: Option<Duration>,
    /// Since when the next part is awaited.
    waiting_since: Option<Instant>,
    /// A failure met while parts were gathered, not reported yet.
    failed: Option<UpstreamFailure>,
    turn: Turn,
}

/// The result of reading from an attempt.
pub(super) enum StreamEvent {
    Task(HttpTask),
    Failed(UpstreamFailure),
    /// Nothing was read before the deadline.
    TimedOut,
}

/// The bytes of a body that a part has.
fn body_len(task: &HttpTask) -> usize {
    match task {
        HttpTask::Body(Some(bytes), _) => bytes.len(),
        _ => 0,
    }
}

type Opening = Pin<Box<dyn Future<Output = (Box<Opener>, Result<OpenConnection, UpstreamFailure>)> + Send>>;

enum Phase {
    Opening(Opening),
    Reading(Box<OpenConnection>),
    Uploading(Box<StreamedUpload>),
    /// A response made by the gateway itself.
    Local(VecDeque<HttpTask>),
    /// A response that is sent at the pace at which it once arrived: each part so long after the first one is asked for.
    Paced(VecDeque<(Duration, HttpTask)>, Option<Instant>),
    /// A response that several requests read.
    Shared(FlightReader),
    /// The same at its end: others may still join as long as it is here.
    SharedEnded(#[expect(dead_code, reason = "held, and not read any more")] FlightReader),
    Ended,
}

struct Exchange {
    connections: Arc<Connections>,
    target: Arc<Target>,
    phase: Phase,
    /// Opens another connection if a reused one turns out dead.
    opener: Option<Box<Opener>>,
    /// The client's body, until the connection is open.
    upload: Option<Receiver<BodyChunk>>,
    state: AttemptState,
    stale_connection_met: bool,
    /// The proxy that answers in the provider's place where it does not forward the request.
    forwarding: Option<Proxied>,
    /// Its places at the target, until the response has ended.
    places: Option<Places>,
    /// Where it is noted for others that the request has left for the provider.
    sent: Option<Arc<AtomicBool>>,
    /// What finds the end of a response that its server may not end.
    watch: Option<Box<McpWatch>>,
    /// The response is complete, and its body may go on: nothing of that is read.
    is_cut: bool,
}

impl UpstreamStream {
    /// `upload`: the client's body, if it is forwarded as it arrives.
    pub fn new(mut opener: Box<Opener>, upload: Option<Receiver<BodyChunk>>, state: AttemptState) -> Self {
        // A provider that does not respond while a large body is sent is not idle: the connection has the timeout then.
        opener.reader_is_timed = match &opener.body {
            RequestBody::Empty => true,
            RequestBody::Whole(body) => body.len() <= MAX_UNTIMED_BODY,
            RequestBody::Streamed => false,
        };
        let read_timeout = opener.snapshot.settings.limits.upstream_read_timeout;
        Self {
            read_timeout: Some(read_timeout).filter(|_| opener.reader_is_timed),
            exchange: Exchange {
                connections: Arc::clone(&opener.connections),
                target: Arc::clone(&opener.target),
                stale_connection_met: opener.peers.bypass_pool,
                phase: Phase::Opening(opening(opener)),
                forwarding: None,
                places: None,
                sent: None,
                watch: None,
                is_cut: false,
                opener: None,
                upload,
                state,
            },
            timer: ReusableTimer::default(),
            waiting_since: None,
            failed: None,
            turn: Turn::default(),
        }
    }

    /// Has it noted there for others when the request has left for the provider.
    pub fn note_sent_in(&mut self, sent: Arc<AtomicBool>) {
        self.exchange.sent = Some(sent);
    }

    /// Has its response watched, which ends where `watch` finds its end.
    pub fn watch_with(&mut self, watch: Option<Box<McpWatch>>) {
        self.exchange.watch = watch;
    }

    /// How many bytes of the response are held to watch it.
    pub fn watched_bytes(&self) -> usize {
        self.exchange.watch.as_ref().map_or(0, |watch| watch.held_bytes())
    }

    /// Whether the response is complete, and its body may go on.
    pub fn is_cut(&self) -> bool {
        self.exchange.is_cut
    }

    /// An exchange that cannot be opened: reading it gives `error`.
    pub fn failed(
        connections: &Arc<Connections>,
        target: &Arc<Target>,
        error: Error,
        state: AttemptState,
    ) -> Self {
        Self {
            failed: Some(error.into()),
            ..Self::without_upstream(connections, target, Phase::Ended, state)
        }
    }

    /// An exchange whose response is made by the gateway itself.
    pub fn local(
        connections: &Arc<Connections>,
        target: &Arc<Target>,
        response: LocalResponse,
        state: AttemptState,
    ) -> Self {
        let LocalResponse { content_type, body } = response;
        Self::whole(connections, target, StatusCode::OK, content_type, body, state)
    }

    /// An exchange whose response the provider has given before, in a batch job.
    pub fn given(
        connections: &Arc<Connections>,
        target: &Arc<Target>,
        given: GivenResponse,
        state: AttemptState,
    ) -> Self {
        let GivenResponse { status, body } = given;
        Self::whole(connections, target, status, "application/json", body, state)
    }

    fn whole(
        connections: &Arc<Connections>,
        target: &Arc<Target>,
        status: StatusCode,
        content_type: &'static str,
        body: Bytes,
        state: AttemptState,
    ) -> Self {
        let header = match response_headers::new_header(status) {
            Ok(header) => header,
            Err(error) => return Self::failed(connections, target, error, state),
        };
        let mut parts = http::response::Parts::from(header);
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        parts.headers.insert(CONTENT_LENGTH, body.len().into());
        let header = Box::new(ResponseHeader::from(parts));
        let parts = VecDeque::from([HttpTask::Header(header, false), HttpTask::Body(Some(body), true)]);
        Self::without_upstream(connections, target, Phase::Local(parts), state)
    }

    /// An exchange of another request, which this one reads along with, or has started.
    pub fn shared(
        connections: &Arc<Connections>,
        target: &Arc<Target>,
        reader: FlightReader,
        state: AttemptState,
    ) -> Self {
        Self::without_upstream(connections, target, Phase::Shared(reader), state)
    }

    /// An exchange whose response is in the cache. `is_paced`: it takes as long as the provider's did.
    pub fn replayed(
        connections: &Arc<Connections>,
        target: &Arc<Target>,
        found: &CachedResponse,
        is_paced: bool,
    ) -> Self {
        let state = AttemptState::default();
        let header = match response_headers::new_header(http::StatusCode::OK) {
            Ok(header) => header,
            Err(error) => return Self::failed(connections, target, error, state),
        };
        let mut parts = http::response::Parts::from(header);
        if let Ok(content_type) = HeaderValue::from_str(&found.content_type) {
            parts.headers.insert(CONTENT_TYPE, content_type);
        }
        if !found.streamed {
            parts.headers.insert(CONTENT_LENGTH, found.body.len().into());
        }
        let header = HttpTask::Header(Box::new(ResponseHeader::from(parts)), false);
        let phase = if is_paced && found.streamed {
            Phase::Paced(paced(header, found), None)
        } else {
            Phase::Local(VecDeque::from([header, HttpTask::Body(Some(found.body.clone()), true)]))
        };
        Self::without_upstream(connections, target, phase, state)
    }

    fn without_upstream(
        connections: &Arc<Connections>,
        target: &Arc<Target>,
        phase: Phase,
        state: AttemptState,
    ) -> Self {
        Self {
            exchange: Exchange {
                connections: Arc::clone(connections),
                target: Arc::clone(target),
                phase,
                opener: None,
                upload: None,
                state,
                stale_connection_met: false,
                forwarding: None,
                places: None,
                sent: None,
                watch: None,
                is_cut: false,
            },
            timer: ReusableTimer::default(),
            read_timeout: None,
            waiting_since: None,
            failed: None,
            turn: Turn::default(),
        }
    }

    /// Keeps the attempt's places until its response has ended.
    pub fn hold(&mut self, places: Option<Places>) {
        self.exchange.places = places;
    }

    /// The response has its first content.
    pub(crate) fn note_content(&mut self) {
        self.exchange.places.iter_mut().for_each(Places::note_content);
    }

    pub fn state(&self) -> AttemptState {
        self.exchange.state
    }

    /// Whether a dead pooled connection was met, by this attempt or an earlier one of the request.
    pub(crate) fn stale_connection_met(&self) -> bool {
        self.exchange.stale_connection_met
    }

    /// Waits for the next part of the response, at most until `deadline`. The future may be dropped while it waits.
    pub async fn next(&mut self, deadline: Option<Instant>) -> StreamEvent {
        self.turn.give_up().await;
        let Self { exchange, timer, read_timeout, waiting_since, failed, turn } = self;
        if let Some(failure) = failed.take() {
            return StreamEvent::Failed(failure);
        }
        let now = Instant::now();
        let since = *waiting_since.get_or_insert(now);
        let silent = read_timeout.map(|limit| since + limit);
        let read = match deadline.into_iter().chain(silent).min() {
            Some(until) => match timer.timeout(until.saturating_duration_since(now), exchange.read()).await {
                Some(read) => read,
                None if silent == Some(until) => {
                    let error = PingoraError::explain(ErrorType::ReadTimedout, "nothing was heard").into_up();
                    return StreamEvent::Failed(UpstreamFailure::from_pingora(&error, &exchange.target));
                }
                None => return StreamEvent::TimedOut,
            },
            None => exchange.read().await,
        };
        *waiting_since = None;
        match read {
            Ok(task) => {
                turn.count(body_len(&task));
                StreamEvent::Task(task)
            }
            Err(failure) => StreamEvent::Failed(failure),
        }
    }

    /// Reads the parts that are available without waiting, at most those of one turn, so that they are sent with one write.
    pub fn gather(&mut self, mut take: impl FnMut(HttpTask)) {
        for _ in 0..MAX_BATCH {
            let is_over = self.exchange.has_ended() || self.exchange.is_cut;
            if is_over || self.failed.is_some() || self.turn.is_over() {
                return;
            }
            match self.exchange.read().now_or_never() {
                Some(Ok(task)) => {
                    self.turn.count(body_len(&task));
                    take(task);
                }
                Some(Err(failure)) => self.failed = Some(failure),
                None => return,
            }
        }
    }

    /// Reads and drops the rest of a response whose end is near, in a task of its own, so that the upstream connection
    /// can be reused.
    pub fn drain(mut self) {
        if self.exchange.has_ended() {
            return;
        }
        self.exchange.watch = None;
        tokio::spawn(async move {
            let deadline = Some(Instant::now() + DRAIN_TIMEOUT);
            while matches!(self.next(deadline).await, StreamEvent::Task(task) if !task.is_end()) {}
        });
    }
}

fn opening(mut opener: Box<Opener>) -> Opening {
    Box::pin(async move {
        let opened = opener.open().await;
        (opener, opened)
    })
}

/// The parts of a stream, and how long after the first one each had arrived.
fn paced(header: HttpTask, found: &CachedResponse) -> VecDeque<(Duration, HttpTask)> {
    let mut parts = VecDeque::from([(Duration::ZERO, header)]);
    let mut start = 0;
    for (end, since) in found.pace.iter() {
        let end = (*end as usize).min(found.body.len());
        if end > start {
            let part = HttpTask::Body(Some(found.body.slice(start..end)), false);
            parts.push_back((Duration::from_millis(u64::from(*since)), part));
            start = end;
        }
    }
    let last = parts.back().map_or(Duration::ZERO, |(since, _)| *since);
    let rest = found.body.slice(start..);
    parts.push_back((last, HttpTask::Body(Some(rest), true)));
    parts
}

impl Exchange {
    /// The next part of the response. The future may be dropped while it waits.
    async fn read(&mut self) -> Result<HttpTask, UpstreamFailure> {
        loop {
            match &mut self.phase {
                Phase::Opening(opening) => {
                    let (opener, opened) = opening.as_mut().await;
                    self.opened(opener, opened)?;
                }
                Phase::Reading(open) => match open.connection.read_task().await {
                    Ok(task) => return self.checked(task),
                    Err(error) => self.reopen(error)?,
                },
                Phase::Uploading(upload) => match poll_fn(|cx| upload.poll_next(cx)).await {
                    UploadEvent::Task(task) => return self.checked(task),
                    UploadEvent::Failed(error) => {
                        self.phase = Phase::Ended;
                        return Err(UpstreamFailure::from_pingora(&error.into_up(), &self.target));
                    }
                    UploadEvent::Reusable(_) | UploadEvent::Over => self.phase = Phase::Ended,
                },
                Phase::Local(parts) => match parts.pop_front() {
                    Some(part) => return Ok(self.note(part)),
                    None => self.phase = Phase::Ended,
                },
                Phase::Paced(parts, started) => {
                    let Some((after, _)) = parts.front() else {
                        self.phase = Phase::Ended;
                        continue;
                    };
                    let until = *started.get_or_insert_with(Instant::now) + *after;
                    tokio::time::sleep_until(until.into()).await;
                    if let Some((_, part)) = parts.pop_front() {
                        return Ok(self.note(part));
                    }
                }
                Phase::Shared(reader) => {
                    let part = reader.next().await?;
                    return Ok(self.note(part));
                }
                Phase::SharedEnded(_) | Phase::Ended => {
                    return Err(UpstreamFailure::no_response(&self.target));
                }
            }
        }
    }

    /// A part of the response, unless it is the proxy that refuses the request.
    fn checked(&mut self, task: HttpTask) -> Result<HttpTask, UpstreamFailure> {
        if let (Some(proxied), HttpTask::Header(header, _)) = (&self.forwarding, &task)
            && let Some(failure) = proxied.refusal(header.status.as_u16())
        {
            self.phase = Phase::Ended;
            self.set_sent(false);
            return Err(refused_by_proxy(&failure, &self.target).into());
        }
        Ok(self.note(task))
    }

    fn opened(
        &mut self,
        opener: Box<Opener>,
        opened: Result<OpenConnection, UpstreamFailure>,
    ) -> Result<(), UpstreamFailure> {
        self.stale_connection_met |= opener.peers.bypass_pool;
        self.forwarding = opener.peers.proxied().filter(|proxied| proxied.is_forwarding()).cloned();
        self.phase = Phase::Ended;
        let open = opened?;
        self.set_sent(open.unsent.is_none());
        self.phase = match self.upload.take() {
            Some(body) => Phase::Uploading(Box::new(StreamedUpload::new(open, body))),
            None => {
                // Only a reused connection can turn out dead.
                self.opener = Some(opener).filter(|_| open.reused);
                Phase::Reading(Box::new(open))
            }
        };
        Ok(())
    }

    /// The connection broke: opens another one if it was a dead one from the pool.
    fn reopen(&mut self, error: Box<PingoraError>) -> Result<(), UpstreamFailure> {
        let Phase::Reading(mut open) = std::mem::replace(&mut self.phase, Phase::Ended) else {
            return Err(UpstreamFailure::no_response(&self.target));
        };
        let error = open.unsent.take().unwrap_or(error).into_up();
        let Some(mut opener) = self.opener.take() else {
            self.connections.discard(*open, &error);
            return Err(UpstreamFailure::from_pingora(&error, &self.target));
        };
        if !opener.may_reopen(*open, &self.state, &error) {
            return Err(UpstreamFailure::from_pingora(&error, &self.target));
        }
        self.stale_connection_met = true;
        self.set_sent(false);
        self.phase = Phase::Opening(opening(opener));
        Ok(())
    }

    /// Sets whether the provider has the request, for the attempt and for the requests that share its call.
    fn set_sent(&mut self, is_sent: bool) {
        self.state.is_sent = is_sent;
        self.sent.iter().for_each(|sent| sent.store(is_sent, Ordering::Release));
    }

    /// Notes the times and the status that a part shows; after the last part it returns the connection to the pool.
    fn note(&mut self, task: HttpTask) -> HttpTask {
        if let HttpTask::Header(header, _) = &task {
            let status = header.status.as_u16();
            self.state.header_read(status);
            self.places.iter_mut().for_each(|places| places.note_response(status, &header.headers));
            if !header.status.is_success() {
                self.watch.iter_mut().for_each(|watch| watch.pass_nothing());
            }
        }
        if !task.is_end() {
            return self.watched(task);
        }
        if let (HttpTask::Body(Some(chunk), _), Some(watch)) = (&task, &mut self.watch) {
            // What the server sends before its response may arrive with it.
            watch.take(chunk);
        }
        self.state.response_ended();
        self.leave_places();
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Reading(open) if open.unsent.is_none() => {
                self.connections.release(open.connection, open.peer);
            }
            Phase::Uploading(mut upload) => {
                let finished = poll_fn(|cx| upload.poll_next(cx)).now_or_never();
                if let Some(UploadEvent::Reusable(open)) = finished {
                    self.connections.release(open.connection, open.peer);
                }
            }
            Phase::Shared(reader) => self.phase = Phase::SharedEnded(reader),
            _ => {}
        }
        task
    }

    /// The response is complete.
    fn leave_places(&mut self) {
        self.places.iter_mut().for_each(Places::note_content);
        self.places = None;
    }

    /// A part of the response, as its last one if the response is complete with it.
    fn watched(&mut self, task: HttpTask) -> HttpTask {
        let (HttpTask::Body(Some(chunk), _), Some(watch)) = (&task, &mut self.watch) else { return task };
        if !watch.take(chunk) {
            return task;
        }
        let last = HttpTask::Body(Some(chunk.clone()), true);
        self.state.response_ended();
        self.leave_places();
        self.is_cut = true;
        last
    }

    fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended | Phase::SharedEnded(_))
    }
}
