//! Why rollups could not be read or merged.

use super::bytes::Damaged;
use crate::ledger::analytics::Unanswered;

/// A read or a step that was given up.
#[derive(Debug)]
pub enum Failure {
    Sqlite(rusqlite::Error),
    Postgres(tokio_postgres::Error),
    Unanswered(Unanswered),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<Damaged> for Failure {
    fn from(damaged: Damaged) -> Self {
        Self::Unanswered(damaged.into())
    }
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Self {
        Self::Unanswered(unanswered)
    }
}
