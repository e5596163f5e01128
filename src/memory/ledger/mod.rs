//! What was done, for whom, and what it cost: one row for each request, with its attempts, kept for logs, analytics and bills.
//!
//! A request hands over the data of its rows and goes on: nothing in this room makes it wait. Knows no request, no session and no
//! prices: rows are made by a sink of the engine, and by the control route that takes logs of others.
//!
//! Rows are written in batches, one transaction each. A row is written once however often it is handed over (its id is unique), and
//! the sums over rows (`rollup`) count exactly the rows that were written, in the same transaction.
//!
//! The sink hands over a `Draft`. `writer` has two threads: one writes batches and may have to wait for the database; the other
//! never does, makes the rows, and moves to the spool what waits too long. Bodies are taken by the engine (bounded, counted as held
//! memory) and compressed here. Questions run through `Ledger::run`, on threads for blocking work, a few of each kind at a time
//! (`questions`), with a time limit that stops the statement. A log store is one implementation of `LogStore`. An export is a stored question: its file is read page by page
//! while it is sent. Whoever follows requests as they end (`tail`) gets the rows when they are made, before they are written.

pub mod analytics;
pub mod attempts;
mod column;
mod database;
pub mod days;
pub mod entry;
pub mod feedback;
pub mod filter;
pub mod health;
pub mod id;
#[expect(clippy::module_inception, reason = "the main type of the room, named as its file")]
pub mod ledger;
pub mod log_store;
mod matching;
pub mod payload;
pub mod postgres;
pub mod questions;
pub mod rollup;
pub mod row;
mod spool;
pub mod sqlite;
pub mod tail;
pub mod text;
pub mod writer;

pub use attempts::{Attempt, Attempts};
pub use entry::{Draft, Entry};
pub use feedback::Feedback;
pub use health::LedgerHealth;
pub use ledger::Ledger;
pub use questions::Question;
pub use row::{Row, RowKind};
pub use text::Text;

#[cfg(test)]
mod tests;
