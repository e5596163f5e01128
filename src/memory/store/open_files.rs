//! Whether the files of an open SQLite database are still in their places.
//!
//! A file that is deleted, or replaced by another one, stays open: what is written to it is acknowledged, and gone with the process. SQLite
//! itself does not notice that of a database with a write-ahead log. So the device and the number of each file are compared with what is at
//! its path, before each write. Moved away and put back, it is the same file.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The files of a database that this process has open: the database and its write-ahead log.
#[derive(Debug)]
pub(crate) struct OpenFiles {
    database: OpenFile,
    log: OpenFile,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    /// Empty until the file is there.
    identity: OnceLock<Identity>,
}

/// What no other file has while this one is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    number: u64,
}

impl OpenFiles {
    /// The files of a database that was opened at this path. To be called while its connection that writes is open, which keeps SQLite from
    /// deleting the log.
    pub fn of(database: &Path) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        Self { database: OpenFile::new(database.to_owned()), log: OpenFile::new(log.into()) }
    }

    /// # Errors
    /// One of the files is not there any more, or is another one. For the operator.
    pub fn check(&self) -> Result<(), String> {
        self.database.check()?;
        self.log.check()
    }
}

impl OpenFile {
    fn new(path: PathBuf) -> Self {
        let file = Self { path, identity: OnceLock::new() };
        let _ = file.check();
        file
    }

    fn check(&self) -> Result<(), String> {
        let now = fs::metadata(&self.path).ok();
        let now = now.map(|found| Identity { device: found.dev(), number: found.ino() });
        match (self.identity.get(), now) {
            (None, Some(now)) => {
                let _ = self.identity.set(now);
                Ok(())
            }
            (None, None) => Ok(()),
            (Some(opened), Some(now)) if *opened == now => Ok(()),
            (Some(_), now) => {
                let what = if now.is_some() { "replaced by another file" } else { "deleted or moved" };
                Err(format!(
                    "{} was {what} while it is in use, and what is written now would be lost: put it back, or start the gateway again",
                    self.path.display()
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_missed_until_it_is_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a.db"), "").unwrap();
        let files = OpenFiles::of(&path("a.db"));
        assert_eq!(files.check(), Ok(()), "there is no log yet");
        fs::write(path("a.db-wal"), "").unwrap();
        assert_eq!(files.check(), Ok(()));
        for name in ["a.db", "a.db-wal"] {
            fs::rename(path(name), path("away")).unwrap();
            assert!(files.check().unwrap_err().contains("deleted"), "{name}");
            fs::write(path(name), "another").unwrap();
            assert!(files.check().unwrap_err().contains("replaced"), "{name}");
            fs::rename(path("away"), path(name)).unwrap();
            assert_eq!(files.check(), Ok(()), "{name}");
        }
    }
}
