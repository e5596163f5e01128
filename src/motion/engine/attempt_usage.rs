//! What one attempt used, by what was read of its response.
//!
//! | How the attempt ended | What is charged |
//! |---|---|
//! | complete, with usage | the provider's report, as far as the request could go (`usage_ceiling`) |
//! | complete, without | the request's tokens and those of the response's text, counted here |
//! | broken off, after something was read | the last report, or what is counted, whichever is more; hard limits keep what they hold |
//! | sent, and nothing of a response was read | nothing; hard limits keep what they hold. A call with a price: that |
//! | not sent | nothing |
//! | a failing response | what it reports, if it does |
//!
//! Counting is left to [`Uncounted::count`], because the tokenizer's table may have to be loaded and texts may be long.
//! Knows no prices.
//!
//! What no one reported is counted when the record is made, in a task where that takes long; then each attempt is priced
//! (`cost`), the limits are settled and the sinks are called. `provider::stream_usage` requests the usage of streams, and the
//! event with it is taken out again where the client did not request it. `tests/bills.rs` holds all of it against the emulator's
//! bill.

use super::record::{AttemptUsage, UsageSource};
use super::usage_ceiling::{UsageCeiling, served_tier};
use bytes::Bytes;
use http::Method;
use judgment::route::attempt::Attempt;
use knowledge::provider::translation::Translation;
use std::sync::Arc;
use words::api::body::Body;
use words::api::operation::{Billing, Operation};
use words::api::output_text::OutputText;
use words::api::service_tier::ServiceTier;
use words::api::tap::ResponseSummary;
use words::api::token_estimate::{self, CountText};
use words::api::usage::Usage;
use words::json::walk;

/// What an attempt used.
pub(super) enum Observed {
    /// Nothing is charged.
    Nothing,
    /// It was sent, and nothing of its response was read: the provider may charge it.
    Open,
    Reported(Box<AttemptUsage>),
    Uncounted(Box<Uncounted>),
    /// Something is charged, but no one says what, and it cannot be counted: a generated image, a compressed response.
    Unmeasured,
}

/// An attempt whose tokens are to be counted.
#[derive(Debug)]
pub(super) struct Uncounted {
    operation: Operation,
    /// The request's body: the client's where it was translated, else as it was sent.
    body: Option<RequestText>,
    text: OutputText,
    model: Option<Arc<str>>,
    /// What was reported before the response broke off.
    reported: Option<Usage>,
    web_searches: u64,
    response_model: Option<String>,
    service_tier: Option<ServiceTier>,
    ceiling: Option<Box<UsageCeiling>>,
    /// Its response broke off, or was not read to its end: the provider may charge more.
    pub is_cut: bool,
}

impl Observed {
    /// What an attempt with a successful status used. `attempt` is the one whose response it is.
    pub fn of(attempt: &Arc<Attempt>, response: &ResponseSummary) -> Self {
        // An error with a successful status is no output.
        let has_content = response.content && (response.error.is_none() || !response.text.is_empty());
        let has_output = has_content || response.usage.is_some() || !response.text.is_empty();
        let is_failed = response.error.is_some() && !has_output;
        let (is_charged, is_counted) = match billing(attempt) {
            Billing::None => return Self::Nothing,
            Billing::Tokens => (has_output, has_output),
            // An API that refuses a call has carried nothing out.
            Billing::Calls if attempt.target.api.is_some() && response.error.is_some() => {
                return Self::Nothing;
            }
            Billing::Calls => return Self::of_call(),
            Billing::IfReported | Billing::Other | Billing::Later => (!is_failed, false),
        };
        if is_charged && is_unmeasured(attempt, response, true) {
            return Self::Unmeasured;
        }
        if let Some(characters) = spoken(attempt).filter(|_| is_charged && response.usage.is_none()) {
            let used = AttemptUsage { source: UsageSource::Counted, ..AttemptUsage::unmeasured() };
            let usage = Usage { characters, ..Usage::default() }.capped();
            return Self::Reported(Box::new(AttemptUsage { usage, ..used }));
        }
        let reported = AttemptUsage::reported(response).map(|reported| reported.by(attempt));
        match reported {
            // A report that came with the finish, or after it, is the last one.
            Some(reported) if response.is_complete() || !is_counted => Self::Reported(Box::new(reported)),
            _ if is_counted => Self::Uncounted(Box::new(Uncounted::new(attempt, response))),
            None if !response.is_complete() && response.error.is_none() => Self::Open,
            _ => Self::Nothing,
        }
    }

