//! The answer of a provider that speaks otherwise, on its way to the caller.
//!
//! Nothing is sent before it is known what the answer is: a whole one is put together first, a stream is
//! committed with its first content. So an error inside a 200 gets a status of its own, and an answer
//! that breaks before it says anything is no answer. What the words become is the rewriter's business.

use super::ctx::Ctx;
use super::flight::{Flight, Heard};
use super::orchestrate::broken;
use super::{Gateway, answer, failure};
use crate::api::chat::Fault;
use crate::api::tap::Tap;
use crate::error::Error;
use crate::provider::rewriter::Rewriter;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use pingora::http::ResponseHeader;
use pingora_core::Result;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The most of an answer that is read before the caller gets any of it, bytes.
const MOST_HELD: usize = 64 << 20;

/// An answer under translation.
struct Work<'a> {
    gateway: &'a Gateway,
    flight: Flight,
    rewriter: Rewriter,
    /// What the caller will be sent next.
    out: Vec<u8>,
    /// The provider's bytes are over.
    over: bool,
}

/// Hands a translated answer on. `Ok(Err)`: nothing was sent, the plan may go on.
pub(super) async fn relay(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut Ctx,
    flight: Flight,
    (head, end): (Box<ResponseHeader>, bool),
) -> Result<std::result::Result<(), Error>> {
    let Some(translation) = flight.errand.attempt.translation.clone() else {
        return Err(failure::of_ours(ctx, Error::internal("nothing to translate")));
    };
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let rewriter = translation.rewriter(is_events(&head), &ctx.trace_id, created);
    let mut work = Work { gateway, flight, rewriter, out: Vec::new(), over: end };
    if let Err(error) = work.hold(session, ctx, translation.streams()).await? {
        work.flight.abort();
        return Ok(Err(error));
    }
    if let Some(fault) = work.rewriter.fault().cloned() {
        work.flight.abort();
        work.refuse(session, ctx, head, &fault).await?;
    } else if work.rewriter.is_complete() && !translation.streams() {
        work.whole(session, ctx, head).await?;
    } else {
        work.stream(session, ctx, head).await?;
    }
    ctx.rewriter = Some(work.rewriter);
    Ok(Ok(()))
}

fn is_events(head: &ResponseHeader) -> bool {
    let media = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    answer::is_media(media, "text/event-stream")
        || answer::is_media(media, "application/vnd.amazon.eventstream")
}

