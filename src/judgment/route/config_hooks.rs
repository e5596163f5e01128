//! The hooks and guardrails of one config, with those of the client's workspace before them, compiled for its targets: each distinct list
//! once, and what all patterns in them cost together.
//!
//! Not here: which lists a target inherits (`config::policies`), and what a check is (`guard`).

use crate::guard::{HookCompiler, HookSet, TargetHooks};
use memory::state::directory::Directory;
use std::cell::RefCell;
use std::sync::Arc;
use words::config::Config;
use words::config::hooks::{Hook, HookPhase};
use words::config::pattern::PatternBudget;
use words::config::policies::{HookLists, Policies};
use words::config::read::Problems;
use words::error::{Error, Problem};

/// What is wrong with the hooks of a config that is kept and of its targets, without the guardrails that it names: those may be stored
/// later.
pub fn problems(config: &Config) -> Vec<Problem> {
    let mut found = Vec::new();
    check(config, "", &PatternBudget::default(), &mut found);
    found
}

/// `path`: of the config, with a point at its end.
fn check(config: &Config, path: &str, patterns: &PatternBudget, found: &mut Vec<Problem>) {
    let problems = Problems::default();
    let saved = |_: &str| Some(Arc::new(Hook::default()));
    let compiler = HookCompiler { saved: &saved, patterns, problems: &problems, is_strict: true };
    compiler.compile(&[], &config.policies.request_hooks, HookPhase::Before);
    compiler.compile(&[], &config.policies.response_hooks, HookPhase::After);
    let with_path = |problem: Problem| Problem { path: format!("{path}{}", problem.path), ..problem };
    found.extend(problems.into_vec().into_iter().map(with_path));
    for (index, target) in config.targets.iter().enumerate() {
        check(target, &format!("{path}targets[{index}]."), patterns, found);
    }
}

/// The hooks that a request of the gateway's own passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnHooks {
    None,
    /// Those that the client's workspace has by default, on the request: what the client has written into it is sent to a provider.
    OfWorkspace,
}

impl OwnHooks {
    pub(super) fn of(self, directory: Directory<'_>) -> Option<ConfigHooks<'_>> {
        match self {
            Self::None => None,
            Self::OfWorkspace => Some(ConfigHooks::of_requests_by_default(directory)),
        }
    }
}

/// Compiles the hooks of one config.
pub(crate) struct ConfigHooks<'a> {
    directory: Directory<'a>,
    patterns: PatternBudget,
    problems: Problems,
    /// Those on requests that the workspace has by default, and no others.
    only_by_default: bool,
    /// Targets share what they inherit.
    compiled: RefCell<Vec<Compiled>>,
}

/// Lists of a phase, and what they compile to.
type Compiled = (HookLists, HookPhase, Option<Arc<HookSet>>);

impl<'a> ConfigHooks<'a> {
    pub fn new(directory: Directory<'a>) -> Self {
        Self {
            directory,
            patterns: PatternBudget::default(),
            problems: Problems::default(),
            only_by_default: false,
            compiled: RefCell::default(),
        }
    }

    /// Of a request that has only those which the workspace has by default.
    pub fn of_requests_by_default(directory: Directory<'a>) -> Self {
        Self { only_by_default: true, ..Self::new(directory) }
    }

    /// The hooks of a target with these policies.
    pub fn of_target(&self, policies: &Policies) -> TargetHooks {
        if self.only_by_default {
            let request = self.of_lists(&HookLists::default(), HookPhase::Before);
            return TargetHooks { request, response: None };
        }
        TargetHooks {
            request: self.of_lists(&policies.request_hooks, HookPhase::Before),
            response: self.of_lists(&policies.response_hooks, HookPhase::After),
        }
    }

    fn of_lists(&self, lists: &HookLists, phase: HookPhase) -> Option<Arc<HookSet>> {
        let of_workspace = self.directory.default_guardrails(phase);
        if lists.is_empty() && of_workspace.is_empty() {
            return None;
        }
        let is_same = |(one, of, _): &&Compiled| *of == phase && one == lists;
        if let Some((_, _, compiled)) = self.compiled.borrow().iter().find(is_same) {
            return compiled.clone();
        }
        let saved = |slug: &str| self.directory.guardrail(slug);
        let compiler = HookCompiler {
            saved: &saved,
            patterns: &self.patterns,
            problems: &self.problems,
            is_strict: false,
        };
        let compiled = compiler.compile(of_workspace, lists, phase);
        self.compiled.borrow_mut().push((lists.clone(), phase, compiled.clone()));
        compiled
    }

    /// The bytes that patterns take.
    ///
    /// # Errors
    /// 400 with all problems.
    pub fn finish(self) -> Result<usize, Error> {
        if self.problems.is_empty() {
            Ok(self.patterns.bytes())
        } else {
            Err(Error::invalid_config("x-gateway-config", self.problems.into_vec()))
        }
    }
}
