//! Explains what would happen to a request without sending it: the config's problems, the compiled config,
//! the first target and why it is chosen, and which attempts would follow each kind of failure.
//!
//! Pure: no I/O, like the rest of `route`. It uses the same plan, attempt and limits as the code that sends
//! requests, so the two cannot disagree. The explanation never contains a key, a header value or text of the
//! body. Not here: the HTTP endpoint (`control`).
//!
//! Limits are judged on copies of their buckets, by the code that judges requests. `turnpike explain` runs it with empty process
//! state.

mod probability;
mod view;

#[cfg(test)]
mod tests;

use super::attempt::{Attempt, Request};
use super::compile::{Sources, compile};
use super::compiled::{CompiledConfig, GroupStrategy, Node, TargetGroup};
use super::env::{RoutingEnv, TargetLoad};
use super::least_busy;
use super::outcome::{ErrorClass, Outcome};
use super::plan::{Decision, Plan, Reason};
use super::prefix_choice::{PrefixChoice, PrefixGroup};
use super::prompt_prefix::PromptPrefix;
use super::retry::{self, RetryDecision};
use super::target::Target;
use crate::guard::HookView;
use knowledge::provider::prompt_marks;
use memory::state::targets::CircuitStatus;
use serde::Serialize;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use view::{NodeView, ViewBuilder};
use words::api::operation::{BodyKind, Operation};
use words::config::balance::{BalanceBy, Sticky};
use words::config::policies::StreamRescue;
use words::config::query::Query;
use words::error::Error;

/// The most attempts listed for one kind of failure.
const MAX_STEPS: usize = 100;

/// The whole explanation; `docs/control.md` describes the fields.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// Why the request would be rejected; empty if nothing is wrong.
    pub problems: Vec<Rejection>,
    pub operation: &'static str,
    /// The model as the client names it. `request.model` is what it becomes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_model: Option<String>,
    /// The name of the config in metrics and on the control port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<NodeView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstChoice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<AttemptView>,
    /// The hooks and guardrails of the first target, in the order of their results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookView>,
    /// Which attempts follow if every attempt has the same outcome.
    pub then: Vec<FailurePath>,
    /// The compiled config and its first target, for what is judged elsewhere.
    #[serde(skip)]
    pub chosen: Option<(Arc<CompiledConfig>, Arc<Target>)>,
}

/// One reason why the request would be rejected.
#[derive(Debug, Serialize)]
pub struct Rejection {
    /// HTTP status of the response.
    pub status: u16,
    /// Path in the config, field of the body, or header; empty if none is at fault.
    pub path: String,
    pub message: String,
}

/// The first target and why it is chosen.
#[derive(Debug, Serialize)]
pub struct FirstChoice {
    pub index: String,
    pub why: &'static str,
    /// One sentence for each group from the root to the target.
    pub because: Vec<String>,
    /// The provider as people name it: `@slug (openai)`. Not in the JSON, whose `tree` has it.
    #[serde(skip)]
    pub target: String,
}

/// What would be sent to the first target.
#[derive(Debug, Serialize)]
pub struct AttemptView {
    pub index: String,
    /// The model that is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Path and query, without the values of the client's own query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The response is translated to the client's format.
    pub translated: bool,
    /// `as_written`, `changed`, or `none`.
    pub body: &'static str,
    /// Where the marks of the provider's cache of prompts stand, if the gateway sets them (`prompt_cache`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_marks: Vec<String>,
    /// Credentials must be obtained first: a token or a signature.
    pub signed: bool,
    /// `direct`, `orchestrated`, or `local` if no upstream is needed.
    pub way: &'static str,
    pub warnings: Vec<String>,
    /// Why the attempt cannot be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Rejection>,
}

