//! Evaluates the results: medians over the rounds, ratios within a round, a table and a JSON line.
//!
//! Ratios and differences are taken within each round, and their median is reported: if the machine drifts
//! between rounds, both sides of a ratio drift alike.

use super::cases::{Case, Figures, Memory, Path};
use std::fmt::Write;

/// The highest accepted ratio of the gateway's CPU to the plain proxy's, by case.
const CPU_LIMITS: [(&str, f64); 3] = [("small_chat", 1.1), ("megabyte", 0.75), ("stream", 0.85)];
/// The highest accepted idle memory, in MiB, and that of a minute after the load.
const IDLE_LIMIT: f64 = 25.0;
const RESTED_LIMIT: f64 = 2.0 * IDLE_LIMIT;
/// The highest accepted memory per open stream, in KiB.
const STREAM_LIMIT: f64 = 50.0;

/// The results of all rounds.
#[derive(Default)]
pub(crate) struct Results {
    runs: Vec<Run>,
    memory: Vec<(Path, Memory)>,
    /// Resident memory a minute after the load, KiB.
    rested: Vec<(Path, f64)>,
}

struct Run {
    case: &'static Case,
    path: Path,
    round: usize,
    figures: Figures,
}

/// One line of the table.
struct Row {
    name: String,
    title: String,
    direct: Option<f64>,
    plain: Option<f64>,
    gateway: Option<f64>,
    ratio: Option<f64>,
    governed: Option<f64>,
    /// Of the gateway with governance.
    governed_ratio: Option<f64>,
    /// A latency: the difference to the direct path is reported too.
    latency: bool,
    /// The value that is checked, and its limit.
    limit: Option<(f64, f64)>,
}

impl Results {
    pub(crate) fn add(&mut self, case: &'static Case, path: Path, round: usize, figures: Figures) {
        self.runs.push(Run { case, path, round, figures });
    }

    pub(crate) fn add_memory(&mut self, path: Path, memory: Memory) {
        self.memory.push((path, memory));
    }

    pub(crate) fn add_rested(&mut self, path: Path, kib: f64) {
        self.rested.push((path, kib));
    }

    /// The table for docs/benchmarks.md.
    pub(crate) fn markdown(&self) -> String {
        let mut text =
            String::from("| | direct | plain Pingora | Turnpike | ratio | limit | governed | ratio |\n");
        text.push_str("|---|---:|---:|---:|---:|---|---:|---:|\n");
        for row in self.rows() {
            let limit = row.limit.map_or(String::new(), |(value, limit)| {
                let verdict = if value <= limit { "kept" } else { "**broken**" };
                format!("{limit} {verdict}")
            });
            let [ratio, governed_ratio] = [row.ratio, row.governed_ratio]
                .map(|ratio| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}")));
            let [direct, plain, gateway, governed] = [row.direct, row.plain, row.gateway, row.governed]
                .map(|value| value.map_or("–".to_owned(), quoted));
            let added = |value: Option<f64>| {
                let added = value.zip(row.direct).filter(|_| row.latency);
                added.map_or(String::new(), |(value, direct)| format!(" (+{})", quoted(value - direct)))
            };
            let (plain, gateway) = (plain + &added(row.plain), gateway + &added(row.gateway));
            let title = row.title;
            // Writing into a String cannot fail.
            let _ = writeln!(
                text,
                "| {title} | {direct} | {plain} | {gateway} | {ratio} | {limit} | {governed} | {governed_ratio} |"
            );
        }
        text
    }

    /// The results for programs, as one line.
    pub(crate) fn json(&self) -> String {
        let rows = self.rows().into_iter().map(|row| {
            let value = serde_json::json!({
                "direct": row.direct, "plain": row.plain, "gateway": row.gateway, "ratio": row.ratio,
                "governed": row.governed, "governed_ratio": row.governed_ratio,
                "limit": row.limit.map(|(_, limit)| limit), "kept": row.limit.map(|(value, limit)| value <= limit),
            });
            (row.name, value)
        });
        serde_json::Value::Object(rows.collect()).to_string()
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut last = "";
        for run in &self.runs {
            if run.case.name != last {
                last = run.case.name;
                self.case_rows(run.case, &mut rows);
            }
        }
        if !self.memory.is_empty() {
            let idle = |path| self.memory_of(path, |memory| memory.idle / 1024.0);
            rows.push(memory_row("idle_mib", "idle, MiB resident", idle, IDLE_LIMIT));
            let stream = |path| self.memory_of(path, |memory| memory.per_stream);
            rows.push(memory_row("stream_kib", "each open stream, KiB resident", stream, STREAM_LIMIT));
        }
        if !self.rested.is_empty() {
            let rested = |path| {
                let found = self.rested.iter().filter(|(one, _)| *one == path);
                median(found.map(|(_, kib)| kib / 1024.0).collect())
            };
            rows.push(memory_row(
                "rested_mib",
                "a minute after the load, MiB resident",
                rested,
                RESTED_LIMIT,
            ));
        }
        rows
    }

