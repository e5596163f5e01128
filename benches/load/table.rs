//! Evaluates the results: medians over the rounds, ratios within a round, a table and a JSON line.
//!
//! Ratios and differences are taken within each round, and their median is reported: if the machine drifts
//! between rounds, both sides of a ratio drift alike.

use super::cases::{Case, Figures, Memory, Path};
use std::fmt::Write;

/// The highest accepted ratio of the gateway's CPU to the plain proxy's, by case.
const CPU_LIMITS: [(&str, f64); 3] = [("small_chat", 1.2), ("megabyte", 1.35), ("stream", 0.85)];
/// The highest accepted idle memory, in MiB.
const IDLE_LIMIT: f64 = 17.0;
/// The highest accepted memory per open stream, in KiB.
const STREAM_LIMIT: f64 = 110.0;

/// The results of all rounds.
#[derive(Default)]
pub(crate) struct Results {
    runs: Vec<Run>,
    memory: Vec<(Path, Memory)>,
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

    /// The table for docs/benchmarks.md.
    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("| | direct | plain Pingora | Turnpike | Turnpike / plain | limit |\n");
        text.push_str("|---|---:|---:|---:|---:|---|\n");
        for row in self.rows() {
            let limit = row.limit.map_or(String::new(), |(value, limit)| {
                let verdict = if value <= limit { "kept" } else { "**broken**" };
                format!("{limit} {verdict}")
            });
            let ratio = row.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
            let [direct, plain, gateway] =
                [row.direct, row.plain, row.gateway].map(|value| value.map_or("–".to_owned(), quoted));
            let added = |value: Option<f64>| {
                let added = value.zip(row.direct).filter(|_| row.latency);
                added.map_or(String::new(), |(value, direct)| format!(" (+{})", quoted(value - direct)))
            };
            let (plain, gateway) = (plain + &added(row.plain), gateway + &added(row.gateway));
            let title = row.title;
            // Writing into a String cannot fail.
            let _ = writeln!(text, "| {title} | {direct} | {plain} | {gateway} | {ratio} | {limit} |");
        }
        text
    }

    /// The results for programs, as one line.
    pub(crate) fn json(&self) -> String {
        let rows = self.rows().into_iter().map(|row| {
            let value = serde_json::json!({
                "direct": row.direct, "plain": row.plain, "gateway": row.gateway, "ratio": row.ratio,
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
            let idle = |memory: &Memory| memory.idle / 1024.0;
            rows.push(self.memory_row("idle_mib", "idle, MiB resident", idle, IDLE_LIMIT));
            let stream = |memory: &Memory| memory.per_stream;
            rows.push(self.memory_row("stream_kib", "each open stream, KiB resident", stream, STREAM_LIMIT));
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
                ratio: median(self.ratios(case, figure)),
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
            let other = other.and_then(|other| median(self.ratios(other, |figures| figures.cpu)));
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

    fn memory_row(&self, name: &str, title: &str, figure: fn(&Memory) -> f64, limit: f64) -> Row {
        let median_for = |path| {
            let figures_of_path = self.memory.iter().filter(|(one, _)| *one == path);
            median(figures_of_path.map(|(_, memory)| figure(memory)).collect())
        };
        let (plain, gateway) = (median_for(Path::Plain), median_for(Path::Gateway));
        Row {
            name: name.to_owned(),
            title: title.to_owned(),
            direct: None,
            plain,
            gateway,
            ratio: plain.zip(gateway).map(|(plain, gateway)| gateway / plain),
            latency: false,
            limit: gateway.map(|gateway| (gateway, limit)),
        }
    }

    fn runs_of<'a>(&'a self, case: &'a Case, path: Path) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.case.name == case.name && run.path == path)
    }

    fn ratios(&self, case: &Case, figure: fn(&Figures) -> f64) -> Vec<f64> {
        let gateways = self.runs_of(case, Path::Gateway);
        let pairs = gateways.filter_map(|gateway| {
            let plain = self.runs_of(case, Path::Plain).find(|plain| plain.round == gateway.round)?;
            Some(figure(&gateway.figures) / figure(&plain.figures))
        });
        pairs.collect()
    }
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
