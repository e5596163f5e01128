//! One attempt from its start to its last byte: its exchange, its deadlines, its permit, and its response as far as it was
//! read.
//!
//! It waits for the provider only: its owner watches the client, and may run two attempts in parallel. It sends nothing to
//! the client, and does not decide what follows a failure (`route::plan`).
//!
//! ```text
//! start ─> header awaited ─> 2xx ─> body read until it may be committed ─> forwarded ─> complete
//!                       │                     └─> failed                        └─> interrupted
//!                       └─> other ─> error body read ─> failed
//! ```

use super::api_response;
use super::attempt::ends::Ends;
use super::attempt_state::AttemptFacts;
use super::attempt_usage::Observed;
use super::body_error::{BodyError, late_error};
use super::caching::{CacheNote, CacheStatus, CachedCall};
use super::content_kind::ContentKind;
use super::guarding::Guarded;
use super::header_edit::{mask_headers, withheld};
use super::payload_capture::BoundedBody;
use super::response_body::{ResponseBody, ResumeSource};
use super::response_policy::ResponsePolicy;
use super::upstream_stream::{StreamEvent, UpstreamStream};
use bytes::{Bytes, BytesMut};
use judgment::route::attempt::Attempt;
use judgment::route::deadlines::{Deadlines, TimeoutKind};
use judgment::route::outcome::Outcome;
use judgment::route::plan::Reason;
use knowledge::provider::rewriter::{Rewriter, TextFilters};
use knowledge::provider::translation::Translation;
use memory::state::held_bytes::Hold;
use memory::state::large_work::run_here;
use memory::state::targets::Permit;
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use words::api::chat::ProviderError;
use words::api::error_class::ErrorClass;
use words::api::retry_after;
use words::config::policies::StreamRescue;
use words::error::Error;

/// The largest error response that is read, in bytes.
const MAX_ERROR_BODY: usize = 4 << 20;
/// How long an error response's body may take.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes held of a response that passes unchanged; a larger one is committed before it is complete.
const MAX_VALIDATED: usize = 16 << 20;
/// The most bytes held of a successful response before it is committed.
const MAX_HELD: usize = 64 << 20;

/// One attempt that was started: all that is known of it.
pub(super) struct AttemptRun {
    pub attempt: Arc<Attempt>,
    /// What its look-up found.
    pub cache: CacheNote,
    /// Why the plan picked its target.
    pub reason: Reason,
    /// The circuit breaker's permit, if the target has a breaker.
    pub permit: Option<Permit>,
    pub deadlines: Deadlines,
    pub stream: UpstreamStream,
    /// Which part of the response it waits for.
    pub phase: Phase,
    pub clock: Clock,
    pub making: Making,
    /// Counts what is held of its response.
    pub held: Hold,
    pub source: ResponseSource,
    pub layers: LaidLayers,
}

/// When what happened.
pub(super) struct Clock {
    /// When the attempt was sent.
    started: Instant,
    header_at: Instant,
    last_read: Instant,
    /// When the client's request arrived.
    request_started: Instant,
}

/// What its response is made with.
pub(super) struct Making {
    pub policy: ResponsePolicy,
    /// The request's trace id.
    pub trace_id: Arc<str>,
    /// Filters over its text.
    pub filters: Option<Box<TextFilters>>,
    /// It continues the stream that this rewriter has written so far.
    pub resumes: Option<Rewriter>,
    /// What keeps it as the provider sends it; `None`: nothing does.
    pub original: Option<BoundedBody>,
}

/// What layers have laid around it.
pub(super) struct LaidLayers {
    /// What hooks have found, and have yet to judge.
    pub guarded: Option<Box<Guarded>>,
    /// How the cache takes part, unless the response is from there.
    pub cached: Option<CachedCall>,
    /// What they do when it has ended.
    pub ends: Ends,
}

impl Clock {
    /// Of an attempt that is sent now.
    pub fn new(request_started: Instant) -> Self {
        let now = Instant::now();
        Self { started: now, header_at: now, last_read: now, request_started }
    }
}

/// Where the response of an attempt comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseSource {
    Provider,
    /// Made by the gateway, in the client's dialect.
    Gateway,
    /// As the provider once sent it.
    Cache,
    /// The provider's, to a request that stood in one of its batch jobs.
    BatchJob,
}

impl ResponseSource {
    /// Whether a provider is paid for it now.
    fn is_paid(self) -> bool {
        matches!(self, Self::Provider | Self::BatchJob)
    }
}

