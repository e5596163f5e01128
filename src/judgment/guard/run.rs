//! Runs the hooks of a phase over a subject.
//!
//! Checks that change the subject run one after another, each on what the one before it left: those of the workspace, then those of a config.
//! Those that judge see what the workspace's left, so that no result repeats what it redacted; they run at once, but for those of a config's
//! hook that is sequential and changes something. Those of the workspace run again on what the hooks of a config have made of it: no config
//! undoes or hides what they decide.
//! Not here: what follows from the results (`engine`).

use super::check::Prepared;
use super::finding::{Change, CheckError, Finding};
use super::hook::{Hook, HookCheck};
use super::judged::Judged;
use super::needs::Needs;
use super::outside::Outside;
use super::result::{CheckResult, HookFeedback, HookResult};
use super::subject::Subject;
use futures_util::FutureExt;
use futures_util::future::{join, join_all};
use futures_util::stream::{self, StreamExt};
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

/// A hook with its place in the list.
type Placed<'h> = (usize, &'h Hook);

/// The checks of one hook that have run.
struct HookRun {
    checks: Places,
    /// What they looked at.
    judged: Option<Judged>,
    started: Instant,
    taken: Duration,
    created_at: Timestamp,
}

/// The hooks that have run, by rising places. Most requests have few: a tree's node would have room for eleven of them.
#[derive(Default)]
struct HookRuns(Vec<(usize, HookRun)>);

/// The subject as it is changed.
struct Changed {
    subject: Subject,
    placeholders: Vec<(String, String)>,
}