impl Work<'_> {
    /// Reads until it is known what the answer is.
    async fn hold(
        &mut self,
        session: &mut Session,
        ctx: &mut Ctx,
        streams: bool,
    ) -> Result<std::result::Result<(), Error>> {
        let mut held = 0;
        loop {
            if self.over {
                self.rewriter.finish(&mut self.out);
            }
            if self.rewriter.is_complete() || (streams && self.has_content()) {
                return Ok(Ok(()));
            }
            if self.over {
                return Ok(Err(self.unfinished()));
            }
            match self.flight.next(session, ctx, &self.gateway.shared.phase).await {
                Heard::Task(task) => held += self.take(task),
                Heard::CallerLeft => {
                    self.flight.abort();
                    return Err(failure::of_ours(ctx, Error::caller_left()));
                }
                heard => return Ok(Err(broken(&self.flight, heard, Duration::ZERO))),
            }
            if held > MOST_HELD {
                let error = Error::invalid_answer(
                    "The provider's answer is over 64 MiB, more than this gateway translates.",
                    "answer too long",
                );
                return Ok(Err(error.with_provider(self.flight.errand.attempt.leaf.provider.id())));
            }
        }
    }

    fn has_content(&self) -> bool {
        self.rewriter.learned().is_some_and(|learned| learned.content)
    }

    /// Takes one piece in; tells its size.
    fn take(&mut self, task: HttpTask) -> usize {
        self.over |= task.is_end();
        let HttpTask::Body(Some(chunk), _) = task else { return 0 };
        self.rewriter.push(&chunk, &mut self.out);
        chunk.len()
    }

    fn unfinished(&self) -> Error {
        Error::invalid_answer(
            "The provider closed its answer before it was complete. Try again.",
            "answer ended without a finish",
        )
        .with_provider(self.flight.errand.attempt.leaf.provider.id())
    }

    /// The provider's own error, which came with a good status and before any content.
    async fn refuse(
        &mut self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut head: Box<ResponseHeader>,
        fault: &Fault,
    ) -> Result<()> {
        let status = http::StatusCode::from_u16(fault.status).unwrap_or(http::StatusCode::BAD_GATEWAY);
        head.set_status(status)?;
        let provider = self.flight.errand.attempt.leaf.provider.id();
        self.out = fault.body(ctx.operation.dialect(), Some(provider), Some(&ctx.trace_id));
        self.whole(session, ctx, head).await
    }

    async fn whole(
        &mut self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut head: Box<ResponseHeader>,
    ) -> Result<()> {
        reframe(&mut head, "application/json")?;
        head.insert_header(CONTENT_LENGTH, self.out.len())?;
        answer::label(&mut head, ctx)?;
        let body = Bytes::from(std::mem::take(&mut self.out));
        if self.rewriter.learned().is_none() {
            let mut tap = Tap::new(ctx.operation, false, true, Some(body.len()));
            tap.push(&body);
            ctx.tap = Some(tap);
        }
        self.count(ctx, &body);
        let tasks = vec![HttpTask::Header(head, false), HttpTask::Body(Some(body), true)];
        self.send(session, ctx, tasks).await
    }

    async fn stream(
        &mut self,
        session: &mut Session,
        ctx: &mut Ctx,
        mut head: Box<ResponseHeader>,
    ) -> Result<()> {
        reframe(&mut head, "text/event-stream; charset=utf-8")?;
        head.insert_header(TRANSFER_ENCODING, "chunked")?;
        answer::label(&mut head, ctx)?;
        ctx.record.streamed = true;
        let mut tasks = vec![HttpTask::Header(head, false)];
        loop {
            let done = self.over || self.rewriter.is_complete();
            if done && !self.rewriter.is_complete() {
                // Proper to the last byte, and yet without an end: never pass that off as whole.
                self.fail(ctx, self.unfinished());
            }
            let body = Bytes::from(std::mem::take(&mut self.out));
            self.count(ctx, &body);
            if done || !body.is_empty() {
                tasks.push(HttpTask::Body(Some(body), done));
                self.send(session, ctx, std::mem::take(&mut tasks)).await?;
            }
            if done {
                return Ok(());
            }
            match self.flight.next(session, ctx, &self.gateway.shared.phase).await {
                Heard::Task(task) => {
                    self.take(task);
                    self.drain();
                }
                Heard::CallerLeft => {
                    self.flight.abort();
                    return Err(failure::of_ours(ctx, Error::caller_left()));
                }
                heard => {
                    let error = broken(&self.flight, heard, Duration::ZERO);
                    self.flight.abort();
                    self.fail(ctx, error);
                    self.over = true;
                }
            }
            if self.over {
                self.rewriter.finish(&mut self.out);
            }
        }
    }

    /// Takes what is at hand without waiting, so that it goes out with one write.
    fn drain(&mut self) {
        let mut more = Vec::new();
        self.flight.drain(&mut more, 16);
        for task in more {
            self.take(task);
        }
    }

    fn fail(&mut self, ctx: &mut Ctx, error: Error) {
        self.rewriter.fail(&Fault::from(&error), &mut self.out);
        ctx.failure = Some(error);
    }

    fn count(&self, ctx: &mut Ctx, body: &Bytes) {
        if body.is_empty() {
            return;
        }
        ctx.record.bytes_out += body.len() as u64;
        let now = Instant::now();
        ctx.record.first_byte = ctx.record.first_byte.or(Some(now));
        ctx.record.first_token = ctx.record.first_token.or(Some(now));
    }

    async fn send(&self, session: &mut Session, ctx: &mut Ctx, tasks: Vec<HttpTask>) -> Result<()> {
        match session.write_response_tasks(tasks).await {
            Ok(_) => Ok(()),
            Err(error) => {
                self.flight.abort();
                let error = failure::translate(&error.into_down(), None);
                Err(failure::of_ours(ctx, error))
            }
        }
    }
}

/// The head of a body of ours: what framed the provider's bytes goes.
fn reframe(head: &mut ResponseHeader, media: &'static str) -> Result<()> {
    for name in [&CONTENT_LENGTH, &CONTENT_ENCODING, &TRANSFER_ENCODING] {
        head.remove_header(name);
    }
    head.insert_header(CONTENT_TYPE, media)
}
