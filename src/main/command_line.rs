//! The commands and flags of `turnpike`, and the completions made of them.
//!
//! Does nothing with them: that is `main`. Their text is also what `--help` and the manual page (`man_page`) print.

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::net::SocketAddr;
use std::path::PathBuf;

/// An AI gateway: one HTTP endpoint in front of many model providers.
#[derive(Debug, Parser)]
#[command(name = "turnpike", version, about, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The settings file.
    #[arg(short, long, global = true, value_name = "FILE", default_value = DEFAULT_FILE, value_hint = clap::ValueHint::FilePath)]
    pub config: PathBuf,
}

/// The settings file when `-c` is not given, relative to the working directory.
pub const DEFAULT_FILE: &str = "conf/turnpike.yaml";

const AFTER_HELP: &str = "\
Exit status: 0 success; 1 a problem, which is printed; 2 a wrong command line.
The manual page: turnpike man | man -l -";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve (the default).
    Run {
        /// Take over from the process that has started this one.
        #[arg(long, hide = true)]
        upgrade: bool,
    },
    /// Check everything that a start needs: prints every problem with its place, exits 1 when there is one.
    Check,
    /// Have a running process reload the settings, and wait for the outcome; exits 1 when it refuses them. Upgrades it where the
    /// binary has changed. Needs RUNTIME_DIRECTORY, as under systemd.
    Reload {
        /// The process.
        #[arg(long)]
        pid: i32,
    },
    /// Replace the running process by a new one that takes its listeners over: a new binary, or settings that need a restart, without a
    /// refused connection. Exits 1 when the new one cannot serve; the old one serves on then.
    Upgrade {
        /// The binary to run. Default: the one at the path that the process was started from.
        #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::ExecutablePath)]
        to: Option<PathBuf>,
        /// The process. Default: the one of $RUNTIME_DIRECTORY, or of /run/turnpike.
        #[arg(long)]
        pid: Option<i32>,
    },
    /// Say what would become of a request, without calling anyone; exits 1 when it would be refused.
    Explain {
        /// A file with the request in JSON, or - for standard input.
        #[arg(long, value_name = "FILE", default_value = "-", value_hint = clap::ValueHint::FilePath)]
        request: PathBuf,
        /// Print the whole explanation in JSON, as POST /v1/explain does.
        #[arg(long)]
        json: bool,
    },
    /// Make, list, rotate and revoke stored service keys, with or without a running gateway.
    Keys {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Look after the store of the control plane. Run it as the user of the gateway; the gateway may run meanwhile.
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Show what models cost, check files of prices, compare catalogues.
    Prices {
        #[command(subcommand)]
        command: PriceCommand,
    },
    /// Run the built-in provider on its own.
    Emulator {
        /// Where it listens.
        #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8790")]
        listen: SocketAddr,
        /// Answer requests that carry `x-replay-id` with recordings from this file (JSON lines).
        #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        replay: Option<PathBuf>,
    },
    /// Print the JSON Schema of the settings file, for editors.
    Schema,
    /// Print the completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, in roff.
    Man,
}

/// What `turnpike keys` does.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key and print it, once.
    Create {
        /// Its name in the access line.
        #[arg(long)]
        name: String,
        /// What it may do (docs/keys.md), repeated for each scope; `all` is everything a key of its type may hold.
        #[arg(long = "scope", value_name = "SCOPE", default_value = "completions.write")]
        scopes: Vec<String>,
        /// The workspace it belongs to, by slug or id; `default` when absent.
        #[arg(long, value_name = "SLUG", conflicts_with = "organisation")]
        workspace: Option<String>,
        /// Make a key of the organisation, which administrates and calls nothing.
        #[arg(long)]
        organisation: bool,
        /// When it ends, such as 2027-01-31T00:00:00Z.
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
    },
    /// List all keys: id, public id, name, type, workspace, status, scopes.
    List,
    /// Give a key another secret and print it, once.
    Rotate {
        /// Its id or public id.
        key: String,
        /// How long the old secret stays good, in milliseconds; 0 ends it at once.
        #[arg(long, value_name = "MS", default_value_t = 1_800_000)]
        transition_ms: i64,
    },
    /// Delete a key.
    Revoke {
        /// Its id or public id.
        key: String,
    },
}

/// What `turnpike store` does.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Make the database, or bring its tables up to date. A start does so, too.
    Migrate,
    /// Copy the database of this moment into a new SQLite file, also from PostgreSQL. Its secrets stay sealed under the master
    /// key, which it does not hold.
    Backup {
        /// The new file.
        #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Check the database, every row and every sealed secret; exits 1 at the first thing that is wrong.
    Verify,
    /// Seal all secrets under store.encryption_key; without that key in the settings, under a new one in the file master.key.
    Rekey,
}

/// What `turnpike prices` does.
#[derive(Debug, Subcommand)]
pub enum PriceCommand {
    /// Print the prices of a model, in dollars per million tokens or thousand calls; without one, how many models there are.
    Show {
        /// Such as openai/gpt-5.
        #[arg(value_name = "PROVIDER/MODEL")]
        model: Option<String>,
    },
    /// Check an overlay, or whether a catalogue could replace the one in force; exits 1 when not.
    Check {
        /// The file.
        #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Print how a catalogue differs from the one in force.
    Diff {
        /// The file.
        #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Print the licence of the catalogue in the binary.
    Licence,
}

/// The completions for this shell.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "turnpike", &mut text);
    text
}
