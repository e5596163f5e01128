//! Which tables a database has, without changing it: before it is opened, which brings them up to date.

use super::sqlite::Sqlite;
use super::{Location, StoreError, postgres};

/// The versions of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schema {
    /// Of the database; 0 where it has none yet.
    pub found: i64,
    /// Of this binary.
    pub newest: i64,
}

impl Schema {
    /// Reads the version of a database that is there. Blocks for SQLite.
    ///
    /// # Errors
    /// `Unavailable`, `Damaged`; `Misconfigured` for authorities that cannot be read.
    pub async fn of(location: &Location) -> Result<Self, StoreError> {
        match location {
            Location::File(file) => Sqlite::schema(file),
            Location::Memory => Ok(Self { found: 0, newest: 0 }),
            Location::Postgres(url) => postgres::schema(url.expose()).await,
        }
    }
}
