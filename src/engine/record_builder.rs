//! What is noted of a request while it is under way, and made into its record at the end.
//!
//! Never holds a key, a body or a raw header.

use super::attempt_state::AttemptState;
use super::downstream::Downstream;
use super::record::{AttemptRecord, RequestRecord};
use super::request_context::RequestContext;
use crate::error::{Error, Kind};
use crate::provider::rewriter::Rewriter;
use crate::route::plan::Reason;
use crate::route::target::Target;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most attempts of one request that are counted.
const MAX_ATTEMPTS_COUNTED: usize = 1000;
/// The most attempts one header lists.
const MAX_ATTEMPTS_SHOWN: usize = 16;

/// See the module.
#[derive(Debug, Default)]
pub struct RecordBuilder {
    pub key: Option<Arc<str>>,
    /// The control plane responded.
    pub is_control: bool,
    pub streamed: bool,
    /// One target and one attempt is all the config allows.
    pub is_single_attempt: bool,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub first_byte: Option<Instant>,
    pub first_token: Option<Instant>,
    /// Time spent waiting for the client's body: not the gateway's own.
    pub body_wait: Duration,
    /// Of the target at hand; -1 when they were used up.
    pub retries: i32,
    /// The client's `x-gateway-metadata`, a JSON object.
    pub metadata: Option<Box<serde_json::value::RawValue>>,
    attempts: Vec<AttemptRecord>,
    /// Time spent at providers by attempts that came to nothing.
    upstream: Duration,
    /// The last attempt is among them.
    last_counted: bool,
}

impl RecordBuilder {
    /// Notes what an attempt came to.
    pub fn attempt_finished(
        &mut self,
        target: &Arc<Target>,
        state: AttemptState,
        reason: Reason,
        error: Option<&Error>,
    ) {
        let (started, status) = (state.sent_at, state.status);
        let spent = started.map_or(Duration::ZERO, |started| started.elapsed());
        let error = error.map(|error| error.kind.row().code);
        self.push(AttemptRecord { target: Arc::clone(target), status, error, reason, started, spent });
        let failed = error.is_some() || status.is_some_and(|status| status >= 300);
        if failed {
            self.upstream += spent;
        }
        self.last_counted = failed;
    }

    /// The last attempt's response had a successful status and holds an error all the same.
    pub fn error_in_success(&mut self, status: u16) {
        if let Some(last) = self.attempts.last_mut() {
            last.status = Some(status);
            if !std::mem::replace(&mut self.last_counted, true) {
                self.upstream += last.spent;
            }
        }
    }

    /// Time that passed without the gateway doing anything.
    pub fn add_wait(&mut self, wait: Duration) {
        self.upstream += wait;
    }

    /// An attempt that could not be made at its target.
    pub fn attempt_unsupported(&mut self, target: &Arc<Target>, reason: Reason, error: &Error) {
        let error = Some(error.kind.row().code);
        self.push(AttemptRecord {
            target: Arc::clone(target),
            status: None,
            error,
            reason,
            started: None,
            spent: Duration::ZERO,
        });
    }

    /// An attempt that lost the race against another one beside it.
    pub fn lost_race(&mut self, target: &Arc<Target>, state: AttemptState, reason: Reason) {
        let spent = state.sent_at.map_or(Duration::ZERO, |started| started.elapsed());
        let target = Arc::clone(target);
        self.push(AttemptRecord {
            target,
            status: None,
            error: Some("outrun"),
            reason,
            started: None,
            spent,
        });
    }

    /// The response of the last attempt broke after it began.
    pub fn response_broke(&mut self, error: &Error) {
        if let Some(last) = self.attempts.last_mut() {
            last.error = Some(error.kind.row().code);
            last.spent = last.started.map_or(last.spent, |started| started.elapsed());
            self.upstream += last.spent;
        }
        self.last_counted = true;
    }

