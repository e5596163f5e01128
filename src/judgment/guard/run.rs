//! Runs the hooks of a phase over a subject.
//!
//! Hooks run at once, and so do the checks of a hook; those that change the subject run one after another, each on what the one before it left.
//! Those of the workspace run again on what the hooks of a config have made of the subject: no config undoes what they decide.
//! Not here: what follows from the results (`engine`).

use super::check::Prepared;
use super::finding::{Change, CheckError, Finding};
use super::hook::{Hook, HookCheck};
use super::judged::Judged;
use super::needs::Needs;
use super::outside::Outside;
use super::result::{CheckResult, HookFeedback, HookResult};
use super::subject::Subject;
use futures_util::future::{join, join_all};
use jiff::Timestamp;
use memory::state::large_work::{LargeWork, translation};
use std::time::{Duration, Instant};
use tokio::time::timeout;
use words::config::hooks::{HookKind, HookPhase};

/// What checks are run with.
pub struct Run<'a> {
    /// For hooks that are written into a config.
    pub outside: &'a dyn Outside,
    /// For saved guardrails that a config names.
    pub outside_of_saved: &'a dyn Outside,
    /// For hooks of the workspace.
    pub outside_of_workspace: &'a dyn Outside,
    /// Where checks on large texts run.
    pub large_work: &'a LargeWork,
    /// Whether a check that could not decide fails, where its parameters do not say.
    pub fail_on_error: bool,
    /// For checks without a time limit of their own.
    pub time_limit: Duration,
}

/// The results of the hooks of a phase.
#[derive(Debug, Default)]
pub struct PhaseRun {
    /// In the order of the hooks.
    pub results: Vec<HookResult>,
    /// The subject with all changes, if there are any.
    pub changed: Option<Subject>,
    /// What placeholders in the changed subject stand for.
    pub placeholders: Vec<(String, String)>,
    /// What the client is told, if a hook denies and has a message of its own.
    pub message: Option<String>,
}

/// One check that ran.
struct Ran {
    result: CheckResult,
    change: Change,
}

/// How often a hook has run on a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    First,
    /// Another run, on what other hooks have changed. A check that adds to the body has done so already: this time it
    /// changes only texts that it finds.
    Again,
}

/// The results of the checks of one hook, by their place in it.
type Places = Vec<(usize, CheckResult)>;

impl PhaseRun {
    pub fn denies(&self) -> bool {
        self.results.iter().any(|result| result.deny)
    }

    /// Whether a hook has failed, whatever that leads to.
    pub fn has_failed(&self) -> bool {
        self.results.iter().any(|result| !result.verdict)
    }

    /// Adds hooks' results on another choice of the same response, where a hook failed or denied there and not on this
    /// one.
    pub fn take_failures(&mut self, other: Self) {
        for (result, other) in self.results.iter_mut().zip(other.results) {
            if (result.verdict && !other.verdict) || (!result.deny && other.deny) {
                *result = HookResult { transformed: result.transformed, ..other };
            }
        }
        self.message = self.message.take().or(other.message);
    }

    /// Adds the results of other hooks of the same phase.
    pub fn extend(&mut self, other: Self) {
        self.results.extend(other.results);
        self.placeholders.extend(other.placeholders);
        self.changed = other.changed.or_else(|| self.changed.take());
        self.message = self.message.take().or(other.message);
    }
}

