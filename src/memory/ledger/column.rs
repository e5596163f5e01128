//! How a member of a row is stored in a column, by its type. Which members and columns there are is the list in `row.rs`.

use super::database::{Database, all};
use super::log_store::LogError;
use super::row::{COLUMNS, RatesHash};
use super::{Attempts, Row, RowKind, Text};
use crate::store::sql::{Dialect, ResultRow, Statement, Value, WrongType};
use uuid::Uuid;

/// A column's name, and the member of a row that it has.
pub(super) struct Column(
    pub(super) &'static str,
    pub(super) fn(&Row) -> &dyn Field,
    pub(super) fn(&mut Row) -> &mut dyn Field,
);

/// The names of all columns, for a statement.
pub(super) fn names() -> String {
    COLUMNS.map(|Column(name, ..)| name).join(", ")
}

/// The names and types of all columns.
pub(super) fn types() -> [(&'static str, ColumnType); COLUMNS.len()] {
    let row = Row::default();
    COLUMNS.map(|Column(name, get, _)| (name, get(&row).column_type()))
}

/// A column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnType {
    /// 64 bits; flags are 0 and 1.
    Int,
    Text,
    Uuid,
    Bytes,
}

impl ColumnType {
    /// Its name in SQL.
    pub(super) const fn sql(self, dialect: Dialect) -> &'static str {
        match (self, dialect) {
            (Self::Int, Dialect::Sqlite) => "INTEGER",
            (Self::Text, Dialect::Sqlite) => "TEXT",
            (Self::Uuid | Self::Bytes, Dialect::Sqlite) => "BLOB",
            (Self::Int, Dialect::Postgres) => "bigint",
            (Self::Text, Dialect::Postgres) => "text",
            (Self::Uuid, Dialect::Postgres) => "uuid",
            (Self::Bytes, Dialect::Postgres) => "bytea",
        }
    }
}

/// Adds the columns that a table of rows lacks because an older gateway made it.
pub(super) fn add_missing(database: &dyn Database, table: &str) -> Result<(), LogError> {
    let present = match database.dialect() {
        Dialect::Sqlite => "SELECT name FROM pragma_table_info($1)",
        Dialect::Postgres => {
            "SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"
        }
    };
    let present: Vec<String> = all(database, &Statement::new(present, vec![table.into()]), |row| {
        Ok(row.text(0)?.unwrap_or_default().to_owned())
    })?;
    for (name, of) in types().into_iter().filter(|(name, _)| !present.iter().any(|of| of == name)) {
        let sql = format!("ALTER TABLE {table} ADD COLUMN {name} {}", of.sql(database.dialect()));
        database.execute(&Statement::plain(sql))?;
    }
    Ok(())
}

/// A member of a row.
pub(super) trait Field {
    fn column_type(&self) -> ColumnType;

    fn value(&self) -> Value<'_>;

    /// Reads it from a column of a result. What is NULL or out of range leaves it as it is.
    fn read(&mut self, row: &dyn ResultRow, column: usize) -> Result<(), WrongType>;
}

/// A type of members.
trait Scalar: Sized {
    const TYPE: ColumnType;

    fn to_value(&self) -> Value<'_>;

    fn from_column(row: &dyn ResultRow, column: usize) -> Result<Option<Self>, WrongType>;
}

impl<T: Scalar> Field for T {
    fn column_type(&self) -> ColumnType {
        T::TYPE
    }

    fn value(&self) -> Value<'_> {
        self.to_value()
    }

    fn read(&mut self, row: &dyn ResultRow, column: usize) -> Result<(), WrongType> {
        if let Some(value) = T::from_column(row, column)? {
            *self = value;
        }
        Ok(())
    }
}

impl<T: Scalar> Field for Option<T> {
    fn column_type(&self) -> ColumnType {
        T::TYPE
    }

    fn value(&self) -> Value<'_> {
        self.as_ref().map_or(Value::Null, T::to_value)
    }

    fn read(&mut self, row: &dyn ResultRow, column: usize) -> Result<(), WrongType> {
        *self = T::from_column(row, column)?;
        Ok(())
    }
}

impl Scalar for Text {
    const TYPE: ColumnType = ColumnType::Text;

    fn to_value(&self) -> Value<'_> {
        self.as_str().into()
    }

    fn from_column(row: &dyn ResultRow, column: usize) -> Result<Option<Self>, WrongType> {
        Ok(row.text(column)?.map(|text| Self::from(text.to_owned())))
    }
}

impl Scalar for Uuid {
    const TYPE: ColumnType = ColumnType::Uuid;

    fn to_value(&self) -> Value<'_> {
        (*self).into()
    }

    fn from_column(row: &dyn ResultRow, column: usize) -> Result<Option<Self>, WrongType> {
        row.uuid(column)
    }
}

impl Scalar for Attempts {
    const TYPE: ColumnType = ColumnType::Bytes;

    fn to_value(&self) -> Value<'_> {
        if self.is_empty() { Value::Null } else { self.bytes().into() }
    }

    fn from_column(row: &dyn ResultRow, column: usize) -> Result<Option<Self>, WrongType> {
        Ok(row.bytes(column)?.map(Self::new))
    }
}

/// A type of members that are integers in the database.
trait Integer: Copy {
    fn to_int(self) -> i64;

    /// `None`: out of range.
    fn from_int(number: i64) -> Option<Self>;
}

impl<T: Integer> Scalar for T {
    const TYPE: ColumnType = ColumnType::Int;

    fn to_value(&self) -> Value<'_> {
        self.to_int().into()
    }

    fn from_column(row: &dyn ResultRow, column: usize) -> Result<Option<Self>, WrongType> {
        Ok(row.int(column)?.and_then(T::from_int))
    }
}

impl Integer for i64 {
    fn to_int(self) -> i64 {
        self
    }

    fn from_int(number: i64) -> Option<Self> {
        Some(number)
    }
}

/// Databases have signed integers only.
impl Integer for u64 {
    fn to_int(self) -> i64 {
        i64::try_from(self).unwrap_or(i64::MAX)
    }

    fn from_int(number: i64) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Integer for u32 {
    fn to_int(self) -> i64 {
        self.into()
    }

    fn from_int(number: i64) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Integer for i32 {
    fn to_int(self) -> i64 {
        self.into()
    }

    fn from_int(number: i64) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Integer for u16 {
    fn to_int(self) -> i64 {
        self.into()
    }

    fn from_int(number: i64) -> Option<Self> {
        number.try_into().ok()
    }
}

impl Integer for bool {
    fn to_int(self) -> i64 {
        self.into()
    }

    fn from_int(number: i64) -> Option<Self> {
        Some(number != 0)
    }
}

impl Integer for RowKind {
    fn to_int(self) -> i64 {
        self.number()
    }

    fn from_int(number: i64) -> Option<Self> {
        Some(Self::from_number(number))
    }
}

impl Integer for RatesHash {
    fn to_int(self) -> i64 {
        self.0.cast_signed()
    }

    fn from_int(number: i64) -> Option<Self> {
        Some(Self(number.cast_unsigned()))
    }
}
