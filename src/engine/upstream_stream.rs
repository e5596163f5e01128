//! One attempt's exchange with its provider: opened, then read part by part. Dropped before the response is complete it
//! stops, and the provider's connection closes at once.
//!
//! A state machine of its owner: it works only while a part is awaited, in the task of who waits, and what is not taken
//! is not read. What the parts mean is `attempt_run`'s to judge.

use super::Engine;
use super::attempt_state::AttemptState;
use super::failure::UpstreamFailure;
use super::opener::{OpenConnection, Opener, RequestBody};
use super::response_headers;
use super::reusable_timer::ReusableTimer;
use super::stages::LocalResponse;
use super::streamed_upload::{BodyChunk, StreamedUpload, UploadEvent};
use crate::error::Error;
use crate::route::target::Target;
use futures_util::FutureExt;
use http::HeaderValue;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use pingora_core::{Error as PingoraError, ErrorType};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;

/// How long a response whose end was sent to the client already may take to end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The most parts that go out with one write.
const MAX_BATCH: usize = 32;
/// The largest body that leaves so fast that its sending need not be timed, bytes.
const MAX_UNTIMED_BODY: usize = 64 << 10;

/// See the module.
pub(super) struct UpstreamStream {
    exchange: Exchange,
    timer: ReusableTimer,
    /// The longest wait for a part, where the connection itself has no limit; and since when one is awaited.
    read_timeout: Option<Duration>,
    waiting_since: Option<Instant>,
    /// Met while parts were gathered, and not reported yet.
    failed: Option<UpstreamFailure>,
}

/// What was read of an attempt.
pub(super) enum StreamEvent {
    Task(HttpTask),
    Failed(UpstreamFailure),
    /// Not by the deadline.
    TimedOut,
}

type Opening = Pin<Box<dyn Future<Output = (Box<Opener>, Result<OpenConnection, UpstreamFailure>)> + Send>>;

enum Phase {
    Opening(Opening),
    Reading(Box<OpenConnection>),
    Uploading(Box<StreamedUpload>),
    /// A response of the gateway's own.
    Local(VecDeque<HttpTask>),
    Ended,
}

struct Exchange {
    engine: Arc<Engine>,
    target: Arc<Target>,
    phase: Phase,
    /// To open another connection, while a response has not begun.
    opener: Option<Box<Opener>>,
    /// The client's body, until its connection is open.
    upload: Option<Receiver<BodyChunk>>,
    state: AttemptState,
    stale_connection_met: bool,
}

impl UpstreamStream {
    /// `upload`: the client's body, where it is sent as it comes in.
    pub fn new(mut opener: Box<Opener>, upload: Option<Receiver<BodyChunk>>, state: AttemptState) -> Self {
        // What takes long to send is not silent meanwhile: the connection itself is timed then.
        opener.reader_is_timed = match &opener.body {
            RequestBody::Empty => true,
            RequestBody::Whole(body) => body.len() <= MAX_UNTIMED_BODY,
            RequestBody::Streamed => false,
        };
        let read_timeout = opener.snapshot.settings.limits.upstream_read_timeout;
        Self {
            read_timeout: Some(read_timeout).filter(|_| opener.reader_is_timed),
            exchange: Exchange {
                engine: Arc::clone(&opener.engine),
                target: Arc::clone(&opener.target),
                stale_connection_met: opener.peers.bypass_pool,
                phase: Phase::Opening(opening(opener)),
                opener: None,
                upload,
                state,
            },
            timer: ReusableTimer::default(),
            waiting_since: None,
            failed: None,
        }
    }

    /// One that cannot be opened: its error is what is read of it.
    pub fn failed(engine: &Arc<Engine>, target: &Arc<Target>, error: Error, state: AttemptState) -> Self {
        Self { failed: Some(error.into()), ..Self::without_upstream(engine, target, Phase::Ended, state) }
    }

    /// One whose response is the gateway's own.
    pub fn local(
        engine: &Arc<Engine>,
        target: &Arc<Target>,
        response: LocalResponse,
        state: AttemptState,
    ) -> Self {
        let LocalResponse { content_type, body } = response;
        let header = match response_headers::new_header(http::StatusCode::OK) {
            Ok(header) => header,
            Err(error) => return Self::failed(engine, target, error, state),
        };
        let mut parts = http::response::Parts::from(header);
        parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        parts.headers.insert(CONTENT_LENGTH, body.len().into());
        let header = Box::new(ResponseHeader::from(parts));
        let parts = VecDeque::from([HttpTask::Header(header, false), HttpTask::Body(Some(body), true)]);
        Self::without_upstream(engine, target, Phase::Local(parts), state)
    }

