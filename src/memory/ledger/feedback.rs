//! What clients think of responses: one value for a trace id. Its statements, the same for both databases.

use super::database::{Database, all};
use super::log_store::LogError;
use crate::store::sql::{Dialect, Statement};
use uuid::Uuid;

/// One piece of feedback.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    pub id: Uuid,
    /// Milliseconds since 1970.
    pub created_ms: i64,
    /// The request may not be there yet, or never.
    pub trace_id: String,
    pub workspace: Option<Uuid>,
    /// From -10 to 10.
    pub value: i64,
    /// From 0 to 1.
    pub weight: f64,
    /// A JSON object.
    pub metadata: Option<String>,
}

/// The statements that make the table where it is not there.
pub(super) fn tables(dialect: Dialect) -> String {
    let (id, integer, real, options) = match dialect {
        Dialect::Sqlite => ("BLOB", "INTEGER", "REAL", " WITHOUT ROWID"),
        Dialect::Postgres => ("uuid", "bigint", "double precision", ""),
    };
    format!(
        "CREATE TABLE IF NOT EXISTS feedback (
    id {id} PRIMARY KEY,
    created_ms {integer} NOT NULL,
    trace_id text NOT NULL,
    workspace {id},
    value {integer} NOT NULL,
    weight {real} NOT NULL,
    metadata text
){options};
CREATE INDEX IF NOT EXISTS feedback_by_trace ON feedback (trace_id);
CREATE INDEX IF NOT EXISTS feedback_by_time ON feedback (created_ms);
"
    )
}

/// Writes feedback, in a transaction of the caller's. One with the id of an older one replaces what may be changed of it.
pub(super) fn put(database: &dyn Database, feedback: &[Feedback]) -> Result<(), LogError> {
    let sql = "INSERT INTO feedback (id, created_ms, trace_id, workspace, value, weight, metadata)
               VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET
               value = excluded.value, weight = excluded.weight, metadata = excluded.metadata";
    for one in feedback {
        let values = vec![
            one.id.into(),
            one.created_ms.into(),
            one.trace_id.as_str().into(),
            one.workspace.into(),
            one.value.into(),
            one.weight.into(),
            one.metadata.as_deref().into(),
        ];
        database.execute(&Statement::new(sql, values))?;
    }
    Ok(())
}

/// The feedback with this id.
pub(super) fn get(database: &dyn Database, id: Uuid) -> Result<Option<Feedback>, LogError> {
    let sql = "SELECT created_ms, trace_id, workspace, value, weight, metadata FROM feedback WHERE id = $1";
    let found = all(database, &Statement::new(sql, vec![id.into()]), |row| {
        Ok(Feedback {
            id,
            created_ms: row.int(0)?.unwrap_or_default(),
            trace_id: row.text(1)?.unwrap_or_default().to_owned(),
            workspace: row.uuid(2)?,
            value: row.int(3)?.unwrap_or_default(),
            weight: row.real(4)?.unwrap_or_default(),
            metadata: row.text(5)?.map(str::to_owned),
        })
    });
    Ok(found?.into_iter().next())
}

/// Deletes what was given before a time, milliseconds since 1970.
pub(super) fn expire(database: &dyn Database, before: i64) -> Result<(), LogError> {
    database.execute(&Statement::new("DELETE FROM feedback WHERE created_ms < $1", vec![before.into()]))?;
    Ok(())
}
