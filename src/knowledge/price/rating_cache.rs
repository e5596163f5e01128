//! The ratings that were looked up before: a name is matched against hundreds of rules once.
//!
//! Bounded: names come from clients. Not here: how a rating is found (`price_book`).

use super::rate_card::Rating;
use foldhash::fast::RandomState;
use parking_lot::RwLock;
use std::collections::HashMap;

/// The most ratings kept. When there are more, all are dropped: the ones in use are found again in microseconds each.
const MAX_RATINGS: usize = 4096;

/// The longest name of a model that is kept.
const MAX_NAME: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct RatingCache {
    kept: RwLock<Kept>,
}

type ByModel = HashMap<Box<str>, Rating, RandomState>;
type ByVendor = HashMap<Box<str>, ByModel, RandomState>;

/// By the identity of the provider's own prices and the vendor, then by the model.
#[derive(Debug, Default)]
struct Kept {
    by_vendor: HashMap<u64, ByVendor, RandomState>,
    count: usize,
}

impl RatingCache {
    /// Allocates nothing.
    pub fn get(&self, own: u64, vendor: &str, model: &str) -> Option<Rating> {
        self.kept.read().by_vendor.get(&own)?.get(vendor)?.get(model).cloned()
    }

    /// All that are kept for no provider's own prices, with vendor and model.
    pub(crate) fn without_own_prices(&self) -> Vec<(Box<str>, Box<str>, Rating)> {
        let kept = self.kept.read();
        let vendors = kept.by_vendor.get(&0).into_iter().flatten();
        let models = vendors.flat_map(|(vendor, models)| {
            models.iter().map(move |(model, rating)| (vendor.clone(), model.clone(), rating.clone()))
        });
        models.collect()
    }

    pub fn insert(&self, own: u64, vendor: &str, model: &str, rating: Rating) {
        if model.len() > MAX_NAME {
            return;
        }
        let mut kept = self.kept.write();
        if kept.count >= MAX_RATINGS {
            *kept = Kept::default();
        }
        let models = kept.by_vendor.entry(own).or_default().entry(vendor.into()).or_default();
        let is_new = models.insert(model.into(), rating).is_none();
        kept.count += usize::from(is_new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded() {
        let cache = RatingCache::default();
        for number in 0..3 * MAX_RATINGS {
            cache.insert(number as u64 % 7, "v", &number.to_string(), Rating::Free);
            assert!(cache.kept.read().count <= MAX_RATINGS);
        }
        assert!(cache.get(0, "v", "0").is_none());
        let last = 3 * MAX_RATINGS - 1;
        assert!(cache.get(last as u64 % 7, "v", &last.to_string()).is_some());
        cache.insert(0, "v", &"x".repeat(MAX_NAME + 1), Rating::Free);
        assert!(cache.get(0, "v", &"x".repeat(MAX_NAME + 1)).is_none());
    }
}
