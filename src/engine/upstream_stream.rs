//! An attempt in the air: its exchange, and the request body that may still be coming in.
//!
//! Nothing is made of what is heard here. Two attempts can be in the air at once; the caller is listened to
//! apart from them ([`Upload`]).

use super::exchange::{Exchange, RequestBody, ResponseQueue};
use super::inline_task::InlineTask;
use super::request_context::{AttemptHandle, RequestContext};
use super::reusable_timer::ReusableTimer;
use super::{Engine, failure, upstream_request};
use crate::error::Error;
use bytes::Bytes;
use pingora_core::protocols::http::HttpTask;
use pingora_core::{Error as PingoraError, ErrorType};
use pingora_proxy::Session;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{self, Sender};

/// How long an answer that was told to its end may take to end.
const SETTLES: Duration = Duration::from_secs(1);

/// The most pieces that go out with one write.
pub(crate) const AT_ONCE: usize = 32;

/// The largest body that leaves so fast that nobody need watch it, bytes.
const SENT_AT_ONCE: usize = 64 << 10;

/// Pieces of a body that may wait for the provider.
const MOST_UPLOADED: usize = 4;

/// A running exchange. Dropped before its answer is all there, it stops: the provider's connection closes at once.
///
/// It runs only while somebody waits for its next piece, in the task of who waits: no second task need be made, woken
/// and scheduled, and what the caller does not take is not read.
pub(crate) struct UpstreamStream {
    pub errand: AttemptHandle,
    outlet: Arc<ResponseQueue>,
    running: InlineTask,
    /// Whether the request body comes from the caller as it flies: it can be sent once only.
    pub feeds_live: bool,
    /// The answer is all there: what is left to do is to put the connection back.
    landed: bool,
    /// Of the waits for its pieces.
    timer: ReusableTimer,
    /// The longest wait for a piece, where the connection itself has no limit; and since when one is waited for.
    silence: Option<Duration>,
    waits: Option<Instant>,
    /// Heard while pieces were gathered, and not told yet.
    failed: Option<Box<PingoraError>>,
}

/// What was heard of an attempt.
pub(crate) enum StreamEvent {
    Task(HttpTask),
    Failed(Box<PingoraError>),
    TimedOut,
    /// It ended without a word.
    Nothing,
}

/// The caller's side of an attempt: its body while that is still coming in, then only whether it stays.
pub(crate) struct DownstreamWatch {
    tx: Option<Sender<HttpTask>>,
}

impl UpstreamStream {
    /// Starts the attempt. What keeps it from starting is heard as its end.
    pub fn launch(
        engine: &Engine,
        session: &mut Session,
        ctx: &RequestContext,
        errand: AttemptHandle,
    ) -> (Self, DownstreamWatch) {
        let unread = !session.is_body_done();
        let outlet = Arc::<ResponseQueue>::default();
        let (body, tx) = match errand.attempt.body.clone() {
            Some(body) => (RequestBody::Held(body), None),
            None if unread => {
                let (tx, rx) = mpsc::channel(MOST_UPLOADED);
                (RequestBody::Live(rx), Some(tx))
            }
            None => (RequestBody::Nothing, None),
        };
        let feeds_live = tx.is_some();
        // What takes long to send is not silent meanwhile: the connection itself is watched then.
        let is_timed = match &body {
            RequestBody::Nothing => true,
            RequestBody::Held(body) => body.len() <= SENT_AT_ONCE,
            RequestBody::Live(_) => false,
        };
        let made = match &ctx.snapshot {
            Some(live) => {
                upstream_request::attempt_header(session.req_header(), ctx, &errand, live, feeds_live)
                    .map(|head| (head, Arc::clone(live)))
            }
            None => Err(Error::internal("no settings")),
        };
        let mut silence = None;
        let running = match made {
            Ok((head, live)) => {
                silence = Some(live.settings.limits.upstream_read_timeout).filter(|_| is_timed);
                let exchange = Exchange {
                    shared: Arc::clone(&engine.shared),
                    connections: Arc::clone(&engine.connector),
                    live,
                    errand: errand.clone(),
                    head,
                    body,
                    outlet: Arc::clone(&outlet),
                    is_timed,
                };
                InlineTask::new(exchange.run())
            }
            Err(error) => {
                outlet.put(HttpTask::Failed(failure::fail_attempt(&errand, error)));
                InlineTask::new(std::future::ready(()))
            }
        };
        let timer = ReusableTimer::default();
        let flight = Self {
            errand,
            outlet,
            running,
            feeds_live,
            landed: false,
            timer,
            silence,
            waits: None,
            failed: None,
        };
        (flight, DownstreamWatch { tx })
    }

