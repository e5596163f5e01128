//! Hooks and guardrails as written in a config: their checks, and what happens when they pass or fail.
//!
//! Both forms become one [`Hook`]: `{"id":"h","checks":[{"id":"contains","parameters":{}}]}` in a hook list
//! and `{"contains":{}}` in a guardrail list each yield a hook with the check `contains`. Not here: whether a
//! check exists and what its parameters mean (`guard`); parameters are free-form and kept as written.

use super::node::{Kind, Node};
use super::read::{Cursor, ObjectReader};
use std::fmt;

/// When a list of hooks runs: the rules for `async` and `deny` differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPhase {
    /// On the request.
    Before,
    /// On the response.
    After,
}

impl HookPhase {
    /// The keys of a config whose hooks run in this phase, in the order in which they run: hooks, guardrails, mutators.
    pub const fn lists(self) -> &'static [&'static str; 3] {
        match self {
            Self::Before => &["before_request_hooks", "input_guardrails", "input_mutators"],
            Self::After => &["after_request_hooks", "output_guardrails", "output_mutators"],
        }
    }
}

/// An item of `before_request_hooks` or `after_request_hooks`, or an inline guardrail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hook {
    /// Always present in hooks; optional in guardrails.
    pub id: Option<String>,
    pub kind: HookKind,
    /// `async`: runs concurrently with the request and cannot affect it.
    pub asynchronous: bool,
    /// `sequential`: checks run one after another instead of at once.
    pub sequential: bool,
    /// The hook's own `deny`, beside `on_fail.deny`.
    pub deny: Option<bool>,
    pub checks: Vec<Check>,
    pub on_fail: Option<HookAction>,
    pub on_success: Option<HookAction>,
    /// Runs while the target is called; the response is held back until it has passed. For requests only.
    pub parallel: bool,
    /// How a stream is checked; `None`: through a window where its checks can, else it is held back as a whole.
    pub stream: Option<StreamMode>,
    /// Bytes of a stream that are held back; `None`: as many as its checks need.
    pub overlap_bytes: Option<usize>,
    /// What the client is told when it denies.
    pub message: Option<String>,
}

/// How the checks of a hook see a streamed response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    /// Text is sent on as soon as all checks have looked at it.
    Window,
    /// The response is held back until it is complete.
    Buffer,
}

/// What a hook may do to the message it inspects. The default is guardrail.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HookKind {
    /// Passes or fails the message.
    #[default]
    Guardrail,
    /// Changes the message.
    Mutator,
}

/// One check of a hook.
#[derive(Clone, PartialEq)]
pub struct Check {
    /// As written; in a guardrail the key whose value is the check.
    pub id: String,
    /// An object, contents unchecked. It may hold credentials, so `Debug` leaves it out.
    pub parameters: Node,
    /// `is_enabled`, default true.
    pub enabled: bool,
}

/// `on_fail` or `on_success`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HookAction {
    pub deny: Option<bool>,
    pub feedback: Option<Feedback>,
}

/// Feedback recorded for the request when the action is taken.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Feedback {
    pub value: Option<f64>,
    pub weight: Option<f64>,
    /// A JSON object's text.
    pub metadata: Option<Box<str>>,
}

/// An item of a list of guardrails or mutators. Both forms may stand in one list.
#[derive(Debug, Clone, PartialEq)]
pub enum Guardrail {
    /// The slug of a saved guardrail.
    Saved(String),
    Inline(Hook),
}

impl HookKind {
    /// As configs and results name it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guardrail => "guardrail",
            Self::Mutator => "mutator",
        }
    }
}

const KINDS: [(&str, HookKind); 2] = [("guardrail", HookKind::Guardrail), ("mutator", HookKind::Mutator)];
const STREAM_MODES: [(&str, StreamMode); 2] =
    [("window", StreamMode::Window), ("buffer", StreamMode::Buffer)];
const CONTROL_KEYS: [&str; 13] = [
    "id",
    "type",
    "async",
    "sequential",
    "deny",
    "checks",
    "on_fail",
    "on_success",
    "parallel",
    "stream",
    "overlap_bytes",
    "message",
    "guardrail_version_id",
];
/// The most that a window may hold back, bytes.
pub const MAX_OVERLAP: i64 = 64 << 10;

impl Hook {
    /// Reads an item of a hook list.
    pub fn read(at: &Cursor<'_>, phase: HookPhase) -> Option<Self> {
        let mut fields = at.fields()?;
        let id = fields.required(&["id"]).and_then(|at| at.text().map(str::to_owned));
        let mut hook = Self { id, ..Self::controls(&mut fields, Some(phase), phase == HookPhase::Before) };
        if let Some(at) = fields.peek(&["async"]).filter(|_| phase == HookPhase::Before && hook.asynchronous)
        {
            at.problem("is for after-request hooks only");
        }
        if let Some(at) = fields.get(&["checks"]) {
            hook.checks = at.list().unwrap_or_default().iter().filter_map(check).collect();
        }
        fields.reject_unknown(&CONTROL_KEYS);
        Some(hook)
    }

    /// Reads a saved guardrail: as an item of a hook list, for both phases, and with checks that may have no parameters.
    pub fn read_saved(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let id = fields.required(&["id"]).and_then(|at| at.text().map(str::to_owned));
        let mut hook = Self { id, ..Self::controls(&mut fields, None, true) };
        if let Some(at) = fields.get(&["checks"]) {
            hook.checks = at.list().unwrap_or_default().iter().filter_map(check).collect();
        }
        fields.reject_unknown(&CONTROL_KEYS);
        Some(hook)
    }

