//! The body of a request as the router reads it: a piece is read from the session only when it is asked for.
//!
//! So a route that refuses its client by the head alone reads nothing, and who reads decides how much. Not here: what is read of a body
//! that nobody asked for (`serve`).

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::header;
use pingora_core::ErrorType::ReadTimedout;
use pingora_core::Result;
use pingora_core::protocols::http::ServerSession;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use words::error::Error;

type Piece = std::result::Result<Option<Bytes>, Error>;

/// The router's questions for the next piece of the body.
pub(super) struct Questions(mpsc::Receiver<oneshot::Sender<Piece>>);

impl Questions {
    /// A body, and what is asked while it is read.
    pub fn new() -> (Self, Body) {
        let (wants, wanted) = mpsc::channel::<oneshot::Sender<Piece>>(1);
        let pieces = stream::unfold(Some(wants), |wants| async move {
            let wants = wants?;
            let (answer, answered) = oneshot::channel();
            wants.send(answer).await.ok()?;
            match answered.await {
                Ok(Ok(Some(piece))) => Some((Ok(piece), Some(wants))),
                Ok(Err(error)) => Some((Err(error), None)),
                Ok(Ok(None)) | Err(_) => None,
            }
        });
        (Self(wanted), Body::from_stream(pieces))
    }

    /// The next question; waits for ever where none comes any more.
    pub async fn next(&mut self) -> oneshot::Sender<Piece> {
        match self.0.recv().await {
            Some(question) => question,
            None => std::future::pending().await,
        }
    }
}

/// Reads the body of a session, within bounds.
pub(super) struct BodyReader {
    max_body: usize,
    timeout: Duration,
    /// From the first question on.
    deadline: Option<Instant>,
    size: usize,
    /// Why it could not be read to its end.
    pub failure: Option<Error>,
}

impl BodyReader {
    pub const fn new(max_body: usize, timeout: Duration) -> Self {
        Self { max_body, timeout, deadline: None, size: 0, failure: None }
    }

    /// Answers a question.
    ///
    /// # Errors
    /// The client left.
    pub async fn answer(
        &mut self,
        question: oneshot::Sender<Piece>,
        session: &mut ServerSession,
    ) -> Result<()> {
        let piece = self.piece(session).await?;
        if let Err(error) = &piece {
            self.failure = Some(error.clone());
        }
        // Who asked may have gone on without the body.
        let _ = question.send(piece);
        Ok(())
    }

    async fn piece(&mut self, session: &mut ServerSession) -> Result<Piece> {
        let too_large = Error::body_too_large(self.max_body as u64);
        let deadline = match self.deadline {
            Some(deadline) => deadline,
            None => {
                let announced = session.get_header(header::CONTENT_LENGTH);
                let announced = announced.and_then(|length| length.to_str().ok()?.parse().ok());
                if announced.is_some_and(|length: u64| length > self.max_body as u64) {
                    return Ok(Err(too_large));
                }
                let expects = session.get_header(header::EXPECT);
                if expects.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue")) {
                    session.write_continue_response().await?;
                }
                *self.deadline.insert(Instant::now() + self.timeout)
            }
        };
        match tokio::time::timeout_at(deadline, session.read_request_body()).await {
            Ok(Ok(None)) => Ok(Ok(None)),
            Ok(Ok(Some(piece))) => {
                self.size += piece.len();
                Ok(if self.size > self.max_body { Err(too_large) } else { Ok(Some(piece)) })
            }
            Ok(Err(error)) if *error.etype() != ReadTimedout => Err(error),
            _ => Ok(Err(Error::slow_client("The request body did not arrive in time."))),
        }
    }
}
