//! Reads the settings file: the I/O that `settings` itself does not do, and the checks that need providers or the machine.
//!
//! Start, reload and all commands come through here, so none of them accepts what another refuses, but for what a shell lacks.

use super::start_checks::{self, Addresses};
use judgment::route::stored_calls;
use knowledge::price::Overlay;
use knowledge::provider;
use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::time::SystemTime;
use words::config::Checks;
use words::error::Problem;
use words::settings::{Draft, SecretSources, Settings};

/// Why the settings cannot be used.
pub enum SettingsError {
    File(io::Error),
    Problems(Vec<Problem>),
}

/// Usable settings, and what is odd about them.
pub struct Usable {
    pub settings: Settings,
    pub warnings: Vec<Problem>,
    /// The prices of `prices.overlay`.
    pub overlay: Overlay,
}

/// The settings for a command that uses these sections only. A variable or credential that is missing elsewhere, such as the key of a
/// provider, is not missed: a shell does not have what a service has. Whether accounts are complete is not checked.
///
/// # Errors
/// The file cannot be read, or the other problems in it.
pub fn sections(file: &Path, used: &[&str]) -> Result<Settings, SettingsError> {
    let draft =
        with_sources(file, |text, sources, checks| Draft::read_sections(text, sources, checks, used))?;
    draft.finish().map_err(SettingsError::Problems)
}

/// Reads and checks the file, resolves its references, and checks on this machine what a start needs: certificates, files and directories, addresses.
///
/// # Errors
/// The file cannot be read, or all the problems in it.
pub fn for_start(file: &Path, addresses: Addresses) -> Result<Usable, SettingsError> {
    let mut draft = draft(file)?;
    let mut warnings = start_checks::run(&mut draft, addresses);
    let overlay = overlay(&mut draft);
    warnings.extend(overlay_warnings(&overlay).map(|message| Problem {
        path: "prices.overlay".to_owned(),
        message,
        place: None,
    }));
    let mut settings = draft.finish().map_err(SettingsError::Problems)?;
    settings.source.file = Some(std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).into());
    Ok(Usable { settings, warnings, overlay })
}

/// As [`for_start`], in a shell that may lack the variables and credentials of the service: those are returned and are no problem, and
/// without them accounts are not looked into. Addresses are not tried.
///
/// # Errors
/// The file cannot be read, or all the problems in it.
pub fn for_doctor(file: &Path) -> Result<(Usable, Vec<Problem>), SettingsError> {
    let (mut draft, missing) = in_a_shell(file)?;
    let warnings = start_checks::run(&mut draft, Addresses::NotTried);
    let overlay = overlay(&mut draft);
    let settings = draft.finish().map_err(SettingsError::Problems)?;
    Ok((Usable { settings, warnings, overlay }, missing))
}

/// The settings in a shell that may lack the variables and credentials of the service: those are returned, and the texts of the
/// references stand for them.
///
/// # Errors
/// The file cannot be read, or all the problems in it.
pub fn for_explain(file: &Path) -> Result<(Settings, Vec<Problem>), SettingsError> {
    let (draft, missing) = in_a_shell(file)?;
    Ok((draft.finish().map_err(SettingsError::Problems)?, missing))
}

/// What is wrong with the text of settings, as far as that depends on the text alone. `stand_in` gives a value for a variable that this
/// process lacks; `prices` is the text of their overlay.
pub fn of_text(text: &str, stand_in: &dyn Fn(&str) -> Option<String>, prices: Option<&str>) -> Vec<Problem> {
    let env = |name: &str| std::env::var(name).ok().or_else(|| stand_in(name));
    let sources = SecretSources { env: &env, credential: &credential };
    let mut draft = Draft::read(text, &sources, &checks());
    check_calls(&mut draft);
    let mut problems = draft.finish().err().unwrap_or_default();
    let of_prices = prices.and_then(|prices| Overlay::read(prices).err()).unwrap_or_default();
    problems.extend(
        of_prices
            .into_iter()
            .map(|problem| Problem { path: format!("prices.overlay, {}", problem.path), ..problem }),
    );
    problems
}

