//! One call to PostgreSQL: a transaction on the thread that calls, with one time limit for all of it.
//!
//! Connections live on a runtime of their own; here a thread waits for them.

use super::ROWS;
use crate::ledger::database::{Database, EachRow};
use crate::ledger::filter::Filter;
use crate::ledger::log_store::LogError;
use crate::store::postgres::message;
use crate::store::postgres::run::parameters;
use crate::store::sql::{Dialect, Statement};
use deadpool_postgres::{PoolError, Transaction};
use futures_util::TryStreamExt as _;
use std::pin::pin;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_postgres::error::SqlState;

/// The waiting of one call for the server, on the thread of the call.
pub(super) struct Wait<'a> {
    runtime: &'a Runtime,
    end: Instant,
    at_most: Duration,
}

impl<'a> Wait<'a> {
    pub(super) fn new(runtime: &'a Runtime, at_most: Duration) -> Self {
        Self { runtime, end: Instant::now() + at_most, at_most }
    }

    pub(super) fn until<T, E: Into<LogError>>(
        &self,
        done: impl Future<Output = Result<T, E>>,
    ) -> Result<T, LogError> {
        let late = |_| LogError::Unavailable(format!("no response within {} s", self.at_most.as_secs()));
        self.runtime
            .block_on(async { tokio::time::timeout_at(self.end, done).await.map_err(late)?.map_err(E::into) })
    }
}

/// The transaction of one call. All of the call has one time limit.
pub(super) struct Call<'a> {
    pub(super) wait: Wait<'a>,
    pub(super) transaction: Transaction<'a>,
}

impl Database for Call<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&self, statement: &Statement<'_>) -> Result<u64, LogError> {
        self.wait.until(self.transaction.execute(&*statement.sql, &parameters(&statement.values)))
    }

    fn query(&self, statement: &Statement<'_>, each: &mut EachRow<'_>) -> Result<(), LogError> {
        self.wait.until(async {
            let values = parameters(&statement.values);
            let mut rows = pin!(self.transaction.query_raw(&*statement.sql, values).await?);
            while let Some(row) = rows.try_next().await? {
                if each(&row)?.is_break() {
                    break;
                }
            }
            Ok::<_, LogError>(())
        })
    }

    fn row_tables(&self, _: &Filter) -> Result<Vec<String>, LogError> {
        Ok(vec![ROWS.to_owned()])
    }
}

/// What an error of PostgreSQL means for the ledger: the server's message, without its details, which can hold values.
impl From<tokio_postgres::Error> for LogError {
    fn from(error: tokio_postgres::Error) -> Self {
        let why = message(&error);
        let code = error.code().map_or("", SqlState::code);
        match code.get(..2) {
            // Values it cannot store, or that violate what it demands; not a partition that another gateway has just deleted.
            Some("22") => Self::Refused(why),
            // query_canceled: the time limit of the statement.
            _ if code == "57014" => Self::TooLong,
            _ => Self::Unavailable(why),
        }
    }
}

impl From<PoolError> for LogError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => error.into(),
            PoolError::Timeout(_) => Self::Unavailable("no connection in time".to_owned()),
            error => Self::Unavailable(error.to_string()),
        }
    }
}
