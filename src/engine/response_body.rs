//! A provider's good answer as it comes in: put into the caller's words, watched, and judged.
//!
//! Tells when it is good enough to commit, when it is whole, and what is wrong with it. Writes nothing to
//! the caller and waits for nothing.

use super::response::is_media;
use crate::api::Dialect;
use crate::api::chat::ProviderError;
use crate::api::operation::{Operation, ResponseKind};
use crate::api::sse::{Event, Run, SseParser};
use crate::api::tap::Tap;
use crate::json::similarity::SimilarJson;
use crate::provider::rewriter::Rewriter;
use crate::provider::translation::Translation;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use std::ops::Range;

/// The most of an answer that is kept for going on from where it broke, bytes.
const MOST_KEPT: usize = 4 << 20;

/// What an answer is, by its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentKind {
    Events,
    Json,
    /// Audio, files, what cannot be read.
    Other,
}

/// What is wrong with an answer.
#[derive(Debug, Clone)]
pub(crate) enum BodyError {
    /// It tells an error. The event that says so, where it is in the caller's words.
    Error(ProviderError, Option<Bytes>),
    /// It cannot be what was asked for: the text is the cause.
    Malformed(&'static str),
    /// It was over before it was whole.
    Early,
    /// It does not go on from what the caller was told.
    Misfit,
}

/// What an answer is judged by.
#[derive(Debug, Clone)]
pub(crate) struct ResponsePolicy {
    pub operation: Operation,
    /// It came by `/v1/proxy/`: nobody judges it.
    pub is_proxied: bool,
    /// The config asks for care (more than one attempt): what is broken is held back instead of handed on.
    pub careful: bool,
    /// `n`: how many answers were asked for.
    pub choices: u64,
    /// A break may be mended: what was sent is remembered.
    pub keeps: bool,
    pub trace_id: String,
    /// Unix seconds.
    pub created: u64,
}

/// One answer under way.
pub(crate) struct ResponseBody {
    pub shape: ContentKind,
    expected: ResponsePolicy,
    form: Mode,
    /// Proves the events.
    alike: SimilarJson,
    out: Vec<Bytes>,
    over: bool,
    trouble: Option<BodyError>,
    /// What the caller gets, for a replay; `None` when there is too much of it, or no need.
    sent: Option<Vec<Bytes>>,
    sent_bytes: usize,
    /// Bytes taken in.
    pub taken: usize,
    /// It goes on in a stream that broke: what was seen before is not its own.
    resumes: bool,
}

#[expect(
    clippy::large_enum_variant,
    reason = "the variants differ little, and a box would be an allocation per response"
)]
enum Mode {
    /// It keeps the provider's shape.
    Same {
        mend: Option<Rewriter>,
        tap: Tap,
        parser: SseParser,
    },
    Chat(Rewriter),
}

impl ContentKind {
    fn of(head: &ResponseHeader) -> Self {
        // A compressed answer tells nothing.
        if head.headers.contains_key(CONTENT_ENCODING) {
            return Self::Other;
        }
        let media = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match media {
            _ if is_media(media, "text/event-stream") => Self::Events,
            _ if is_media(media, "application/vnd.amazon.eventstream") => Self::Events,
            _ if is_media(media, "application/json") => Self::Json,
            _ => Self::Other,
        }
    }
}

impl ResponseBody {
    pub fn new(head: &ResponseHeader, translation: Option<&Translation>, expected: ResponsePolicy) -> Self {
        let shape = ContentKind::of(head);
        let length = head.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let events = shape == ContentKind::Events;
        let rewriter = translation
            .filter(|_| shape != ContentKind::Other || head.headers.get(CONTENT_ENCODING).is_none())
            .map(|translation| {
                (translation, translation.rewriter(events, &expected.trace_id, expected.created))
            });
        let tap = || Tap::new(expected.operation, events, shape == ContentKind::Json, length);
        let form = match rewriter {
            Some((translation, rewriter)) if translation.is_patch() => {
                Mode::Same { mend: Some(rewriter), tap: tap(), parser: SseParser::default() }
            }
            Some((_, mut rewriter)) => {
                if expected.keeps {
                    rewriter.keep_transcript();
                    rewriter.hold_errors();
                }
                Mode::Chat(rewriter)
            }
            None => Mode::Same { mend: None, tap: tap(), parser: SseParser::default() },
        };
        let keeps = expected.keeps && events && matches!(form, Mode::Same { .. });
        let mut incoming = Self {
            shape,
            expected,
            form,
            alike: SimilarJson::default(),
            out: Vec::new(),
            over: false,
            trouble: None,
            sent: keeps.then(Vec::new),
            sent_bytes: 0,
            taken: 0,
            resumes: false,
        };
        incoming.judge_head(head);
        incoming
    }

