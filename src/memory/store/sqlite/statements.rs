//! The statements on a SQLite database, and its rows as records.
//!
//! Each function is one transaction or a part of one, and blocks. When they run is decided in `sqlite` and `writer`.

use super::super::audit::{AuditEntry, AuditPage, AuditQuery};
use super::super::backend::{Changes, Loaded};
use super::super::rows::{
    Columns, DELETIONS_KEPT, check, kinds_not_in_memory, nanoseconds, now, number_taken, parse_record,
    parse_time, parse_uuid, slug_taken,
};
use super::super::{Change, Kind, Record, StoreError};
use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, Params, Row, Savepoint, Transaction, ffi, params, params_from_iter};
use std::sync::Arc;
use uuid::Uuid;

const COLUMNS: &str = "kind, id, parent, workspace, slug, number, status, revision, created_at, updated_at, body, key_id, sealed";

const VALUES: &str = "(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
const AUDIT_COLUMNS: &str = "id, time, workspace, actor, actor_type, action, resource, method, status, body";

/// What a failure of SQLite means.
pub(super) fn failure(error: rusqlite::Error) -> StoreError {
    failure_of(&error)
}

pub(super) fn failure_of(error: &rusqlite::Error) -> StoreError {
    let why = error.to_string();
    let extended = error.sqlite_error().map_or(0, |error| error.extended_code);
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(why),
        // The file that processes share could not grow.
        Some(_) if extended == ffi::SQLITE_IOERR_SHMSIZE => StoreError::Full(why),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Unavailable("another process is writing to it".to_owned())
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(why),
        Some(_) => StoreError::Unavailable(why),
        None => StoreError::Damaged(why),
    }
}

/// All records of memory's kinds.
pub(super) fn load(connection: &mut Connection) -> Result<Loaded, StoreError> {
    let transaction = connection.transaction().map_err(failure)?;
    let position = position(&transaction)?;
    let sql = format!("SELECT {COLUMNS} FROM records WHERE kind NOT IN ({})", kinds_not_in_memory());
    let records = records(&transaction, &sql, [])?;
    Ok(Loaded { records, position })
}

pub(super) fn changes(connection: &mut Connection, after: u64) -> Result<Changes, StoreError> {
    let transaction = connection.transaction().map_err(failure)?;
    let position = position(&transaction)?;
    if position == after {
        return Ok(Changes { changes: Vec::new(), position });
    }
    let after = integer(after)?;
    let put = "SELECT r.kind, r.id, r.parent, r.workspace, r.slug, r.number, r.status, r.revision, r.created_at, r.updated_at, \
               r.body, r.key_id, r.sealed FROM changes c JOIN records r ON r.kind = c.kind AND r.id = c.id WHERE c.position > ?1";
    let put = records(&transaction, put, [after])?.into_iter().map(Change::Put);
    let deleted = "SELECT c.kind, c.id FROM changes c LEFT JOIN records r ON r.kind = c.kind AND r.id = c.id \
                   WHERE c.position > ?1 AND r.id IS NULL";
    let mut statement = transaction.prepare(deleted).map_err(failure)?;
    let mut rows = statement.query([after]).map_err(failure)?;
    // Deletions first: a slug that was freed may have been taken by another record since.
    let mut changes = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let kind: String = cell(row, 0)?;
        let id: String = cell(row, 1)?;
        // A kind of a newer binary is not in memory.
        if let Some(kind) = Kind::parse(&kind) {
            changes.push(Change::Delete { kind, id: parse_uuid(&id)? });
        }
    }
    changes.extend(put);
    Ok(Changes { changes, position })
}

pub(super) fn children(
    connection: &mut Connection,
    kind: Kind,
    parent: Uuid,
) -> Result<Vec<Arc<Record>>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM records WHERE kind = ?1 AND parent = ?2 ORDER BY number DESC, id DESC"
    );
    records(connection, &sql, params![kind.as_str(), parent.to_string()])
}

pub(super) fn sealed_under_others(
    connection: &mut Connection,
    key_id: &str,
    limit: u32,
) -> Result<Vec<Arc<Record>>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM records WHERE key_id <> ?1 ORDER BY kind, id LIMIT ?2");
    records(connection, &sql, params![key_id, limit])
}

/// Writes a part of a transaction.
pub(super) fn write(
    savepoint: &Savepoint<'_>,
    changes: &[Change],
    audit: &[AuditEntry],
) -> Result<u64, StoreError> {
    if !changes.is_empty() {
        let next = "UPDATE last_position SET position = position + 1";
        savepoint.execute(next, []).map_err(failure)?;
    }
    let position = position(savepoint)?;
    for change in changes {
        match change {
            Change::Put(record) => put(savepoint, record)?,
            Change::Delete { kind, id } => delete(savepoint, *kind, *id)?,
        }
        let (kind, id) = match change {
            Change::Put(record) => (record.kind, record.id),
            Change::Delete { kind, id } => (*kind, *id),
        };
        if kind.is_in_memory() {
            let note = "INSERT OR REPLACE INTO changes VALUES (?1, ?2, ?3, ?4)";
            let values = params![kind.as_str(), id.to_string(), integer(position)?, now()];
            savepoint.execute(note, values).map_err(failure)?;
        }
    }
    for entry in audit {
        add_audit_entry(savepoint, entry)?;
    }
    Ok(position)
}

