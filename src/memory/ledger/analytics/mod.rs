//! Questions to the ledger that are answered with sums: groups, graphs, percentiles.
//!
//! Whole hours are read from rollups. The ends of a range, and questions that rollups cannot answer, are read from rows. Both are added
//! to one `Tally`, so that they count in the same way. Knows no HTTP.

pub mod budget;
pub(crate) mod feedback_tally;
pub mod query;
pub(super) mod statements;
pub(super) mod sums;
pub mod tally;

pub use feedback_tally::{FeedbackQuery, FeedbackSum, FeedbackTally};
pub use query::{By, Query};
#[cfg(test)]
mod tests;

pub use tally::{Group, Tally, Unanswered};
