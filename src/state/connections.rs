//! How many callers are connected, and whether one more may be.
//!
//! Only of the data plane: operators must get through when callers have taken every place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The places taken.
#[derive(Debug, Default)]
pub struct Connections(Arc<AtomicUsize>);

/// One connection's place; free again when dropped.
#[derive(Debug)]
pub struct Place(Arc<AtomicUsize>);

impl Connections {
    /// A place, unless `most` are taken.
    pub fn enter(&self, most: Option<usize>) -> Option<Place> {
        let place = Place(Arc::clone(&self.0));
        let before = self.0.fetch_add(1, Ordering::AcqRel);
        most.is_none_or(|most| before < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_its_holder_left() {
        let connections = Connections::default();
        let first = connections.enter(Some(1)).unwrap();
        assert!(connections.enter(Some(1)).is_none());
        assert!(connections.enter(None).is_some());
        drop(first);
        assert!(connections.enter(Some(1)).is_some());
    }
}