/// Which part of its response an attempt waits for.
pub(super) enum Phase {
    Header,
    ErrorBody(ErrorResponse),
    Body(Box<ResponseHeader>, Box<ResponseBody>),
}

/// A response with a status other than 2xx, as far as it was read.
pub(super) struct ErrorResponse {
    header: Box<ResponseHeader>,
    body: BytesMut,
    complete: bool,
}

/// The result of waiting for a response.
pub(super) enum Readiness {
    /// The response may be sent to the client.
    Committable,
    Failed(Outcome, FinalResponse),
    /// The request's total deadline passed: no other attempt may be made.
    Stopped(Error),
}

/// What the client gets if no attempt follows a failed one.
pub(super) enum FinalResponse {
    /// The provider's response.
    Provider {
        header: Box<ResponseHeader>,
        body: Bytes,
    },
    /// The provider's error, sent inside a response with a success status.
    ProviderError(Box<ResponseHeader>, ProviderError),
    /// A filter denied the response. The response of an earlier attempt is not sent in its place.
    Denied(Error),
    Error(Error),
}

impl AttemptRun {
    /// What the record has of it, as far as it is.
    pub fn facts(&self) -> AttemptFacts {
        let attempt = Some(Arc::clone(&self.attempt));
        AttemptFacts { attempt, state: self.stream.state(), cache: self.cache, ..AttemptFacts::default() }
    }

    /// It got no response. Where it has read along with the call of another request, that was no hit.
    pub(crate) fn note_failed_call(&mut self) {
        if self.reads_along() && self.cache.is_shared {
            self.cache.status = CacheStatus::Miss;
        }
    }

    /// When the attempt was sent.
    pub fn started(&self) -> Instant {
        self.clock.started
    }

    /// What it used, by what was read of its response.
    pub fn observed(&self) -> Observed {
        match (self.is_charged(false), &self.phase) {
            (true, Phase::Body(_, body)) => {
                let observed = |summary| Observed::of(&self.attempt, summary).cut(summary);
                body.summary().map_or(Observed::Nothing, observed)
            }
            (true, Phase::Header) if self.is_sent() => Observed::unanswered(&self.attempt),
            _ => Observed::Nothing,
        }
    }

    /// Whether its request has left for the provider, by itself or by the call that others read as well.
    fn is_sent(&self) -> bool {
        self.stream.state().is_sent || self.layers.cached.as_ref().is_some_and(CachedCall::is_sent)
    }

    /// Whether the target is called for it, and for no other request first.
    pub(crate) fn calls_target(&self) -> bool {
        self.source == ResponseSource::Provider
            && self.layers.cached.as_ref().is_none_or(CachedCall::is_leader)
    }

    /// Whether it reads the response to another request's call.
    pub(crate) fn reads_along(&self) -> bool {
        self.layers.cached.as_ref().is_some_and(|cached| !cached.is_leader())
    }

    pub(crate) fn is_from_cache(&self) -> bool {
        self.source == ResponseSource::Cache
    }

    /// Whether what it used is charged. Asked once, when it is over; `is_complete`: the client got all of the response.
    pub fn is_charged(&self, is_complete: bool) -> bool {
        self.source.is_paid()
            && self.layers.cached.as_ref().is_none_or(|cached| cached.is_charged(is_complete))
    }

    /// Whether it is charged for what it used, whoever else may read it.
    pub(crate) fn is_charged_alone(&self) -> bool {
        self.source.is_paid() && self.layers.cached.is_none()
    }

    fn is_local(&self) -> bool {
        self.source == ResponseSource::Gateway
    }

