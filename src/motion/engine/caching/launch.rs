//! The upstream call that several requests read, from before it is made to its end.
//!
//! Who reads it, and what has arrived: `flight`.

use super::Caching;
use super::flight::Flight;
use crate::engine::upstream_stream::{StreamEvent, UpstreamStream};
use bytes::Bytes;
use memory::cache::CacheKey;
use memory::state::held_bytes::Hold;
use std::sync::Arc;
use words::error::Error;

/// A call that others may read along with, before it is made. Dropped without being made, it fails for those who wait for it.
pub(in crate::engine) struct Launch {
    pub(super) caching: Arc<Caching>,
    pub(super) key: CacheKey,
    pub(super) flight: Arc<Flight>,
    pub(super) is_made: bool,
    /// What was looked up: the response to another body is none to this.
    pub(super) body: Option<Bytes>,
}

impl Launch {
    /// Whether it is the call of an attempt that sends this body.
    pub fn is_of(&self, body: Option<&Bytes>) -> bool {
        let is_same = |one: &Bytes, other: &Bytes| one.as_ptr() == other.as_ptr() && one.len() == other.len();
        match (&self.body, body) {
            (Some(looked_up), Some(sent)) => is_same(looked_up, sent) || looked_up == sent,
            (looked_up, sent) => looked_up.is_none() && sent.is_none(),
        }
    }

    /// Makes the call, whose response all its readers get.
    pub fn start(mut self, mut stream: UpstreamStream, held: Hold) {
        self.is_made = true;
        stream.note_sent_in(self.flight.sent());
        let caching = Arc::clone(&self.caching);
        let key = self.key;
        let flight = Arc::clone(&self.flight);
        tokio::spawn(async move {
            read(&flight, stream, held).await;
            caching.flights.remove(&key, &flight);
        });
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        if !self.is_made {
            let error =
                Error::unreachable("The call that this request waited for was not made.", "no launch");
            self.caching.flights.remove(&self.key, &self.flight);
            self.flight.fail(error.into());
            self.flight.notify_readers();
        }
    }
}

/// Reads the provider's response to its end, and returns when all readers have left.
async fn read(flight: &Flight, mut stream: UpstreamStream, mut held: Hold) {
    loop {
        if flight.is_left() {
            break;
        }
        if flight.is_full() {
            flight.wait_for_readers(true).await;
            continue;
        }
        let event = tokio::select! {
            event = stream.next(None) => event,
            () = flight.wait_for_readers(false) => continue,
        };
        let is_over = match event {
            StreamEvent::Task(task) => {
                let mut is_over = flight.accept(task);
                stream.gather(|task| is_over |= flight.accept(task));
                is_over
            }
            StreamEvent::Failed(failure) => {
                flight.fail(failure);
                true
            }
            StreamEvent::TimedOut => continue,
        };
        held.set_anyway(flight.held_bytes());
        flight.notify_readers();
        if is_over {
            break;
        }
    }
    // What it holds counts as long as somebody reads it.
    drop(stream);
    while !flight.is_left() {
        flight.wait_for_readers(false).await;
    }
    drop(held);
}