    fn case_rows(&self, case: &'static Case, rows: &mut Vec<Row>) {
        let mut row = |what: &str, unit: &str, figure: fn(&Figures) -> f64| {
            let median_for =
                |path| median(self.runs_of(case, path).map(|run| figure(&run.figures)).collect());
            let (plain, gateway) = (median_for(Path::Plain), median_for(Path::Gateway));
            rows.push(Row {
                name: format!("{}.{what}", case.name),
                title: format!("{}: {unit}", case.title),
                direct: median_for(Path::Direct).filter(|&value| value > 0.0),
                plain,
                gateway,
                ratio: median(self.ratios(case, Path::Gateway, figure)),
                governed: median_for(Path::Governed),
                governed_ratio: median(self.ratios(case, Path::Governed, figure)),
                latency: !matches!(what, "cpu" | "per_second"),
                limit: None,
            });
        };
        match case.rate {
            None => row("per_second", "per second", |figures| figures.per_second),
            Some(_) if case.name.starts_with("stream") => {
                row("first_p50", "first event p50, µs", |figures| figures.first_p50);
                row("first_p99", "first event p99, µs", |figures| figures.first_p99);
            }
            Some(_) => {
                row("p50", "p50, µs", |figures| figures.whole_p50);
                row("p99", "p99, µs", |figures| figures.whole_p99);
            }
        }
        row("cpu", "CPU, µs", |figures| figures.cpu);
        if let Some(reference) = case.reference {
            // Compare both with the plain proxy of their own rounds, so that a drifting machine affects both
            // alike.
            let other = super::cases::CASES.iter().find(|case| case.name == reference.case);
            let other =
                other.and_then(|other| median(self.ratios(other, Path::Gateway, |figures| figures.cpu)));
            if let (Some(row), Some(ratio)) = (rows.last_mut(), other)
                && let Some(ratio) = row.ratio.map(|own| own / ratio)
            {
                row.limit = Some((ratio, reference.limit));
                row.title.push_str(&format!(" ({ratio:.2} of {})", reference.name));
            }
        }
        let limit = CPU_LIMITS.iter().find(|(name, _)| *name == case.name);
        if let (Some(row), Some((_, limit))) = (rows.last_mut(), limit) {
            row.limit = row.ratio.map(|ratio| (ratio, *limit));
        }
    }

    fn memory_of(&self, path: Path, figure: fn(&Memory) -> f64) -> Option<f64> {
        let found = self.memory.iter().filter(|(one, _)| *one == path);
        median(found.map(|(_, memory)| figure(memory)).collect())
    }

    fn runs_of<'a>(&'a self, case: &'a Case, path: Path) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.case.name == case.name && run.path == path)
    }

    fn ratios(&self, case: &Case, path: Path, figure: fn(&Figures) -> f64) -> Vec<f64> {
        let gateways = self.runs_of(case, path);
        let pairs = gateways.filter_map(|gateway| {
            let plain = self.runs_of(case, Path::Plain).find(|plain| plain.round == gateway.round)?;
            Some(figure(&gateway.figures) / figure(&plain.figures))
        });
        pairs.collect()
    }
}

fn memory_row(name: &str, title: &str, of: impl Fn(Path) -> Option<f64>, limit: f64) -> Row {
    let (plain, gateway, governed) = (of(Path::Plain), of(Path::Gateway), of(Path::Governed));
    let ratio_to_plain = |value: Option<f64>| plain.zip(value).map(|(plain, value)| value / plain);
    Row {
        name: name.to_owned(),
        title: title.to_owned(),
        direct: None,
        plain,
        gateway,
        ratio: ratio_to_plain(gateway),
        governed,
        governed_ratio: ratio_to_plain(governed),
        latency: false,
        limit: gateway.map(|gateway| (gateway, limit)),
    }
}

/// What a run was of, for docs/benchmarks.md: the day, the commit, the settings and how long it took.
///
/// # Errors
/// git is not there.
pub(crate) fn origin(options: &super::Options) -> Result<String, super::Failure> {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
    let changed = if git(&["status", "--porcelain", "--", "src"])?.is_empty() { "" } else { " with changes" };
    let day = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let super::Options { threads, rounds, length, more_settings, .. } = options;
    let settings = if more_settings.is_empty() { "as shipped" } else { "with changes" };
    Ok(format!(
        "{day}, commit {commit}{changed}, settings {settings}, {threads} threads, {rounds} rounds of {} s.",
        length.as_secs()
    ))
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((upper + *values.get(middle.checked_sub(1)?)?) / 2.0)
}

/// One decimal below 100, else a whole number with thousands separators.
fn quoted(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