    /// Waits until the response may be committed: for the first content of a stream, for all of any other response. May be
    /// dropped while it waits, and called again.
    pub(crate) async fn until_committable(&mut self) -> Readiness {
        loop {
            let event = match &mut self.phase {
                Phase::Header => {
                    let (deadline, kind) = self.deadlines.header_deadline(self.clock.started);
                    (self.stream.next(deadline).await, kind)
                }
                Phase::ErrorBody(response) if response.complete => return self.error_response(),
                Phase::ErrorBody(_) => {
                    let until = self.clock.header_at + ERROR_BODY_TIMEOUT;
                    let (deadline, kind) = self.deadlines.error_body_deadline(until);
                    match self.stream.next(deadline).await {
                        StreamEvent::Task(task) => (StreamEvent::Task(task), kind),
                        StreamEvent::TimedOut if kind != TimeoutKind::Idle => return self.timed_out(kind),
                        // The status decides; the body is used as far as it was read.
                        _ => return self.error_response(),
                    }
                }
                Phase::Body(_, body) => {
                    let has_content = body.has_content();
                    let content = body.shape.kind;
                    if let Some(readiness) = self.readiness() {
                        return readiness;
                    }
                    let (deadline, kind) = if has_content {
                        let is_stream = content.is_stream();
                        let is_other = self.is_other_kind(content);
                        self.deadlines.idle_deadline(self.clock.last_read, is_stream == Some(true), is_other)
                    } else {
                        self.deadlines.first_token_deadline(
                            self.clock.started,
                            self.clock.header_at,
                            self.clock.last_read,
                        )
                    };
                    (self.stream.next(deadline).await, kind)
                }
            };
            match event {
                (StreamEvent::Task(task), _) => {
                    if let Some(failed) = self.accept(task) {
                        return failed;
                    }
                    if let Err(error) = self.held.set(self.held_bytes()) {
                        return Readiness::Stopped(error);
                    }
                }
                (StreamEvent::TimedOut, kind) => return self.timed_out(kind),
                (StreamEvent::Failed(failure), _) => {
                    let outcome = if failure.timed_out { Outcome::TimedOut } else { Outcome::Failed };
                    return Readiness::Failed(outcome, FinalResponse::Error(*failure.error));
                }
            }
        }
    }

    /// Accepts one part of the response. `Some`: the response cannot be used.
    fn accept(&mut self, task: HttpTask) -> Option<Readiness> {
        self.clock.last_read = Instant::now();
        match &mut self.phase {
            Phase::Header => match task {
                // 100 and 103 are not passed on.
                HttpTask::Header(header, _) if header.status.is_informational() => {}
                HttpTask::Header(header, end) => self.accept_header(header, end),
                _ => {
                    let failure = super::failure::UpstreamFailure::no_response(&self.attempt.target);
                    return Some(Readiness::Failed(Outcome::Failed, FinalResponse::Error(*failure.error)));
                }
            },
            Phase::ErrorBody(response) => {
                response.complete = task.is_end();
                if let HttpTask::Body(Some(chunk), _) = task {
                    response.body.extend_from_slice(&chunk);
                }
                if response.body.len() > MAX_ERROR_BODY {
                    let status = response.header.status.as_u16();
                    let error = Error::invalid_response(
                        format!("The provider answered {status} with more than 4 MiB, which are not read."),
                        "failing answer too long",
                    );
                    let error = FinalResponse::Error(self.with_provider(error));
                    return Some(Readiness::Failed(Outcome::from_status(status), error));
                }
            }
            Phase::Body(_, body) => {
                body.accept(task);
                self.stream.gather(|task| body.accept(task));
            }
        }
        None
    }

    /// How many bytes are held of the response.
    fn held_bytes(&self) -> usize {
        match &self.phase {
            Phase::Header => 0,
            Phase::ErrorBody(response) => response.body.len(),
            Phase::Body(_, body) => body.held_bytes() + self.stream.watched_bytes(),
        }
    }

    fn accept_header(&mut self, mut header: Box<ResponseHeader>, end: bool) {
        self.clock.header_at = self.clock.last_read;
        let api = if self.is_local() { None } else { api_response::translation(&self.attempt, &mut header) };
        if !header.status.is_success() {
            self.phase = Phase::ErrorBody(ErrorResponse { header, body: BytesMut::new(), complete: end });
            return;
        }
        let filters = self.making.filters.take();
        // A response made by the gateway is decoded only to be filtered.
        let translation = self.attempt.translation.as_ref().filter(|_| !self.is_local() || filters.is_some());
        let kind = ContentKind::of(&header);
        let converting = api.or_else(|| self.conversion(kind));
        let translation = converting.as_ref().or(translation);
        let mut body = Box::new(match self.making.resumes.take() {
            Some(mut rewriter) => {
                rewriter.set_filters(filters);
                ResponseBody::resumed(kind, rewriter, self.making.policy)
            }
            None => ResponseBody::new(
                kind,
                &header,
                translation,
                self.making.policy,
                &self.making.trace_id,
                filters,
            ),
        });
        if self.attempt.hides_usage && !self.is_local() {
            body.hide_usage();
        }
        body.keep_original(self.making.original.take().filter(|_| !self.is_local()));
        if end {
            body.accept(HttpTask::Done);
        } else {
            // Header and body of most small responses arrive together, so they are also sent with one write.
            self.stream.gather(|task| body.accept(task));
        }
        self.phase = Phase::Body(header, body);
    }

