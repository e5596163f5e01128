//! Rows of a database as records, for both backends.
//!
//! No SQL: that is each backend's.

use super::{Kind, Record, Sealed, Status, StoreError};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long it is kept which records were deleted. A process that was longer away from the database loads everything again.
pub const DELETIONS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// The columns of a record, in their order.
pub struct Columns<'a> {
    pub kind: &'a str,
    pub id: Uuid,
    pub parent: Option<Uuid>,
    pub workspace: Option<Uuid>,
    pub slug: Option<String>,
    pub number: Option<i64>,
    pub status: &'a str,
    pub revision: i64,
    pub created_at: i64,
    pub updated_at: i64,
    pub body: &'a str,
    pub key_id: Option<String>,
    pub sealed: Option<&'a [u8]>,
}

/// The record of a row; `None` for a kind that only a newer binary knows.
///
/// # Errors
/// `Damaged` for values that no version has written.
pub fn parse_record(columns: Columns<'_>) -> Result<Option<Record>, StoreError> {
    let Some(kind) = Kind::parse(columns.kind) else { return Ok(None) };
    let damaged = |what: &str| StoreError::Damaged(format!("{} {}: {what}", kind.as_str(), columns.id));
    let sealed = match (columns.key_id, columns.sealed) {
        (Some(key_id), Some(bytes)) => Some(Sealed { key_id, bytes: bytes.into() }),
        _ => None,
    };
    let number = columns.number.map(|number| u32::try_from(number).map_err(|_| damaged("its number")));
    Ok(Some(Record {
        kind,
        id: columns.id,
        parent: columns.parent,
        workspace: columns.workspace,
        slug: columns.slug,
        number: number.transpose()?,
        status: Status::parse(columns.status).ok_or_else(|| damaged("its status"))?,
        revision: u64::try_from(columns.revision).map_err(|_| damaged("its revision"))?,
        created_at: parse_time(columns.created_at)?,
        updated_at: parse_time(columns.updated_at)?,
        body: Arc::from(columns.body),
        sealed,
    }))
}

/// The kinds that are read only on request, as a list for SQL. Their names are our own constants.
pub fn kinds_not_in_memory() -> String {
    let kinds = Kind::ALL.into_iter().filter(|kind| !kind.is_in_memory());
    kinds.map(|kind| format!("'{}'", kind.as_str())).collect::<Vec<_>>().join(", ")
}

/// Checks what reading a row does not: that the body is a JSON object.
pub fn check(record: &Record) -> Result<(), StoreError> {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&record.body) {
        Ok(_) => Ok(()),
        Err(why) => {
            Err(StoreError::Damaged(format!("{} {}: its body: {why}", record.kind.as_str(), record.id)))
        }
    }
}

pub fn parse_uuid(text: &str) -> Result<Uuid, StoreError> {
    Uuid::try_parse(text).map_err(|_| StoreError::Damaged(format!("{text:?} is no id")))
}

/// Nanoseconds since 1970; the years that do not fit (after 2262) become the last that does.
pub fn nanoseconds(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

pub fn parse_time(nanoseconds: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_nanosecond(i128::from(nanoseconds))
        .map_err(|_| StoreError::Damaged(format!("{nanoseconds} is no time")))
}

pub fn now() -> i64 {
    nanoseconds(Timestamp::now())
}

pub fn slug_taken(record: &Record) -> StoreError {
    StoreError::Taken(format!("the slug {}", record.slug.as_deref().unwrap_or_default()))
}

pub fn number_taken(record: &Record) -> StoreError {
    StoreError::Taken(format!("version {}", record.number.unwrap_or_default()))
}