fn put(connection: &Connection, record: &Record) -> Result<(), StoreError> {
    let sql = match record.revision {
        1 => format!("INSERT INTO records ({COLUMNS}) VALUES {VALUES} ON CONFLICT (kind, id) DO NOTHING"),
        _ => format!(
            "UPDATE records SET ({COLUMNS}) = {VALUES} WHERE kind = ?1 AND id = ?2 AND revision = ?8 - 1"
        ),
    };
    execute_with(connection, &sql, record)
}

/// Adds a record whatever its revision is: to a copy.
pub(super) fn insert(connection: &Connection, record: &Record) -> Result<(), StoreError> {
    execute_with(connection, &format!("INSERT INTO records ({COLUMNS}) VALUES {VALUES}"), record)
}

/// The position of a copy.
pub(super) fn set_position(connection: &Connection, position: u64) -> Result<(), StoreError> {
    let position = integer(position)?;
    let changed = connection.execute("UPDATE last_position SET position = ?1", [position]);
    changed.map(|_| ()).map_err(failure)
}

/// Executes a statement with the values of a record.
fn execute_with(connection: &Connection, sql: &str, record: &Record) -> Result<(), StoreError> {
    let key_id = record.sealed.as_ref().map(|sealed| &sealed.key_id);
    let values = params![
        record.kind.as_str(),
        record.id.to_string(),
        record.parent.map(|id| id.to_string()),
        record.workspace.map(|id| id.to_string()),
        record.slug,
        record.number,
        record.status.as_str(),
        integer(record.revision)?,
        nanoseconds(record.created_at),
        nanoseconds(record.updated_at),
        &*record.body,
        key_id,
        record.sealed.as_ref().map(|sealed| &*sealed.bytes),
    ];
    match connection.execute(sql, values) {
        Ok(0) => Err(StoreError::Changed),
        Ok(_) => Ok(()),
        Err(error) => Err(conflict(&error, record)),
    }
}

fn delete(connection: &Connection, kind: Kind, id: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM records WHERE kind = ?1 AND id = ?2";
    match connection.execute(sql, params![kind.as_str(), id.to_string()]).map_err(failure)? {
        0 => Err(StoreError::Changed),
        _ => Ok(()),
    }
}

/// What is in the way of a record, by the index that refused it.
fn conflict(error: &rusqlite::Error, record: &Record) -> StoreError {
    if error.sqlite_error_code() != Some(ErrorCode::ConstraintViolation) {
        return failure_of(error);
    }
    let text = error.to_string();
    if text.contains("records_slug") {
        return slug_taken(record);
    }
    if text.contains("records.number") {
        return number_taken(record);
    }
    StoreError::Changed
}

pub(super) fn add_audit_entry(connection: &Connection, entry: &AuditEntry) -> Result<(), StoreError> {
    let values = params![
        entry.id.to_string(),
        nanoseconds(entry.time),
        entry.workspace.map(|id| id.to_string()),
        entry.actor,
        entry.actor_type,
        entry.action,
        entry.resource,
        entry.method,
        entry.status,
        entry.body,
    ];
    let sql = "INSERT INTO audit VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    connection.execute(sql, values).map(|_| ()).map_err(failure)
}

pub(super) fn audit(connection: &mut Connection, query: &AuditQuery) -> Result<AuditPage, StoreError> {
    let (condition, mut values) = audit_condition(query);
    let transaction = connection.transaction().map_err(failure)?;
    let count = format!("SELECT count(*) FROM audit{condition}");
    let total: i64 =
        transaction.query_row(&count, params_from_iter(values.iter()), |row| row.get(0)).map_err(failure)?;
    values.extend([Value::from(query.limit), Value::from(query.offset)]);
    let sql = format!(
        "SELECT {AUDIT_COLUMNS} FROM audit{condition} \
         ORDER BY time DESC, id DESC LIMIT ? OFFSET ?"
    );
    let mut statement = transaction.prepare(&sql).map_err(failure)?;
    let mut rows = statement.query(params_from_iter(values.iter())).map_err(failure)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        entries.push(audit_entry(row)?);
    }
    Ok(AuditPage { entries, total: u64::try_from(total).unwrap_or(0) })
}

pub(super) fn expire_audit(
    connection: &Connection,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE time < ?1 ORDER BY time LIMIT ?2)";
    let deleted = connection.execute(sql, params![nanoseconds(before), limit]).map_err(failure)?;
    Ok(deleted as u64)
}

