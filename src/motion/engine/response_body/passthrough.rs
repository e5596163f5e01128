//! The events of a response that passes in the client's dialect: checked, cut where nothing may follow, and forwarded
//! unchanged.
//!
//! Not the responses that are translated: their encoder writes each event.

use super::{BodyError, Mode, ResponseBody};
use crate::engine::content_kind::ContentKind;
use bytes::Bytes;
use std::ops::Range;
use words::api::sse::{Run, SseEvent, SseParser};
use words::json::similarity::SimilarJson;

/// The member that an event with nothing but usage has empty.
const CHOICES: &[u8] = b"\"choices\"";

/// Where the forwarding of a run stops.
#[derive(Debug)]
enum Stop {
    /// At an event that must not be forwarded.
    At(Range<usize>),
    /// Behind the last event of the response.
    Behind(usize),
}

/// What of a run of events is not forwarded.
#[derive(Debug, Default)]
struct Cuts {
    /// Events before the stop.
    hidden: Vec<Range<usize>>,
    stop: Option<Stop>,
}

impl ResponseBody {
    /// Takes bytes in the client's dialect.
    pub(super) fn push_passthrough(&mut self, chunk: &Bytes) {
        let validated = self.is_validated();
        let Mode::Passthrough { tap, parser, .. } = &mut self.mode else { return };
        if self.shape.kind != ContentKind::Events || !validated {
            if let Some(cause) = self.check.take(chunk) {
                self.error = Some(BodyError::Malformed(cause));
            }
            if self.error.is_some() {
                return;
            }
            tap.push(chunk);
            self.out.push(chunk.clone());
            return;
        }
        if self.progress.is_over {
            return;
        }
        if let Some(cause) = self.check.take(chunk) {
            self.error = Some(BodyError::Malformed(cause));
            return;
        }
        let run = parser.push(chunk);
        if self.error.is_none() {
            let cuts = self.cuts(&run);
            self.forward(run.into_bytes(chunk), cuts);
        }
    }

    /// Checks the events of a run, up to the first one that must not be forwarded, or behind which nothing may be.
    fn cuts(&mut self, run: &Run<'_>) -> Cuts {
        let mut cuts = Cuts::default();
        for event in run.events() {
            let place = event.start..event.end();
            if !self.check_event(&event) {
                cuts.stop = Some(Stop::At(place));
                break;
            }
            if self.hides_usage && self.is_usage_only(&event) {
                cuts.hidden.push(place.clone());
            }
            if self.progress.is_over {
                cuts.stop = Some(Stop::Behind(place.end));
                break;
            }
        }
        cuts
    }

    /// Whether an event has the usage and no choices: what OpenAI adds where the usage is requested.
    fn is_usage_only(&self, event: &SseEvent<'_>) -> bool {
        let Mode::Passthrough { tap, .. } = &self.mode else { return false };
        let Some(data) = event.data.as_ref().filter(|_| tap.summary().usage.is_some()) else { return false };
        let Some(at) = memchr::memmem::find(data, CHOICES) else { return false };
        let rest = data.get(at + CHOICES.len()..).unwrap_or_default().trim_ascii_start();
        let list = rest.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        let inside = list.and_then(|list| list.strip_prefix(b"["));
        inside.is_some_and(|inside| inside.trim_ascii_start().starts_with(b"]"))
    }

    /// Forwards the bytes of a run unchanged, without what is hidden, up to where it stops.
    fn forward(&mut self, bytes: Bytes, cuts: Cuts) {
        let good = match cuts.stop {
            None => bytes,
            Some(Stop::Behind(end)) => bytes.slice(..end.min(bytes.len())),
            Some(Stop::At(bad)) => {
                if let Some(BodyError::Provider(_, event)) = &mut self.error {
                    *event = Some(bytes.slice(bad.clone()));
                }
                bytes.slice(..bad.start)
            }
        };
        let mut from = 0;
        for hidden in cuts.hidden {
            self.pass(good.slice(from..hidden.start.min(good.len())));
            from = hidden.end.min(good.len());
        }
        self.pass(if from == 0 { good } else { good.slice(from..) });
    }

    fn pass(&mut self, good: Bytes) {
        if !good.is_empty() {
            self.sent.add(&good);
            self.out.push(good);
        }
    }

