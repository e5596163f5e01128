//! Brings the tables of a PostgreSQL database up to date, one gateway at a time.
//!
//! The steps are the files of `store/migrations/postgres`. A step is never changed once it was released: the next one is added.

use super::StoreError;
use super::failure::failure;
use deadpool_postgres::Object;
use refinery::{Migration, Runner};

const STEPS: [(&str, &str); 1] = [("V1__records", include_str!("../migrations/postgres/V1__records.sql"))];
/// Of the lock that only one gateway holds; any number that is only used here.
const LOCK: i64 = 0x7475_726e_7069_6b65;

/// Makes or updates the tables.
///
/// # Errors
/// `Newer` if the database knows steps that this binary does not.
pub(super) async fn run(client: &mut Object) -> Result<(), StoreError> {
    client.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await.map_err(failure)?;
    let done = run_locked(client).await;
    // If this fails, the connection has ended, and the lock with it.
    let _ = client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await;
    done
}

async fn run_locked(client: &mut Object) -> Result<(), StoreError> {
    let steps = STEPS.iter().map(|(name, sql)| Migration::unapplied(name, sql));
    let steps: Vec<Migration> = steps.collect::<Result<_, _>>().map_err(wrong)?;
    let newest = steps.iter().map(|step| i64::from(step.version())).max().unwrap_or(0);
    let found = version(client).await?;
    if found > newest {
        return Err(StoreError::Newer { database: found, binary: newest });
    }
    if found < newest {
        Runner::new(&steps).run_async(&mut ***client).await.map_err(wrong)?;
    }
    Ok(())
}

/// The last step that the database has seen; 0 for a new one.
async fn version(client: &Object) -> Result<i64, StoreError> {
    let table = "SELECT to_regclass('refinery_schema_history') IS NOT NULL";
    let has_table: bool =
        client.query_one(table, &[]).await.and_then(|row| row.try_get(0)).map_err(failure)?;
    if !has_table {
        return Ok(0);
    }
    let last = "SELECT coalesce(max(version), 0)::bigint FROM refinery_schema_history";
    client.query_one(last, &[]).await.and_then(|row| row.try_get(0)).map_err(failure)
}

fn wrong(why: refinery::Error) -> StoreError {
    let mut cause = std::error::Error::source(&why);
    while let Some(inner) = cause {
        if let Some(inner) = inner.downcast_ref::<tokio_postgres::Error>() {
            return super::failure::failure_of(inner);
        }
        cause = inner.source();
    }
    StoreError::Damaged(format!("its tables cannot be brought up to date: {why}"))
}
