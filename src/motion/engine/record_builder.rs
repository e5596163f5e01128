//! Collects what happens to a request while it runs.
//!
//! Never holds a key or a raw header. The record is made of it at the end (`finished`).

use super::attempt_state::AttemptState;
use super::attempt_usage::{Observed, Uncounted};
use super::hook_notes::HookNotes;
use super::named::Named;
use super::payload_capture::{BoundedBody, PayloadCapture};
use super::record::{AttemptRecord, AttemptTime, AttemptUsage};
use judgment::route::attempt::{Attempt, Request};
use judgment::route::plan::Reason;
use judgment::route::target::Target;
use memory::auth::ClientIdentity;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::api::tap::ResponseSummary;
use words::error::Error;
use words::json::write::push_number;

/// The most attempts of one request that are counted.
const MAX_ATTEMPTS_COUNTED: usize = 1000;
/// The most attempts one header lists.
const MAX_ATTEMPTS_SHOWN: usize = 16;

/// What is noted of one request while it runs.
#[derive(Debug, Default)]
pub struct RecordBuilder {
    /// Who sent the request; `None` until that is established.
    pub client: Option<Arc<ClientIdentity>>,
    pub source: RecordSource,
    pub streamed: bool,
    /// Whether the config allows only one target and one attempt.
    pub is_single_attempt: bool,
    pub traffic: Traffic,
    /// Retries at the current target; -1 when they are exhausted.
    pub retries: i32,
    pub named: Named,
    /// The bodies, where they are kept.
    pub capture: Option<Box<PayloadCapture>>,
    /// What hooks decided; `None`: it has none.
    pub hooks: Option<Arc<HookNotes>>,
    pub(super) attempts: Attempts,
}

/// Who responded to a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordSource {
    #[default]
    Engine,
    /// A provider's batch job, which has prices of its own.
    BatchJob,
    Control,
    /// The requests that it was run as: each has its own record, and it has none.
    Rounds,
}

/// What went over the client's connection, and when.
#[derive(Debug, Default)]
pub struct Traffic {
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub first_byte: Option<Instant>,
    pub first_token: Option<Instant>,
    /// Time spent waiting for the client's body, which is not counted as overhead.
    pub body_wait: Duration,
    /// Time spent waiting for a place at targets, neither.
    pub queued: Duration,
}

/// The attempts so far.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    pub all: Vec<AttemptRecord>,
    /// Those, by index, whose tokens are to be counted.
    pub uncounted: Vec<(usize, Uncounted)>,
    /// The response of the last one goes to the client: what it used is not settled before its end.
    pub is_forwarded: bool,
    /// The provider broke its response off behind the finish reason.
    pub is_cut: bool,
    /// Time spent waiting for providers; without the last attempt, unless `last_counted`.
    pub upstream: Duration,
    /// Whether the time of the last attempt is in `upstream`.
    pub last_counted: bool,
}

impl RecordBuilder {
    /// Notes a chunk of the response's body on its way to the client.
    pub(crate) fn body_sent(&mut self, chunk: &[u8]) {
        self.traffic.bytes_out += chunk.len() as u64;
        if let Some(capture) = &mut self.capture {
            capture.response.push(chunk);
        }
    }

    /// Notes a chunk of the provider's body of which the client gets something else.
    pub(crate) fn original_received(&mut self, chunk: &[u8]) {
        if let Some(capture) = &mut self.capture {
            capture.push_original(chunk);
        }
    }

    /// What keeps the response of the next attempt as its provider sends it, where bodies are kept.
    pub(super) fn new_original(&self) -> Option<BoundedBody> {
        self.capture.as_ref().map(|capture| capture.new_original())
    }

    /// Keeps the response of the last attempt as its provider sent it.
    pub(super) fn set_original(&mut self, original: Option<BoundedBody>) {
        if let Some(capture) = &mut self.capture {
            capture.original = original;
        }
    }

