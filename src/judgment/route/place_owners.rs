//! Whose places an attempt at a target needs (`concurrency`): the target's own, and those of its stored provider.
//!
//! Not the places themselves (`memory::state::slots`), and not which attempts need one (`engine::places`).

use super::target::Target;
use memory::state::slots::SlotOwner;
use uuid::Uuid;
use words::config::policies::{Concurrency, SlotPolicy};

/// The owners of the places that an attempt of a client of this workspace needs. The target before its provider: who waits at the
/// target takes no place of all others.
pub fn place_owners(
    target: &Target,
    workspace: Option<Uuid>,
) -> impl Iterator<Item = (SlotOwner, SlotPolicy)> {
    let Concurrency { of_target, of_provider } = target.policies.concurrency;
    let id = &target.id;
    let of_target = of_target.map(|policy| {
        // The places of a saved config are the same for all of a workspace, whatever headers they send. Another may have a config of this name.
        let owner = SlotOwner::Target {
            workspace: workspace.unwrap_or_default(),
            config: id.config.as_str().into(),
            index: id.index.as_str().into(),
            source: if id.is_inline() { id.hash } else { 0 },
        };
        (owner, policy)
    });
    let of_provider = of_provider.map(|policy| {
        let slug = target.server().unwrap_or(id.provider);
        (SlotOwner::Provider(target.ids.provider.unwrap_or_default(), slug.into()), policy)
    });
    of_target.into_iter().chain(of_provider)
}
