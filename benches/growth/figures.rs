//! What is measured of the two gateways, each figure with its aim; and the table of them.
//!
//! Not here: how their states are made.

use super::objects::Samples;
use super::process::{Gateway, SERVICE_KEY};
use super::rows::DAYS;
use super::sizes::Sizes;
use super::{Failure, ms, progress};
use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::blocking::Client;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rounds of calls, of which the median counts.
const ROUNDS: usize = 7;
/// Changes of each kind, of which the slowest counts.
const CHANGES: usize = 10;
/// Questions of each kind, of which the slowest counts: the first finds nothing in memory.
const QUESTIONS: usize = 3;
/// When the gateway deletes what has expired, after its start.
const DELETION: Duration = Duration::from_secs(60);
const DELETION_TIMEOUT: Duration = Duration::from_secs(900);
/// Bytes of a MiB in the KiB that the system counts in.
const KIB: f64 = 1024.0;

/// The two gateways.
pub(crate) struct Subjects {
    empty: Gateway,
    full: Gateway,
    samples: Samples,
    client: Client,
    calls: usize,
}

impl Subjects {
    pub(crate) fn new(
        directory: &Path,
        empty: Gateway,
        full: Gateway,
        calls: usize,
    ) -> Result<Self, Failure> {
        let client = Client::builder().timeout(Duration::from_secs(60)).build()?;
        Ok(Self { empty, full, samples: Samples::read(directory)?, client, calls })
    }

    /// A chat of the sample's key through its config. Each sample after the first has another key and config.
    fn call(&self, gateway: &Gateway, sample: usize) -> Result<Duration, Failure> {
        let of = |list: &[String], at: usize| list.get(at).cloned().unwrap_or_default();
        let key = of(&self.samples.keys, sample);
        let configs = self.samples.configs.len();
        let config = if sample == 0 { 0 } else { 1 + sample % (configs - 1).max(1) };
        self.chat(gateway, &key, &of(&self.samples.configs, config))
    }