    /// What a call used that costs the same whatever it uses.
    fn of_call() -> Self {
        Self::Reported(Box::new(AttemptUsage { source: UsageSource::Counted, ..AttemptUsage::unmeasured() }))
    }

    /// The same of a response that was not read to its end: a report may follow the finish reason, and the provider charges what it says.
    #[must_use]
    pub fn cut(mut self, response: &ResponseSummary) -> Self {
        if let Self::Uncounted(uncounted) = &mut self {
            uncounted.is_cut |= !response.ended;
        }
        self
    }

    /// What an attempt used that was sent and of whose response nothing was read.
    pub fn unanswered(attempt: &Attempt) -> Self {
        match billing(attempt) {
            Billing::None => Self::Nothing,
            // It was made, and what it costs does not depend on its response.
            Billing::Calls => Self::of_call(),
            _ => Self::Open,
        }
    }

    /// What is charged for a connection that speaks another protocol from here on: nothing of it is read but usage of sessions that are
    /// an operation.
    pub(super) fn of_socket(attempt: &Arc<Attempt>, response: &ResponseSummary) -> Self {
        match attempt.operation.billing() {
            // Each of its turns has a record of its own.
            _ if attempt.operation == Operation::Realtime => Self::Nothing,
            Billing::IfReported => Self::Unmeasured,
            _ => Self::of(attempt, response),
        }
    }

    /// What a failing response says it used.
    pub(crate) fn of_error(attempt: &Attempt, body: &[u8]) -> Self {
        match usage_in_error(body) {
            Some(usage) => {
                let used = AttemptUsage {
                    usage: usage.capped(),
                    source: UsageSource::Reported,
                    ..AttemptUsage::unmeasured()
                };
                Self::Reported(Box::new(used.by(attempt)))
            }
            None => Self::Nothing,
        }
    }
}

impl AttemptUsage {
    /// The report of this attempt, with what it can have used at most where it says more than is sure.
    fn by(self, attempt: &Attempt) -> Self {
        let service_tier = served_tier(attempt, self.service_tier);
        let is_bounded = service_tier.is_none() && self.service_tier.is_some_and(|tier| tier.is_dear());
        let source = if is_bounded { UsageSource::Bounded } else { self.source };
        Self { ceiling: UsageCeiling::of(attempt, &self.usage), service_tier, source, ..self }
    }
}

/// What is charged for the response of an attempt. On a path that is no operation's, nothing for what only reads or deletes, because it
/// was paid when it was made. What makes a batch there is paid later: the batch reports the usage of all its requests each time.
pub(super) fn billing(attempt: &Attempt) -> Billing {
    match attempt.operation.billing() {
        Billing::Calls if attempt.target.own_prices.is_none() => Billing::None,
        Billing::IfReported if !makes(&attempt.method) => Billing::None,
        Billing::IfReported if manages_batch(&attempt.path) && cancels(&attempt.path) => Billing::None,
        Billing::IfReported if manages_batch(&attempt.path) => Billing::Later,
        billing => billing,
    }
}

/// Whether such a request may make something, on a path that is no operation's. The others read or delete.
pub(super) fn makes(method: &Method) -> bool {
    ![Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS].contains(method)
}

