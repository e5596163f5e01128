//! The compiled config as it is told: what is in force at each target, and nothing that is secret.
//!
//! Not the walk through it (`explain`).

use super::chance;
use crate::config::balance::BalanceBy;
use crate::config::rescue::{Hedge, StreamRescue};
use crate::config::strategy::Mode;
use crate::route::leaf::Leaf;
use crate::route::patience::Patience;
use crate::route::plan::{Plan, listed};
use crate::route::retry;
use crate::route::tree::{Branch, Choose, Group, Tree};
use crate::route::world::World;
use crate::state::targets::Standing;
use serde::Serialize;
use std::time::{Duration, Instant};

/// A target or a group of them.
#[derive(Debug, Serialize)]
pub struct Node {
    pub index: String,
    #[serde(flatten)]
    member: Option<Member>,
    #[serde(flatten)]
    what: What,
}

/// What it is to the group above it.
#[derive(Debug, Serialize)]
struct Member {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    /// US dollars per million tokens, in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chance: Option<f64>,
    /// What a fallback goes on at: a list, or `not_2xx`.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_status_codes: Option<Codes>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Codes {
    Listed(Vec<u16>),
    Usual(&'static str),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum What {
    Group(Box<Shared>),
    Target(Box<Target>),
}

/// A group.
#[derive(Debug, Serialize)]
struct Shared {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sticky_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hedge: Option<Hedged>,
    targets: Vec<Node>,
}

#[derive(Debug, Serialize)]
struct Condition {
    /// Keys and operators, without operands.
    asks: Vec<String>,
    holds: bool,
    then: String,
}

#[derive(Debug, Serialize)]
struct Hedged {
    after_ms: u64,
    max_extra_ratio: f64,
}

/// A target.
#[derive(Debug, Serialize)]
struct Target {
    provider: &'static str,
    slug: Option<String>,
    model: Option<String>,
    /// `None`: the operator's own.
    host: Option<String>,
    retry: Retry,
    time_limits: Limits,
    stream_rescue: &'static str,
    breaker: Option<Breaker>,
    latency_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Retry {
    attempts: u32,
    on_status_codes: Vec<u16>,
    use_retry_after_headers: bool,
    backoff_ms: u64,
    max_backoff_ms: u64,
    budget_ms: u64,
}

/// The limits in force, by whether another target is left to go to.
#[derive(Debug, Serialize)]
struct Limits {
    another_left: Waits,
    none_left: Waits,
}

/// Milliseconds; `None`: no limit.
#[derive(Debug, Serialize)]
struct Waits {
    connect_ms: u64,
    first_byte_ms: Option<u64>,
    first_token_ms: Option<u64>,
    gap_ms: Option<u64>,
    total_ms: Option<u64>,
    heartbeat_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Breaker {
    state: &'static str,
    failure_threshold: u32,
    cooldown_ms: u64,
    /// `None`: those above 500.
    failure_status_codes: Option<Vec<u16>>,
}

/// What a tree is told with.
pub(super) struct Showing<'a> {
    /// After its first choice.
    pub plan: &'a Plan,
    pub world: &'a dyn World,
    /// The settings' limit for a connection.
    pub connect: Duration,
    pub streamed: bool,
    pub now: Instant,
}

impl Showing<'_> {
    pub fn tree(&self, tree: &Tree) -> Node {
        self.node(tree.root(), None)
    }

    fn node(&self, branch: &Branch, member: Option<Member>) -> Node {
        let what = match branch {
            Branch::Leaf(leaf) => What::Target(Box::new(self.target(leaf))),
            Branch::Group(group) => What::Group(Box::new(self.group(group))),
        };
        Node { index: branch.index().to_owned(), member, what }
    }