/// The attempts that follow if every attempt fails in the same way.
#[derive(Debug, Serialize)]
pub struct FailurePath {
    pub when: &'static str,
    /// The attempts after the first one. After the last one the client gets its result.
    pub tries: Vec<FurtherAttempt>,
    /// There are more attempts than are listed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// One further attempt.
#[derive(Debug, Serialize)]
pub struct FurtherAttempt {
    pub index: String,
    pub why: &'static str,
    /// Shortest and longest wait in milliseconds; absent if there is no wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<(u64, u64)>,
}

impl Explanation {
    /// An explanation in which only the operation is known.
    pub fn empty(operation: Operation) -> Self {
        Self {
            problems: Vec::new(),
            operation: operation.label(),
            requested_model: None,
            config: None,
            tree: None,
            first: None,
            request: None,
            hooks: Vec::new(),
            then: Vec::new(),
            chosen: None,
        }
    }
}

impl Rejection {
    /// One entry for each problem of a config, or one for the error as a whole.
    pub fn from_error(error: &Error) -> Vec<Self> {
        let status = error.status();
        if error.problems.is_empty() {
            let path = error.param.clone().unwrap_or_default();
            return vec![Self { status, path, message: error.message.clone() }];
        }
        let from_problem = |problem: &words::error::Problem| Self {
            status,
            path: problem.path.clone(),
            message: problem.message.clone(),
        };
        error.problems.iter().map(from_problem).collect()
    }
}

/// An environment in which every random number is 0.5, and which remembers no choices.
struct FixedChanceEnv<'w>(&'w dyn RoutingEnv);

const MIDDLE: f64 = 0.5;

impl RoutingEnv for FixedChanceEnv<'_> {
    fn random(&mut self) -> f64 {
        MIDDLE
    }

    fn circuit(&self, target: &Target) -> CircuitStatus {
        self.0.circuit(target)
    }

    fn latency(&self, target: &Target) -> Option<Duration> {
        self.0.latency(target)
    }

    fn matches(&self, query: &Query) -> bool {
        self.0.matches(query)
    }

    fn sticky_choice(&self, group: &TargetGroup, sticky: &Sticky) -> Option<usize> {
        self.0.sticky_choice(group, sticky)
    }

    fn remember_choice(&self, _: &TargetGroup, _: &Sticky, _: usize) {}

    fn prefix(&self) -> Option<&PromptPrefix> {
        self.0.prefix()
    }

    fn find_prefix(&self, group: &PrefixGroup, blocks_of: &mut [u16]) {
        self.0.find_prefix(group, blocks_of);
    }

    fn prefix_chosen(&self, _: &PrefixGroup, _: PrefixChoice) {}

    fn prefix_failed(&self, _: &PrefixGroup, _: usize) {}

    fn load(&self, target: &Target, model: Option<&str>) -> TargetLoad {
        self.0.load(target, model)
    }
}

/// Explains what would happen to `request`. Every random number is taken as 0.5.
pub fn explain(sources: &Sources<'_>, request: &Request, env: &dyn RoutingEnv) -> Explanation {
    let mut explained = Explanation::empty(request.operation);
    explained.requested_model = request.requested_model().map(Cow::into_owned);
    let config = match compile(sources) {
        Ok(config) => Arc::new(config),
        Err(error) => {
            explained.problems = Rejection::from_error(&error);
            return explained;
        }
    };
    if let Err(error) = request.check(&config) {
        explained.problems = Rejection::from_error(&error);
    }
    explained.config = config.targets().first().map(|target| target.id.config.clone());
    let mut env = FixedChanceEnv(env);
    let mut plan = Plan::new(Arc::clone(&config), request.model.clone());
    let Some((target, reason)) = plan.first(&mut env) else { return explained };
    let builder =
        ViewBuilder { plan: &plan, env: &env, connect_timeout: sources.settings.limits.connect_timeout };
    explained.tree = Some(builder.tree(&config));
    let reasons =
        plan.choices().map(|(group, member, reason)| reason_text(group, member, reason, &plan, &env));
    let mut reasons: Vec<String> = reasons.collect();
    if reasons.is_empty() {
        reasons.push(format!("{}: the only target", target.path));
    }
    let provider = target.provider.id();
    explained.first = Some(FirstChoice {
        index: target.path.clone(),
        why: reason.as_str(),
        because: reasons,
        target: target.slug.as_ref().map_or(provider.to_owned(), |slug| format!("@{slug} ({provider})")),
    });
    explained.chosen = Some((Arc::clone(&config), Arc::clone(&target)));
    let view = attempt_view(&target, &config, request);
    let unsupported = view.error.as_ref().map(|error| error.status);
    explained.request = Some(view);
    explained.hooks = target.hooks.views(request.operation, request.is_streamed(), request.body.is_some());
    explained.then = outcomes(unsupported)
        .into_iter()
        .filter_map(|(when, outcome)| failure_path(when, outcome, &config, request, &mut env))
        .collect();
    explained
}

