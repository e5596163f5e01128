//! The days that have tables in a database.

use crate::ledger::days::day_of;
use rusqlite::Connection;

/// The days of a database, the oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tables {
    pub rows: Vec<i64>,
    pub payloads: Vec<i64>,
}

impl Tables {
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut found = Self::default();
        let mut statement =
            connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")?;
        let mut names = statement.query([])?;
        while let Some(row) = names.next()? {
            let name = row.get_ref(0)?.as_str().unwrap_or_default();
            if let Some(day) = name.strip_prefix("rows_").and_then(day_of) {
                found.rows.push(day);
            } else if let Some(day) = name.strip_prefix("payloads_").and_then(day_of) {
                found.payloads.push(day);
            }
        }
        Ok(found)
    }
}
