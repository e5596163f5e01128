//! `turnpike reload`: sends SIGHUP to a running process and waits for what it makes of the file, for `ExecReload=`.
//!
//! The running process checks the file, because only it has the credentials: systemd gives them to `ExecStart=` alone when
//! the unit is sandboxed. It leaves the outcome as a file in `$RUNTIME_DIRECTORY`. Not here: the reload itself
//! (`background::settings_reloader`).

use super::hand_over::RuntimeFiles;
use super::{logging, output};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The file with the outcome of the last reload: `ok`, the hash of the settings and the keys that wait for a restart, each in a line;
/// or `refused` and the problems.
const OUTCOME: &str = "reload-outcome";
/// How long a reload may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Settings that were put in force.
pub struct Reloaded {
    /// Their hash.
    pub hash: String,
    /// The keys that have changed since the start, and that a restart takes over.
    pub waiting: Vec<String>,
}

/// Has the process `pid` reload its settings; exits 1 when it refused them.
pub fn run(pid: i32) -> ExitCode {
    let Some(file) = outcome_file() else {
        return logging::fatal(
            "reload needs RUNTIME_DIRECTORY, which systemd sets (RuntimeDirectory=); without it, run `turnpike check` and \
             send SIGHUP",
        );
    };
    match reload(pid, &file) {
        Ok(Ok(text)) => {
            let mut lines = text.lines();
            let mut out = format!("settings reloaded: {}\n", lines.next().unwrap_or_default());
            for key in lines {
                // Writing into a String cannot fail.
                let _ = writeln!(out, "waits for a restart: {key}");
            }
            output::print(out.as_bytes())
        }
        Ok(Err(why)) => {
            logging::fatal(&format!("settings not reloaded, the previous settings stay in force:\n{why}"))
        }
        Err(why) => logging::fatal(&why),
    }
}

/// # Errors
/// The process could not be asked, or did not answer in time.
fn reload(pid: i32, file: &Path) -> Result<Result<String, String>, String> {
    let pid = Pid::from_raw(pid).ok_or("there is no such process")?;
    match std::fs::remove_file(file) {
        Err(why) if why.kind() != ErrorKind::NotFound => return Err(format!("{}: {why}", file.display())),
        _ => {}
    }
    kill_process(pid, Signal::HUP).map_err(|why| format!("process {}: {why}", pid.as_raw_nonzero()))?;
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline {
        if let Ok(text) = std::fs::read_to_string(file) {
            let (verdict, rest) = text.split_once('\n').unwrap_or((&text, ""));
            return Ok(match verdict {
                "ok" => Ok(rest.to_owned()),
                _ => Err(rest.to_owned()),
            });
        }
        sleep(Duration::from_millis(20));
    }
    Err(format!("process {} did not finish reloading within {} s", pid.as_raw_nonzero(), TIMEOUT.as_secs()))
}

/// Leaves the outcome of a reload for [`run`], where there is a place for it.
pub fn write_outcome(outcome: &Result<Reloaded, String>) {
    let Some(file) = outcome_file() else { return };
    let text = match outcome {
        Ok(Reloaded { hash, waiting }) => format!("ok\n{hash}\n{}", waiting.join("\n")),
        Err(why) => format!("refused\n{why}"),
    };
    // Renamed, so that it is never read half written.
    let new = file.with_extension("new");
    if let Err(why) = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &file)) {
        log::warn!(target: "turnpike", "the outcome of the reload is not in {}: {why}", file.display());
    }
}

fn outcome_file() -> Option<PathBuf> {
    Some(RuntimeFiles::of_this_process()?.folder().join(OUTCOME))
}
