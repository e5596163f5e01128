//! The table of rollups and the statements on it that both databases share.
//!
//! Times are milliseconds since 1970, written into the text; workspaces are arguments. The column `merged` has a bit for each part of a
//! piece that the level above has too; such parts are left out where the longer span is read.

use super::level::{Cover, Level};
use crate::store::sql::Dialect;
use std::ops::Range;

/// The columns that are inserted.
pub const COLUMNS: &str = "level, merged, size, workspace, start, total, total_latencies, margins, margin_latencies, combinations, \
                           combination_latencies";

/// The columns that a stored piece is read from.
pub(crate) const STORED: &str =
    "id, start, size, total, total_latencies, margins, margin_latencies, combinations, combination_latencies";

/// Pieces with so many combinations are not merged with others of the same span.
pub const LARGE: i64 = if cfg!(test) { 10 } else { 10_000 };

/// Selects the pieces of which nothing is in a longer span yet, by span, with the number of small ones.
pub(crate) fn open_spans() -> String {
    format!(
        "SELECT level, workspace, start, sum(CASE WHEN size < {LARGE} THEN 1 ELSE 0 END) FROM rollups WHERE merged = 0 \
         GROUP BY level, workspace, start ORDER BY level, workspace, start"
    )
}

/// The statements that make the table where it is not there.
pub fn tables(dialect: Dialect) -> String {
    let (id, workspace, bytes, integer) = match dialect {
        Dialect::Sqlite => ("INTEGER PRIMARY KEY", "BLOB", "BLOB", "INTEGER"),
        Dialect::Postgres => ("bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "uuid", "bytea", "bigint"),
    };
    // The short columns first: a reader of the totals does not pass over the others.
    format!(
        "CREATE TABLE IF NOT EXISTS rollups (
    id {id},
    level {integer} NOT NULL,
    merged {integer} NOT NULL,
    size {integer} NOT NULL,
    workspace {workspace} NOT NULL,
    start {integer} NOT NULL,
    total {bytes} NOT NULL,
    total_latencies {bytes} NOT NULL,
    margins {bytes},
    margin_latencies {bytes},
    combinations {bytes},
    combination_latencies {bytes}
);
CREATE INDEX IF NOT EXISTS rollups_by_time ON rollups (workspace, level, start);
CREATE INDEX IF NOT EXISTS rollups_partly_merged ON rollups (workspace, level, start) WHERE merged < 7;
CREATE INDEX IF NOT EXISTS rollups_open ON rollups (level, workspace, start) WHERE merged = 0;"
    )
}

/// A part of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Total,
    Margins,
    Combinations,
}

impl Part {
    /// Its bit in `merged`.
    pub const fn bit(self) -> i64 {
        match self {
            Self::Total => 1,
            Self::Margins => 2,
            Self::Combinations => 4,
        }
    }

    const fn columns(self) -> (&'static str, &'static str) {
        match self {
            Self::Total => ("total", "total_latencies"),
            Self::Margins => ("margins", "margin_latencies"),
            Self::Combinations => ("combinations", "combination_latencies"),
        }
    }
}

/// Selects workspace, start and one part of the pieces that cover hours, and its latencies. `workspaces`: how many there are,
/// which are the arguments. `None`: no piece is needed.
pub fn select(cover: &Cover, part: Part, has_latencies: bool, workspaces: usize) -> Option<String> {
    if workspaces == 0 {
        return None;
    }
    let workspaces = (1..=workspaces).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ");
    let Cover { hours, days, blocks, .. } = cover;
    let (hours_before, hours_after) = around(hours, days);
    let (days_before, days_after) = around(days, blocks);
    let parts = [
        (Level::Hour, hours_before, false),
        (Level::Hour, hours_after, false),
        (Level::Hour, days.clone(), true),
        (Level::Day, days_before, false),
        (Level::Day, days_after, false),
        (Level::Day, blocks.clone(), true),
        (Level::Block, blocks.clone(), false),
    ];
    let (sums, latencies) = part.columns();
    let latencies = if has_latencies { format!(", {latencies}") } else { String::new() };
    let selects: Vec<String> = parts
        .into_iter()
        .filter(|(_, range, _)| !range.is_empty())
        .map(|(level, range, is_inside)| {
            let (level, bit, Range { start, end }) = (level.number(), part.bit(), range);
            let inside =
                if is_inside { format!(" AND merged < 7 AND (merged & {bit}) = 0") } else { String::new() };
            format!(
                "SELECT workspace, start, {sums}{latencies} FROM rollups WHERE workspace IN ({workspaces}) \
                 AND level = {level} AND start >= {start} AND start < {end} AND {sums} IS NOT NULL{inside}"
            )
        })
        .collect();
    // One statement, so that it sees each piece once while others merge them.
    (!selects.is_empty()).then(|| selects.join(" UNION ALL "))
}

/// What is left of a range before and after a part of it.
fn around(range: &Range<i64>, part: &Range<i64>) -> (Range<i64>, Range<i64>) {
    if part.is_empty() { (range.clone(), 0..0) } else { (range.start..part.start, part.end..range.end) }
}
