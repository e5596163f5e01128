//! Runs attempts as Pingora subrequests and hands the answer on: the driver that obeys the plan.
//!
//! Pingora's subrequest API itself is young and stays in `flight` (and `upstream`, where a subrequest finds its
//! errand). Nothing is decided here but when the answer is committed: its head goes to the caller only when
//! the plan says to keep it.

use super::ctx::{Ctx, Errand};
use super::flight::{Flight, Heard};
use super::{Gateway, answer, authorize, failure, translate};
use crate::api::reply;
use crate::error::Error;
use crate::route::attempt::{Attempt, Request};
use crate::route::plan::{Outcome, Plan, Step};
use bytes::Bytes;
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use pingora_core::{Error as PingoraError, ErrorType, Result};
use pingora_proxy::Session;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How many tasks are written to the caller at once, when so many are at hand.
const BATCH: usize = 16;

/// Makes attempts until one is kept or none is left. `step`: the plan's first word.
///
/// # Errors
/// The last failure (noted in the context), or the caller's leaving.
pub(super) async fn run(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut Ctx,
    plan: &mut Plan,
    request: &Request,
    mut step: std::result::Result<Step, Error>,
) -> Result<()> {
    let mut last = None;
    loop {
        match step {
            Ok(Step::Try(attempt, wait)) => {
                if !wait.is_zero() {
                    sleep(wait).await;
                }
                ctx.record.retries = plan.retries();
                match one(gateway, session, ctx, plan, request, attempt).await? {
                    Ok(()) => return Ok(()),
                    Err(error) => {
                        step = plan.next(Some(&Outcome::Failed(error.kind.row().code)), request);
                        last = Some(error);
                    }
                }
            }
            Ok(Step::Keep | Step::GiveUp) => {
                let error = last.unwrap_or_else(|| Error::internal("the plan made no attempt"));
                return Err(failure::of_ours(ctx, error));
            }
            Err(error) => return Err(failure::of_ours(ctx, error)),
        }
    }
}

/// One attempt: `Ok(Ok)` when its answer went to the caller, `Ok(Err)` when the plan may go on.
async fn one(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut Ctx,
    plan: &mut Plan,
    request: &Request,
    attempt: Arc<Attempt>,
) -> Result<std::result::Result<(), Error>> {
    let errand = Errand::new(attempt);
    ctx.errand = Some(errand.clone());
    let limit = errand.attempt.leaf.request_timeout;
    let deadline = limit.map(|limit| Instant::now() + limit);
    if let Err(error) = authorize::authorized(gateway, session, ctx, &errand, request, deadline).await {
        ctx.record.tried(&errand, Some(&error));
        return Ok(Err(error));
    }
    let (flight, head) = loop {
        let mut flight = Flight::launch(session, ctx, errand.clone())?;
        match flight.head(session, ctx, &gateway.shared.phase, deadline).await {
            Heard::Task(HttpTask::Header(head, end)) => break (flight, (head, end)),
            Heard::CallerLeft => {
                flight.abort();
                return Err(failure::of_ours(ctx, Error::caller_left()));
            }
            // A dead connection from the pool is nobody's failure. A body that streams by is gone, though.
            Heard::Failed(_) if !flight.feeds_live() && errand.marks.take_stale() => flight.abort(),
            heard => {
                let error = broken(&flight, heard, limit.unwrap_or_default());
                flight.abort();
                ctx.record.tried(&flight.errand, Some(&error));
                return Ok(Err(error));
            }
        }
    };
    let status = head.0.status.as_u16();
    ctx.record.tried(&flight.errand, None);
    authorize::doubted(gateway, &flight.errand, status);
    let translation = flight.errand.attempt.translation.as_ref();
    let translated = status < 400 && translation.is_some_and(|translation| !translation.mends());
    match plan.next(Some(&Outcome::Answered(status)), request) {
        Ok(Step::Keep) if translated => translate::relay(gateway, session, ctx, flight, head).await,
        Ok(Step::Keep) => relay(gateway, session, ctx, flight, head).await.map(Ok),
        _ => Err(failure::of_ours(ctx, Error::internal("the plan cannot yet change its mind"))),
    }
}

