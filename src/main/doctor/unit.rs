//! The systemd unit that runs the gateway with these settings, as far as its files can be read.
//!
//! Not systemd's whole syntax: the last assignment of a key counts, in the unit and then in its drop-ins. systemd itself is not asked.

use super::finding::Finding;
use crate::stop::DRAIN_MARGIN;
use std::path::{Path, PathBuf};
use std::time::Duration;
use words::settings::Settings;

/// Where units are, the first that has it counts.
const FOLDERS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
const NAME: &str = "turnpike.service";
/// For the threads to end, after the requests have.
const ENDING: Duration = Duration::from_secs(5);

/// The text of a unit and its drop-ins.
#[derive(Debug)]
pub struct Unit {
    file: PathBuf,
    text: String,
}

impl Unit {
    /// The unit of this machine, if there is one and it runs with this settings file.
    pub fn of(settings: &Path) -> Option<Self> {
        let file = FOLDERS.iter().map(|folder| Path::new(folder).join(NAME)).find(|file| file.is_file())?;
        let mut text = std::fs::read_to_string(&file).ok()?;
        for part in drop_ins() {
            text.push('\n');
            text.push_str(&std::fs::read_to_string(part).unwrap_or_default());
        }
        let unit = Self { file, text };
        let settings = std::path::absolute(settings).ok()?;
        (unit.settings_file()? == settings).then_some(unit)
    }

    fn value(&self, key: &str) -> Option<&str> {
        let assignments = self.text.lines().filter_map(|line| line.split_once('='));
        let mut values = assignments.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim());
        values.next_back().filter(|value| !value.is_empty())
    }

    /// The file behind `-c` of its command.
    fn settings_file(&self) -> Option<PathBuf> {
        let mut arguments = self.value("ExecStart")?.split_whitespace();
        arguments.find(|argument| matches!(*argument, "-c" | "--config"))?;
        arguments.next().map(PathBuf::from)
    }

    /// `LimitNOFILE`, the hard one of two.
    pub fn descriptors(&self) -> Option<u64> {
        let value = self.value("LimitNOFILE")?;
        value.rsplit(':').next()?.parse().ok()
    }

    /// Whether systemd waits as long for the end of requests as the gateway does. `None`: the unit does not say how long.
    pub fn stop_time(&self, settings: &Settings) -> Option<Finding> {
        const CHECK: &str = "unit";
        let shown = self.file.display();
        let value = self.value("TimeoutStopSec").or_else(|| self.value("TimeoutSec"))?;
        let server = &settings.server;
        let needed = server.drain_delay + server.grace_period + DRAIN_MARGIN + ENDING;
        let text = format!("{shown} has TimeoutStopSec={value}");
        match span(value) {
            Some(limit) if limit < needed => Some(Finding::warn(
                CHECK,
                format!("{text}, and requests may take {} s to end", needed.as_secs()),
                "raise TimeoutStopSec (systemctl edit turnpike), or lower server.drain_delay_seconds or server.grace_period_seconds: responses are cut otherwise",
            )),
            _ => Some(Finding::ok(CHECK, text)),
        }
    }
}

/// The drop-ins of the unit, in the order in which they count.
fn drop_ins() -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = Vec::new();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(Path::new(folder).join(format!("{NAME}.d")));
        for entry in entries.into_iter().flatten().flatten() {
            let path = entry.path();
            let is_new = !parts.iter().any(|part| part.file_name() == path.file_name());
            if is_new && path.extension().is_some_and(|extension| extension == "conf") {
                parts.push(path);
            }
        }
    }
    parts.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    parts
}

/// A span of time as systemd writes it: seconds, or numbers with units. `None`: without end, or not read here.
fn span(text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(digits)?;
        let end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(end)?;
        let seconds = match unit.trim() {
            "" | "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hr" | "hour" | "hours" => 3_600,
            _ => return None,
        };
        sum += Duration::from_secs(number.parse::<u64>().ok()?.saturating_mul(seconds));
        rest = next;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;
    use words::config::Checks;
    use words::settings::SecretSources;

    const SHIPPED: &str = include_str!("../../../systemd/turnpike.service");

    fn unit(more: &str) -> Unit {
        Unit { file: PathBuf::from("u"), text: format!("{SHIPPED}\n{more}") }
    }

    fn settings(grace: u64, delay: u64) -> Settings {
        let sources = SecretSources { env: &|_| None, credential: &|_| Err(String::new()) };
        let checks = Checks::NONE;
        let text = format!("server: {{grace_period_seconds: {grace}, drain_delay_seconds: {delay}}}");
        Settings::parse(&text, &sources, &checks).unwrap()
    }

    #[test]
    fn the_shipped_unit_gives_the_shipped_settings_their_time() {
        let shipped = unit("");
        assert_eq!(shipped.settings_file(), Some(PathBuf::from("/etc/turnpike/turnpike.yaml")));
        assert_eq!(shipped.descriptors(), Some(1_048_576));
        let state = |unit: &Unit, grace| unit.stop_time(&settings(grace, 0)).map(|finding| finding.state);
        assert_eq!(state(&shipped, 30), Some(State::Ok));
        assert_eq!(state(&shipped, 60), Some(State::Warn));
        // A stop begins with the delay.
        let delayed = shipped.stop_time(&settings(30, 3_600)).map(|finding| finding.state);
        assert_eq!(delayed, Some(State::Warn));
        // A drop-in counts.
        assert_eq!(state(&unit("[Service]\nTimeoutStopSec=1min 30s"), 60), Some(State::Ok));
        assert_eq!(state(&unit("[Service]\nTimeoutStopSec=infinity"), 86_400), Some(State::Ok));
        assert_eq!(state(&unit("[Service]\nTimeoutStopSec=10"), 30), Some(State::Warn));
    }

    #[test]
    fn spans_are_read_as_systemd_writes_them() {
        for (text, seconds) in [
            ("45", Some(45)),
            ("45s", Some(45)),
            ("1min 30s", Some(90)),
            ("2 h", Some(7_200)),
            ("infinity", None),
        ] {
            assert_eq!(span(text), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