    /// Goes on in the words of an answer that broke. The rewriter has been told to resume.
    pub fn resumed(head: &ResponseHeader, rewriter: Rewriter, expected: ResponsePolicy) -> Self {
        Self {
            shape: ContentKind::of(head),
            expected,
            form: Mode::Chat(rewriter),
            alike: SimilarJson::default(),
            out: Vec::new(),
            over: false,
            trouble: None,
            sent: None,
            sent_bytes: 0,
            taken: 0,
            resumes: true,
        }
    }

    /// A page of HTML from some proxy in between is no answer.
    fn judge_head(&mut self, head: &ResponseHeader) {
        let media = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if self.expected.careful
            && self.wants_json()
            && self.shape == ContentKind::Other
            && media.starts_with("text/")
        {
            self.trouble = Some(BodyError::Malformed("the answer is neither JSON nor events"));
        }
    }

    /// Whether the answer is a document of a model, so that an error in it is one of the call and not of the
    /// thing that was asked for (a job that failed).
    fn wants_json(&self) -> bool {
        self.expected.operation.response_kind() == ResponseKind::Model
    }

    /// Takes in one piece.
    pub fn take(&mut self, task: HttpTask) {
        let end = task.is_end();
        if let HttpTask::Body(Some(chunk), _) = task {
            self.taken += chunk.len();
            self.push(&chunk);
        }
        if end {
            self.end();
        }
    }

    fn push(&mut self, chunk: &Bytes) {
        let mut out = Vec::new();
        match &mut self.form {
            Mode::Chat(rewriter) => {
                rewriter.push(chunk, &mut out);
                self.note(out);
            }
            Mode::Same { mend: Some(rewriter), .. } => {
                rewriter.push(chunk, &mut out);
                self.same(&Bytes::from(out));
            }
            Mode::Same { .. } => self.same(chunk),
        }
    }

