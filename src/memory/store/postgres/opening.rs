//! Opens the store's database in PostgreSQL: connects, and makes or checks its tables.
//!
//! What is done with it is in `transactions`.

use super::super::queued_write::QUEUE;
use super::super::sql::Dialect;
use super::super::{Schema, StoreError, nodes};
use super::{
    Connections, LOAD_TIMEOUT, MAX_CONNECTIONS, Postgres, Tables, connections, listener, migrations,
    no_connection, pool, writer,
};
use deadpool_postgres::Object;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};

/// The tables of the store itself.
const TABLES: Tables = Tables {
    steps: &[("V1__records", include_str!("../migrations/postgres/V1__records.sql"))],
    history: "refinery_schema_history",
    lock: 0x7475_726e_7069_6b65,
};

/// Connects, brings the tables up to date, and listens for changes of others. `reads_only`: the tables are left as they are.
///
/// # Errors
/// `Newer`, `Unavailable`, `Misconfigured` for authorities that cannot be read.
pub(in crate::store) async fn connect(text: &str, reads_only: bool) -> Result<Postgres, StoreError> {
    let Connections { runtime, pool, config, tls } = connections(text, "store.url", MAX_CONNECTIONS)?;
    let announced = Arc::new(Notify::new());
    let (writes, queue) = mpsc::channel(QUEUE);
    let database = Postgres { runtime: Some(runtime), pool, announced, writes, reads_only };
    let prepare = move |mut client: Object| async move {
        match reads_only {
            true => migrations::check(&client, &TABLES).await,
            false => {
                migrations::run(&mut client, &TABLES).await?;
                make_nodes(&client).await
            }
        }
    };
    database.run(LOAD_TIMEOUT, prepare).await?;
    if let Some(runtime) = &database.runtime {
        runtime.spawn(writer::serve(database.pool.clone(), queue));
        runtime.spawn(listener::listen(config, tls, Arc::clone(&database.announced)));
    }
    Ok(database)
}

/// Makes the table of gateways where it is missing. Of two that do so at the same time one may fail, and has the table of the other.
async fn make_nodes(client: &Object) -> Result<(), StoreError> {
    let has_table: bool = client.query_one(nodes::HAS_TABLE, &[]).await?.try_get(0)?;
    if !has_table && let Err(why) = client.batch_execute(nodes::table(Dialect::Postgres)).await {
        log::warn!(target: "turnpike", "nodes: the table of gateways is not made: {why}");
    }
    Ok(())
}

/// The version of the tables of a database.
///
/// # Errors
/// As [`connect`].
pub(in crate::store) async fn schema(text: &str) -> Result<Schema, StoreError> {
    let client = pool(text, "store.url", 1)?.get().await.map_err(no_connection)?;
    let found = migrations::version(&client, &TABLES).await?;
    Ok(Schema { found, newest: TABLES.newest() })
}
