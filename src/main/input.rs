//! What a command reads: a file, or standard input.
//!
//! Not the settings file (`read`).

use super::logging;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

/// Reads a file whole; `-` is standard input. `what` says to a person at a terminal what is read there.
///
/// # Errors
/// With the name of the file.
pub fn read(file: &Path, what: &str) -> Result<Vec<u8>, String> {
    if file != Path::new("-") {
        return std::fs::read(file).map_err(|why| format!("{}: {why}", file.display()));
    }
    if io::stdin().is_terminal() {
        logging::note(&format!("reading {what} in JSON from standard input; end with Ctrl-D"));
    }
    let mut text = Vec::new();
    io::stdin().read_to_end(&mut text).map_err(|why| format!("standard input: {why}"))?;
    Ok(text)
}
