//! Who gets the next try, given what happened so far: the only place that knows fallback, balance,
//! conditions and breakers.
//!
//! Pure: outcomes come in, targets come out; what is known of the world is asked of a [`World`]. The driver
//! obeys. How often one target is asked is `retry`'s to say.

use super::leaf::Leaf;
use super::outcome::{ErrorClass, Outcome};
use super::pick;
use super::retry::{Again, Past};
use super::tree::{Branch, Choose, Group, Tree};
use super::world::World;
use crate::config::balance::BalanceBy;
use crate::state::targets::Standing;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to do now.
#[derive(Debug, Clone)]
pub enum Step {
    /// Try this target, after a wait.
    Try { leaf: Arc<Leaf>, wait: Duration, why: Why },
    /// What is at hand goes to the caller, whether answer or failure.
    Keep,
}

/// Why a target was chosen: told in the access line and by `explain`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Why {
    /// There is no other.
    #[default]
    Only,
    /// The first in order.
    First,
    /// The one before failed.
    Next,
    /// Drawn by weight.
    Weight,
    /// The quicker of two drawn by weight.
    Latency,
    Price,
    /// The same caller had it before.
    Sticky,
    /// Its condition, counted from 0, holds.
    Condition(usize),
    /// No condition holds.
    Default,
    /// All circuits are open; this is the least bad.
    LeastBad,
    /// The same again.
    Retry,
    /// The first attempt is slow.
    Hedge,
    /// It goes on in a stream that broke.
    Rescue,
}

/// The order of tries for one request.
#[derive(Debug)]
pub struct Plan {
    tree: Arc<Tree>,
    /// The groups on the way down to the target at hand.
    path: Vec<Frame>,
    current: Option<Arc<Leaf>>,
    /// Tries beyond the first of the target at hand.
    made: u32,
    exhausted: bool,
    waited: Duration,
    /// Every circuit was open when the request came.
    all_open: bool,
    /// Models the request is too long for.
    too_short: Vec<Option<String>>,
    /// The model the caller names.
    asked_model: Option<String>,
}

/// One group under way.
#[derive(Debug, Default)]
struct Frame {
    child: usize,
    tried: Vec<usize>,
    /// Why this group chose it first.
    why: Why,
}

impl Why {
    /// For the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Only => "only",
            Self::First => "first",
            Self::Next => "next",
            Self::Weight => "weight",
            Self::Latency => "latency",
            Self::Price => "price",
            Self::Sticky => "sticky",
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
    /// `asked_model`: what the caller names, for targets that do not set one.
    pub fn new(tree: Arc<Tree>, asked_model: Option<String>) -> Self {
        Self {
            tree,
            path: Vec::new(),
            current: None,
            made: 0,
            exhausted: false,
            waited: Duration::ZERO,
            all_open: false,
            too_short: Vec::new(),
            asked_model,
        }
    }

    /// The first target. `None` only of a tree without any, which `compile` does not make.
    pub fn first(&mut self, world: &mut dyn World) -> Option<(Arc<Leaf>, Why)> {
        let tree = Arc::clone(&self.tree);
        if let Branch::Leaf(leaf) = tree.root() {
            self.current = Some(Arc::clone(leaf));
            return Some((Arc::clone(leaf), Why::Only));
        }
        self.all_open = !self.is_usable(tree.root(), world);
        let (leaf, why) = self.descend(tree.root(), Why::Only, world)?;
        self.current = Some(Arc::clone(&leaf));
        Some((leaf, why))
    }

    /// What comes after `outcome` of the target at hand.
    pub fn next(&mut self, outcome: &Outcome, world: &mut dyn World) -> Step {
        let Some(leaf) = self.current.clone() else { return Step::Keep };
        let has_other = self.goes_anywhere(world, &|group, child| goes_on(group, child, outcome));
        let past = Past { has_other, ..self.past(world) };
        // Its circuit may have opened with this very failure.
        let closed = !has_other || !matches!(world.standing(&leaf), Standing::Open { .. });
        if closed && (!outcome.is_good() || leaf.retry.statuses.is_some()) {
            match leaf.retry.again(outcome, past, world.draw()) {
                Again::After(wait) => {
                    self.made += 1;
                    self.waited = self.waited.saturating_add(wait);
                    return Step::Try { leaf, wait, why: Why::Retry };
                }
                Again::Exhausted => self.exhausted = true,
                Again::Useless => {}
            }
        }
        if matches!(outcome, Outcome::Answered { said: ErrorClass::ContextTooLong, .. }) {
            self.too_short.push(self.model_of(&leaf));
        }
        match self.other(outcome, world) {
            Some((leaf, why)) => {
                self.current = Some(Arc::clone(&leaf));
                self.made = 0;
                self.exhausted = false;
                Step::Try { leaf, wait: Duration::ZERO, why }
            }
            None => Step::Keep,
        }
    }