    fn push(&mut self, attempt: AttemptRecord) {
        if self.attempts.len() < MAX_ATTEMPTS_COUNTED {
            self.attempts.push(attempt);
        }
    }

    /// Whether the attempts are worth a header: there could have been more than one, or the response is a stream.
    pub fn shows_attempts(&self) -> bool {
        !self.attempts.is_empty() && (self.streamed || !self.is_single_attempt)
    }

    /// The attempts in one line: target, what came of it, milliseconds (`x-gateway-attempts`).
    pub fn attempts_text(&self) -> String {
        let mut text = String::with_capacity(32 * self.attempts.len());
        for attempt in self.attempts.iter().take(MAX_ATTEMPTS_SHOWN) {
            if !text.is_empty() {
                text.push_str(", ");
            }
            let ms = attempt.spent.as_millis();
            // Writing into a String cannot fail.
            let _ = match (attempt.error, attempt.status) {
                (Some(error), _) => write!(text, "{}:{error}:{ms}", attempt.target.path),
                (None, Some(status)) => write!(text, "{}:{status}:{ms}", attempt.target.path),
                (None, None) => write!(text, "{}:-:{ms}", attempt.target.path),
            };
        }
        text
    }

    /// Retries as header text, without allocating for the common ones.
    pub fn retries_text(&self) -> http::HeaderValue {
        match self.retries {
            0 => http::HeaderValue::from_static("0"),
            retries => http::HeaderValue::from(retries),
        }
    }
}

/// The record of a request that is over. `client`: whom its response was sent to.
pub(super) fn finish<D: Downstream>(client: &D, ctx: &mut RequestContext) -> RequestRecord {
    let now = Instant::now();
    let mut noted = std::mem::take(&mut ctx.record);
    let error = ctx.failure.take();
    let attempt = ctx.attempt.take();
    let state = ctx.attempt_state;
    if let Some(attempt) = attempt.as_ref().filter(|_| noted.attempts.is_empty()) {
        let failed = error.as_ref().filter(|_| state.status.is_none());
        noted.attempt_finished(&attempt.target, state, Reason::Only, failed);
    }
    // A response that broke after it began is no success of the provider's, whatever its status was.
    if let (Some(error), Some(attempt)) = (&error, noted.attempts.last_mut())
        && matches!(error.kind, Kind::Unreachable | Kind::InvalidResponse | Kind::UpstreamTimeout)
    {
        attempt.error = Some(error.kind.row().code);
    }
    let status = match (client.sent_status(), &error) {
        (Some(status), _) => status,
        (None, Some(error)) => error.status(),
        (None, None) => Kind::ClientClosed.row().status,
    };
    let total = now.duration_since(ctx.started);
    let last =
        if noted.last_counted || attempt.is_none() { Duration::ZERO } else { state.upstream_time(now) };
    let since_start = |moment: Option<Instant>| moment.map(|moment| moment.duration_since(ctx.started));
    let (time_to_first_byte, time_to_first_token) =
        (since_start(noted.first_byte), since_start(noted.first_token));
    let rewritten = ctx.rewriter.take().and_then(Rewriter::into_summary);
    let response = rewritten.or_else(|| {
        let mut tap = ctx.tap.take()?;
        tap.finish();
        Some(tap.into_summary())
    });
    let request = client.request();
    RequestRecord {
        trace_id: Arc::clone(&ctx.trace_id),
        key: noted.key,
        client_address: client.client_address(),
        method: request.method.clone(),
        uri: request.uri.clone(),
        operation: if noted.is_control { "control" } else { ctx.operation.label() },
        attempt,
        attempts: noted.attempts,
        status,
        error,
        streamed: noted.streamed,
        bytes_in: noted.bytes_in,
        bytes_out: noted.bytes_out,
        response: response.unwrap_or_default(),
        time_to_first_byte,
        time_to_first_token,
        total,
        overhead: total.saturating_sub(noted.upstream + last + noted.body_wait),
        metadata: noted.metadata,
    }
}