    /// Whether the response is a whole document where a stream was requested, or the other way round, and can be converted.
    fn is_other_kind(&self, kind: ContentKind) -> bool {
        let is_other =
            kind.is_stream().is_some_and(|is_stream| self.making.policy.wanted.is_other_kind(is_stream));
        is_other && !self.is_local() && self.making.resumes.is_none()
    }

    /// How a response of the kind that was not requested is converted.
    fn conversion(&self, kind: ContentKind) -> Option<Translation> {
        let attempt = &self.attempt;
        let is_stream = kind.is_stream().filter(|_| self.is_other_kind(kind))?;
        run_here(attempt.body.as_ref().map_or(0, Bytes::len), || attempt.conversion(is_stream))
    }

    /// `None`: more of the response is needed.
    fn readiness(&self) -> Option<Readiness> {
        let Phase::Body(_, body) = &self.phase else { return None };
        if let Some(error) = body.error().cloned() {
            // A resumed stream may carry new text before its error. Send that text first; otherwise the next attempt
            // would continue after bytes the client never got. The same holds for events that are forwarded unchecked.
            let is_foreign = matches!(error, BodyError::Malformed(_));
            if body.has_resumed() || (self.passes_events(body) && !is_foreign) {
                return Some(Readiness::Committable);
            }
            return Some(self.body_failed(&error));
        }
        if self.is_committable(body) {
            return Some(Readiness::Committable);
        }
        if body.progress.received > MAX_HELD {
            let error = Error::invalid_response(
                "The provider's answer is over 64 MiB, more than this gateway holds.",
                "answer too long",
            );
            return Some(Readiness::Failed(Outcome::Failed, FinalResponse::Error(self.with_provider(error))));
        }
        None
    }

    /// Whether enough of the response has arrived to commit it.
    fn is_committable(&self, body: &ResponseBody) -> bool {
        let finished = body.is_finished();
        let is_held = self.layers.guarded.as_ref().is_some_and(|guarded| guarded.holds(body.shape.streams));
        if finished || is_held || self.deadlines.rescue == StreamRescue::Buffer {
            return finished;
        }
        if body.shape.kind == ContentKind::Events && body.shape.streams {
            let passes = !self.making.policy.validates && !body.is_processed();
            return body.has_content() || (passes && body.progress.received > 0);
        }
        match (body.is_processed(), self.making.policy.validates) {
            // A document is translated or filtered only when it is complete.
            (true, _) => false,
            (false, true) => match body.shape.kind {
                ContentKind::Json => body.progress.received > MAX_VALIDATED,
                // `request_timeout` bounds the whole of it, and a failure can only be sent before its first byte.
                ContentKind::Other if self.deadlines.request_deadline.is_some() => {
                    body.progress.received > MAX_VALIDATED
                }
                _ => body.has_content(),
            },
            (false, false) => !body.is_unclear(),
        }
    }

    /// Whether events are forwarded unchecked, because no other attempt could replace an invalid one.
    fn passes_events(&self, body: &ResponseBody) -> bool {
        let validates = self.making.policy.validates || self.deadlines.rescue == StreamRescue::Buffer;
        let passes = body.shape.kind == ContentKind::Events && !validates && !body.is_processed();
        passes && body.progress.received > 0 && !body.is_untouched()
    }

    /// Classifies an error response.
    fn error_response(&mut self) -> Readiness {
        let Phase::ErrorBody(response) = std::mem::replace(&mut self.phase, Phase::Header) else {
            return Readiness::Failed(Outcome::Failed, FinalResponse::Error(self.truncated()));
        };
        let ErrorResponse { mut header, body, .. } = response;
        let status = header.status.as_u16();
        let mask = self.attempt.credential_mask();
        mask_headers(&mut header, &mask);
        let body = withheld(&mut header, &mask).unwrap_or_else(|| mask.bytes(body.freeze()));
        let class = ErrorClass::of(&read_error(&header, &body));
        let retry_after = retry_after::retry_delay(&header.headers, status == 429, SystemTime::now());
        let outcome = Outcome::Response { status, class, retry_after };
        Readiness::Failed(outcome, FinalResponse::Provider { header, body })
    }

    /// Parts of a failing response without the gateway's credentials, in one piece.
    pub fn mask(&self, parts: &[Bytes]) -> Vec<Bytes> {
        let whole = self.attempt.credential_mask().bytes(parts.concat().into());
        vec![whole].into_iter().filter(|whole| !whole.is_empty()).collect()
    }

