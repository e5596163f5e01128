//! Rows of a database as records and entries of the audit log, for both databases and the snapshot on disk.
//!
//! The order of their columns is that of `statements.rs`.

use super::audit::AuditEntry;
use super::sql::{ResultRow, WrongType};
use super::{Change, Kind, Record, Sealed, Status, StoreError};
use jiff::Timestamp;
use std::sync::Arc;

impl From<WrongType> for StoreError {
    fn from(why: WrongType) -> Self {
        Self::Damaged(why.0)
    }
}

pub(super) fn required<T>(value: Option<T>) -> Result<T, StoreError> {
    value.ok_or_else(|| StoreError::Damaged("a column that must have a value is empty".to_owned()))
}

/// The record of a row; `None` for a kind that only a newer binary knows.
///
/// # Errors
/// `Damaged` for values that no version has written.
pub(super) fn record(row: &dyn ResultRow) -> Result<Option<Record>, StoreError> {
    let Some(kind) = Kind::parse(required(row.text(0)?)?) else { return Ok(None) };
    let id = required(row.uuid(1)?)?;
    let damaged = |what: &str| StoreError::Damaged(format!("{} {id}: {what}", kind.as_str()));
    let number = row.int(5)?.map(|number| u32::try_from(number).map_err(|_| damaged("its number")));
    let sealed = row.text(11)?.zip(row.bytes(12)?);
    Ok(Some(Record {
        kind,
        id,
        parent: row.uuid(2)?,
        workspace: row.uuid(3)?,
        slug: row.text(4)?.map(str::to_owned),
        number: number.transpose()?,
        status: row.text(6)?.and_then(Status::parse).ok_or_else(|| damaged("its status"))?,
        revision: u64::try_from(required(row.int(7)?)?).map_err(|_| damaged("its revision"))?,
        created_at: parse_time(required(row.int(8)?)?)?,
        updated_at: parse_time(required(row.int(9)?)?)?,
        body: Arc::from(required(row.text(10)?)?),
        sealed: sealed.map(|(key_id, bytes)| Sealed { key_id: key_id.to_owned(), bytes: bytes.into() }),
    }))
}

/// The deletion of a row with a kind and an id; `None` for a kind of a newer binary, which is not in memory.
pub(super) fn deletion(row: &dyn ResultRow) -> Result<Option<Change>, StoreError> {
    let Some(kind) = Kind::parse(required(row.text(0)?)?) else { return Ok(None) };
    Ok(Some(Change::Delete { kind, id: required(row.uuid(1)?)? }))
}

pub(super) fn audit_entry(row: &dyn ResultRow) -> Result<AuditEntry, StoreError> {
    let text = |column| Ok::<_, StoreError>(required(row.text(column)?)?.to_owned());
    let status = required(row.int(8)?)?;
    Ok(AuditEntry {
        id: required(row.uuid(0)?)?,
        time: parse_time(required(row.int(1)?)?)?,
        workspace: row.uuid(2)?,
        actor: text(3)?,
        actor_type: text(4)?,
        action: text(5)?,
        resource: text(6)?,
        method: text(7)?,
        status: u16::try_from(status).map_err(|_| StoreError::Damaged(format!("{status} is no status")))?,
        body: text(9)?,
    })
}

/// The number in a row's only column: a position, or how many there are.
pub(super) fn count(row: &dyn ResultRow) -> Result<u64, StoreError> {
    let number = required(row.int(0)?)?;
    u64::try_from(number).map_err(|_| StoreError::Damaged(format!("{number} is negative")))
}

/// Checks what reading a row does not: that the body is a JSON object.
pub(super) fn check(record: &Record) -> Result<(), StoreError> {
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&record.body) {
        Ok(_) => Ok(()),
        Err(why) => {
            Err(StoreError::Damaged(format!("{} {}: its body: {why}", record.kind.as_str(), record.id)))
        }
    }
}

pub(super) fn parse_time(nanoseconds: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_nanosecond(i128::from(nanoseconds))
        .map_err(|_| StoreError::Damaged(format!("{nanoseconds} is no time")))
}

/// What a unique index has refused of a record.
pub(super) fn slug_taken(record: &Record) -> StoreError {
    StoreError::Taken(format!("the slug {}", record.slug.as_deref().unwrap_or_default()))
}

pub(super) fn number_taken(record: &Record) -> StoreError {
    StoreError::Taken(format!("version {}", record.number.unwrap_or_default()))
}
