//! A column of many rows as one argument: PostgreSQL's arrays of `bigint`, `text`, `uuid` and `bytea`.

use crate::ledger::column::{ColumnType, types};
use crate::store::sql::Value;
use std::borrow::Cow;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// One column of many rows, as an array.
pub(super) enum Array<'a> {
    Int(Vec<Option<i64>>),
    Text(Vec<Option<Cow<'a, str>>>),
    Uuid(Vec<Option<Uuid>>),
    Bytes(Vec<Option<&'a [u8]>>),
}

impl<'a> Array<'a> {
    /// Empty arrays for all columns.
    pub(super) fn for_columns(rows: usize) -> Vec<Self> {
        let empty = |(_, of)| match of {
            ColumnType::Int => Self::Int(Vec::with_capacity(rows)),
            ColumnType::Text => Self::Text(Vec::with_capacity(rows)),
            ColumnType::Uuid => Self::Uuid(Vec::with_capacity(rows)),
            ColumnType::Bytes => Self::Bytes(Vec::with_capacity(rows)),
        };
        types().into_iter().map(empty).collect()
    }

    /// Adds a value. One of another type counts as absent.
    pub(super) fn push(&mut self, value: Value<'a>) {
        match (self, value) {
            (Self::Int(all), Value::Int(number)) => all.push(Some(number)),
            (Self::Text(all), Value::Text(text)) => all.push(Some(text)),
            (Self::Uuid(all), Value::Uuid(id)) => all.push(Some(id)),
            (Self::Bytes(all), Value::Bytes(bytes)) => all.push(Some(bytes)),
            (Self::Int(all), _) => all.push(None),
            (Self::Text(all), _) => all.push(None),
            (Self::Uuid(all), _) => all.push(None),
            (Self::Bytes(all), _) => all.push(None),
        }
    }

    pub(super) fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(all) => all,
            Self::Text(all) => all,
            Self::Uuid(all) => all,
            Self::Bytes(all) => all,
        }
    }
}
