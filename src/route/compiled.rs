//! A compiled config: targets and the groups that choose among them. `compile` makes it, a plan walks it.
//!
//! Nothing behind it sees an `Option<String>` that should be a provider. Holds no state of a request.

use super::target::Target;
use crate::config::balance::{BalanceBy, Sticky};
use crate::config::hedge::Hedge;
use crate::config::query::Query;
use std::sync::Arc;

/// A config, compiled.
#[derive(Debug)]
pub struct CompiledConfig {
    root: Node,
    /// Every target, in reading order.
    targets: Vec<Arc<Target>>,
    /// A strategy asks for facts of the request.
    uses_facts: bool,
}

/// A target, or a group of them.
#[derive(Debug)]
pub enum Node {
    Target(Arc<Target>),
    Group(Box<TargetGroup>),
}

/// A config with targets.
#[derive(Debug)]
pub struct TargetGroup {
    /// Where it stands: `config`, `config.targets[1]`.
    pub path: String,
    pub strategy: GroupStrategy,
    pub members: Vec<Member>,
    /// `strategy.on_status_codes`: what it goes on at, whatever a child says.
    pub on_status_codes: Option<Vec<u16>>,
    pub hedge: Option<Hedge>,
}

/// A member of a group.
#[derive(Debug)]
pub struct Member {
    pub node: Node,
    /// `name`, which conditions call it by.
    pub name: Option<String>,
    pub weight: f64,
    /// US dollars per million tokens, input and output together.
    pub price: f64,
    /// Its own `on_status_codes`, or else the group's.
    pub on_status_codes: Option<Vec<u16>>,
}

/// How a group chooses.
#[derive(Debug)]
pub enum GroupStrategy {
    /// `single`: the first, and no other.
    Single,
    /// `fallback`: one after the other.
    Fallback,
    /// `loadbalance`: one of them, and no other.
    LoadBalance { by: BalanceBy, sticky: Option<Sticky> },
    /// `conditional`: the one whose query holds first, or else the default.
    Conditional { rules: Vec<(Query, usize)>, default: usize },
}

impl CompiledConfig {
    pub fn new(root: Node) -> Self {
        let mut targets = Vec::new();
        root.collect(&mut targets);
        let uses_facts = root.uses_facts();
        Self { root, targets, uses_facts }
    }

    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Whether one target and one try is all there is: nothing could change our mind.
    pub fn is_single_attempt(&self) -> bool {
        match &self.root {
            Node::Target(target) => target.has_no_policies(),
            Node::Group(_) => false,
        }
    }

    /// Every target, in reading order.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    /// Whether every target sets this member of the body.
    pub fn all_set(&self, name: &str) -> bool {
        let sets = |target: &Arc<Target>| target.policies.override_params.iter().any(|(key, _)| key == name);
        self.targets.iter().all(sets)
    }

    /// Whether a request may be sent more than once.
    pub fn may_repeat(&self) -> bool {
        self.targets.len() > 1 || self.targets.iter().any(|target| target.policies.retry().attempts > 0)
    }

    /// Bytes its conditions' patterns take at most.
    pub fn pattern_bytes(&self) -> usize {
        self.root.pattern_bytes()
    }

    /// Whether a strategy asks for the request's headers, metadata or parameters.
    pub fn uses_facts(&self) -> bool {
        self.uses_facts
    }

    /// The group at the end of `path`, the children chosen on the way down.
    pub fn group(&self, indexes: impl Iterator<Item = usize>) -> Option<&TargetGroup> {
        let mut node = &self.root;
        for member in indexes {
            let Node::Group(group) = node else { return None };
            node = &group.members.get(member)?.node;
        }
        match node {
            Node::Group(group) => Some(group),
            Node::Target(_) => None,
        }
    }
}

impl Node {
    fn collect(&self, into: &mut Vec<Arc<Target>>) {
        match self {
            Node::Target(target) => into.push(Arc::clone(target)),
            Node::Group(group) => group.members.iter().for_each(|member| member.node.collect(into)),
        }
    }

    fn uses_facts(&self) -> bool {
        let Node::Group(group) = self else { return false };
        matches!(
            &group.strategy,
            GroupStrategy::Conditional { .. } | GroupStrategy::LoadBalance { sticky: Some(_), .. }
        ) || group.members.iter().any(|member| member.node.uses_facts())
    }

    fn pattern_bytes(&self) -> usize {
        let Node::Group(group) = self else { return 0 };
        let own_bytes: usize = match &group.strategy {
            GroupStrategy::Conditional { rules, .. } => {
                rules.iter().map(|(query, _)| query.pattern_bytes()).sum()
            }
            _ => 0,
        };
        own_bytes + group.members.iter().map(|member| member.node.pattern_bytes()).sum::<usize>()
    }
}
