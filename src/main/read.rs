//! Reads the settings file (the I/O that `settings` itself does not do), and `turnpike check`.

use super::logging;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use turnpike::config::Checks;
use turnpike::error::Problem;
use turnpike::provider;
use turnpike::settings::{SecretSources, Settings};

/// Why the settings cannot be used.
pub enum SettingsError {
    File(io::Error),
    Problems(Vec<Problem>),
}

/// Reads and checks the file and resolves its references.
///
/// # Errors
/// The file cannot be read, or all the problems in it.
pub fn settings(file: &Path) -> Result<Settings, SettingsError> {
    let text = std::fs::read_to_string(file).map_err(SettingsError::File)?;
    let sources = SecretSources { env: &|name| std::env::var(name).ok(), credential: &credential };
    let checks =
        Checks { provider: &check_provider, account: &provider::check_account, custom_host: &|_| Ok(()) };
    Settings::parse(&text, &sources, &checks).map_err(SettingsError::Problems)
}

fn check_provider(name: &str) -> Result<(), String> {
    match provider::find(name) {
        Some(_) => Ok(()),
        None => Err(provider::unknown(name)),
    }
}

/// A credential that systemd passed to this service (`LoadCredential=`).
fn credential(name: &str) -> Result<String, String> {
    let Some(folder) = std::env::var_os("CREDENTIALS_DIRECTORY") else {
        return Err(
            "there is no CREDENTIALS_DIRECTORY: run under systemd with LoadCredential=, or set it".into()
        );
    };
    let path = Path::new(&folder).join(name);
    let text =
        std::fs::read_to_string(&path).map_err(|why| format!("credential {name} cannot be read: {why}"))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

/// All problems, one line each: `FILE:LINE:COLUMN: path: message`.
pub fn report(file: &Path, error: &SettingsError) -> String {
    match error {
        SettingsError::File(error) => format!("{}: {error}", file.display()),
        SettingsError::Problems(problems) => {
            turnpike::settings::report(&file.display().to_string(), problems)
        }
    }
}

/// `turnpike check`.
#[expect(clippy::print_stdout, reason = "the output of a command")]
pub fn check(file: &Path) -> ExitCode {
    match settings(file) {
        Ok(_) => {
            println!("{}: ok", file.display());
            ExitCode::SUCCESS
        }
        Err(error) => logging::fatal(&format!("the settings are not usable\n{}", report(file, &error))),
    }
}
