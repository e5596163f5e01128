//! Rollups: the ledger's requests, summed up by the hour when they are written, and merged to days and blocks of days, for analytics.
//!
//! A batch of rows adds one piece for each workspace and hour in it (`HourCells`), in the same transaction. Pieces are only ever added; a
//! background task merges them (`merging`). So several gateways write to one database without waiting for each other, and a row that
//! arrives late is just another piece. Pure but for `storage`, which runs the statements.

pub mod bytes;
pub mod cells;
pub(crate) mod hour_cells;
pub mod latencies;
pub mod level;
pub mod measures;
pub(crate) mod merging;
pub mod sample;
pub(super) mod statements;
pub(super) mod storage;
pub mod table;

pub use hour_cells::Piece;
pub(crate) use hour_cells::{HourCells, absorb};
