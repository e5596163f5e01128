//! Values of rows and conditions as SQLite has them: ids are blobs of 16 bytes.

use crate::ledger::Text;
use crate::ledger::analytics::statements::ResultRow;
use crate::ledger::column::{Value, ValueReader};
use crate::ledger::filter::Argument;
use rusqlite::types::{FromSqlError, ToSqlOutput, ValueRef};
use rusqlite::{Row, ToSql};
use uuid::Uuid;

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Uuid(id) => ValueRef::Blob(id.as_bytes()),
        }))
    }
}

impl ToSql for Argument {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Uuid(id) => ValueRef::Blob(id.as_bytes()),
        }))
    }
}

impl ResultRow for Row<'_> {
    type Error = rusqlite::Error;

    fn int(&self, column: usize) -> Result<Option<i64>, rusqlite::Error> {
        Ok(self.get_ref(column)?.as_i64_or_null()?)
    }

    fn real(&self, column: usize) -> Result<f64, rusqlite::Error> {
        self.get(column)
    }

    fn text(&self, column: usize) -> Result<Option<&str>, rusqlite::Error> {
        Ok(self.get_ref(column)?.as_str_or_null()?)
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>, rusqlite::Error> {
        let bytes: Option<[u8; 16]> = self.get(column)?;
        Ok(bytes.map(Uuid::from_bytes))
    }
}

/// Reads the columns of a result one after the other.
pub(super) struct Columns<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(super) fn new(row: &'a Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    fn take(&mut self) -> rusqlite::Result<ValueRef<'a>> {
        self.next += 1;
        self.row.get_ref(self.next - 1)
    }
}

impl ValueReader for Columns<'_> {
    type Error = rusqlite::Error;

    fn int(&mut self) -> Result<Option<i64>, rusqlite::Error> {
        Ok(self.take()?.as_i64_or_null()?)
    }

    fn text(&mut self) -> Result<Option<Text>, rusqlite::Error> {
        let text = self.take()?.as_str_or_null()?;
        Ok(text.map(|text| Text::from(text.to_owned())))
    }

    fn uuid(&mut self) -> Result<Option<Uuid>, rusqlite::Error> {
        let bytes = self.take()?.as_blob_or_null()?;
        let id = bytes.map(|bytes| Uuid::from_slice(bytes).map_err(|why| FromSqlError::Other(Box::new(why))));
        Ok(id.transpose()?)
    }
}
