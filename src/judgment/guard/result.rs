//! What hooks found, as clients see it in `hook_results`.
//!
//! Not here: where it is shown, and what follows from it.

use super::finding::Finding;
use super::judged::Judged;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use words::config::hooks::{Feedback, HookPhase};

/// As much as the results of one hook with one check are, bytes.
const USUAL_BYTES: usize = 1 << 10;

/// The result of one hook.
#[derive(Debug, Clone, Serialize)]
pub struct HookResult {
    pub verdict: bool,
    pub id: Arc<str>,
    pub transformed: bool,
    pub checks: Vec<CheckResult>,
    pub feedback: Option<HookFeedback>,
    #[serde(serialize_with = "milliseconds")]
    pub execution_time: Duration,
    #[serde(rename = "async")]
    pub asynchronous: bool,
    /// `guardrail` or `mutator`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub created_at: Timestamp,
    /// Whether it denies the request or response.
    pub deny: bool,
    /// What its checks looked at; `None`: they read no texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judged>,
}

/// The result of one check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckResult {
    pub data: Option<Value>,
    pub verdict: bool,
    pub id: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "error")]
    pub error: Option<super::finding::CheckError>,
    #[serde(serialize_with = "milliseconds")]
    pub execution_time: Duration,
    pub transformed: bool,
    pub created_at: Timestamp,
    pub log: Option<Value>,
    pub fail_on_error: bool,
}

/// What is written to the feedback of the request's trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HookFeedback {
    pub value: f64,
    pub weight: f64,
    /// The configured metadata, and the names of the checks by what they found.
    pub metadata: Map<String, Value>,
}

impl CheckResult {
    pub(super) fn new(
        id: &Arc<str>,
        finding: Finding,
        fail_on_error: bool,
        taken: Duration,
        created_at: Timestamp,
    ) -> Self {
        Self {
            transformed: false,
            data: finding.data,
            verdict: finding.verdict,
            id: Arc::clone(id),
            error: finding.error,
            execution_time: taken,
            created_at,
            log: finding.log,
            fail_on_error,
        }
    }

    /// Whether the hook may pass with this result. A check that cannot decide passes, unless it is set to fail then.
    pub fn passes(&self) -> bool {
        match self.error {
            Some(_) => !self.fail_on_error,
            None => self.verdict,
        }
    }
}

impl HookResult {
    /// Joins the result of a second run: it passes if both did; shown are the checks of the run that failed, else those
    /// of the second.
    pub(super) fn take_again(&mut self, again: Self) {
        let transformed = self.transformed || again.transformed;
        let taken = self.execution_time + again.execution_time;
        if !self.deny && (self.verdict || again.deny) {
            *self = again;
        }
        (self.transformed, self.execution_time) = (transformed, taken);
    }
}

impl HookFeedback {
    /// The feedback that a config asks for, with the names of the checks.
    pub(super) fn new(configured: &Feedback, checks: &[CheckResult]) -> Self {
        let metadata = configured.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let mut metadata: Map<String, Value> = metadata.unwrap_or_default();
        let names = |is: &dyn Fn(&CheckResult) -> bool| {
            let names: Vec<&str> = checks.iter().filter(|check| is(check)).map(|check| &*check.id).collect();
            Value::from(names.join(", "))
        };
        metadata
            .insert("successfulChecks".to_owned(), names(&|check| check.error.is_none() && check.verdict));
        metadata.insert("failedChecks".to_owned(), names(&|check| check.error.is_none() && !check.verdict));
        metadata.insert("erroredChecks".to_owned(), names(&|check| check.error.is_some()));
        Self {
            value: configured.value.unwrap_or_default(),
            weight: configured.weight.unwrap_or(1.0),
            metadata,
        }
    }
}

/// The member of `hook_results` that has the results of a phase.
pub const fn member(phase: HookPhase) -> &'static str {
    phase.lists()[0]
}

/// The value of `hook_results`: both phases, as far as they ran.
#[derive(Debug, Clone, Copy)]
pub struct HookResults<'a> {
    before: &'a [HookResult],
    after: &'a [HookResult],
}

impl<'a> HookResults<'a> {
    /// `None`: neither phase ran.
    pub fn of(before: &'a [HookResult], after: &'a [HookResult]) -> Option<Self> {
        (!before.is_empty() || !after.is_empty()).then_some(Self { before, after })
    }

    /// As JSON text. `None` never happens: all names are texts.
    pub fn to_json(self) -> Option<String> {
        let mut json = Vec::with_capacity(USUAL_BYTES);
        serde_json::to_writer(&mut json, &self).ok()?;
        String::from_utf8(json).ok()
    }
}

impl Serialize for HookResults<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let phases = [(HookPhase::After, self.after), (HookPhase::Before, self.before)];
        let ran = phases.into_iter().filter(|(_, list)| !list.is_empty());
        serializer.collect_map(ran.map(|(phase, list)| (member(phase), list)))
    }
}

fn milliseconds<S: Serializer>(taken: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(taken.as_millis()).unwrap_or(u64::MAX))
}

fn error<S: Serializer>(
    error: &Option<super::finding::CheckError>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let shown = error.as_ref().map(|error| json!({"name": error.name, "message": error.message}));
    shown.serialize(serializer)
}
