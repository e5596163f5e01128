//! Analytics ahead of time: the ledger's requests, summed up by the hour when they are written, and merged to days and blocks of days.
//!
//! A batch of rows adds one piece for each workspace and hour in it (`HourCells`), in the same transaction. Pieces are only ever added; a
//! background task merges them (`merging`). So several gateways write to one database without waiting for each other, and a row that
//! arrives late is just another piece. Pure but for `sqlite` and `postgres`, which have the statements.

pub mod bytes;
pub mod cells;
pub mod failure;
pub mod hour_cells;
pub mod latencies;
pub mod level;
pub mod measures;
pub mod merging;
pub mod postgres;
pub mod sample;
pub mod sqlite;
pub mod statements;
pub mod table;

pub use failure::Failure;
pub use hour_cells::{HourCells, Piece, absorb};