    fn without_upstream(
        engine: &Arc<Engine>,
        target: &Arc<Target>,
        phase: Phase,
        state: AttemptState,
    ) -> Self {
        Self {
            exchange: Exchange {
                engine: Arc::clone(engine),
                target: Arc::clone(target),
                phase,
                opener: None,
                upload: None,
                state,
                stale_connection_met: false,
            },
            timer: ReusableTimer::default(),
            read_timeout: None,
            waiting_since: None,
            failed: None,
        }
    }

    pub fn state(&self) -> AttemptState {
        self.exchange.state
    }

    /// Whether a dead connection was met, by this attempt or one before it.
    pub fn stale_connection_met(&self) -> bool {
        self.exchange.stale_connection_met
    }

    /// Waits for the next part of the response, at most until `deadline`. May be dropped while it waits.
    pub async fn next(&mut self, deadline: Option<Instant>) -> StreamEvent {
        let Self { exchange, timer, read_timeout, waiting_since, failed } = self;
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
            Ok(task) => StreamEvent::Task(task),
            Err(failure) => StreamEvent::Failed(failure),
        }
    }

    /// Takes what can be had without waiting, so that it goes out with one write.
    pub fn gather(&mut self, mut take: impl FnMut(HttpTask)) {
        for _ in 0..MAX_BATCH {
            if matches!(self.exchange.phase, Phase::Ended) || self.failed.is_some() {
                return;
            }
            match self.exchange.read().now_or_never() {
                Some(Ok(task)) => take(task),
                Some(Err(failure)) => self.failed = Some(failure),
                None => return,
            }
        }
    }

    /// Nothing more is wanted of the response, and its end is a moment away: with it the provider's connection can be
    /// used again.
    pub fn drain(mut self) {
        if matches!(self.exchange.phase, Phase::Ended) {
            return;
        }
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

impl Exchange {
    /// The next part of the response. May be dropped while it waits.
    async fn read(&mut self) -> Result<HttpTask, UpstreamFailure> {
        loop {
            match &mut self.phase {
                Phase::Opening(opening) => {
                    let (opener, opened) = opening.as_mut().await;
                    self.opened(opener, opened)?;
                }
                Phase::Reading(open) => match open.connection.read_task().await {
                    Ok(task) => return Ok(self.note(task)),
                    Err(error) => self.reopen(error)?,
                },
                Phase::Uploading(upload) => match poll_fn(|cx| upload.poll_next(cx)).await {
                    UploadEvent::Task(task) => return Ok(self.note(task)),
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
                Phase::Ended => return Err(UpstreamFailure::no_response(&self.target)),
            }
        }
    }

    fn opened(
        &mut self,
        opener: Box<Opener>,
        opened: Result<OpenConnection, UpstreamFailure>,
    ) -> Result<(), UpstreamFailure> {
        self.stale_connection_met |= opener.peers.bypass_pool;
        self.phase = Phase::Ended;
        let open = opened?;
        self.phase = match self.upload.take() {
            Some(body) => Phase::Uploading(Box::new(StreamedUpload::new(open, body))),
            None => {
                // Only a connection that was used before can turn out dead.
                self.opener = Some(opener).filter(|_| open.reused);
                Phase::Reading(Box::new(open))
            }
        };
        Ok(())
    }

    /// The connection broke: another is opened where it was a dead one.
    fn reopen(&mut self, error: Box<PingoraError>) -> Result<(), UpstreamFailure> {
        let Phase::Reading(mut open) = std::mem::replace(&mut self.phase, Phase::Ended) else {
            return Err(UpstreamFailure::no_response(&self.target));
        };
        let error = open.unsent.take().unwrap_or(error).into_up();
        let Some(mut opener) = self.opener.take() else {
            self.engine.discard(*open, &error);
            return Err(UpstreamFailure::from_pingora(&error, &self.target));
        };
        if !opener.may_reopen(*open, &self.state, &error) {
            return Err(UpstreamFailure::from_pingora(&error, &self.target));
        }
        self.stale_connection_met = true;
        self.phase = Phase::Opening(opening(opener));
        Ok(())
    }

    /// Notes what a part tells of the attempt; behind the last one the connection goes back to its pool.
    fn note(&mut self, task: HttpTask) -> HttpTask {
        if let HttpTask::Header(header, _) = &task {
            self.state.header_read(header.status.as_u16());
        }
        if !task.is_end() {
            return task;
        }
        self.state.response_ended();
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Reading(open) if open.unsent.is_none() => {
                self.engine.release(open.connection, open.peer);
            }
            Phase::Uploading(mut upload) => {
                let finished = poll_fn(|cx| upload.poll_next(cx)).now_or_never();
                if let Some(UploadEvent::Reusable(open)) = finished {
                    self.engine.release(open.connection, open.peer);
                }
            }
            _ => {}
        }
        task
    }
}
