//! The ledger with its threads: rows arrive once, whatever the log store does.

mod finding;
mod log_stores;
mod writing;

use super::row::{Row, sample};
use super::{Entry, id};

/// Rows of different ids, some milliseconds apart.
fn rows(numbers: std::ops::Range<u16>) -> Vec<Row> {
    let ids = id::RowIds::default();
    let made = |number: u16| {
        let row = sample(number);
        Row { id: ids.new_id(row.created_ms), ..row }
    };
    numbers.map(made).collect()
}

fn entries(rows: &[Row]) -> Vec<Entry> {
    rows.iter().cloned().map(Entry::from).collect()
}
