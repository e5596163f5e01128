//! A provider's successful response as it comes in: put into the client's shape, observed, and validated.
//!
//! Knows when there is enough of it to commit, when it is complete, and what is wrong with it. Sends nothing and waits
//! for nothing.

use super::response_headers::is_media;
use crate::api::Dialect;
use crate::api::chat::ProviderError;
use crate::api::operation::{Operation, ResponseKind};
use crate::api::sse::{Event, Run, SseParser};
use crate::api::tap::Tap;
use crate::error::Error;
use crate::json::similarity::SimilarJson;
use crate::provider::rewriter::{Rewriter, TextFilters};
use crate::provider::translation::Translation;
use crate::route::request_mode::RequestMode;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most of a response that is retained for resuming it where it broke, bytes.
const MAX_RETAINED: usize = 4 << 20;

/// What a response is, by its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Events,
    Json,
    /// Audio, files, what cannot be read.
    Other,
}

/// What is wrong with a response.
#[derive(Debug, Clone)]
pub(super) enum BodyError {
    /// It holds an error of the provider's. The event with it, where it is in the client's shape.
    Provider(ProviderError, Option<Bytes>),
    /// It cannot be what was asked for: the text is the cause.
    Malformed(&'static str),
    /// It ended before it was complete.
    Truncated,
    /// It does not continue what the client was sent.
    Mismatch,
    /// A filter denied its text.
    Denied(Box<Error>),
}

/// How a response is validated.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponsePolicy {
    pub operation: Operation,
    /// A passthrough response is not validated.
    pub mode: RequestMode,
    /// The config has more than one attempt in it: what is broken is held back instead of forwarded.
    pub validates: bool,
    /// `n`: how many choices were asked for.
    pub n: u64,
    /// A broken stream may be resumed: what was sent is retained.
    pub retains_sent: bool,
}

/// One response under way.
pub(super) struct ResponseBody {
    pub kind: ContentKind,
    policy: ResponsePolicy,
    mode: Mode,
    /// Validates the events.
    similar: SimilarJson,
    out: Vec<Bytes>,
    ended: bool,
    error: Option<BodyError>,
    /// What the client was sent, to resume from; `None` when there is too much of it, or no need.
    sent: Option<Vec<Bytes>>,
    sent_bytes: usize,
    /// Bytes received from the provider.
    pub received: usize,
    /// It continues a stream that broke: what was observed before is not its own.
    resumes: bool,
}

#[expect(
    clippy::large_enum_variant,
    reason = "the variants differ little, and a box would be an allocation per response"
)]
enum Mode {
    /// It keeps the provider's shape.
    Passthrough {
        patch: Option<Rewriter>,
        tap: Tap,
        parser: SseParser,
    },
    Translated(Rewriter),
}

impl ContentKind {
    fn of(header: &ResponseHeader) -> Self {
        // A compressed response cannot be read.
        if header.headers.contains_key(CONTENT_ENCODING) {
            return Self::Other;
        }
        let media =
            header.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match media {
            _ if is_media(media, "text/event-stream") => Self::Events,
            _ if is_media(media, "application/vnd.amazon.eventstream") => Self::Events,
            _ if is_media(media, "application/json") => Self::Json,
            _ => Self::Other,
        }
    }
}

