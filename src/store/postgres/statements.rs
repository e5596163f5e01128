//! The statements on a PostgreSQL database, and its rows as records.
//!
//! Each function is one transaction or a part of one. Time limits are `postgres`'s.

use super::super::audit::{AuditEntry, AuditPage, AuditQuery};
use super::super::backend::{Changes, Loaded};
use super::super::rows::{
    Columns, DELETIONS_KEPT, kinds_not_in_memory, nanoseconds, now, number_taken, parse_record, parse_time,
    slug_taken,
};
use super::super::{Change, Kind, Record, StoreError};
use super::failure::{failure, failure_of, violated_index};
use super::listener::CHANNEL;
use super::one_moment;
use deadpool_postgres::{GenericClient, Object, Transaction};
use std::sync::Arc;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};
use uuid::Uuid;

pub(super) const COLUMNS: &str = "kind, id, parent, workspace, slug, number, status, revision, created_at, updated_at, body, key_id, sealed";
pub(super) const AUDIT_COLUMNS: &str =
    "id, time, workspace, actor, actor_type, action, resource, method, status, body";

/// Executes a statement that is prepared once a connection: half the round trips.
async fn execute(
    transaction: &Transaction<'_>,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<u64, tokio_postgres::Error> {
    let statement = transaction.prepare_cached(sql).await?;
    transaction.execute(&statement, values).await
}

/// A value of a statement.
type Parameter = Box<dyn ToSql + Sync + Send>;

/// All records of memory's kinds.
pub(super) async fn load(client: &mut Object) -> Result<Loaded, StoreError> {
    forget_old_deletions(client).await?;
    let transaction = one_moment(client).await?;
    let position = position(&transaction).await?;
    let sql = format!("SELECT {COLUMNS} FROM records WHERE kind NOT IN ({})", kinds_not_in_memory());
    Ok(Loaded { records: records(&transaction, &sql, &[]).await?, position })
}

/// Forgets which records were deleted long ago: every other process has read it or loads everything again.
async fn forget_old_deletions(client: &Object) -> Result<(), StoreError> {
    let sql = "DELETE FROM changes c WHERE c.changed_at < $1 AND NOT EXISTS \
               (SELECT 1 FROM records r WHERE r.kind = c.kind AND r.id = c.id)";
    let kept = i64::try_from(DELETIONS_KEPT.as_nanos()).unwrap_or(i64::MAX);
    client.execute(sql, &[&(now() - kept)]).await.map(|_| ()).map_err(failure)
}

pub(super) async fn changes(client: &mut Object, after: u64) -> Result<Changes, StoreError> {
    // Mostly nothing has changed: one statement, no transaction.
    let position_now = position(&*client).await?;
    if position_now == after {
        return Ok(Changes { changes: Vec::new(), position: position_now });
    }
    let transaction = one_moment(client).await?;
    let position = position(&transaction).await?;
    let after = integer(after)?;
    let deleted = "SELECT c.kind, c.id FROM changes c LEFT JOIN records r ON r.kind = c.kind AND r.id = c.id \
                   WHERE c.position > $1 AND r.id IS NULL";
    // Deletions first: a slug that was freed may have been taken by another record since.
    let mut changes = Vec::new();
    let deleted = transaction.prepare_cached(deleted).await.map_err(failure)?;
    for row in transaction.query(&deleted, &[&after]).await.map_err(failure)? {
        // A kind of a newer binary is not in memory.
        if let Some(kind) = Kind::parse(cell(&row, 0)?) {
            changes.push(Change::Delete { kind, id: cell(&row, 1)? });
        }
    }
    let put = "SELECT r.kind, r.id, r.parent, r.workspace, r.slug, r.number, r.status, r.revision, r.created_at, r.updated_at, \
               r.body, r.key_id, r.sealed FROM changes c JOIN records r ON r.kind = c.kind AND r.id = c.id WHERE c.position > $1";
    changes.extend(records(&transaction, put, &[&after]).await?.into_iter().map(Change::Put));
    Ok(Changes { changes, position })
}

pub(super) async fn children(
    client: &Object,
    kind: Kind,
    parent: Uuid,
) -> Result<Vec<Arc<Record>>, StoreError> {
    let order = "ORDER BY number DESC NULLS LAST, id DESC";
    let sql = format!("SELECT {COLUMNS} FROM records WHERE kind = $1 AND parent = $2 {order}");
    records(client, &sql, &[&kind.as_str(), &parent]).await
}

