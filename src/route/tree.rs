//! A compiled config: targets and the groups that choose among them. `compile` makes it, a plan walks it.
//!
//! Nothing behind it sees an `Option<String>` that should be a provider. Holds no state of a request.

use super::leaf::Leaf;
use crate::config::balance::{BalanceBy, Sticky};
use crate::config::query::Query;
use crate::config::rescue::Hedge;
use std::sync::Arc;

/// A config, compiled.
#[derive(Debug)]
pub struct Tree {
    root: Branch,
    /// Every target, in reading order.
    leaves: Vec<Arc<Leaf>>,
    /// A strategy asks for facts of the request.
    asks_facts: bool,
}

/// A target, or a group of them.
#[derive(Debug)]
pub enum Branch {
    Leaf(Arc<Leaf>),
    Group(Box<Group>),
}

/// A config with targets.
#[derive(Debug)]
pub struct Group {
    /// Where it stands: `config`, `config.targets[1]`.
    pub index: String,
    pub choose: Choose,
    pub children: Vec<Child>,
    /// `strategy.on_status_codes`: what it goes on at, whatever a child says.
    pub on_status_codes: Option<Vec<u16>>,
    pub hedge: Option<Hedge>,
}

/// A member of a group.
#[derive(Debug)]
pub struct Child {
    pub branch: Branch,
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
pub enum Choose {
    /// `single`: the first, and no other.
    First,
    /// `fallback`: one after the other.
    InOrder,
    /// `loadbalance`: one of them, and no other.
    Balance { by: BalanceBy, sticky: Option<Sticky> },
    /// `conditional`: the one whose query holds first, or else the default.
    Conditional { rules: Vec<(Query, usize)>, default: usize },
}

impl Tree {
    pub fn new(root: Branch) -> Self {
        let mut leaves = Vec::new();
        root.collect(&mut leaves);
        let asks_facts = root.asks_facts();
        Self { root, leaves, asks_facts }
    }

    pub fn root(&self) -> &Branch {
        &self.root
    }

    /// Whether one target and one try is all there is: nothing could change our mind.
    pub fn is_plain(&self) -> bool {
        match &self.root {
            Branch::Leaf(leaf) => leaf.is_plain(),
            Branch::Group(_) => false,
        }
    }

    /// Every target, in reading order.
    pub fn leaves(&self) -> &[Arc<Leaf>] {
        &self.leaves
    }

    /// Whether every target sets this member of the body.
    pub fn all_set(&self, name: &str) -> bool {
        let sets = |leaf: &Arc<Leaf>| leaf.override_params.iter().any(|(known, _)| known == name);
        self.leaves.iter().all(sets)
    }

    /// Whether a request may be sent more than once.
    pub fn may_repeat(&self) -> bool {
        self.leaves.len() > 1 || self.leaves.iter().any(|leaf| leaf.retry.attempts > 0)
    }

    /// Bytes its conditions' patterns take at most.
    pub fn pattern_bytes(&self) -> usize {
        self.root.pattern_bytes()
    }

    /// Whether a strategy asks for the request's headers, metadata or parameters.
    pub fn asks_facts(&self) -> bool {
        self.asks_facts
    }

    /// The group at the end of `path`, the children chosen on the way down.
    pub fn group(&self, path: impl Iterator<Item = usize>) -> Option<&Group> {
        let mut branch = &self.root;
        for child in path {
            let Branch::Group(group) = branch else { return None };
            branch = &group.children.get(child)?.branch;
        }
        match branch {
            Branch::Group(group) => Some(group),
            Branch::Leaf(_) => None,
        }
    }
}

impl Branch {
    fn collect(&self, into: &mut Vec<Arc<Leaf>>) {
        match self {
            Branch::Leaf(leaf) => into.push(Arc::clone(leaf)),
            Branch::Group(group) => group.children.iter().for_each(|child| child.branch.collect(into)),
        }
    }

    fn asks_facts(&self) -> bool {
        let Branch::Group(group) = self else { return false };
        matches!(&group.choose, Choose::Conditional { .. } | Choose::Balance { sticky: Some(_), .. })
            || group.children.iter().any(|child| child.branch.asks_facts())
    }

    fn pattern_bytes(&self) -> usize {
        let Branch::Group(group) = self else { return 0 };
        let own: usize = match &group.choose {
            Choose::Conditional { rules, .. } => rules.iter().map(|(query, _)| query.pattern_bytes()).sum(),
            _ => 0,
        };
        own + group.children.iter().map(|child| child.branch.pattern_bytes()).sum::<usize>()
    }
}
