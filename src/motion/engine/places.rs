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

use http::HeaderMap;
use judgment::route::target::Target;
use memory::state::slots::{Applicant, Slot, Slots};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use words::api::retry_after;
use words::config::policies::SlotPolicy;

/// The places of one attempt, until it is dropped.
pub(super) struct Places {
    target: Arc<Target>,
    slots: Vec<Slot>,
}

/// The longest that a provider's demand has others wait: it may be wrong, and no request would find out.
const MAX_PAUSE: Duration = Duration::from_secs(60);

impl Places {
    /// The provider has responded: where it wants no more requests for a while (a refusal with `Retry-After`, a rate that this response has used
    /// up), nobody gets a place until then. What a client's own key may send is no matter of others.
    pub fn note_response(&self, status: u16, headers: &HeaderMap) {
        if self.target.is_clients_own {
            return;
        }
        let now = SystemTime::now();
        let delay = match status {
            429 | 503 | 529 => retry_after::retry_delay(headers, status == 429, now),
            _ => retry_after::quota_delay(headers, now),
        };
        if let Some(delay) = delay.filter(|delay| !delay.is_zero()) {
            let until = Instant::now() + delay.min(MAX_PAUSE);
            self.slots.iter().for_each(|slot| slot.pause(until));
        }
    }
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
