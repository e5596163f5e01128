//! Prints what a reader of the test run must see even if every test passes.
//!
//! Not for diagnosis: a failing test explains itself in its assertion.

use std::io::Write;

/// Writes to stderr directly: the test runner captures what a passing test prints.
pub(crate) fn report(text: &str) {
    let mut out = std::io::stderr().lock();
    out.write_all(format!("{}\n", text.trim_end()).as_bytes()).unwrap();
}
