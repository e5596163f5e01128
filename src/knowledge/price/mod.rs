//! What calls of models cost: the catalogue of prices, the operator's own prices, and integer arithmetic on them.
//!
//! Pure: it reads no file, no clock and no network; the time of a request is an argument. Not here: who fetches a newer
//! catalogue (`main`), how usage is read (`api::usage`), what is done with a cost (ledger, limits).
//!
//! Money is `i64` nanodollars. A price is a whole number of millionths of a dollar per million tokens, which is
//! picodollars a token; what a row costs is summed exactly and rounded once ([`RateCard::cost`]).
//!
//! The prices in force are a `PriceBook`, replaced as a whole. `PriceBook::cost` is called once for each attempt; a model's
//! `RateCard` is found once and kept in a bounded map. Prices of stored providers are compiled with their records and are with
//! the target. Amounts are converted in `money` and nowhere else. The catalogue is genai-prices' file, unchanged; the crate
//! itself only judges in tests.

mod catalog;
mod compact_date;
mod cost;
mod decode;
mod model_rule;
pub mod money;
mod multiplier;
mod overlay;
mod own_prices;
mod own_records;
mod price_book;
mod rate_card;
mod rates;
mod rating_cache;
mod replacement;
mod request_prices;
mod unit;
mod vendors;

pub use catalog::{Catalog, LICENCE, MAX_BYTES as MAX_CATALOGUE_BYTES, SHIPPED_VERSION};
pub use cost::{Cost, CostStatus};
pub use multiplier::Multiplier;
pub use overlay::Overlay;
pub use own_prices::{OwnModel, OwnPrices};
pub use price_book::{Charge, PriceBook};
pub use rate_card::{ExpectedTier, PriceSource, RateCard, Rating};
pub use rates::{Rate, Rates, Tier};
pub use replacement::{Change, changes, check_replacement};
pub use request_prices::RequestPrices;
pub use unit::Unit;

#[cfg(test)]
mod tests;
