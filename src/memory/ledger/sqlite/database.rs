//! A connection to SQLite as the ledger's shared statements use it, and what its errors mean.

use super::read;
use crate::ledger::database::{Database, EachRow};
use crate::ledger::days::suffix;
use crate::ledger::filter::Filter;
use crate::ledger::log_store::LogError;
use crate::store::sql::{Dialect, Statement};
use crate::store::sqlite::run;
use rusqlite::{Connection, ErrorCode};

/// What an error of SQLite means for the ledger.
impl From<rusqlite::Error> for LogError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Self::TooLong,
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch) => {
                Self::Refused(error.to_string())
            }
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl Database for Connection {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&self, statement: &Statement<'_>) -> Result<u64, LogError> {
        Ok(run::execute(self, statement)?)
    }

    fn query(&self, statement: &Statement<'_>, each: &mut EachRow<'_>) -> Result<(), LogError> {
        run::query(self, statement, |row| each(row))
    }

    fn row_tables(&self, filter: &Filter) -> Result<Vec<String>, LogError> {
        Ok(read::days(self, filter)?.into_iter().map(|at| format!("rows_{}", suffix(at))).collect())
    }
}