/// The kinds of failure that are explained.
fn outcomes(unsupported: Option<u16>) -> Vec<(&'static str, Outcome)> {
    let with_class = |class| Outcome::Response { status: 400, class, retry_after: None };
    let mut outcomes = vec![
        ("429", Outcome::from_status(429)),
        ("500", Outcome::from_status(500)),
        ("400", Outcome::from_status(400)),
        ("timeout", Outcome::TimedOut),
        ("reset", Outcome::Failed),
        ("cut", Outcome::Interrupted),
        ("too_long", with_class(ErrorClass::ContextTooLong)),
        ("refused", with_class(ErrorClass::ContentFiltered)),
    ];
    outcomes.extend(unsupported.map(|status| ("cannot_be_made", Outcome::Unsupported(status))));
    outcomes
}

/// Runs a fresh plan in which every attempt has this `outcome`. `None`: the outcome cannot occur for this
/// request.
fn failure_path(
    when: &'static str,
    outcome: Outcome,
    config: &Arc<CompiledConfig>,
    request: &Request,
    env: &mut FixedChanceEnv<'_>,
) -> Option<FailurePath> {
    let interrupted = outcome == Outcome::Interrupted;
    if interrupted && !request.is_streamed() {
        return None;
    }
    let mut plan = Plan::new(Arc::clone(config), request.model.clone());
    let (mut current, _) = plan.first(env)?;
    let mut path = FailurePath { when, tries: Vec::new(), more: false };
    loop {
        if interrupted && current.policies.stream_rescue() != StreamRescue::Resume {
            return Some(path);
        }
        let wait_range = wait_range(&plan, &current, &outcome, env);
        let Decision::Attempt { target, reason, .. } = plan.next(&outcome, env) else { return Some(path) };
        if path.tries.len() >= MAX_STEPS {
            path.more = true;
            return Some(path);
        }
        let wait_ms = if reason == Reason::Retry { wait_range } else { None };
        path.tries.push(FurtherAttempt { index: target.path.clone(), why: reason.as_str(), wait_ms });
        current = target;
    }
}

/// The shortest and the longest wait before a retry, in milliseconds.
fn wait_range(plan: &Plan, target: &Target, outcome: &Outcome, env: &dyn RoutingEnv) -> Option<(u64, u64)> {
    let state = plan.retry_state(env);
    let millis = |wait: Duration| wait.as_millis() as u64;
    let RetryDecision::RetryAfter(min_wait) = retry::decide(target.policies.retry(), outcome, state, 0.0)
    else {
        return None;
    };
    let max_wait = match retry::decide(target.policies.retry(), outcome, state, 1.0) {
        RetryDecision::RetryAfter(wait) => wait,
        // A wait beyond the budget is never made.
        _ => target.policies.retry().budget.saturating_sub(state.waited),
    };
    Some((millis(min_wait), millis(max_wait)))
}

/// Describes the first attempt.
fn attempt_view(target: &Arc<Target>, config: &CompiledConfig, request: &Request) -> AttemptView {
    let index = target.path.clone();
    let attempt = match Attempt::new(Arc::clone(target), request) {
        Ok(attempt) => attempt,
        Err(error) => {
            return AttemptView {
                index,
                model: None,
                path: None,
                translated: false,
                body: "none",
                cache_marks: Vec::new(),
                signed: false,
                way: "none",
                warnings: Vec::new(),
                error: Rejection::from_error(&error).into_iter().next(),
            };
        }
    };
    let marked = attempt.body.as_deref().filter(|_| target.policies.auto_marks().is_some());
    let cache_marks = marked.map(prompt_marks::places).unwrap_or_default();
    let body = match (&attempt.body, attempt.body_changed) {
        (None, _) => "none",
        (Some(_), true) => "changed",
        (Some(_), false) => "as_written",
    };
    // A websocket without translation is always sent directly.
    let upgrades = request.operation.body_kind() == BodyKind::Upgrade && attempt.translation.is_none();
    let transport = match upgrades || config.is_single_attempt() && attempt.goes_native(false) {
        _ if attempt.local_count.is_some() => "local",
        true => "direct",
        false => "orchestrated",
    };
    AttemptView {
        index,
        model: attempt.model.clone(),
        path: attempt.local_count.is_none().then(|| without_values(&attempt.path, request.uri.query())),
        translated: attempt.translation.is_some(),
        body,
        cache_marks,
        signed: attempt.needs_credentials(),
        way: transport,
        warnings: attempt.warnings,
        error: None,
    }
}

