//! What a reader of the test run must see even when every test passes.
//!
//! Not for diagnosis: a failing test says why in its assertion.

use std::io::Write;

/// Writes past the capture of the test runner, which would hide what a passing test prints.
pub(crate) fn report(text: &str) {
    let mut out = std::io::stderr().lock();
    out.write_all(format!("{}\n", text.trim_end()).as_bytes()).unwrap();
}