pub(super) async fn sealed_under_others(
    client: &Object,
    key_id: &str,
    limit: u32,
) -> Result<Vec<Arc<Record>>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM records WHERE key_id <> $1 ORDER BY kind, id LIMIT $2");
    records(client, &sql, &[&key_id, &i64::from(limit)]).await
}

/// Writes all or nothing, and announces it.
pub(super) async fn write(
    client: &mut Object,
    changes: &[Change],
    audit: &[AuditEntry],
) -> Result<u64, StoreError> {
    let transaction = client.transaction().await.map_err(failure)?;
    let position = if changes.is_empty() {
        position(&transaction).await?
    } else {
        // Locks the row until the commit: positions are in the order of commits.
        let next = "UPDATE last_position SET position = position + 1 RETURNING position";
        let next = transaction.prepare_cached(next).await.map_err(failure)?;
        let row = transaction.query_one(&next, &[]).await.map_err(failure)?;
        unsigned(cell(&row, 0)?)?
    };
    for change in changes {
        let (kind, id) = match change {
            Change::Put(record) => {
                put(&transaction, record).await?;
                (record.kind, record.id)
            }
            Change::Delete { kind, id } => {
                delete(&transaction, *kind, *id).await?;
                (*kind, *id)
            }
        };
        if kind.is_in_memory() {
            let note = "INSERT INTO changes VALUES ($1, $2, $3, $4) ON CONFLICT (kind, id) DO UPDATE \
                        SET position = excluded.position, changed_at = excluded.changed_at";
            let values: [&(dyn ToSql + Sync); 4] = [&kind.as_str(), &id, &integer(position)?, &now()];
            execute(&transaction, note, &values).await.map_err(failure)?;
        }
    }
    for entry in audit {
        add_audit_entry(&transaction, entry).await?;
    }
    if !changes.is_empty() {
        execute(&transaction, "SELECT pg_notify($1, '')", &[&CHANNEL]).await.map_err(failure)?;
    }
    transaction.commit().await.map_err(failure)?;
    Ok(position)
}

async fn put(transaction: &Transaction<'_>, record: &Record) -> Result<(), StoreError> {
    let number = record.number.map(i64::from);
    let key_id = record.sealed.as_ref().map(|sealed| sealed.key_id.as_str());
    let sealed = record.sealed.as_ref().map(|sealed| &*sealed.bytes);
    let values: [&(dyn ToSql + Sync); 13] = [
        &record.kind.as_str(),
        &record.id,
        &record.parent,
        &record.workspace,
        &record.slug,
        &number,
        &record.status.as_str(),
        &integer(record.revision)?,
        &nanoseconds(record.created_at),
        &nanoseconds(record.updated_at),
        &&*record.body,
        &key_id,
        &sealed,
    ];
    const VALUES: &str = "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
    let sql = match record.revision {
        1 => format!("INSERT INTO records ({COLUMNS}) VALUES {VALUES} ON CONFLICT (kind, id) DO NOTHING"),
        _ => format!(
            "UPDATE records SET ({COLUMNS}) = {VALUES} WHERE kind = $1 AND id = $2 AND revision = $8::bigint - 1"
        ),
    };
    match execute(transaction, &sql, &values).await {
        Ok(0) => Err(StoreError::Changed),
        Ok(_) => Ok(()),
        Err(error) => Err(match violated_index(&error) {
            Some("records_slug") => slug_taken(record),
            Some("records_number") => number_taken(record),
            _ => failure_of(&error),
        }),
    }
}

async fn delete(transaction: &Transaction<'_>, kind: Kind, id: Uuid) -> Result<(), StoreError> {
    let sql = "DELETE FROM records WHERE kind = $1 AND id = $2";
    match execute(transaction, sql, &[&kind.as_str(), &id]).await.map_err(failure)? {
        0 => Err(StoreError::Changed),
        _ => Ok(()),
    }
}

async fn add_audit_entry(transaction: &Transaction<'_>, entry: &AuditEntry) -> Result<(), StoreError> {
    let (time, status) = (nanoseconds(entry.time), i64::from(entry.status));
    let values: [&(dyn ToSql + Sync); 10] = [
        &entry.id,
        &time,
        &entry.workspace,
        &entry.actor,
        &entry.actor_type,
        &entry.action,
        &entry.resource,
        &entry.method,
        &status,
        &entry.body,
    ];
    let sql = "INSERT INTO audit VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    execute(transaction, sql, &values).await.map(|_| ()).map_err(failure)
}

