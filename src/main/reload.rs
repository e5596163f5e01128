//! `turnpike reload`: sends SIGHUP to a running process and waits for what it makes of the file, for `ExecReload=`.
//!
//! The running process checks the file, because only it has the credentials: systemd gives them to `ExecStart=` alone when
//! the unit is sandboxed. It leaves the outcome as a file in `$RUNTIME_DIRECTORY`. Not here: the reload itself
//! (`background::settings_reloader`).

use super::runtime_files::{Request, RuntimeFiles};
use super::{logging, output};
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Duration;

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
    let Some(files) = RuntimeFiles::of_this_process() else {
        return logging::fatal(
            "reload needs RUNTIME_DIRECTORY, which systemd sets (RuntimeDirectory=); without it, run `turnpike check` and \
             send SIGHUP",
        );
    };
    match files.signal_and_wait(Request::Reload, pid, TIMEOUT) {
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

/// Leaves the outcome of a reload for [`run`], where there is a place for it.
pub fn write_outcome(outcome: &Result<Reloaded, String>) {
    let Some(files) = RuntimeFiles::of_this_process() else { return };
    let text = |done: &Reloaded| format!("{}\n{}", done.hash, done.waiting.join("\n"));
    files.leave_outcome(Request::Reload, &outcome.as_ref().map(text).map_err(Clone::clone));
}