    /// Notes an attempt and how it ended.
    pub(crate) fn attempt_finished(
        &mut self,
        attempt: &Attempt,
        state: AttemptState,
        reason: Reason,
        error: Option<&Error>,
    ) {
        let started = state.sent_at;
        let status = state.status;
        let spent = started.map_or(Duration::ZERO, |started| started.elapsed());
        let error = error.map(|error| error.kind.row().code);
        let model = attempt.model.clone();
        self.push(AttemptRecord {
            model,
            other_origin: attempt.other_origin.clone(),
            status,
            error,
            span: attempt.trace_parent.map(|own| own.span()),
            time: AttemptTime { started, spent, is_open: false },
            ..AttemptRecord::new(&attempt.target, reason)
        });
        let failed = error.is_some() || status.is_some_and(|status| status >= 300);
        if failed {
            self.attempts.upstream += spent;
        }
        self.attempts.last_counted = failed;
    }

    /// Notes that the response of the last attempt is not its target's answer to this request.
    pub(crate) fn is_from_cache(&mut self) {
        if let Some(last) = self.attempts.all.last_mut() {
            last.is_from_cache = true;
        }
    }

    /// Notes that the response of the last attempt goes to the client from here on.
    pub fn forwarded(&mut self) {
        self.attempts.is_forwarded = true;
    }

    /// Notes that the provider broke the response off behind its finish reason.
    pub(super) fn cut_behind_finish(&mut self) {
        self.attempts.is_cut = true;
    }

    /// Notes what the last attempt used.
    pub(super) fn used(&mut self, observed: Observed) {
        self.attempts.is_forwarded = false;
        let index = self.attempts.all.len().saturating_sub(1);
        let Some(last) = self.attempts.all.get_mut(index) else { return };
        last.time.is_open = match &observed {
            Observed::Open => true,
            Observed::Uncounted(uncounted) => uncounted.is_cut,
            Observed::Nothing | Observed::Reported(_) | Observed::Unmeasured => false,
        };
        match observed {
            Observed::Nothing | Observed::Open => {}
            Observed::Reported(used) => last.used = Some(*used),
            Observed::Unmeasured => last.used = Some(AttemptUsage::unmeasured()),
            Observed::Uncounted(uncounted) => self.attempts.uncounted.push((index, *uncounted)),
        }
    }

    /// Notes that the last attempt's response contains an error in spite of its successful status.
    pub fn error_in_success(&mut self, status: u16) {
        if let Some(last) = self.attempts.all.last_mut() {
            last.status = Some(status);
            if !std::mem::replace(&mut self.attempts.last_counted, true) {
                self.attempts.upstream += last.time.spent;
            }
        }
    }

    /// Adds time that the gateway spent waiting.
    pub(crate) fn add_wait(&mut self, wait: Duration) {
        self.attempts.upstream += wait;
    }

    /// Adds time that it waited for a place at a target.
    pub(super) fn queued(&mut self, waited: Duration) {
        self.traffic.queued += waited;
    }

    /// Notes an attempt that could not be made because its target does not support the request, or a limit refuses it.
    pub(super) fn attempt_unsupported(
        &mut self,
        target: &Arc<Target>,
        reason: Reason,
        request: &Request,
        error: &Error,
    ) {
        let error = Some(error.kind.row().code);
        let model = target.model().or(request.model.as_deref()).map(Arc::from);
        self.push(AttemptRecord { error, model, ..AttemptRecord::new(target, reason) });
    }

    /// Notes an attempt that lost the race against a parallel one (`hedge`).
    pub(crate) fn lost_race(&mut self, attempt: &Attempt, state: AttemptState, reason: Reason) {
        let spent = state.sent_at.map_or(Duration::ZERO, |started| started.elapsed());
        let model = attempt.model.clone();
        let error = Some("outrun");
        let time = AttemptTime { spent, ..AttemptTime::default() };
        self.push(AttemptRecord { model, error, time, ..AttemptRecord::new(&attempt.target, reason) });
    }

    /// Notes that the last attempt's response broke after it had begun.
    pub(crate) fn response_broke(&mut self, error: &Error) {
        if let Some(last) = self.attempts.all.last_mut() {
            last.error = Some(error.kind.row().code);
            let time = &mut last.time;
            time.spent = time.started.map_or(time.spent, |started| started.elapsed());
            self.attempts.upstream += time.spent;
        }
        self.attempts.last_counted = true;
    }

