//! An attempt in the air: the subrequest, its two channels, and the request body that may still be coming in.
//!
//! Nothing is made of what is heard here. Two attempts can be in the air at once; the caller is listened to
//! apart from them ([`Upload`]).

use super::ctx::{Ctx, Errand};
use super::inline_task::InlineTask;
use super::lasting_timer::LastingTimer;
use super::upstream::Passed;
use bytes::Bytes;
use http::Version;
use pingora_core::protocols::http::HttpTask;
use pingora_core::protocols::http::subrequest::server::SubrequestHandle;
use pingora_core::{Error as PingoraError, ErrorType, Result};
use pingora_proxy::Session;
use pingora_proxy::subrequest::{BodyMode, Ctx as SubrequestCtx};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::mpsc::Sender;

/// How long an answer that was told to its end may take to end.
const SETTLES: Duration = Duration::from_secs(1);

/// The most pieces that go out with one write.
pub(super) const AT_ONCE: usize = 32;

/// A running subrequest. Dropped before its answer is all there, it stops: the provider's connection closes at once.
///
/// It runs only while somebody waits for its next piece, in the task of who waits: no second task need be made, woken
/// and scheduled, and what the caller does not take is not read.
pub(super) struct Flight {
    pub errand: Errand,
    handle: SubrequestHandle,
    running: InlineTask,
    /// Whether the request body comes from the caller as it flies: it can be sent once only.
    pub feeds_live: bool,
    /// The answer is all there: what is left to do is Pingora's, which puts the connection back.
    landed: bool,
    /// Of the waits for its pieces.
    timer: LastingTimer,
    /// Heard while pieces were gathered, and not told yet.
    failed: Option<Box<PingoraError>>,
}

/// What was heard of an attempt.
pub(super) enum Heard {
    Task(HttpTask),
    Failed(Box<PingoraError>),
    TimedOut,
    /// It ended without a word.
    Nothing,
}

/// The caller's side of an attempt: its body while that is still coming in, then only whether it stays.
pub(super) struct Upload {
    tx: Option<Sender<HttpTask>>,
}

impl Flight {
    /// Starts the attempt.
    ///
    /// # Errors
    /// Only when Pingora gave the session no spawner: a fault of ours.
    pub fn launch(session: &mut Session, ctx: &Ctx, errand: Errand) -> Result<(Self, Upload)> {
        let unread = !session.is_body_done();
        // Pingora hands the head to a subrequest as HTTP/1 text and cannot read "HTTP/2" in it.
        let version = session.req_header().version;
        session.downstream_session.req_header_mut().set_version(Version::HTTP_11);
        let Some(spawner) = &session.subrequest_spawner else {
            return Err(PingoraError::explain(ErrorType::InternalError, "no subrequest spawner"));
        };
        let held = errand.attempt.body.clone();
        let live = held.is_none() && unread;
        let mode = if held.is_some() || live { BodyMode::ExpectBody } else { BodyMode::NoBody };
        let passed = Passed {
            errand: errand.clone(),
            operation: ctx.operation,
            is_proxied: ctx.is_proxied,
            live: ctx.live.clone(),
        };
        let context = SubrequestCtx::builder().user_ctx(Box::new(passed)).body_mode(mode).build();
        let (prepared, handle) = spawner.create_subrequest(session.as_downstream(), context);
        session.downstream_session.req_header_mut().set_version(version);
        if let Some(body) = held {
            // The channel is new and has room for it.
            let _ = handle.tx.try_send(HttpTask::Body(Some(body), true));
        }
        let upload = Upload { tx: live.then(|| handle.tx.clone()) };
        let running = InlineTask::new(prepared.run());
        let timer = LastingTimer::default();
        let flight = Self { errand, handle, running, feeds_live: live, landed: false, timer, failed: None };
        Ok((flight, upload))
    }

    /// Waits for the next piece of the answer, at most until `deadline`.
    pub async fn next(&mut self, deadline: Option<Instant>) -> Heard {
        let Self { handle, running, landed, timer, failed, .. } = self;
        if let Some(error) = failed.take() {
            return Heard::Failed(error);
        }
        let piece = poll_fn(|cx| {
            let task = ready!(piece(handle, running, cx));
            *landed |= task.as_ref().is_some_and(HttpTask::is_end);
            if *landed {
                // A moment more, and the provider's connection is back in its pool.
                running.run(cx);
            }
            Poll::Ready(task)
        });
        let task = match deadline {
            Some(at) => match timer.within(at.saturating_duration_since(Instant::now()), piece).await {
                Some(task) => task,
                None => return Heard::TimedOut,
            },
            None => piece.await,
        };
        match task {
            Some(HttpTask::Failed(error)) => Heard::Failed(error),
            Some(task) => Heard::Task(task),
            None => self.last_words().await,
        }
    }

    /// Takes what can be had without waiting, so that it goes out with one write.
    pub async fn gather(&mut self, most: usize, mut take: impl FnMut(HttpTask)) {
        let Self { handle, running, landed, failed, .. } = self;
        poll_fn(|cx| {
            for _ in 0..most {
                match piece(handle, running, cx) {
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
            while !self.landed && matches!(self.next(deadline).await, Heard::Task(_)) {}
        });
    }

    /// The channel closed: an error may have been left beside it.
    async fn last_words(&mut self) -> Heard {
        match (&mut self.handle.subreq_proxy_error).await {
            Ok(error) => Heard::Failed(error),
            Err(_) => Heard::Nothing,
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // What is left to do when the answer is all there needs nobody who waits for it. No runtime: the process ends.
        if let (Some(work), true, Ok(runtime)) = (self.running.take(), self.landed, Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

/// The next piece that is there; the work is done as far as it goes without one.
fn piece(
    handle: &mut SubrequestHandle,
    running: &mut InlineTask,
    cx: &mut Context<'_>,
) -> Poll<Option<HttpTask>> {
    // Nobody else fills the channel: it need not wake us, what the work waits for does.
    if let Ok(task) = handle.rx.try_recv() {
        return Poll::Ready(Some(task));
    }
    let over = running.run(cx);
    match handle.rx.try_recv() {
        Ok(task) => Poll::Ready(Some(task)),
        Err(_) if over => Poll::Ready(None),
        Err(_) => Poll::Pending,
    }
}

impl Upload {
    /// Listens to the caller for as long as it stays: hands its body on, then only waits. Returns when it left.
    pub async fn watch(&mut self, session: &mut Session, ctx: &mut Ctx) {
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
pub(super) async fn stays(session: &mut Session) {
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
