//! Chooses a member of a group by the beginning of the request (`strategy.by: prefix`), bounded by load.
//!
//! The members stand in one order for a request: who got most of its beginning first, of those who got as much one whose model server
//! has the adapter that the request names, and then the one that the hash of its first part ranks highest (rendezvous hashing by
//! weight: each member's rank depends on itself alone, so that one member less moves only its own share, and gateways that know
//! nothing of each other choose alike). The first of them that is not over its share of the load is taken. Pure. Not here: the hashes (`prompt_prefix`), and what is remembered (`memory::state::prefix_tables`).

use super::compiled::{Member, Node, TargetGroup};
use super::env::{RoutingEnv, TargetLoad};
use super::least_busy;
use super::plan::Reason;
use super::prompt_prefix::PromptPrefix;
use super::target::Target;
use foldhash::quality::FixedState;
use knowledge::provider::prompt_cache::PromptCache;
use memory::state::prefix_tables::PrefixOwner;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;
use words::config::policies::MarkTtl;

/// A member is over its share with more than so many times the attempts that its weight stands for (consistent hashing with bounded
/// loads, <https://arxiv.org/abs/1608.01350>).
const LOAD_FACTOR: f64 = 1.25;
/// So many attempts at a time are never too many by that: two calls of one conversation stay together at an idle gateway.
const ALWAYS_ALLOWED: f64 = 2.0;
/// A member that got half of the request before, or more, may have so many times the load that others may: what it would be spared is
/// most of the work, and a conversation that moves is read anew as a whole. Otherwise the chance of a moment moves them all the time.
const FACTOR_OF_HALF: f64 = 1.6;
/// The attempts that are never too many for it.
const ALLOWED_TO_HALF: f64 = 4.0;

/// Bytes of text for each token of a provider's minimum: as long as tokens of English are. What has more tokens is only held to be
/// shorter than it is.
const BYTES_PER_TOKEN: usize = 4;

/// What a group that chooses by beginnings has of its own.
#[derive(Debug)]
pub struct PrefixGroup {
    /// Which table it remembers them in.
    pub owner: PrefixOwner,
    /// What tells each member from the others, on all gateways and whatever its place in the list.
    identities: Vec<u64>,
}

/// A choice, and why it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixChoice {
    pub member: usize,
    /// How many blocks of the request's beginning the member got before; 0: none, or too little for its provider's cache.
    pub blocks: u16,
    /// Another member came first, and is over its share or has no place.
    pub is_passed_on: bool,
    /// How long the member keeps what is sent now; `None`: as long as it has room.
    pub ttl: Option<Duration>,
}

/// A member that may be chosen.
struct Candidate {
    choice: PrefixChoice,
    rank: f64,
    weight: f64,
    load: TargetLoad,
    /// It got half of the request before, or more.
    has_half: bool,
}

impl PrefixGroup {
    pub(super) fn new(path: &str, members: &[Member]) -> Self {
        let first = members.iter().find_map(|member| first_target(&member.node));
        let key = hash_of(0, |hasher| {
            hasher.write(path.as_bytes());
            if let Some(target) = first {
                hasher.write(target.id.config.as_bytes());
                hasher.write_u64(target.id.hash);
            }
        });
        let mut identities: Vec<u64> = Vec::with_capacity(members.len());
        for member in members {
            let identity = hash_of(0, |hasher| match &member.name {
                Some(name) => hasher.write(name.as_bytes()),
                None => identify(&member.node, hasher),
            });
            // Members that differ in nothing but their key are told apart by their order.
            let mut distinct = identity;
            while identities.contains(&distinct) {
                distinct = hash_of(distinct, |_| {});
            }
            identities.push(distinct);
        }
        // What is remembered is a place in the list: where hosts come and go, another list remembers anew, and the ranks keep most where
        // it was.
        let has_hosts = members
            .iter()
            .any(|member| first_target(&member.node).is_some_and(|target| target.host.is_some()));
        let key = if has_hosts {
            hash_of(key, |hasher| identities.iter().for_each(|own| hasher.write_u64(*own)))
        } else {
            key
        };
        let is_inline = first.is_some_and(|target| target.id.is_inline());
        Self { owner: PrefixOwner { key, is_inline }, identities }
    }
}

impl PrefixChoice {
    pub(super) fn reason(self) -> Reason {
        match self {
            Self { is_passed_on: true, .. } => Reason::PassedOn,
            Self { blocks: 0, .. } => Reason::PrefixHash,
            Self { blocks, .. } => Reason::Prefix(blocks),
        }
    }

    /// As a label of metrics.
    pub fn result(self) -> &'static str {
        match self {
            Self { is_passed_on: true, .. } => "passed_on",
            Self { blocks: 0, .. } => "miss",
            _ => "hit",
        }
    }
}

