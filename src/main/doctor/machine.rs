//! The clock, file descriptors and disks of this machine.
//!
//! Nothing outside it is asked.

use super::finding::Finding;
use super::unit::Unit;
use crate::store_opening;
use memory::state::system_limits::descriptors_for;
use rustix::fs::statvfs;
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use words::settings::{AccessLog, Settings};

/// By how much a file may be newer than now.
const SKEW: Duration = Duration::from_secs(60);
/// Made by systemd-timesyncd when it has set the clock.
const SYNCHRONIZED: &str = "/run/systemd/timesync/synchronized";
/// Below this, less than half of the connections of the shipped defaults fit.
const FEW_DESCRIPTORS: u64 = 4_096;
/// Free bytes of a disk at which to warn, and at which a gateway soon stops writing.
const FEW_BYTES: u64 = 1 << 30;
const NO_BYTES: u64 = 64 << 20;

/// The clock, by the files that were written last and by what systemd says of it.
pub fn clock(settings: &Path) -> Finding {
    const CHECK: &str = "clock";
    let files = [Some(settings.to_owned()), std::env::current_exe().ok()];
    let now = SystemTime::now();
    for file in files.into_iter().flatten() {
        let written = std::fs::metadata(&file).and_then(|is| is.modified());
        let ahead = written.ok().and_then(|written| written.duration_since(now).ok());
        if let Some(ahead) = ahead.filter(|ahead| *ahead > SKEW) {
            return Finding::fail(
                CHECK,
                format!(
                    "it is {} s behind the time at which {} was written",
                    ahead.as_secs(),
                    file.display()
                ),
                "set it (timedatectl set-ntp true): expiry of keys, budgets, tokens of clouds and certificates depend on it",
            );
        }
    }
    let synchronized = Path::new(SYNCHRONIZED);
    if synchronized.exists() {
        return Finding::ok(CHECK, "set by systemd-timesyncd, and not behind the files");
    }
    if synchronized.parent().is_some_and(Path::is_dir) {
        let todo = "look at `timedatectl timesync-status`";
        return Finding::warn(CHECK, "systemd-timesyncd runs, and has not set it yet", todo);
    }
    Finding::ok(
        CHECK,
        "not behind the settings and the binary; whether it is kept in time is not seen from here",
    )
}

/// The descriptors that the service may have, by its unit, else by this shell.
pub fn descriptors(settings: &Settings, unit: Option<&Unit>) -> Finding {
    const CHECK: &str = "descriptors";
    let of_unit = unit.and_then(Unit::descriptors);
    let whose = if of_unit.is_some() {
        "LimitNOFILE of the unit"
    } else {
        "the hard limit of this shell (ulimit -Hn)"
    };
    let Some(limit) = of_unit.or_else(|| getrlimit(Resource::Nofile).maximum) else {
        return Finding::ok(CHECK, format!("{whose} is none"));
    };
    let needed = settings.limits.max_connections.map(|connections| descriptors_for(connections) as u64);
    if let Some(needed) = needed.filter(|needed| *needed > limit) {
        return Finding::fail(
            CHECK,
            format!("limits.max_connections needs {needed}, and {whose} is {limit}"),
            "raise LimitNOFILE, or lower limits.max_connections",
        );
    }
    if limit < FEW_DESCRIPTORS {
        let todo = "raise LimitNOFILE: a request needs two, one for its client and one for its provider";
        return Finding::warn(CHECK, format!("{whose} is {limit}"), todo);
    }
    Finding::ok(CHECK, format!("{whose} is {limit}"))
}

/// The space of the disks that the gateway writes to.
pub fn disks(file: &Path, settings: &Settings) -> Vec<Finding> {
    let state = store_opening::state_dir(file, settings);
    let log = match &settings.access_log {
        AccessLog::File(path) => path.parent().map(Path::to_owned),
        _ => None,
    };
    let others = [log, settings.logs.spool_dir.clone(), settings.batches.directory.clone()];
    let folders: BTreeSet<PathBuf> = others.into_iter().flatten().chain([state]).collect();
    folders.iter().filter(|folder| folder.is_dir()).map(|folder| disk(folder)).collect()
}

fn disk(folder: &Path) -> Finding {
    const CHECK: &str = "disk";
    let shown = folder.display();
    let space = match statvfs(folder) {
        Ok(space) => space,
        Err(why) => return Finding::fail(CHECK, format!("{shown}: {why}"), "look at the file system"),
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let text = format!("{shown} has {} MiB free", free >> 20);
    let todo = "make room: changes are refused with 507 when it is full, and rows of the log are dropped";
    if space.f_files > 0 && space.f_favail == 0 {
        return Finding::fail(CHECK, format!("{shown} has no inode free"), todo);
    }
    match free {
        ..NO_BYTES => Finding::fail(CHECK, text, todo),
        NO_BYTES..FEW_BYTES => Finding::warn(CHECK, text, todo),
        _ => Finding::ok(CHECK, text),
    }
}
