//! Runs statements on PostgreSQL, and reads its rows.
//!
//! What a failure means is in `failure.rs`.

use super::super::sql::{ResultRow, Statement, Value, WrongType};
use super::failure::message;
use deadpool_postgres::GenericClient;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Error, Row};
use uuid::Uuid;

impl ToSql for Value<'_> {
    fn to_sql(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.to_sql_checked(of, out)
    }

    /// Checked for each value, by `to_sql_checked`.
    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        of: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) => number.to_sql_checked(of, out),
            Self::Real(number) => number.to_sql_checked(of, out),
            Self::Text(text) => text.to_sql_checked(of, out),
            Self::Uuid(id) => id.to_sql_checked(of, out),
            Self::Bytes(bytes) => bytes.to_sql_checked(of, out),
        }
    }
}

impl ResultRow for Row {
    fn int(&self, column: usize) -> Result<Option<i64>, WrongType> {
        cell(self, column)
    }

    fn real(&self, column: usize) -> Result<Option<f64>, WrongType> {
        cell(self, column)
    }

    fn text(&self, column: usize) -> Result<Option<&str>, WrongType> {
        cell(self, column)
    }

    fn uuid(&self, column: usize) -> Result<Option<Uuid>, WrongType> {
        cell(self, column)
    }

    fn bytes(&self, column: usize) -> Result<Option<&[u8]>, WrongType> {
        cell(self, column)
    }
}

fn cell<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<Option<T>, WrongType> {
    row.try_get(column).map_err(|why| WrongType(message(&why)))
}

/// The values of a statement as the driver takes them.
pub(crate) fn parameters<'a>(values: &'a [Value<'_>]) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

/// Executes a statement, prepared once a connection: half the round trips. Returns how many rows it changed.
pub(super) async fn execute(client: &impl GenericClient, statement: &Statement<'_>) -> Result<u64, Error> {
    let prepared = client.prepare_cached(&statement.sql).await?;
    client.execute(&prepared, &parameters(&statement.values)).await
}

/// The rows of a statement that is prepared once a connection.
pub(super) async fn rows(client: &impl GenericClient, statement: &Statement<'_>) -> Result<Vec<Row>, Error> {
    let prepared = client.prepare_cached(&statement.sql).await?;
    client.query(&prepared, &parameters(&statement.values)).await
}
