//! `turnpike get`, `create`, `edit` and `delete`: their arguments.
//!
//! The kinds are those of the control API (`control::object_kinds`); what is done with them is `object_commands`'.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command, Subcommand};
use control::object_kinds;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::path::PathBuf;
use words::config::secret::Secret;

/// What is done with objects of the control API of a running gateway.
#[derive(Debug, Subcommand)]
pub enum ObjectCommand {
    /// List the objects of a kind, or show one of them, from a running gateway.
    Get {
        #[command(flatten)]
        of: Which,
        /// How many objects of a list are shown at most.
        #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
        limit: usize,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Make an object in a running gateway, and print the response, which may have a secret that is not shown again.
    Create {
        /// What is made, such as configs or api-keys/workspace/service.
        #[arg(value_parser = KindParser)]
        kind: String,
        /// A file with the object in JSON, or - for standard input.
        #[arg(short, long, value_name = "FILE", default_value = "-", value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Change an object of a running gateway: in $VISUAL or $EDITOR, or by the members of a file.
    Edit {
        #[command(flatten)]
        of: Which,
        /// A file with the members to change in JSON, or - for standard input; others stay, and null clears one.
        #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        file: Option<PathBuf>,
        #[command(flatten)]
        connection: Connection,
    },
    /// Delete an object of a running gateway, or take it out of use.
    Delete {
        #[command(flatten)]
        of: Which,
        /// A file with the body of the call in JSON, where the kind takes one, such as {"force_delete": true}.
        #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        file: Option<PathBuf>,
        #[command(flatten)]
        connection: Connection,
    },
}

/// Which objects a command is about.
#[derive(Debug, Args)]
pub struct Which {
    /// The kind, such as configs, usage-limits, prompts/greeting/versions.
    #[arg(value_parser = KindParser)]
    pub kind: String,
    /// The object's id or slug.
    pub id: Option<String>,
    /// A parameter of the call, such as name=dev042 or workspace_id=red; repeated for each.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub query: Vec<(String, String)>,
}

/// Where the gateway is, and who calls.
#[derive(Debug, Args)]
pub struct Connection {
    /// The control port (or the data port) of the gateway. Default: TURNPIKE_URL, else http://127.0.0.1:8788.
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url)]
    pub url: Option<String>,
    /// A service key with the scopes for the call. Others can see it in the list of processes: better is the variable TURNPIKE_KEY.
    #[arg(long, value_name = "KEY", conflicts_with = "key_file", value_parser = secret)]
    pub key: Option<Secret>,
    /// A file with the service key.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,
    /// A file with the certificates (PEM) that the gateway's is checked with, beside those of the system.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub ca_file: Option<PathBuf>,
}

fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::new(text))
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let pair = pair.ok_or_else(|| "must be NAME=VALUE".to_owned())?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

/// Takes any text, because a kind may be below an object; completions have the names of the kinds.
#[derive(Debug, Clone, Copy)]
struct KindParser;

impl TypedValueParser for KindParser {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        // Those below an object are not complete without its name.
        let names = object_kinds().into_iter().map(|kind| kind.name).filter(|name| !name.contains('{'));
        Some(Box::new(names.map(PossibleValue::new)))
    }
}
