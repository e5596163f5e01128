//! One attempt, from its start until its answer is good enough to commit, or is not.
//!
//! Waits for the provider only: whoever drives it listens to the caller meanwhile, and may have two of them
//! in the air. Writes nothing to the caller.

use super::failure;
use super::request_context::AttemptHandle;
use super::response_body::{BodyError, ContentKind, ResponseBody, ResponsePolicy, ResumeSource};
use super::upstream_stream::{AT_ONCE, StreamEvent, UpstreamStream};
use crate::api::chat::ProviderError;
use crate::api::retry_after;
use crate::config::rescue::StreamRescue;
use crate::error::Error;
use crate::provider::error_class::ErrorClass;
use crate::provider::rewriter::Rewriter;
use crate::route::deadlines::{Deadlines, TimeoutKind};
use crate::route::outcome::Outcome;
use bytes::{Bytes, BytesMut};
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use pingora_core::{Error as PingoraError, ErrorType};
use std::time::{Duration, Instant, SystemTime};

/// The most of a failing answer that is read, bytes.
const MOST_REFUSAL: usize = 4 << 20;
/// How long a failing answer's body may take.
const REFUSES: Duration = Duration::from_secs(10);
/// The most of an answer that passes unchanged is held, bytes: a larger one is committed as it comes.
const MOST_CAREFUL: usize = 16 << 20;
/// The most of a good answer that is held before the caller gets any of it, bytes.
const MOST_HELD: usize = 64 << 20;

/// An attempt whose answer is awaited.
pub(crate) struct PendingResponse {
    pub flight: UpstreamStream,
    pub patience: Deadlines,
    pub started: Instant,
    begun: Instant,
    head_at: Instant,
    heard: Instant,
    expected: ResponsePolicy,
    /// Goes on in this one's words, when a stream is being rescued.
    resumes: Option<Rewriter>,
    head: Option<Box<ResponseHeader>>,
    incoming: Option<ResponseBody>,
    /// A failing answer that is being read.
    refusal: Option<ErrorResponse>,
}

/// A failing answer, as far as it was read.
struct ErrorResponse {
    head: Box<ResponseHeader>,
    body: BytesMut,
    over: bool,
}

/// An attempt that came to nothing.
pub(crate) enum AttemptFailure {
    Failed(Outcome, FinalResponse),
    /// The whole request took too long: nothing more may be tried.
    OutOfTime(Error),
}

/// What is left of a failed attempt: what the caller gets when there is no other.
pub(crate) enum FinalResponse {
    /// The provider's answer.
    Answer {
        head: Box<ResponseHeader>,
        body: Bytes,
    },
    /// The provider's error inside a good answer.
    Fault(Box<ResponseHeader>, ProviderError),
    Error(Error),
}

impl PendingResponse {
    /// `started`: the request.
    pub fn new(
        flight: UpstreamStream,
        patience: Deadlines,
        expected: ResponsePolicy,
        started: Instant,
    ) -> Self {
        let now = Instant::now();
        Self {
            flight,
            patience,
            started,
            begun: now,
            head_at: now,
            heard: now,
            expected,
            resumes: None,
            head: None,
            incoming: None,
            refusal: None,
        }
    }

    /// When it was sent.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// The answer goes on in the words of one that broke.
    pub fn resuming(mut self, rewriter: Rewriter) -> Self {
        self.resumes = Some(rewriter);
        self
    }

    /// Waits until the answer may be committed: its first content, or all of it where it is no stream.
    /// Safe to be dropped while it waits, and to be called again.
    pub async fn ready(&mut self) -> Result<(), AttemptFailure> {
        if self.incoming.is_none() && self.refusal.is_none() {
            self.head().await?;
        }
        if self.refusal.is_some() {
            return Err(self.refused().await);
        }
        loop {
            let Some(incoming) = &self.incoming else { return Err(self.broken(StreamEvent::Nothing)) };
            if let Some(trouble) = incoming.trouble().cloned() {
                // What it added to a broken stream counts as told by now: it goes out before the trouble is dealt
                // with. So does what passes as it comes.
                if incoming.has_gone_on() || self.passes(incoming) {
                    return Ok(());
                }
                return Err(self.lost(&trouble));
            }
            if self.is_good(incoming) {
                return Ok(());
            }
            if incoming.taken > MOST_HELD {
                let error = Error::invalid_response(
                    "The provider's answer is over 64 MiB, more than this gateway holds.",
                    "answer too long",
                );
                return Err(AttemptFailure::Failed(
                    Outcome::Failed,
                    FinalResponse::Error(self.signed(error)),
                ));
            }
            let (deadline, why) = match incoming.has_content() {
                true => self.patience.idle_deadline(self.heard),
                false => self.patience.first_token_deadline(self.begun, self.head_at, self.heard),
            };
            match self.flight.next(deadline).await {
                StreamEvent::Task(task) => self.take(task).await,
                StreamEvent::TimedOut => return Err(self.silent(why)),
                heard => return Err(self.broken(heard)),
            }
        }
    }

