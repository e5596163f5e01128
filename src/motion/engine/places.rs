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
use http::header::CONTENT_TYPE;
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
    response: Response,
}

/// What was read of the attempt's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Response {
    /// Nothing yet. The client wants a stream, or not.
    Awaited { is_streamed: bool },
    /// The header of a success.
    Begun { is_streamed: bool },
    /// A failure, or content.
    Noted,
}

/// The longest that a provider's demand has others wait: it may be wrong, and no request would find out.
const MAX_PAUSE: Duration = Duration::from_secs(60);

impl Places {
    fn new(target: &Arc<Target>, slots: Vec<Slot>, is_streamed: bool) -> Self {
        Self { target: Arc::clone(target), slots, response: Response::Awaited { is_streamed } }
    }

    /// The provider has responded: where it wants no more requests for a while (a refusal with `Retry-After`, a rate that this response has used
    /// up), nobody gets a place until then. What a client's own key may send is no matter of others.
    pub fn note_response(&mut self, status: u16, headers: &HeaderMap) {
        let content_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes());
        let is_streamed = content_type.is_some_and(|name| name.starts_with(b"text/event-stream"));
        let is_success = (200..300).contains(&status);
        self.response = if is_success { Response::Begun { is_streamed } } else { Response::Noted };
        if self.target.is_clients_own {
            return;
        }
        if matches!(status, 429 | 503 | 529) {
            self.slots.iter().for_each(Slot::note_overload);
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

    /// The response has its first content, or is complete.
    pub fn note_content(&mut self) {
        if let Response::Begun { is_streamed } = std::mem::replace(&mut self.response, Response::Noted) {
            self.slots.iter_mut().for_each(|slot| slot.note_content(is_streamed));
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if let Response::Awaited { is_streamed } | Response::Begun { is_streamed } = self.response {
            self.slots.iter().for_each(|slot| slot.note_unanswered(is_streamed));
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
