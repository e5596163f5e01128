//! A real Prometheus that scrapes a gateway, and its promtool.
//!
//! Killed when its guard is dropped, or by its guardian.

use super::client::client;
use super::gateway::guardian;
use super::ports::free;
use super::report;
use super::wait::until;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A running Prometheus, with a scrape and an evaluation of its rules every second.
pub(crate) struct Prometheus {
    port: u16,
    process: Child,
    guardian: Child,
    folder: tempfile::TempDir,
}

impl Prometheus {
    /// Scrapes the control port of a gateway as the job `turnpike`. `None` where Prometheus is not installed; CI has it.
    pub(crate) async fn start(control: u16, rules: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let port = free();
        let settings = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{
                "job_name": "turnpike",
                "static_configs": [{"targets": [format!("127.0.0.1:{control}")]}],
            }],
        });
        std::fs::write(folder.path().join("prometheus.yml"), settings.to_string()).unwrap();
        std::fs::write(folder.path().join("rules.yml"), rules).unwrap();
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let spawned = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"])
            .args(["--enable-feature=exemplar-storage", &format!("--web.listen-address=127.0.0.1:{port}")])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let Ok(process) = spawned else {
            skip("no prometheus");
            return None;
        };
        let running = Self { port, guardian: guardian(process.id()), process, folder };
        let ready = format!("http://127.0.0.1:{port}/-/ready");
        let client = client();
        until("Prometheus to be ready", async || {
            client.get(&ready).send().await.ok().filter(|response| response.status() == 200).map(|_| ())
        })
        .await;
        Some(running)
    }

    /// A call of its HTTP API: the member `data` of the response.
    pub(crate) async fn api(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let url =
            url::Url::parse_with_params(&format!("http://127.0.0.1:{}/api/v1/{path}", self.port), query);
        let response = client().get(url.unwrap()).send().await.unwrap();
        let mut body: Value = response.json().await.unwrap();
        assert_eq!(body["status"], "success", "{query:?}: {body}\n{}", self.log());
        body["data"].take()
    }

    /// The result of an expression now: its series.
    pub(crate) async fn query(&self, expression: &str) -> Vec<Value> {
        let mut data = self.api("query", &[("query", expression)]).await;
        match data["result"].take() {
            Value::Array(series) => series,
            other => panic!("{expression}: {other}"),
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        for process in [&mut self.guardian, &mut self.process] {
            let _ended_already = process.kill();
            let _ = process.wait();
        }
    }
}

/// Runs promtool in a folder; `None` where it is not installed.
pub(crate) fn promtool(folder: &Path, arguments: &[&str]) -> Option<Output> {
    let output = Command::new("promtool").args(arguments).current_dir(folder).stdin(Stdio::null()).output();
    if output.is_err() {
        skip("no promtool");
    }
    output.ok()
}

fn skip(why: &str) {
    assert!(
        std::env::var_os("CI").is_none_or(|value| value.is_empty()),
        "CI installs Prometheus (.ci/run): {why}"
    );
    report(&format!("*** SKIPPED: boards and alerts were NOT tested with Prometheus: {why}"));
}
