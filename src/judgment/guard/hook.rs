//! The hooks of a target, compiled from its config: checks with their parameters read, actions resolved.
//!
//! Not here: what a config may say (`config::hooks`), and running them (`run`).

use super::check::{CheckKind, Finder, Prepared};
use super::check_kind;
use super::judged::Selection;
use super::needs::Needs;
use super::parameters::{Parameters, Type, Unusable};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use words::api::operation::Operation;
use words::config::hooks::{self, Feedback, Guardrail, HookKind, HookPhase, JudgedScope, StreamMode};
use words::config::node::Node;
use words::config::pattern::PatternBudget;
use words::config::policies::HookLists;
use words::config::read::Problems;

/// The hooks of one phase, in the order of the config.
#[derive(Debug)]
pub struct HookSet {
    pub phase: HookPhase,
    pub hooks: Vec<Hook>,
}

/// The hooks of a target.
#[derive(Debug, Clone, Default)]
pub struct TargetHooks {
    pub request: Option<Arc<HookSet>>,
    pub response: Option<Arc<HookSet>>,
}

impl TargetHooks {
    pub fn is_empty(&self) -> bool {
        self.request.is_none() && self.response.is_none()
    }
}

/// One hook.
#[derive(Debug)]
pub struct Hook {
    pub id: Arc<str>,
    pub kind: HookKind,
    pub asynchronous: bool,
    pub sequential: bool,
    /// Runs while the target is called; the response is held back until it has passed.
    pub parallel: bool,
    pub denies_on_fail: bool,
    pub denies_on_success: bool,
    pub stream: Option<StreamMode>,
    /// It sees a stream only when a hook of the workspace has seen all of it.
    pub is_behind_workspace: bool,
    /// How many bytes of a stream are held back for what may begin in them; `None`: as many as its checks need.
    pub overlap: Option<usize>,
    /// What the client is told when it denies.
    pub message: Option<Arc<str>>,
    pub checks: Vec<HookCheck>,
    /// Of the client's workspace, and of no config.
    pub is_of_workspace: bool,
    /// A saved guardrail, and none that is written into a config.
    pub is_saved: bool,
    /// What it judges of requests.
    pub selection: Selection,
    pub(super) on_fail: Option<Feedback>,
    pub(super) on_success: Option<Feedback>,
}

/// How a hook on the response is applied to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamUse {
    /// Through a window that moves over the text.
    Window,
    /// The stream is held back until it is complete, and judged as a whole.
    Whole,
    /// It decides nothing, and looks at what the client got.
    AfterEnd,
}

/// One check of a hook.
#[derive(Debug)]
pub struct HookCheck {
    pub id: Arc<str>,
    pub needs: Needs,
    pub prepared: Result<Prepared, Unusable>,
    /// `None`: as the settings say.
    pub fail_on_error: Option<bool>,
    /// Its own time limit; `None`: that of the check, else that of the settings.
    pub time_limit: Option<Duration>,
}

/// What hooks are compiled with.
pub struct HookCompiler<'a> {
    /// The saved guardrail of a slug, with its id.
    pub saved: &'a dyn Fn(&str) -> Option<Arc<hooks::Hook>>,
    pub patterns: &'a PatternBudget,
    pub problems: &'a Problems,
    /// Checks that could not run with their parameters are problems too: where a config or guardrail is saved. What is missing, or has not
    /// its type, is one everywhere.
    pub is_strict: bool,
}

/// Where a hook stands.
pub struct HookPlace<'a> {
    pub phase: HookPhase,
    /// In the config, for messages.
    pub path: &'a str,
    /// In its list: hooks without an id are named after it.
    pub index: usize,
}

/// Parameters that every check takes.
const SHARED: [(&str, Type); 4] = [
    ("failOnError", Type::Flag),
    ("fail_on_error", Type::Flag),
    ("timeout", Type::Number),
    ("credentials", Type::Object),
];

