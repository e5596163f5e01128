//! What `turnpike import` is given on the command line.

use super::product::Product;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Whose files they are.
    pub product: Product,
    /// The files, - for standard input. Several are one configuration.
    #[arg(required = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// Print the report alone.
    #[arg(long)]
    pub dry_run: bool,
    /// Where the settings are written. Default: standard output. Prices are written into a file beside it.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// Write over files that are there.
    #[arg(long, requires = "out")]
    pub force: bool,
    /// Where the report is written. Default: standard error.
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub report: Option<PathBuf>,
    /// The report in JSON.
    #[arg(long)]
    pub json: bool,
    /// The database of the other gateway. No version reads one yet: it is refused.
    #[arg(long, value_name = "URL", hide = true)]
    pub db: Option<String>,
}
