//! Why the store could not do what was asked of it.
//!
//! Clients do not get it as it is, but the [`Error`] that is made of it.

use std::fmt;
use words::error::Error;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// The database does not respond, or not in time. Nothing is known to be written.
    Unavailable(String),
    /// No space left. Nothing was written.
    Full(String),
    /// A slug or a version number is taken; the text names it.
    Taken(String),
    /// The record was changed or deleted since it was read.
    Changed,
    /// The database was made by a newer version of the gateway.
    Newer { database: i64, binary: i64 },
    /// The content cannot be read.
    Damaged(String),
    /// This gateway only reads the store.
    ReadsOnly,
    /// The settings are wrong: a URL that cannot be read, or a master key that is malformed or not the one of this database.
    Misconfigured(String),
}

impl StoreError {
    /// Whether only an operator can end it, so that a start must be refused. Without such an error the gateway starts with
    /// what it has, and tries again.
    pub(crate) const fn is_fatal(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::Misconfigured(_))
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(why) => write!(f, "the store is not available: {why}"),
            Self::Full(why) => write!(f, "the store has no space left: {why}"),
            Self::Taken(what) => write!(f, "{what} is taken"),
            Self::Changed => f.write_str("it was changed at the same time"),
            Self::Newer { database, binary } => write!(
                f,
                "the database has schema {database}, and this binary knows schemas up to {binary}: run the newer binary, or \
                 restore a backup made before the update"
            ),
            Self::Damaged(why) => write!(f, "the store cannot be read: {why}"),
            Self::ReadsOnly => {
                f.write_str("this gateway is an edge node (control.role), which only reads the store")
            }
            Self::Misconfigured(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(cause) => Self::store_unavailable(
                "The store cannot be written or read now. Nothing was changed; requests to providers go on. Try again.",
            )
            .with_cause(cause),
            StoreError::Full(cause) => {
                Self::store_full("The store has no space left. Nothing was changed; make room on its disk.").with_cause(cause)
            }
            StoreError::Taken(what) => Self::conflict(format!("{what} is taken. Choose another one.")),
            StoreError::Changed => Self::conflict(
                "The object was changed or deleted by someone else meanwhile. Read it again and repeat the change.",
            ),
            StoreError::ReadsOnly => Self::edge_node(),
            StoreError::Newer { .. } | StoreError::Damaged(_) | StoreError::Misconfigured(_) => Self::store_unavailable(
                "The store cannot be used. Nothing was changed; requests to providers go on. See the gateway's log.",
            )
            .with_cause(error.to_string()),
        }
    }
}