    /// A provider's error without the gateway's credentials.
    pub fn masked(&self, mut error: ProviderError) -> ProviderError {
        let mask = self.attempt.credential_mask();
        let others = [&mut error.kind, &mut error.code, &mut error.param];
        others.into_iter().flatten().for_each(|text| mask.text(text));
        mask.text(&mut error.message);
        error
    }

    fn body_failed(&self, error: &BodyError) -> Readiness {
        match error {
            BodyError::Provider(error, _) => {
                let status = if error.status < 400 { 502 } else { error.status };
                let error = ProviderError { status, ..self.masked(error.clone()) };
                let class = ErrorClass::of(&error);
                let outcome = Outcome::Response { status, class, retry_after: None };
                let Phase::Body(header, _) = &self.phase else {
                    return Readiness::Failed(outcome, FinalResponse::Error(self.truncated()));
                };
                let mut header = header.clone();
                mask_headers(&mut header, &self.attempt.credential_mask());
                Readiness::Failed(outcome, FinalResponse::ProviderError(header, error))
            }
            BodyError::Malformed(cause) => {
                let message = "The provider's answer is not what was asked for. Retry your request.";
                let error = self.with_provider(Error::invalid_response(message, *cause));
                Readiness::Failed(Outcome::Failed, FinalResponse::Error(error))
            }
            BodyError::Denied(error) => {
                let error = (**error).clone();
                Readiness::Failed(Outcome::from_status(error.status()), FinalResponse::Denied(error))
            }
            BodyError::Truncated | BodyError::Mismatch => {
                Readiness::Failed(Outcome::Failed, FinalResponse::Error(self.truncated()))
            }
        }
    }

    fn truncated(&self) -> Error {
        self.with_provider(Error::invalid_response(
            "The provider closed its answer before it was complete. Retry your request.",
            "answer ended without a finish",
        ))
    }

    fn timed_out(&self, kind: TimeoutKind) -> Readiness {
        let error = self.timeout_error(kind);
        self.layers.cached.as_ref().inspect(|call| call.close());
        match kind {
            TimeoutKind::Total => Readiness::Stopped(error),
            _ => Readiness::Failed(Outcome::TimedOut, FinalResponse::Error(error)),
        }
    }

    pub fn timeout_error(&self, kind: TimeoutKind) -> Error {
        self.deadlines.timeout_error(kind, &self.attempt.target, self.clock.request_started)
    }

    pub fn with_provider(&self, error: Error) -> Error {
        error.with_provider(self.attempt.target.provider.id())
    }

    /// The rewriter of the client's stream, from an attempt that was to resume it.
    pub(crate) fn into_rewriter(self) -> Option<Rewriter> {
        let of_body = match self.phase {
            Phase::Body(_, body) => match body.into_resume_source() {
                ResumeSource::Rewriter(rewriter) => Some(*rewriter),
                ResumeSource::Sent(_) => None,
            },
            _ => None,
        };
        self.making.resumes.or(of_body)
    }

    /// What is needed after the response broke. Drops the exchange, which stops it.
    pub(crate) fn into_rest(self) -> (Arc<Attempt>, Deadlines, Option<Permit>) {
        (self.attempt, self.deadlines, self.permit)
    }

    /// The response that may be committed, for hooks to judge.
    pub fn response(&mut self) -> Option<(&mut ResponseHeader, &mut ResponseBody)> {
        match &mut self.phase {
            Phase::Body(header, body) => Some((header, body)),
            _ => None,
        }
    }

    /// Takes the response, to forward it. `None` before [`AttemptRun::until_committable`].
    pub(crate) fn take_response(&mut self) -> Option<(Box<ResponseHeader>, Box<ResponseBody>)> {
        match std::mem::replace(&mut self.phase, Phase::Header) {
            Phase::Body(header, body) => Some((header, body)),
            _ => None,
        }
    }
}

impl FinalResponse {
    /// The error for an error event in a stream that was already started.
    pub(crate) fn into_error(self) -> (ProviderError, Error) {
        match self {
            FinalResponse::Error(error) | FinalResponse::Denied(error) => {
                (ProviderError::from(&error), error)
            }
            FinalResponse::ProviderError(_, provider_error) => {
                let error = late_error(&provider_error);
                (provider_error, error)
            }
            FinalResponse::Provider { header, body } => {
                let provider_error = read_error(&header, &body);
                let error = late_error(&provider_error);
                (provider_error, error)
            }
        }
    }
}

/// The error that a response with an error status reports.
fn read_error(header: &ResponseHeader, body: &[u8]) -> ProviderError {
    let error = ProviderError::read(header.status.as_u16(), body);
    error.or_kind(ProviderError::type_header(&header.headers))
}
