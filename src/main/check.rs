//! `turnpike check`: everything that a start would find wrong with the settings, without starting.
//!
//! Prints only; `read` and `start_checks` do the checking.

use super::start_checks::Addresses;
use super::{logging, output, read};
use std::path::Path;
use std::process::ExitCode;
use words::settings::Outbound;

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
            let proxies = proxies(&usable.settings.outbound);
            output::print(format!("{name}: ok{warnings}\n{proxies}").as_bytes())
        }
        Err(error) => logging::fatal(&read::unusable(file, &error)),
    }
}

/// A line for each proxy that is in force, without credentials, and where it is named: it may be in the environment only.
fn proxies(outbound: &Outbound) -> String {
    let both = [("http", &outbound.http), ("https", &outbound.https)];
    let named = both.iter().filter_map(|(scheme, named)| Some((scheme, named.as_ref()?)));
    named
        .map(|(scheme, named)| format!("proxy for {scheme}:// addresses: {} ({})\n", named.proxy, named.from))
        .collect()
}