    async fn take(&mut self, task: HttpTask) {
        self.heard = Instant::now();
        let Some(incoming) = &mut self.incoming else { return };
        incoming.take(task);
        self.flight.gather(AT_ONCE, |task| incoming.take(task)).await;
    }

    /// Whether what came suffices to commit it.
    fn is_good(&self, incoming: &ResponseBody) -> bool {
        let over = incoming.is_over();
        if over || self.patience.rescue == StreamRescue::Buffer {
            return over;
        }
        let streams = incoming.shape == ContentKind::Events && self.streams();
        match (incoming.is_translated(), self.expected.careful) {
            (_, _) if streams => {
                incoming.has_content() || (!self.expected.careful && !incoming.is_translated())
            }
            // One document: there is nothing to send before it is there.
            (true, _) => false,
            (false, true) => match incoming.shape {
                ContentKind::Json => incoming.taken > MOST_CAREFUL,
                _ => incoming.has_content(),
            },
            (false, false) => true,
        }
    }

    /// Whether events go on as they come: nothing could be done about what is wrong with them.
    fn passes(&self, incoming: &ResponseBody) -> bool {
        let careful = self.expected.careful || self.patience.rescue == StreamRescue::Buffer;
        incoming.shape == ContentKind::Events && !careful && !incoming.is_translated()
    }

    /// Whether the caller gets events.
    fn streams(&self) -> bool {
        let translation = self.flight.errand.attempt.translation.as_ref();
        translation.is_none_or(|translation| translation.is_patch() || translation.streams())
            || self.resumes.is_some()
    }

    async fn head(&mut self) -> Result<(), AttemptFailure> {
        let head = loop {
            let (deadline, why) = self.patience.header_deadline(self.begun);
            match self.flight.next(deadline).await {
                // 100 and 103 are between the provider and us.
                StreamEvent::Task(HttpTask::Header(head, _)) if head.status.is_informational() => {}
                StreamEvent::Task(HttpTask::Header(head, end)) => break (head, end),
                StreamEvent::TimedOut => return Err(self.silent(why)),
                heard => return Err(self.broken(heard)),
            }
        };
        self.head_at = Instant::now();
        self.heard = self.head_at;
        let (head, end) = head;
        if !head.status.is_success() {
            self.refusal = Some(ErrorResponse { head, body: BytesMut::new(), over: end });
            return Ok(());
        }
        let translation = self.flight.errand.attempt.translation.as_ref();
        let mut incoming = match self.resumes.take() {
            Some(rewriter) => ResponseBody::resumed(&head, rewriter, self.expected.clone()),
            None => ResponseBody::new(&head, translation, self.expected.clone()),
        };
        if end {
            incoming.take(HttpTask::Done);
        } else {
            // Most answers that are small come as one: head and body leave with one write, too.
            self.flight.gather(AT_ONCE, |task| incoming.take(task)).await;
        }
        self.head = Some(head);
        self.incoming = Some(incoming);
        Ok(())
    }

    /// Reads a failing answer and what it means.
    async fn refused(&mut self) -> AttemptFailure {
        let Some(refusal) = &mut self.refusal else { return self.broken(StreamEvent::Nothing) };
        let status = refusal.head.status.as_u16();
        while !refusal.over {
            let deadline = Some(self.head_at + REFUSES);
            match self.flight.next(deadline).await {
                StreamEvent::Task(task) => {
                    refusal.over = task.is_end();
                    if let HttpTask::Body(Some(chunk), _) = task {
                        refusal.body.extend_from_slice(&chunk);
                    }
                    if refusal.body.len() > MOST_REFUSAL {
                        let error = Error::invalid_response(
                            format!(
                                "The provider answered {status} with more than 4 MiB, which are not read."
                            ),
                            "failing answer too long",
                        );
                        return AttemptFailure::Failed(
                            Outcome::from_status(status),
                            FinalResponse::Error(self.signed(error)),
                        );
                    }
                }
                // The status is what counts; the words are as far as they came.
                _ => break,
            }
        }
        let Some(ErrorResponse { head, body, .. }) = self.refusal.take() else {
            return self.broken(StreamEvent::Nothing);
        };
        let body = body.freeze();
        let said = ErrorClass::classify(status, &body);
        let wait = retry_after::retry_delay(&head.headers, status == 429, SystemTime::now());
        AttemptFailure::Failed(
            Outcome::Response { status, class: said, retry_after: wait },
            FinalResponse::Answer { head, body },
        )
    }