/// The choice among the usable members of a weight. `None`: there is none, or the request has no beginning. `client_model`: the model
/// of targets that set none.
pub(super) fn choose(
    group: &TargetGroup,
    usable: &dyn Fn(usize) -> bool,
    client_model: Option<&str>,
    env: &dyn RoutingEnv,
) -> Option<PrefixChoice> {
    let own = group.prefix()?;
    let prefix = env.prefix()?;
    let mut blocks_of = vec![0; group.members.len()];
    env.find_prefix(own, &mut blocks_of);
    let members = group.members.iter().zip(&own.identities).zip(blocks_of).enumerate();
    let candidates = members.filter(|(index, ((member, _), _))| member.weight > 0.0 && usable(*index));
    let mut candidates: Vec<Candidate> = candidates
        .map(|(index, ((member, identity), blocks))| {
            let cache = cache_of(&member.node, client_model);
            let is_kept_longer = prefix.is_kept_longer || marks_longer(&member.node);
            let ttl = if is_kept_longer { cache.long_ttl } else { cache.ttl };
            let is_cached =
                PromptPrefix::bytes_of(blocks.into()) >= cache.min_tokens as usize * BYTES_PER_TOKEN;
            let blocks = if is_cached { blocks } else { 0 };
            Candidate {
                choice: PrefixChoice { member: index, blocks, is_passed_on: false, ttl },
                rank: rank(prefix.first_part(), *identity, member.weight),
                weight: member.weight,
                load: least_busy::load(&member.node, client_model, env),
                has_half: blocks > 0 && 2 * usize::from(blocks) >= prefix.blocks().len(),
            }
        })
        .collect();
    candidates.sort_by(|one, other| {
        let blocks = other.choice.blocks.cmp(&one.choice.blocks);
        let adapters = other.load.has_adapter.cmp(&one.load.has_adapter);
        blocks.then(adapters).then(other.rank.total_cmp(&one.rank))
    });
    let position = within_load(&candidates);
    let choice = candidates.get(position)?.choice;
    Some(PrefixChoice { is_passed_on: position > 0, ..choice })
}

/// The first that is not over its share and has a place. Where all places are taken: the first that is not over its share, which
/// always one is.
fn within_load(candidates: &[Candidate]) -> usize {
    let total = candidates.iter().map(|one| f64::from(one.load.in_flight)).sum::<f64>() + 1.0;
    // Weights are divided by the heaviest, since the sum of very large weights would overflow to infinity.
    let heaviest = candidates.iter().map(|one| one.weight).fold(0.0, f64::max);
    let sum: f64 = candidates.iter().map(|one| one.weight / heaviest).sum();
    let has_share = |one: &Candidate| {
        let share = LOAD_FACTOR * total * (one.weight / heaviest / sum);
        let most = match one.has_half {
            true => (share * FACTOR_OF_HALF).ceil().max(ALLOWED_TO_HALF),
            false => share.ceil().max(ALWAYS_ALLOWED),
        };
        f64::from(one.load.in_flight) + 1.0 <= most
    };
    let free = candidates.iter().position(|one| has_share(one) && !one.load.is_full);
    free.or_else(|| candidates.iter().position(has_share)).unwrap_or_default()
}

/// How high a member ranks for requests of this first part: of many such requests it is the highest for a share by its weight.
fn rank(first_part: u64, identity: u64, weight: f64) -> f64 {
    let random = hash_of(identity, |hasher| hasher.write_u64(first_part)) >> 11;
    let random = (random as f64 + 0.5) / (1u64 << 53) as f64;
    weight / -random.ln()
}

/// The cache of a member's provider, of its first target.
fn cache_of(node: &Node, client_model: Option<&str>) -> PromptCache {
    let target = first_target(node);
    let provider = target.map_or("", |target| target.provider.id());
    let has_own_host = target.is_some_and(|target| target.account.custom_host.is_some());
    let model = target.and_then(Target::model).or(client_model);
    PromptCache::find(provider, has_own_host, model.unwrap_or_default())
}

/// Whether the gateway itself asks the provider to keep prompts for the longer of its times.
fn marks_longer(node: &Node) -> bool {
    let rule = first_target(node).and_then(|target| target.policies.auto_marks());
    rule.is_some_and(|rule| rule.of_turn(false) == MarkTtl::Hour)
}

fn first_target(node: &Node) -> Option<&Target> {
    match node {
        Node::Target(target) => Some(target),
        Node::Group(group) => group.members.iter().find_map(|member| first_target(&member.node)),
    }
}

fn identify(node: &Node, hasher: &mut dyn Hasher) {
    match node {
        Node::Target(target) => {
            for part in [
                target.provider.id(),
                target.slug.as_deref().unwrap_or_default(),
                target.origin.authority(),
                target.model().unwrap_or_default(),
            ] {
                hasher.write(part.as_bytes());
                hasher.write_usize(part.len());
            }
        }
        Node::Group(group) => group.members.iter().for_each(|member| identify(&member.node, hasher)),
    }
}

/// The same in every process.
fn hash_of(seed: u64, write: impl FnOnce(&mut dyn Hasher)) -> u64 {
    let mut hasher = FixedState::with_seed(seed).build_hasher();
    write(&mut hasher);
    hasher.write_u64(seed);
    hasher.finish()
}
