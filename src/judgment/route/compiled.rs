//! A compiled config: targets and the groups that choose among them. `compile` makes it, `plan` traverses it.
//!
//! Providers are resolved here, so later code never handles a provider as an `Option<String>`. Holds no state of a
//! request.

use super::prefix_choice::PrefixGroup;
use super::target::Target;
use memory::state::directory::SavedName;
use std::sync::Arc;
use words::config::balance::{BalanceBy, Sticky};
use words::config::failure_class::FailureClass;
use words::config::hedge::Hedge;
use words::config::pattern::PatternUse;
use words::config::policies::McpToolCaller;
use words::config::query::Query;

/// A compiled config: the root node and an index of its targets.
#[derive(Debug)]
pub struct CompiledConfig {
    root: Node,
    /// All targets, in the order of the config's text.
    targets: Vec<Arc<Target>>,
    /// Whether a strategy reads facts of the request.
    uses_facts: bool,
    /// Whether the beginning of the request decides anything.
    uses_prefix: bool,
    /// Whether a group chooses by what its members have to do.
    uses_load: bool,
    patterns: PatternUse,
    /// The saved config it was made of.
    saved: Option<SavedName>,
}

/// A target, or a group of nodes.
#[derive(Debug)]
pub enum Node {
    Target(Arc<Target>),
    Group(Box<TargetGroup>),
}

/// A group of members and the strategy that chooses among them.
#[derive(Debug)]
pub struct TargetGroup {
    /// Its place in the config, for example `config` or `config.targets[1]`.
    pub path: String,
    pub strategy: GroupStrategy,
    pub members: Vec<Member>,
    /// `strategy.on_status_codes`: the status codes after which the next member is tried; overrides the members'.
    pub on_status_codes: Option<Vec<u16>>,
    /// `strategy.on_errors`: the classes of failures after which the next member is tried.
    pub on_errors: Option<Vec<FailureClass>>,
    pub hedge: Option<Hedge>,
    /// Its members are the hosts of one provider, that were found.
    pub is_of_hosts: bool,
    /// Where members are at hosts that come and go: what tells each from the others, whatever its place in the list.
    pub marks: Option<Box<[u32]>>,
}

/// A member of a group.
#[derive(Debug)]
pub struct Member {
    pub node: Node,
    /// `name`, by which conditions refer to it.
    pub name: Option<String>,
    pub weight: f64,
    /// US dollars per million tokens, input and output together.
    pub price: f64,
    /// Its own `on_status_codes`, or else those of the group's config.
    pub on_status_codes: Option<Vec<u16>>,
    /// It is used after failures of these classes only. `None`: after any on which its group goes on.
    pub for_errors: Option<Vec<FailureClass>>,
}

/// How a group chooses a member.
#[derive(Debug)]
pub enum GroupStrategy {
    /// `single`: the first member only.
    Single,
    /// `fallback`: the members in order, until one succeeds.
    Fallback,
    /// `loadbalance`: one member only, or with `failover` one after the other, until one succeeds.
    /// `prefix`: present where it chooses by that.
    LoadBalance { by: BalanceBy, sticky: Option<Sticky>, failover: bool, prefix: Option<PrefixGroup> },
    /// `conditional`: the member of the first query that matches, or else the default.
    Conditional { rules: Vec<(Query, usize)>, default: usize },
}

impl CompiledConfig {
    pub fn new(root: Node, saved: Option<SavedName>) -> Self {
        let mut targets = Vec::new();
        root.collect(&mut targets);
        let uses_facts = root.uses_facts();
        let uses_prefix = root.uses_prefix();
        let uses_load = root.uses_load();
        let patterns = root.patterns();
        Self { root, targets, uses_facts, uses_prefix, uses_load, patterns, saved }
    }

    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The saved config it was made of; `None` for one in the request.
    pub fn saved(&self) -> Option<&SavedName> {
        self.saved.as_ref()
    }

    /// Whether the config is one target without retries, limits or breaker, so that no outcome changes the route.
    pub fn is_single_attempt(&self) -> bool {
        match &self.root {
            Node::Target(target) => target.has_no_policies(),
            Node::Group(_) => false,
        }
    }

