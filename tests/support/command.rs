//! Runs `turnpike` on the command line to its end.
//!
//! Not for `turnpike run` with valid settings, which does not end: that is `Gateway`.

use std::process::Command;

/// The result of a finished command.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `turnpike` with these arguments.
pub(crate) fn turnpike(arguments: &[&str]) -> Finished {
    turnpike_with(arguments, &[])
}

/// Runs `turnpike` with these arguments and only these environment variables.
pub(crate) fn turnpike_with(arguments: &[&str], environment: &[(&str, &str)]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnpike"));
    let output = command.args(arguments).env_clear().envs(environment.iter().copied()).output().unwrap();
    Finished {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Runs `turnpike check` on these settings.
pub(crate) fn check(yaml: &str) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("turnpike.yaml");
    std::fs::write(&file, yaml).unwrap();
    turnpike(&["check", "-c", file.to_str().unwrap()])
}