/// Replaces the values of the client's own query parameters by `...`, since they may be keys. All names, and
/// the values that the gateway added, are kept.
fn without_values(path: &str, client_query: Option<&str>) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
    let client_names: Vec<String> = client_query.unwrap_or_default().split('&').map(name).collect();
    let pairs = query.split('&').map(|pair| match client_names.contains(&name(pair)) {
        true if pair.contains('=') => format!("{}=...", name(pair)),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// One sentence that says why a group chose this member.
fn reason_text(
    group: &TargetGroup,
    member: usize,
    reason: Reason,
    plan: &Plan,
    env: &dyn RoutingEnv,
) -> String {
    let at = |member: usize| group.members.get(member).map_or("", |member| member.node.path());
    let sentence = match (reason, &group.strategy) {
        (Reason::Condition(number), GroupStrategy::Conditional { rules, .. }) => {
            let condition =
                rules.get(number).map(|(query, _)| query.describe().join(", ")).unwrap_or_default();
            format!("condition {number} holds: {condition}")
        }
        (Reason::Default, _) => "no condition holds".to_owned(),
        (Reason::LeastBad, _) => {
            "every circuit is open, or every provider drained or warming up, and this one has been for longest".to_owned()
        }
        (Reason::Sticky, _) => "the same caller had it before".to_owned(),
        (Reason::Prefix(blocks), _) => {
            let bytes = PromptPrefix::bytes_of(blocks.into());
            format!(
                "the beginning of the request was last sent there: {blocks} blocks, {bytes} bytes of text"
            )
        }
        (Reason::PrefixHash, _) => {
            "no beginning of the request is known: by the hash of its first part".to_owned()
        }
        (Reason::PassedOn, _) => {
            "passed on: whoever comes first by the request's beginning is over its share, or has no place"
                .to_owned()
        }
        (Reason::Weight, _) => {
            let chance = probability::probabilities(group, BalanceBy::Weight, plan, env).get(member).copied();
            format!("drawn by weight: {} of 1", probability::rounded(chance.unwrap_or_default()))
        }
        (Reason::Price, _) => {
            let price = group.members.get(member).map_or(0.0, |member| member.price);
            format!("the lowest price: {price} US dollars per million tokens, in and out")
        }
        (Reason::Latency, _) => latency(group, member, plan, env),
        (Reason::LeastBusy, _) => least_busy_text(group, member, plan, env),
        (Reason::First, _) => {
            let earlier = group.members.iter().take(member).filter(|member| member.for_errors.is_none());
            let skipped: Vec<&str> = earlier.map(|member| member.node.path()).collect();
            match skipped.as_slice() {
                [] => "the first in order".to_owned(),
                skipped => format!(
                    "the first in order; {} skipped: its circuit is open, or its provider is drained or warms up",
                    skipped.join(", ")
                ),
            }
        }
        _ => "single takes the first target".to_owned(),
    };
    format!("{}: {}: {sentence}", group.path, at(member))
}

/// Says what the member has to do.
fn least_busy_text(group: &TargetGroup, member: usize, plan: &Plan, env: &dyn RoutingEnv) -> String {
    let node = group.members.get(member).map(|member| &member.node);
    let load = node.map(|node| least_busy::load(node, plan.client_model(), env)).unwrap_or_default();
    let full = if load.is_full { ", and no place is free anywhere" } else { "" };
    let adapter = if load.has_adapter { "; it has the adapter" } else { "" };
    format!("the least to do for its weight: {} requests{full}{adapter}", load.in_flight)
}

/// Names the two members that were drawn and their measured latencies.
fn latency(group: &TargetGroup, member: usize, plan: &Plan, env: &dyn RoutingEnv) -> String {
    let measured = |member: usize| {
        let node = group.members.get(member).map(|member| &member.node);
        match node.map(|node| super::plan::latency(node, env)).filter(|time| !time.is_zero()) {
            Some(time) => format!("{} ms", time.as_millis()),
            None => "nothing measured of late".to_owned(),
        }
    };
    match probability::pair(group, plan, env) {
        Some((one, Some(other))) => {
            let loser = if member == one { other } else { one };
            let index = group.members.get(loser).map_or("", |member| member.node.path());
            format!(
                "the quicker of two drawn by weight: {} against {} of {index}",
                measured(member),
                measured(loser)
            )
        }
        _ => "the only one that can be drawn".to_owned(),
    }
}

impl Node {
    /// Its path in the config.
    fn path(&self) -> &str {
        match self {
            Node::Target(target) => &target.path,
            Node::Group(group) => &group.path,
        }
    }
}
