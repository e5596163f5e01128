//! Starts the ledger: where its rows go, by the settings and the environment.
//!
//! A log store that is away delays nothing and prevents no start: the ledger's own threads open it.

use super::store_opening;
use memory::ledger::Ledger;
use memory::ledger::log_store::LogStore;
use memory::ledger::postgres::PostgresLogs;
use memory::ledger::sqlite::SqliteLogs;
use memory::ledger::writer::WriterOptions;
use memory::state::Shared;
use memory::store::options::Location;
use std::path::Path;
use std::sync::Arc;

/// Starts the ledger that the settings describe, where they do not turn it off.
///
/// # Errors
/// A URL that cannot be read.
pub fn start(file: &Path, shared: &Shared) -> Result<(), String> {
    let snapshot = shared.settings_arc();
    let settings = &snapshot.settings;
    let logs = &settings.logs;
    if !logs.enabled {
        return Ok(());
    }
    let store = store_opening::options(file, settings);
    let default = || match store.location() {
        // An edge node makes no tables there.
        Ok(Location::Postgres(url)) if !store.reads_only => Ok(Location::Postgres(url)),
        Ok(Location::Memory | Location::Postgres(_)) | Err(_) => {
            Ok(Location::File(store.state_dir.join("logs.db")))
        }
        Ok(Location::File(database)) => Ok(Location::File(database.with_file_name("logs.db"))),
    };
    let location = match &logs.url {
        Some(url) => Location::parse(url.expose()).map_err(|why| format!("logs.url: {why}")),
        None => default(),
    }?;
    let log_store: Arc<dyn LogStore> = match location {
        Location::File(file) => Arc::new(SqliteLogs::new(file)),
        Location::Memory => {
            return Err("logs.url: names no file; write sqlite:///var/lib/turnpike/logs.db".to_owned());
        }
        Location::Postgres(url) => Arc::new(PostgresLogs::new(&url)?),
    };
    let options = WriterOptions {
        max_queue_bytes: logs.queue_max_bytes,
        spool_folder: logs.spool_dir.clone().unwrap_or_else(|| store.state_dir.join("spool")),
        max_spool_bytes: logs.spool_max_bytes,
    };
    let ledger = Ledger::start(log_store, &options).map_err(|why| format!("logs: no thread: {why}"))?;
    shared.set_ledger(Arc::new(ledger));
    Ok(())
}
