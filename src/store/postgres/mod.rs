//! The shared database: PostgreSQL, for several gateways.
//!
//! Not here: the URL's parts (`url`).

mod url;

use super::StoreError;

/// Whether the URL can be read.
///
/// # Errors
/// What is wrong with it, without repeating it.
pub(super) fn check_url(text: &str) -> Result<(), String> {
    url::parse(text).map(|_| ())
}

/// The URL without its password and parameters.
pub(super) fn describe(text: &str) -> String {
    url::describe(text)
}

/// Opens the database.
pub(super) async fn connect(_text: &str) -> Result<super::sqlite::Sqlite, StoreError> {
    Err(StoreError::Unavailable("this build has no PostgreSQL yet".to_owned()))
}