    /// Checks one event in the client's dialect; false if it must not be forwarded. SSE comments are always forwarded.
    fn check_event(&mut self, event: &SseEvent<'_>) -> bool {
        let Mode::Passthrough { tap, .. } = &mut self.mode else { return false };
        let Some(data) = &event.data else { return true };
        if self.policy.validates && !is_valid_data(data, &mut self.similar) {
            self.error = Some(BodyError::Malformed("an event is no JSON"));
            return false;
        }
        let failed = tap.summary().error.is_some();
        tap.event(event);
        let summary = tap.summary();
        // The error of a stream that has not begun gets a status of its own, whoever could replace it.
        let begins = summary.events == 1 && self.progress.taken.is_none() && self.out.is_empty();
        if !failed && summary.error.is_some() && (self.policy.validates || begins) {
            self.error = Some(BodyError::Provider(self.policy.wanted.error_in(data), None));
        } else if summary.ended && !summary.is_complete_for(self.policy.wanted.operation) {
            // An end marker without a finish reason: forwarding it would make the response look complete.
            self.error = Some(BodyError::Truncated);
        }
        // A final event that is not a terminator may be followed by `[DONE]`, which is one everywhere.
        let is_last = self.policy.wanted.operation.terminator().is_last();
        self.progress.is_over =
            self.error.is_none() && summary.ended && (is_last || data.trim_ascii() == b"[DONE]");
        self.error.is_none()
    }

    /// Handles what follows the last blank line: an event without its blank line, or a part of one.
    pub(super) fn finish_tail(&mut self, tail: Run<'static>) {
        if self.progress.is_over {
            return;
        }
        if tail.bytes().trim_ascii().is_empty() {
            self.out.push(tail.into_bytes(&Bytes::new()));
            return;
        }
        if self.error.is_some() {
            return;
        }
        if !tail.data().all(|data| is_valid_data(&data, &mut SimilarJson::default())) {
            self.error = Some(BodyError::Truncated);
            return;
        }
        let Cuts { mut hidden, stop } = self.cuts(&tail);
        let end: &[u8] = if tail.bytes().ends_with(b"\n") { b"\n" } else { b"\n\n" };
        let whole = Bytes::from([tail.bytes(), end].concat());
        let tail_len = tail.bytes().len();
        // The invalid event is the last one, because only empty events can precede it.
        let stop = stop.map(|stop| match stop {
            Stop::At(bad) => Stop::At(bad.start..whole.len()),
            Stop::Behind(_) => Stop::Behind(whole.len()),
        });
        // An event without its blank line gets one here, and is hidden with it.
        if let Some(last) = hidden.last_mut() {
            last.end = if last.end >= tail_len { whole.len() } else { last.end };
        }
        self.forward(whole, Cuts { hidden, stop });
    }

    /// Whether the event that ends the response was read. A client that leaves behind it has everything, whatever follows: `[DONE]`, or
    /// the end of the body.
    pub fn has_last_event(&self) -> bool {
        let Mode::Passthrough { tap, .. } = &self.mode else { return self.is_finished() };
        let summary = tap.summary();
        let is_all = summary.is_complete_for(self.policy.wanted.operation) || summary.error.is_some();
        self.shape.kind == ContentKind::Events && self.error.is_none() && summary.ended && is_all
    }

    /// Appends the end marker to a finished stream that lacks it.
    pub(super) fn append_terminator(&mut self) {
        let Mode::Passthrough { tap, .. } = &self.mode else { return };
        let Some(end) = self.policy.wanted.operation.terminator().event() else { return };
        let summary = tap.summary();
        if self.shape.kind == ContentKind::Events && !summary.ended && summary.error.is_none() {
            self.out.push(Bytes::from_static(end));
        }
    }
}

/// Whether all events of a whole stream are JSON.
pub(in crate::engine) fn has_only_json(stream: &[u8]) -> bool {
    let mut parser = SseParser::default();
    let mut similar = SimilarJson::default();
    let mut all_valid = |run: Run<'_>| run.data().all(|data| is_valid_data(&data, &mut similar));
    all_valid(parser.push(stream)) && all_valid(parser.finish())
}

/// Whether an event's data is JSON or `[DONE]`.
fn is_valid_data(data: &[u8], similar: &mut SimilarJson) -> bool {
    let data = data.trim_ascii();
    data == b"[DONE]" || similar.is_valid(data)
}
