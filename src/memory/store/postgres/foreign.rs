//! Reads the tables of a database that is not ours, as JSON: in one transaction that cannot write.
//!
//! Knows no table. Not a `Backend`: nothing is kept open, and nothing is made.

use super::{CONNECT_TIMEOUT, StoreError, connections, failure, no_connection};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::{IsolationLevel, Transaction};

/// Of reading all of it.
const READ_TIMEOUT: Duration = Duration::from_secs(600);
/// The characters of a row that a message shows.
const SHOWN: usize = 80;

/// What was found.
#[derive(Debug, Default)]
pub struct ForeignTables {
    /// The rows of the tables that were wanted and are there, each as an object with a member for each column.
    pub rows: BTreeMap<String, Vec<Value>>,
    /// The other tables whose names begin so and that have a row at least.
    pub others: Vec<String>,
}

/// Reads the tables of these names in a schema, and looks which others begin with `prefix`. `setting`: what gave the URL, for messages.
/// Blocks.
///
/// # Errors
/// A URL that cannot be read, a server that cannot be reached or refuses, as a message without the password.
pub fn read_tables(
    url: &str,
    setting: &str,
    schema: &str,
    prefix: &str,
    wanted: &[&str],
) -> Result<ForeignTables, StoreError> {
    let connections = connections(url, setting, 1)?;
    let pool = connections.pool.clone();
    let found = connections.runtime.block_on(async {
        let reading = async {
            let mut client = pool.get().await.map_err(no_connection)?;
            read(&mut client, schema, prefix, wanted).await
        };
        let late =
            |_| StoreError::Unavailable(format!("it was not read within {} s", READ_TIMEOUT.as_secs()));
        timeout(READ_TIMEOUT, reading).await.map_err(late)?
    });
    connections.runtime.shutdown_timeout(CONNECT_TIMEOUT);
    found
}

async fn read(
    client: &mut tokio_postgres::Client,
    schema: &str,
    prefix: &str,
    wanted: &[&str],
) -> Result<ForeignTables, StoreError> {
    let reading = client.build_transaction().read_only(true).isolation_level(IsolationLevel::RepeatableRead);
    let transaction = reading.start().await.map_err(failure)?;
    // Where a policy would hide rows, reading fails.
    transaction.batch_execute("SET LOCAL row_security = off").await.map_err(failure)?;
    let mut found = ForeignTables::default();
    for (name, is_readable) in tables(&transaction, schema, prefix).await.map_err(failure)? {
        let table = format!("{}.{}", quoted(schema), quoted(&name));
        if wanted.contains(&name.as_str()) {
            if !is_readable {
                return Err(StoreError::Misconfigured(format!(
                    "the user of the URL may not read the table {table}: GRANT SELECT ON {table}"
                )));
            }
            found.rows.insert(name, rows(&transaction, &table).await?);
        } else if !is_readable {
            found.others.push(name);
        } else {
            let any = format!("SELECT EXISTS (SELECT FROM {table})");
            let any = transaction.query_one(&any, &[]).await.map_err(failure)?;
            if any.try_get(0).map_err(failure)? {
                found.others.push(name);
            }
        }
    }
    transaction.rollback().await.map_err(failure)?;
    Ok(found)
}

/// The tables whose names begin so, and whether they may be read. Those that may not are there too.
async fn tables(
    transaction: &Transaction<'_>,
    schema: &str,
    prefix: &str,
) -> Result<Vec<(String, bool)>, tokio_postgres::Error> {
    let names = "SELECT c.relname::text, has_table_privilege(c.oid, 'SELECT') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                 WHERE n.nspname = $1 AND starts_with(c.relname::text, $2) AND c.relkind IN ('r', 'p', 'v', 'm', 'f') ORDER BY 1";
    let mut tables = Vec::new();
    for row in transaction.query(names, &[&schema, &prefix]).await? {
        tables.push((row.try_get(0)?, row.try_get(1)?));
    }
    Ok(tables)
}

