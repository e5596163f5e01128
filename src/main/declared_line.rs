//! `turnpike export`, `diff` and `apply`: their arguments. What they do is `declared_commands`'.

use super::object_line::Connection;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// The stored objects of a running gateway as files.
#[derive(Debug, Subcommand)]
pub enum DeclaredCommand {
    /// Print the stored objects of a running gateway in YAML, as `apply` takes them. Secrets are not in it: each is named by a variable of the
    /// environment.
    Export {
        /// The set that the file is for. Without it: that of --only, else `main`.
        #[arg(long, value_name = "NAME")]
        set: Option<String>,
        /// Only the objects that were applied from this set.
        #[arg(long, value_name = "SET")]
        only: Option<String>,
        /// Only the objects of this workspace, by slug or id.
        #[arg(long, value_name = "SLUG")]
        workspace: Option<String>,
        /// Also service keys, without their secrets: another gateway takes one with its `key_sha256` only.
        #[arg(long)]
        keys: bool,
        #[command(flatten)]
        connection: Connection,
    },
    /// Print what `apply` would change, and change nothing; exits 0 when that is nothing, 2 when it is something, 1 when it would be
    /// refused.
    Diff(DeclaredFiles),
    /// Make the stored objects of a running gateway as files have them: all of it, or where one object is refused, nothing. Objects of the
    /// API and of other sets stay as they are.
    Apply {
        /// Only print what would change, with the digest for --expect. Exits as `diff`.
        #[arg(long)]
        plan: bool,
        /// The digest of a plan: refuse when it would be another one now.
        #[arg(long, value_name = "DIGEST")]
        expect: Option<String>,
        #[command(flatten)]
        files: DeclaredFiles,
    },
}

/// The files, and how they are meant.
#[derive(Debug, Args)]
pub struct DeclaredFiles {
    /// Files in YAML or JSON of one set, with `set` and `objects`; - is standard input.
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Delete the objects of the set that are in none of the files.
    #[arg(long)]
    pub prune: bool,
    /// Make objects of the API, or of another set, objects of this one.
    #[arg(long)]
    pub take_over: bool,
    /// Print the plan in JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}
