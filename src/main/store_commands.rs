//! `turnpike store`: makes, copies, checks and re-seals the database, whether or not a gateway runs.
//!
//! Opens the store and prints the outcome; what is done is `memory::store`'s.

use super::command_line::StoreCommand;
use super::{logging, output, read, store_opening};
use memory::store::options::Location;
use memory::store::{Store, StoreError, StoreOptions};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Runs a command on the store and prints the outcome.
pub fn run(file: &Path, command: StoreCommand) -> ExitCode {
    let settings = match read::sections(file, &store_opening::SECTIONS) {
        Ok(settings) => settings,
        Err(error) => return logging::fatal(&read::unusable(file, &error)),
    };
    let found = match command {
        StoreCommand::Migrate => Ok(store_opening::options(file, &settings)),
        _ => store_opening::existing(file, &settings),
    };
    let options = match found {
        Ok(options) => options,
        Err(why) => return logging::fatal(&why),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return logging::fatal(&format!("no runtime: {error}")),
    };
    match runtime.block_on(execute(options, command)) {
        Ok(text) => output::print(text.as_bytes()),
        Err(error) => logging::fatal(&error.to_string()),
    }
}

async fn execute(options: StoreOptions, command: StoreCommand) -> Result<String, StoreError> {
    let location = options.location()?;
    let name = location.describe();
    let key_file = key_file(&options, &location);
    let makes_key = key_file.as_ref().is_some_and(|file| !file.exists());
    if !matches!(command, StoreCommand::Migrate) {
        store_opening::check_tables(&options).await.map_err(StoreError::Unavailable)?;
    }
    let store = Store::open(options).await?;
    if let Some(why) = store.health().why {
        return Err(StoreError::Unavailable(format!("{name}: {why}")));
    }
    match command {
        StoreCommand::Migrate => {
            let made = key_file.filter(|_| makes_key).map_or_else(String::new, |file| {
                format!("made the master key {}: keep a copy of it apart from backups\n", file.display())
            });
            Ok(format!("{name}: up to date, {} records\n{made}", store.catalog().len()))
        }
        StoreCommand::Backup { file } => {
            store.backup(&file).await?;
            let bytes = std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
            let shown = file.display();
            Ok(format!(
                "{name}: copied to {shown} ({bytes} bytes); its secrets need the master key, which is not in it\n"
            ))
        }
        StoreCommand::Verify => Ok(format!("{name}: {} records, nothing is wrong\n", store.verify().await?)),
        StoreCommand::Rekey => {
            let count = store.rekey().await?;
            let key =
                key_file.map_or_else(|| "store.encryption_key".to_owned(), |file| file.display().to_string());
            Ok(format!("{name}: sealed {count} records again, all are under {key}\n"))
        }
    }
}

/// The file of the master key, where it is none of the settings'.
fn key_file(options: &StoreOptions, location: &Location) -> Option<PathBuf> {
    match location {
        Location::File(database) if options.encryption_key.is_none() => {
            Some(database.with_file_name("master.key"))
        }
        _ => None,
    }
}
