//! A file system of a few megabytes, for tests of a full disk: a tmpfs, which the tests can mount as root.

use std::path::Path;
use std::process::Command;

/// Mounted while it lives.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// A file system of this many bytes. `None` where this process may not mount, which is printed.
    pub(crate) fn mount(bytes: u32) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        eprintln!("SKIPPED on a full disk: this user cannot mount a tmpfs");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Gives it more room.
    pub(crate) fn grow(&self, bytes: u32) {
        let size = format!("remount,size={bytes}");
        let grown = Command::new("mount").args(["-o", &size]).arg(self.path()).status().unwrap();
        assert!(grown.success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