    fn group(&self, group: &Group) -> Shared {
        let at = |child: usize| group.children.get(child).map(|child| child.branch.index().to_owned());
        let mut shown = Shared {
            mode: mode(&group.choose).as_str(),
            by: None,
            sticky_seconds: None,
            conditions: Vec::new(),
            default: None,
            hedge: group
                .hedge
                .map(|Hedge { after_ms, max_extra_ratio }| Hedged { after_ms, max_extra_ratio }),
            targets: Vec::with_capacity(group.children.len()),
        };
        let mut chances = None;
        match &group.choose {
            Choose::First | Choose::InOrder => {}
            Choose::Balance { by, sticky } => {
                shown.by = word(&BalanceBy::VARIANTS, by);
                shown.sticky_seconds = sticky.as_ref().map(|sticky| sticky.ttl);
                chances = Some(chance::chances(group, *by, self.plan, self.world));
            }
            Choose::Conditional { rules, default } => {
                shown.default = at(*default);
                shown.conditions = rules
                    .iter()
                    .map(|(query, child)| Condition {
                        asks: query.describe(),
                        holds: self.world.holds(query),
                        then: at(*child).unwrap_or_default(),
                    })
                    .collect();
            }
        }
        for (number, child) in group.children.iter().enumerate() {
            let chance = chances.as_ref().and_then(|chances| chances.get(number)).copied();
            let member = self.member(group, number, chance.map(chance::rounded));
            shown.targets.push(self.node(&child.branch, member));
        }
        shown
    }

    fn member(&self, group: &Group, number: usize, chance: Option<f64>) -> Option<Member> {
        let child = group.children.get(number)?;
        let codes = || match listed(group, number) {
            Some(list) => Codes::Listed(list.to_vec()),
            None => Codes::Usual("not_2xx"),
        };
        let balanced = matches!(group.choose, Choose::Balance { .. });
        Some(Member {
            name: child.name.clone(),
            weight: balanced.then_some(child.weight),
            price: Some(child.price).filter(|price| price.is_finite()),
            chance,
            on_status_codes: matches!(group.choose, Choose::InOrder).then(codes),
        })
    }

    fn target(&self, leaf: &Leaf) -> Target {
        let operators = leaf.slug.is_some() || (leaf.origin.trusted && leaf.account.custom_host.is_some());
        let retry::Rules { attempts, statuses, keeps_hints, backoff, max_backoff, budget } = &leaf.retry;
        let breaker = leaf.breaker.as_ref().map(|rules| Breaker {
            state: match self.world.standing(leaf) {
                Standing::Closed => "closed",
                Standing::HalfOpen => "half_open",
                Standing::Open { .. } => "open",
            },
            failure_threshold: rules.threshold,
            cooldown_ms: millis(rules.cooldown),
            failure_status_codes: rules.statuses.clone(),
        });
        Target {
            provider: leaf.provider.id(),
            slug: leaf.slug.clone(),
            model: leaf.model().map(str::to_owned),
            host: (!operators).then(|| leaf.origin.authority().to_owned()),
            retry: Retry {
                attempts: *attempts,
                on_status_codes: statuses.clone().unwrap_or_else(|| retry::STATUSES.to_vec()),
                use_retry_after_headers: *keeps_hints,
                backoff_ms: millis(*backoff),
                max_backoff_ms: millis(*max_backoff),
                budget_ms: millis(*budget),
            },
            time_limits: Limits { another_left: self.waits(leaf, true), none_left: self.waits(leaf, false) },
            stream_rescue: leaf
                .rescue
                .and_then(|rescue| word(&StreamRescue::VARIANTS, &rescue))
                .unwrap_or("resume"),
            breaker,
            latency_ms: self.world.latency(leaf).map(millis),
        }
    }

    fn waits(&self, leaf: &Leaf, has_other: bool) -> Waits {
        let patience = Patience::of(leaf, self.now, has_other, self.streamed);
        let connect = leaf.time_limits.connect.filter(|ms| *ms > 0);
        Waits {
            connect_ms: connect.unwrap_or_else(|| millis(self.connect)),
            first_byte_ms: patience.first_byte.map(millis),
            first_token_ms: patience.first_token.map(millis),
            gap_ms: patience.gap.map(millis),
            total_ms: patience.total.map(|at| millis(at.saturating_duration_since(self.now))),
            heartbeat_ms: patience.heartbeat.map(millis),
        }
    }
}

fn mode(choose: &Choose) -> Mode {
    match choose {
        Choose::First => Mode::Single,
        Choose::InOrder => Mode::Fallback,
        Choose::Balance { .. } => Mode::LoadBalance,
        Choose::Conditional { .. } => Mode::Conditional,
    }
}

fn word<T: PartialEq>(words: &[(&'static str, T)], of: &T) -> Option<&'static str> {
    words.iter().find(|(_, known)| known == of).map(|(word, _)| *word)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
