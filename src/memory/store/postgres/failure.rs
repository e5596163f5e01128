//! What failures of PostgreSQL and its connections mean for the store.
//!
//! Messages are the server's, without its details, which can hold values.

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
        let Some(database) = error.as_db_error() else {
            let cause = std::error::Error::source(error).map(ToString::to_string);
            let why = cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
            return Self::Unavailable(why);
        };
        let why = database.message().to_owned();
        match database.code() {
            &SqlState::DISK_FULL => Self::Full(why),
            &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => Self::Damaged(why),
            _ => Self::Unavailable(why),
        }
    }
}

/// Why there is no connection.
pub fn no_connection(error: PoolError) -> StoreError {
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
