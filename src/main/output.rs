//! Standard output, for commands that print a result and end.
//!
//! Not the log, and not the access log.

use super::logging;
use serde::Serialize;
use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;

/// Prints the result of a command. A reader that has read enough (`| head`) is no failure.
pub fn print(text: &[u8]) -> ExitCode {
    let mut out = stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            logging::fatal(&format!("standard output: {error}"))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Prints a JSON value, indented.
pub fn print_json(value: &impl Serialize) -> ExitCode {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print((text + "\n").as_bytes()),
        Err(error) => logging::fatal(&format!("standard output: {error}")),
    }
}
