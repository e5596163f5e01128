//! The upstream calls that others may join: one for each key, and each kind of response.

use super::flight::{Flight, FlightReader};
use crate::cache::CacheKey;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The calls in flight. There are at most as many as requests in flight.
#[derive(Default)]
pub struct Flights(Mutex<HashMap<FlightKey, Arc<Flight>>>);

/// The response's key, and whether it is a stream.
type FlightKey = (CacheKey, bool);

impl Flights {
    /// Joins the call of this key, if there is one.
    pub fn join(&self, key: &FlightKey) -> Option<FlightReader> {
        self.0.lock().get(key).and_then(Flight::join)
    }

    /// Joins the call of this key, or starts one of at most `limit` bytes. `Err`: a new call, which the caller has to make.
    pub fn join_or_lead(
        &self,
        key: FlightKey,
        limit: usize,
        is_new: bool,
    ) -> Result<FlightReader, (Arc<Flight>, FlightReader)> {
        let mut flights = self.0.lock();
        if let Some(reader) = flights.get(&key).filter(|_| !is_new).and_then(Flight::join) {
            return Ok(reader);
        }
        let (flight, reader) = Flight::new(limit);
        flights.insert(key, Arc::clone(&flight));
        Err((flight, reader))
    }

    /// Nobody may join this call any more.
    pub fn remove(&self, key: &FlightKey, flight: &Arc<Flight>) {
        let mut flights = self.0.lock();
        if flights.get(key).is_some_and(|found| Arc::ptr_eq(found, flight)) {
            flights.remove(key);
        }
    }

    /// How many calls others may join.
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }
}