/// The most checks that call other servers in the lists of a phase: each gets the whole text of every request. Those that a workspace has by
/// default are not counted.
const MAX_OUTSIDE: usize = 20;

/// The longest time limit that a config may give a check, milliseconds.
const MAX_TIME_LIMIT_MS: f64 = 120_000.0;

impl HookCompiler<'_> {
    /// The hooks of one phase; `None` if there are none. The workspace's hooks, given by the slugs of saved guardrails, come first. A saved
    /// guardrail that the config names too runs only once.
    pub fn compile(
        &self,
        of_workspace: &[String],
        lists: &HookLists,
        phase: HookPhase,
    ) -> Option<Arc<HookSet>> {
        let mut compiled = self.of_workspace(of_workspace, phase);
        let first = compiled.len();
        let [list, guardrails, mutators] = phase.lists();
        for (index, hook) in lists.hooks.iter().flatten().enumerate() {
            let path = format!("{list}[{index}]");
            compiled.extend(self.inline(hook, &HookPlace { phase, path: &path, index }, true));
        }
        for (list, items) in [(guardrails, &lists.guardrails), (mutators, &lists.mutators)] {
            for (index, guardrail) in items.iter().flatten().enumerate() {
                let path = format!("{list}[{index}]");
                let place = HookPlace { phase, path: &path, index };
                let hook = match guardrail {
                    Guardrail::Inline(hook) => self.inline(hook, &place, false),
                    Guardrail::Saved(slug) => self.saved(slug, &place).filter(|hook| {
                        compiled.iter().take(first).all(|of_workspace: &Hook| of_workspace.id != hook.id)
                    }),
                };
                compiled.extend(hook);
            }
        }
        let calls = compiled.iter().skip(first).flat_map(|hook| &hook.checks);
        let calls = calls.filter(|check| check.calls_outside()).count();
        if calls > MAX_OUTSIDE {
            let message = format!(
                "has {calls} checks that call other servers, with those of the lists beside it; there may be at most {MAX_OUTSIDE}"
            );
            self.problems.push(*guardrails, None, message);
        }
        hold_behind_workspace(&mut compiled);
        (!compiled.is_empty()).then(|| Arc::new(HookSet { phase, hooks: compiled }))
    }

    fn of_workspace(&self, slugs: &[String], phase: HookPhase) -> Vec<Hook> {
        let compile = |(index, slug): (usize, &String)| {
            let path = format!("workspace.defaults.{}[{index}]", phase.lists()[1]);
            let place = HookPlace { phase, path: &path, index };
            let saved = self.find(slug, &place)?;
            let hook = self.hook(&saved, &place, true);
            // No client writes a turn into its history that hides a text from it.
            let scope = saved.scope.unwrap_or(JudgedScope::All);
            let selection = Selection { scope, ..hook.selection };
            Some(Hook { is_of_workspace: true, is_saved: true, selection, ..hook })
        };
        slugs.iter().enumerate().filter_map(compile).collect()
    }

    fn saved(&self, slug: &str, place: &HookPlace<'_>) -> Option<Hook> {
        Some(Hook { is_saved: true, ..self.hook(&*self.find(slug, place)?, place, true) })
    }

    /// The saved guardrail; that there is none is a problem.
    fn find(&self, slug: &str, place: &HookPlace<'_>) -> Option<Arc<hooks::Hook>> {
        let found = (self.saved)(slug);
        if found.is_none() {
            let message = format!(
                "Following guardrails are not valid: {slug}. There is no saved guardrail of that slug"
            );
            self.problems.push(place.path, None, message);
        }
        found
    }

    /// A hook without checks names a saved one by its id, so that no hook is silently left out.
    fn inline(&self, hook: &hooks::Hook, place: &HookPlace<'_>, has_list: bool) -> Option<Hook> {
        match (&hook.id, hook.checks.is_empty()) {
            (_, false) => Some(self.hook(hook, place, has_list)),
            (Some(slug), true) => self.saved(slug, place),
            (None, true) => {
                self.problems.push(place.path, None, "has no checks, and no id of a saved guardrail");
                None
            }
        }
    }

    /// `has_list`: its checks are in a list, and not members of the hook itself.
    pub fn hook(&self, hook: &hooks::Hook, place: &HookPlace<'_>, has_list: bool) -> Hook {
        let HookPlace { phase, path, index } = *place;
        let prefix = match phase {
            HookPhase::Before => "input_guardrail",
            HookPhase::After => "output_guardrail",
        };
        let id = hook.id.clone().unwrap_or_else(|| format!("{prefix}_{index}"));
        let mut checks = Vec::new();
        for (index, check) in hook.checks.iter().enumerate().filter(|(_, check)| check.enabled) {
            let (path, inner) = if has_list {
                (format!("{path}.checks[{index}]"), "parameters.")
            } else {
                (format!("{path}.{}", check.id), "")
            };
            checks.extend(self.check(check, phase, &path, inner));
        }
        let denies = |action: &Option<hooks::HookAction>| action.as_ref().and_then(|action| action.deny);
        let compiled = Hook {
            id: id.into(),
            kind: hook.kind,
            asynchronous: hook.asynchronous,
            sequential: hook.sequential,
            parallel: hook.parallel,
            denies_on_fail: hook.deny.or(denies(&hook.on_fail)).unwrap_or_default(),
            denies_on_success: denies(&hook.on_success).unwrap_or_default(),
            stream: hook.stream,
            is_behind_workspace: false,
            overlap: hook.overlap_bytes,
            message: hook.message.as_deref().map(Arc::from),
            checks,
            is_of_workspace: false,
            is_saved: false,
            selection: Selection {
                scope: hook.scope.unwrap_or_default(),
                tools: hook.judges_tools,
                files: hook.judges_files,
            },
            on_fail: hook.on_fail.as_ref().and_then(|action| action.feedback.clone()),
            on_success: hook.on_success.as_ref().and_then(|action| action.feedback.clone()),
        };
        self.judge(&compiled, path);
        compiled
    }

    /// What cannot be done is refused, and not silently left out.
    fn judge(&self, hook: &Hook, path: &str) {
        let problem = |name: &str, message: &str| self.problems.push(format!("{path}.{name}"), None, message);
        if hook.parallel && hook.may_change() {
            problem("parallel", "is not possible for checks that change the request: it is sent already");
        }
        if hook.asynchronous && hook.kind == HookKind::Mutator {
            problem("async", "is not possible for a mutator: the message is sent already");
        }
        if hook.stream == Some(StreamMode::Window) && !hook.fits_window() {
            problem(
                "stream",
                "cannot be \"window\": one of its checks must see the whole response. Leave it out, or set it to \"buffer\"",
            );
        }
    }

    fn check(&self, check: &hooks::Check, phase: HookPhase, path: &str, inner: &str) -> Option<HookCheck> {
        let Some(kind) = check_kind(&check.id) else {
            let message = format!("there is no check {:?}; docs/guardrails.md lists them", check.id);
            self.problems.push(path, None, message);
            return None;
        };
        if !kind.phases.contains(&phase) {
            let when = match phase {
                HookPhase::Before => "requests",
                HookPhase::After => "responses",
            };
            self.problems.push(path, None, format!("{} is not for {when}", kind.id));
            return None;
        }
        let members = object(&check.parameters);
        let is_fine = self.parameters(kind, &members, path, inner);
        let parameters = Parameters { members: &members, patterns: self.patterns };
        let fail_on_error =
            ["failOnError", "fail_on_error"].into_iter().find_map(|name| parameters.get(name)?.as_bool());
        let time_limit = parameters.number("timeout").filter(|limit| *limit > 0.0);
        let prepared = if is_fine { (kind.prepare)(&parameters) } else { Err(Unusable::new("", "")) };
        if let Err(unusable) = &prepared
            && is_fine
            && (self.is_strict || unusable.is_refused || is_empty(kind, unusable.parameter, &members))
        {
            let path = match unusable.parameter {
                "" => path.to_owned(),
                parameter => format!("{path}.{inner}{parameter}"),
            };
            self.problems.push(path, None, &unusable.error.message);
        }
        Some(HookCheck {
            id: kind.id.into(),
            needs: Needs::of_check(kind),
            prepared,
            fail_on_error,
            time_limit: time_limit
                .map(|limit| Duration::from_secs_f64(limit.min(MAX_TIME_LIMIT_MS) / 1000.0)),
        })
    }

    /// Whether the parameters have their types; what has not is a problem.
    fn parameters(&self, kind: &CheckKind, members: &Map<String, Value>, path: &str, inner: &str) -> bool {
        let mut is_fine = true;
        for (name, value) in members {
            let own = kind
                .parameters
                .iter()
                .find(|parameter| parameter.name == name)
                .map(|parameter| parameter.kind);
            let shared = SHARED.iter().find(|(shared, _)| shared == name).map(|(_, kind)| *kind);
            let message = match own.or(shared) {
                Some(kind) => kind.problem(value),
                None => Some(format!("is no parameter of {}", kind.id)),
            };
            if let Some(message) = message {
                self.problems.push(format!("{path}.{inner}{name}"), None, message);
                is_fine = false;
            }
        }
        let missing = |name: &str| members.get(name).is_none_or(Value::is_null);
        for parameter in kind.parameters.iter().filter(|parameter| parameter.required) {
            if missing(parameter.name) {
                self.problems.push(format!("{path}.{inner}{}", parameter.name), None, "is missing");
                is_fine = false;
            }
        }
        is_fine
    }
}

