//! The prices of one request, which stay the same to its end, and what was looked up for it last.
//!
//! A request asks for the price of its model three times: for its limits, for a header, for its cost. Not a cache of others' ratings
//! (`rating_cache`).

use super::cost::Cost;
use super::own_prices::OwnPrices;
use super::price_book::{Charge, PriceBook};
use super::rate_card::Rating;
use std::sync::{Arc, OnceLock};

/// A book of prices, and the first rating that was looked up in it.
#[derive(Debug, Clone)]
pub struct RequestPrices {
    book: Arc<PriceBook>,
    first: OnceLock<Lookup>,
}

#[derive(Debug, Clone)]
struct Lookup {
    own: u64,
    vendor: &'static str,
    model: Box<str>,
    rating: Rating,
}

impl RequestPrices {
    /// Nothing was looked up yet.
    pub fn new(book: Arc<PriceBook>) -> Self {
        Self { book, first: OnceLock::new() }
    }

    /// As [`PriceBook::rating`].
    pub fn rating(&self, vendor: &'static str, model: &str, own: Option<&OwnPrices>) -> Rating {
        let identity = own.map_or(0, OwnPrices::identity);
        let first = self.first.get_or_init(|| Lookup {
            own: identity,
            vendor,
            model: model.into(),
            rating: self.book.rating(vendor, model, own),
        });
        if first.own == identity && first.vendor == vendor && *first.model == *model {
            return first.rating.clone();
        }
        self.book.rating(vendor, model, own)
    }

    /// As [`PriceBook::cost`].
    pub fn cost(&self, charge: &Charge<'_>) -> Cost {
        self.book.cost_by(charge, |model| self.rating(charge.vendor, model, charge.own))
    }

    /// As [`PriceBook::context_window`].
    pub fn context_window(&self, vendor: &str, model: &str) -> Option<u64> {
        self.book.context_window(vendor, model)
    }

    /// As [`PriceBook::version`].
    pub fn version(&self) -> &Arc<str> {
        self.book.version()
    }
}
