//! Chooses the next attempt from the outcomes so far. The only place that knows fallback, load balancing,
//! conditions and circuit breakers.
//!
//! Pure: outcomes come in, targets come out. Everything else (random numbers, circuits, latencies,
//! conditions) is read from a [`RoutingEnv`]. The code that sends requests follows the decisions. How often
//! one target is retried is decided in `retry`.
//!
//! Example: a fallback over targets 0 and 1 with one retry each. `first` gives 0. After a 503, `next` gives 0
//! again (`Reason::Retry`); after another 503 it gives 1 (`Reason::Next`); after a 200 it gives
//! `Decision::Return`.

use super::compiled::{CompiledConfig, GroupStrategy, Node, TargetGroup};
use super::continuation::{can_hedge_to, is_for_any_failure, may_follow, moves_clients};
use super::env::RoutingEnv;
use super::host_group;
use super::least_busy;
use super::outcome::{ErrorClass, Outcome};
use super::pick;
use super::prefix_choice;
use super::retry::{self, RetryDecision, RetryState};
use super::target::Target;
use memory::state::targets::CircuitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};
use words::config::balance::BalanceBy;

/// What to do after an attempt.
#[derive(Debug, Clone)]
pub enum Decision {
    /// Send the request to this target, after a wait.
    Attempt { target: Arc<Target>, wait: Duration, reason: Reason },
    /// Return the last result to the client, whether response or failure.
    Return,
}

/// Why a target was chosen, for the access log and for `explain`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reason {
    /// There is no other target.
    #[default]
    Only,
    /// It is the first in order.
    First,
    /// The previous target failed.
    Next,
    /// It was drawn by weight.
    Weight,
    /// It is the quicker of two drawn by weight.
    Latency,
    Price,
    /// It has the least to do for its weight.
    LeastBusy,
    /// The same client had this target before.
    Sticky,
    /// So many blocks of the request's beginning were last sent there.
    Prefix(u16),
    /// No beginning of the request is known: by the hash of its first part.
    PrefixHash,
    /// Who had more of the request's beginning, or came before by its hash, is over its share of the load.
    PassedOn,
    /// The condition with this number, counted from 0, holds.
    Condition(usize),
    /// No condition holds.
    Default,
    /// All circuits are open; this one has been open longest.
    LeastBad,
    /// The same target once more.
    Retry,
    /// A hedge: the first attempt is slow.
    Hedge,
    /// It resumes a stream that broke off.
    Rescue,
}

/// The order of attempts for one request.
#[derive(Debug)]
pub struct Plan {
    config: Arc<CompiledConfig>,
    /// The groups from the root to the current target.
    path: Vec<Frame>,
    current: Option<Arc<Target>>,
    /// Attempts at the current target beyond the first.
    retries: u32,
    exhausted: bool,
    waited: Duration,
    /// Every circuit was open when the request arrived.
    all_circuits_open: bool,
    /// Models for which the request is too long.
    too_small_models: Vec<Option<String>>,
    /// The model named by the client.
    client_model: Option<String>,
    /// Nothing may follow the current attempt.
    is_last: bool,
}

/// A group on the path to the current target.
#[derive(Debug, Default)]
struct Frame {
    member: usize,
    tried: Vec<usize>,
    /// Why this group made its first choice.
    reason: Reason,
}

impl Reason {
    /// The name in the access log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::First => "first",
            Self::Next => "next",
            Self::Weight => "weight",
            Self::Latency => "latency",
            Self::Price => "price",
            Self::LeastBusy => "least_busy",
            Self::Sticky => "sticky",
            Self::Prefix(_) => "prefix",
            Self::PrefixHash => "prefix_hash",
            Self::PassedOn => "passed_on",
            Self::Condition(_) => "condition",
            Self::Default => "default",
            Self::LeastBad => "least_bad",
            Self::Retry => "retry",
            Self::Hedge => "hedge",
            Self::Rescue => "rescue",
        }
    }
}

impl Plan {
    /// `client_model`: the model named by the client, for targets that do not set one.
    pub fn new(config: Arc<CompiledConfig>, client_model: Option<String>) -> Self {
        Self {
            config,
            path: Vec::new(),
            current: None,
            retries: 0,
            exhausted: false,
            waited: Duration::ZERO,
            all_circuits_open: false,
            too_small_models: Vec::new(),
            client_model,
            is_last: false,
        }
    }

