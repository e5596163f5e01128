//! What failures of PostgreSQL and its connections mean for the store.
//!
//! Messages are the server's ([`message`]).

use super::StoreError;
use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// What an error of the database means.
pub fn failure(error: Error) -> StoreError {
    error.into()
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for StoreError {
    fn from(error: &Error) -> Self {
        let why = message(error);
        match error.code() {
            Some(&SqlState::DISK_FULL) => Self::Full(why),
            Some(&SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED) => Self::Damaged(why),
            _ => Self::Unavailable(why),
        }
    }
}

/// The server's message without its details, which can hold values; or the error and its cause.
pub(crate) fn message(error: &Error) -> String {
    if let Some(database) = error.as_db_error() {
        return database.message().to_owned();
    }
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Why there is no connection.
pub(crate) fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => failure(error),
        PoolError::Timeout(_) => StoreError::Unavailable("no connection in time".to_owned()),
        error => StoreError::Unavailable(error.to_string()),
    }
}

/// The name of the unique index that a row would violate.
pub(super) fn violated_index(error: &Error) -> Option<&str> {
    let database = error.as_db_error()?;
    (database.code() == &SqlState::UNIQUE_VIOLATION).then(|| database.constraint()).flatten()
}