/// The hooks of a phase while they run.
struct Phase<'h> {
    of_workspace: Vec<Placed<'h>>,
    of_config: Vec<Placed<'h>>,
    changed: Changed,
    is_changed_by_config: bool,
    first: HookRuns,
    /// Those of the workspace, on what hooks of a config have changed.
    again: HookRuns,
}

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
    /// Runs these hooks: those of the workspace that change the subject, and then all others.
    pub async fn hooks<'h>(&self, hooks: impl Iterator<Item = &'h Hook>, subject: &Subject) -> PhaseRun {
        let hooks: Vec<&Hook> = hooks.filter(|hook| hook.sees(subject.available)).collect();
        // A response that the workspace denies is sent to no server that a config names.
        let is_staged =
            subject.phase == HookPhase::After && hooks.iter().any(|hook| hook.sends_outside_for_config());
        let mut phase = Phase::new(&hooks, subject);
        phase.first = self.change(&phase.of_workspace, &mut phase.changed, Pass::First).await;
        let left = phase.changed.subject.clone();
        if is_staged {
            let judged = self.judge(&phase.of_workspace, &left).await;
            phase.first.add(judged);
            self.staged(&mut phase, &left).await;
        } else {
            let of_workspace = phase.of_workspace.clone();
            let judged = self.judge(&of_workspace, &left);
            let ((), judged) = join(self.of_config(&mut phase, &left), judged).await;
            phase.first.add(judged);
        }
        phase.finish(&hooks)
    }

    /// What follows the workspace's hooks where a hook of a config calls another server with a response.
    async fn staged(&self, phase: &mut Phase<'_>, left: &Subject) {
        if phase.first.denies(&phase.of_workspace) {
            return;
        }
        self.change_for_config(phase).await;
        let again = self.judge_again(phase).await;
        phase.again.add(again);
        if !phase.again.denies(&phase.of_workspace) {
            let judged = self.judge(&phase.of_config, left).await;
            phase.first.add(judged);
        }
    }

    /// The hooks of a config, and what the workspace's find in what these changed. `left`: by the workspace's.
    async fn of_config(&self, phase: &mut Phase<'_>, left: &Subject) {
        self.change_for_config(phase).await;
        let judged = self.judge(&phase.of_config, left);
        let (again, judged) = join(self.judge_again(phase), judged).await;
        phase.again.add(again);
        phase.first.add(judged);
    }

    /// Has the hooks of a config change what those of the workspace left, and these what is changed then.
    async fn change_for_config(&self, phase: &mut Phase<'_>) {
        let ran = self.change(&phase.of_config, &mut phase.changed, Pass::First).await;
        phase.is_changed_by_config = ran.0.iter().any(|(_, run)| run.is_transformed());
        phase.first.add(ran);
        if phase.is_changed_by_config {
            phase.again = self.change(&phase.of_workspace, &mut phase.changed, Pass::Again).await;
        }
    }

    /// What the workspace's hooks find in what those of a config changed.
    async fn judge_again(&self, phase: &Phase<'_>) -> HookRuns {
        if phase.is_changed_by_config {
            self.judge(&phase.of_workspace, &phase.changed.subject).await
        } else {
            HookRuns::default()
        }
    }

    /// Runs the checks that change the subject, and those in turn with them, one after another.
    async fn change(&self, hooks: &[Placed<'_>], changed: &mut Changed, pass: Pass) -> HookRuns {
        let mut runs = HookRuns::default();
        for (place, hook) in hooks.iter().copied().filter(|(_, hook)| hook.may_change()) {
            let mut run = self.begin(hook, &mut changed.subject).await;
            for (place, check) in changed.subject.checks_of(hook).filter(|(_, check)| hook.has_in_turn(check))
            {
                let result = self.change_by(hook, check, changed, pass).await;
                run.checks.push((place, result));
            }
            run.taken = run.started.elapsed();
            runs.0.push((place, run));
        }
        runs
    }

    async fn change_by(
        &self,
        hook: &Hook,
        check: &HookCheck,
        changed: &mut Changed,
        pass: Pass,
    ) -> CheckResult {
        let Ran { mut result, mut change } = self.check(hook, check, &changed.subject).await;
        if pass == Pass::Again && matches!(change, Change::Body(_)) {
            change = Change::None;
        }
        let bytes = translation(changed.subject.bytes());
        result.transformed = self.large_work.run(bytes, || changed.subject.apply(&change)).await;
        if let Change::Placeholders(_, originals) = change {
            changed.placeholders.extend(originals);
        }
        result
    }

    /// Runs the checks that run in no turn with changes: the hooks at once, and their checks too where they need not be one after another.
    async fn judge(&self, hooks: &[Placed<'_>], subject: &Subject) -> HookRuns {
        let judges =
            |hook: &Hook| hook.checks.is_empty() || !hook.checks.iter().all(|check| hook.has_in_turn(check));
        let hooks = hooks.iter().copied().filter(|(_, hook)| judges(hook));
        let runs = hooks.map(|(place, hook)| async move {
            let mut own = subject.clone();
            let mut run = self.begin(hook, &mut own).await;
            let subject = &own;
            let judging = subject.checks_of(hook).filter(|(_, check)| !hook.has_in_turn(check));
            let judged = judging
                .map(|(place, check)| async move { (place, self.check(hook, check, subject).await.result) });
            // What few hooks do is in a box of its own: its space would be moved for all.
            run.checks = if hook.sequential || hook.kind == HookKind::Mutator {
                stream::iter(judged).then(|judged| judged).collect().boxed().await
            } else {
                join_all(judged).await
            };
            run.taken = run.started.elapsed();
            (place, run)
        });
        HookRuns(join_all(runs).await)
    }

    /// Reads of the subject what a hook judges.
    async fn begin(&self, hook: &Hook, subject: &mut Subject) -> HookRun {
        let started = Instant::now();
        let created_at = Timestamp::now();
        if !subject.is_selected(hook.selection) {
            let bytes = translation(subject.bytes());
            self.large_work.run(bytes, || subject.select(hook.selection)).boxed().await;
        }
        let judged = hook.reads_texts().then(|| subject.judged());
        HookRun { checks: Places::new(), judged, started, taken: Duration::ZERO, created_at }
    }

    async fn check(&self, hook: &Hook, check: &HookCheck, subject: &Subject) -> Ran {
        let started = Instant::now();
        let created_at = Timestamp::now();
        let mut finding = match &check.prepared {
            Ok(Prepared::Local(local)) => {
                self.large_work.run(translation(subject.bytes()), || local.run(subject)).await
            }
            Ok(Prepared::Remote(remote)) => {
                subject.read_trees(self.large_work).await;
                let limit = check.time_limit.or_else(|| remote.time_limit()).unwrap_or(self.time_limit);
                match timeout(limit, remote.run(subject, self.outside_of(hook))).boxed().await {
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
        if subject.leaves_fixed(&finding.change) && finding.verdict && finding.error.is_none() {
            finding.verdict = false;
            let message =
                "The check would change reasoning that its provider takes only as it is.".to_owned();
            finding.error = Some(CheckError { name: "UnchangedError".to_owned(), message });
        }
        let change = std::mem::take(&mut finding.change);
        let fail_on_error = check.fail_on_error.unwrap_or(self.fail_on_error);
        let result = CheckResult::new(&check.id, finding, fail_on_error, started.elapsed(), created_at);
        Ran { result, change }
    }
}

impl Hook {
    /// Whether a check runs in its turn with those that change the subject. Of a config's hook whose checks run one after another each sees what
    /// the one before it left; of the workspace's none sees what another one redacts.
    fn has_in_turn(&self, check: &HookCheck) -> bool {
        let is_sequential = self.sequential || self.kind == HookKind::Mutator;
        check.may_change() || is_sequential && !self.is_of_workspace && self.may_change()
    }

    /// Whether it denies where its checks came to this.
    fn denies(&self, verdict: bool) -> bool {
        !self.asynchronous && if verdict { self.denies_on_success } else { self.denies_on_fail }
    }
}

impl<'h> Phase<'h> {
    fn new(hooks: &[&'h Hook], subject: &Subject) -> Self {
        let placed = hooks.iter().copied().enumerate();
        let (of_workspace, of_config) = placed.partition(|(_, hook)| hook.is_of_workspace);
        Self {
            of_workspace,
            of_config,
            changed: Changed { subject: subject.clone(), placeholders: Vec::new() },
            is_changed_by_config: false,
            first: HookRuns::default(),
            again: HookRuns::default(),
        }
    }

    fn finish(self, hooks: &[&Hook]) -> PhaseRun {
        let mut results = Vec::with_capacity(hooks.len());
        let mut message = None;
        let mut all_first = self.first.0.into_iter().peekable();
        let mut all_again = self.again.0.into_iter().peekable();
        for (place, hook) in hooks.iter().enumerate() {
            let is_it = |(at, _): &(usize, HookRun)| *at == place;
            let again = all_again.next_if(is_it);
            let Some((_, first)) = all_first.next_if(is_it) else { continue };
            let mut result = first.result(hook);
            if let Some((_, again)) = again {
                result.take_again(again.result(hook));
            }
            if result.deny && message.is_none() {
                message = Some(hook.message.as_deref().map(str::to_owned));
            }
            results.push(result);
        }
        let is_changed = results.iter().any(|result| result.transformed);
        PhaseRun {
            results,
            changed: is_changed.then_some(self.changed.subject),
            placeholders: self.changed.placeholders,
            message: message.flatten(),
        }
    }
}

impl HookRuns {
    /// Adds the other checks of hooks, or other hooks.
    fn add(&mut self, other: Self) {
        if self.0.is_empty() {
            *self = other;
            return;
        }
        for (place, run) in other.0 {
            match self.find(place) {
                Ok(at) => {
                    if let Some((_, before)) = self.0.get_mut(at) {
                        before.add(run);
                    }
                }
                Err(at) => self.0.insert(at, (place, run)),
            }
        }
    }

    /// Where a hook is, or would be.
    fn find(&self, place: usize) -> Result<usize, usize> {
        self.0.binary_search_by_key(&place, |(at, _)| *at)
    }

    /// Whether any of these hooks denies, all of whose checks have run.
    fn denies(&self, hooks: &[Placed<'_>]) -> bool {
        let run = |place: usize| self.find(place).ok().and_then(|at| self.0.get(at));
        let denies = |(place, hook): &Placed<'_>| run(*place).is_some_and(|(_, run)| run.denies(hook));
        hooks.iter().any(denies)
    }
}

impl HookRun {
    fn is_transformed(&self) -> bool {
        self.checks.iter().any(|(_, check)| check.transformed)
    }

    fn denies(&self, hook: &Hook) -> bool {
        hook.denies(self.checks.iter().all(|(_, check)| check.passes()))
    }

    fn add(&mut self, other: Self) {
        self.checks.extend(other.checks);
        self.checks.sort_by_key(|(place, _)| *place);
        self.taken += other.taken;
    }

    fn result(self, hook: &Hook) -> HookResult {
        let checks = self.checks.into_iter().map(|(_, check)| check).collect();
        hook.result(checks, self.judged, self.taken, self.created_at)
    }
}

impl Subject {
    /// The checks of a hook that have what they need here, with their places.
    fn checks_of<'h>(&self, hook: &'h Hook) -> impl Iterator<Item = (usize, &'h HookCheck)> + use<'h> {
        let available = self.available;
        hook.checks.iter().enumerate().filter(move |(_, check)| check.needs <= available)
    }
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
            deny: self.denies(verdict),
            judged,
        }
    }
}

#[cfg(test)]
mod tests;