    /// Another target for a hedge, beside the one at hand, which stays at hand. `None` where there is none.
    pub fn beside(&mut self, world: &mut dyn World) -> Option<Arc<Leaf>> {
        let (child, depth) = self.sibling(world)?;
        let tree = Arc::clone(&self.tree);
        let group = tree.group(self.path.iter().take(depth).map(|frame| frame.child))?;
        let kept = std::mem::take(&mut self.path);
        let found = self.descend(&group.children.get(child)?.branch, Why::Hedge, world);
        self.path = kept;
        if let Some(frame) = self.path.get_mut(depth) {
            frame.tried.push(child);
        }
        found.map(|(leaf, _)| leaf)
    }

    /// Whether there is a target for a hedge.
    pub fn can_hedge(&self, world: &dyn World) -> bool {
        self.sibling(world).is_some()
    }

    /// After a hedge won: what is at hand now.
    pub fn took(&mut self, leaf: &Arc<Leaf>) {
        self.current = Some(Arc::clone(leaf));
        self.made = 0;
    }

    /// Whether another target is left to go to from the one at hand.
    pub fn has_other(&self, world: &dyn World) -> bool {
        self.goes_anywhere(world, &|group, child| listed(group, child).is_none_or(|list| !list.is_empty()))
    }

    /// Whether a fallback that goes on has somewhere to go.
    fn goes_anywhere(&self, world: &dyn World, goes_on: &dyn Fn(&Group, usize) -> bool) -> bool {
        self.groups().any(|(group, frame)| {
            matches!(group.choose, Choose::InOrder)
                && goes_on(group, frame.child)
                && self.untried(group, frame, world).next().is_some()
        })
    }

    /// Whether any further try could follow a failure of the one at hand.
    pub fn has_more(&self, world: &dyn World) -> bool {
        let repeats = self.current.as_ref().is_some_and(|leaf| self.made < leaf.retry.attempts);
        repeats || self.has_other(world)
    }

    /// `hedge` of the nearest group that has one.
    pub fn hedge(&self) -> Option<crate::config::rescue::Hedge> {
        self.groups().filter_map(|(group, _)| group.hedge).last()
    }

    /// Retries of the target at hand (`x-gateway-retry-attempt-count`); -1 when they were used up, or could
    /// not be made.
    pub fn retries(&self) -> i32 {
        if self.exhausted { -1 } else { i32::try_from(self.made).unwrap_or(i32::MAX) }
    }

    /// Whether the config has more than one attempt in it, made already or not.
    pub fn is_careful(&self) -> bool {
        self.tree.may_repeat()
    }

    /// Whether every circuit was open when the request came.
    pub fn all_were_open(&self) -> bool {
        self.all_open
    }

    /// What was done so far, for the target at hand.
    pub(super) fn past(&self, world: &dyn World) -> Past {
        Past { made: self.made, waited: self.waited, has_other: self.has_other(world) }
    }

    /// The groups on the way down to the target at hand, outermost first, each with the child it chose and why.
    pub(super) fn choices(&self) -> impl Iterator<Item = (&Group, usize, Why)> {
        self.groups().map(|(group, frame)| (group, frame.child, frame.why))
    }

    /// The groups under way, outermost first.
    fn groups(&self) -> impl Iterator<Item = (&Group, &Frame)> {
        self.path.iter().enumerate().filter_map(|(depth, frame)| {
            let path = self.path.iter().take(depth).map(|frame| frame.child);
            Some((self.tree.group(path)?, frame))
        })
    }

