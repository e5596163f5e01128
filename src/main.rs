//! The process: runs the command that the command line names.
//!
//! Builds the parts of the process and runs them. It does not handle requests. The commands and their flags are in
//! `command_line`.

#[path = "main/acme/mod.rs"]
mod acme;
#[path = "main/announcement.rs"]
mod announcement;
#[path = "main/background/mod.rs"]
mod background;
#[path = "main/batch_opening.rs"]
mod batch_opening;
#[path = "main/cache_opening.rs"]
mod cache_opening;
#[path = "main/certificate.rs"]
mod certificate;
#[path = "main/check.rs"]
mod check;
#[path = "main/client_verifier.rs"]
mod client_verifier;
#[path = "main/command_line.rs"]
mod command_line;
#[path = "main/declared_commands.rs"]
mod declared_commands;
#[path = "main/declared_files.rs"]
mod declared_files;
#[path = "main/declared_line.rs"]
mod declared_line;
#[path = "main/demo/mod.rs"]
mod demo;
#[path = "main/doctor/mod.rs"]
mod doctor;
#[path = "main/explain.rs"]
mod explain;
#[path = "main/hand_over/mod.rs"]
mod hand_over;
#[path = "main/import/mod.rs"]
mod import;
#[path = "main/input.rs"]
mod input;
#[path = "main/key_commands.rs"]
mod key_commands;
#[path = "main/key_list.rs"]
mod key_list;
#[path = "main/ledger_opening.rs"]
mod ledger_opening;
#[path = "main/log_queue.rs"]
mod log_queue;
#[path = "main/logging.rs"]
mod logging;
#[path = "main/man_page.rs"]
mod man_page;
#[path = "main/node_list.rs"]
mod node_list;
#[path = "main/object_api.rs"]
mod object_api;
#[path = "main/object_commands.rs"]
mod object_commands;
#[path = "main/object_editor.rs"]
mod object_editor;
#[path = "main/object_line.rs"]
mod object_line;
#[path = "main/object_table.rs"]
mod object_table;
#[path = "main/output.rs"]
mod output;
#[path = "main/price_commands.rs"]
mod price_commands;
#[path = "main/prompt_cache.rs"]
mod prompt_cache;
#[path = "main/read.rs"]
mod read;
#[path = "main/reload.rs"]
mod reload;
#[path = "main/repeats.rs"]
mod repeats;
#[path = "main/runtime_files.rs"]
mod runtime_files;
#[path = "main/serve.rs"]
mod serve;
#[path = "main/span_exporter.rs"]
mod span_exporter;
#[path = "main/start_checks.rs"]
mod start_checks;
#[path = "main/stop.rs"]
mod stop;
#[path = "main/store_commands.rs"]
mod store_commands;
#[path = "main/store_opening.rs"]
mod store_opening;
#[path = "main/summing_logger.rs"]
mod summing_logger;

mod proxy;

use command_line::{Cli, Command};
use emulator::{Emulator, Options, Recordings};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use words::settings::schema;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = Cli::read();
    // Must come before any use of TLS: rustls has no default crypto provider in this build.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = cli.settings_file();
    match cli.command.unwrap_or(Command::Run { upgrade: false, detached: false, demo: false }) {
        Command::Run { demo: true, .. } => demo::run(),
        Command::Run { upgrade: true, detached: false, .. } => hand_over::start_detached(&file),
        Command::Run { upgrade, .. } => serve::run(&file, upgrade, None),
        Command::Check => check::run(&file),
        Command::Doctor { connect, json } => doctor::run(&file, connect, json),
        // The package has put another binary there.
        Command::Reload { pid } if hand_over::program_has_changed(pid) => hand_over::run_own_binary(pid),
        Command::Reload { pid } => reload::run(pid),
        Command::Upgrade { to, pid } => hand_over::run(to.as_deref(), pid),
        Command::Explain { json, cache: Some(ids), connection, .. } => {
            prompt_cache::run(&ids, json, &connection)
        }
        Command::Explain { request, json, .. } => explain::run(&file, &request, json),
        Command::Keys { command } => key_commands::run(&file, command),
        Command::Prices { command } => price_commands::run(&file, command),
        Command::Store { command } => store_commands::run(&file, command),
        Command::Nodes { json, connection } => node_list::run(json, &connection),
        Command::Objects(command) => object_commands::run(command),
        Command::Declared(command) => declared_commands::run(command),
        Command::Import(arguments) => import::run(&arguments),
        Command::Emulator { listen, replay } => emulator(listen, replay),
        Command::Schema => {
            output::print_json(&schema::build(&knowledge::provider::names().collect::<Vec<_>>()))
        }
        Command::Completions { shell } => output::print(&command_line::completions(shell)),
        Command::Man { to } => man_page::run(to.as_deref()),
    }
}

/// Runs the built-in provider until a signal stops it.
fn emulator(listen: SocketAddr, replay: Option<PathBuf>) -> ExitCode {
    let log = logging::start(&words::settings::Log::default());
    if let Err(error) = log.queue.start_writer() {
        return logging::fatal(&format!("the log's thread: {error}"));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return logging::fatal(&format!("no runtime: {error}")),
    };
    let served = runtime.block_on(async {
        let load =
            |file: &Path| Recordings::load(file).map_err(|why| format!("--replay {}: {why}", file.display()));
        let recordings = replay.as_deref().map(load).transpose()?;
        let emulator = Emulator::new(Options { recordings, log_all: false });
        let listener = tokio::net::TcpListener::bind(listen).await;
        let listener = listener.map_err(|why| start_checks::cannot_listen(listen, &why))?;
        log::info!(target: "turnpike", "emulator listens on {listen}");
        emulator.serve(listener, stop::shutdown_requested()).await;
        Ok::<(), String>(())
    });
    log.queue.flush(stop::FINAL_FLUSH_TIMEOUT);
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => logging::fatal(&format!("the emulator cannot run: {error}")),
    }
}