    /// The fields hooks and guardrails share. `actions_may_deny`: whether `on_fail` and `on_success` may
    /// hold `deny`.
    /// `phase`: `None` for a saved guardrail, which may be used in both.
    fn controls(fields: &mut ObjectReader<'_>, phase: Option<HookPhase>, actions_may_deny: bool) -> Self {
        let others: &[(&str, &str)] = match phase {
            Some(HookPhase::Before) => &[("stream", "responses"), ("overlap_bytes", "responses")],
            Some(HookPhase::After) => &[("parallel", "requests")],
            None => &[],
        };
        for (name, what) in others {
            if let Some(at) = fields.peek(&[name]) {
                at.problem(format!("is for hooks of {what} only"));
            }
        }
        // The gateway keeps one version of a guardrail. Those who saved this one in Portkey's interface send it along.
        let _ = fields.text(&["guardrail_version_id"]);
        let mut action = |name| fields.get(&[name]).and_then(|at| HookAction::read(&at, actions_may_deny));
        let overlap = |at: Cursor<'_>| usize::try_from(at.integer_within(1, MAX_OVERLAP)?).ok();
        Self {
            on_fail: action("on_fail"),
            on_success: action("on_success"),
            parallel: fields.flag(&["parallel"]).unwrap_or_default(),
            stream: fields.get(&["stream"]).and_then(|at| at.one_of(&STREAM_MODES)),
            overlap_bytes: fields.get(&["overlap_bytes"]).and_then(overlap),
            message: fields.text(&["message"]),
            kind: fields.get(&["type"]).and_then(|at| at.one_of(&KINDS)).unwrap_or_default(),
            asynchronous: fields.flag(&["async"]).unwrap_or_default(),
            sequential: fields.flag(&["sequential"]).unwrap_or_default(),
            deny: fields.flag(&["deny"]),
            ..Self::default()
        }
    }
}

impl Guardrail {
    /// Reads an item of a list of guardrails or mutators: a slug, or an object whose free keys are its checks. `kind`: of the
    /// list, for items without a `type`.
    pub fn read(at: &Cursor<'_>, phase: HookPhase, kind: HookKind) -> Option<Self> {
        if let Some(slug) = at.node.as_text() {
            if slug.is_empty() {
                at.problem("must not be empty");
            }
            return Some(Self::Saved(slug.to_owned()));
        }
        if !at.node.is_object() {
            at.problem(format!("must be a string or an object, not {}", at.node.type_name()));
            return None;
        }
        let mut fields = at.fields()?;
        let id = fields.text(&["id"]);
        let has_type = fields.peek(&["type"]).is_some();
        let mut hook = Hook { id, ..Hook::controls(&mut fields, Some(phase), phase == HookPhase::After) };
        if !has_type {
            hook.kind = kind;
        }
        for (entry, at) in fields.rest() {
            hook.checks.extend(named_check(&entry.name, &at));
        }
        Some(Self::Inline(hook))
    }
}

/// A member of a guardrail: its name is the check, unless an `id` among the parameters says otherwise.
fn named_check(name: &str, at: &Cursor<'_>) -> Option<Check> {
    let mut fields = at.fields()?;
    let id = fields.text(&["id"]).unwrap_or_else(|| name.to_owned());
    let enabled = fields.flag(&["is_enabled"]).unwrap_or(true);
    let parameters = fields.rest().into_iter().map(|(entry, _)| entry.clone()).collect();
    let parameters = Node { kind: Kind::Map(parameters), place: at.node.place };
    Some(Check { id, parameters, enabled })
}

fn check(at: &Cursor<'_>) -> Option<Check> {
    let mut fields = at.fields()?;
    let id = fields.required(&["id"]).and_then(|at| at.text().map(str::to_owned));
    let parameters = fields.required(&["parameters"]).and_then(|at| at.fields().map(|_| at.node.clone()));
    let enabled = fields.flag(&["is_enabled"]).unwrap_or(true);
    // For people.
    let _ = fields.text(&["name"]);
    fields.reject_unknown(&["id", "parameters", "is_enabled", "name"]);
    Some(Check { id: id?, parameters: parameters?, enabled })
}

impl HookAction {
    fn read(at: &Cursor<'_>, may_deny: bool) -> Option<Self> {
        let mut fields = at.fields()?;
        let feedback = fields.get(&["feedback"]).and_then(|at| Feedback::read(&at));
        let deny = fields.flag(&["deny"]);
        if let Some(at) = fields.peek(&["deny"]).filter(|_| !may_deny) {
            at.problem("is for before-request hooks and output guardrails only");
        }
        fields.reject_unknown(&["feedback", "deny"]);
        Some(Self { deny, feedback })
    }
}

impl Feedback {
    fn read(at: &Cursor<'_>) -> Option<Self> {
        let mut fields = at.fields()?;
        let value = fields.get(&["value"]).and_then(|at| at.number());
        let weight = fields.get(&["weight"]).and_then(|at| at.number());
        let metadata = fields.get(&["metadata"]).and_then(|at| {
            at.fields()?;
            Some(at.node.to_json().into_boxed_str())
        });
        fields.reject_unknown(&["value", "weight", "metadata"]);
        Some(Self { value, weight, metadata })
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("id", &self.id).field("enabled", &self.enabled).finish_non_exhaustive()
    }
}
