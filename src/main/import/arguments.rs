//! What `turnpike import` is given on the command line.

use super::super::object_line::Connection;
use super::import::ImportTarget;
use super::product::Product;
use clap::Args;
use std::path::PathBuf;
use words::config::secret::Secret;

#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Whose files they are.
    pub product: Product,
    /// The files, - for standard input. Several are one configuration.
    #[arg(required_unless_present_any = ["db", "db_env"], value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// LiteLLM's PostgreSQL, which is only read: keys, teams, users, budgets, models. Others can see a password in the list of processes:
    /// better is --db-env.
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url, conflicts_with = "db_env", value_parser = secret)]
    pub db: Option<Secret>,
    /// The variable that has the URL of the database, such as DATABASE_URL.
    #[arg(long, value_name = "NAME")]
    pub db_env: Option<String>,
    /// The variable that has the key under which LiteLLM has encrypted secrets in its database.
    #[arg(long, value_name = "NAME", default_value = "LITELLM_SALT_KEY")]
    pub salt_key_env: String,
    /// What the keys, teams and limits of a database become, and prompts of Portkey.
    #[arg(long, value_enum, default_value_t = ImportTarget::Settings)]
    pub to: ImportTarget,
    /// Print the report alone; with --to store also what would be made.
    #[arg(long)]
    pub dry_run: bool,
    /// Where the settings are written. Default: standard output. Prices are written into a file beside it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// Write over files that are there, of settings and report.
    #[arg(long)]
    pub force: bool,
    /// Where the report is written. Default: standard error.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// The report in JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub connection: Connection,
}

fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}
