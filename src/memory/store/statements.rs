//! The statements of the store, the same for both databases. Their rows are read by `rows.rs`.
//!
//! Nothing is run here. Which statements are one transaction is decided by each database.

use super::audit::{AuditEntry, AuditQuery};
use super::sql::{Dialect, SqlCondition, Statement, Value};
use super::{Change, Kind, Record, StoreError};
use jiff::Timestamp;
use std::time::Duration;
use uuid::Uuid;

/// How long it is kept which records were deleted. A process that was longer away from the database loads everything again.
const DELETIONS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

const COLUMNS: &str = "kind, id, parent, workspace, slug, number, status, revision, created_at, updated_at, body, key_id, sealed";
const PLACES: &str = "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13";
const AUDIT_COLUMNS: &str = "id, time, workspace, actor, actor_type, action, resource, method, status, body";

/// The number of the last write.
pub(super) const POSITION: &str = "SELECT position FROM last_position";

/// SQLite has ids as text.
pub(super) fn id(dialect: Dialect, id: Uuid) -> Value<'static> {
    match dialect {
        Dialect::Sqlite => id.to_string().into(),
        Dialect::Postgres => id.into(),
    }
}

/// Nanoseconds since 1970; the years that do not fit (after 2262) become the last that does.
pub(super) fn nanoseconds(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

fn now() -> i64 {
    nanoseconds(Timestamp::now())
}

fn integer(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Damaged(format!("{number} is too large")))
}

/// Reads all records.
pub(super) fn all() -> Statement<'static> {
    Statement::plain(format!("SELECT {COLUMNS} FROM records"))
}

/// Reads all records of kinds that are kept in memory.
pub(super) fn all_in_memory() -> Statement<'static> {
    let kinds = Kind::ALL.into_iter().filter(|kind| !kind.is_in_memory());
    // Their names are our own constants.
    let others = kinds.map(|kind| format!("'{}'", kind.as_str())).collect::<Vec<_>>().join(", ");
    Statement::plain(format!("SELECT {COLUMNS} FROM records WHERE kind NOT IN ({others})"))
}

/// Reads the records that were made or changed after a position.
pub(super) fn put_after(position: u64) -> Result<Statement<'static>, StoreError> {
    let columns = COLUMNS.split(", ").map(|column| format!("r.{column}")).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "SELECT {columns} FROM changes c JOIN records r ON r.kind = c.kind AND r.id = c.id WHERE c.position > $1"
    );
    Ok(Statement::new(sql, vec![integer(position)?.into()]))
}

/// Reads kind and id of the records that were deleted after a position.
pub(super) fn deleted_after(position: u64) -> Result<Statement<'static>, StoreError> {
    let sql = "SELECT c.kind, c.id FROM changes c LEFT JOIN records r ON r.kind = c.kind AND r.id = c.id \
               WHERE c.position > $1 AND r.id IS NULL";
    Ok(Statement::new(sql, vec![integer(position)?.into()]))
}

pub(super) fn children(dialect: Dialect, kind: Kind, parent: Uuid) -> Statement<'static> {
    let order = "ORDER BY number DESC NULLS LAST, id DESC";
    let sql = format!("SELECT {COLUMNS} FROM records WHERE kind = $1 AND parent = $2 {order}");
    Statement::new(sql, vec![kind.as_str().into(), id(dialect, parent)])
}

pub(super) fn sealed_under_others(key_id: &str, limit: u32) -> Statement<'_> {
    let sql = format!("SELECT {COLUMNS} FROM records WHERE key_id <> $1 ORDER BY kind, id LIMIT $2");
    Statement::new(sql, vec![key_id.into(), limit.into()])
}

/// One statement of a write.
pub(super) struct Step<'a> {
    pub statement: Statement<'a>,
    /// The change that must touch a row; `None` where the number of rows says nothing.
    pub change: Option<&'a Change>,
}

impl<'a> From<Statement<'a>> for Step<'a> {
    fn from(statement: Statement<'a>) -> Self {
        Self { statement, change: None }
    }
}

/// The statements of a write, in order. The position after it is to be read behind them.
pub(super) fn write<'a>(
    dialect: Dialect,
    changes: &'a [Change],
    audit: &'a [AuditEntry],
) -> Result<Vec<Step<'a>>, StoreError> {
    let mut steps: Vec<Step<'a>> = Vec::with_capacity(changes.len() * 2 + audit.len() + 1);
    if !changes.is_empty() {
        // Locks the row until the commit: positions are in the order of commits.
        steps.push(Statement::plain("UPDATE last_position SET position = position + 1").into());
    }
    for change in changes {
        let (kind, of) = match change {
            Change::Put(record) => (record.kind, record.id),
            Change::Delete { kind, id } => (*kind, *id),
        };
        let statement = match change {
            Change::Put(record) => put(dialect, record)?,
            Change::Delete { .. } => {
                let sql = "DELETE FROM records WHERE kind = $1 AND id = $2";
                Statement::new(sql, vec![kind.as_str().into(), id(dialect, of)])
            }
        };
        steps.push(Step { statement, change: Some(change) });
        if kind.is_in_memory() {
            let note = "INSERT INTO changes SELECT $1, $2, position, $3 FROM last_position WHERE true ON CONFLICT (kind, id) \
                        DO UPDATE SET position = excluded.position, changed_at = excluded.changed_at";
            let values = vec![kind.as_str().into(), id(dialect, of), now().into()];
            steps.push(Statement::new(note, values).into());
        }
    }
    steps.extend(audit.iter().map(|entry| Step::from(add_audit_entry(dialect, entry))));
    Ok(steps)
}

