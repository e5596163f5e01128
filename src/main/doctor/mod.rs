//! `turnpike doctor`: what an operator looks at first on a machine where something is wrong, each with what to do.
//!
//! Reads, resolves names, and opens the store as every command does; starts nothing, sends nothing, makes no file. Each check returns
//! [`Finding`]s; what cannot be looked at here is not reported as good.

mod finding;
mod listeners;
mod machine;
mod network;
mod state;
mod unit;

use super::{logging, output, read};
use finding::{Finding, State, findings_text};
use std::path::Path;
use std::process::ExitCode;
use unit::Unit;
use words::error::Problem;
use words::settings::Settings;

/// Prints the findings; exits 1 when something fails. `connect`: also to the providers.
pub fn run(file: &Path, connect: bool, json: bool) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return logging::fatal(&format!("no runtime: {error}")),
    };
    let mut found = Vec::new();
    if let Some((settings, missing)) = settings(file, &mut found) {
        runtime.block_on(examine(file, &settings, &missing, connect, &mut found));
    }
    let printed =
        if json { output::print_json(&found) } else { output::print(findings_text(&found).as_bytes()) };
    if printed != ExitCode::SUCCESS {
        return printed;
    }
    let has_failed = found.iter().any(|finding| finding.state == State::Fail);
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The settings, where they can be used, and the references in them without a value. A variable or credential that only the service has
/// is no failure here.
fn settings(file: &Path, found: &mut Vec<Finding>) -> Option<(Settings, Vec<Problem>)> {
    const CHECK: &str = "settings";
    let shown = file.display();
    let (usable, missing) = match read::for_doctor(file) {
        Ok(read) => read,
        Err(error) => {
            let todo = format!("correct the file; `turnpike check -c {shown}` looks at it alone");
            found.push(Finding::fail(CHECK, read::report(file, &error).trim_end(), &todo));
            return None;
        }
    };
    found.push(Finding::ok(CHECK, format!("{shown} can be used ({})", usable.settings.hash)));
    for warning in &usable.warnings {
        found.push(Finding::warn(
            CHECK,
            warning.to_string(),
            "see docs/commands.md and the comments of the shipped settings",
        ));
    }
    if !missing.is_empty() {
        let paths: Vec<&str> = missing.iter().map(|problem| problem.path.as_str()).collect();
        found.push(Finding::warn(
            CHECK,
            format!("not all of it could be looked at: this shell has no value for {}", paths.join(", ")),
            "call it with the variables of the service, and CREDENTIALS_DIRECTORY=DIRECTORY for its credentials",
        ));
    }
    Some((usable.settings, missing))
}

async fn examine(
    file: &Path,
    settings: &Settings,
    missing: &[Problem],
    connect: bool,
    found: &mut Vec<Finding>,
) {
    let lacks = |path: &str| missing.iter().any(|problem| problem.path.starts_with(path));
    let unit = Unit::of(file);
    found.push(machine::clock(file));
    found.push(machine::descriptors(settings, unit.as_ref()));
    found.extend(unit.as_ref().and_then(|unit| unit.stop_time(settings)));
    let (listeners, is_running) = listeners::addresses(settings).await;
    found.extend(listeners);
    found.extend(listeners::certificates(file, settings, !lacks("server.state_dir")));
    // Else another directory or database than the service's would be looked at.
    if !lacks("server.state_dir") {
        found.extend(state::owners(file, settings));
        if !lacks("store") {
            found.push(state::database(file, settings, is_running).await);
        }
    }
    found.extend(machine::disks(file, settings));
    found.extend(network::providers(settings, connect).await);
}