    /// The next target of the innermost group that goes on at `outcome`.
    fn other(&mut self, outcome: &Outcome, world: &mut dyn World) -> Option<(Arc<Leaf>, Why)> {
        let tree = Arc::clone(&self.tree);
        while let Some(mut frame) = self.path.pop() {
            let group = tree.group(self.path.iter().map(|frame| frame.child))?;
            if !matches!(group.choose, Choose::InOrder) || !goes_on(group, frame.child, outcome) {
                continue;
            }
            let next = self.in_order(group, &frame, world);
            let Some(child) = next else { continue };
            frame.child = child;
            frame.tried.push(child);
            self.path.push(frame);
            let branch = &group.children.get(child)?.branch;
            return self.descend(branch, Why::Next, world);
        }
        None
    }

    /// The child a hedge goes to, and the depth of its group.
    fn sibling(&self, world: &dyn World) -> Option<(usize, usize)> {
        let mut found = None;
        for (depth, (group, frame)) in self.groups().enumerate() {
            let weighs = |child: &usize| {
                let weight = group.children.get(*child).map_or(0.0, |child| child.weight);
                matches!(group.choose, Choose::InOrder) || weight > 0.0
            };
            if matches!(group.choose, Choose::InOrder | Choose::Balance { .. })
                && let Some(child) = self.untried(group, frame, world).find(weighs)
            {
                found = Some((child, depth));
            }
        }
        found
    }

    /// Goes down to a target, choosing in every group on the way.
    fn descend(&mut self, branch: &Branch, why: Why, world: &mut dyn World) -> Option<(Arc<Leaf>, Why)> {
        let (mut branch, mut why) = (branch, why);
        loop {
            let group = match branch {
                Branch::Leaf(leaf) => return Some((Arc::clone(leaf), why)),
                Branch::Group(group) => group,
            };
            let (child, reason) = self.choose(group, world);
            why = match (why, reason) {
                (Why::Next | Why::Hedge, Why::First | Why::Only) => why,
                (_, Why::Only) => why,
                (_, reason) => reason,
            };
            self.path.push(Frame { child, tried: vec![child], why: reason });
            branch = &group.children.get(child)?.branch;
        }
    }

    /// A group's first choice.
    fn choose(&self, group: &Group, world: &mut dyn World) -> (usize, Why) {
        match &group.choose {
            Choose::First => (0, Why::Only),
            Choose::Conditional { rules, default } => {
                let held = rules.iter().position(|(query, _)| world.holds(query));
                match held.and_then(|at| Some((rules.get(at)?.1, Why::Condition(at)))) {
                    Some(choice) => choice,
                    None => (*default, Why::Default),
                }
            }
            Choose::InOrder => {
                let choice = self.in_order(group, &Frame::default(), world);
                let why = if self.all_open { Why::LeastBad } else { Why::First };
                (choice.unwrap_or(0), why)
            }
            Choose::Balance { by, sticky } => {
                if let Some(sticky) = sticky
                    && let Some(child) = world.stuck(group, sticky)
                    && group.children.get(child).is_some_and(|child| self.is_usable(&child.branch, world))
                {
                    return (child, Why::Sticky);
                }
                let choice = self.balance(group, *by, world);
                if let Some(sticky) = sticky {
                    world.stick(group, sticky, choice.0);
                }
                choice
            }
        }
    }

    /// The next untried child in order; of circuits that are all open the least bad.
    fn in_order(&self, group: &Group, frame: &Frame, world: &dyn World) -> Option<usize> {
        let mut untried = self.untried(group, frame, world);
        if !self.all_open {
            return untried.next();
        }
        untried
            .min_by_key(|child| group.children.get(*child).and_then(|child| open_since(&child.branch, world)))
    }

