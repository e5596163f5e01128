//! `turnpike explain`: the response of `POST /v1/explain`, from the settings file and with empty process state.
//!
//! Reads and prints only; `control::explain` makes the response.

use super::{input, logging, output, read};
use control::explain::ExplainContext;
use memory::state::drained_providers::DrainedProviders;
use memory::state::engine_loads::EngineLoads;
use memory::state::model_lists::ModelLists;
use memory::state::prefix_tables::PrefixTables;
use memory::state::slots::SlotRegistry;
use memory::state::snapshot::SettingsSnapshot;
use memory::state::sticky_sessions::StickySessions;
use memory::state::targets::TargetRegistry;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use words::error::Problem;

/// Prints how the gateway would treat the request in the file `request`, in five lines or all of it in JSON; exits 1 when it
/// would be refused.
pub fn run(file: &Path, request: &Path, json: bool) -> ExitCode {
    let (settings, missing) = match read::for_explain(file) {
        Ok(read) => read,
        Err(error) => return logging::fatal(&read::unusable(file, &error)),
    };
    warn_of(file, &missing);
    let text = match input::read(request, "the request") {
        Ok(text) => text,
        Err(error) => return logging::fatal(&error),
    };
    let snapshot = Arc::new(SettingsSnapshot::new(settings, 0));
    let targets = TargetRegistry::default();
    let sticky = StickySessions::default();
    let prefix_tables = PrefixTables::default();
    let slots = SlotRegistry::default();
    let engine_loads = EngineLoads::new(None);
    let drained_providers = DrainedProviders::default();
    let learned = Arc::default();
    let model_lists = ModelLists::default();
    let context = ExplainContext {
        snapshot: &snapshot,
        targets: &targets,
        sticky: &sticky,
        prefix_tables: &prefix_tables,
        slots: &slots,
        engine_loads: &engine_loads,
        drained_providers: &drained_providers,
        learned: &learned,
        model_lists: &model_lists,
        now: Instant::now(),
    };
    let response = match context.explain(&text) {
        Ok(response) => response,
        Err(error) => return logging::fatal(&error.message),
    };
    let printed =
        if json { output::print_json(&response) } else { output::print(response.summary().as_bytes()) };
    if printed != ExitCode::SUCCESS {
        return printed;
    }
    if response.has_problems() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Says which values only the service has. A host or a service key among them is not the one that the gateway would use.
fn warn_of(file: &Path, missing: &[Problem]) {
    if !missing.is_empty() {
        let lines = words::settings::report(&file.display().to_string(), missing);
        logging::note(&format!(
            "explained without these values, which only the service may have:\n{}",
            lines.trim_end()
        ));
    }
}
