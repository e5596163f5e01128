//! Hooks and guardrails as written in a config: their checks, and what happens when they pass or fail.
//!
//! Both forms become one [`Hook`]: `{"id":"h","checks":[{"id":"contains","parameters":{}}]}` in a hook list
//! and `{"contains":{}}` in a guardrail list each yield a hook with the check `contains`. Not here: whether a
//! check exists and what its parameters mean (`guard`); parameters are free-form and kept as written.

use super::node::Node;
use super::read::{Cursor, ObjectReader};
use std::fmt;

/// When a list of hooks runs: the rules for `async` and `deny` differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookPhase {
    /// On the request: `before_request_hooks`, `input_guardrails`.
    Before,
    /// On the response: `after_request_hooks`, `output_guardrails`.
    After,
}

/// An item of `before_request_hooks` or `after_request_hooks`, or an inline guardrail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hook {
    /// Always present in hooks; optional in guardrails.
    pub id: Option<String>,
    pub kind: HookKind,
    /// Spec `async`: runs concurrently with the request and cannot affect it.
    pub asynchronous: bool,
    /// Reference 9.1: checks run one after another instead of at once.
    pub sequential: bool,
    /// The hook's own `deny` (reference 9.1); `on_fail.deny` is the spec's.
    pub deny: Option<bool>,
    pub checks: Vec<Check>,
    pub on_fail: Option<HookAction>,
    pub on_success: Option<HookAction>,
}

/// What a hook may do to the message it inspects (reference 9.1). The default is guardrail.
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
    /// Reference 9.1 `is_enabled`, default true.
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

/// An item of `input_guardrails` or `output_guardrails`. The spec allows both forms in one list.
#[derive(Debug, Clone, PartialEq)]
pub enum Guardrail {
    /// The slug of a saved guardrail.
    Saved(String),
    Inline(Hook),
}

const KINDS: [(&str, HookKind); 2] = [("guardrail", HookKind::Guardrail), ("mutator", HookKind::Mutator)];
const CONTROL_KEYS: [&str; 8] =
    ["id", "type", "async", "sequential", "deny", "checks", "on_fail", "on_success"];

impl Hook {
    /// Reads an item of a hook list.
    pub fn read(at: &Cursor<'_>, phase: HookPhase) -> Option<Self> {
        let mut fields = at.fields()?;
        let id = fields.required(&["id"]).and_then(|at| at.text().map(str::to_owned));
        let mut hook = Self { id, ..Self::controls(&mut fields, phase == HookPhase::Before) };
        if let Some(at) = fields.peek(&["async"]).filter(|_| phase == HookPhase::Before) {
            at.problem("is for after-request hooks only");
        }
        if let Some(at) = fields.get(&["checks"]) {
            hook.checks = at.list().unwrap_or_default().iter().filter_map(check).collect();
        }
        fields.reject_unknown(&CONTROL_KEYS);
        Some(hook)
    }

    /// The fields hooks and guardrails share. `actions_may_deny`: whether `on_fail` and `on_success` may
    /// hold `deny`.
    fn controls(fields: &mut ObjectReader<'_>, actions_may_deny: bool) -> Self {
        let mut action = |name| fields.get(&[name]).and_then(|at| HookAction::read(&at, actions_may_deny));
        Self {
            on_fail: action("on_fail"),
            on_success: action("on_success"),
            kind: fields.get(&["type"]).and_then(|at| at.one_of(&KINDS)).unwrap_or_default(),
            asynchronous: fields.flag(&["async"]).unwrap_or_default(),
            sequential: fields.flag(&["sequential"]).unwrap_or_default(),
            deny: fields.flag(&["deny"]),
            ..Self::default()
        }
    }
}

impl Guardrail {
    /// Reads an item of a guardrail list: a slug, or an object whose free keys are its checks.
    pub fn read(at: &Cursor<'_>, phase: HookPhase) -> Option<Self> {
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
        let mut hook = Hook { id, ..Hook::controls(&mut fields, phase == HookPhase::After) };
        for (entry, at) in fields.rest() {
            if at.fields().is_some() {
                let parameters = entry.value.clone();
                hook.checks.push(Check { id: entry.name.clone(), parameters, enabled: true });
            }
        }
        Some(Self::Inline(hook))
    }
}

fn check(at: &Cursor<'_>) -> Option<Check> {
    let mut fields = at.fields()?;
    let id = fields.required(&["id"]).and_then(|at| at.text().map(str::to_owned));
    let parameters = fields.required(&["parameters"]).and_then(|at| at.fields().map(|_| at.node.clone()));
    let enabled = fields.flag(&["is_enabled"]).unwrap_or(true);
    fields.reject_unknown(&["id", "parameters", "is_enabled"]);
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
