//! What the hooks of a target would do with a request and its response, for explanations. Runs no check.

use super::hook::{Hook, HookCheck, HookSet, StreamUse, TargetHooks};
use super::needs::Needs;
use serde::Serialize;
use std::sync::Arc;
use words::api::operation::Operation;
use words::config::hooks::{HookPhase, StreamMode};

/// One hook.
#[derive(Debug, Serialize)]
pub struct HookView {
    pub id: Arc<str>,
    /// `request` or `response`.
    pub on: &'static str,
    /// `workspace` or `config`: whose it is.
    pub from: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    pub checks: Vec<CheckView>,
    /// Whether it may deny.
    deny: bool,
    /// `waits` (the request waits for it), `parallel` (the target is called meanwhile), `async` (when the request is done), or `never`.
    pub runs: &'static str,
    /// Of a hook on the response, where a stream is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamView>,
}

/// One check.
#[derive(Debug, Serialize)]
pub struct CheckView {
    pub id: Arc<str>,
    /// Why it cannot decide with its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// How a stream is checked.
#[derive(Debug, Serialize)]
pub struct StreamView {
    /// `window`, `buffer` (held back until it is complete), `at_end` (nothing is held back), or `refused`.
    pub how: &'static str,
    pub why: String,
    /// Bytes of text that a window holds back.
    #[serde(skip_serializing_if = "Option::is_none")]
    held_bytes: Option<usize>,
}

impl TargetHooks {
    /// Its hooks, for a request of this operation. `has_body`: the request has a body that is read.
    pub fn views(&self, operation: Operation, streams: bool, has_body: bool) -> Vec<HookView> {
        let sets = self.request.iter().chain(&self.response);
        let of_set = |set: &Arc<HookSet>| -> Vec<HookView> {
            let available = Needs::met_by(operation).min(if has_body { Needs::Text } else { Needs::Model });
            let is_run = |hook: &Hook| match set.phase {
                HookPhase::Before => hook.sees(available),
                HookPhase::After => set.applies(operation),
            };
            set.hooks.iter().map(|hook| HookView::new(hook, set, operation, streams, is_run(hook))).collect()
        };
        sets.flat_map(of_set).collect()
    }
}

impl HookView {
    fn new(hook: &Hook, set: &HookSet, operation: Operation, streams: bool, is_run: bool) -> Self {
        let is_on_response = set.phase == HookPhase::After;
        Self {
            id: Arc::clone(&hook.id),
            on: if is_on_response { "response" } else { "request" },
            from: if hook.is_of_workspace { "workspace" } else { "config" },
            kind: hook.kind.as_str(),
            checks: hook.checks.iter().map(CheckView::new).collect(),
            deny: hook.may_deny() && !hook.asynchronous,
            runs: match (is_run, hook.asynchronous, hook.parallel) {
                (false, ..) => "never",
                (true, true, _) => "async",
                (true, false, true) => "parallel",
                (true, false, false) => "waits",
            },
            stream: (is_run && is_on_response && streams).then(|| StreamView::new(hook, operation)),
        }
    }
}

impl CheckView {
    fn new(check: &HookCheck) -> Self {
        let error = check.prepared.as_ref().err().map(|unusable| unusable.error.message.clone());
        Self { id: Arc::clone(&check.id), error }
    }
}

impl StreamView {
    fn new(hook: &Hook, operation: Operation) -> Self {
        let mut held_bytes = None;
        let (how, why) = match hook.stream_use() {
            StreamUse::AfterEnd if hook.asynchronous => ("at_end", "it is asynchronous".to_owned()),
            StreamUse::AfterEnd => {
                ("at_end", "it neither denies nor changes anything, and need not be waited for".to_owned())
            }
            _ if !HookSet::reads_streams(operation) => {
                ("refused", "a stream of this operation cannot be read: the request gets 501".to_owned())
            }
            StreamUse::Window => {
                let longest = || hook.checks.iter().filter_map(HookCheck::longest).max();
                held_bytes = hook.overlap.or_else(longest);
                ("window", "its checks decide by what they find".to_owned())
            }
            StreamUse::Whole => ("buffer", needs_whole(hook)),
        };
        Self { how, why, held_bytes }
    }
}

/// Why a stream is held back.
fn needs_whole(hook: &Hook) -> String {
    if hook.is_behind_workspace {
        return "a guardrail of the workspace must see the whole response first".to_owned();
    }
    if hook.stream == Some(StreamMode::Buffer) {
        return "its `stream` is \"buffer\"".to_owned();
    }
    if hook.denies_on_success {
        return "it denies what passes".to_owned();
    }
    match hook.checks.iter().find(|check| check.finder().is_none()) {
        Some(check) => format!("{} must see the whole response", check.id),
        None => {
            let unbounded = hook.checks.iter().find(|check| check.longest().is_none());
            let id = unbounded.map_or("", |check| &check.id);
            format!("what {id} looks for has no longest match, and there is no `overlap_bytes`")
        }
    }
}