    /// The first target. `None` only if the config has no target, which `compile` rules out.
    pub fn first(&mut self, env: &mut dyn RoutingEnv) -> Option<(Arc<Target>, Reason)> {
        let config = Arc::clone(&self.config);
        if let Node::Target(target) = config.root() {
            self.current = Some(Arc::clone(target));
            return Some((Arc::clone(target), Reason::Only));
        }
        self.all_circuits_open = !self.is_usable(config.root(), env);
        let (target, reason) = self.descend(config.root(), Reason::Only, env)?;
        self.current = Some(Arc::clone(&target));
        Some((target, reason))
    }

    /// What follows after `outcome` of the current target.
    pub fn next(&mut self, outcome: &Outcome, env: &mut dyn RoutingEnv) -> Decision {
        let Some(target) = self.current.clone().filter(|_| !self.is_last) else { return Decision::Return };
        if matches!(outcome, Outcome::PrefillRefused | Outcome::FormRefused) {
            // The same target once more, without the prefill or in the other form. This does not count as one
            // of the config's retries.
            return Decision::Attempt { target, wait: Duration::ZERO, reason: Reason::Retry };
        }
        let has_other = self.can_fall_back(outcome, env);
        let state = RetryState { has_other, ..self.retry_state(env) };
        // This failure may have opened the target's circuit.
        let is_available = !has_other || !matches!(env.circuit(&target), CircuitStatus::Open { .. });
        if is_available && (!outcome.is_success() || target.policies.retry().statuses.is_some()) {
            match retry::decide(target.policies.retry(), outcome, state, env.random()) {
                RetryDecision::RetryAfter(wait) => {
                    self.retries += 1;
                    self.waited = self.waited.saturating_add(wait);
                    return Decision::Attempt { target, wait, reason: Reason::Retry };
                }
                RetryDecision::Exhausted => self.exhausted = true,
                RetryDecision::NotRetryable => {}
            }
        }
        if matches!(outcome, Outcome::Response { class: ErrorClass::ContextTooLong, .. }) {
            self.too_small_models.push(self.effective_model(&target));
        }
        match self.next_fallback(outcome, env) {
            Some((target, reason)) => {
                self.current = Some(Arc::clone(&target));
                self.retries = 0;
                self.exhausted = false;
                Decision::Attempt { target, wait: Duration::ZERO, reason }
            }
            None => Decision::Return,
        }
    }

    /// Another target for a hedge; the current target stays current. `None` if there is none.
    pub fn hedge_target(&mut self, env: &mut dyn RoutingEnv) -> Option<Arc<Target>> {
        let (member, depth) = self.sibling(env)?;
        let config = Arc::clone(&self.config);
        let group = config.group(self.path.iter().take(depth).map(|frame| frame.member))?;
        let saved_path = std::mem::take(&mut self.path);
        let found = self.descend(&group.members.get(member)?.node, Reason::Hedge, env);
        self.path = saved_path;
        if let Some(frame) = self.path.get_mut(depth) {
            frame.tried.push(member);
        }
        found.map(|(target, _)| target)
    }

    /// The hedge was not made: its target is as good as any for the next attempt.
    pub fn take_back_hedge(&mut self) {
        let hedged = |frame: &&mut Frame| frame.tried.last().is_some_and(|last| *last != frame.member);
        if let Some(frame) = self.path.iter_mut().rev().find(hedged) {
            frame.tried.pop();
        }
    }

    /// Whether there is a target for a hedge.
    pub fn can_hedge(&self, env: &dyn RoutingEnv) -> bool {
        self.sibling(env).is_some()
    }

    /// Makes the target of a hedge that won the current one.
    pub fn set_current(&mut self, target: &Arc<Target>) {
        self.current = Some(Arc::clone(target));
        self.retries = 0;
    }

    /// Rules out further attempts, because the body is streamed from the client and can be sent only once.
    pub fn set_last(&mut self) {
        self.is_last = true;
    }

    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Whether another target would follow if the current one fell silent.
    pub fn has_other(&self, env: &dyn RoutingEnv) -> bool {
        !self.is_last && self.can_fall_back(&Outcome::TimedOut, env)
    }

    /// Whether another target would follow if the current one had no place.
    pub fn has_other_for_busy(&self, env: &dyn RoutingEnv) -> bool {
        !self.is_last && self.can_fall_back(&Outcome::Busy, env)
    }

    /// Whether a group has a member that would follow after `outcome`.
    fn can_fall_back(&self, outcome: &Outcome, env: &dyn RoutingEnv) -> bool {
        self.groups().any(|(group, frame)| self.followers(group, frame, outcome, env).next().is_some())
    }

