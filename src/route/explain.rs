//! What would become of a request, told without sending it: problems, the compiled config, the first choice and
//! why, and what would follow each sort of failure.
//!
//! Pure, as all of this room. Asks the same plan, attempt and limits as the driver, so that it cannot tell
//! another story. Never a key, a header's value or text of the body. Not how the question is asked (`control`).

mod chance;
mod shown;

#[cfg(test)]
mod tests;

use super::attempt::{Attempt, Request};
use super::compile::{Sources, compile};
use super::leaf::Leaf;
use super::outcome::{ErrorClass, Outcome};
use super::plan::{Plan, Step, Why};
use super::retry::Again;
use super::tree::{Branch, Choose, Group, Tree};
use super::world::World;
use crate::api::operation::Operation;
use crate::config::balance::{BalanceBy, Sticky};
use crate::config::query::Query;
use crate::config::rescue::StreamRescue;
use crate::error::Error;
use crate::state::targets::Standing;
use serde::Serialize;
use shown::{Node, Showing};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Steps told of one walk at most.
const MOST_STEPS: usize = 100;

/// The whole story; `docs/control.md` says what the fields are.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// What the caller would be refused for; empty where nothing is wrong.
    pub problems: Vec<Flaw>,
    pub operation: &'static str,
    /// What the config is called in metrics and on the control port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<First>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Sent>,
    /// What follows when every attempt ends in the same way.
    pub then: Vec<Walk>,
}

/// Something the caller would be refused for.
#[derive(Debug, Serialize)]
pub struct Flaw {
    /// HTTP status of the answer.
    pub status: u16,
    /// Path in the config, field of the body, or header; empty where none is to blame.
    pub path: String,
    pub message: String,
}

/// The first choice.
#[derive(Debug, Serialize)]
pub struct First {
    pub index: String,
    pub why: &'static str,
    /// A sentence for each group on the way down.
    pub because: Vec<String>,
}

/// What the first target would be sent.
#[derive(Debug, Serialize)]
pub struct Sent {
    pub index: String,
    /// Path and query, without the values of the caller's own query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The answer is put into the caller's words.
    pub translated: bool,
    /// `as_written`, `changed`, or `none`.
    pub body: &'static str,
    /// A token or a signature must be had first.
    pub signed: bool,
    /// `direct`, `orchestrated`, or `local` where nobody need be asked.
    pub way: &'static str,
    pub warnings: Vec<String>,
    /// Why it cannot be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Flaw>,
}

/// One sort of failure, again and again.
#[derive(Debug, Serialize)]
pub struct Walk {
    pub when: &'static str,
    /// The tries after the first one. After the last the caller gets what is at hand.
    pub tries: Vec<Try>,
    /// There are more than are told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// One further try.
#[derive(Debug, Serialize)]
pub struct Try {
    pub index: String,
    pub why: &'static str,
    /// Least and most, milliseconds; absent where there is no wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<(u64, u64)>,
}

impl Explained {
    /// A request that goes nowhere.
    pub fn nothing(operation: Operation) -> Self {
        Self {
            problems: Vec::new(),
            operation: operation.label(),
            config: None,
            tree: None,
            first: None,
            request: None,
            then: Vec::new(),
        }
    }
}

impl Flaw {
    /// What an error tells: each problem of a config by itself.
    pub fn of(error: &Error) -> Vec<Self> {
        let status = error.status();
        if error.problems.is_empty() {
            let path = error.param.clone().unwrap_or_default();
            return vec![Self { status, path, message: error.message.clone() }];
        }
        let of = |problem: &crate::error::Problem| Self {
            status,
            path: problem.path.clone(),
            message: problem.message.clone(),
        };
        error.problems.iter().map(of).collect()
    }
}

/// A world in which chance falls in the middle, and which nothing is written to.
struct Middle<'w>(&'w dyn World);

const MIDDLE: f64 = 0.5;

impl World for Middle<'_> {
    fn draw(&mut self) -> f64 {
        MIDDLE
    }

    fn standing(&self, leaf: &Leaf) -> Standing {
        self.0.standing(leaf)
    }

    fn latency(&self, leaf: &Leaf) -> Option<Duration> {
        self.0.latency(leaf)
    }

    fn holds(&self, query: &Query) -> bool {
        self.0.holds(query)
    }

    fn stuck(&self, group: &Group, sticky: &Sticky) -> Option<usize> {
        self.0.stuck(group, sticky)
    }

    fn stick(&self, _: &Group, _: &Sticky, _: usize) {}
}

