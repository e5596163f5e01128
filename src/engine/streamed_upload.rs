//! An exchange whose request body comes from the client while it is sent: the one kind that must read and write at once.
//!
//! It works only while its response is awaited, in the task of who waits for it.

use super::opener::OpenConnection;
use bytes::Bytes;
use pingora_core::protocols::http::HttpTask;
use pingora_core::{Error as PingoraError, ErrorType, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Response parts that may wait to be taken.
const MAX_WAITING: usize = 8;

/// A chunk of the client's body, and whether it is the last one.
pub(super) type BodyChunk = (Option<Bytes>, bool);

/// The connection, when the exchange is over; `true`: it can carry another.
type Finished = (OpenConnection, bool);

/// See the module.
pub(super) struct StreamedUpload {
    work: Work,
    response: Receiver<HttpTask>,
}

enum Work {
    Running(Pin<Box<dyn Future<Output = Result<Finished>> + Send>>),
    /// Over; what it came to follows the parts that wait.
    Finished(Result<Finished>),
    Taken,
}

/// What a poll of the exchange came to.
pub(super) enum UploadEvent {
    Task(HttpTask),
    Failed(Box<PingoraError>),
    /// It is over, and its connection may carry another exchange.
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

/// The body goes out as it comes in, and the response may begin before that is over.
async fn exchange(
    mut open: OpenConnection,
    mut body: Receiver<BodyChunk>,
    response: Sender<HttpTask>,
) -> Result<Finished> {
    let connection = &mut open.connection;
    let (mut sending, mut reading, mut unsent) = (true, true, None);
    let mut is_sent = false;
    while sending || reading {
        tokio::select! {
            task = connection.read_task(), if reading => match task {
                Ok(task) => {
                    reading = !task.is_end();
                    // What is left of the body is not wanted any more: the client is not made to send it.
                    sending &= reading;
                    if response.send(task).await.is_err() {
                        return Err(PingoraError::explain(ErrorType::InternalError, "the response is not read"));
                    }
                }
                Err(error) => return Err(unsent.unwrap_or(error)),
            },
            chunk = body.recv(), if sending => {
                let Some((chunk, end)) = chunk else {
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
    Ok((open, is_sent))
}