/// Where a hook of the workspace must see a whole stream, no window of a config looks at it or changes it before; and no window of the
/// workspace, where that hook changes it.
pub(super) fn hold_behind_workspace(hooks: &mut [Hook]) {
    let held = |hook: &&Hook| hook.is_of_workspace && hook.stream_use() == StreamUse::Whole;
    let is_held = hooks.iter().any(|hook| held(&hook));
    let is_changed = hooks.iter().filter(held).any(Hook::may_change);
    for hook in hooks.iter_mut().filter(|hook| hook.stream_use() == StreamUse::Window) {
        hook.is_behind_workspace = if hook.is_of_workspace { is_changed } else { is_held };
    }
}

/// Whether this is a parameter of the check, and has nothing in it.
fn is_empty(kind: &CheckKind, name: &str, members: &Map<String, Value>) -> bool {
    let is_nothing = match members.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(members)) => members.is_empty(),
        Some(_) => false,
    };
    is_nothing && kind.parameters.iter().any(|parameter| parameter.name == name)
}

/// The members of a check's parameters.
fn object(parameters: &Node) -> Map<String, Value> {
    serde_json::from_str(&parameters.to_json()).unwrap_or_default()
}

impl HookSet {
    /// Whether any of its hooks may change its subject while the request waits.
    pub fn may_change(&self) -> bool {
        self.waiting().any(Hook::may_change)
    }

