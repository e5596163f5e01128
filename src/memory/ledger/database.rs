//! The log store's database inside one call, whichever it is: what is read and written in the same way on both. Blocks.

use super::filter::Filter;
use super::log_store::LogError;
use crate::store::sql::{Dialect, ResultRow, Statement, WrongType};
use std::ops::ControlFlow;

/// Takes a row of a result, and says whether to go on.
pub(super) type EachRow<'a> = dyn FnMut(&dyn ResultRow) -> Result<ControlFlow<()>, LogError> + 'a;

/// SQLite's connection, or PostgreSQL's with the time limit of the call.
pub(super) trait Database {
    fn dialect(&self) -> Dialect;

    /// Returns how many rows it changed.
    fn execute(&self, statement: &Statement<'_>) -> Result<u64, LogError>;

    /// Calls `each` with the rows, one after the other, until it breaks.
    fn query(&self, statement: &Statement<'_>, each: &mut EachRow<'_>) -> Result<(), LogError>;

    /// The tables that have the rows of the filter's times, the last day first.
    fn row_tables(&self, filter: &Filter) -> Result<Vec<String>, LogError>;
}

/// All rows of a result, as `read` has them.
pub(super) fn all<T>(
    database: &dyn Database,
    statement: &Statement<'_>,
    read: impl Fn(&dyn ResultRow) -> Result<T, LogError>,
) -> Result<Vec<T>, LogError> {
    let mut found = Vec::new();
    database.query(statement, &mut |row| {
        found.push(read(row)?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

impl From<WrongType> for LogError {
    fn from(why: WrongType) -> Self {
        Self::Unavailable(why.0)
    }
}
