//! A provider's successful response as it arrives: translated into the client's dialect, observed and validated.
//!
//! It knows when enough has arrived to commit the response, when the response is complete, and what is wrong with it. It
//! sends nothing and waits for nothing.

mod passthrough;

pub(super) use passthrough::has_only_json;

use super::body_error::BodyError;
use super::content_kind::{ContentCheck, ContentKind, header_error};
use super::model_result;
use super::observers::Observers;
use super::payload_capture::BoundedBody;
use super::ready_parts::ReadyParts;
use super::response_policy::ResponsePolicy;
use super::retained_events::RetainedEvents;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use jiff::Timestamp;
use judgment::route::request_mode::RequestMode;
use knowledge::provider::rewriter::{Rewriter, TextFilters};
use knowledge::provider::translation::Translation;
use memchr::memmem;
use memory::state::large_work::{run_here, translation};
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use words::api::Dialect;
use words::api::chat::ProviderError;
use words::api::operation::Operation;
use words::api::sse::SseParser;
use words::api::tap::{ResponseSummary, Tap};
use words::json::similarity::SimilarJson;

/// The longest document that may be a message in place of a model's output, bytes.
const MAX_MESSAGE: usize = 4 << 10;

/// One response, as far as it was read.
pub(super) struct ResponseBody {
    pub shape: Shape,
    policy: ResponsePolicy,
    mode: Mode,
    check: ContentCheck,
    /// Checks that events are JSON.
    similar: SimilarJson,
    out: ReadyParts,
    pub progress: Progress,
    error: Option<BodyError>,
    /// The events that were sent to the client.
    sent: RetainedEvents,
    /// What is ready was replaced.
    edited: bool,
    /// The event with the usage is not for the client.
    hides_usage: bool,
    /// What the provider sent, where it is kept and something else is made of it.
    original: Option<Box<BoundedBody>>,
}

/// What kind of response it is, and what becomes of it.
pub(super) struct Shape {
    /// What is checked and observed: the kind that the client gets, where it is converted into that.
    pub kind: ContentKind,
    /// The client gets events.
    pub streams: bool,
    processing: Processing,
}

/// What the gateway makes of the content before any of it is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Processing {
    Nothing,
    Filtered,
    /// It keeps its shape, but not its kind.
    Converted,
    /// It continues a broken stream, so its rewriter has also observed another response.
    Resumed,
}

/// How far it is.
#[derive(Default)]
pub(super) struct Progress {
    /// Bytes received from the provider.
    pub received: usize,
    ended: bool,
    /// An event that nothing may follow has passed: what follows it all the same is dropped.
    is_over: bool,
    /// Whether something was ready when it was taken, to be sent. `None`: it was never taken.
    taken: Option<bool>,
}

#[expect(
    clippy::large_enum_variant,
    reason = "the variants differ little, and a box would be an allocation per response"
)]
enum Mode {
    /// In the client's dialect already; `patch` corrects it in places.
    Passthrough {
        patch: Option<Rewriter>,
        tap: Tap,
        parser: SseParser,
    },
    Translated(Rewriter),
}

/// What is needed to resume a broken stream.
pub(super) enum ResumeSource {
    Rewriter(Box<Rewriter>),
    /// The events that were sent to the client, if they were retained.
    Sent(Option<Vec<Bytes>>),
}

impl Shape {
    fn is_converted(&self) -> bool {
        self.processing == Processing::Converted
    }

    fn is_resumed(&self) -> bool {
        self.processing == Processing::Resumed
    }

    /// Nothing of it may be sent before the gateway has made something of its content.
    fn is_processed(&self) -> bool {
        self.processing != Processing::Nothing
    }
}

/// What observes a response that passes.
fn observer(kind: ContentKind, operation: Operation, streams: bool, length: Option<usize>) -> Tap {
    match kind {
        ContentKind::Compressed => Tap::of_compressed(),
        kind => Tap::new(operation, streams, kind == ContentKind::Json, length),
    }
}

