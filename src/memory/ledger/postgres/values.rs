//! Values of rows and conditions as PostgreSQL has them: `bigint`, `text`, `uuid`.

use crate::ledger::Text;
use crate::ledger::analytics::statements::ResultRow;
use crate::ledger::column::{COLUMNS, ColumnType, Value, ValueReader};
use crate::ledger::filter::Argument;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// One column of many rows, as an array.
pub(super) enum Array<'a> {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<&'a str>>),
    Uuid(Vec<Option<Uuid>>),
}

impl<'a> Array<'a> {
    /// Empty arrays for all columns.
    pub(super) fn for_columns(rows: usize) -> Vec<Self> {
        let empty = |(_, of): &(&str, ColumnType)| match of {
            ColumnType::Int => Self::Int(Vec::with_capacity(rows)),
            ColumnType::Text => Self::Text(Vec::with_capacity(rows)),
            ColumnType::Uuid => Self::Uuid(Vec::with_capacity(rows)),
        };
        COLUMNS.iter().map(empty).collect()
    }

    /// Adds a value. One of another type counts as absent.
    pub(super) fn push(&mut self, value: Value<'a>) {
        match (self, value) {
            (Self::Int(all), Value::Int(number)) => all.push(Some(number)),
            (Self::Text(all), Value::Text(text)) => all.push(Some(text)),
            (Self::Uuid(all), Value::Uuid(id)) => all.push(Some(id)),
            (Self::Int(all), _) => all.push(None),
            (Self::Text(all), _) => all.push(None),
            (Self::Uuid(all), _) => all.push(None),
        }
    }

    pub(super) fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(all) => all,
            Self::Text(all) => all,
            Self::Uuid(all) => all,
        }
    }
}

/// The arguments of a condition.
pub(super) fn parameters(arguments: &[Argument]) -> Vec<&(dyn ToSql + Sync)> {
    arguments.iter().map(parameter).collect()
}

fn parameter(argument: &Argument) -> &(dyn ToSql + Sync) {
    match argument {
        Argument::Int(number) => number,
        Argument::Real(number) => number,
        Argument::Text(text) => text,
        Argument::Uuid(id) => id,
    }
}

impl ResultRow for Row {
    type Error = tokio_postgres::Error;

    fn int(&self, column: usize) -> Result<Option<i64>, tokio_postgres::Error> {
        self.try_get(column)
    }

    fn real(&self, column: usize) -> Result<f64, tokio_postgres::Error> {
        self.try_get(column)
    }

    fn text(&self, column: usize) -> Result<Option<&str>, tokio_postgres::Error> {
        self.try_get(column)
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>, tokio_postgres::Error> {
        self.try_get(column)
    }
}

/// Reads the columns of a result one after the other.
pub(super) struct Columns<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    pub(super) fn new(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    fn take(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }
}

impl ValueReader for Columns<'_> {
    type Error = tokio_postgres::Error;

    fn int(&mut self) -> Result<Option<i64>, tokio_postgres::Error> {
        let at = self.take();
        self.row.try_get(at)
    }

    fn text(&mut self) -> Result<Option<Text>, tokio_postgres::Error> {
        let at = self.take();
        let text: Option<String> = self.row.try_get(at)?;
        Ok(text.map(Text::from))
    }

    fn uuid(&mut self) -> Result<Option<Uuid>, tokio_postgres::Error> {
        let at = self.take();
        self.row.try_get(at)
    }
}