fn in_a_shell(file: &Path) -> Result<(Draft, Vec<Problem>), SettingsError> {
    let mut draft =
        with_sources(file, |text, sources, checks| Draft::read_sections(text, sources, checks, &[]))?;
    let missing = draft.missing_references().to_vec();
    if missing.is_empty() {
        check_calls(&mut draft);
    }
    Ok((draft, missing))
}

/// The file of `prices.overlay`. What is wrong with it is a problem of that key.
fn overlay(draft: &mut Draft) -> Overlay {
    let path = draft.settings().and_then(|settings| settings.prices.overlay.clone());
    let Some(path) = path.filter(|_| draft.is_sound("prices")) else { return Overlay::default() };
    let text = std::fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()));
    let read = text.and_then(|text| {
        let report = |problems: Vec<Problem>| words::settings::report(&path.display().to_string(), &problems);
        Overlay::read(&text).map_err(|problems| report(problems).trim_end().to_owned())
    });
    read.unwrap_or_else(|why| {
        draft.add("prices.overlay", &why);
        Overlay::default()
    })
}

/// What is odd about an overlay: prices of providers that do not exist are for no request.
pub fn overlay_warnings(overlay: &Overlay) -> impl Iterator<Item = String> {
    let unknown = overlay.unknown_providers(|name| provider::ids().any(|id| id == name));
    unknown.into_iter().map(|name| format!("has prices of {name:?}, which {}", provider::unknown(name)))
}

/// Reads the file with the references of this process and the checks of the providers.
fn with_sources(
    file: &Path,
    read: impl FnOnce(&str, &SecretSources<'_>, &Checks<'_>) -> Draft,
) -> Result<Draft, SettingsError> {
    let text = std::fs::read_to_string(file).map_err(SettingsError::File)?;
    let sources = SecretSources { env: &|name| std::env::var(name).ok(), credential: &credential };
    Ok(read(&text, &sources, &checks()))
}

/// What providers say of names and accounts.
fn checks() -> Checks<'static> {
    Checks { provider: &provider::check_name, account: &provider::check_account, ..Checks::NONE }
}

fn draft(file: &Path) -> Result<Draft, SettingsError> {
    let mut draft = with_sources(file, Draft::read)?;
    check_calls(&mut draft);
    Ok(draft)
}

/// Adds what stored providers and saved configs lack for a call.
fn check_calls(draft: &mut Draft) {
    let found = draft.settings().map(|settings| stored_calls::problems(settings, SystemTime::now()));
    let found = found.unwrap_or_default();
    let sound: HashSet<&str> =
        found.iter().map(|finding| finding.owner.as_str()).filter(|owner| draft.is_sound(owner)).collect();
    for finding in &found {
        // What is wrong with it already may be the cause.
        if sound.contains(finding.owner.as_str()) {
            draft.add(&finding.path, &finding.message);
        }
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
        SettingsError::File(error) => {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "; name the settings file with -c FILE",
                io::ErrorKind::PermissionDenied => "; the user that runs turnpike must be able to read it",
                _ => "",
            };
            format!("{}: {error}{hint}", file.display())
        }
        SettingsError::Problems(problems) => words::settings::report(&file.display().to_string(), problems),
    }
}

/// The whole message of a command that cannot go on.
pub fn unusable(file: &Path, error: &SettingsError) -> String {
    let report = report(file, error);
    format!("the settings are not usable\n{report}")
}

/// Logs what is odd about settings that are usable.
pub fn log_warnings(file: &Path, warnings: &[Problem]) {
    for line in words::settings::report(&file.display().to_string(), warnings).lines() {
        log::warn!(target: "turnpike", "{line}");
    }
}