    /// The hooks that the request waits for.
    pub fn waiting(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().filter(|hook| !hook.asynchronous)
    }

    /// Whether any of its hooks decides what the client gets.
    pub fn decides(&self) -> bool {
        self.hooks.iter().any(|hook| hook.stream_use() != StreamUse::AfterEnd)
    }

    /// Whether the text of a stream of this operation can be read: not on the generic endpoint, whose responses may have any shape.
    pub fn reads_streams(operation: Operation) -> bool {
        operation.stream_shape().is_some()
    }

    /// Whether any of its hooks runs for an operation: on requests, if a check has what it needs there; on responses,
    /// if they have a text.
    pub fn applies(&self, operation: Operation) -> bool {
        let has_text = match operation {
            Operation::ResponsesGet
            | Operation::ResponsesInputItems
            | Operation::McpCall
            | Operation::Passthrough => true,
            operation => operation.is_chat() || operation == Operation::PromptCompletions,
        };
        match self.phase {
            HookPhase::Before => self.hooks.iter().any(|hook| hook.sees(Needs::met_by(operation))),
            HookPhase::After => has_text,
        }
    }

    /// The first hook that the request waits for, that may deny or change it, and that has a check for which too little
    /// of the request was read (`available`), although the operation has it (`has`).
    pub fn first_blind(&self, available: Needs, has: Needs) -> Option<&Hook> {
        let is_blind = |check: &HookCheck| check.needs <= has && check.needs > available;
        self.waiting().find(|hook| (hook.may_deny() || hook.may_change()) && hook.checks.iter().any(is_blind))
    }
}

