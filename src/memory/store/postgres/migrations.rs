//! Brings the tables of a PostgreSQL database up to date, one gateway at a time.
//!
//! The steps are those of whoever owns the tables. A step is never changed once it was released: the next one is added.
//! A step whose name ends with `_added` takes nothing away from older binaries: a database that has such later steps is one of theirs.

use super::StoreError;
use deadpool_postgres::Object;
use refinery::{Migration, Runner};
use std::cmp::Ordering;

/// Tables that belong together.
pub struct Tables {
    /// Name (`V1__records`) and text of each step.
    pub steps: &'static [(&'static str, &'static str)],
    /// The table with the steps that were made.
    pub history: &'static str,
    /// The number of the lock that only one gateway holds: any that nothing else uses.
    pub lock: i64,
}

impl Tables {
    /// The last step of this binary.
    pub(super) fn newest(&self) -> i64 {
        i64::try_from(self.steps.len()).unwrap_or(i64::MAX)
    }
}

/// Makes or updates the tables.
///
/// # Errors
/// `Newer` if the database knows steps that this binary does not.
pub async fn run(client: &mut Object, tables: &Tables) -> Result<(), StoreError> {
    client.execute("SELECT pg_advisory_lock($1)", &[&tables.lock]).await?;
    let done = run_locked(client, tables).await;
    // If this fails, the connection has ended, and the lock with it.
    let _ = client.execute("SELECT pg_advisory_unlock($1)", &[&tables.lock]).await;
    done
}

/// Checks that the tables are those of this binary, and changes nothing.
///
/// # Errors
/// As [`run`]; `Unavailable` where they are older: another gateway makes them, perhaps soon.
pub(super) async fn check(client: &Object, tables: &Tables) -> Result<(), StoreError> {
    let newest = tables.newest();
    let found = version(client, tables).await?;
    match found.cmp(&newest) {
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(StoreError::Newer { database: found, binary: newest }),
        Ordering::Less => Err(StoreError::Unavailable(format!(
            "the database has schema {found}, and this edge node needs schema {newest}, which it does not make itself: start a primary of \
             this version"
        ))),
    }
}

async fn run_locked(client: &mut Object, tables: &Tables) -> Result<(), StoreError> {
    let steps = tables.steps.iter().map(|(name, sql)| Migration::unapplied(name, sql));
    let steps: Vec<Migration> = steps.collect::<Result<_, _>>().map_err(wrong)?;
    let newest = tables.newest();
    let found = version(client, tables).await?;
    if found > newest {
        return Err(StoreError::Newer { database: found, binary: newest });
    }
    if found < newest {
        let mut runner = Runner::new(&steps);
        runner.set_migration_table_name(tables.history);
        runner.run_async(&mut ***client).await.map_err(wrong)?;
    }
    Ok(())
}

/// The last step that the database has seen, but for later ones that only add; 0 for a new one.
pub(super) async fn version(client: &Object, tables: &Tables) -> Result<i64, StoreError> {
    let history = tables.history;
    let table = "SELECT to_regclass($1) IS NOT NULL";
    let has_table: bool = client.query_one(table, &[&history]).await?.try_get(0)?;
    if !has_table {
        return Ok(0);
    }
    let last = format!(
        "SELECT coalesce(max(version), 0)::bigint FROM {history} WHERE version <= $1::bigint OR name NOT LIKE '%\\_added' ESCAPE '\\'"
    );
    Ok(client.query_one(&last, &[&tables.newest()]).await?.try_get(0)?)
}

fn wrong(why: refinery::Error) -> StoreError {
    let mut cause = std::error::Error::source(&why);
    while let Some(inner) = cause {
        if let Some(inner) = inner.downcast_ref::<tokio_postgres::Error>() {
            return inner.into();
        }
        cause = inner.source();
    }
    StoreError::Damaged(format!("its tables cannot be brought up to date: {why}"))
}