    /// Takes bytes in the client's shape.
    fn same(&mut self, chunk: &Bytes) {
        let judged = self.is_judged();
        let Mode::Same { tap, parser, .. } = &mut self.form else { return };
        if self.shape != ContentKind::Events || !judged {
            tap.push(chunk);
            if !chunk.is_empty() {
                self.out.push(chunk.clone());
            }
            return;
        }
        let run = parser.push(chunk);
        if self.trouble.is_none() {
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
                if let Some(BodyError::Error(_, event)) = &mut self.trouble {
                    *event = Some(bytes.slice(bad.clone()));
                }
                bytes.slice(..bad.start)
            }
        };
        if !good.is_empty() {
            self.keep(&good);
            self.out.push(good);
        }
    }

    /// Checks one whole event in the client's shape; false when it must not be forwarded. Comments pass.
    fn check_event(&mut self, event: &Event<'_>) -> bool {
        let Mode::Same { tap, .. } = &mut self.form else { return false };
        let Some(data) = &event.data else { return true };
        if self.expected.careful && !is_sound(data, &mut self.alike) {
            self.trouble = Some(BodyError::Malformed("an event is no JSON"));
            return false;
        }
        let failed = tap.summary().error.is_some();
        tap.event(event);
        let learned = tap.summary();
        if !failed && learned.error.is_some() && self.expected.careful {
            self.trouble = Some(BodyError::Error(ProviderError::read(502, data), None));
        } else if learned.ended && !learned.is_complete_for(self.expected.operation) {
            // The end of a response that did not finish: not to be forwarded.
            self.trouble = Some(BodyError::Early);
        }
        self.trouble.is_none()
    }

    fn keep(&mut self, event: &Bytes) {
        self.sent_bytes += event.len();
        if self.sent_bytes > MOST_KEPT {
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
        let Mode::Chat(rewriter) = &self.form else { return };
        if self.trouble.is_some() {
            return;
        }
        if rewriter.is_mismatch() {
            self.trouble = Some(BodyError::Misfit);
        } else if let Some(fault) = rewriter.error() {
            self.trouble = Some(BodyError::Error(fault.clone(), None));
        }
    }

    /// The provider's bytes are over.
    fn end(&mut self) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let judged = self.is_judged();
        let mut out = Vec::new();
        match &mut self.form {
            Mode::Chat(rewriter) => {
                rewriter.finish(&mut out);
                self.note(out);
                if self.trouble.is_none() && !self.is_whole() {
                    self.trouble = Some(BodyError::Early);
                }
                return;
            }
            Mode::Same { mend, .. } => {
                if let Some(rewriter) = mend {
                    rewriter.finish(&mut out);
                }
            }
        }
        if !out.is_empty() {
            self.same(&Bytes::from(out));
        }
        // Only now: what the patch held back went through the parser, too.
        if let Mode::Same { parser, .. } = &mut self.form {
            let tail = parser.finish();
            self.finish_tail(tail);
        }
        if !judged || self.trouble.is_some() {
            return;
        }
        let Mode::Same { tap, .. } = &mut self.form else { return };
        tap.finish();
        let learned = tap.summary();
        let failed = learned.error.is_some() && learned.finish.is_none();
        let judges = self.expected.careful && self.wants_json();
        if self.shape == ContentKind::Json && failed && judges {
            let body: Vec<u8> = self.out.iter().flatten().copied().collect();
            self.trouble = Some(BodyError::Error(ProviderError::read(502, &body), None));
        } else if !self.is_whole() {
            self.trouble = Some(BodyError::Early);
        } else {
            self.supply_end();
        }
    }

    /// Takes what followed the last blank line: an event whose blank line is missing, or half of one.
    fn finish_tail(&mut self, tail: Run<'static>) {
        if tail.bytes().trim_ascii().is_empty() {
            self.out.extend(Some(tail.into_bytes(&Bytes::new())).filter(|rest| !rest.is_empty()));
            return;
        }
        if self.trouble.is_some() {
            return;
        }
        if !tail.data().all(|data| is_sound(&data, &mut SimilarJson::default())) {
            self.trouble = Some(BodyError::Early);
            return;
        }
        let bad = self.first_bad_event(&tail);
        let end: &[u8] = if tail.bytes().ends_with(b"\n") { b"\n" } else { b"\n\n" };
        let whole = Bytes::from([tail.bytes(), end].concat());
        // The event at fault is the last one: in front of it there can be empty blocks only.
        let bad = bad.map(|bad| bad.start..whole.len());
        self.forward(whole, bad);
    }

    /// A stream that finished but forgot to say so.
    fn supply_end(&mut self) {
        let Mode::Same { tap, .. } = &self.form else { return };
        let Some(end) = self.expected.operation.terminator().event() else { return };
        let learned = tap.summary();
        if self.shape == ContentKind::Events && !learned.ended && learned.error.is_none() {
            self.out.push(Bytes::from_static(end));
        }
    }

    /// Whether anybody judges it: what passes unread is as it is.
    fn is_judged(&self) -> bool {
        !self.expected.is_proxied && self.expected.operation.response_kind() != ResponseKind::Unchecked
    }

    pub fn trouble(&self) -> Option<&BodyError> {
        self.trouble.as_ref()
    }

    /// The provider's bytes are over, or nothing more is wanted of them: some keep a stream open behind
    /// its end.
    pub fn is_over(&self) -> bool {
        self.over
            || match &self.form {
                Mode::Chat(rewriter) => rewriter.is_complete(),
                Mode::Same { tap, .. } => {
                    let learned = tap.summary();
                    let events = self.shape == ContentKind::Events && self.is_judged();
                    // Some send `[DONE]` behind the last event of a response.
                    let last = self.expected.operation.terminator().is_last();
                    events && last && learned.ended && learned.is_complete_for(self.expected.operation)
                }
            }
    }

    /// Whether an answer that breaks off here is whole all the same: nothing but usage and the end itself
    /// can follow.
    pub fn may_end(&self) -> bool {
        let knows = match &self.form {
            Mode::Chat(rewriter) => rewriter.has_finish_reason(),
            Mode::Same { tap, .. } => {
                self.is_judged() && tap.summary().is_complete_for(self.expected.operation)
            }
        };
        // Of several answers one may have finished and another not.
        self.shape == ContentKind::Events && self.trouble.is_none() && knows && self.expected.choices <= 1
    }

    /// The provider will not end it: it is ended for it.
    pub fn close(&mut self) {
        self.end();
    }

    /// Whether the provider's last byte is there.
    pub fn has_ended(&self) -> bool {
        self.over
    }

    /// Whether it came to its proper end.
    pub fn is_whole(&self) -> bool {
        match &self.form {
            Mode::Chat(rewriter) => rewriter.is_complete() && rewriter.error().is_none(),
            Mode::Same { .. } if !self.is_over() => false,
            Mode::Same { tap, .. } => match self.shape {
                _ if !self.is_judged() => true,
                // An error that was told is an end, too.
                ContentKind::Events => {
                    let learned = tap.summary();
                    // Of several answers one may have finished and another not: the end must be told.
                    let all = self.expected.choices <= 1 || learned.ended;
                    (learned.is_complete_for(self.expected.operation) && all) || learned.error.is_some()
                }
                ContentKind::Json => tap.summary().ended,
                ContentKind::Other => true,
            },
        }
    }

    /// Whether there is something a user would see.
    pub fn has_content(&self) -> bool {
        match (&self.form, self.shape) {
            _ if self.resumes => self.taken > 0,
            (Mode::Chat(rewriter), ContentKind::Events) => {
                rewriter.summary().is_some_and(|told| told.content)
            }
            (Mode::Same { tap, .. }, ContentKind::Events) if self.is_judged() => tap.summary().content,
            _ => self.taken > 0,
        }
    }

    /// Whether the caller's bytes differ from the provider's in length.
    pub fn is_rewritten(&self) -> bool {
        matches!(self.form, Mode::Chat(_) | Mode::Same { mend: Some(_), .. })
    }

    /// Whether the caller gets JSON of the gateway's writing, or events.
    pub fn is_translated(&self) -> bool {
        matches!(self.form, Mode::Chat(_))
    }

    /// Bytes that are ready for the caller.
    pub fn ready_bytes(&self) -> usize {
        self.out.iter().map(Bytes::len).sum()
    }

    /// Whether words were added to a stream that broke, which wait to be handed on.
    pub fn has_gone_on(&self) -> bool {
        self.resumes && !self.out.is_empty()
    }

    /// Whether what the caller got of a stream is known well enough to go on from it.
    pub fn can_resume(&self) -> bool {
        match &self.form {
            Mode::Chat(rewriter) => rewriter.transcript().is_some_and(|told| told.can_resume()),
            Mode::Same { .. } => self.sent.is_some(),
        }
    }

    /// What is ready for the caller.
    pub fn ready(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.out)
    }

    /// Ends a broken stream with an error event in the caller's words.
    pub fn fail(&mut self, fault: &ProviderError, dialect: Dialect, provider: &'static str) -> Bytes {
        let mut out = Vec::new();
        match (&mut self.form, self.trouble.take()) {
            // The provider's own words, in the caller's dialect already.
            (Mode::Same { .. }, Some(BodyError::Error(_, Some(event)))) => return event,
            (Mode::Chat(rewriter), _) => rewriter.fail(fault, &mut out),
            (Mode::Same { tap, .. }, _) => {
                fault.event(dialect, Some(provider), tap.summary().events, &mut out);
            }
        }
        Bytes::from(out)
    }

    /// What is needed to go on in this stream: the rewriter, or the bytes the caller got.
    pub fn into_broken(self) -> ResumeSource {
        match self.form {
            Mode::Chat(rewriter) => ResumeSource::Rewriter(Box::new(rewriter)),
            Mode::Same { .. } => ResumeSource::Sent(self.sent),
        }
    }

    /// For the record: what watched the answer.
    pub fn into_watchers(self) -> (Option<Tap>, Option<Rewriter>) {
        match self.form {
            Mode::Chat(rewriter) => (None, Some(rewriter)),
            Mode::Same { tap, .. } => (Some(tap), None),
        }
    }
}

/// A stream that broke, as far as it can be gone on from.
pub(crate) enum ResumeSource {
    Rewriter(Box<Rewriter>),
    /// The events the caller got, when they were kept.
    Sent(Option<Vec<Bytes>>),
}

/// Whether an event's data is JSON or `[DONE]`.
fn is_sound(data: &[u8], alike: &mut SimilarJson) -> bool {
    let data = data.trim_ascii();
    data == b"[DONE]" || alike.is_valid(data)
}