pub(super) async fn audit(client: &mut Object, query: &AuditQuery) -> Result<AuditPage, StoreError> {
    let (condition, mut values) = audit_condition(query);
    let transaction = one_moment(client).await?;
    let count = format!("SELECT count(*) FROM audit{condition}");
    let row = transaction.query_one(&count, &references(&values)).await.map_err(failure)?;
    let total = unsigned(cell(&row, 0)?)?;
    values.extend([Box::new(i64::from(query.limit)) as Parameter, Box::new(i64::from(query.offset))]);
    let (limit, offset) = (values.len() - 1, values.len());
    let sql = format!(
        "SELECT {AUDIT_COLUMNS} FROM audit{condition} ORDER BY time DESC, id DESC LIMIT ${limit} OFFSET ${offset}"
    );
    let rows = transaction.query(&sql, &references(&values)).await.map_err(failure)?;
    Ok(AuditPage { entries: rows.iter().map(audit_entry).collect::<Result<_, _>>()?, total })
}

fn references(values: &[Parameter]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect()
}

/// The WHERE of a query and its values, in order.
fn audit_condition(query: &AuditQuery) -> (String, Vec<Parameter>) {
    let mut conditions: Vec<String> = Vec::new();
    let mut values: Vec<Parameter> = Vec::new();
    let mut add = |condition: &str, value: Parameter| {
        values.push(value);
        conditions.push(condition.replace('?', &format!("${}", values.len())));
    };
    for (condition, time) in [("time >= ?", query.since), ("time < ?", query.until)] {
        if let Some(time) = time {
            add(condition, Box::new(nanoseconds(time)));
        }
    }
    if let Some(workspace) = query.workspace {
        add("workspace = ?", Box::new(workspace));
    }
    let texts = [
        ("actor = ?", &query.actor),
        ("actor_type = ?", &query.actor_type),
        ("action = ?", &query.action),
        ("resource = ?", &query.resource),
        ("method = ?", &query.method),
    ];
    for (condition, text) in texts {
        if let Some(text) = text {
            add(condition, Box::new(text.clone()));
        }
    }
    if let Some(status) = query.status {
        add("status = ?", Box::new(i64::from(status)));
    }
    for (member, text) in &query.members {
        // The names of members are our own constants.
        add(&format!("body::jsonb ->> '{member}' = ?"), Box::new(text.clone()));
    }
    match conditions.is_empty() {
        true => (String::new(), values),
        false => (format!(" WHERE {}", conditions.join(" AND ")), values),
    }
}

pub(super) fn audit_entry(row: &Row) -> Result<AuditEntry, StoreError> {
    let status: i64 = cell(row, 8)?;
    Ok(AuditEntry {
        id: cell(row, 0)?,
        time: parse_time(cell(row, 1)?)?,
        workspace: cell(row, 2)?,
        actor: cell(row, 3)?,
        actor_type: cell(row, 4)?,
        action: cell(row, 5)?,
        resource: cell(row, 6)?,
        method: cell(row, 7)?,
        status: u16::try_from(status).map_err(|_| StoreError::Damaged(format!("{status} is no status")))?,
        body: cell(row, 9)?,
    })
}

/// The number of the last write.
pub(super) async fn position(client: &impl GenericClient) -> Result<u64, StoreError> {
    let statement = client.prepare_cached("SELECT position FROM last_position").await.map_err(failure)?;
    let row = client.query_one(&statement, &[]).await.map_err(failure)?;
    unsigned(cell(&row, 0)?)
}

pub(super) async fn records(
    client: &impl GenericClient,
    sql: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Arc<Record>>, StoreError> {
    let statement = client.prepare_cached(sql).await.map_err(failure)?;
    let rows = client.query(&statement, values).await.map_err(failure)?;
    let mut found = Vec::with_capacity(rows.len());
    for row in &rows {
        found.extend(record(row)?.map(Arc::new));
    }
    Ok(found)
}

/// A row with [`COLUMNS`] as a record; `None` for a kind that only a newer binary knows.
fn record(row: &Row) -> Result<Option<Record>, StoreError> {
    parse_record(Columns {
        kind: cell(row, 0)?,
        id: cell(row, 1)?,
        parent: cell(row, 2)?,
        workspace: cell(row, 3)?,
        slug: cell(row, 4)?,
        number: cell(row, 5)?,
        status: cell(row, 6)?,
        revision: cell(row, 7)?,
        created_at: cell(row, 8)?,
        updated_at: cell(row, 9)?,
        body: cell(row, 10)?,
        key_id: cell(row, 11)?,
        sealed: cell(row, 12)?,
    })
}

fn cell<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, StoreError> {
    row.try_get(index).map_err(|why| StoreError::Damaged(why.to_string()))
}

fn integer(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Damaged(format!("{number} is too large")))
}

fn unsigned(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| StoreError::Damaged(format!("{number} is negative")))
}