/// Whether something is charged for such a response, and it does not say what. `is_whole`: all of it was read that will be.
pub(super) fn is_unmeasured(attempt: &Attempt, response: &ResponseSummary, is_whole: bool) -> bool {
    let is_reported = response.usage.is_some();
    match billing(attempt) {
        Billing::None | Billing::Calls => false,
        Billing::Later => true,
        Billing::Other => !is_reported && (is_whole || response.is_unread) && spoken(attempt).is_none(),
        Billing::IfReported => !is_reported && !cancels(&attempt.path) && (is_whole || response.is_unread),
        Billing::Tokens => !is_reported && (response.is_compressed || (is_whole && runs_on(attempt))),
    }
}

/// How many characters are spoken for it, where that is what it is for.
pub(super) fn spoken(attempt: &Attempt) -> Option<u64> {
    if attempt.sent_operation != Operation::Speech {
        return None;
    }
    let body = Body::parse(attempt.body.clone()?).ok()?;
    body.text("input").map(|text| text.chars().count() as u64)
}

/// Whether the provider goes on with it after this response: one in the background, which a later request fetches.
fn runs_on(attempt: &Attempt) -> bool {
    let is_response = matches!(attempt.sent_operation, Operation::Responses);
    let body = attempt.body.as_deref().filter(|_| is_response).unwrap_or_default();
    let mut members = walk::members(body).into_iter().flatten();
    members.any(|(name, value)| name == b"background" && value == b"true")
}

/// Whether a path is that of what ends a job: `…/batches/{id}/cancel`, `…/threads/{id}/runs/{id}/cancel`, `…/batches/{id}:cancel`.
fn cancels(path: &str) -> bool {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    path.ends_with("/cancel") || path.ends_with(":cancel")
}

/// Whether a path is one of a provider's batch API. A model or a deployment may have any name.
fn manages_batch(path: &str) -> bool {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let is_batch = |segment: &str| {
        matches!(segment, "batch" | "batches" | "batchPredictionJobs")
            || segment.ends_with(":batchGenerateContent")
    };
    let before = std::iter::once("").chain(path.split('/'));
    let named = |before: &str| matches!(before, "deployments" | "model");
    path.split('/').zip(before).any(|(segment, before)| is_batch(segment) && !named(before))
}

impl Uncounted {
    fn new(attempt: &Attempt, response: &ResponseSummary) -> Self {
        Self {
            operation: attempt.operation,
            body: RequestText::of(attempt),
            text: response.text.clone(),
            model: attempt.model.clone(),
            reported: response.usage,
            web_searches: response.web_searches.count(),
            response_model: response.model.clone(),
            service_tier: served_tier(attempt, response.service_tier),
            ceiling: response.usage.and_then(|usage| UsageCeiling::of(attempt, &usage.capped())),
            is_cut: !response.is_complete(),
        }
    }

    /// How many bytes are read to count it.
    pub fn bytes(&self) -> usize {
        self.text.kept_bytes() + self.body.as_ref().map_or(0, RequestText::len)
    }

    /// Counts the tokens of the request and of the text of the response.
    pub fn count(self, tokens: &CountText<'_>) -> AttemptUsage {
        let model = self.response_model.as_deref().or(self.model.as_deref());
        let output = self.text.tokens(|text| tokens.of(text, model));
        let reported = self.reported.unwrap_or_default();
        let input = match self.reported {
            Some(usage) if usage.input > 0 => usage.input,
            _ => self.input(tokens),
        };
        let output = output.max(reported.output);
        let web_searches = reported.web_searches.max(self.web_searches);
        AttemptUsage {
            usage: Usage { input, output, total: input.saturating_add(output), web_searches, ..reported }
                .capped(),
            source: UsageSource::Counted,
            response_model: self.response_model,
            service_tier: self.service_tier,
            cost: None,
            ceiling: self.ceiling,
        }
    }