    fn lost(&mut self, trouble: &BodyError) -> AttemptFailure {
        match trouble {
            BodyError::Error(fault, _) => {
                let status = if fault.status < 400 { 502 } else { fault.status };
                let body = fault.body(crate::api::Dialect::OpenAi, None, None);
                let outcome = Outcome::Response {
                    status,
                    class: ErrorClass::classify(status, &body),
                    retry_after: None,
                };
                let last = match self.head.take() {
                    Some(head) => FinalResponse::Fault(head, ProviderError { status, ..fault.clone() }),
                    None => FinalResponse::Error(self.early()),
                };
                AttemptFailure::Failed(outcome, last)
            }
            BodyError::Malformed(cause) => {
                let message = "The provider's answer is not what was asked for. Try again.";
                let error = Error::invalid_response(message, *cause);
                AttemptFailure::Failed(Outcome::Failed, FinalResponse::Error(self.signed(error)))
            }
            BodyError::Early | BodyError::Misfit => {
                AttemptFailure::Failed(Outcome::Failed, FinalResponse::Error(self.early()))
            }
        }
    }

    fn early(&self) -> Error {
        self.signed(Error::invalid_response(
            "The provider closed its answer before it was complete. Try again.",
            "answer ended without a finish",
        ))
    }

    fn silent(&self, why: TimeoutKind) -> AttemptFailure {
        let leaf = &self.flight.errand.attempt.target;
        let error = self.patience.timeout_error(why, leaf, self.started);
        match why {
            TimeoutKind::Total => AttemptFailure::OutOfTime(error),
            _ => AttemptFailure::Failed(Outcome::TimedOut, FinalResponse::Error(error)),
        }
    }

    fn broken(&self, heard: StreamEvent) -> AttemptFailure {
        use ErrorType as E;
        let silent = matches!(&heard, StreamEvent::Failed(error) if matches!(
            error.etype(),
            E::ConnectTimedout | E::TLSHandshakeTimedout | E::ReadTimedout | E::WriteTimedout
        ));
        let outcome = if silent { Outcome::TimedOut } else { Outcome::Failed };
        AttemptFailure::Failed(outcome, FinalResponse::Error(explain(&self.flight.errand, heard)))
    }

    fn signed(&self, error: Error) -> Error {
        error.with_provider(self.flight.errand.attempt.target.provider.id())
    }

    /// What writes on in the caller's stream, of an attempt to rescue it.
    pub fn into_rewriter(self) -> Option<Rewriter> {
        let incoming = self.incoming.and_then(|incoming| match incoming.into_broken() {
            ResumeSource::Rewriter(rewriter) => Some(*rewriter),
            ResumeSource::Sent(_) => None,
        });
        self.resumes.or(incoming)
    }

    /// The answer, ready to be committed. `None` before [`Trial::ready`].
    pub fn into_parts(self) -> Option<(UpstreamStream, Deadlines, Box<ResponseHeader>, ResponseBody)> {
        Some((self.flight, self.patience, self.head?, self.incoming?))
    }
}

impl FinalResponse {
    /// For an error event in a stream that was begun.
    pub fn into_fault(self) -> (ProviderError, Option<Error>) {
        match self {
            FinalResponse::Error(error) => (ProviderError::from(&error), Some(error)),
            FinalResponse::Fault(_, fault) => {
                let error = told(&fault);
                (fault, Some(error))
            }
            FinalResponse::Answer { head, body } => {
                let fault = ProviderError::read(head.status.as_u16(), &body);
                let error = told(&fault);
                (fault, Some(error))
            }
        }
    }
}

/// For the log: a provider's error that came when the caller had an answer's head already.
fn told(fault: &ProviderError) -> Error {
    let message = format!("The provider answered {}: {}", fault.status, fault.message);
    Error::invalid_response(message, "after the answer was begun")
}

/// Ours for what was heard instead of an answer.
pub(crate) fn explain(errand: &AttemptHandle, heard: StreamEvent) -> Error {
    if let Some(error) = errand.state.read(|noted| noted.failure.clone()) {
        return error;
    }
    let leaf = Some(errand.attempt.target.as_ref());
    match heard {
        StreamEvent::Failed(error) => failure::translate(&error, leaf),
        _ => {
            let error = PingoraError::explain(ErrorType::ConnectionClosed, "no answer");
            failure::translate(&error.into_up(), leaf)
        }
    }
}
