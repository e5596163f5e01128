//! One line of the report: what was looked at, whether it is good, and what to do where it is not.
//!
//! Not the checks.

use serde::Serialize;
use std::fmt::Write;

/// How good it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Ok,
    /// It works, and may fail later or otherwise than expected.
    Warn,
    Fail,
}

/// What a check has found. The names of the members are those of `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub check: &'static str,
    pub state: State,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_to_do: Option<String>,
}

impl Finding {
    pub fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, state: State::Ok, text: text.into(), what_to_do: None }
    }

    pub fn warn(check: &'static str, text: impl Into<String>, what_to_do: &str) -> Self {
        Self { check, state: State::Warn, text: text.into(), what_to_do: Some(what_to_do.to_owned()) }
    }

    pub fn fail(check: &'static str, text: impl Into<String>, what_to_do: &str) -> Self {
        Self { state: State::Fail, ..Self::warn(check, text, what_to_do) }
    }
}

/// The findings for people: a line each, what to do below it, and how many there are of each kind.
pub fn findings_text(found: &[Finding]) -> String {
    let mut out = String::new();
    for Finding { check, state, text, what_to_do } in found {
        let state = match state {
            State::Ok => "ok  ",
            State::Warn => "warn",
            State::Fail => "FAIL",
        };
        // Writing into a String cannot fail.
        let _ = writeln!(out, "{state}  {check:12} {}", text.replace('\n', "\n                   "));
        if let Some(todo) = what_to_do {
            let _ = writeln!(out, "                   -> {todo}");
        }
    }
    let count = |state| found.iter().filter(|finding| finding.state == state).count();
    let _ = writeln!(
        out,
        "{} ok, {} warnings, {} failures",
        count(State::Ok),
        count(State::Warn),
        count(State::Fail)
    );
    out
}