impl Hook {
    /// Whether it may change its subject.
    pub fn may_change(&self) -> bool {
        self.checks.iter().any(HookCheck::may_change)
    }

    /// Whether the hook runs on a request of which this much can be read: at least one of its checks has what it needs,
    /// and all of them if the hook denies when its checks pass. Checks without what they need are left out.
    pub(crate) fn sees(&self, available: Needs) -> bool {
        let is_met = |check: &HookCheck| check.needs <= available;
        if self.denies_on_success {
            self.checks.iter().all(is_met)
        } else {
            available == Needs::Text || self.checks.iter().any(is_met)
        }
    }

    /// Whether one of its checks looks at texts.
    pub fn reads_texts(&self) -> bool {
        self.checks.iter().any(|check| check.needs == Needs::Text)
    }

    /// Whether one of its checks calls another server.
    pub fn calls_outside(&self) -> bool {
        self.checks.iter().any(HookCheck::calls_outside)
    }

    /// Whether it sends what it looks at to a server that a config names.
    pub fn sends_outside_for_config(&self) -> bool {
        !self.is_of_workspace && self.calls_outside()
    }

    /// Whether nothing waits for it.
    pub fn is_asynchronous(&self) -> bool {
        self.asynchronous
    }

    /// Whether what it finds decides what the client gets.
    pub fn may_deny(&self) -> bool {
        self.denies_on_fail || self.denies_on_success
    }

    /// Whether all of its checks can see a stream through a window, and decide by what they find there.
    pub(crate) fn fits_window(&self) -> bool {
        !self.denies_on_success && self.checks.iter().all(|check| check.finder().is_some())
    }

    /// How it is applied to a stream.
    pub fn stream_use(&self) -> StreamUse {
        let is_held = self.stream == Some(StreamMode::Buffer);
        let decides = !self.asynchronous && (self.may_deny() || self.may_change() || is_held);
        match (decides, self.is_windowed()) {
            (false, _) => StreamUse::AfterEnd,
            (true, true) => StreamUse::Window,
            (true, false) => StreamUse::Whole,
        }
    }

    /// Whether a stream is checked through a window, and not held back as a whole.
    pub fn is_windowed(&self) -> bool {
        let has_bound = self.overlap.is_some() || self.checks.iter().all(|check| check.longest().is_some());
        match self.stream {
            _ if self.is_behind_workspace => false,
            Some(StreamMode::Buffer) => false,
            Some(StreamMode::Window) => self.fits_window(),
            None => self.fits_window() && has_bound,
        }
    }
}

impl HookCheck {
    /// Whether it calls another server.
    fn calls_outside(&self) -> bool {
        matches!(self.prepared, Ok(Prepared::Remote(_)))
    }

    pub(super) fn may_change(&self) -> bool {
        match &self.prepared {
            Ok(Prepared::Local(check)) => check.may_change(),
            Ok(Prepared::Remote(check)) => check.may_change(),
            Err(_) => false,
        }
    }

    /// How it sees a stream.
    pub fn finder(&self) -> Option<&dyn Finder> {
        match &self.prepared {
            Ok(Prepared::Local(check)) => check.finder(),
            _ => None,
        }
    }

    pub(super) fn longest(&self) -> Option<usize> {
        self.finder()?.longest()
    }
}