    /// Waits for the next piece of the answer, at most until `deadline`.
    pub async fn next(&mut self, deadline: Option<Instant>) -> StreamEvent {
        let Self { outlet, running, landed, timer, failed, silence, waits, .. } = self;
        if let Some(error) = failed.take() {
            return StreamEvent::Failed(error);
        }
        let piece = poll_fn(|cx| {
            let task = ready!(piece(outlet, running, cx));
            *landed |= task.as_ref().is_some_and(HttpTask::is_end);
            if *landed {
                // A moment more, and the provider's connection is back in its pool.
                running.run(cx);
            }
            Poll::Ready(task)
        });
        let now = Instant::now();
        let since = *waits.get_or_insert(now);
        let silent = silence.map(|silence| since + silence);
        let task = match deadline.into_iter().chain(silent).min() {
            Some(until) => match timer.timeout(until.saturating_duration_since(now), piece).await {
                Some(task) => task,
                None if silent == Some(until) => {
                    let error = PingoraError::explain(ErrorType::ReadTimedout, "nothing was heard");
                    return StreamEvent::Failed(error.into_up());
                }
                None => return StreamEvent::TimedOut,
            },
            None => piece.await,
        };
        *waits = None;
        match task {
            Some(HttpTask::Failed(error)) => StreamEvent::Failed(error),
            Some(task) => StreamEvent::Task(task),
            None => StreamEvent::Nothing,
        }
    }

    /// Takes what can be had without waiting, so that it goes out with one write.
    pub async fn gather(&mut self, most: usize, mut take: impl FnMut(HttpTask)) {
        let Self { outlet, running, landed, failed, .. } = self;
        poll_fn(|cx| {
            for _ in 0..most {
                match piece(outlet, running, cx) {
                    Poll::Ready(Some(HttpTask::Failed(error))) => {
                        *failed = Some(error);
                        break;
                    }
                    Poll::Ready(Some(task)) => {
                        *landed |= task.is_end();
                        take(task);
                    }
                    Poll::Ready(None) | Poll::Pending => break,
                }
                if *landed {
                    running.run(cx);
                    break;
                }
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Nothing more is wanted of the answer, and its end is a moment away: with it the provider's connection
    /// can be used again.
    pub fn settle(mut self) {
        tokio::spawn(async move {
            let deadline = Some(Instant::now() + SETTLES);
            while !self.landed && matches!(self.next(deadline).await, StreamEvent::Task(_)) {}
        });
    }
}

impl Drop for UpstreamStream {
    fn drop(&mut self) {
        // What is left to do when the answer is all there needs nobody who waits for it. No runtime: the process ends.
        if let (Some(work), true, Ok(runtime)) = (self.running.take(), self.landed, Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

/// The next piece that is there; the work is done as far as it goes without one.
fn piece(outlet: &ResponseQueue, running: &mut InlineTask, cx: &mut Context<'_>) -> Poll<Option<HttpTask>> {
    // Nobody else fills the outlet: it need not wake us, what the work waits for does.
    if let Some(task) = outlet.take() {
        return Poll::Ready(Some(task));
    }
    let over = running.run(cx);
    match outlet.take() {
        Some(task) => Poll::Ready(Some(task)),
        None if over => Poll::Ready(None),
        None => Poll::Pending,
    }
}

impl DownstreamWatch {
    /// Listens to the caller for as long as it stays: hands its body on, then only waits. Returns when it left.
    pub async fn watch(&mut self, session: &mut Session, ctx: &mut RequestContext) {
        loop {
            let Some(tx) = &self.tx else { return stays(session).await };
            // Room first: a piece that was read must not be lost when another branch wins.
            let Ok(room) = tx.reserve().await else {
                self.tx = None;
                continue;
            };
            match session.downstream_session.read_body_or_idle(false).await {
                Ok(chunk) => {
                    let end = chunk.is_none() || session.is_body_done();
                    ctx.record.bytes_in += chunk.as_ref().map_or(0, |chunk: &Bytes| chunk.len() as u64);
                    room.send(HttpTask::Body(chunk, end));
                    if end {
                        self.tx = None;
                    }
                }
                Err(_) => return,
            }
        }
    }
}

/// Returns when a caller that has nothing more to send left.
pub(crate) async fn stays(session: &mut Session) {
    match session.downstream_session.read_body_or_idle(true).await {
        // Nothing more can come.
        Ok(_) => std::future::pending::<()>().await,
        // Pingora's word for a caller that speaks on, perhaps of its next request: it is still there
        // and gets this answer; the next one cannot be told from what was lost.
        Err(error) if *error.etype() == ErrorType::ConnectError => {
            session.set_keepalive(None);
            std::future::pending::<()>().await;
        }
        Err(_) => {}
    }
}
