//! An exchange whose request body is received from the client while it is sent. The one kind of exchange that reads and
//! writes at the same time.
//!
//! Not a task: it makes progress only while its response is awaited.

use super::connections::OpenConnection;
use bytes::Bytes;
use pingora_core::protocols::http::HttpTask;
use pingora_core::{Error as PingoraError, ErrorType, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// The most response parts that may wait to be read.
const MAX_WAITING: usize = 8;

/// A chunk of the client's body, and whether it is the last one.
pub(super) type BodyChunk = (Option<Bytes>, bool);

/// The connection of a finished exchange; `true` if it can carry another.
type Finished = (OpenConnection, bool);

/// One such exchange.
pub(super) struct StreamedUpload {
    work: Work,
    response: Receiver<HttpTask>,
}

enum Work {
    Running(Pin<Box<dyn Future<Output = Result<Finished>> + Send>>),
    /// It has ended; its result is reported after the parts that still wait.
    Finished(Result<Finished>),
    Taken,
}

/// The result of a poll.
pub(super) enum UploadEvent {
    Task(HttpTask),
    Failed(Box<PingoraError>),
    /// It has ended, and its connection may carry another exchange.
    Reusable(OpenConnection),
    Over,
}

impl StreamedUpload {
    pub fn new(open: OpenConnection, body: Receiver<BodyChunk>) -> Self {
        let (tx, response) = mpsc::channel(MAX_WAITING);
        Self { work: Work::Running(Box::pin(exchange(open, body, tx))), response }
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<UploadEvent> {
        if let Ok(task) = self.response.try_recv() {
            return Poll::Ready(UploadEvent::Task(task));
        }
        if let Work::Running(work) = &mut self.work
            && let Poll::Ready(finished) = work.as_mut().poll(cx)
        {
            self.work = Work::Finished(finished);
        }
        if let Ok(task) = self.response.try_recv() {
            return Poll::Ready(UploadEvent::Task(task));
        }
        if matches!(self.work, Work::Running(_)) {
            return Poll::Pending;
        }
        Poll::Ready(match std::mem::replace(&mut self.work, Work::Taken) {
            Work::Finished(Ok((open, true))) => UploadEvent::Reusable(open),
            Work::Finished(Err(error)) => UploadEvent::Failed(error),
            _ => UploadEvent::Over,
        })
    }
}

/// Sends the body as it arrives. The response may begin before the body is complete.
async fn exchange(
    mut open: OpenConnection,
    mut body: Receiver<BodyChunk>,
    response: Sender<HttpTask>,
) -> Result<Finished> {
    let connection = &mut open.connection;
    let mut sending = true;
    let mut reading = true;
    let mut unsent = None;
    let mut is_sent = false;
    while sending || reading {
        tokio::select! {
            task = connection.read_task(), if reading => match task {
                Ok(task) => {
                    reading = !task.is_end();
                    // The response is complete, so the rest of the body is not needed, and the client is not made to
                    // send it.
                    sending &= reading;
                    if response.send(task).await.is_err() {
                        return Err(PingoraError::explain(ErrorType::InternalError, "the response is not read"));
                    }
                }
                Err(error) => return Err(unsent.unwrap_or(error)),
            },
            chunk = body.recv(), if sending => {
                let Some((chunk, end)) = chunk else {
                    // The client's body broke off; the provider must not take it for a complete one.
                    return Err(PingoraError::explain(ErrorType::ConnectionClosed, "the caller's body broke off"));
                };
                (sending, is_sent) = (!end, end);
                if let Err(error) = connection.send_body(chunk, end).await {
                    (sending, is_sent, unsent) = (false, false, Some(error));
                }
            }
        }
    }
    Ok((open, is_sent))
}