impl ResponseBody {
    /// `kind` is the header's; `trace_id` is unique, and used for ids that the provider does not send.
    pub fn new(
        kind: ContentKind,
        header: &ResponseHeader,
        translation: Option<&Translation>,
        policy: ResponsePolicy,
        trace_id: &str,
        filters: Option<Box<TextFilters>>,
    ) -> Self {
        let length = header.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let events = kind == ContentKind::Events;
        let rewriter = translation.filter(|_| kind != ContentKind::Compressed).map(|translation| {
            (translation, translation.rewriter(events, trace_id, Timestamp::now().as_second().unsigned_abs()))
        });
        // A response that keeps its shape may be converted into the other kind, which is what is checked and observed.
        let wanted = rewriter.as_ref().filter(|(translation, _)| translation.is_own_dialect());
        let streams = wanted.map_or(events, |(translation, _)| translation.streams());
        let converted = streams != events;
        let kind = if converted { ContentKind::requested(streams) } else { kind };
        let length = length.filter(|_| !converted);
        let tap = || observer(kind, policy.wanted.operation, streams, length);
        // Both decode, unless the response is compressed.
        let translates = translation.is_some_and(|translation| !translation.is_patch());
        let unread = rewriter.is_none() && (translates || filters.is_some());
        let processing = match (converted, filters.is_some()) {
            (true, _) => Processing::Converted,
            (false, true) => Processing::Filtered,
            (false, false) => Processing::Nothing,
        };
        let mode = match rewriter {
            Some((translation, mut rewriter)) if translation.is_patch() => {
                rewriter.set_filters(filters);
                Mode::Passthrough { patch: Some(rewriter), tap: tap(), parser: SseParser::default() }
            }
            Some((_, mut rewriter)) => {
                rewriter.set_filters(filters);
                if policy.retains_sent {
                    rewriter.keep_transcript();
                    rewriter.hold_errors();
                }
                Mode::Translated(rewriter)
            }
            None => Mode::Passthrough { patch: None, tap: tap(), parser: SseParser::default() },
        };
        let passes = matches!(mode, Mode::Passthrough { .. });
        let streams = if passes { streams } else { translation.is_some_and(Translation::streams) };
        let check = ContentCheck::new(
            kind,
            passes && !converted && policy.wanted.expects_model(),
            policy.wanted.streamed,
        );
        let retains = policy.retains_sent && events && streams && passes;
        let mut body = Self {
            shape: Shape { kind, streams, processing },
            policy,
            mode,
            check,
            similar: SimilarJson::default(),
            out: ReadyParts::default(),
            progress: Progress::default(),
            error: None,
            sent: RetainedEvents::new(retains),
            edited: false,
            hides_usage: false,
            original: None,
        };
        body.error = header_error(header, kind, &policy).map(BodyError::Malformed);
        if unread {
            body.error = Some(BodyError::Malformed("a compressed answer cannot be read"));
        }
        body
    }

    /// A response that resumes a broken one. `rewriter` was prepared with [`Rewriter::resume`].
    pub fn resumed(kind: ContentKind, rewriter: Rewriter, policy: ResponsePolicy) -> Self {
        Self {
            shape: Shape { kind, streams: true, processing: Processing::Resumed },
            policy,
            mode: Mode::Translated(rewriter),
            check: ContentCheck::new(kind, false, policy.wanted.streamed),
            similar: SimilarJson::default(),
            out: ReadyParts::default(),
            progress: Progress::default(),
            error: None,
            sent: RetainedEvents::new(false),
            edited: false,
            hides_usage: false,
            original: None,
        }
    }

    /// The usage was requested by the gateway: the event that has nothing else is not forwarded.
    pub fn hide_usage(&mut self) {
        self.hides_usage = true;
    }

    /// What the provider sends is kept here, if something else is made of it.
    pub(crate) fn keep_original(&mut self, original: Option<BoundedBody>) {
        if !matches!(self.mode, Mode::Passthrough { patch: None, .. }) {
            self.original = original.map(Box::new);
        }
    }

    /// Accepts one part of the response.
    pub fn accept(&mut self, task: HttpTask) {
        let end = task.is_end();
        if let HttpTask::Body(Some(chunk), _) = task {
            self.progress.received += chunk.len();
            self.push(&chunk);
        }
        if end {
            self.end();
        }
    }

    fn push(&mut self, chunk: &Bytes) {
        let mut out = Vec::new();
        if let Some(original) = &mut self.original {
            original.push(chunk);
        }
        match &mut self.mode {
            Mode::Translated(rewriter) => {
                rewriter.push(chunk, &mut out);
                self.note(out);
            }
            Mode::Passthrough { patch: Some(rewriter), .. } => {
                rewriter.push(chunk, &mut out);
                self.push_passthrough(&Bytes::from(out));
                self.note_rewriter();
            }
            Mode::Passthrough { .. } => self.push_passthrough(chunk),
        }
    }

