//! `turnpike check`: everything that a start would find wrong with the settings, without starting.
//!
//! Prints only; `read` and `start_checks` do the checking.

use super::start_checks::Addresses;
use super::{logging, output, read};
use std::path::Path;
use std::process::ExitCode;

/// Prints every problem and warning with its place; exits 1 when a start would fail. An address that is taken is a warning,
/// because the running gateway may be the one that has it.
#[expect(clippy::print_stderr, reason = "the warnings of a command")]
pub fn run(file: &Path) -> ExitCode {
    match read::for_start(file, Addresses::ShouldBeFree) {
        Ok(usable) => {
            let name = file.display().to_string();
            eprint!("{}", words::settings::report(&format!("warning: {name}"), &usable.warnings));
            let warnings = match usable.warnings.len() {
                0 => String::new(),
                1 => " (1 warning)".to_owned(),
                count => format!(" ({count} warnings)"),
            };
            // They may be named in the environment only.
            let proxies = usable.settings.outbound.described();
            let proxies: String = proxies.iter().map(|line| format!("proxy: {line}\n")).collect();
            output::print(format!("{name}: ok{warnings}\n{proxies}").as_bytes())
        }
        Err(error) => logging::fatal(&read::unusable(file, &error)),
    }
}
