//! The compiled config as an explanation shows it: the policies in force at each target, and nothing secret.
//!
//! Not here: the attempts that would be made (`explain`).

use super::probability;
use crate::route::compiled::{CompiledConfig, GroupStrategy, Node, TargetGroup};
use crate::route::continuation;
use crate::route::env::RoutingEnv;
use crate::route::plan::Plan;
use crate::route::target::Target;
use memory::state::targets::CircuitStatus;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::time::Duration;
use words::config::balance::BalanceBy;
use words::config::failure_class::FailureClass;
use words::config::hedge::Hedge;
use words::config::policies::DescribeContext;
use words::config::strategy::Mode;

/// A target or a group of them.
#[derive(Debug, Serialize)]
pub struct NodeView {
    pub index: String,
    #[serde(flatten)]
    member: Option<MemberView>,
    #[serde(flatten)]
    what: NodeDetail,
}

/// What a group's config says about one of its members.
#[derive(Debug, Serialize)]
struct MemberView {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<f64>,
    /// US dollars per million tokens, input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chance: Option<f64>,
    /// The statuses on which a group falls back: a list, or `not_2xx`.
    #[serde(skip_serializing_if = "Option::is_none")]
    on_status_codes: Option<StatusCodes>,
    /// The classes of failures after which alone it is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    for_errors: Option<Vec<&'static str>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum StatusCodes {
    Listed(Vec<u16>),
    Default(&'static str),
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum NodeDetail {
    Group(Box<GroupDetail>),
    TargetDetail(Box<TargetDetail>),
}

/// A group.
#[derive(Debug, Serialize)]
struct GroupDetail {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sticky_seconds: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    failover: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_errors: Option<Vec<&'static str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<ConditionView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hedge: Option<HedgeView>,
    targets: Vec<NodeView>,
}

#[derive(Debug, Serialize)]
struct ConditionView {
    /// Keys and operators, without operands.
    asks: Vec<String>,
    holds: bool,
    then: String,
}

#[derive(Debug, Serialize)]
struct HedgeView {
    after_ms: u64,
    max_extra_ratio: f64,
}

/// A target.
#[derive(Debug, Serialize)]
struct TargetDetail {
    provider: &'static str,
    slug: Option<String>,
    model: Option<String>,
    /// `None`: the operator's own host.
    host: Option<String>,
    #[serde(flatten)]
    policies: PoliciesView,
    latency_ms: Option<u64>,
}

/// The policies in force, by their names in the explanation.
#[derive(Debug)]
struct PoliciesView(Vec<(&'static str, Value)>);

impl Serialize for PoliciesView {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Builds the view of a compiled config.
pub(super) struct ViewBuilder<'a> {
    /// A plan that has made its first choice.
    pub plan: &'a Plan,
    pub env: &'a dyn RoutingEnv,
    /// The connect timeout of the settings.
    pub connect_timeout: Duration,
}

impl ViewBuilder<'_> {
    pub fn tree(&self, config: &CompiledConfig) -> NodeView {
        self.node(config.root(), None)
    }

    fn node(&self, node: &Node, member: Option<MemberView>) -> NodeView {
        let what = match node {
            Node::Target(target) => NodeDetail::TargetDetail(Box::new(self.target(target))),
            Node::Group(group) => NodeDetail::Group(Box::new(self.group(group))),
        };
        NodeView { index: node.path().to_owned(), member, what }
    }

    fn group(&self, group: &TargetGroup) -> GroupDetail {
        let at = |child: usize| group.members.get(child).map(|child| child.node.path().to_owned());
        let mut view = GroupDetail {
            mode: mode(&group.strategy).as_str(),
            by: None,
            sticky_seconds: None,
            failover: false,
            on_errors: names(group.on_errors.as_deref()),
            conditions: Vec::new(),
            default: None,
            hedge: group
                .hedge
                .map(|Hedge { after_ms, max_extra_ratio }| HedgeView { after_ms, max_extra_ratio }),
            targets: Vec::with_capacity(group.members.len()),
        };
        let mut chances = None;
        match &group.strategy {
            GroupStrategy::Single | GroupStrategy::Fallback => {}
            GroupStrategy::LoadBalance { by, sticky, failover, .. } => {
                view.failover = *failover;
                view.by = name_in_table(&BalanceBy::VARIANTS, by);
                view.sticky_seconds = sticky.as_ref().map(|sticky| sticky.ttl);
                chances = Some(probability::probabilities(group, *by, self.plan, self.env));
            }
            GroupStrategy::Conditional { rules, default } => {
                view.default = at(*default);
                view.conditions = rules
                    .iter()
                    .map(|(query, index)| ConditionView {
                        asks: query.describe(),
                        holds: self.env.matches(query),
                        then: at(*index).unwrap_or_default(),
                    })
                    .collect();
            }
        }
        for (number, member) in group.members.iter().enumerate() {
            let chance = chances.as_ref().and_then(|chances| chances.get(number)).copied();
            let member_view = self.member(group, number, chance.map(probability::rounded));
            view.targets.push(self.node(&member.node, member_view));
        }
        view
    }

    fn member(&self, group: &TargetGroup, number: usize, chance: Option<f64>) -> Option<MemberView> {
        let member = group.members.get(number)?;
        let codes = || match continuation::statuses(group, number) {
            Some(list) => StatusCodes::Listed(list.to_vec()),
            None if group.on_errors.is_some() => StatusCodes::Listed(Vec::new()),
            None => StatusCodes::Default("not_2xx"),
        };
        let balanced = matches!(group.strategy, GroupStrategy::LoadBalance { .. });
        let continues = matches!(
            group.strategy,
            GroupStrategy::Fallback | GroupStrategy::LoadBalance { failover: true, .. }
        );
        Some(MemberView {
            name: member.name.clone(),
            weight: balanced.then_some(member.weight),
            price: Some(member.price).filter(|price| price.is_finite()),
            chance,
            on_status_codes: continues.then(codes),
            for_errors: names(member.for_errors.as_deref()),
        })
    }

    fn target(&self, target: &Target) -> TargetDetail {
        let operators =
            target.slug.is_some() || (target.origin.trusted && target.account.custom_host.is_some());
        let context = DescribeContext {
            connect_timeout: self.connect_timeout,
            circuit: match self.env.circuit(target) {
                CircuitStatus::Closed => "closed",
                CircuitStatus::HalfOpen => "half_open",
                CircuitStatus::Open { .. } => "open",
            },
        };
        TargetDetail {
            provider: target.provider.id(),
            slug: target.slug.clone(),
            model: target.model().map(str::to_owned),
            host: (!operators).then(|| target.origin.authority().to_owned()),
            policies: PoliciesView(target.policies.describe(&context)),
            latency_ms: self.env.latency(target).map(millis),
        }
    }
}

fn names(classes: Option<&[FailureClass]>) -> Option<Vec<&'static str>> {
    classes.map(|classes| classes.iter().map(|class| class.as_str()).collect())
}

fn mode(strategy: &GroupStrategy) -> Mode {
    match strategy {
        GroupStrategy::Single => Mode::Single,
        GroupStrategy::Fallback => Mode::Fallback,
        GroupStrategy::LoadBalance { .. } => Mode::LoadBalance,
        GroupStrategy::Conditional { .. } => Mode::Conditional,
    }
}

fn name_in_table<T: PartialEq>(table: &[(&'static str, T)], wanted: &T) -> Option<&'static str> {
    table.iter().find(|(_, value)| value == wanted).map(|(name_in_table, _)| *name_in_table)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
