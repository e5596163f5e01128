//! Brings the tables of a SQLite database up to date.
//!
//! The steps are the files of `store/migrations/sqlite`. A step is never changed once it was released: the next one is added.
//! A step whose name ends with `_added` takes nothing away from older binaries: a database that has such later steps is one of theirs.

use super::StoreError;
use refinery::{Migration, Runner};
use rusqlite::{Connection, OptionalExtension as _};
use std::time::Duration;

const STEPS: [(&str, &str); 1] = [("V1__records", include_str!("../migrations/sqlite/V1__records.sql"))];
/// The last of them.
pub(super) const NEWEST: i64 = STEPS.len() as i64;
/// How often to try: two processes may make the tables of a new file at the same time, and one of them fails.
const TRIES: u32 = 20;
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Makes or updates the tables.
///
/// # Errors
/// `Newer` if the database knows steps that this binary does not.
pub(super) fn run(connection: &mut Connection) -> Result<(), StoreError> {
    let steps = STEPS.iter().map(|(name, sql)| Migration::unapplied(name, sql));
    let steps: Vec<Migration> = steps.collect::<Result<_, _>>().map_err(wrong)?;
    let mut tries = 0;
    loop {
        tries += 1;
        let found = version(connection)?;
        if found > NEWEST {
            return Err(StoreError::Newer { database: found, binary: NEWEST });
        }
        if found == NEWEST {
            return Ok(());
        }
        match Runner::new(&steps).run(connection) {
            Ok(_) => return Ok(()),
            Err(why) if tries == TRIES => return Err(wrong(why)),
            Err(_) => std::thread::sleep(RETRY_DELAY),
        }
    }
}

/// The last step that the database has seen, but for later ones that only add; 0 for a new one.
pub(super) fn version(connection: &Connection) -> Result<i64, StoreError> {
    let table = "SELECT 1 FROM sqlite_master WHERE name = 'refinery_schema_history'";
    let has_table = connection.query_row(table, [], |_| Ok(())).optional()?.is_some();
    if !has_table {
        return Ok(0);
    }
    let last = "SELECT coalesce(max(version), 0) FROM refinery_schema_history WHERE version <= ?1 OR name NOT LIKE '%\\_added' ESCAPE '\\'";
    Ok(connection.query_row(last, [NEWEST], |row| row.get(0))?)
}

fn wrong(why: refinery::Error) -> StoreError {
    let mut cause = std::error::Error::source(&why);
    while let Some(inner) = cause {
        if let Some(inner) = inner.downcast_ref::<rusqlite::Error>() {
            return inner.into();
        }
        cause = inner.source();
    }
    StoreError::Damaged(format!("its tables cannot be brought up to date: {why}"))
}