/// The WHERE of a query and its values, in order.
fn audit_condition(query: &AuditQuery) -> (String, Vec<Value>) {
    let mut conditions = Vec::new();
    let mut values = Vec::new();
    let times = [("time >= ?", query.since), ("time < ?", query.until)];
    for (condition, time) in times.into_iter().filter_map(|(condition, time)| Some((condition, time?))) {
        conditions.push(condition);
        values.push(Value::from(nanoseconds(time)));
    }
    let texts = [
        ("workspace = ?", query.workspace.map(|id| id.to_string())),
        ("actor = ?", query.actor.clone()),
        ("actor_type = ?", query.actor_type.clone()),
        ("action = ?", query.action.clone()),
        ("resource = ?", query.resource.clone()),
        ("method = ?", query.method.clone()),
    ];
    for (condition, text) in texts.into_iter().filter_map(|(condition, text)| Some((condition, text?))) {
        conditions.push(condition);
        values.push(Value::from(text));
    }
    if let Some(status) = query.status {
        conditions.push("status = ?");
        values.push(Value::from(status));
    }
    for (member, text) in &query.members {
        conditions.push("CAST(json_extract(body, ?) AS TEXT) = ?");
        values.extend([Value::from(format!("$.\"{member}\"")), Value::from(text.clone())]);
    }
    if conditions.is_empty() {
        (String::new(), values)
    } else {
        (format!(" WHERE {}", conditions.join(" AND ")), values)
    }
}

fn audit_entry(row: &Row<'_>) -> Result<AuditEntry, StoreError> {
    let id: String = cell(row, 0)?;
    let workspace: Option<String> = cell(row, 2)?;
    Ok(AuditEntry {
        id: parse_uuid(&id)?,
        time: parse_time(cell(row, 1)?)?,
        workspace: workspace.as_deref().map(parse_uuid).transpose()?,
        actor: cell(row, 3)?,
        actor_type: cell(row, 4)?,
        action: cell(row, 5)?,
        resource: cell(row, 6)?,
        method: cell(row, 7)?,
        status: cell(row, 8)?,
        body: cell(row, 9)?,
    })
}

/// Checks the file and every row.
pub(super) fn verify(connection: &mut Connection) -> Result<u64, StoreError> {
    let transaction = connection.transaction().map_err(failure)?;
    check_file(&transaction)?;
    let all = records(&transaction, &format!("SELECT {COLUMNS} FROM records"), [])?;
    for record in &all {
        check(record)?;
    }
    let mut statement =
        transaction.prepare(&format!("SELECT {AUDIT_COLUMNS} FROM audit")).map_err(failure)?;
    let mut rows = statement.query([]).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        audit_entry(row)?;
    }
    Ok(u64::try_from(all.len()).unwrap_or(u64::MAX))
}

fn check_file(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    let mut statement = transaction.prepare("PRAGMA integrity_check").map_err(failure)?;
    let mut rows = statement.query([]).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let line: String = cell(row, 0)?;
        if line != "ok" {
            return Err(StoreError::Damaged(line));
        }
    }
    Ok(())
}

/// Forgets which records were deleted long ago: every other process has read it or loads everything again.
pub(super) fn forget_old_deletions(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "DELETE FROM changes WHERE changed_at < ?1 AND NOT EXISTS \
               (SELECT 1 FROM records r WHERE r.kind = changes.kind AND r.id = changes.id)";
    let kept = i64::try_from(DELETIONS_KEPT.as_nanos()).unwrap_or(i64::MAX);
    connection.execute(sql, [now() - kept]).map(|_| ())
}

/// The number of the last write.
pub(super) fn position(connection: &Connection) -> Result<u64, StoreError> {
    let position = connection.query_row("SELECT position FROM last_position", [], |row| row.get::<_, i64>(0));
    position.map(|position| u64::try_from(position).unwrap_or(0)).map_err(failure)
}

fn records(connection: &Connection, sql: &str, values: impl Params) -> Result<Vec<Arc<Record>>, StoreError> {
    let mut statement = connection.prepare(sql).map_err(failure)?;
    let mut rows = statement.query(values).map_err(failure)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        found.extend(record(row)?.map(Arc::new));
    }
    Ok(found)
}

/// A row with [`COLUMNS`] as a record; `None` for a kind that only a newer binary knows.
fn record(row: &Row<'_>) -> Result<Option<Record>, StoreError> {
    let id: String = cell(row, 1)?;
    let parent: Option<String> = cell(row, 2)?;
    let workspace: Option<String> = cell(row, 3)?;
    let kind: String = cell(row, 0)?;
    let status: String = cell(row, 6)?;
    let body: String = cell(row, 10)?;
    parse_record(Columns {
        kind: &kind,
        id: parse_uuid(&id)?,
        parent: parent.as_deref().map(parse_uuid).transpose()?,
        workspace: workspace.as_deref().map(parse_uuid).transpose()?,
        slug: cell(row, 4)?,
        number: cell(row, 5)?,
        status: &status,
        revision: cell(row, 7)?,
        created_at: cell(row, 8)?,
        updated_at: cell(row, 9)?,
        body: &body,
        key_id: cell(row, 11)?,
        sealed: cell::<Option<Vec<u8>>>(row, 12)?.as_deref(),
    })
}

fn cell<T: rusqlite::types::FromSql>(row: &Row<'_>, index: usize) -> Result<T, StoreError> {
    row.get(index).map_err(failure)
}

fn integer(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Damaged(format!("{number} is too large")))
}
