//! Files that only their owner can read: databases have keys, and what clients sent.
//!
//! Commands of an administrator run as root, on the directory of a service that has a user of its own. What root makes there belongs
//! to whom the directory belongs to, so that the service can open it afterwards. SQLite does the same for the files that it adds to
//! a database.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, chown};
use std::path::{Path, PathBuf};

/// Makes the file and its folder readable by their owner alone, where they are not there yet.
pub(crate) fn make_private(file: &Path) -> io::Result<()> {
    make_private_folder(&folder_of(file))?;
    if !file.exists() {
        OpenOptions::new().append(true).create(true).mode(0o600).open(file)?;
        keep_owner(file, &folder_of(file))?;
    }
    Ok(())
}

/// Makes a folder, and those above it, where they are not there yet.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder_of(folder);
    if above != folder {
        make_private_folder(&above)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        // Another process was faster.
        Err(why) if why.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(why) => Err(why),
        Ok(()) => keep_owner(folder, &above),
    }
}

/// Replaces a file by one with this text that only its owner can read. It is never there half written.
///
/// # Errors
/// What the system refuses. The file is as it was.
pub fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let folder = folder_of(file);
    make_private_folder(&folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let part = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let _ = std::fs::remove_file(&part);
    let write = || {
        let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        keep_owner(&part, &folder)?;
        std::fs::rename(&part, file)?;
        File::open(&folder)?.sync_all()
    };
    let written = write();
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// Gives what root has just made to the owner of `like`. Without effect for any other user, who can give nothing away.
pub(crate) fn keep_owner(made: &Path, like: &Path) -> io::Result<()> {
    let is = std::fs::metadata(made)?;
    let wanted = std::fs::metadata(like)?;
    if is.uid() != 0 || (is.uid(), is.gid()) == (wanted.uid(), wanted.gid()) {
        return Ok(());
    }
    chown(made, Some(wanted.uid()), Some(wanted.gid()))
}

/// The folder that a path is in, which is `.` for a mere name.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        Some(_) => PathBuf::from("."),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_root_makes_belongs_to_the_owner_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let owner = |path: &Path| std::fs::metadata(path).map(|is| (is.uid(), is.gid())).unwrap();
        // Only root can give a folder away; for any other user everything stays their own.
        let _ = chown(folder.path(), Some(4_711), Some(4_712));
        let expected = owner(folder.path());
        let file = folder.path().join("a/b/c.db");
        make_private(&file).unwrap();
        let text = folder.path().join("text");
        write_private(&text, "first").unwrap();
        write_private(&text, "second").unwrap();
        assert_eq!(std::fs::read_to_string(&text).unwrap(), "second");
        for (path, mode) in [("a", 0o700), ("a/b", 0o700), ("a/b/c.db", 0o600), ("text", 0o600)] {
            let path = folder.path().join(path);
            assert_eq!(owner(&path), expected, "{}", path.display());
            let is = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(is, mode, "{}", path.display());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }
}