    /// Takes the output of the rewriter, and notes what is wrong with the response.
    fn note(&mut self, out: Vec<u8>) {
        self.out.push(Bytes::from(out));
        self.note_rewriter();
    }

    fn note_rewriter(&mut self) {
        let rewriter = match &self.mode {
            Mode::Translated(rewriter) | Mode::Passthrough { patch: Some(rewriter), .. } => rewriter,
            Mode::Passthrough { .. } => return,
        };
        if self.error.is_some() {
            return;
        }
        if let Some(error) = rewriter.denial() {
            self.error = Some(BodyError::Denied(Box::new(error.clone())));
        } else if rewriter.is_mismatch() {
            self.error = Some(BodyError::Mismatch);
        } else if let Some(provider_error) = rewriter.error() {
            self.error = Some(BodyError::Provider(provider_error.clone(), None));
        }
    }

    /// Handles the end of the provider's body.
    fn end(&mut self) {
        if std::mem::replace(&mut self.progress.ended, true) {
            return;
        }
        let validated = self.is_validated();
        let mut out = Vec::new();
        match &mut self.mode {
            Mode::Translated(rewriter) => {
                run_here(translation(self.progress.received), || rewriter.finish(&mut out));
                self.note(out);
                if self.error.is_none() && !self.is_complete_response() {
                    self.error = Some(BodyError::Truncated);
                }
                return;
            }
            Mode::Passthrough { patch, .. } => {
                if let Some(rewriter) = patch {
                    rewriter.finish(&mut out);
                }
            }
        }
        if !out.is_empty() {
            self.push_passthrough(&Bytes::from(out));
        }
        self.note_rewriter();
        // Not earlier: the parser must also have seen what the patch held back.
        if let Mode::Passthrough { parser, .. } = &mut self.mode {
            let tail = parser.finish();
            self.finish_tail(tail);
        }
        if let Some(cause) = self.check.finish() {
            self.error.get_or_insert(BodyError::Malformed(cause));
        }
        if !validated || self.error.is_some() {
            return;
        }
        let Mode::Passthrough { tap, .. } = &mut self.mode else { return };
        tap.finish();
        let summary = tap.summary();
        let failed = summary.error.is_some() && summary.finish.is_none();
        // What was sent already is not taken back.
        let judges =
            self.policy.wanted.expects_model() && (self.policy.validates || self.progress.taken.is_none());
        let may_be_message = summary.finish.is_none() && self.out.len() <= MAX_MESSAGE;
        if self.shape.kind == ContentKind::Json && failed && judges {
            self.error = Some(BodyError::Provider(self.policy.wanted.error_in(&self.out.concat()), None));
        } else if self.shape.kind == ContentKind::Json
            && (self.policy.replaceable || self.progress.taken.is_none())
            && self.policy.wanted.expects_model()
            && may_be_message
            && let document = self.out.concat()
            && model_result::is_missing(self.policy.wanted.operation, &document)
            // Where nobody else could respond, the client gets what the provider has to say, unless that is an error.
            && let Some(error) = self.error_of(&document)
        {
            self.error = Some(error);
        } else if !self.is_complete_response() {
            self.error = Some(BodyError::Truncated);
        } else {
            self.append_terminator();
        }
    }

    /// Why a document that is no result fails the attempt.
    fn error_of(&self, document: &[u8]) -> Option<BodyError> {
        if self.policy.replaceable {
            Some(BodyError::Malformed("the answer has no result"))
        } else {
            self.policy.wanted.error_instead(document).map(|error| BodyError::Provider(error, None))
        }
    }

    /// Whether the response is validated; those of the generic endpoint are not.
    fn is_validated(&self) -> bool {
        self.policy.wanted.mode == RequestMode::Api
    }

    /// Whether the provider reported an error in it, forwarded or not.
    pub(crate) fn has_provider_error(&self) -> bool {
        match &self.mode {
            Mode::Translated(rewriter) => rewriter.error().is_some(),
            Mode::Passthrough { tap, .. } => tap.summary().error.is_some(),
        }
    }