    /// The untried, usable members that may follow in a group after `outcome` of the one it chose.
    fn followers<'a>(
        &'a self,
        group: &'a TargetGroup,
        frame: &'a Frame,
        outcome: &'a Outcome,
        env: &'a dyn RoutingEnv,
    ) -> impl Iterator<Item = usize> + 'a {
        self.untried(group, frame, env).filter(move |index| may_follow(group, frame.member, *index, outcome))
    }

    /// Whether the config asks for another attempt after `outcome`, which may be a success that it lists. Where not, that is the end.
    pub fn repeats(&mut self, outcome: &Outcome, env: &dyn RoutingEnv) -> bool {
        let Some(target) = self.current.as_ref().filter(|_| !self.is_last) else { return false };
        let state = self.retry_state(env);
        let retry = target.policies.retry();
        let decision = retry.statuses.as_ref().map(|_| retry::decide(retry, outcome, state, 0.0));
        let repeats =
            matches!(decision, Some(RetryDecision::RetryAfter(_))) || self.can_fall_back(outcome, env);
        self.exhausted |= !repeats && matches!(decision, Some(RetryDecision::Exhausted));
        repeats
    }

    /// Whether any attempt could follow if the current one fails.
    pub fn may_continue(&self, env: &dyn RoutingEnv) -> bool {
        let has_retries = |target: &Arc<Target>| self.retries < target.policies.retry().attempts;
        let may_retry = !self.is_last && self.current.as_ref().is_some_and(has_retries);
        may_retry || self.has_other(env) || !self.is_last && self.can_fall_back(&Outcome::Interrupted, env)
    }

    /// The `hedge` setting of the innermost group that has one.
    pub fn hedge(&self) -> Option<words::config::hedge::Hedge> {
        self.groups().filter_map(|(group, _)| group.hedge).last()
    }

    /// Retries of the current target (`x-gateway-retry-attempt-count`); -1 if the retries were used up, or
    /// could not be made.
    pub fn retry_count(&self) -> i32 {
        if self.exhausted { -1 } else { i32::try_from(self.retries).unwrap_or(i32::MAX) }
    }

    /// Whether the config allows more than one attempt, already made or not.
    pub fn may_repeat(&self) -> bool {
        self.config.may_repeat()
    }

    /// Whether the config allows only one target and one attempt.
    pub fn is_single_attempt(&self) -> bool {
        self.config.is_single_attempt()
    }

    /// Whether the attempts at its targets are counted as long as they last, for the choice of others.
    pub fn counts_load(&self) -> bool {
        self.config.uses_load()
    }

    /// The model named by the client.
    pub(super) fn client_model(&self) -> Option<&str> {
        self.client_model.as_deref()
    }

    /// Whether every circuit was open when the request arrived.
    pub fn all_circuits_open(&self) -> bool {
        self.all_circuits_open
    }

    /// The retries and waits so far, for the current target.
    pub(super) fn retry_state(&self, env: &dyn RoutingEnv) -> RetryState {
        RetryState { retries: self.retries, waited: self.waited, has_other: self.has_other(env) }
    }

    /// The groups from the root to the current target, each with the member it chose and why.
    pub(super) fn choices(&self) -> impl Iterator<Item = (&TargetGroup, usize, Reason)> {
        self.groups().map(|(group, frame)| (group, frame.member, frame.reason))
    }

    /// The groups from the root to the current target.
    fn groups(&self) -> impl Iterator<Item = (&TargetGroup, &Frame)> {
        self.path.iter().enumerate().filter_map(|(depth, frame)| {
            let path = self.path.iter().take(depth).map(|frame| frame.member);
            Some((self.config.group(path)?, frame))
        })
    }

    /// The next target of the innermost group that has one to follow after `outcome`.
    fn next_fallback(
        &mut self,
        outcome: &Outcome,
        env: &mut dyn RoutingEnv,
    ) -> Option<(Arc<Target>, Reason)> {
        let config = Arc::clone(&self.config);
        while let Some(mut frame) = self.path.pop() {
            let group = config.group(self.path.iter().map(|frame| frame.member))?;
            let followers: Vec<usize> = self.followers(group, &frame, outcome, env).collect();
            let next = match &group.strategy {
                _ if followers.is_empty() => None,
                GroupStrategy::LoadBalance { by, sticky, prefix, .. } => {
                    if let Some(prefix) = prefix.as_ref().filter(|_| moves_clients(outcome)) {
                        env.prefix_failed(prefix, frame.member);
                    }
                    let (member, _) = self.balance(group, *by, &frame.tried, env);
                    if let Some(sticky) = sticky.as_ref().filter(|_| moves_clients(outcome)) {
                        env.remember_choice(group, sticky, member);
                    }
                    Some(member)
                }
                _ => self.next_in_order(group, followers, env),
            };
            let Some(member) = next else { continue };
            frame.member = member;
            frame.tried.push(member);
            self.path.push(frame);
            let node = &group.members.get(member)?.node;
            return self.descend(node, Reason::Next, env);
        }
        None
    }

    /// The member to which a hedge goes, and the depth of its group.
    fn sibling(&self, env: &dyn RoutingEnv) -> Option<(usize, usize)> {
        let mut found = None;
        for (depth, (group, frame)) in self.groups().enumerate() {
            if let Some(member) = self.untried(group, frame, env).find(|member| can_hedge_to(group, *member))
            {
                found = Some((member, depth));
            }
        }
        found
    }

    /// Goes down from `node` to a target, choosing a member in every group on the way.
    fn descend(
        &mut self,
        node: &Node,
        outer: Reason,
        env: &mut dyn RoutingEnv,
    ) -> Option<(Arc<Target>, Reason)> {
        let mut node = node;
        let mut reason = outer;
        loop {
            let group = match node {
                Node::Target(target) => return Some((Arc::clone(target), reason)),
                Node::Group(group) => group,
            };
            let (member, chosen) = self.choose_member(group, env);
            reason = match (reason, chosen) {
                (Reason::Next | Reason::Hedge, Reason::First | Reason::Only) => reason,
                (_, Reason::Only) => reason,
                (_, chosen) => chosen,
            };
            self.path.push(Frame { member, tried: vec![member], reason: chosen });
            node = &group.members.get(member)?.node;
        }
    }

    /// A group's first choice.
    fn choose_member(&self, group: &TargetGroup, env: &mut dyn RoutingEnv) -> (usize, Reason) {
        match &group.strategy {
            GroupStrategy::Single => (0, Reason::Only),
            GroupStrategy::Conditional { rules, default } => {
                let matched = rules.iter().position(|(query, _)| env.matches(query));
                match matched.and_then(|at| Some((rules.get(at)?.1, Reason::Condition(at)))) {
                    Some(choice) => choice,
                    None => (*default, Reason::Default),
                }
            }
            GroupStrategy::Fallback => {
                let is_general = |index: &usize| group.members.get(*index).is_some_and(is_for_any_failure);
                let frame = Frame::default();
                let usable: Vec<usize> = self.untried(group, &frame, env).filter(is_general).collect();
                let choice = self.next_in_order(group, usable, env);
                let reason = if self.all_circuits_open { Reason::LeastBad } else { Reason::First };
                (choice.or_else(|| (0..group.members.len()).find(is_general)).unwrap_or(0), reason)
            }
            GroupStrategy::LoadBalance { by, sticky, .. } => {
                if let Some(sticky) = sticky
                    && let Some(member) = env.sticky_choice(group, sticky)
                    && group.members.get(member).is_some_and(|member| self.is_usable(&member.node, env))
                {
                    return (member, Reason::Sticky);
                }
                let choice = self.balance(group, *by, &[], env);
                if let Some(sticky) = sticky {
                    env.remember_choice(group, sticky, choice.0);
                }
                choice
            }
        }
    }

    /// The first of these members. If all circuits are open: the one that has been open longest.
    fn next_in_order(&self, group: &TargetGroup, members: Vec<usize>, env: &dyn RoutingEnv) -> Option<usize> {
        let mut members = members.into_iter();
        if !self.all_circuits_open {
            return members.next();
        }
        members
            .min_by_key(|member| group.members.get(*member).and_then(|member| open_since(&member.node, env)))
    }

    fn untried<'a>(
        &'a self,
        group: &'a TargetGroup,
        frame: &'a Frame,
        env: &'a dyn RoutingEnv,
    ) -> impl Iterator<Item = usize> + 'a {
        let is_left = move |index: &usize| !host_group::is_tried_enough(group, &frame.tried, *index);
        let free = move |index: &usize| !frame.tried.contains(index) && is_left(index);
        (0..group.members.len()).filter(free).filter(move |index| {
            group.members.get(*index).is_some_and(|member| self.is_usable(&member.node, env))
        })
    }

    fn balance(
        &self,
        group: &TargetGroup,
        by: BalanceBy,
        tried: &[usize],
        env: &mut dyn RoutingEnv,
    ) -> (usize, Reason) {
        let weights: Vec<f64> = group.members.iter().map(|member| member.weight).collect();
        let randoms = [env.random(), env.random()];
        let members = group.members.iter().enumerate();
        let usable_members: Vec<bool> = members
            .map(|(index, member)| {
                member.weight > 0.0 && !tried.contains(&index) && self.is_usable(&member.node, env)
            })
            .collect();
        let usable = |index: usize| usable_members.get(index).copied().unwrap_or_default();
        let choice = match by {
            BalanceBy::Weight => {
                pick::weighted(&weights, &usable, randoms[0]).map(|member| (member, Reason::Weight))
            }
            BalanceBy::Prefix => self.by_prefix(group, &usable, env).or_else(|| {
                pick::weighted(&weights, &usable, randoms[0]).map(|member| (member, Reason::Weight))
            }),
            BalanceBy::LeastBusy => {
                let model = self.client_model.as_deref();
                least_busy::choose(group, &usable, model, randoms[0], env)
                    .map(|member| (member, Reason::LeastBusy))
            }
            BalanceBy::Price => {
                let prices: Vec<f64> = group.members.iter().map(|member| member.price).collect();
                pick::cheapest(&prices, &usable, randoms[0]).map(|member| (member, Reason::Price))
            }
            BalanceBy::LeastLatency => {
                pick::power_of_two(&weights, &usable, randoms[0], randoms[1]).map(|(one, other)| {
                    let quick =
                        |member: usize| group.members.get(member).map(|member| latency(&member.node, env));
                    match other.filter(|other| quick(*other) < quick(one)) {
                        Some(other) => (other, Reason::Latency),
                        None => (one, Reason::Latency),
                    }
                })
            }
        };
        // No member is usable: their circuits are open, and this group was chosen nevertheless.
        choice.unwrap_or_else(|| {
            let weighted = group.members.iter().enumerate().filter(|(_, member)| member.weight > 0.0);
            let longest_open = weighted.min_by_key(|(_, member)| open_since(&member.node, env));
            (longest_open.map_or(0, |(index, _)| index), Reason::LeastBad)
        })
    }

    /// The choice by the request's beginning, which is known at that member from now on. `None`: it has none.
    fn by_prefix(
        &self,
        group: &TargetGroup,
        usable: &dyn Fn(usize) -> bool,
        env: &dyn RoutingEnv,
    ) -> Option<(usize, Reason)> {
        let choice = prefix_choice::choose(group, usable, self.client_model.as_deref(), env)?;
        env.prefix_chosen(group.prefix()?, choice);
        Some((choice.member, choice.reason()))
    }

    /// Whether a request may be sent to any target below `node`.
    pub(super) fn is_usable(&self, node: &Node, env: &dyn RoutingEnv) -> bool {
        match node {
            Node::Target(target) => {
                let is_available =
                    self.all_circuits_open || !matches!(env.circuit(target), CircuitStatus::Open { .. });
                is_available
                    && (self.too_small_models.is_empty()
                        || !self.too_small_models.contains(&self.effective_model(target)))
            }
            // Of a conditional group, only the member that the conditions choose counts.
            Node::Group(group) => match &group.strategy {
                GroupStrategy::Conditional { rules, default } => {
                    let matched = rules.iter().find(|(query, _)| env.matches(query));
                    let member = group.members.get(matched.map_or(*default, |(_, member)| *member));
                    member.is_some_and(|member| self.is_usable(&member.node, env))
                }
                _ => group
                    .members
                    .iter()
                    .any(|member| is_for_any_failure(member) && self.is_usable(&member.node, env)),
            },
        }
    }

    fn effective_model(&self, target: &Target) -> Option<String> {
        target.model().map(str::to_owned).or_else(|| self.client_model.clone())
    }
}

/// Since when all circuits below are open: the earliest time. `None` if one is not open.
fn open_since(node: &Node, env: &dyn RoutingEnv) -> Option<Instant> {
    match node {
        Node::Target(target) => match env.circuit(target) {
            CircuitStatus::Open { since } => Some(since),
            _ => None,
        },
        Node::Group(group) => {
            group.members.iter().map(|member| open_since(&member.node, env)).min().flatten()
        }
    }
}

/// The shortest time to the first token below. A target without a measurement counts as zero, so that it gets
/// requests and is measured.
pub(super) fn latency(node: &Node, env: &dyn RoutingEnv) -> Duration {
    match node {
        Node::Target(target) => env.latency(target).unwrap_or_default(),
        Node::Group(group) => {
            let below = group.members.iter().map(|member| latency(&member.node, env));
            below.min().unwrap_or_default()
        }
    }
}
