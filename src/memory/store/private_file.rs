//! Files that only their owner can read: databases have keys, and what clients sent.
//!
//! Commands of an administrator run as root, on the directory of a service that has a user of its own. What root makes there belongs
//! to whom the directory belongs to, so that the service can open it afterwards. SQLite does the same for the files that it adds to
//! a database.
//!
//! That user may put links into the directory, so root gives away only what it holds open and has just made, and follows no link of
//! another user to a file.

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;

/// Makes the file and its folder readable by their owner alone, where they are not there yet.
pub(crate) fn make_private(file: &Path) -> io::Result<()> {
    let folder = folder_of(file);
    make_private_folder(folder)?;
    check_link(file)?;
    if file.exists() {
        return Ok(());
    }
    match create_private(file, folder) {
        // Another process was faster.
        Err(why) if why.kind() == ErrorKind::AlreadyExists && file.exists() => Ok(()),
        Err(why) if file.is_symlink() => {
            Err(io::Error::new(why.kind(), "it is a link to a file that is not there"))
        }
        made => made.map(drop),
    }
}

/// # Errors
/// Root would follow a link that another user has put there. For whoever opens the file by its name afterwards.
pub(crate) fn check_link(file: &Path) -> io::Result<()> {
    let Ok(is) = std::fs::symlink_metadata(file) else { return Ok(()) };
    if is.is_symlink() && is.uid() != 0 && rustix::process::geteuid().is_root() {
        let why =
            format!("it is a link of user {}, which root does not follow: name the file itself", is.uid());
        return Err(io::Error::new(ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

/// Makes a file that only its owner can read, where there is none and no link. Where root makes it, it belongs to the owner of `like`.
pub(crate) fn create_private(file: &Path, like: &Path) -> io::Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    let kept = keep_owner(&made, like);
    if kept.is_err() {
        let _ = std::fs::remove_file(file);
    }
    kept.map(|()| made)
}

/// Makes a folder, and those above it, where they are not there yet.
pub(crate) fn make_private_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder_of(folder);
    if above != folder {
        make_private_folder(above)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        // Another process was faster.
        Err(why) if why.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(why) => Err(why),
        Ok(()) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = rustix::fs::open(folder, flags, Mode::empty())?;
            keep_owner(&File::from(made), above)
        }
    }
}

/// Replaces a file by one with this text that only its owner can read. It is never there half written.
///
/// # Errors
/// What the system refuses. The file is as it was.
pub fn write_private(file: &Path, text: &str) -> io::Result<()> {
    let folder = folder_of(file);
    make_private_folder(folder)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let part = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let _ = std::fs::remove_file(&part);
    let write = || {
        let mut out = create_private(&part, folder)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        std::fs::rename(&part, file)?;
        File::open(folder)?.sync_all()
    };
    let written = write();
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// Makes the file where it is not there yet, and locks it until what is returned is dropped, or the process ends. `None`: another
/// process has it locked.
///
/// # Errors
/// What the system refuses.
pub fn lock_private(file: &Path) -> io::Result<Option<File>> {
    make_private(file)?;
    let opened = OpenOptions::new().read(true).write(true).open(file)?;
    match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(opened)),
        Err(why) if why == rustix::io::Errno::WOULDBLOCK => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// Gives what root has just made to the owner of `like`. Without effect for any other user, who can give nothing away.
fn keep_owner(made: &File, like: &Path) -> io::Result<()> {
    let is = made.metadata()?;
    let wanted = std::fs::metadata(like)?;
    if is.uid() != 0 || (is.uid(), is.gid()) == (wanted.uid(), wanted.gid()) {
        return Ok(());
    }
    fchown(made, Some(wanted.uid()), Some(wanted.gid()))
}

/// The folder that a path is in, which is `.` for a mere name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) => Path::new("."),
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};

    #[test]
    fn nothing_is_made_or_given_away_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let owner = |path: &Path| std::fs::metadata(path).map(|is| (is.uid(), is.gid())).unwrap();
        let is_root = chown(folder.path(), Some(4_711), Some(4_712)).is_ok();
        let target = elsewhere.path().join("target");
        let link = folder.path().join("c.db");
        symlink(&target, &link).unwrap();
        assert!(make_private(&link).is_err() && create_private(&link, folder.path()).is_err());
        assert!(!target.exists());
        std::fs::write(&target, "text").unwrap();
        let before = owner(&target);
        assert!(make_private(&link).is_ok() && create_private(&link, folder.path()).is_err());
        if is_root {
            lchown(&link, Some(4_711), Some(4_712)).unwrap();
            assert_eq!(make_private(&link).unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        write_private(&link, "another").unwrap();
        assert!(!link.is_symlink(), "it is replaced");
        assert_eq!((owner(&target), std::fs::read_to_string(&target).unwrap()), (before, "text".to_owned()));
    }

    #[test]
    fn a_file_is_locked_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a/lock");
        let held = lock_private(&file).unwrap().unwrap();
        assert!(lock_private(&file).unwrap().is_none());
        drop(held);
        assert!(lock_private(&file).unwrap().is_some());
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

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
