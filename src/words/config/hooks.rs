//! Hooks and guardrails as written in a config: their checks, and what happens when they pass or fail.
//!
//! Both forms become one [`Hook`]: `{"id":"h","checks":[{"id":"contains","parameters":{}}]}` in a hook list
//! and `{"contains":{}}` in a guardrail list each yield a hook with the check `contains`. Not here: whether a
//! check exists and what its parameters mean (`guard`); parameters are free-form and kept as written.

use super::members::{
    self, Choice, FLAG, Form, MemberTable, MemberType, NUMBER, OBJECT_TEXT, TEXT, form, list, object,
    only_if, see, whole,
};
use super::node::{Node, NodeKind};
use super::read::Cursor;
use crate::json::schema;
use serde_json::{Value, json};
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
    /// `scope`: how much of a request is judged. `None`: what is new, or all where it is a workspace's own.
    pub scope: Option<JudgedScope>,
    /// `also` has `tools`: what the client declares of its tools and of the form of the response is judged.
    pub judges_tools: bool,
    /// `also` has `files`: the names of files are judged.
    pub judges_files: bool,
}

/// How much of a request a hook judges. For requests only: of a response all is new.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JudgedScope {
    /// What stands behind the model's last turn.
    #[default]
    New,
    /// The earlier messages and system prompts as well.
    All,
}

impl JudgedScope {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::All => "all",
        }
    }
}

/// What of a request is judged where a hook wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlsoJudged {
    /// What the client declares of its tools and of the form of the response.
    Tools,
    /// The names of files.
    Files,
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

const KINDS: Choice<HookKind> = Choice(&[("guardrail", HookKind::Guardrail), ("mutator", HookKind::Mutator)]);
const STREAM_MODES: Choice<StreamMode> =
    Choice(&[("window", StreamMode::Window), ("buffer", StreamMode::Buffer)]);
const SCOPES: Choice<JudgedScope> = Choice(&[("new", JudgedScope::New), ("all", JudgedScope::All)]);
const ALSO: Choice<AlsoJudged> = Choice(&[("tools", AlsoJudged::Tools), ("files", AlsoJudged::Files)]);
/// The most that a window may hold back, bytes.
pub const MAX_OVERLAP: i64 = 64 << 10;

/// What the place of a hook or guardrail allows.
#[derive(Clone, Copy)]
struct Place {
    /// `None` for a saved guardrail, which may be used in both.
    phase: Option<HookPhase>,
    /// Whether `on_fail` and `on_success` may hold `deny`.
    actions_may_deny: bool,
    may_be_async: bool,
}

impl Hook {
    /// An item of a hook list.
    pub(super) fn members(table: &mut MemberTable<'_>, phase: HookPhase) -> Option<Self> {
        let is_before = phase == HookPhase::Before;
        Self::in_place(
            table,
            Place { phase: Some(phase), actions_may_deny: is_before, may_be_async: !is_before },
        )
    }

    /// Reads a saved guardrail: as an item of a hook list, for both phases, and with checks that may have no parameters.
    pub fn read_saved(at: &Cursor<'_>) -> Option<Self> {
        let place = Place { phase: None, actions_may_deny: true, may_be_async: true };
        members::read(at, |table| Self::in_place(table, place))
    }

    fn in_place(table: &mut MemberTable<'_>, place: Place) -> Option<Self> {
        let id = table.needed("id", TEXT, "Its name.");
        let hook = Self::controls(table, place);
        let checks = list(object(Check::members), "A check.");
        let checks = table.get("checks", checks, "What is checked.");
        Some(Self { id, checks: checks.unwrap_or_default(), ..hook })
    }

    /// The members that hooks and guardrails share.
    fn controls(table: &mut MemberTable<'_>, place: Place) -> Self {
        let of_requests = place.phase != Some(HookPhase::After);
        let misplaced = "is for hooks of requests only";
        let parallel = only_if(of_requests, FLAG, misplaced, "For requests only.");
        let scope = only_if(of_requests, SCOPES, misplaced, "For requests only.");
        let also = only_if(of_requests, list(ALSO, "What."), misplaced, "For requests only.");
        let of_responses = place.phase != Some(HookPhase::Before);
        let elsewhere = "is for hooks of responses only";
        let stream = only_if(of_responses, STREAM_MODES, elsewhere, "For responses only.");
        let overlap = only_if(of_responses, whole(1, MAX_OVERLAP), elsewhere, "For responses only.");
        let stream_doc =
            "How streams are checked: text is sent on when it was looked at, or held back as a whole.";
        let version = "Accepted, and of no effect: a saved guardrail has one version.";
        // Those who saved a guardrail in Portkey's interface send its version along.
        let _ = table.get("guardrail_version_id", TEXT, version);
        let also = table.get("also", also, "What is judged besides messages.").unwrap_or_default();
        Self {
            on_fail: table.get("on_fail", HookAction::of(place), "When a check fails."),
            on_success: table.get("on_success", HookAction::of(place), "When all checks pass."),
            parallel: table.or(
                "parallel",
                parallel,
                false,
                "Runs while the provider is called; the response waits for it.",
            ),
            stream: table.get("stream", stream, stream_doc),
            overlap_bytes: table.get("overlap_bytes", overlap, "Bytes of a stream that are held back."),
            message: table.get("message", TEXT, "What the client is told when it denies."),
            kind: table.or("type", KINDS, HookKind::Guardrail, "What it may do to the message."),
            asynchronous: table.or(
                "async",
                AsyncFlag { is_allowed: place.may_be_async },
                false,
                "Runs beside the request and cannot affect it.",
            ),
            scope: table.get(
                "scope",
                scope,
                "What is judged: what is new since the model's last turn, or all.",
            ),
            judges_tools: also.contains(&AlsoJudged::Tools),
            judges_files: also.contains(&AlsoJudged::Files),
            sequential: table.or("sequential", FLAG, false, "Checks run one after another."),
            deny: table.get("deny", FLAG, "Refuses the message when a check fails."),
            ..Self::default()
        }
    }
}

