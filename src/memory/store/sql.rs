//! Statements of SQL with their arguments, and the rows that they return: one form for SQLite and PostgreSQL.
//!
//! A statement is written once, with PostgreSQL's place holders (`$1`). Nothing is run here: how each database runs a statement is in
//! `sqlite/run.rs` and `postgres/run.rs`.

use std::borrow::Cow;
use std::fmt;
use uuid::Uuid;

/// The database that a statement is for, where the text must differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

/// An argument of a statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    Null,
    /// 64 bits; flags are 0 and 1.
    Int(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Uuid(Uuid),
    Bytes(&'a [u8]),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<Uuid> for Value<'_> {
    fn from(id: Uuid) -> Self {
        Self::Uuid(id)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, T::into)
    }
}

/// A statement with the values of its place holders, the first for `$1`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement<'a> {
    pub sql: Cow<'a, str>,
    pub values: Vec<Value<'a>>,
}

impl<'a> Statement<'a> {
    pub fn new(sql: impl Into<Cow<'a, str>>, values: Vec<Value<'a>>) -> Self {
        Self { sql: sql.into(), values }
    }

    /// One without arguments.
    pub fn plain(sql: impl Into<Cow<'a, str>>) -> Self {
        Self::new(sql, Vec::new())
    }
}

/// What must be true of a row, for after `WHERE`, with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlCondition<'a> {
    dialect: Dialect,
    sql: String,
    values: Vec<Value<'a>>,
}

impl<'a> SqlCondition<'a> {
    /// True for every row.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, sql: String::new(), values: Vec::new() }
    }

    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub fn sql(&self) -> &str {
        match self.sql.as_str() {
            "" => "1 = 1",
            sql => sql,
        }
    }

    pub fn values(&self) -> &[Value<'a>] {
        &self.values
    }

    /// Adds an argument; returns its place holder.
    pub fn argument(&mut self, value: impl Into<Value<'a>>) -> String {
        self.values.push(value.into());
        format!("${}", self.values.len())
    }

    /// Requires something else too.
    pub fn and(&mut self, sql: &str) {
        if !self.sql.is_empty() {
            self.sql.push_str(" AND ");
        }
        self.sql.push_str(sql);
    }

    /// Requires a comparison of `left` with a value, where there is one: `left` ends with the operator.
    pub fn compare(&mut self, left: &str, value: Option<impl Into<Value<'a>>>) {
        if let Some(value) = value {
            let place = self.argument(value);
            self.and(&format!("{left} {place}"));
        }
    }

    /// Requires that the column has one of the values, where there are any.
    pub fn any(&mut self, column: &str, values: impl IntoIterator<Item = impl Into<Value<'a>>>) {
        let places: Vec<String> = values.into_iter().map(|value| self.argument(value)).collect();
        if !places.is_empty() {
            self.and(&format!("{column} IN ({})", places.join(", ")));
        }
    }

    /// The statement that this is the condition of: its text has the condition's.
    pub(crate) fn into_statement(self, sql: String) -> Statement<'a> {
        Statement::new(sql, self.values)
    }
}

/// A row of a result. `None` is NULL.
pub(crate) trait ResultRow {
    /// # Errors
    /// The column has another type. For the others too.
    fn int(&self, column: usize) -> Result<Option<i64>, WrongType>;
    /// # Errors
    /// As for `int`.
    fn real(&self, column: usize) -> Result<Option<f64>, WrongType>;
    /// # Errors
    /// As for `int`.
    fn text(&self, column: usize) -> Result<Option<&str>, WrongType>;
    /// # Errors
    /// As for `int`.
    fn uuid(&self, column: usize) -> Result<Option<Uuid>, WrongType>;
    /// # Errors
    /// As for `int`.
    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, WrongType>;
}

/// Why a column cannot be read: the text of the database's driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrongType(pub String);

impl fmt::Display for WrongType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