impl ResponseBody {
    /// `trace_id`: unique, for ids the provider does not send.
    pub fn new(
        header: &ResponseHeader,
        translation: Option<&Translation>,
        policy: ResponsePolicy,
        trace_id: &str,
        filters: Option<Box<TextFilters>>,
    ) -> Self {
        let kind = ContentKind::of(header);
        let length = header.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let events = kind == ContentKind::Events;
        let rewriter = translation
            .filter(|_| kind != ContentKind::Other || header.headers.get(CONTENT_ENCODING).is_none())
            .map(|translation| (translation, translation.rewriter(events, trace_id, unix_seconds())));
        let tap = || Tap::new(policy.operation, events, kind == ContentKind::Json, length);
        // Its translation decodes it; only where it cannot be read at all there is none.
        let unread = filters.is_some() && rewriter.is_none();
        let mode = match rewriter {
            Some((translation, rewriter)) if translation.is_patch() => {
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
        let retains = policy.retains_sent && events && matches!(mode, Mode::Passthrough { .. });
        let mut body = Self {
            kind,
            policy,
            mode,
            similar: SimilarJson::default(),
            out: Vec::new(),
            ended: false,
            error: None,
            sent: retains.then(Vec::new),
            sent_bytes: 0,
            received: 0,
            resumes: false,
        };
        body.check_header(header);
        if unread {
            body.error = Some(BodyError::Malformed("a compressed answer cannot be filtered"));
        }
        body
    }

    /// Continues a response that broke. The rewriter has been made to resume.
    pub fn resumed(header: &ResponseHeader, rewriter: Rewriter, policy: ResponsePolicy) -> Self {
        Self {
            kind: ContentKind::of(header),
            policy,
            mode: Mode::Translated(rewriter),
            similar: SimilarJson::default(),
            out: Vec::new(),
            ended: false,
            error: None,
            sent: None,
            sent_bytes: 0,
            received: 0,
            resumes: true,
        }
    }

    /// A page of HTML from some proxy in between is no response of a provider.
    fn check_header(&mut self, header: &ResponseHeader) {
        let media =
            header.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if self.policy.validates
            && self.wants_json()
            && self.kind == ContentKind::Other
            && media.starts_with("text/")
        {
            self.error = Some(BodyError::Malformed("the answer is neither JSON nor events"));
        }
    }

    /// Whether the answer is a document of a model, so that an error in it is one of the call and not of the
    /// thing that was asked for (a job that failed).
    fn wants_json(&self) -> bool {
        self.policy.operation.response_kind() == ResponseKind::Model
    }

    /// Accepts one part.
    pub fn accept(&mut self, task: HttpTask) {
        let end = task.is_end();
        if let HttpTask::Body(Some(chunk), _) = task {
            self.received += chunk.len();
            self.push(&chunk);
        }
        if end {
            self.end();
        }
    }

    fn push(&mut self, chunk: &Bytes) {
        let mut out = Vec::new();
        match &mut self.mode {
            Mode::Translated(rewriter) => {
                rewriter.push(chunk, &mut out);
                self.note(out);
            }
            Mode::Passthrough { patch: Some(rewriter), .. } => {
                rewriter.push(chunk, &mut out);
                self.push_passthrough(&Bytes::from(out));
            }
            Mode::Passthrough { .. } => self.push_passthrough(chunk),
        }
    }

    /// Takes bytes in the client's shape.
    fn push_passthrough(&mut self, chunk: &Bytes) {
        let validated = self.is_validated();
        let Mode::Passthrough { tap, parser, .. } = &mut self.mode else { return };
        if self.kind != ContentKind::Events || !validated {
            tap.push(chunk);
            if !chunk.is_empty() {
                self.out.push(chunk.clone());
            }
            return;
        }
        let run = parser.push(chunk);
        if self.error.is_none() {
            let bad = self.first_bad_event(&run);
            self.forward(run.into_bytes(chunk), bad);
        }
    }

    /// Checks the events of a run, up to the first that must not be forwarded.
    fn first_bad_event(&mut self, run: &Run<'_>) -> Option<Range<usize>> {
        let bad = run.events().find(|event| !self.check_event(event))?;
        Some(bad.start..bad.end())
    }

    /// Forwards events together, as they came, up to the one that must not be forwarded.
    fn forward(&mut self, bytes: Bytes, bad: Option<Range<usize>>) {
        let good = match bad {
            None => bytes,
            Some(bad) => {
                if let Some(BodyError::Provider(_, event)) = &mut self.error {
                    *event = Some(bytes.slice(bad.clone()));
                }
                bytes.slice(..bad.start)
            }
        };
        if !good.is_empty() {
            self.retain(&good);
            self.out.push(good);
        }
    }

    /// Checks one whole event in the client's shape; false when it must not be forwarded. Comments pass.
    fn check_event(&mut self, event: &Event<'_>) -> bool {
        let Mode::Passthrough { tap, .. } = &mut self.mode else { return false };
        let Some(data) = &event.data else { return true };
        if self.policy.validates && !is_valid_data(data, &mut self.similar) {
            self.error = Some(BodyError::Malformed("an event is no JSON"));
            return false;
        }
        let failed = tap.summary().error.is_some();
        tap.event(event);
        let summary = tap.summary();
        if !failed && summary.error.is_some() && self.policy.validates {
            self.error = Some(BodyError::Provider(ProviderError::read(502, data), None));
        } else if summary.ended && !summary.is_complete_for(self.policy.operation) {
            // The end of a response that did not finish: not to be forwarded.
            self.error = Some(BodyError::Truncated);
        }
        self.error.is_none()
    }

    fn retain(&mut self, event: &Bytes) {
        self.sent_bytes += event.len();
        if self.sent_bytes > MAX_RETAINED {
            self.sent = None;
        }
        if let Some(sent) = &mut self.sent {
            sent.push(event.clone());
        }
    }

    /// What a rewriter wrote.
    fn note(&mut self, out: Vec<u8>) {
        if !out.is_empty() {
            self.out.push(Bytes::from(out));
        }
        let Mode::Translated(rewriter) = &self.mode else { return };
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

    /// The provider's bytes are over.
    fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let validated = self.is_validated();
        let mut out = Vec::new();
        match &mut self.mode {
            Mode::Translated(rewriter) => {
                rewriter.finish(&mut out);
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
        // Only now: what the patch held back went through the parser, too.
        if let Mode::Passthrough { parser, .. } = &mut self.mode {
            let tail = parser.finish();
            self.finish_tail(tail);
        }
        if !validated || self.error.is_some() {
            return;
        }
        let Mode::Passthrough { tap, .. } = &mut self.mode else { return };
        tap.finish();
        let summary = tap.summary();
        let failed = summary.error.is_some() && summary.finish.is_none();
        let judges = self.policy.validates && self.wants_json();
        if self.kind == ContentKind::Json && failed && judges {
            let body: Vec<u8> = self.out.iter().flatten().copied().collect();
            self.error = Some(BodyError::Provider(ProviderError::read(502, &body), None));
        } else if !self.is_complete_response() {
            self.error = Some(BodyError::Truncated);
        } else {
            self.append_terminator();
        }
    }

    /// Takes what followed the last blank line: an event whose blank line is missing, or half of one.
    fn finish_tail(&mut self, tail: Run<'static>) {
        if tail.bytes().trim_ascii().is_empty() {
            self.out.extend(Some(tail.into_bytes(&Bytes::new())).filter(|rest| !rest.is_empty()));
            return;
        }
        if self.error.is_some() {
            return;
        }
        if !tail.data().all(|data| is_valid_data(&data, &mut SimilarJson::default())) {
            self.error = Some(BodyError::Truncated);
            return;
        }
        let bad = self.first_bad_event(&tail);
        let end: &[u8] = if tail.bytes().ends_with(b"\n") { b"\n" } else { b"\n\n" };
        let whole = Bytes::from([tail.bytes(), end].concat());
        // The invalid event is the last one: only empty blocks can precede it.
        let bad = bad.map(|bad| bad.start..whole.len());
        self.forward(whole, bad);
    }

    /// A stream that finished but forgot to say so.
    fn append_terminator(&mut self) {
        let Mode::Passthrough { tap, .. } = &self.mode else { return };
        let Some(end) = self.policy.operation.terminator().event() else { return };
        let summary = tap.summary();
        if self.kind == ContentKind::Events && !summary.ended && summary.error.is_none() {
            self.out.push(Bytes::from_static(end));
        }
    }

    /// Whether it is validated: what passes unread is not.
    fn is_validated(&self) -> bool {
        self.policy.mode == RequestMode::Api
    }

    pub fn error(&self) -> Option<&BodyError> {
        self.error.as_ref()
    }

    /// The provider's bytes are over, or nothing more is wanted of them: some keep a stream open behind
    /// its end.
    pub fn is_finished(&self) -> bool {
        self.ended
            || match &self.mode {
                Mode::Translated(rewriter) => rewriter.is_complete(),
                Mode::Passthrough { tap, .. } => {
                    let summary = tap.summary();
                    let events = self.kind == ContentKind::Events && self.is_validated();
                    // Some send `[DONE]` behind the last event of a response.
                    let last = self.policy.operation.terminator().is_last();
                    events && last && summary.ended && summary.is_complete_for(self.policy.operation)
                }
            }
    }

    /// Whether an answer that breaks off here is whole all the same: nothing but usage and the end itself
    /// can follow.
    pub fn has_finish_reason(&self) -> bool {
        let has_finish = match &self.mode {
            Mode::Translated(rewriter) => rewriter.has_finish_reason(),
            Mode::Passthrough { tap, .. } => {
                self.is_validated() && tap.summary().is_complete_for(self.policy.operation)
            }
        };
        // Of several answers one may have finished and another not.
        self.kind == ContentKind::Events && self.error.is_none() && has_finish && self.policy.n <= 1
    }

    /// The provider will not end it: the gateway does.
    pub fn close(&mut self) {
        self.end();
    }

    /// Whether the provider's last byte is there.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether it came to its proper end.
    pub fn is_complete_response(&self) -> bool {
        match &self.mode {
            Mode::Translated(rewriter) => rewriter.is_complete() && rewriter.error().is_none(),
            Mode::Passthrough { .. } if !self.is_finished() => false,
            Mode::Passthrough { tap, .. } => match self.kind {
                _ if !self.is_validated() => true,
                // An error that was sent is an end, too.
                ContentKind::Events => {
                    let summary = tap.summary();
                    // Of several answers one may have finished and another not: the end must be marked.
                    let all = self.policy.n <= 1 || summary.ended;
                    (summary.is_complete_for(self.policy.operation) && all) || summary.error.is_some()
                }
                ContentKind::Json => tap.summary().ended,
                ContentKind::Other => true,
            },
        }
    }

    /// Whether there is something a user would see.
    pub fn has_content(&self) -> bool {
        match (&self.mode, self.kind) {
            _ if self.resumes => self.received > 0,
            (Mode::Translated(rewriter), ContentKind::Events) => {
                rewriter.summary().is_some_and(|summary| summary.content)
            }
            (Mode::Passthrough { tap, .. }, ContentKind::Events) if self.is_validated() => {
                tap.summary().content
            }
            _ => self.received > 0,
        }
    }

    /// Whether the caller's bytes differ from the provider's in length.
    pub fn is_rewritten(&self) -> bool {
        matches!(self.mode, Mode::Translated(_) | Mode::Passthrough { patch: Some(_), .. })
    }

    /// Whether the caller gets JSON of the gateway's writing, or events.
    pub fn is_translated(&self) -> bool {
        matches!(self.mode, Mode::Translated(_))
    }

    /// Bytes that are ready for the caller.
    pub fn ready_bytes(&self) -> usize {
        self.out.iter().map(Bytes::len).sum()
    }

    /// Whether words were added to a stream that broke, which wait to be handed on.
    pub fn has_resumed(&self) -> bool {
        self.resumes && !self.out.is_empty()
    }

    /// Whether what the caller got of a stream is known well enough to go on from it.
    pub fn can_resume(&self) -> bool {
        match &self.mode {
            Mode::Translated(rewriter) => rewriter.transcript().is_some_and(|summary| summary.can_resume()),
            Mode::Passthrough { .. } => self.sent.is_some(),
        }
    }

    /// What is ready for the caller.
    pub fn ready(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.out)
    }

    /// Ends a broken stream with an error event in the caller's words.
    pub fn fail(
        &mut self,
        provider_error: &ProviderError,
        dialect: Dialect,
        provider: &'static str,
    ) -> Bytes {
        let mut out = Vec::new();
        match (&mut self.mode, self.error.take()) {
            // The provider's own words, in the caller's dialect already.
            (Mode::Passthrough { .. }, Some(BodyError::Provider(_, Some(event)))) => return event,
            (Mode::Translated(rewriter), _) => rewriter.fail(provider_error, &mut out),
            (Mode::Passthrough { tap, .. }, _) => {
                provider_error.event(dialect, Some(provider), tap.summary().events, &mut out);
            }
        }
        Bytes::from(out)
    }

    /// What is needed to go on in this stream: the rewriter, or the bytes the caller got.
    pub fn into_resume_source(self) -> ResumeSource {
        match self.mode {
            Mode::Translated(rewriter) => ResumeSource::Rewriter(Box::new(rewriter)),
            Mode::Passthrough { .. } => ResumeSource::Sent(self.sent),
        }
    }

    /// For the record: what watched the answer.
    pub fn into_observers(self) -> (Option<Tap>, Option<Rewriter>) {
        match self.mode {
            Mode::Translated(rewriter) => (None, Some(rewriter)),
            Mode::Passthrough { tap, .. } => (Some(tap), None),
        }
    }
}

/// A stream that broke, as far as it can be gone on from.
pub(super) enum ResumeSource {
    Rewriter(Box<Rewriter>),
    /// The events the caller got, when they were kept.
    Sent(Option<Vec<Bytes>>),
}

/// Whether an event's data is JSON or `[DONE]`.
fn is_valid_data(data: &[u8], similar: &mut SimilarJson) -> bool {
    let data = data.trim_ascii();
    data == b"[DONE]" || similar.is_valid(data)
}

/// Now, for responses that carry the time they were made at.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
