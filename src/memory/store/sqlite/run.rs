//! Runs statements on SQLite, and reads its rows.
//!
//! Ids are blobs of 16 bytes in the ledger and texts in the store: both are read here.

use super::super::StoreError;
use super::super::sql::{ResultRow, Statement, Value, WrongType};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, Row, ToSql, ffi, params_from_iter};
use std::ops::ControlFlow;
use uuid::Uuid;

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Uuid(id) => ValueRef::Blob(id.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl ResultRow for Row<'_> {
    fn int(&self, column: usize) -> Result<Option<i64>, WrongType> {
        self.get_ref(column)?.as_i64_or_null().map_err(wrong_type)
    }

    fn real(&self, column: usize) -> Result<Option<f64>, WrongType> {
        Ok(self.get(column)?)
    }

    fn text(&self, column: usize) -> Result<Option<&str>, WrongType> {
        self.get_ref(column)?.as_str_or_null().map_err(wrong_type)
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>, WrongType> {
        match self.get_ref(column)? {
            ValueRef::Null => Ok(None),
            ValueRef::Text(text) => Uuid::try_parse_ascii(text).map(Some).map_err(wrong_type),
            value => {
                let bytes = value.as_blob().map_err(wrong_type)?;
                Uuid::from_slice(bytes).map(Some).map_err(wrong_type)
            }
        }
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, WrongType> {
        self.get_ref(column)?.as_blob_or_null().map_err(wrong_type)
    }
}

fn wrong_type(why: impl std::error::Error) -> WrongType {
    WrongType(why.to_string())
}

impl From<rusqlite::Error> for WrongType {
    fn from(error: rusqlite::Error) -> Self {
        wrong_type(error)
    }
}

/// The text as SQLite has it, with `?1` for `$1`.
pub(crate) fn text(statement: &Statement<'_>) -> String {
    statement.sql.replace('$', "?")
}

/// Executes a statement. Returns how many rows it changed.
pub(crate) fn execute(connection: &Connection, statement: &Statement<'_>) -> rusqlite::Result<u64> {
    let changed = connection.execute(&text(statement), params_from_iter(&statement.values))?;
    Ok(changed as u64)
}

/// Calls `each` with the rows of a result, one after the other, until it breaks.
pub(crate) fn query<E: From<rusqlite::Error>>(
    connection: &Connection,
    statement: &Statement<'_>,
    mut each: impl FnMut(&Row<'_>) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let mut prepared = connection.prepare(&text(statement))?;
    let mut rows = prepared.query(params_from_iter(&statement.values))?;
    while let Some(row) = rows.next()? {
        if each(row)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// All rows of a result, as `read` has them.
pub(crate) fn all<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    statement: &Statement<'_>,
    mut read: impl FnMut(&Row<'_>) -> Result<T, E>,
) -> Result<Vec<T>, E> {
    let mut found = Vec::new();
    query(connection, statement, |row| {
        found.push(read(row)?);
        Ok::<_, E>(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// What a failure of SQLite means for the store.
impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&rusqlite::Error> for StoreError {
    fn from(error: &rusqlite::Error) -> Self {
        let why = error.to_string();
        let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full(why),
            // The file that processes share could not grow.
            Some(_) if extended == ffi::SQLITE_IOERR_SHMSIZE => Self::Full(why),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Unavailable("another process is writing to it".to_owned())
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(why),
            Some(_) => Self::Unavailable(why),
            None => Self::Damaged(why),
        }
    }
}