    /// All targets, in the order of the config's text.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }

    /// Whether every target sets this member of the body. `is_sent`: the client sends it, so that no default is used.
    pub(crate) fn all_set(&self, name: &str, is_sent: bool) -> bool {
        self.targets.iter().all(|target| target.policies.sets_param(name, is_sent))
    }

    /// Whether a request may be sent more than once.
    pub fn may_repeat(&self) -> bool {
        self.targets.len() > 1 || self.targets.iter().any(|target| target.policies.retry().attempts > 0)
    }

    /// Whether hooks of a target decide over a request or its response.
    pub fn has_deciding_hooks(&self) -> bool {
        let hooks =
            self.targets.iter().flat_map(|target| target.hooks.request.iter().chain(&target.hooks.response));
        hooks.into_iter().any(|set| set.decides())
    }

    /// Counts what patterns in its hooks take, bytes.
    #[must_use]
    pub(crate) fn with_hook_bytes(mut self, bytes: usize) -> Self {
        self.patterns.bytes += bytes;
        self
    }

    /// The patterns in its conditions: their number, and an upper bound of the memory that they and those of its hooks take.
    pub fn patterns(&self) -> PatternUse {
        self.patterns
    }

    /// Whether a strategy reads the request's headers, metadata or parameters.
    pub fn uses_facts(&self) -> bool {
        self.uses_facts
    }

    /// Whether the beginning of the request decides anything: which member a group chooses, or how long a provider keeps a prompt.
    pub fn uses_prefix(&self) -> bool {
        self.uses_prefix
    }

    /// Whether the marks of a prompt are set for a time that depends on the pauses of its conversation.
    pub fn marks_by_use(&self) -> bool {
        self.targets.iter().any(|target| target.marks_by_use())
    }

    /// Whether the gateway also calls the MCP servers that a request names for its provider: all targets say so, since each round with the
    /// model may go to any of them.
    pub fn calls_all_mcp_servers(&self) -> bool {
        self.targets.iter().all(|target| target.policies.mcp_tools() == McpToolCaller::Gateway)
    }

    /// Whether a group chooses by what its members have to do.
    pub fn uses_load(&self) -> bool {
        self.uses_load
    }

    /// The group reached from the root by these member indexes, one per level.
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

impl TargetGroup {
    /// What is remembered of a member for a client: its mark, or else its place.
    pub fn mark_of(&self, member: usize) -> Option<u32> {
        match &self.marks {
            Some(marks) => marks.get(member).copied(),
            None => u32::try_from(member).ok(),
        }
    }

    /// The member of which this is remembered, if it is there.
    pub fn member_of(&self, mark: u32) -> Option<usize> {
        match &self.marks {
            Some(marks) => marks.iter().position(|own| *own == mark),
            None => usize::try_from(mark).ok(),
        }
    }

    /// What it has of its own where it chooses by the beginning of the request.
    pub(super) fn prefix(&self) -> Option<&PrefixGroup> {
        match &self.strategy {
            GroupStrategy::LoadBalance { prefix, .. } => prefix.as_ref(),
            _ => None,
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

    fn uses_prefix(&self) -> bool {
        let group = match self {
            Node::Target(target) => return target.marks_by_use(),
            Node::Group(group) => group,
        };
        group.prefix().is_some() || group.members.iter().any(|member| member.node.uses_prefix())
    }

    fn uses_load(&self) -> bool {
        let Node::Group(group) = self else { return false };
        matches!(
            &group.strategy,
            GroupStrategy::LoadBalance { by: BalanceBy::LeastBusy | BalanceBy::Prefix, .. }
        ) || group.members.iter().any(|member| member.node.uses_load())
    }

    fn patterns(&self) -> PatternUse {
        let Node::Group(group) = self else { return PatternUse::default() };
        let own = match &group.strategy {
            GroupStrategy::Conditional { rules, .. } => rules.iter().map(|(query, _)| query.patterns()).sum(),
            _ => PatternUse::default(),
        };
        group.members.iter().map(|member| member.node.patterns()).chain([own]).sum()
    }
}