async fn rows(transaction: &Transaction<'_>, table: &str) -> Result<Vec<Value>, StoreError> {
    let text = format!("SELECT row_to_json(t)::text FROM {table} t");
    let rows = transaction.query(&text, &[]).await.map_err(failure)?;
    let mut objects = Vec::with_capacity(rows.len());
    for row in rows {
        let text: String = row.try_get(0).map_err(failure)?;
        objects.push(serde_json::from_str(&text).map_err(|why| unread(table, &text, &why))?);
    }
    Ok(objects)
}

/// A row is named by how it begins, with the columns that name it.
fn unread(table: &str, text: &str, why: &serde_json::Error) -> StoreError {
    let beginning: String = text.chars().take(SHOWN).collect();
    StoreError::Damaged(format!("a row of {table} cannot be read ({why}); it begins {beginning}"))
}

/// A name as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::postgres_server;
    use super::*;
    use serde_json::json;

    /// A URL of the test's server, with another user.
    fn as_user(url: &str, user: &str) -> String {
        let (_, rest) = url.split_once('@').unwrap();
        format!("postgres://{user}@{rest}")
    }

    #[test]
    fn tables_are_read_whole_and_nothing_can_be_written() {
        let Some(server) = postgres_server::shared() else { return };
        let url = server.new_database();
        let database = url.split('/').next_back().unwrap().split('?').next().unwrap();
        for text in [
            "CREATE SCHEMA other",
            "CREATE TABLE other.\"X_A\" (id text, n float8, list text[], made timestamp(3))",
            "INSERT INTO other.\"X_A\" VALUES ('a', 12.34, '{b,c}', '2026-12-01'), ('d', NULL, '{}', NULL)",
            "CREATE TABLE other.\"X_B\" (id int)",
            "CREATE TABLE other.\"X_C\" (id int)",
            "INSERT INTO other.\"X_C\" VALUES (1)",
        ] {
            assert!(server.sql(database, text), "{text}");
        }
        let found = read_tables(&url, "--db", "other", "X_", &["X_A", "X_none"]).unwrap();
        let rows = found.rows.get("X_A").unwrap();
        assert_eq!(
            *rows,
            [
                json!({"id": "a", "n": 12.34, "list": ["b", "c"], "made": "2026-12-01T00:00:00"}),
                json!({"id": "d", "n": null, "list": [], "made": null})
            ]
        );
        assert_eq!((found.rows.len(), found.others), (1, vec!["X_C".to_owned()]));
        // Reading this view would write.
        for text in [
            "CREATE FUNCTION other.writes() RETURNS int AS 'INSERT INTO other.\"X_B\" VALUES (1) RETURNING 1' LANGUAGE sql",
            "CREATE VIEW other.\"X_D\" AS SELECT other.writes() AS id",
        ] {
            assert!(server.sql(database, text), "{text}");
        }
        let refused = read_tables(&url, "--db", "other", "X_", &["X_D"]).unwrap_err().to_string();
        assert!(refused.contains("read-only"), "{refused}");
        assert!(server.sql(database, "DROP VIEW other.\"X_D\""));
        // No number of JSON that can be counted with.
        let text = "CREATE TABLE other.\"X_E\" (id text, m jsonb); INSERT INTO other.\"X_E\" VALUES ('e1', '{\"n\": 1e400}')";
        assert!(server.sql(database, text));
        let refused = read_tables(&url, "--db", "other", "X_", &["X_E"]).unwrap_err().to_string();
        assert!(refused.contains("X_E") && refused.contains("e1"), "{refused}");
        // A table that is there and may not be read is not absent.
        for text in [
            "DO $$ BEGIN CREATE ROLE foreign_reader LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
            "GRANT USAGE ON SCHEMA other TO foreign_reader; GRANT SELECT ON other.\"X_A\" TO foreign_reader",
        ] {
            assert!(server.sql(database, text), "{text}");
        }
        let reader = as_user(&url, "foreign_reader");
        assert!(read_tables(&reader, "--db", "other", "X_", &["X_A"]).is_ok());
        let refused = read_tables(&reader, "--db", "other", "X_", &["X_A", "X_C"]).unwrap_err().to_string();
        assert!(refused.contains("X_C") && refused.contains("GRANT SELECT"), "{refused}");
        let refused =
            read_tables("postgres://u:secret@127.0.0.1:1/d", "--db", "public", "X_", &[]).unwrap_err();
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}
