//! Attempts at targets with `concurrency` take a place there before they are sent, or wait for one.
//!
//! | File | For |
//! |---|---|
//! | `layer` | takes a place where one is free |
//! | `waiting` | waits for one, while the client may leave |
//!
//! While an attempt waits nothing is held of limits, and by then the response may be in the cache: the attempt is started again with its
//! places. The upstream exchange holds them to the last byte of its response. Not here: who is next (`memory::state::slots`).

mod layer;
mod waiting;

pub(super) use layer::compile;
pub(super) use waiting::{Waited, wait};

use judgment::route::target::Target;
use memory::state::slots::{Applicant, Slot, Slots};
use std::sync::Arc;
use words::config::policies::SlotPolicy;

/// The places of one attempt, until it is dropped.
pub(super) struct Places {
    target: Arc<Target>,
    #[expect(dead_code, reason = "held, and nothing else")]
    slots: Vec<Slot>,
}

/// Of what an attempt needs a place, and for whom.
pub struct PlaceWait {
    target: Arc<Target>,
    owners: Arc<[Owner]>,
    who: Applicant,
}

/// What has places: a target, a stored provider.
struct Owner {
    slots: Arc<Slots>,
    policy: SlotPolicy,
}
