//! The upstream calls under way whose responses may be stored: those that others may join, and those that nobody joins any more.

use super::flight::{Flight, FlightReader, FlightShare, NewFlight};
use super::note::NotStored;
use memory::cache::{CacheKey, Scope};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The calls in flight, the oldest of each key first. There are at most as many as requests in flight.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<CacheKey, Vec<Arc<Flight>>>>);

/// Which call a request may join.
pub(crate) struct Joining {
    pub streamed: bool,
    /// For how long a response may be read after its end.
    pub max_age: Duration,
    /// A slow call that the request reads already: it may join only a younger one.
    pub raced: Option<FlightShare>,
    /// It joins none.
    pub is_alone: bool,
}

impl Joining {
    fn join(&self, calls: &[Arc<Flight>]) -> Option<FlightReader> {
        if self.is_alone {
            return None;
        }
        let is_raced = |call: &Arc<Flight>| self.raced.as_ref().is_some_and(|raced| raced.is_of(call));
        let younger = calls.iter().rev().take_while(|call| !is_raced(call));
        younger.filter(|call| call.about().streamed == self.streamed).find_map(|call| call.join(self.max_age))
    }

    /// The call of another refresh: what it brings is not older than this request, as long as nothing of it has arrived.
    fn join_refresh(&self, calls: &[Arc<Flight>]) -> Option<FlightReader> {
        let last = calls.last().filter(|call| call.about().is_refresh && !call.has_begun())?;
        self.join(std::slice::from_ref(last))
    }
}

impl Flights {
    /// Joins the youngest call of this key, if there is one that may be joined.
    pub fn join(&self, key: &CacheKey, joining: &Joining) -> Option<FlightReader> {
        self.0.lock().get(key).and_then(|calls| joining.join(calls))
    }

    /// Joins a call of this key, or starts one. `Err`: a new call, which the caller has to make. A refresh joins only another one that has brought
    /// nothing yet, and nobody joins an older call from then on.
    pub(crate) fn join_or_lead(
        &self,
        key: CacheKey,
        joining: &Joining,
        new: NewFlight,
    ) -> Result<FlightReader, (Arc<Flight>, FlightReader)> {
        let mut flights = self.0.lock();
        let calls = flights.entry(key).or_default();
        if new.is_refresh {
            if let Some(reader) = joining.join_refresh(calls) {
                return Ok(reader);
            }
            calls.iter().for_each(|call| call.close());
        } else if let Some(reader) = joining.join(calls) {
            return Ok(reader);
        }
        let (flight, reader) = Flight::new(new);
        calls.push(Arc::clone(&flight));
        Err((flight, reader))
    }

    /// Entries were removed, so the responses of these calls must not be stored.
    pub(crate) fn outdate(&self, concerns: &dyn Fn(&CacheKey, &Scope) -> bool) {
        for (key, calls) in &*self.0.lock() {
            let concerned = calls.iter().filter(|call| concerns(key, &call.about().scope));
            concerned.for_each(|call| call.discard(NotStored::Outdated));
        }
    }

    /// The response of a call is stored: those of older ones are not to replace it.
    pub(crate) fn outdate_older(&self, key: &CacheKey, than: &FlightShare) {
        if let Some(calls) = self.0.lock().get(key) {
            let older = calls.iter().take_while(|call| !than.is_of(call));
            older.for_each(|call| call.discard(NotStored::Outdated));
        }
    }

    /// The call is over.
    pub fn remove(&self, key: &CacheKey, flight: &Arc<Flight>) {
        let mut flights = self.0.lock();
        let Some(calls) = flights.get_mut(key) else { return };
        calls.retain(|call| !Arc::ptr_eq(call, flight));
        if calls.is_empty() {
            flights.remove(key);
        }
    }

    /// How many calls others may join.
    pub fn len(&self) -> usize {
        self.0.lock().values().flatten().filter(|call| call.is_open()).count()
    }
}