impl Run<'_> {
    /// Runs these hooks.
    pub async fn hooks<'h>(&self, hooks: impl Iterator<Item = &'h Hook>, subject: &Subject) -> PhaseRun {
        let hooks: Vec<&Hook> = hooks.filter(|hook| hook.sees(subject.available)).collect();
        let mut changed = subject.clone();
        let mut placeholders = Vec::new();
        let mut all: Vec<(usize, HookResult)> = Vec::with_capacity(hooks.len());
        for stage in stages(&hooks, subject.phase) {
            // A response that the workspace denies is sent to no server that a config names.
            if !stage.is_empty() && !all.iter().any(|(_, result)| result.deny) {
                all.extend(self.stage(stage, subject, &mut changed, &mut placeholders).await);
            }
        }
        all.sort_by_key(|(place, _)| *place);
        let is_changed_by_config = |(place, result): &(usize, HookResult)| {
            result.transformed && hooks.get(*place).is_some_and(|hook| !hook.is_of_workspace)
        };
        if all.iter().any(is_changed_by_config) {
            // Checks that judge run after checks that change the subject.
            for changes in [true, false] {
                for (place, result) in &mut all {
                    let is_next = |hook: &&&Hook| hook.is_of_workspace && hook.may_change() == changes;
                    let Some(hook) = hooks.get(*place).filter(is_next) else { continue };
                    let again = self.hook(hook, &mut changed, &mut placeholders, Pass::Again).await;
                    result.take_again(again);
                }
            }
        }
        let denying = all.iter().find(|(_, result)| result.deny).and_then(|(place, _)| hooks.get(*place));
        let message = denying.and_then(|hook| hook.message.as_deref()).map(str::to_owned);
        let is_changed = all.iter().any(|(_, result)| result.transformed);
        PhaseRun {
            results: all.into_iter().map(|(_, result)| result).collect(),
            changed: is_changed.then_some(changed),
            placeholders,
            message,
        }
    }

    /// Runs hooks with their places, all at once.
    async fn stage(
        &self,
        hooks: Vec<(usize, &Hook)>,
        subject: &Subject,
        changed: &mut Subject,
        placeholders: &mut Vec<(String, String)>,
    ) -> Vec<(usize, HookResult)> {
        let (changing, judging): (Vec<_>, Vec<_>) =
            hooks.into_iter().partition(|(_, hook)| hook.may_change());
        let judged = join_all(judging.into_iter().map(|(place, hook)| async move {
            let mut own = subject.clone();
            (place, self.hook(hook, &mut own, &mut Vec::new(), Pass::First).await)
        }));
        let in_turn = async {
            let mut results = Vec::with_capacity(changing.len());
            for (place, hook) in changing {
                results.push((place, self.hook(hook, changed, placeholders, Pass::First).await));
            }
            results
        };
        let (mut judged, in_turn) = join(judged, in_turn).await;
        judged.extend(in_turn);
        judged
    }

    async fn hook(
        &self,
        hook: &Hook,
        subject: &mut Subject,
        placeholders: &mut Vec<(String, String)>,
        pass: Pass,
    ) -> HookResult {
        let started = Instant::now();
        let created_at = Timestamp::now();
        let is_in_turn =
            |check: &HookCheck| hook.sequential || hook.kind == HookKind::Mutator || check.may_change();
        if !subject.is_selected(hook.selection) {
            let bytes = translation(subject.bytes());
            self.large_work.run(bytes, || subject.select(hook.selection)).await;
        }
        let available = subject.available;
        let run = hook.checks.iter().enumerate().filter(|(_, check)| check.needs <= available);
        let (in_turn, at_once): (Vec<_>, Vec<_>) = run.partition(|(_, check)| is_in_turn(check));
        let original = subject.clone();
        let at_once = join_all(at_once.into_iter().map(|(place, check)| {
            let original = &original;
            async move { (place, self.check(hook, check, original).await.result) }
        }));
        let one_after_another = async {
            let mut results: Places = Vec::with_capacity(in_turn.len());
            for (place, check) in in_turn {
                let Ran { mut result, mut change } = self.check(hook, check, subject).await;
                if pass == Pass::Again && matches!(change, Change::Body(_)) {
                    change = Change::None;
                }
                let bytes = translation(subject.bytes());
                result.transformed = self.large_work.run(bytes, || subject.apply(&change)).await;
                if let Change::Placeholders(_, originals) = change {
                    placeholders.extend(originals);
                }
                results.push((place, result));
            }
            results
        };
        let (at_once, one_after_another) = join(at_once, one_after_another).await;
        let mut checks: Places = at_once.into_iter().chain(one_after_another).collect();
        checks.sort_by_key(|(place, _)| *place);
        let checks = checks.into_iter().map(|(_, check)| check).collect();
        let judged = hook.reads_texts().then(|| original.judged());
        hook.result(checks, judged, started.elapsed(), created_at)
    }

    async fn check(&self, hook: &Hook, check: &HookCheck, subject: &Subject) -> Ran {
        let started = Instant::now();
        let created_at = Timestamp::now();
        let mut finding = match &check.prepared {
            Ok(Prepared::Local(local)) => {
                self.large_work.run(translation(subject.bytes()), || local.run(subject)).await
            }
            Ok(Prepared::Remote(remote)) => {
                let limit = check.time_limit.or_else(|| remote.time_limit()).unwrap_or(self.time_limit);
                match timeout(limit, remote.run(subject, self.outside_of(hook))).await {
                    Ok(finding) => finding,
                    Err(_) => {
                        let message = format!("The check took longer than {} ms.", limit.as_millis());
                        Finding::failed("TimeoutError", message)
                    }
                }
            }
            Err(unusable) => Finding {
                verdict: unusable.verdict,
                data: unusable.data.clone(),
                error: Some(unusable.error.clone()),
                ..Finding::default()
            },
        };
        if let Some(unread) = subject.unread().filter(|_| check.needs == Needs::Text)
            && finding.verdict
            && finding.error.is_none()
        {
            finding.verdict = false;
            let message = format!("The check passes, but not all was read: the request has {unread}.");
            finding.error = Some(CheckError { name: "UnreadError".to_owned(), message });
        }
        let change = std::mem::take(&mut finding.change);
        let fail_on_error = check.fail_on_error.unwrap_or(self.fail_on_error);
        let result = CheckResult::new(&check.id, finding, fail_on_error, started.elapsed(), created_at);
        Ran { result, change }
    }
}

