//! The command line: `turnpike [run]`, `turnpike check`, `turnpike explain`, `turnpike emulator`.
//!
//! Builds the parts of the process and runs them. It does not handle requests.

#[path = "main/background/mod.rs"]
mod background;
#[path = "main/certificate.rs"]
mod certificate;
#[path = "main/explain.rs"]
mod explain;
#[path = "main/log_queue.rs"]
mod log_queue;
#[path = "main/logging.rs"]
mod logging;
#[path = "main/read.rs"]
mod read;
#[path = "main/repeats.rs"]
mod repeats;
#[path = "main/serve.rs"]
mod serve;
#[path = "main/stop.rs"]
mod stop;
#[path = "main/summing_logger.rs"]
mod summing_logger;

use clap::{Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use turnpike::emulator::{Emulator, Options, Recordings};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// An AI gateway: one HTTP endpoint in front of many model providers.
#[derive(Debug, Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// The settings file.
    #[arg(short, long, global = true, default_value = "conf/turnpike.yaml")]
    config: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve (the default).
    Run {
        /// Take the listeners over from the running process through `server.upgrade_sock`.
        #[arg(long)]
        upgrade: bool,
    },
    /// Check the settings file: prints every problem with its place, exits 1 when there is one.
    Check,
    /// Say what would become of a request, without calling anyone; exits 1 when it would be refused.
    Explain {
        /// A file with the request in JSON, or - for standard input.
        #[arg(long, default_value = "-")]
        request: PathBuf,
    },
    /// Run the built-in provider on its own.
    Emulator {
        /// Where it listens.
        #[arg(long, default_value = "127.0.0.1:8790")]
        listen: SocketAddr,
        /// Answer requests that carry `x-replay-id` with recordings from this file (JSON lines).
        #[arg(long)]
        replay: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Must come before any use of TLS: rustls has no default crypto provider in this build.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match cli.command.unwrap_or(Command::Run { upgrade: false }) {
        Command::Run { upgrade } => serve::run(&cli.config, upgrade),
        Command::Check => read::check(&cli.config),
        Command::Explain { request } => explain::run(&cli.config, &request),
        Command::Emulator { listen, replay } => emulator(listen, replay),
    }
}

/// Runs the built-in provider until a signal stops it.
fn emulator(listen: SocketAddr, replay: Option<PathBuf>) -> ExitCode {
    let log = logging::start(&turnpike::settings::Log::default());
    if let Err(error) = log.start_writer() {
        return logging::fatal(&format!("the log's thread: {error}"));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return logging::fatal(&format!("no runtime: {error}")),
    };
    let served = runtime.block_on(async {
        let recordings = replay.as_deref().map(Recordings::load).transpose()?;
        let emulator = Emulator::new(Options { recordings, log_all: false });
        let listener = tokio::net::TcpListener::bind(listen).await?;
        log::info!(target: "turnpike", "emulator listens on {listen}");
        emulator.serve(listener, stop::shutdown_requested()).await;
        std::io::Result::Ok(())
    });
    log.flush(stop::FINAL_FLUSH_TIMEOUT);
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => logging::fatal(&format!("the emulator cannot run: {error}")),
    }
}