    /// What was observed of the response.
    pub fn summary(&self) -> Option<&ResponseSummary> {
        match &self.mode {
            Mode::Translated(rewriter) => rewriter.summary(),
            Mode::Passthrough { tap, .. } => Some(tap.summary()),
        }
    }

    /// The finished items that the client may refer to later: id and JSON.
    pub fn items(&self) -> Vec<(String, String)> {
        if let Mode::Translated(rewriter) = &self.mode { rewriter.items() } else { Vec::new() }
    }

    pub fn error(&self) -> Option<&BodyError> {
        self.error.as_ref()
    }

    /// Whether the provider's body has ended, or nothing more is needed of it: some providers keep the connection open after
    /// the end of a stream.
    pub fn is_finished(&self) -> bool {
        self.progress.ended
            || match &self.mode {
                Mode::Translated(rewriter) => rewriter.is_complete(),
                Mode::Passthrough { patch: Some(rewriter), .. } if self.shape.is_converted() => {
                    rewriter.is_complete()
                }
                Mode::Passthrough { tap, .. } => {
                    let summary = tap.summary();
                    let events = self.shape.kind == ContentKind::Events && self.is_validated();
                    // After a final event that is not a terminator, some providers send `[DONE]`.
                    let last = self.policy.wanted.operation.terminator().is_last();
                    events && last && summary.ended && summary.is_complete_for(self.policy.wanted.operation)
                }
            }
    }

    /// Whether a response that breaks here counts as complete, because only usage and the end marker can follow.
    pub fn has_finish_reason(&self) -> bool {
        let has_finish = match &self.mode {
            Mode::Translated(rewriter) => rewriter.has_finish_reason(),
            Mode::Passthrough { tap, .. } => {
                self.is_validated() && tap.summary().is_complete_for(self.policy.wanted.operation)
            }
        };
        // Of several choices one may have finished and another not.
        self.shape.kind == ContentKind::Events
            && self.error.is_none()
            && has_finish
            && self.policy.wanted.n <= 1
    }

    /// Ends the response in place of the provider, which does not.
    pub fn close(&mut self) {
        self.end();
    }

    /// Whether the end of the provider's body was read.
    pub(crate) fn has_ended(&self) -> bool {
        self.progress.ended
    }

    /// Whether the response is complete.
    pub(crate) fn is_complete_response(&self) -> bool {
        match &self.mode {
            Mode::Translated(rewriter) => rewriter.is_complete() && rewriter.error().is_none(),
            Mode::Passthrough { .. } if !self.is_finished() && !self.has_last_event() => false,
            Mode::Passthrough { tap, .. } => match self.shape.kind {
                _ if !self.is_validated() => true,
                // An error event that was forwarded also ends the stream.
                ContentKind::Events => {
                    let summary = tap.summary();
                    // Of several choices one may have finished and another not, so the end marker is required.
                    let all = self.policy.wanted.n <= 1 || summary.ended;
                    (summary.is_complete_for(self.policy.wanted.operation) && all) || summary.error.is_some()
                }
                ContentKind::Json => tap.summary().ended,
                ContentKind::Other | ContentKind::Compressed => true,
            },
        }
    }

    /// Whether more of it must arrive to see whether it is a model's output, whoever could replace it.
    pub(crate) fn is_unclear(&self) -> bool {
        self.error.is_none() && self.check.is_open(self.progress.received)
    }

    /// Whether anything arrived that a user would see.
    pub fn has_content(&self) -> bool {
        match (&self.mode, self.shape.kind) {
            _ if self.shape.is_resumed() => self.progress.received > 0,
            (Mode::Translated(rewriter), ContentKind::Events) => {
                rewriter.summary().is_some_and(|summary| summary.content)
            }
            (Mode::Passthrough { tap, .. }, ContentKind::Events) if self.is_validated() => {
                tap.summary().content
            }
            _ => self.progress.received > 0,
        }
    }

    /// Whether the client's bytes may differ from the provider's in length.
    pub(crate) fn is_rewritten(&self) -> bool {
        self.edited || matches!(self.mode, Mode::Translated(_) | Mode::Passthrough { patch: Some(_), .. })
    }

    /// Whether the response is encoded by the gateway.
    pub fn is_translated(&self) -> bool {
        matches!(self.mode, Mode::Translated(_))
    }

    /// Whether what the client gets depends on what the gateway makes of the content: nothing of it may be sent before.
    pub fn is_processed(&self) -> bool {
        self.shape.is_processed() || self.is_translated()
    }