/// The hooks with their places, in stages that run one after the other. Of a response the workspace's hooks, which stand first, come before
/// those of a config where these call another server.
fn stages<'h>(hooks: &[&'h Hook], phase: HookPhase) -> [Vec<(usize, &'h Hook)>; 2] {
    let is_staged = phase == HookPhase::After && hooks.iter().any(|hook| hook.sends_outside_for_config());
    let placed = hooks.iter().copied().enumerate();
    let (first, second) = placed.partition(|(_, hook)| !is_staged || hook.is_of_workspace);
    [first, second]
}

impl Run<'_> {
    fn outside_of(&self, hook: &Hook) -> &dyn Outside {
        match (hook.is_of_workspace, hook.is_saved) {
            (true, _) => self.outside_of_workspace,
            (false, true) => self.outside_of_saved,
            (false, false) => self.outside,
        }
    }
}

impl Hook {
    /// The result of the hook, of those of all its checks. `judged`: what they looked at.
    pub fn result(
        &self,
        checks: Vec<CheckResult>,
        judged: Option<Judged>,
        taken: Duration,
        created_at: Timestamp,
    ) -> HookResult {
        let verdict = checks.iter().all(CheckResult::passes);
        let configured = if verdict { &self.on_success } else { &self.on_fail };
        let denies = if verdict { self.denies_on_success } else { self.denies_on_fail };
        HookResult {
            verdict,
            id: self.id.clone(),
            transformed: checks.iter().any(|check| check.transformed),
            feedback: configured.as_ref().map(|configured| HookFeedback::new(configured, &checks)),
            checks,
            execution_time: taken,
            asynchronous: self.asynchronous,
            kind: self.kind.as_str(),
            created_at,
            deny: denies && !self.asynchronous,
            judged,
        }
    }
}

#[cfg(test)]
mod tests;
