//! What was done, for whom, and what it cost: one row for each request and each attempt, kept for logs, analytics and bills.
//!
//! A request hands over what its rows are made of, and goes on: nothing in this room makes it wait. Knows no request, no session and no
//! prices; what a row says is up to a sink of the engine, and to the route for logs of others.
//!
//! Rows are written in batches, one transaction each. A row is written once however often it is handed over (its id is unique), and
//! what is summed up of rows (`rollup`) takes the rows that were really written, in the same transaction.

pub mod analytics;
pub mod column;
pub mod days;
pub mod entry;
pub mod feedback;
pub mod filter;
pub mod health;
pub mod id;
#[expect(clippy::module_inception, reason = "the main type of the room, named as its file")]
pub mod ledger;
pub mod log_store;
pub mod payload;
pub mod postgres;
pub mod rollup;
pub mod row;
mod spool;
pub mod sqlite;
pub mod text;
pub mod writer;

pub use entry::{Draft, Entry};
pub use feedback::Feedback;
pub use health::LedgerHealth;
pub use ledger::Ledger;
pub use row::{Row, RowKind};
pub use text::Text;

#[cfg(test)]
mod tests;