/// Commits the answer: its head, then its body as it comes, several pieces with one write.
async fn relay(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut Ctx,
    mut flight: Flight,
    (mut head, end): (Box<ResponseHeader>, bool),
) -> Result<()> {
    answer::head(&mut head, ctx)?;
    let mut tasks = Vec::with_capacity(BATCH);
    tasks.push(HttpTask::Header(head, end));
    let mut done = end;
    flight.drain(&mut tasks, BATCH);
    loop {
        done |= tasks.iter().any(HttpTask::is_end);
        for task in &mut tasks {
            match task {
                HttpTask::Body(chunk, end) => answer::body(chunk, *end, ctx),
                HttpTask::Done if ctx.rewriter.is_some() => {
                    let mut last = None;
                    answer::body(&mut last, true, ctx);
                    *task = HttpTask::Body(last, true);
                }
                _ => {}
            }
        }
        if done && let Some(event) = unfinished(ctx) {
            // The provider closed the stream properly but without an end: never pass that off as whole.
            end_with(&mut tasks, event);
        }
        if let Err(error) = session.write_response_tasks(std::mem::take(&mut tasks)).await {
            flight.abort();
            let error = failure::translate(&error.into_down(), None);
            return Err(failure::of_ours(ctx, error));
        }
        if done {
            return Ok(());
        }
        match flight.next(session, ctx, &gateway.shared.phase).await {
            Heard::Task(task) => {
                tasks.push(task);
                flight.drain(&mut tasks, BATCH);
            }
            Heard::CallerLeft => {
                flight.abort();
                return Err(failure::of_ours(ctx, Error::caller_left()));
            }
            heard => return cut(session, ctx, flight, heard).await,
        }
    }
}

/// The answer broke after it began. A stream is ended with the dialect's error event; anything else has its
/// connection broken, so that the caller cannot take a part for the whole.
async fn cut(session: &mut Session, ctx: &mut Ctx, flight: Flight, heard: Heard) -> Result<()> {
    let error = broken(&flight, heard, Duration::ZERO);
    flight.abort();
    if ctx.record.streamed {
        let events = ctx.tap.as_ref().map_or(0, |tap| tap.learned().events);
        let event = Bytes::from(reply::error_event(&error, ctx.operation.dialect(), events));
        ctx.failure = Some(error);
        ctx.record.bytes_out += event.len() as u64;
        session.set_keepalive(None);
        session.write_response_tasks(vec![HttpTask::Body(Some(event), true)]).await?;
        return Ok(());
    }
    Err(failure::of_ours(ctx, error))
}

/// The error event for a stream that ended without an end, when there is need of one.
fn unfinished(ctx: &mut Ctx) -> Option<Bytes> {
    let tap = ctx.tap.as_mut()?;
    tap.finish();
    let learned = tap.learned();
    let (complete, events) = (learned.is_complete() || learned.error.is_some(), learned.events);
    if !ctx.record.streamed || complete || !ctx.operation.is_unified() {
        return None;
    }
    let leaf = ctx.errand.as_ref().map(|errand| &errand.attempt.leaf)?;
    let error = Error::invalid_answer(
        "The provider closed the stream before the answer was complete. Try again.",
        "stream ended without a finish",
    )
    .with_provider(leaf.provider.id());
    let event = Bytes::from(reply::error_event(&error, ctx.operation.dialect(), events));
    ctx.failure = Some(error);
    ctx.record.bytes_out += event.len() as u64;
    Some(event)
}

/// Puts `event` before the end of the answer.
fn end_with(tasks: &mut Vec<HttpTask>, event: Bytes) {
    let last = tasks.pop();
    if let Some(HttpTask::Body(Some(chunk), _)) = last {
        tasks.push(HttpTask::Body(Some(chunk), false));
    }
    tasks.push(HttpTask::Body(Some(event), true));
}

pub(super) fn broken(flight: &Flight, heard: Heard, limit: Duration) -> Error {
    let leaf = &flight.errand.attempt.leaf;
    if let Some(error) = flight.errand.marks.read(|noted| noted.failure.clone()) {
        return error;
    }
    match heard {
        Heard::TimedOut => Error::timed_out(limit.as_millis() as u64).with_provider(leaf.provider.id()),
        Heard::Draining => Error::draining(),
        Heard::Failed(error) => failure::translate(&error, Some(leaf)),
        _ => {
            let error = PingoraError::explain(ErrorType::ConnectionClosed, "no answer");
            failure::translate(&error.into_up(), Some(leaf))
        }
    }
}