/// Tells what would become of `request`. Where chance decides it falls in the middle.
pub fn explain(sources: &Sources<'_>, request: &Request, world: &dyn World, now: Instant) -> Explained {
    let mut explained = Explained::nothing(request.operation);
    let tree = match compile(sources) {
        Ok(tree) => Arc::new(tree),
        Err(error) => {
            explained.problems = Flaw::of(&error);
            return explained;
        }
    };
    if let Err(error) = request.check(&tree) {
        explained.problems = Flaw::of(&error);
    }
    explained.config = tree.leaves().first().map(|leaf| leaf.identity.config.clone());
    let mut world = Middle(world);
    let mut plan = Plan::new(Arc::clone(&tree), request.model.clone());
    let Some((leaf, why)) = plan.first(&mut world) else { return explained };
    let showing = Showing {
        plan: &plan,
        world: &world,
        connect: sources.settings.limits.connect_timeout,
        streamed: request.is_streamed(),
        now,
    };
    explained.tree = Some(showing.tree(&tree));
    let because = plan.choices().map(|(group, child, why)| because(group, child, why, &plan, &world));
    let mut because: Vec<String> = because.collect();
    if because.is_empty() {
        because.push(format!("{}: the only target", leaf.index));
    }
    explained.first = Some(First { index: leaf.index.clone(), why: why.word(), because });
    let sent = sent(&leaf, &tree, request);
    let unfit = sent.error.as_ref().map(|error| error.status);
    explained.request = Some(sent);
    explained.then = outcomes(unfit)
        .into_iter()
        .filter_map(|(when, of)| walk(when, of, &tree, request, &mut world))
        .collect();
    explained
}

/// The sorts of failure that are told of.
fn outcomes(unfit: Option<u16>) -> Vec<(&'static str, Outcome)> {
    let said = |said| Outcome::Answered { status: 400, said, wait: None };
    let mut outcomes = vec![
        ("429", Outcome::answered(429)),
        ("500", Outcome::answered(500)),
        ("400", Outcome::answered(400)),
        ("timeout", Outcome::Silent),
        ("reset", Outcome::Broken),
        ("cut", Outcome::Cut),
        ("too_long", said(ErrorClass::ContextTooLong)),
        ("refused", said(ErrorClass::ContentFiltered)),
    ];
    outcomes.extend(unfit.map(|status| ("cannot_be_made", Outcome::Unfit(status))));
    outcomes
}

/// A fresh plan, and what it does when every attempt comes to `outcome`. `None`: that cannot happen here.
fn walk(
    when: &'static str,
    outcome: Outcome,
    tree: &Arc<Tree>,
    request: &Request,
    world: &mut Middle<'_>,
) -> Option<Walk> {
    let cut = outcome == Outcome::Cut;
    if cut && !request.is_streamed() {
        return None;
    }
    let mut plan = Plan::new(Arc::clone(tree), request.model.clone());
    let (mut at, _) = plan.first(world)?;
    let mut walk = Walk { when, tries: Vec::new(), more: false };
    loop {
        if cut && at.rescue.is_some_and(|rescue| rescue != StreamRescue::Resume) {
            return Some(walk);
        }
        let range = range(&plan, &at, &outcome, world);
        let Step::Try { leaf, why, .. } = plan.next(&outcome, world) else { return Some(walk) };
        if walk.tries.len() >= MOST_STEPS {
            walk.more = true;
            return Some(walk);
        }
        let wait_ms = if why == Why::Retry { range } else { None };
        walk.tries.push(Try { index: leaf.index.clone(), why: why.word(), wait_ms });
        at = leaf;
    }
}

/// The least and the most a retry would wait, milliseconds.
fn range(plan: &Plan, leaf: &Leaf, outcome: &Outcome, world: &dyn World) -> Option<(u64, u64)> {
    let past = plan.past(world);
    let millis = |wait: Duration| wait.as_millis() as u64;
    let Again::After(least) = leaf.retry.again(outcome, past, 0.0) else { return None };
    let most = match leaf.retry.again(outcome, past, 1.0) {
        Again::After(wait) => wait,
        // Longer ones are not made.
        _ => leaf.retry.budget.saturating_sub(past.waited),
    };
    Some((millis(least), millis(most)))
}

