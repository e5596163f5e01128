//! The directory of what outlives the process: one rule for the service and for every command, whoever calls it.
//!
//! Only the unit of a service has `$STATE_DIRECTORY`; a command in a shell must find the same directory without it. Opens and makes
//! nothing.

use std::path::{Path, PathBuf};

/// Where the packages have the settings.
const PACKAGED_SETTINGS: &str = "/etc/turnpike";
/// What the shipped unit has as its state directory.
const PACKAGED_STATE: &str = "/var/lib/turnpike";

/// The directory, and what named it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    pub path: PathBuf,
    pub source: StateDirSource,
}

/// What named a state directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateDirSource {
    Settings,
    Variable,
    PackagedSettings,
    NextToSettings,
}

impl StateDir {
    /// The directory by the setting, else by the variable (the first, if it has several), else by where the settings file is.
    pub fn find(setting: Option<&Path>, variable: Option<&str>, settings_file: &Path) -> Self {
        let named = |path: &Path, source| Self { path: path.to_owned(), source };
        if let Some(path) = setting {
            return named(path, StateDirSource::Settings);
        }
        if let Some(path) = variable.and_then(|list| list.split(':').find(|path| !path.is_empty())) {
            return named(Path::new(path), StateDirSource::Variable);
        }
        let whole = std::path::absolute(settings_file).unwrap_or_else(|_| settings_file.to_owned());
        if whole.starts_with(PACKAGED_SETTINGS) {
            return named(Path::new(PACKAGED_STATE), StateDirSource::PackagedSettings);
        }
        let path = settings_file.parent().unwrap_or(Path::new("")).join("data");
        Self { path, source: StateDirSource::NextToSettings }
    }
}

impl StateDirSource {
    /// For an operator who looks for the directory.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "server.state_dir",
            Self::Variable => "$STATE_DIRECTORY",
            Self::PackagedSettings => "the default for settings below /etc/turnpike",
            Self::NextToSettings => {
                "the default for these settings, without $STATE_DIRECTORY and server.state_dir"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_in_a_shell_finds_what_the_service_has() {
        let found = |setting: Option<&str>, variable, file| {
            let found = StateDir::find(setting.map(Path::new), variable, Path::new(file));
            (found.path.display().to_string(), found.source)
        };
        let packaged = "/etc/turnpike/turnpike.yaml";
        for (setting, variable, file, path, source) in [
            (Some("/srv/t"), Some("/var/lib/a"), packaged, "/srv/t", StateDirSource::Settings),
            (None, Some("/var/lib/a:/var/lib/b"), packaged, "/var/lib/a", StateDirSource::Variable),
            (None, None, packaged, PACKAGED_STATE, StateDirSource::PackagedSettings),
            (None, Some(""), "/etc/turnpike/blue/t.yaml", PACKAGED_STATE, StateDirSource::PackagedSettings),
            (None, None, "/etc/turnpike2/t.yaml", "/etc/turnpike2/data", StateDirSource::NextToSettings),
            (None, Some(""), "conf/turnpike.yaml", "conf/data", StateDirSource::NextToSettings),
            (None, None, "t.yaml", "data", StateDirSource::NextToSettings),
        ] {
            assert_eq!(
                found(setting, variable, file),
                (path.to_owned(), source),
                "{setting:?} {variable:?} {file}"
            );
        }
    }
}
