//! Files that only their owner can read: databases have keys, and what clients sent.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Makes the file and its folder readable by their owner alone, where they are not there yet.
pub(crate) fn make_private(file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if !file.exists() {
        OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
    }
    Ok(())
}