/// What the first attempt would be.
fn sent(leaf: &Arc<Leaf>, tree: &Tree, request: &Request) -> Sent {
    let index = leaf.index.clone();
    let attempt = match Attempt::new(Arc::clone(leaf), request) {
        Ok(attempt) => attempt,
        Err(error) => {
            return Sent {
                index,
                path: None,
                translated: false,
                body: "none",
                signed: false,
                way: "none",
                warnings: Vec::new(),
                error: Flaw::of(&error).into_iter().next(),
            };
        }
    };
    let body = match (&attempt.body, attempt.body_changed) {
        (None, _) => "none",
        (Some(_), true) => "changed",
        (Some(_), false) => "as_written",
    };
    // A websocket has no other way.
    let upgrades = request.operation == Operation::Realtime && attempt.translation.is_none();
    let way = match upgrades || tree.is_plain() && attempt.goes_direct(request) {
        _ if attempt.local.is_some() => "local",
        true => "direct",
        false => "orchestrated",
    };
    Sent {
        index,
        path: attempt.local.is_none().then(|| without_values(&attempt.path, request.uri.query())),
        translated: attempt.translation.is_some(),
        body,
        signed: attempt.is_signed(),
        way,
        warnings: attempt.warnings,
        error: None,
    }
}

/// A path whose query keeps its names, and the values the caller did not write: theirs may be keys.
fn without_values(path: &str, asked: Option<&str>) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().to_owned();
    let theirs: Vec<String> = asked.unwrap_or_default().split('&').map(name).collect();
    let told = query.split('&').map(|pair| match theirs.contains(&name(pair)) {
        true if pair.contains('=') => format!("{}=...", name(pair)),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", told.collect::<Vec<_>>().join("&"))
}

/// Why a group chose this child, in a sentence.
fn because(group: &Group, child: usize, why: Why, plan: &Plan, world: &dyn World) -> String {
    let at = |child: usize| group.children.get(child).map_or("", |child| child.branch.index());
    let sentence = match (why, &group.choose) {
        (Why::Condition(number), Choose::Conditional { rules, .. }) => {
            let asks = rules.get(number).map(|(query, _)| query.describe().join(", ")).unwrap_or_default();
            format!("condition {number} holds: {asks}")
        }
        (Why::Default, _) => "no condition holds".to_owned(),
        (Why::LeastBad, _) => "every circuit is open, and this one has been for longest".to_owned(),
        (Why::Sticky, _) => "the same caller had it before".to_owned(),
        (Why::Weight, _) => {
            let chance = chance::chances(group, BalanceBy::Weight, plan, world).get(child).copied();
            format!("drawn by weight: {} of 1", chance::rounded(chance.unwrap_or_default()))
        }
        (Why::Price, _) => {
            let price = group.children.get(child).map_or(0.0, |child| child.price);
            format!("the lowest price: {price} US dollars per million tokens, in and out")
        }
        (Why::Latency, _) => latency(group, child, plan, world),
        (Why::First, _) => match group.children.iter().take(child).map(|child| child.branch.index()) {
            skipped if skipped.len() == 0 => "the first in order".to_owned(),
            skipped => {
                let skipped: Vec<&str> = skipped.collect();
                format!("the first in order; {} skipped: its circuit is open", skipped.join(", "))
            }
        },
        _ => "single takes the first target".to_owned(),
    };
    format!("{}: {}: {sentence}", group.index, at(child))
}

/// The two that were drawn, and what was measured of them.
fn latency(group: &Group, child: usize, plan: &Plan, world: &dyn World) -> String {
    let told = |child: usize| {
        let branch = group.children.get(child).map(|child| &child.branch);
        match branch.map(|branch| super::plan::latency(branch, world)).filter(|time| !time.is_zero()) {
            Some(time) => format!("{} ms", time.as_millis()),
            None => "nothing measured of late".to_owned(),
        }
    };
    match chance::pair(group, plan, world) {
        Some((one, Some(other))) => {
            let loser = if child == one { other } else { one };
            let index = group.children.get(loser).map_or("", |child| child.branch.index());
            format!("the quicker of two drawn by weight: {} against {} of {index}", told(child), told(loser))
        }
        _ => "the only one that can be drawn".to_owned(),
    }
}

impl Branch {
    /// Where it stands in the config.
    fn index(&self) -> &str {
        match self {
            Branch::Leaf(leaf) => &leaf.index,
            Branch::Group(group) => &group.index,
        }
    }
}