    fn input(&self, tokens: &CountText<'_>) -> u64 {
        match &self.body {
            None => 0,
            Some(RequestText::Read(body)) => token_estimate::input(self.operation, body, tokens),
            Some(RequestText::Sent(bytes)) => {
                let body = Body::parse(bytes.clone()).unwrap_or_else(|_| Body::opaque(bytes.clone()));
                token_estimate::input(self.operation, &body, tokens)
            }
        }
    }
}

/// The body of a request whose tokens are counted.
#[derive(Debug)]
enum RequestText {
    Read(Body),
    Sent(Bytes),
}

impl RequestText {
    fn of(attempt: &Attempt) -> Option<Self> {
        let translated = attempt.translation.as_ref().and_then(Translation::request);
        translated.cloned().map(Self::Read).or_else(|| attempt.body.clone().map(Self::Sent))
    }

    fn len(&self) -> usize {
        match self {
            Self::Read(body) => body.bytes().len(),
            Self::Sent(bytes) => bytes.len(),
        }
    }
}

/// The usage in the body of an error: beside the error, inside it, or inside a failed response.
fn usage_in_error(body: &[u8]) -> Option<Usage> {
    memchr::memmem::find(body, b"\"usage")?;
    let members = |json| walk::members(json).into_iter().flatten();
    let named = |json, wanted: &[&[u8]]| {
        let found: Vec<&[u8]> =
            members(json).filter(|(name, _)| wanted.contains(name)).map(|(_, v)| v).collect();
        found.into_iter()
    };
    let body = body.trim_ascii();
    let inner = named(body, &[b"error", b"response", b"detail"]);
    let places = std::iter::once(body).chain(inner);
    places.flat_map(|json| named(json, &[b"usage", b"usageMetadata"])).find_map(Usage::read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_batches_have_a_segment_of_their_own() {
        for path in [
            "/v1/batches",
            "/openai/v1/batches/b_1/cancel?x=/y",
            "/v1/messages/batches",
            "/v1/batch/jobs",
            "/v1beta/models/m:batchGenerateContent",
            "/v1/projects/p/locations/l/batchPredictionJobs",
        ] {
            assert!(manages_batch(path), "{path}");
        }
        for path in [
            "/v1/chat/completions?to=/batches",
            "/v1/minibatches",
            "/v1beta/models/m:batchEmbedContents",
            "/openai/deployments/batch/chat/completions",
            "/model/batch/converse",
        ] {
            assert!(!manages_batch(path), "{path}");
        }
    }

    #[test]
    fn what_reads_deletes_or_cancels_makes_nothing() {
        for method in [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS] {
            assert!(!makes(&method), "{method}");
        }
        for method in [Method::POST, Method::PUT, Method::PATCH] {
            assert!(makes(&method), "{method}");
        }
        for path in ["/v1/batches/b/cancel?x=y", "/v1/threads/t/runs/r/cancel", "/v1beta/batches/b:cancel"] {
            assert!(cancels(path), "{path}");
        }
        assert!(!cancels("/v1/chat/completions?then=/cancel"));
    }

    #[test]
    fn usage_is_found_in_errors() {
        let usage = |input, output| Some(Usage { input, output, total: input + output, ..Usage::default() });
        let cases = [
            (r#"{"error":{"message":"no"}}"#, None),
            (r#"{"error":{"message":"the \"usage\" is over"}}"#, None),
            (r#"{"error":{},"usage":{"prompt_tokens":7,"completion_tokens":0}}"#, usage(7, 0)),
            (r#" {"error":{"usage":{"input_tokens":3,"output_tokens":2}}}"#, usage(3, 2)),
            (r#"{"response":{"status":"failed","usage":{"input_tokens":3,"output_tokens":2}}}"#, usage(3, 2)),
            (r#"{"usageMetadata":{"promptTokenCount":4},"error":{}}"#, usage(4, 0)),
            (r#"{"usage":null}"#, None),
            ("usage", None),
            ("{\"usage\":{", None),
        ];
        for (body, wanted) in cases {
            assert_eq!(usage_in_error(body.as_bytes()), wanted, "{body}");
        }
    }
}