    fn chat(&self, gateway: &Gateway, key: &str, config: &str) -> Result<Duration, Failure> {
        let body = r#"{"model":"gpt-4o-mini","messages":[{"role":"user","content":"Hello"}]}"#;
        let call = self.client.post(format!("http://{}/v1/chat/completions", gateway.address));
        let call = call.header("x-gateway-api-key", key).header("x-gateway-config", config);
        let call = call.header("x-gateway-metadata", r#"{"_user":"user-1","team":"team-1"}"#);
        let began = Instant::now();
        let response = call.header("content-type", "application/json").body(body).send()?;
        let status = response.status();
        let text = response.text()?;
        let spent = began.elapsed();
        if status.is_success() { Ok(spent) } else { Err(format!("a chat: {status} {text}").into()) }
    }

    /// A call of the control API of the gateway that has grown.
    fn control(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(Duration, Value), Failure> {
        let url = format!("http://{}{path}", self.full.control);
        let call = self.client.request(method.parse()?, url).header("x-gateway-api-key", SERVICE_KEY);
        let began = Instant::now();
        let response = match body {
            Some(body) => call.json(body).send()?,
            None => call.send()?,
        };
        let status = response.status();
        let text = response.text()?;
        let spent = began.elapsed();
        if !status.is_success() {
            return Err(format!("{method} {path}: {status} {text}").into());
        }
        Ok((spent, serde_json::from_str(&text).unwrap_or_default()))
    }
}

/// One line of the table.
struct Figure {
    what: String,
    /// At most. `None`: there is none.
    aim: Option<f64>,
    figure: f64,
    unit: &'static str,
}

/// All lines.
pub(crate) struct Figures {
    sizes: Sizes,
    lines: Vec<Figure>,
}

impl Figures {
    pub(crate) fn new(sizes: Sizes) -> Self {
        Self { sizes, lines: Vec::new() }
    }

    fn add(&mut self, what: impl Into<String>, aim: Option<f64>, figure: f64, unit: &'static str) {
        let what = what.into();
        progress(&format!("  {what}: {figure:.2} {unit}"));
        self.lines.push(Figure { what, aim, figure, unit });
    }

    pub(crate) fn start(&mut self, of: &Subjects, started: Duration) -> Result<(), Failure> {
        self.add("start, until it accepts connections", Some(3_000.0), ms(started), "ms");
        let first = of.call(&of.full, 0)?;
        self.add("the first call", None, ms(first), "ms");
        self.add("resident then", Some(300.0), of.full.process.resident()? / KIB, "MiB");
        self.add("the most resident until then", None, of.full.process.peak()? / KIB, "MiB");
        Ok(())
    }

    /// CPU time of calls, by turns with the gateway whose store is empty.
    pub(crate) fn calls(&mut self, of: &Subjects) -> Result<(), Failure> {
        progress("calls");
        let mut same = Vec::new();
        let mut many = Vec::new();
        let mut waits = Vec::new();
        for round in 0..=ROUNDS {
            let mut cpu = |gateway: &Gateway, samples: usize| -> Result<f64, Failure> {
                let before = gateway.process.cpu()?;
                for number in 0..of.calls {
                    let spent = of.call(gateway, number % samples)?;
                    if round > 0 && samples > 1 {
                        waits.push(spent);
                    }
                }
                Ok((gateway.process.cpu()? - before).as_secs_f64())
            };
            let alone = cpu(&of.empty, 1)?;
            let grown = cpu(&of.full, 1)?;
            let others = cpu(&of.full, of.samples.keys.len())?;
            // The first round warms up.
            if round > 0 {
                same.push(grown / alone);
                many.push(others / alone);
            }
        }
        waits.sort_unstable();
        let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or_default();
        self.add("a call of the same key and config: CPU of an empty store's", Some(1.05), median(same), "×");
        let keys = of.samples.keys.len();
        self.add(
            format!("calls of {keys} keys and configs by turns: CPU of one key's with an empty store"),
            None,
            median(many),
            "×",
        );
        self.add("their p99", None, ms(p99), "ms");
        Ok(())
    }

    /// From sending a change to the end of the first call for which it counts.
    pub(crate) fn changes(&mut self, of: &Subjects) -> Result<(), Failure> {
        progress("changes");
        let key = of.samples.keys.get(1).cloned().unwrap_or_default();
        let id = of.samples.key_ids.get(1).copied().unwrap_or_default();
        let limits = |number: usize| {
            json!({
                "name": format!("changed-{number}"),
                "scopes": ["completions.write"],
                "rate_limits": [{"type": "requests", "unit": "rpm", "value": 1_000_000_000 - number}],
                "usage_limits": [{"type": "cost", "credit_limit": 1_000_000 + number, "periodic_reset": "monthly"}],
            })
        };
        self.change("a key with two limits is made", |number| {
            let (_, made) = of.control("POST", "/v1/api-keys/workspace/service", Some(&limits(number)))?;
            let key = made.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
            of.chat(&of.full, &key, "c-1")
        })?;
        self.change("a key's limits change", |number| {
            of.control("PUT", &format!("/v1/api-keys/{id}"), Some(&limits(number)))?;
            of.chat(&of.full, &key, "c-1")
        })?;
        self.change("a config changes", |number| {
            let target = json!({"provider": "@p-1", "override_params": {"seed": number}});
            let body = json!({"config": {"strategy": {"mode": "fallback"}, "targets": [target, {"provider": "@p-1"}]}});
            of.control("PUT", "/v1/configs/c-1", Some(&body))?;
            of.chat(&of.full, &key, "c-1")
        })?;
        self.change("a provider changes", |number| {
            let body = json!({"name": format!("p {number}"), "key": format!("sk-{number:032}")});
            of.control("PUT", "/v1/virtual-keys/p-1", Some(&body))?;
            of.chat(&of.full, &key, "c-1")
        })
    }

    fn change(
        &mut self,
        what: &str,
        mut change: impl FnMut(usize) -> Result<Duration, Failure>,
    ) -> Result<(), Failure> {
        let mut slowest = Duration::ZERO;
        for number in 1..=CHANGES {
            let began = Instant::now();
            change(number)?;
            slowest = slowest.max(began.elapsed());
        }
        self.add(format!("{what}, and a call has it; slowest of {CHANGES}"), Some(100.0), ms(slowest), "ms");
        Ok(())
    }

    /// Pages of lists of objects.
    pub(crate) fn lists(&mut self, of: &Subjects) -> Result<(), Failure> {
        progress("lists");
        let config = of.samples.configs.last().cloned().unwrap_or_default();
        for (what, path) in [
            ("a page of 50 keys", "/v1/api-keys?page_size=50".to_owned()),
            ("a page of 50 configs", "/v1/configs?page_size=50".to_owned()),
            ("a page of 50 virtual keys", "/v1/virtual-keys?page_size=50".to_owned()),
            ("one config", format!("/v1/configs/{config}")),
        ] {
            self.question(of, what, None, &path)?;
        }
        Ok(())
    }

    fn question(&mut self, of: &Subjects, what: &str, aim: Option<f64>, path: &str) -> Result<(), Failure> {
        let mut slowest = Duration::ZERO;
        let mut answer = Value::Null;
        for _ in 0..QUESTIONS {
            let (spent, body) = of.control("GET", path, None)?;
            slowest = slowest.max(spent);
            answer = body;
        }
        let found = answer.get("total").map_or(String::new(), |total| format!(" ({total} found)"));
        self.add(format!("{what}{found}"), aim, ms(slowest), "ms");
        Ok(())
    }

    /// Groups over the last thirty days, of all workspaces together where that can be.
    pub(crate) fn groups(&mut self, of: &Subjects) -> Result<(), Failure> {
        progress("groups");
        let workspace = of.samples.workspaces.get(1).map(|(_, slug)| slug.clone()).unwrap_or_default();
        for by in ["workspace", "model", "provider", "api_key", "status_code"] {
            let path =
                format!("/v1/analytics/groups/{by}?columns=cost,total_tokens&workspace_slug={workspace}");
            let path = if by == "workspace" {
                "/v1/analytics/groups/workspace?columns=cost".to_owned()
            } else {
                path
            };
            self.question(of, &format!("groups by {by} over 30 days"), Some(200.0), &path)?;
        }
        let path = format!(
            "/v1/analytics/graphs/cost?workspace_slug={workspace}&time_of_generation_min={}&time_of_generation_max={}",
            days_ago(30)?,
            days_ago(0)?
        );
        self.question(of, "a graph of costs over 30 days", Some(200.0), &path)
    }

    /// Filtered pages of logs.
    pub(crate) fn pages(&mut self, of: &Subjects) -> Result<(), Failure> {
        progress("pages of logs");
        let (_, workspace) = of.samples.workspaces.get(1).cloned().unwrap_or_default();
        let rare_key = of.samples.key_ids.iter().rev().step_by(20).nth(1).copied().unwrap_or_default();
        let metadata = |text: &str| format!("metadata={}", percent(text));
        let filters = [
            ("no filter", String::new(), 100.0),
            ("of a key that is rare", format!("api_key_ids={rare_key}"), 100.0),
            ("of a model", "ai_model=gpt-7".to_owned(), 100.0),
            ("of a provider", "virtual_keys=p-3".to_owned(), 100.0),
            ("of a status", "status_code=429".to_owned(), 100.0),
            ("of a status that no request has", "status_code=418".to_owned(), 100.0),
            ("by metadata, one in 20", metadata(r#"{"team":"team-1"}"#), 100.0),
            ("by metadata, two pairs, one in 2,000", metadata(r#"{"team":"team-1","feature":"f-7"}"#), 100.0),
            ("by metadata, one request", metadata(r#"{"run":"run-1001"}"#), 1_000.0),
            ("by metadata, one in a million", metadata(r#"{"incident":"yes"}"#), 1_000.0),
            ("by metadata that no request has", metadata(r#"{"team":"nobody"}"#), 1_000.0),
        ];
        for (what, filter, aim) in filters {
            // The operator's own key sees one workspace at a time.
            let workspace = if what.contains("one request") {
                String::new()
            } else {
                format!("&workspace_slug={workspace}")
            };
            let path = format!("/v1/logs?page_size=50&{filter}{workspace}");
            self.question(of, &format!("a page of logs, {what}"), Some(aim), &path)?;
        }
        Ok(())
    }

    /// The longest waits of both planes while the rows of ten days are deleted, and without that.
    pub(crate) fn deletion(&mut self, of: &Subjects, began: Instant) -> Result<(), Failure> {
        progress("deletion");
        let output = of.full.access_log.with_file_name("gateway.out");
        let is_deleted = || std::fs::read_to_string(&output).is_ok_and(|log| log.contains("deleted by age"));
        let left = DELETION.saturating_sub(began.elapsed());
        let waits = if left > Duration::from_secs(10) {
            let end = Instant::now() + left - Duration::from_secs(3);
            Some(longest_waits(of, &|| Instant::now() > end)?)
        } else {
            None
        };
        let started = Instant::now();
        if is_deleted() {
            progress("the rows were deleted before this could look");
            return Ok(());
        }
        let during = longest_waits(of, &|| is_deleted() || started.elapsed() > DELETION_TIMEOUT)?;
        let days = DAYS - 90;
        for (place, (name, aim)) in
            [("call", 100.0), ("page of keys", 100.0), ("page of logs", 500.0)].into_iter().enumerate()
        {
            let of = |waits: &[Duration; 3]| waits.get(place).copied().map(ms).unwrap_or_default();
            let before =
                waits.as_ref().map_or(String::new(), |waits| format!(" (before: {:.1} ms)", of(waits)));
            self.add(
                format!("longest {name} while {days} days of rows are deleted{before}"),
                Some(aim),
                of(&during),
                "ms",
            );
        }
        self.add("from there to the end of the deletion", None, ms(started.elapsed()), "ms");
        Ok(())
    }

    pub(crate) fn memory(&mut self, of: &Subjects) -> Result<(), Failure> {
        let process = &of.full.process;
        self.add(
            "resident at the end, without pages of files",
            Some(300.0),
            process.memory("RssAnon:")? / KIB,
            "MiB",
        );
        self.add(
            "resident at the end, with pages of the log store that the system may take back",
            None,
            process.resident()? / KIB,
            "MiB",
        );
        self.add("resident at the end, empty store", None, of.empty.process.resident()? / KIB, "MiB");
        Ok(())
    }

    /// `turnpike check` of a settings file with many keys.
    pub(crate) fn check(&mut self, gateway: &Path, directory: &Path, keys: usize) -> Result<(), Failure> {
        progress("check");
        let mut yaml =
            "listen: {data: [\"127.0.0.1:0\"], control: \"127.0.0.1:0\"}\nauth:\n  keys:\n".to_owned();
        for number in 0..keys {
            writeln!(
                yaml,
                "    - {{name: key-{number}, key: \"settings-key-{number:08}\", scopes: [completions.write], rate_limits: [{{type: requests, unit: rpm, value: 600}}]}}"
            )?;
        }
        let file = directory.join("check.yaml");
        std::fs::write(&file, yaml)?;
        let mut slowest = Duration::ZERO;
        for _ in 0..QUESTIONS {
            let began = Instant::now();
            let mut command = Command::new(gateway);
            let output = command.arg("check").arg("-c").arg(&file).stdin(Stdio::null()).output()?;
            slowest = slowest.max(began.elapsed());
            if !output.status.success() {
                return Err(format!("check: {}", String::from_utf8_lossy(&output.stderr)).into());
            }
        }
        self.add(
            format!("`turnpike check` of {keys} keys with a limit each"),
            Some(1_000.0),
            ms(slowest),
            "ms",
        );
        Ok(())
    }

    /// Day, commit and sizes.
    pub(crate) fn origin(&self) -> Result<String, Failure> {
        let git = |arguments: &[&str]| -> Result<String, Failure> {
            let output =
                Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output()?;
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let commit = git(&["rev-parse", "--short=7", "HEAD"])?;
        let dirty =
            if git(&["status", "--porcelain", "src", "benches"])?.is_empty() { "" } else { " with changes" };
        let day = Timestamp::now().strftime("%Y-%m-%d");
        let Sizes { keys, providers, configs, rows, .. } = &self.sizes;
        Ok(format!(
            "{day}, commit {commit}{dirty}; {keys} stored keys with two limits each, {providers} providers, {configs} configs, {rows} rows of {DAYS} days."
        ))
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("| | at most | measured |\n|---|---:|---:|\n");
        for Figure { what, aim, figure, unit } in &self.lines {
            let digits = if *figure < 10.0 { 2 } else { 0 };
            let aim_text = aim.map_or("–".to_owned(), |aim| format!("{aim} {unit}"));
            let verdict = if aim.is_some_and(|aim| *figure > aim) { " **broken**" } else { "" };
            text.push_str(&format!("| {what} | {aim_text} | {figure:.digits$} {unit}{verdict} |\n"));
        }
        text
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// The longest wait for a call, a page of keys and a page of logs, while all three are sent until `is_over`.
fn longest_waits(of: &Subjects, is_over: &(dyn Fn() -> bool + Sync)) -> Result<[Duration; 3], Failure> {
    let ended = AtomicBool::new(false);
    let longest =
        |pause: u64, call: &(dyn Fn() -> Result<Duration, Failure> + Sync)| -> Result<Duration, String> {
            let mut longest = Duration::ZERO;
            while !ended.load(Ordering::Relaxed) {
                longest = longest.max(call().map_err(|why| why.to_string())?);
                std::thread::sleep(Duration::from_millis(pause));
            }
            Ok(longest)
        };
    std::thread::scope(|scope| {
        let calls = scope.spawn(|| longest(10, &|| of.call(&of.full, 0)));
        let keys =
            scope.spawn(|| longest(50, &|| Ok(of.control("GET", "/v1/api-keys?page_size=1", None)?.0)));
        let logs = scope.spawn(|| longest(50, &|| Ok(of.control("GET", "/v1/logs?page_size=1", None)?.0)));
        while !is_over() {
            std::thread::sleep(Duration::from_millis(20));
        }
        ended.store(true, Ordering::Relaxed);
        let mut all = [Duration::ZERO; 3];
        for (place, thread) in all.iter_mut().zip([calls, keys, logs]) {
            *place = thread.join().map_err(|_| "a thread of the bench ended early")??;
        }
        Ok(all)
    })
}

fn days_ago(days: i64) -> Result<String, Failure> {
    let at = Timestamp::now().as_second() - days * 86_400;
    Ok(Timestamp::from_second(at)?.to_string())
}

/// As a value in a query.
fn percent(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
