//! An attempt in the air: the subrequest, its two channels, and what is heard while we wait.
//!
//! Listens to three sides at once: the attempt, the caller (who may leave or still send its body) and the
//! clock. What is made of what it hears is the orchestrator's business.

use super::ctx::{Ctx, Errand};
use super::upstream::Passed;
use crate::state::phase::Phase;
use bytes::Bytes;
use futures_util::FutureExt;
use http::Version;
use pingora_core::protocols::http::HttpTask;
use pingora_core::protocols::http::subrequest::server::SubrequestHandle;
use pingora_core::{Error as PingoraError, ErrorType, Result};
use pingora_proxy::Session;
use pingora_proxy::subrequest::{BodyMode, Ctx as SubrequestCtx};
use std::time::Instant;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;
use tokio::time::{Instant as Clock, sleep_until};

/// A running subrequest.
pub(super) struct Flight {
    pub errand: Errand,
    handle: SubrequestHandle,
    running: JoinHandle<()>,
    feed: Feed,
    /// Whether the feed was [`Feed::Live`] at the start.
    live: bool,
}

/// Where the request body comes from.
enum Feed {
    /// Already handed over, or none.
    Done,
    /// Read piece by piece from the caller.
    Live,
}

/// What was heard.
pub(super) enum Heard {
    Task(HttpTask),
    Failed(Box<PingoraError>),
    TimedOut,
    CallerLeft,
    /// The grace period of a shutdown is over.
    Draining,
    /// The attempt ended without a word.
    Nothing,
}

impl Flight {
    /// Starts the attempt.
    ///
    /// # Errors
    /// Only when Pingora gave the session no spawner: a fault of ours.
    pub fn launch(session: &mut Session, ctx: &Ctx, errand: Errand) -> Result<Self> {
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
        let passed = Passed { errand: errand.clone(), operation: ctx.operation, live: ctx.live.clone() };
        let context = SubrequestCtx::builder().user_ctx(Box::new(passed)).body_mode(mode).build();
        let (prepared, handle) = spawner.create_subrequest(session.as_downstream(), context);
        session.downstream_session.req_header_mut().set_version(version);
        if let Some(body) = held {
            // The channel is new and has room for it.
            let _ = handle.tx.try_send(HttpTask::Body(Some(body), true));
        }
        let feed = if live { Feed::Live } else { Feed::Done };
        Ok(Self { errand, handle, running: tokio::spawn(prepared.run()), feed, live })
    }

    /// Waits for the answer's final head, until `deadline`.
    pub async fn head(
        &mut self,
        session: &mut Session,
        ctx: &mut Ctx,
        phase: &Phase,
        deadline: Option<Instant>,
    ) -> Heard {
        let timer = async move {
            match deadline {
                Some(at) => sleep_until(Clock::from_std(at)).await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(timer);
        loop {
            tokio::select! {
                biased;
                task = self.handle.rx.recv() => match task {
                    // 100 and 103 are between the provider and us.
                    Some(HttpTask::Header(head, _)) if head.status.is_informational() => {}
                    Some(HttpTask::Failed(error)) => return Heard::Failed(error),
                    Some(task) => return Heard::Task(task),
                    None => return self.last_words().await,
                },
                () = feed(&mut self.feed, &self.handle.tx, session, ctx) => return Heard::CallerLeft,
                () = &mut timer => return Heard::TimedOut,
                () = phase.until_cut() => return Heard::Draining,
            }
        }
    }

    /// Waits for the next piece of the answer.
    pub async fn next(&mut self, session: &mut Session, ctx: &mut Ctx, phase: &Phase) -> Heard {
        tokio::select! {
            biased;
            task = self.handle.rx.recv() => match task {
                Some(HttpTask::Failed(error)) => Heard::Failed(error),
                Some(task) => Heard::Task(task),
                None => self.last_words().await,
            },
            () = feed(&mut self.feed, &self.handle.tx, session, ctx) => Heard::CallerLeft,
            () = phase.until_cut() => Heard::Draining,
        }
    }

    /// Takes what is at hand without waiting, so that it goes out with one write.
    pub fn drain(&mut self, tasks: &mut Vec<HttpTask>, most: usize) {
        while tasks.len() < most && !tasks.iter().any(HttpTask::is_end) {
            // Unconstrained: tokio's budget may say "pending" for a task that is there.
            match tokio::task::unconstrained(self.handle.rx.recv()).now_or_never() {
                Some(Some(HttpTask::Failed(_))) | Some(None) | None => return,
                Some(Some(task)) => tasks.push(task),
            }
        }
    }

    /// Whether the request body comes from the caller as it flies: it can be sent once only.
    pub fn feeds_live(&self) -> bool {
        self.live
    }

    /// Stops the attempt: the provider's connection closes at once.
    pub fn abort(&self) {
        self.running.abort();
    }

    /// The channel closed: an error may have been left beside it.
    async fn last_words(&mut self) -> Heard {
        match (&mut self.handle.subreq_proxy_error).await {
            Ok(error) => Heard::Failed(error),
            Err(_) => Heard::Nothing,
        }
    }
}

/// Listens to the caller for as long as it stays: hands its body on, then only waits. Returns when it left.
async fn feed(feed: &mut Feed, tx: &Sender<HttpTask>, session: &mut Session, ctx: &mut Ctx) {
    loop {
        let idle = matches!(feed, Feed::Done);
        if idle {
            match session.downstream_session.read_body_or_idle(true).await {
                // Nothing more can come; a caller that says something all the same is ignored.
                Ok(_) => std::future::pending::<()>().await,
                Err(_) => return,
            }
        }
        // Room first: a piece that was read must not be lost when another branch wins.
        let Ok(room) = tx.reserve().await else {
            *feed = Feed::Done;
            continue;
        };
        match session.downstream_session.read_body_or_idle(false).await {
            Ok(chunk) => {
                let end = chunk.is_none() || session.is_body_done();
                ctx.record.bytes_in += chunk.as_ref().map_or(0, |chunk: &Bytes| chunk.len() as u64);
                room.send(HttpTask::Body(chunk, end));
                if end {
                    *feed = Feed::Done;
                }
            }
            Err(_) => return,
        }
    }
}
