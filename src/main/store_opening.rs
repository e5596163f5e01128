//! Finds the store by the settings and the environment; opens it at a start, and puts into a new one what every store has.
//!
//! The service and every command find it here, by one rule. The store itself is `store`'s; what is put into it is the control plane's.

use control::first_start::{self, AdministratorKey};
use memory::store::{Location, Schema, StateDir, Store, StoreOptions, write_private};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use words::config::secret::Secret;
use words::settings::Settings;

/// An open store, and the file with the administrator's key that was made for it, if one was.
pub struct Opened {
    pub store: Arc<Store>,
    pub administrator_key: Option<PathBuf>,
}

/// The file of the administrator's key, in the state directory.
const ADMINISTRATOR_KEY: &str = "administrator.key";

/// The sections of the settings that say where the store is and how it is opened.
pub const SECTIONS: [&str; 3] = ["server", "store", "control"];

/// Opens the store that the settings name.
///
/// # Errors
/// What must not be passed over: a URL or master key that does not fit, a database of a newer version.
pub fn open(file: &Path, settings: &Settings) -> Result<Opened, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| format!("store: {why}"))?;
    let options = options(file, settings);
    warn_of_unused(file, &options);
    let state_dir = options.state_dir.clone();
    runtime.block_on(async {
        let store = Store::open(options).await.map_err(|why| format!("store: {why}"))?;
        let administrator_key = prepare(&store, settings, &state_dir).await;
        Ok(Opened { store: Arc::new(store), administrator_key })
    })
}

/// Puts into the store what every store has. Returns the file with the administrator's key, if it made one: never the log, which is
/// shipped elsewhere and kept.
async fn prepare(store: &Store, settings: &Settings, state_dir: &Path) -> Option<PathBuf> {
    if store.reads_only() {
        return None;
    }
    let file = state_dir.join(ADMINISTRATOR_KEY);
    let file = std::path::absolute(&file).unwrap_or(file);
    // Of this process until the key is that of the store: another gateway may start at this moment.
    let part = file.with_extension(format!("key.{}", std::process::id()));
    let keep = |key: &Secret| {
        let written = write_private(&part, &format!("{}\n", key.expose()));
        written.map_err(|why| format!("{}: {why}", part.display()))
    };
    let made = match first_start::run(store, settings, &keep).await {
        Ok(made) => made,
        Err(why) => {
            log::error!(target: "turnpike", "the store cannot be prepared: {why}");
            AdministratorKey::NotNeeded
        }
    };
    match made {
        AdministratorKey::Made => match std::fs::rename(&part, &file) {
            Ok(()) => return Some(file),
            Err(_) => return Some(part),
        },
        AdministratorKey::NotKept(why) => log::error!(
            target: "turnpike",
            "no administrator's key was made, since it cannot be kept: {why}. Make one with `turnpike keys create --name administrator \
             --organisation --scope all`"
        ),
        AdministratorKey::NotNeeded => {}
    }
    let _ = std::fs::remove_file(&part);
    None
}

/// Warns of a database that a version which had its state beside these settings has left.
fn warn_of_unused(file: &Path, options: &StoreOptions) {
    let unused = file.with_file_name("data").join("turnpike.db");
    if let Ok(Location::File(database)) = options.location()
        && !database.exists()
        && unused.exists()
    {
        log::warn!(
            target: "turnpike",
            "there is no database at {} yet, and one at {} that is not used: name its directory with server.state_dir, if it is the one",
            database.display(),
            unused.display()
        );
    }
}

/// Where the store is, by the settings and the environment.
pub fn options(file: &Path, settings: &Settings) -> StoreOptions {
    StoreOptions::new(&settings.store, state_dir(file, settings), settings.control.role)
}

/// The directory of what outlives the process.
pub fn state_dir(file: &Path, settings: &Settings) -> PathBuf {
    found_state_dir(file, settings).path
}

/// The same, with what named it.
pub fn found_state_dir(file: &Path, settings: &Settings) -> StateDir {
    let variable = std::env::var("STATE_DIRECTORY").ok();
    StateDir::find(settings.server.state_dir.as_deref(), variable.as_deref(), file)
}

/// As [`options`], for a command, which must never make a database: another one than the gateway's would be found empty, without a
/// word, and be backed up.
///
/// # Errors
/// There is none, or this user may not use it: where it was looked for, and what to do.
pub fn existing(file: &Path, settings: &Settings) -> Result<StoreOptions, String> {
    let options = options(file, settings);
    let location = options.location().map_err(|why| why.to_string())?;
    let Location::File(database) = location else { return Ok(options) };
    let shown = database.display();
    match access(&database, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) => Ok(options),
        Err(Errno::NOENT | Errno::NOTDIR) => {
            let named = match &settings.store.url {
                Some(_) => "store.url",
                None => found_state_dir(file, settings).source.as_str(),
            };
            Err(format!(
                "there is no database at {shown} ({named}). Where is that of the gateway? Name its directory with server.state_dir or \
                 STATE_DIRECTORY=DIRECTORY, or give -c the settings that the gateway has. The first start of a gateway makes one, and \
                 so does `turnpike store migrate`"
            ))
        }
        Err(why) => Err(format!(
            "the database {shown} cannot be used by user {}: {why}. Run the command as root, which leaves every file to its owner, \
             or as the user of the gateway (runuser -u turnpike -- turnpike ...)",
            rustix::process::geteuid().as_raw()
        )),
    }
}

/// Whether the database that was found has the tables of a store: to open it would make them.
///
/// # Errors
/// It has none. What else is wrong with it shows when it is opened.
pub async fn check_tables(options: &StoreOptions) -> Result<(), String> {
    let location = options.location().map_err(|why| why.to_string())?;
    match Schema::of(&location).await {
        Ok(Schema { found: 0, .. }) => Err(format!(
            "{} has no tables of a store. Is it the database of the gateway (store.url)? The first start of a gateway makes them, and so \
             does `turnpike store migrate`",
            location.describe()
        )),
        _ => Ok(()),
    }
}