fn put(dialect: Dialect, record: &Record) -> Result<Statement<'_>, StoreError> {
    let sql = match record.revision {
        1 => format!("INSERT INTO records ({COLUMNS}) VALUES ({PLACES}) ON CONFLICT (kind, id) DO NOTHING"),
        _ => format!(
            "UPDATE records SET ({COLUMNS}) = ({PLACES}) WHERE kind = $1 AND id = $2 AND revision = CAST($8 AS bigint) - 1"
        ),
    };
    Ok(Statement::new(sql, values(dialect, record)?))
}

/// Adds a record whatever its revision is: to a copy.
pub(super) fn insert(dialect: Dialect, record: &Record) -> Result<Statement<'_>, StoreError> {
    let sql = format!("INSERT INTO records ({COLUMNS}) VALUES ({PLACES})");
    Ok(Statement::new(sql, values(dialect, record)?))
}

/// The values of a record, in the order of [`COLUMNS`].
pub(super) fn values(dialect: Dialect, record: &Record) -> Result<Vec<Value<'_>>, StoreError> {
    Ok(vec![
        record.kind.as_str().into(),
        id(dialect, record.id),
        record.parent.map(|of| id(dialect, of)).into(),
        record.workspace.map(|of| id(dialect, of)).into(),
        record.slug.as_deref().into(),
        record.number.into(),
        record.status.as_str().into(),
        integer(record.revision)?.into(),
        nanoseconds(record.created_at).into(),
        nanoseconds(record.updated_at).into(),
        (*record.body).into(),
        record.sealed.as_ref().map(|sealed| sealed.key_id.as_str()).into(),
        record.sealed.as_ref().map(|sealed| &*sealed.bytes).into(),
    ])
}

/// The position of a copy.
pub(super) fn set_position(position: u64) -> Result<Statement<'static>, StoreError> {
    Ok(Statement::new("UPDATE last_position SET position = $1", vec![integer(position)?.into()]))
}

/// Deletes the notes of old deletions: every other process has read them, or loads everything again.
pub(super) fn forget_old_deletions() -> Statement<'static> {
    let sql = "DELETE FROM changes WHERE changed_at < $1 AND NOT EXISTS \
               (SELECT 1 FROM records r WHERE r.kind = changes.kind AND r.id = changes.id)";
    let kept = i64::try_from(DELETIONS_KEPT.as_nanos()).unwrap_or(i64::MAX);
    Statement::new(sql, vec![(now() - kept).into()])
}

pub(super) fn add_audit_entry(dialect: Dialect, entry: &AuditEntry) -> Statement<'_> {
    let values = vec![
        id(dialect, entry.id),
        nanoseconds(entry.time).into(),
        entry.workspace.map(|of| id(dialect, of)).into(),
        entry.actor.as_str().into(),
        entry.actor_type.as_str().into(),
        entry.action.as_str().into(),
        entry.resource.as_str().into(),
        entry.method.as_str().into(),
        u32::from(entry.status).into(),
        entry.body.as_str().into(),
    ];
    Statement::new("INSERT INTO audit VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)", values)
}

/// Reads the whole audit log.
pub(super) fn all_audit_entries() -> Statement<'static> {
    Statement::plain(format!("SELECT {AUDIT_COLUMNS} FROM audit"))
}

/// Deletes the oldest entries of the audit log.
pub(super) fn expire_audit(before: Timestamp, limit: u32) -> Statement<'static> {
    let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE time < $1 ORDER BY time LIMIT $2)";
    Statement::new(sql, vec![nanoseconds(before).into(), limit.into()])
}

/// Reads how many entries of the audit log a query is about, and its page of them.
pub(super) fn audit(dialect: Dialect, query: &AuditQuery) -> [Statement<'_>; 2] {
    let mut condition = audit_condition(dialect, query);
    let count = format!("SELECT count(*) FROM audit WHERE {}", condition.sql());
    let count = Statement::new(count, condition.values().to_vec());
    let limit = condition.argument(query.limit);
    let offset = condition.argument(query.offset);
    let page = format!(
        "SELECT {AUDIT_COLUMNS} FROM audit WHERE {} ORDER BY time DESC, id DESC LIMIT {limit} OFFSET {offset}",
        condition.sql()
    );
    [count, condition.into_statement(page)]
}

fn audit_condition(dialect: Dialect, query: &AuditQuery) -> SqlCondition<'_> {
    let mut condition = SqlCondition::new(dialect);
    condition.compare("time >=", query.since.map(nanoseconds));
    condition.compare("time <", query.until.map(nanoseconds));
    condition.compare("workspace =", query.workspace.map(|of| id(dialect, of)));
    condition.compare("actor =", query.actor.as_deref());
    condition.compare("actor_type =", query.actor_type.as_deref());
    condition.compare("action =", query.action.as_deref());
    condition.compare("resource =", query.resource.as_deref());
    condition.compare("method =", query.method.as_deref());
    condition.compare("status =", query.status.map(u32::from));
    for (member, text) in &query.members {
        // The names of members are our own constants.
        let member = match dialect {
            Dialect::Sqlite => format!("CAST(body ->> '{member}' AS TEXT) ="),
            Dialect::Postgres => format!("body::jsonb ->> '{member}' ="),
        };
        condition.compare(&member, Some(text.as_str()));
    }
    condition
}
