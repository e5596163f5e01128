//! Reads the tables of a database that is not ours, as JSON: in one transaction that cannot write.
//!
//! Knows no table. Not a `Backend`: nothing is kept open, and nothing is made.

use super::{CONNECT_TIMEOUT, StoreError, connections, failure, no_connection};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::IsolationLevel;

/// Of reading all of it.
const READ_TIMEOUT: Duration = Duration::from_secs(600);

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
            read(&mut client, schema, prefix, wanted).await.map_err(failure)
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
) -> Result<ForeignTables, tokio_postgres::Error> {
    let reading = client.build_transaction().read_only(true).isolation_level(IsolationLevel::RepeatableRead);
    let transaction = reading.start().await?;
    let names = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = $1 AND starts_with(table_name, $2) \
                 ORDER BY table_name";
    let mut found = ForeignTables::default();
    for row in transaction.query(names, &[&schema, &prefix]).await? {
        let name: String = row.try_get(0)?;
        let table = format!("{}.{}", quoted(schema), quoted(&name));
        if wanted.contains(&name.as_str()) {
            let rows = transaction.query(&format!("SELECT row_to_json(t)::text FROM {table} t"), &[]).await?;
            let mut objects = Vec::with_capacity(rows.len());
            for row in rows {
                let text: String = row.try_get(0)?;
                objects.push(serde_json::from_str(&text).unwrap_or_default());
            }
            found.rows.insert(name, objects);
        } else {
            let any = transaction.query_one(&format!("SELECT EXISTS (SELECT FROM {table})"), &[]).await?;
            if any.try_get(0)? {
                found.others.push(name);
            }
        }
    }
    transaction.rollback().await?;
    Ok(found)
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
        let refused =
            read_tables("postgres://u:secret@127.0.0.1:1/d", "--db", "public", "X_", &[]).unwrap_err();
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}
