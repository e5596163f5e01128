//! What is made of the file as text: the report of its problems, and its hash.
//!
//! Not its reading (`draft`).

use crate::error::Problem;
use std::fmt::Write as _;

/// Formats the problems as lines `FILE:LINE:COLUMN: path: message`, for `turnpike check` and the log.
pub fn report(file: &str, problems: &[Problem]) -> String {
    let mut out = String::new();
    for problem in problems {
        let _ = match problem.place {
            Some((line, column)) => writeln!(out, "{file}:{line}:{column}: {problem}"),
            None => writeln!(out, "{file}: {problem}"),
        };
    }
    out
}

/// The first twelve hex digits of the SHA-256 of the text.
pub(super) fn hash(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let mut out = String::with_capacity(12);
    for byte in digest.as_ref().iter().take(6) {
        let _ = write!(out, "{byte:02x}");
    }
    out
}
