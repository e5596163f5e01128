//! The files in `$RUNTIME_DIRECTORY` by which a command and the process that serves find each other: its id, the binary that is to
//! follow, what became of the hand-over.
//!
//! Only the service's user and root can write there.

use std::fs::{OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where the shipped unit has them, for a command in a shell, which has no such variable.
const OF_THE_UNIT: &str = "/run/turnpike";
/// The id of the process that serves, and its binary by device and inode.
const PROCESS: &str = "process";
/// The binary that follows, where it is not the one that runs.
const PROGRAM: &str = "upgrade-program";
/// `ok`, or `failed` and why.
const OUTCOME: &str = "upgrade-outcome";

/// The folder of one service.
#[derive(Debug, Clone)]
pub struct RuntimeFiles(PathBuf);

impl RuntimeFiles {
    /// Of this process; `None`: it has no such folder, and so can be given no other binary.
    pub fn of_this_process() -> Option<Self> {
        // A list with colons, if the unit has several.
        let folders = std::env::var("RUNTIME_DIRECTORY").ok()?;
        let folder = folders.split(':').next().filter(|folder| !folder.is_empty())?;
        Some(Self(PathBuf::from(folder)))
    }

    /// Of the service that a command means.
    pub fn of_a_service() -> Option<Self> {
        let shipped = || Path::new(OF_THE_UNIT).is_dir().then(|| Self(PathBuf::from(OF_THE_UNIT)));
        Self::of_this_process().or_else(shipped)
    }

    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The process that serves.
    pub fn process(&self) -> Option<i32> {
        Some(self.process_and_binary()?.0)
    }

    /// Whether the process belongs to the user whose folder this is. It has written its id itself, and root is not to signal another one.
    pub fn is_of_its_user(&self, id: i32) -> bool {
        let owner = |path: &Path| std::fs::metadata(path).ok().map(|of| of.uid());
        let process = owner(Path::new(&format!("/proc/{id}")));
        process.is_some() && process == owner(&self.0)
    }

    /// Whether the process that serves is `id` and runs another binary than this process. It writes down its own, because a process in a
    /// sandbox cannot be looked into, not even by another one of its unit.
    pub fn runs_another_binary(&self, id: i32) -> bool {
        self.process_and_binary().is_some_and(|(serves, binary)| serves == id && Some(binary) != own_binary())
    }

    fn process_and_binary(&self) -> Option<(i32, (u64, u64))> {
        let text = std::fs::read_to_string(self.0.join(PROCESS)).ok()?;
        let mut parts = text.split_whitespace();
        let id = parts.next()?.parse().ok()?;
        Some((id, (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?)))
    }

    /// This process serves.
    pub fn set_own_process(&self) -> Result<()> {
        let binary = own_binary().ok_or_else(|| Error::new(ErrorKind::NotFound, "/proc/self/exe"))?;
        self.write(PROCESS, &format!("{} {} {}\n", std::process::id(), binary.0, binary.1))
    }

    /// The binary that is to follow, which is named once.
    pub fn take_program(&self) -> Option<PathBuf> {
        let program = std::fs::read_to_string(self.0.join(PROGRAM)).ok()?;
        let _ = remove(&self.0.join(PROGRAM));
        Some(PathBuf::from(program))
    }

    /// Forgets what became of the last hand-over, and names the binary of the next one.
    pub fn request(&self, program: Option<&Path>) -> Result<()> {
        remove(&self.0.join(OUTCOME))?;
        match program {
            // A path that is not UTF-8 is none that anybody installs.
            Some(program) => self.write(PROGRAM, &program.to_string_lossy()),
            None => remove(&self.0.join(PROGRAM)),
        }
    }

    /// What became of the hand-over, once it ended.
    pub fn outcome(&self) -> Option<std::result::Result<String, String>> {
        let text = std::fs::read_to_string(self.0.join(OUTCOME)).ok()?;
        let (verdict, rest) = text.split_once('\n').unwrap_or((&text, ""));
        Some(if verdict == "ok" { Ok(rest.to_owned()) } else { Err(rest.to_owned()) })
    }

    pub fn set_outcome(&self, outcome: &std::result::Result<String, String>) -> Result<()> {
        match outcome {
            Ok(what) => self.write(OUTCOME, &format!("ok\n{what}")),
            Err(why) => self.write(OUTCOME, &format!("failed\n{why}")),
        }
    }

    /// Renamed, so that it is never read half written; readable by the service's user also where root wrote it.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let new = self.0.join(format!("{name}.new"));
        remove(&new)?;
        // Not through a link: root writes into a folder of the service's user.
        let mut file = OpenOptions::new().write(true).create_new(true).open(&new)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&new, self.0.join(name))
    }
}

/// The device and inode of the binary that this process runs. As long as it runs no other file has them.
fn own_binary() -> Option<(u64, u64)> {
    let file = std::fs::metadata("/proc/self/exe").ok()?;
    Some((file.dev(), file.ino()))
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(why) if why.kind() != ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}