    fn untried<'a>(
        &'a self,
        group: &'a Group,
        frame: &'a Frame,
        world: &'a dyn World,
    ) -> impl Iterator<Item = usize> + 'a {
        let free = move |index: &usize| !frame.tried.contains(index);
        (0..group.children.len()).filter(free).filter(move |index| {
            group.children.get(*index).is_some_and(|child| self.is_usable(&child.branch, world))
        })
    }

    fn balance(&self, group: &Group, by: BalanceBy, world: &mut dyn World) -> (usize, Why) {
        let weights: Vec<f64> = group.children.iter().map(|child| child.weight).collect();
        let draws = [world.draw(), world.draw()];
        let standing: Vec<bool> =
            group.children.iter().map(|child| self.is_usable(&child.branch, world)).collect();
        let usable = |index: usize| standing.get(index).copied().unwrap_or_default();
        let choice = match by {
            BalanceBy::Weight => {
                pick::weighted(&weights, &usable, draws[0]).map(|child| (child, Why::Weight))
            }
            BalanceBy::Price => {
                let prices: Vec<f64> = group.children.iter().map(|child| child.price).collect();
                pick::cheapest(&prices, &usable, draws[0]).map(|child| (child, Why::Price))
            }
            BalanceBy::LeastLatency => {
                pick::two_of(&weights, &usable, draws[0], draws[1]).map(|(one, other)| {
                    let quick =
                        |child: usize| group.children.get(child).map(|child| latency(&child.branch, world));
                    match other.filter(|other| quick(*other) < quick(one)) {
                        Some(other) => (other, Why::Latency),
                        None => (one, Why::Latency),
                    }
                })
            }
        };
        // Nothing usable: the circuits below are open, and this group was chosen all the same.
        choice.unwrap_or_else(|| {
            let weighty = group.children.iter().enumerate().filter(|(_, child)| child.weight > 0.0);
            let least = weighty.min_by_key(|(_, child)| open_since(&child.branch, world));
            (least.map_or(0, |(index, _)| index), Why::LeastBad)
        })
    }

    /// Whether a target below may be asked at all.
    pub(super) fn is_usable(&self, branch: &Branch, world: &dyn World) -> bool {
        match branch {
            Branch::Leaf(leaf) => {
                let closed = self.all_open || !matches!(world.standing(leaf), Standing::Open { .. });
                closed && (self.too_short.is_empty() || !self.too_short.contains(&self.model_of(leaf)))
            }
            // Only what would be chosen counts.
            Branch::Group(group) => match &group.choose {
                Choose::Conditional { rules, default } => {
                    let held = rules.iter().find(|(query, _)| world.holds(query));
                    let child = group.children.get(held.map_or(*default, |(_, child)| *child));
                    child.is_some_and(|child| self.is_usable(&child.branch, world))
                }
                _ => group.children.iter().any(|child| self.is_usable(&child.branch, world)),
            },
        }
    }

    fn model_of(&self, leaf: &Leaf) -> Option<String> {
        leaf.model().map(str::to_owned).or_else(|| self.asked_model.clone())
    }
}

/// The list that decides about a child: the strategy's, or else the child's own, or else the group's.
pub(super) fn listed(group: &Group, child: usize) -> Option<&[u16]> {
    let own = || group.children.get(child).and_then(|child| child.on_status_codes.as_deref());
    group.on_status_codes.as_deref().or_else(own)
}

/// Whether a fallback goes on after `outcome` of a child.
fn goes_on(group: &Group, child: usize, outcome: &Outcome) -> bool {
    match (listed(group, child), outcome) {
        (Some(list), Outcome::Answered { status, .. } | Outcome::Unfit(status)) => list.contains(status),
        // A list is of statuses; where there was none, only the empty one forbids to go on.
        (Some(list), _) => !list.is_empty(),
        (None, Outcome::Answered { said: ErrorClass::ContentFiltered, .. }) => false,
        (None, outcome) => !outcome.is_good(),
    }
}

/// Since when the circuits below are open; the longest comes first. `None` where one is not.
fn open_since(branch: &Branch, world: &dyn World) -> Option<Instant> {
    match branch {
        Branch::Leaf(leaf) => match world.standing(leaf) {
            Standing::Open { since } => Some(since),
            _ => None,
        },
        Branch::Group(group) => {
            group.children.iter().map(|child| open_since(&child.branch, world)).min().flatten()
        }
    }
}

/// The quickest first token below; what was never asked counts as quick, so that it is.
pub(super) fn latency(branch: &Branch, world: &dyn World) -> Duration {
    match branch {
        Branch::Leaf(leaf) => world.latency(leaf).unwrap_or_default(),
        Branch::Group(group) => {
            let below = group.children.iter().map(|child| latency(&child.branch, world));
            below.min().unwrap_or_default()
        }
    }
}
