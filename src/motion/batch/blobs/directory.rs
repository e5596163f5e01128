//! The directory of the blobs, where `object_store` leaves something to do: who uses it, what killed uploads left,
//! and that a deletion survives a power loss.
//!
//! Not here: reading and writing. `object_store` writes a blob into a staged file beside it, `<name>#<number>`, syncs it and
//! renames it.

use super::error::BlobError;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A staged file of another process is left alone until nothing was written to it for so long.
const ABANDONED_AFTER: Duration = Duration::from_hours(1);
/// Each process that uses the directory holds a shared lock on it.
const LOCK_FILE: &str = "in-use.lock";

/// A directory of blobs that this process uses.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    /// Held as long as the directory is in use.
    _lock: File,
}

impl Directory {
    /// Makes the directory (mode 0700) where it is missing and removes staged files of processes that are gone.
    pub(super) fn open(root: &Path) -> Result<Self, BlobError> {
        let what = || format!("the directory of files {}", root.display());
        Self::lock(root).map_err(|error| BlobError::from_io(&error, &what()))
    }

    fn lock(root: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(root)?;
        let root = root.canonicalize()?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(root.join(LOCK_FILE))?;
        // Nobody else is here: every staged file belongs to a process that is gone.
        let is_alone = lock.try_lock().is_ok();
        remove_staged(&root, if is_alone { Duration::ZERO } else { ABANDONED_AFTER })?;
        // A file system without locks has none for the others either, so nobody takes himself for alone.
        let _ = lock.lock_shared();
        Ok(Self { root, _lock: lock })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Removes staged files that were not written to for an hour.
    pub(super) fn remove_abandoned(&self) -> Result<(), BlobError> {
        remove_staged(&self.root, ABANDONED_AFTER)
            .map_err(|error| BlobError::from_io(&error, "staged files that nobody writes to"))
    }

    /// Makes deletions below `path` survive a power loss. `path`: relative to the directory.
    pub(super) fn sync(&self, path: &str) -> Result<(), BlobError> {
        let place = self.root.join(path);
        // Empty folders are deleted as well, so the nearest that is left has changed.
        let folder = place.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(&self.root);
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        match synced {
            // Another deletion was faster.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|error| BlobError::from_io(&error, "the folder of a deleted file")),
        }
    }
}

/// Removes the staged files below `root` that are at least `min_age` old.
fn remove_staged(root: &Path, min_age: Duration) -> io::Result<()> {
    let now = SystemTime::now();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = match folder.read_dir() {
            Ok(entries) => entries,
            // Deleted in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            } else if is_staged(&entry.file_name().to_string_lossy()) {
                let age = now.duration_since(metadata.modified()?).unwrap_or_default();
                if age >= min_age {
                    // The writer may have finished or removed it just now.
                    let _ = std::fs::remove_file(entry.path());
                }
            }
        }
    }
    Ok(())
}

/// Whether a file of this name is staged by `object_store`.
fn is_staged(name: &str) -> bool {
    let number = name.rsplit_once('#').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn staged_files_go_at_once_for_the_only_process_and_after_an_hour_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("blobs");
        let deep = root.join("files");
        std::fs::create_dir_all(&deep).unwrap();
        let staged = deep.join("a#1");
        let blob = deep.join("a");
        std::fs::write(&staged, "half").unwrap();
        std::fs::write(&blob, "whole").unwrap();
        let first = Directory::open(&root).unwrap();
        assert!(!staged.exists() && blob.exists());

        std::fs::write(&staged, "half").unwrap();
        let _second = Directory::open(&root).unwrap();
        assert!(staged.exists(), "the first process may be writing it");
        let old = SystemTime::now() - Duration::from_secs(3700);
        File::options().write(true).open(&staged).unwrap().set_modified(old).unwrap();
        first.remove_abandoned().unwrap();
        assert!(!staged.exists() && blob.exists());
    }

    #[test]
    fn only_the_owner_can_read_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/blobs");
        drop(Directory::open(&root).unwrap());
        assert_eq!(root.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_name_with_a_number_sign_and_digits_is_staged() {
        for (name, staged) in
            [("a#1", true), ("a#12", true), ("a#", false), ("a#b1", false), ("a", false), ("7", false)]
        {
            assert_eq!(is_staged(name), staged, "{name}");
        }
    }
}