    /// Whether the content type is not the provider's.
    pub(crate) fn has_own_type(&self) -> bool {
        self.shape.is_converted() || self.is_translated()
    }

    /// The number of bytes that are ready for the client.
    pub(crate) fn ready_bytes(&self) -> usize {
        self.out.len()
    }

    /// Takes what is ready, to put something else in its place.
    pub(crate) fn take_ready(&mut self) -> Vec<u8> {
        self.edited = true;
        self.out.take().concat()
    }

    /// Puts back what was made of [`ResponseBody::take_ready`].
    pub(crate) fn put_ready(&mut self, bytes: Vec<u8>) {
        self.out.push(Bytes::from(bytes));
    }

    /// How many bytes of it are held in memory: what is not sent yet, what is not decoded yet, and what is retained to
    /// resume it.
    pub fn held_bytes(&self) -> usize {
        // A document is decoded or patched when it is complete.
        let is_document = self.shape.kind != ContentKind::Events || self.shape.is_converted();
        let is_collected = self.is_rewritten() && is_document && !self.progress.ended;
        let undecoded = if is_collected { self.progress.received } else { 0 };
        self.out.held_bytes() + undecoded + self.sent.held_bytes()
    }

    /// Whether nothing of it was ready for the client so far.
    pub(crate) fn is_untouched(&self) -> bool {
        self.progress.taken.is_none() && self.out.is_empty()
    }

    /// Whether the client got events of it, and not only comments.
    pub(crate) fn has_written(&self) -> bool {
        let is_silent = matches!(&self.mode, Mode::Passthrough { tap, .. } if tap.summary().events == 0);
        !is_silent && self.progress.taken == Some(true)
    }

    /// Whether it resumed a broken stream with text that was not sent yet.
    pub(crate) fn has_resumed(&self) -> bool {
        self.shape.is_resumed() && !self.out.is_empty()
    }

    /// Whether what the client got is retained completely, so that the stream can be resumed.
    pub fn can_resume(&self) -> bool {
        match &self.mode {
            Mode::Translated(rewriter) => rewriter.transcript().is_some_and(|summary| summary.can_resume()),
            Mode::Passthrough { .. } => self.sent.is_complete(),
        }
    }

    /// Takes what is ready for the client.
    pub fn ready(&mut self) -> Vec<Bytes> {
        let ready = self.out.take();
        self.progress.taken = self.progress.taken.max(Some(!ready.is_empty()));
        ready
    }

    /// Ends a broken stream: returns an error event in the client's dialect.
    pub fn fail(
        &mut self,
        provider_error: &ProviderError,
        dialect: Dialect,
        provider: &'static str,
    ) -> Bytes {
        let mut out = Vec::new();
        match (&mut self.mode, self.error.take()) {
            // The provider's own event is in the client's dialect. On the Responses API agents read `response.failed` alone.
            (Mode::Passthrough { tap, .. }, Some(BodyError::Provider(_, Some(event)))) => {
                out.extend_from_slice(&event);
                if dialect == Dialect::Responses && memmem::find(&event, b"\"response.failed\"").is_none() {
                    provider_error.responses_failed(tap.summary().events, &mut out);
                }
            }
            (Mode::Translated(rewriter), _) => rewriter.fail(provider_error, &mut out),
            (Mode::Passthrough { tap, .. }, _) => {
                provider_error.event(dialect, Some(provider), tap.summary().events, &mut out);
            }
        }
        Bytes::from(out)
    }

    /// What is needed to resume this stream.
    pub(crate) fn into_resume_source(self) -> ResumeSource {
        match self.mode {
            Mode::Translated(rewriter) => ResumeSource::Rewriter(Box::new(rewriter)),
            Mode::Passthrough { .. } => ResumeSource::Sent(self.sent.into_events()),
        }
    }

    /// What the provider sent, where it was kept.
    pub(crate) fn take_original(&mut self) -> Option<BoundedBody> {
        self.original.take().map(|original| *original)
    }

    /// What has observed the response, for the record.
    pub(crate) fn into_observers(self: Box<Self>) -> Observers {
        match self.mode {
            Mode::Translated(rewriter) => Observers { tap: None, rewriter: Some(rewriter) },
            Mode::Passthrough { tap, .. } => Observers { tap: Some(tap), rewriter: None },
        }
    }
}
