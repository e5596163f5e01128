//! The shipped unit: systemd accepts it, it is sandboxed as documented, and it waits longer than the gateway
//! drains.
//!
//! Not run under systemd, which a test machine may lack: `systemd-analyze` is used where it is installed, and
//! the test prints that it was skipped where it is not. The notifications are tested with the process
//! (`starting`).

use crate::support::report;
use std::path::Path;
use std::process::{Command, Output};

const UNIT: &str = include_str!("../systemd/turnpike.service");
/// The default of `server.grace_period_seconds`.
const GRACE_SECONDS: u64 = 30;
/// The time Pingora gives its runtimes to end after the grace period.
const RUNTIME_SECONDS: u64 = 5;
/// Overall exposure in tenths, as `systemd-analyze security` counts: 0 closed, 100 open. Measured 12 on
/// systemd 252.
const MAX_EXPOSURE: &str = "15";

/// The values of a key, including empty assignments.
fn values(key: &str) -> Vec<&'static str> {
    UNIT.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

fn value(key: &str) -> &'static str {
    let found = values(key);
    assert_eq!(found.len(), 1, "{key}= stands once in the unit");
    found[0]
}

/// Runs systemd-analyze on the unit with this build's binary; `None`, with a printed note, if it is not
/// installed.
fn analyze(arguments: &[&str]) -> Option<Output> {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("turnpike.service");
    let binary = env!("CARGO_BIN_EXE_turnpike");
    std::fs::write(&unit, UNIT.replace("/usr/local/bin/turnpike", binary)).unwrap();
    match Command::new("systemd-analyze").args(arguments).arg(&unit).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            report(&format!("*** SKIPPED: systemd-analyze is not installed, so {arguments:?} was NOT run"));
            None
        }
        Err(error) => panic!("systemd-analyze: {error}"),
    }
}

#[test]
fn systemd_accepts_the_unit() {
    let Some(output) = analyze(&["verify", "--man=no"]) else { return };
    let output_text = String::from_utf8_lossy(&output.stderr);
    // It also reports on other units of the machine.
    let ours: Vec<&str> = output_text.lines().filter(|line| line.contains("turnpike")).collect();
    assert!(output.status.success() && ours.is_empty(), "systemd-analyze verify:\n{output_text}");
}

#[test]
fn the_unit_stays_as_closed_as_it_was() {
    let Some(output) = analyze(&["security", "--offline=true", "--threshold", MAX_EXPOSURE]) else { return };
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "systemd-analyze security:\n{output_text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn systemd_waits_longer_than_the_gateway_drains() {
    let seconds: u64 = value("TimeoutStopSec").parse().expect("TimeoutStopSec= in plain seconds");
    assert!(seconds > GRACE_SECONDS + RUNTIME_SECONDS, "TimeoutStopSec={seconds} cuts responses short");
}

#[test]
fn the_unit_has_all_it_needs() {
    for section in ["[Unit]", "[Service]", "[Install]"] {
        assert_eq!(UNIT.lines().filter(|line| *line == section).count(), 1, "{section}");
    }
    assert_eq!(value("Type"), "notify");
    assert_eq!(value("NotifyAccess"), "main");
    assert!(
        value("ExecReload").ends_with("turnpike reload --pid $MAINPID"),
        "a reload that is refused must fail"
    );
    assert_eq!(value("Restart"), "on-failure");
    for folder in ["StateDirectory", "RuntimeDirectory", "LogsDirectory"] {
        assert_eq!(value(folder), "turnpike");
    }
    assert!(value("WatchdogSec").parse::<u64>().is_ok_and(|seconds| seconds >= 10));
    assert!(value("LimitNOFILE").parse::<u64>().is_ok_and(|files| files >= 65_536));
    assert!(value("ExecStart").ends_with("turnpike run -c /etc/turnpike/turnpike.yaml"));
    assert!(Path::new(value("ExecStart").split(' ').next().unwrap()).is_absolute());
}
