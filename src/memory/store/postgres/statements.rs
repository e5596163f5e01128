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
use futures_util::future::join_all;
use jiff::Timestamp;
use std::sync::Arc;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Row, Statement};
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

/// Statements that are sent without waiting for the one before.
const PIPELINE: usize = 24;

/// One statement of a write.
struct Step<'a> {
    statement: Statement,
    values: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
    /// What it changes; `None` where the number of rows says nothing.
    change: Option<&'a Change>,
}

/// One write as a part of a transaction, behind the statement that sets its savepoint. Returns the position after it.
///
/// All statements are sent at once: after an error the server refuses those behind it, and the first error counts.
///
/// # Errors
/// See [`StoreError`]. The caller rolls back to the savepoint.
pub(super) async fn write(
    transaction: &Transaction<'_>,
    savepoint: &str,
    changes: &[Change],
    audit: &[AuditEntry],
) -> Result<u64, StoreError> {
    let mut steps = Vec::with_capacity(changes.len() * 2 + audit.len() + 1);
    if !changes.is_empty() {
        // Locks the row until the commit: positions are in the order of commits.
        steps.push(step(transaction, "UPDATE last_position SET position = position + 1", Vec::new()).await?);
    }
    for change in changes {
        let (kind, id) = match change {
            Change::Put(record) => (record.kind, record.id),
            Change::Delete { kind, id } => (*kind, *id),
        };
        let made = match change {
            Change::Put(record) => put(transaction, record).await?,
            Change::Delete { .. } => {
                let sql = "DELETE FROM records WHERE kind = $1 AND id = $2";
                step(transaction, sql, vec![Box::new(kind.as_str()), Box::new(id)]).await?
            }
        };
        steps.push(Step { change: Some(change), ..made });
        if kind.is_in_memory() {
            let note = "INSERT INTO changes SELECT $1, $2, position, $3 FROM last_position ON CONFLICT (kind, id) DO UPDATE \
                        SET position = excluded.position, changed_at = excluded.changed_at";
            let values: Vec<Box<dyn ToSql + Sync + Send>> =
                vec![Box::new(kind.as_str()), Box::new(id), Box::new(now())];
            steps.push(step(transaction, note, values).await?);
        }
    }
    for entry in audit {
        steps.push(add_audit_entry(transaction, entry).await?);
    }
    let position = transaction.prepare_cached("SELECT position FROM last_position").await.map_err(failure)?;
    if steps.is_empty() {
        transaction.batch_execute(savepoint).await.map_err(failure)?;
    }
    let mut first = Some(savepoint);
    for steps in steps.chunks(PIPELINE) {
        let begin = async {
            match first.take() {
                Some(savepoint) => transaction.batch_execute(savepoint).await,
                None => Ok(()),
            }
        };
        let sent = join_all(steps.iter().map(|step| async move {
            let values: Vec<&(dyn ToSql + Sync)> =
                step.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
            transaction.execute(&step.statement, &values).await
        }));
        let (begun, done) = tokio::join!(begin, sent);
        begun.map_err(failure)?;
        for (step, result) in steps.iter().zip(done) {
            check(step.change, result)?;
        }
    }
    let row = transaction.query_one(&position, &[]).await.map_err(failure)?;
    unsigned(cell(&row, 0)?)
}

/// Tells all gateways that something has changed, once the transaction is committed.
pub(super) async fn announce(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    execute(transaction, "SELECT pg_notify($1, '')", &[&CHANNEL]).await.map(|_| ()).map_err(failure)
}

/// What the rows that a change has touched, or its error, mean.
fn check(change: Option<&Change>, result: Result<u64, tokio_postgres::Error>) -> Result<(), StoreError> {
    match (change, result) {
        (Some(_), Ok(0)) => Err(StoreError::Changed),
        (_, Ok(_)) => Ok(()),
        (Some(Change::Put(record)), Err(error)) => Err(match violated_index(&error) {
            Some("records_slug") => slug_taken(record),
            Some("records_number") => number_taken(record),
            _ => failure_of(&error),
        }),
        (_, Err(error)) => Err(failure_of(&error)),
    }
}