    /// How many attempts have ended, or are committed.
    pub(crate) fn attempt_count(&self) -> usize {
        self.attempts.all.len()
    }

    /// Whether something is charged for any attempt so far.
    pub fn is_charged(&self) -> bool {
        !self.attempts.uncounted.is_empty() || self.attempts.all.iter().any(|attempt| attempt.used.is_some())
    }

    /// Whether an attempt was sent of which no one says what it used.
    pub(crate) fn has_open(&self) -> bool {
        self.attempts.all.iter().any(|attempt| attempt.time.is_open)
    }

    /// Whether that is the last one.
    pub(crate) fn last_is_open(&self) -> bool {
        self.attempts.all.last().is_some_and(|attempt| attempt.time.is_open)
    }

    /// Whether nothing is charged for the last attempt.
    pub(crate) fn last_is_unused(&self) -> bool {
        let last = self.attempts.all.len().saturating_sub(1);
        let is_uncounted = self.attempts.uncounted.iter().any(|(index, _)| *index == last);
        !is_uncounted && self.attempts.all.last().is_some_and(|attempt| attempt.used.is_none())
    }

    fn push(&mut self, mut attempt: AttemptRecord) {
        self.attempts.is_forwarded = false;
        // The last one is always kept: it may be the one that is charged.
        if self.attempts.all.len() >= MAX_ATTEMPTS_COUNTED {
            self.attempts.all.pop();
        }
        attempt.id = u32::try_from(self.attempts.all.len() + 1).unwrap_or(u32::MAX);
        self.attempts.all.push(attempt);
    }

    /// Notes whose response the client got, and what it used if that is still open. `is_cut`: it was not read to its end.
    pub(super) fn attempt_responded(
        &mut self,
        attempt: &Arc<Attempt>,
        response: &ResponseSummary,
        was_sent: bool,
        is_cut: bool,
    ) {
        if self.attempts.is_forwarded {
            let observed = match self.attempts.all.last().and_then(|last| last.status) {
                Some(101) => Observed::of_socket(attempt, response),
                // It is elsewhere, or the client has it.
                Some(300..400) => Observed::Nothing,
                _ => Observed::of(attempt, response),
            };
            let is_cut = is_cut || self.attempts.is_cut;
            self.used(if is_cut { observed.cut(response) } else { observed });
        }
        let mut attempts = self.attempts.all.iter_mut().rev();
        if let Some(record) = attempts.find(|record| Arc::ptr_eq(&record.target, &attempt.target)) {
            record.responded = was_sent;
        }
    }

    /// Whether the response has the header `x-gateway-attempts`: if there could have been several attempts, or it is a
    /// stream.
    pub(crate) fn shows_attempts(&self) -> bool {
        !self.attempts.all.is_empty() && (self.streamed || !self.is_single_attempt)
    }

    /// The value of `x-gateway-attempts`: for each attempt the target, its error code or status, and milliseconds.
    pub(crate) fn attempts_text(&self) -> String {
        let mut text = String::with_capacity(32 * self.attempts.all.len());
        for attempt in self.attempts.all.iter().take(MAX_ATTEMPTS_SHOWN) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            text.push_str(&attempt.target.path);
            text.push(':');
            match (attempt.error, attempt.status) {
                (Some(error), _) => text.push_str(error),
                (None, Some(status)) => push_number(&mut text, status.into()),
                (None, None) => text.push('-'),
            }
            text.push(':');
            push_number(&mut text, u64::try_from(attempt.time.spent.as_millis()).unwrap_or(u64::MAX));
        }
        text
    }

    /// Why the last target was picked, where there was another.
    pub(crate) fn reason_text(&self) -> Option<&'static str> {
        let reason = self.attempts.all.last()?.reason;
        (reason != Reason::Only).then(|| reason.as_str())
    }

    /// The number of retries as a header value, without an allocation in the common case.
    pub(crate) fn retries_text(&self) -> http::HeaderValue {
        match self.retries {
            0 => http::HeaderValue::from_static("0"),
            retries => http::HeaderValue::from(retries),
        }
    }
}
