//! The commands and flags of `turnpike`, and the completions made of them.
//!
//! Does nothing with them: that is `main`. Their text is also what `--help` and the manual page (`man_page`) print.

use super::declared_line::DeclaredCommand;
use super::import::arguments::ImportArguments;
use super::object_line::{Connection, ObjectCommand};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// An AI gateway: one HTTP endpoint in front of many model providers.
#[derive(Debug, Parser)]
#[command(name = "turnpike", version, about, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The settings file. Default: conf/turnpike.yaml, or /etc/turnpike/turnpike.yaml where only that one exists.
    #[arg(short, long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    config: Option<PathBuf>,
}

impl Cli {
    /// The command line of the process; where its parts do not go together, it ends with status 2.
    pub fn read() -> Self {
        let cli = Self::parse();
        if cli.config.is_some() && matches!(cli.command, Some(Command::Run { demo: true, .. })) {
            let why = "--demo has settings of its own: leave --config away";
            Self::command().error(ErrorKind::ArgumentConflict, why).exit();
        }
        cli
    }

    /// The settings file that is named, or else the first that is there of those which are looked for.
    pub fn settings_file(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| default_file(Path::exists).to_owned())
    }
}

/// Where the settings are looked for when `-c` is not given: in a checkout, and where the packages have them.
const DEFAULT_FILES: [&str; 2] = ["conf/turnpike.yaml", "/etc/turnpike/turnpike.yaml"];

/// The first of the files that is there; without any, the first of all.
fn default_file(exists: impl Fn(&Path) -> bool) -> &'static Path {
    let [first, _] = DEFAULT_FILES;
    let found = DEFAULT_FILES.into_iter().find(|file| exists(Path::new(file)));
    Path::new(found.unwrap_or(first))
}

const AFTER_HELP: &str = "\
Exit status: 0 success; 1 a problem, which is printed; 2 a wrong command line, and of diff and apply --plan: something would change.
The manual page: turnpike man | man -l -";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve (the default).
    Run {
        /// Take over from the process that has started this one.
        #[arg(long, hide = true)]
        upgrade: bool,
        /// With `--upgrade`: this is the process that takes over, and not the one that starts it.
        #[arg(long, hide = true, requires = "upgrade")]
        detached: bool,
        /// Serve a demo: three teams with objects, a week of made-up requests and live traffic to the built-in provider, on loopback,
        /// with settings and a state directory of its own that are removed at the end. Prints the console's address and its key.
        #[arg(long, conflicts_with = "upgrade")]
        demo: bool,
    },
    /// Check everything that a start needs: prints every problem with its place, exits 1 when there is one.
    Check,
    /// Look at what a gateway needs on this machine, and print for each whether it is ok, and what to do; exits 1 when something
    /// fails. Changes nothing, and may run beside a gateway.
    Doctor {
        /// Also connect to the host of each provider of the settings (TCP only; nothing is sent).
        #[arg(long)]
        connect: bool,
        /// Print the findings in JSON.
        #[arg(long)]
        json: bool,
    },
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
    /// Say what would become of a request, without calling anyone; exits 1 when it would be refused. With --cache: where the prompts of two
    /// requests in the log of a running gateway part.
    Explain {
        /// A file with the request in JSON, or - for standard input.
        #[arg(long, value_name = "FILE", default_value = "-", value_hint = clap::ValueHint::FilePath)]
        request: PathBuf,
        /// Print the whole explanation in JSON, as POST /v1/explain does.
        #[arg(long)]
        json: bool,
        /// Two requests, by their ids or trace ids.
        #[arg(long, num_args = 2, value_names = ["EARLIER", "LATER"], conflicts_with = "request")]
        cache: Option<Vec<String>>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Make, list, rotate and revoke stored service keys, with or without a running gateway. Needs no provider's key. Run it as root
    /// or as the user of the gateway.
    Keys {
        #[command(subcommand)]
        command: KeyCommand,
    },
    /// Look after the store of the control plane; the gateway may run meanwhile. Needs no provider's key. Run it as root or as the user
    /// of the gateway.
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// List the gateways that use one store, from a running one: which version each runs, which revision of the store it has in force,
    /// when it was last heard from. Says of each that is behind the store, silent, or has another time.
    Nodes {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: Connection,
    },
    #[command(flatten)]
    Objects(ObjectCommand),
    #[command(flatten)]
    Declared(DeclaredCommand),
    /// Show what models cost, check files of prices, compare catalogues. Needs no provider's key.
    Prices {
        #[command(subcommand)]
        command: PriceCommand,
    },
    /// Make settings of another gateway's files, and report of each key of them whether it means the same, something else, or was not
    /// taken; exits 1 when a file is of something else, or the settings would not pass `check`.
    Import(ImportArguments),
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
    Man {
        /// Write it into this directory instead, and a page for each command, such as turnpike-keys-create.1.
        #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
        to: Option<PathBuf>,
    },
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
    /// List all keys: id, public id, name, type, workspace, status, and the scopes below.
    List {
        /// Print them in JSON, with every scope and the expiry.
        #[arg(long)]
        json: bool,
    },
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
    /// Make the database, or bring its tables up to date. A start does so, too; no other command makes one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_a_package_are_found_without_a_flag() {
        let [checkout, packaged] = DEFAULT_FILES.map(Path::new);
        assert_eq!(default_file(|_| true), checkout);
        assert_eq!(default_file(|file| file == packaged), packaged);
        assert_eq!(default_file(|_| false), checkout);
    }
}
