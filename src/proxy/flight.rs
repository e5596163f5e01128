//! An attempt in the air: the subrequest, its two channels, and the request body that may still be coming in.
//!
//! Nothing is made of what is heard here. Two attempts can be in the air at once; the caller is listened to
//! apart from them ([`Upload`]).

use super::ctx::{Ctx, Errand};
use super::lasting_timer::LastingTimer;
use super::upstream::Passed;
use bytes::Bytes;
use futures_util::FutureExt;
use http::Version;
use pingora_core::protocols::http::HttpTask;
use pingora_core::protocols::http::subrequest::server::SubrequestHandle;
use pingora_core::{Error as PingoraError, ErrorType, Result};
use pingora_proxy::Session;
use pingora_proxy::subrequest::{BodyMode, Ctx as SubrequestCtx};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;

/// How long an answer that was told to its end may take to end.
const SETTLES: Duration = Duration::from_secs(1);

/// A running subrequest. Dropped before its answer is all there, it stops: the provider's connection closes at once.
pub(super) struct Flight {
    pub errand: Errand,
    handle: SubrequestHandle,
    running: JoinHandle<()>,
    /// Whether the request body comes from the caller as it flies: it can be sent once only.
    pub feeds_live: bool,
    /// The answer is all there: what is left to do is Pingora's, which puts the connection back.
    landed: bool,
    /// Of the waits for its pieces.
    timer: LastingTimer,
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
        let running = tokio::spawn(prepared.run());
        let timer = LastingTimer::default();
        let flight = Self { errand, handle, running, feeds_live: live, landed: false, timer };
        Ok((flight, upload))
    }

    /// Waits for the next piece of the answer, at most until `deadline`.
    pub async fn next(&mut self, deadline: Option<Instant>) -> Heard {
        let (timer, pieces) = (&mut self.timer, self.handle.rx.recv());
        let task = match deadline {
            Some(at) => match timer.within(at.saturating_duration_since(Instant::now()), pieces).await {
                Some(task) => task,
                None => return Heard::TimedOut,
            },
            None => pieces.await,
        };
        match task {
            Some(HttpTask::Failed(error)) => Heard::Failed(error),
            Some(task) => {
                self.landed |= task.is_end();
                Heard::Task(task)
            }
            None => self.last_words().await,
        }
    }

    /// Takes what is at hand without waiting, so that it goes out with one write.
    pub fn drain(&mut self, most: usize, take: &mut dyn FnMut(HttpTask)) {
        for _ in 0..most {
            // Unconstrained: tokio's budget may say "pending" for a task that is there.
            match tokio::task::unconstrained(self.handle.rx.recv()).now_or_never() {
                // The error waits beside the channel, too.
                Some(Some(HttpTask::Failed(_))) | Some(None) | None => return,
                Some(Some(task)) => {
                    self.landed |= task.is_end();
                    take(task);
                    if self.landed {
                        return;
                    }
                }
            }
        }
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
        if !self.landed {
            self.running.abort();
        }
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
