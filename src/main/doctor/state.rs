//! The state directory and the database.
//!
//! The database is opened as every command opens it, but only where that changes no table.

use super::finding::Finding;
use crate::store_opening;
use memory::store::{Location, Schema, Store};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use words::settings::Settings;

/// Files of the state directory that belong to another user than the directory does, and that the service cannot open.
pub fn owners(file: &Path, settings: &Settings) -> Option<Finding> {
    const CHECK: &str = "state";
    let found = store_opening::found_state_dir(file, settings);
    let folder = &found.path;
    let shown = folder.display();
    let owner = std::fs::metadata(folder).ok()?.uid();
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(why) => {
            return Some(Finding::fail(
                CHECK,
                format!("{shown}: {why}"),
                "call it as root, or as the user of the gateway",
            ));
        }
    };
    let foreign = entries.flatten().filter(|entry| entry.metadata().is_ok_and(|is| is.uid() != owner));
    let names: Vec<String> = foreign.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let named = found.source.as_str();
    if names.is_empty() {
        return Some(Finding::ok(
            CHECK,
            format!("{shown} ({named}) belongs to user {owner}, as do its files"),
        ));
    }
    let text = format!("{shown} belongs to user {owner}, and these files in it do not: {}", names.join(", "));
    Some(Finding::fail(CHECK, text, &format!("chown -R --reference={shown} {shown}/")))
}

/// Whether there is a database of tables that this binary has, and whether its secrets can be read.
pub async fn database(file: &Path, settings: &Settings, is_running: bool) -> Finding {
    const CHECK: &str = "store";
    let options = store_opening::options(file, settings);
    let location = match options.location() {
        Ok(location) => location,
        Err(why) => return Finding::fail(CHECK, why.to_string(), "correct store.url"),
    };
    let name = location.describe();
    if let Location::File(database) = &location
        && database.parent().is_none_or(|folder| std::fs::read_dir(folder).is_ok() || !folder.exists())
        && !database.exists()
    {
        let text = format!("there is no database at {}", database.display());
        return match is_running {
            true => Finding::fail(
                CHECK,
                format!("{text}, and a gateway runs: its state is elsewhere"),
                "name its directory with server.state_dir or STATE_DIRECTORY, or call this with the settings of that gateway",
            ),
            false => {
                Finding::warn(CHECK, text, "the first start makes one; if there was one, put it back before")
            }
        };
    }
    if let Err(why) = store_opening::existing(file, settings) {
        return Finding::fail(CHECK, why, "call it as root, or as the user of the gateway");
    }
    let todo = "see docs/store.md; requests go on with what is in memory, and changes are refused";
    match Schema::of(&location).await {
        Err(why) => Finding::fail(CHECK, format!("{name}: {why}"), todo),
        Ok(Schema { found, newest }) if found > newest => Finding::fail(
            CHECK,
            format!("{name} has tables of version {found}, and this binary knows {newest}"),
            "use the newer binary, or restore a backup",
        ),
        Ok(Schema { found, newest }) if found < newest && options.reads_only => Finding::warn(
            CHECK,
            format!("{name} has tables of version {found}, and this edge node needs {newest}"),
            "start a primary of this version: an edge node makes no tables",
        ),
        Ok(Schema { found, newest }) if found < newest => Finding::warn(
            CHECK,
            format!("{name} has tables of version {found}; the next start brings them to {newest}"),
            "make a backup before (turnpike store backup FILE): there is no way back",
        ),
        Ok(Schema { found, .. }) => match Store::open(options).await {
            Err(why) => Finding::fail(CHECK, format!("{name}: {why}"), todo),
            Ok(store) => match store.health().why {
                Some(why) => Finding::fail(CHECK, format!("{name}: {why}"), todo),
                None => Finding::ok(
                    CHECK,
                    format!("{name}: tables of version {found}, {} records", store.catalog().len()),
                ),
            },
        },
    }
}
