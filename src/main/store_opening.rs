//! Opens the store at a start, and puts into a new one what every store has.
//!
//! The store itself is `store`'s; what is put into it is the control plane's.

use control::first_start;
use memory::store::{Store, StoreOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use words::config::secret::Secret;
use words::settings::Settings;

/// An open store, and the administrator's key that was made for it, if one was.
pub struct Opened {
    pub store: Arc<Store>,
    pub administrator_key: Option<Secret>,
}

/// Opens the store that the settings name.
///
/// # Errors
/// What must not be passed over: a URL or master key that does not fit, a database of a newer version.
pub fn open(file: &Path, settings: &Settings) -> Result<Opened, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|why| format!("store: {why}"))?;
    runtime.block_on(async {
        let store = Store::open(options(file, settings)).await.map_err(|why| format!("store: {why}"))?;
        let administrator_key = match first_start::run(&store, settings).await {
            Ok(key) => key,
            Err(why) => {
                log::error!(target: "turnpike", "the store cannot be prepared: {why}");
                None
            }
        };
        Ok(Opened { store: Arc::new(store), administrator_key })
    })
}

/// Where the store is, by the settings and the environment.
pub fn options(file: &Path, settings: &Settings) -> StoreOptions {
    StoreOptions::new(&settings.store, state_dir(file))
}

/// The directory of what outlives the process.
pub fn state_dir(file: &Path) -> PathBuf {
    let directory = std::env::var("STATE_DIRECTORY").ok();
    StoreOptions::state_dir(directory.as_deref(), file)
}
