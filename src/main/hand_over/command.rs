//! `turnpike upgrade`: has the running process start its successor, and waits for the outcome.

use crate::runtime_files::{Request, RuntimeFiles};
use crate::{logging, output};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// A little longer than the process itself waits.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Has the process `pid` (by default the one that serves) replaced by `to` (by default the binary at the path that it was started
/// from). Exits 1 when it serves on.
pub fn run(to: Option<&Path>, pid: Option<i32>) -> ExitCode {
    match upgrade(to, pid) {
        Ok(id) => output::print(format!("process {id} serves now\n").as_bytes()),
        Err(why) => logging::fatal(&why),
    }
}

fn upgrade(to: Option<&Path>, pid: Option<i32>) -> Result<String, String> {
    let files = RuntimeFiles::of_a_service().ok_or(
        "upgrade needs RUNTIME_DIRECTORY, the folder of the running process that systemd sets (RuntimeDirectory=); \
         without it, send SIGQUIT to a process whose binary or settings have changed",
    )?;
    let folder = files.folder().display();
    let pid = pid.or_else(|| files.process());
    let pid = pid.ok_or_else(|| format!("no process that serves: {folder} names none; name it by --pid"))?;
    let to =
        to.map(|file| file.canonicalize().map_err(|why| format!("{}: {why}", file.display()))).transpose()?;
    files.name_program(to.as_deref()).map_err(|why| format!("{folder}: {why}"))?;
    let outcome = files.signal_and_wait(Request::Upgrade, pid, TIMEOUT).map_err(|why| {
        format!("{why}. A version without `turnpike upgrade` cannot be replaced so: restart the service")
    })?;
    outcome.map_err(|why| format!("not upgraded, the process that served serves on: {why}"))
}

/// As [`run`], with the binary of this command: the package has put it where the running one was.
pub fn run_own_binary(pid: i32) -> ExitCode {
    match std::env::current_exe() {
        Ok(own) => run(Some(&own), Some(pid)),
        Err(why) => logging::fatal(&format!("this binary's own path: {why}")),
    }
}

/// Whether the process that serves runs another binary than this command's own: the package has been upgraded.
pub fn program_has_changed(pid: i32) -> bool {
    RuntimeFiles::of_this_process().is_some_and(|files| files.runs_another_binary(pid))
}