/// `async`, which some hooks may only have as `false`.
struct AsyncFlag {
    is_allowed: bool,
}

impl MemberType for AsyncFlag {
    type Value = bool;

    fn read(&self, at: &Cursor<'_>) -> Option<bool> {
        let flag = at.flag()?;
        if flag && !self.is_allowed {
            at.problem("is for after-request hooks only");
        }
        Some(flag)
    }

    fn schema(&self, doc: &str) -> Value {
        match self.is_allowed {
            true => schema::flag(doc),
            false => json!({"enum": [false, null], "description": "For after_request_hooks only."}),
        }
    }

    fn written(&self, flag: &bool) -> Option<Value> {
        self.is_allowed.then(|| (*flag).into())
    }
}

/// An item of a list of guardrails or mutators. `kind`: of the list, for items without a `type`.
pub(super) struct GuardrailType {
    pub(super) phase: HookPhase,
    pub(super) kind: HookKind,
}

impl MemberType for GuardrailType {
    type Value = Guardrail;

    fn read(&self, at: &Cursor<'_>) -> Option<Guardrail> {
        Guardrail::read(at, self.phase, self.kind)
    }

    fn schema(&self, doc: &str) -> Value {
        let slug = json!({"type": "string", "minLength": 1, "description": "The slug of a saved guardrail."});
        let inline = members::schema(doc, |table| Guardrail::inline(table, self.phase, self.kind));
        json!({"anyOf": [slug, inline]})
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
        members::read(at, |table| Self::inline(table, phase, kind)).map(Self::Inline)
    }

    fn inline(table: &mut MemberTable<'_>, phase: HookPhase, kind: HookKind) -> Option<Hook> {
        let actions_may_deny = phase == HookPhase::After;
        let id = table.get("id", TEXT, "Its name.");
        let place = Place { phase: Some(phase), actions_may_deny, may_be_async: true };
        let hook = Hook::controls(table, place);
        table.keyword("additionalProperties", || json!({"type": "object"}));
        let checks = table.rest();
        Some(Hook {
            id,
            kind: if table.at("type").is_some() { hook.kind } else { kind },
            checks: checks.iter().filter_map(|(entry, at)| named_check(&entry.name, at)).collect(),
            ..hook
        })
    }
}

/// A member of a guardrail: its name is the check, unless an `id` among the parameters says otherwise.
fn named_check(name: &str, at: &Cursor<'_>) -> Option<Check> {
    let mut fields = at.fields()?;
    let id = fields.text(&["id"]).unwrap_or_else(|| name.to_owned());
    let enabled = fields.flag(&["is_enabled"]).unwrap_or(true);
    let parameters = fields.rest().into_iter().map(|(entry, _)| entry.clone()).collect();
    let parameters = Node { kind: NodeKind::Map(parameters), place: at.node.place };
    Some(Check { id, parameters, enabled })
}

const PARAMETERS: Form<Node> = form(|at| at.fields().map(|_| at.node.clone()), schema::free);

impl Check {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        let id = table.needed("id", TEXT, "Which check.");
        let parameters = table.needed("parameters", PARAMETERS, "Its parameters.");
        let enabled = table.or("is_enabled", FLAG, true, "Whether it runs.");
        let _ = table.get("name", TEXT, "For people.");
        Some(Self { id: id?, parameters: parameters?, enabled })
    }
}

impl HookAction {
    fn of(place: Place) -> impl MemberType<Value = Self> {
        let may_deny = place.actions_may_deny;
        let name = if may_deny { "deny_action" } else { "action" };
        see(name, object(move |table| Self::members(table, may_deny)))
    }

    pub(super) fn members(table: &mut MemberTable<'_>, may_deny: bool) -> Option<Self> {
        let deny = only_if(
            may_deny,
            FLAG,
            "is for before-request hooks and output guardrails only",
            "For before-request hooks and output guardrails only.",
        );
        Some(Self {
            feedback: table.get("feedback", object(Feedback::members), "Recorded for the request."),
            deny: table.get("deny", deny, "Whether the message is refused."),
        })
    }
}

impl Feedback {
    fn members(table: &mut MemberTable<'_>) -> Option<Self> {
        Some(Self {
            value: table.get("value", NUMBER, "The value."),
            weight: table.get("weight", NUMBER, "Its weight."),
            metadata: table.get("metadata", OBJECT_TEXT, "Anything else."),
        })
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("id", &self.id).field("enabled", &self.enabled).finish_non_exhaustive()
    }
}
