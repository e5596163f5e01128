//! The cells of a batch of rows, by workspace and hour. They are written in the transaction that writes the rows.

use super::cells::{CellsOfRequests, Encoded};
use super::level::Level;
use super::sample::Sample;
use crate::ledger::{Row, RowKind};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use uuid::Uuid;

/// The cells of one batch.
#[derive(Debug, Default)]
pub(crate) struct HourCells {
    hours: HashMap<(Uuid, i64), CellsOfRequests, RandomState>,
}

/// The cells of one workspace and span, as the database has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    pub level: Level,
    /// Nil for requests of no workspace.
    pub workspace: Uuid,
    /// Milliseconds since 1970.
    pub start: i64,
    pub encoded: Encoded,
}

/// Adds a row. Attempts add nothing: a request's row has their tokens and cost.
pub(crate) fn absorb(cells: &mut HourCells, row: &Row) {
    if row.kind == RowKind::Request {
        cells.add(&Sample::of(row));
    }
}

impl HourCells {
    pub fn add(&mut self, sample: &Sample<'_>) {
        let hour = (sample.workspace, Level::Hour.start(sample.at));
        self.hours.entry(hour).or_default().absorb(sample);
    }

    /// What is to be written, a row each.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Piece> {
        self.hours.into_iter().map(|((workspace, start), cells)| Piece {
            level: Level::Hour,
            workspace,
            start,
            encoded: cells.finish().encode(start),
        })
    }
}
