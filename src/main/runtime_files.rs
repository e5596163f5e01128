//! The files in `$RUNTIME_DIRECTORY` by which a command and the process that serves find each other: its id, the binary that is to
//! follow, what became of a reload or an upgrade.
//!
//! Only the service's user and root can write there.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};
use std::fs::{OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where the shipped unit has them, for a command in a shell, which has no such variable.
const OF_THE_UNIT: &str = "/run/turnpike";
/// The id of the process that serves, and its binary by device and inode.
const PROCESS: &str = "process";
/// The binary that follows, where it is not the one that runs.
const PROGRAM: &str = "upgrade-program";
/// How often a command looks whether there is an outcome.
const INTERVAL: Duration = Duration::from_millis(20);

/// What a command has the process do by a signal. Its outcome is a file: `ok` or `failed`, and the rest of the text.
#[derive(Debug, Clone, Copy)]
pub enum Request {
    Reload,
    Upgrade,
}

impl Request {
    const fn outcome(self) -> &'static str {
        match self {
            Self::Reload => "reload-outcome",
            Self::Upgrade => "upgrade-outcome",
        }
    }

    const fn signal(self) -> Signal {
        match self {
            Self::Reload => Signal::HUP,
            Self::Upgrade => Signal::QUIT,
        }
    }
}

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

    /// Whether there is such a process and it belongs to another user than the one whose folder this is. A process has written its id
    /// into the folder itself, and root is not to signal another one.
    fn is_of_another_user(&self, id: i32) -> bool {
        let owner = |path: &Path| std::fs::metadata(path).ok().map(|of| of.uid());
        let process = owner(Path::new(&format!("/proc/{id}")));
        process.is_some() && process != owner(&self.0)
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

    /// Names the binary that is to follow; `None`: the one at the path of the process that serves.
    pub fn name_program(&self, program: Option<&Path>) -> Result<()> {
        match program {
            // A path that is not UTF-8 is none that anybody installs.
            Some(program) => self.write(PROGRAM, &program.to_string_lossy()),
            None => remove(&self.0.join(PROGRAM)),
        }
    }

    /// Sends the process the signal and waits for the outcome.
    ///
    /// # Errors
    /// The process could not be signalled, ended, or had no outcome in time. The inner result is the outcome.
    pub fn signal_and_wait(
        &self,
        request: Request,
        process: i32,
        limit: Duration,
    ) -> std::result::Result<std::result::Result<String, String>, String> {
        let folder = self.0.display();
        let pid = Pid::from_raw(process).ok_or("there is no such process")?;
        // Others than root can signal their own processes only, and in a sandbox not even see them.
        if geteuid().is_root() && self.is_of_another_user(process) {
            return Err(format!("process {process} is not one of the user whose folder {folder} is"));
        }
        remove(&self.0.join(request.outcome())).map_err(|why| format!("{folder}: {why}"))?;
        kill_process(pid, request.signal()).map_err(|why| format!("process {process}: {why}"))?;
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Ok(text) = std::fs::read_to_string(self.0.join(request.outcome())) {
                let (verdict, rest) = text.split_once('\n').unwrap_or((&text, ""));
                return Ok(if verdict == "ok" { Ok(rest.to_owned()) } else { Err(rest.to_owned()) });
            }
            if test_kill_process(pid) == Err(Errno::SRCH) {
                return Err(format!("process {process} has ended"));
            }
            sleep(INTERVAL);
        }
        Err(format!("process {process} did not answer within {} s", limit.as_secs()))
    }

    /// Leaves the outcome for the command that waits for it.
    pub fn leave_outcome(&self, request: Request, outcome: &std::result::Result<String, String>) {
        let text = match outcome {
            Ok(what) => format!("ok\n{what}"),
            Err(why) => format!("failed\n{why}"),
        };
        if let Err(why) = self.write(request.outcome(), &text) {
            let folder = self.0.display();
            log::warn!(target: "turnpike", "the outcome is not in {folder}, where a command waits for it: {why}");
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
