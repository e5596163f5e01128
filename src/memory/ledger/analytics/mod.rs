//! Questions to the ledger that are answered with sums: groups, graphs, percentiles.
//!
//! What rollups have is read from them, the ends of a range that are no whole hours, and what rollups do not have, from rows; both end in one
//! `Tally`, so that they count in the same way. Knows no HTTP.

pub mod feedback_tally;
pub mod query;
pub mod statements;
pub mod sums;
pub mod tally;

pub use feedback_tally::{FeedbackQuery, FeedbackSum, FeedbackTally};
pub use query::{By, Query};
#[cfg(test)]
mod tests;

pub use tally::{Group, Tally, Unanswered};
