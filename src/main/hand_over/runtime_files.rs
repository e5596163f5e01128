//! The files in `$RUNTIME_DIRECTORY` by which a command and the process that serves find each other: its id, the binary that is to
//! follow, what became of the hand-over.
//!
//! Only the service's user and root can write there.

use std::io::{ErrorKind, Result};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where the shipped unit has them, for a command in a shell, which has no such variable.
const OF_THE_UNIT: &str = "/run/turnpike";
/// The id of the process that serves.
const PROCESS: &str = "process-id";
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
        std::fs::read_to_string(self.0.join(PROCESS)).ok()?.trim().parse().ok()
    }

    pub fn set_process(&self, id: u32) -> Result<()> {
        self.write(PROCESS, &id.to_string())
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
        std::fs::write(&new, text)?;
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o644))?;
        std::fs::rename(&new, self.0.join(name))
    }
}

fn remove(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(why) if why.kind() != ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}