/// A statement, prepared once a connection.
async fn step<'a>(
    transaction: &Transaction<'_>,
    sql: &str,
    values: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
) -> Result<Step<'a>, StoreError> {
    let statement = transaction.prepare_cached(sql).await.map_err(failure)?;
    Ok(Step { statement, values, change: None })
}

async fn put<'a>(transaction: &Transaction<'_>, record: &'a Record) -> Result<Step<'a>, StoreError> {
    let values: Vec<Box<dyn ToSql + Sync + Send + 'a>> = vec![
        Box::new(record.kind.as_str()),
        Box::new(record.id),
        Box::new(record.parent),
        Box::new(record.workspace),
        Box::new(record.slug.as_deref()),
        Box::new(record.number.map(i64::from)),
        Box::new(record.status.as_str()),
        Box::new(integer(record.revision)?),
        Box::new(nanoseconds(record.created_at)),
        Box::new(nanoseconds(record.updated_at)),
        Box::new(&*record.body),
        Box::new(record.sealed.as_ref().map(|sealed| sealed.key_id.as_str())),
        Box::new(record.sealed.as_ref().map(|sealed| &*sealed.bytes)),
    ];
    const VALUES: &str = "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
    let sql = match record.revision {
        1 => format!("INSERT INTO records ({COLUMNS}) VALUES {VALUES} ON CONFLICT (kind, id) DO NOTHING"),
        _ => format!(
            "UPDATE records SET ({COLUMNS}) = {VALUES} WHERE kind = $1 AND id = $2 AND revision = $8::bigint - 1"
        ),
    };
    step(transaction, &sql, values).await
}

async fn add_audit_entry<'a>(
    transaction: &Transaction<'_>,
    entry: &'a AuditEntry,
) -> Result<Step<'a>, StoreError> {
    let values: Vec<Box<dyn ToSql + Sync + Send + 'a>> = vec![
        Box::new(entry.id),
        Box::new(nanoseconds(entry.time)),
        Box::new(entry.workspace),
        Box::new(entry.actor.as_str()),
        Box::new(entry.actor_type.as_str()),
        Box::new(entry.action.as_str()),
        Box::new(entry.resource.as_str()),
        Box::new(entry.method.as_str()),
        Box::new(i64::from(entry.status)),
        Box::new(entry.body.as_str()),
    ];
    let sql = "INSERT INTO audit VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    step(transaction, sql, values).await
}

pub(super) async fn audit(client: &mut Object, query: &AuditQuery) -> Result<AuditPage, StoreError> {
    let (condition, mut values) = audit_condition(query);
    let transaction = one_moment(client).await?;
    let count = format!("SELECT count(*) FROM audit{condition}");
    let row = transaction.query_one(&count, &references(&values)).await.map_err(failure)?;
    let total = unsigned(cell(&row, 0)?)?;
    values.extend([Box::new(i64::from(query.limit)) as Parameter, Box::new(i64::from(query.offset))]);
    let limit = values.len() - 1;
    let offset = values.len();
    let sql = format!(
        "SELECT {AUDIT_COLUMNS} FROM audit{condition} ORDER BY time DESC, id DESC LIMIT ${limit} OFFSET ${offset}"
    );
    let rows = transaction.query(&sql, &references(&values)).await.map_err(failure)?;
    Ok(AuditPage { entries: rows.iter().map(audit_entry).collect::<Result<_, _>>()?, total })
}

pub(super) async fn expire_audit(client: &Object, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    let sql = "DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE time < $1 ORDER BY time LIMIT $2)";
    client.execute(sql, &[&nanoseconds(before), &i64::from(limit)]).await.map_err(failure)
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
    if conditions.is_empty() {
        (String::new(), values)
    } else {
        (format!(" WHERE {}", conditions.join(" AND ")), values)
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
