//! `turnpike run --demo`: full ten seconds after its start, on loopback, in a folder of its own that is gone afterwards; its pages in a
//! browser, and the tasks of a new operator there.

use crate::console::browser;
use crate::support::client::client;
use crate::support::packages::{self, ready};
use crate::support::process_output::ProcessOutput;
use crate::support::report;
use crate::support::wait::{until, until_blocking};
use parking_lot::Mutex;
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Held while a demo looks for free ports and takes them, so that no other test takes one in between.
static STARTING: Mutex<()> = Mutex::new(());

/// A demo that runs; it is killed when this is dropped.
struct Demo {
    process: Child,
    guardian: Child,
    began: Instant,
    stderr: ProcessOutput,
    /// Where the demo may make its folder, and what it must leave alone.
    temporary: tempfile::TempDir,
    state: tempfile::TempDir,
    console: String,
    key: String,
}

impl Drop for Demo {
    fn drop(&mut self) {
        for process in [&mut self.guardian, &mut self.process] {
            let _ended_already = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.stderr.tail("standard error"));
        }
    }
}

impl Demo {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(variables: &[(&str, &str)]) -> Self {
        let _starting = STARTING.lock();
        let [temporary, state] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnpike"));
        command.args(["run", "--demo"]).env("TMPDIR", temporary.path()).env("STATE_DIRECTORY", state.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .current_dir(temporary.path());
        command.envs(variables.iter().copied());
        let began = Instant::now();
        let mut process = command.spawn().unwrap();
        let stdout = ProcessOutput::follow(process.stdout.take().unwrap());
        let stderr = ProcessOutput::follow(process.stderr.take().unwrap());
        let guardian = crate::support::gateway::guardian(process.id());
        let last_word = |name: &str| {
            let line = until_blocking(|| stdout.lines_with(name).into_iter().next());
            let line = line.unwrap_or_else(|| panic!("{}", stderr.tail("standard error")));
            line.split_whitespace().last().unwrap().to_owned()
        };
        let (console, key) = (last_word("The console"), last_word("Its key"));
        Self { process, guardian, began, stderr, temporary, state, console, key }
    }

    fn control(&self) -> &str {
        self.console.strip_suffix("/console/").unwrap()
    }

    async fn read(&self, path: &str) -> Value {
        let call = client().get(format!("{}{path}", self.control())).header("x-gateway-api-key", &self.key);
        call.send().await.unwrap().json().await.unwrap()
    }

    /// Logs that a query finds.
    async fn logs(&self, query: &str) -> u64 {
        self.read(&format!("/v1/logs?page_size=1&{query}")).await["total"].as_u64().unwrap_or_default()
    }
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[tokio::test]
async fn it_is_full_in_ten_seconds_and_leaves_nothing() {
    let mut demo = Demo::start();
    let week = (jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 6)).to_string();
    until("a week of logs and live ones", async || {
        let old = demo.logs(&format!("time_of_generation_max={week}")).await;
        let denied = demo.logs("status_code=446").await;
        (old > 100 && demo.logs("").await > 3000 && denied > 10).then_some(())
    })
    .await;
    let took = demo.began.elapsed();
    // The binary of tests is not optimised, and others run beside it.
    assert!(took < Duration::from_secs(30), "{took:?}");
    report(&format!("the demo is full after {took:?}"));
    for (path, list, least) in [
        ("/v1/admin/workspaces", "data", 4),
        ("/v1/providers", "data", 9),
        ("/v1/configs", "data", 3),
        ("/v1/guardrails", "data", 3),
        ("/v1/prompts", "data", 3),
        ("/v1/policies/usage-limits", "data", 3),
        ("/v1/policies/rate-limits", "data", 3),
        ("/v1/api-keys", "data", 7),
    ] {
        let found = demo.read(path).await;
        assert!(found[list].as_array().is_some_and(|items| items.len() >= least), "{path}: {found}");
    }
    // What the cache has saved, as the graph has it by its last point.
    let range = format!("time_of_generation_min={week}&time_of_generation_max={}", jiff::Timestamp::now());
    let saved =
        demo.read(&format!("/v1/analytics/summary/cache?{range}")).await["summary"]["saved_cost"].as_f64();
    let graph = demo.read(&format!("/v1/analytics/graphs/cache/hit-rate?{range}")).await;
    let last = graph["data_points"].as_array().unwrap().last().unwrap();
    assert!(
        saved > Some(1.0) && saved == last["cumulative_simple_cache_savings"].as_f64(),
        "{saved:?}: {last}"
    );
    let now = jiff::Timestamp::now().to_string();
    until("live requests", async || {
        (demo.logs(&format!("time_of_generation_min={now}")).await > 0).then_some(())
    })
    .await;
    // A provider that nobody listens for opens its circuit.
    until("an open circuit", async || {
        let targets = demo.read("/v1/targets").await;
        let is_open = |target: &&Value| matches!(target["state"].as_str(), Some("open" | "half_open"));
        targets["targets"].as_array()?.iter().find(is_open).map(|_| ())
    })
    .await;
    assert_eq!((entries(demo.temporary.path()), entries(demo.state.path())), (1, 0));
    let stopped =
        Command::new("sh").args(["-c", &format!("kill -TERM {}", demo.process.id())]).status().unwrap();
    assert!(stopped.success());
    let ended = until_blocking(|| demo.process.try_wait().unwrap());
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    assert_eq!((entries(demo.temporary.path()), entries(demo.state.path())), (0, 0));
}

#[tokio::test]
async fn it_has_settings_of_its_own() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_turnpike")).args(["run", "--demo", "-c", "x.yaml"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // A port of the shipped settings that is taken, by this test or by another process: the demo has three that are free.
    let starting = STARTING.lock();
    let _taken = TcpListener::bind("127.0.0.1:8788");
    drop(starting);
    let demo = Demo::start();
    let port = demo.control().strip_prefix("http://127.0.0.1:").unwrap();
    assert!(port.parse::<u16>().is_ok_and(|port| port != 8788), "{}", demo.console);
}

/// What it sends to itself, with the administrator's key, no proxy gets.
#[tokio::test]
async fn it_calls_itself_past_a_proxy_and_is_not_handed_over() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let names = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    let mut demo = Demo::start_with(&names.map(|name| (name, address.as_str())));
    until("its objects", async || {
        let keys = demo.read("/v1/api-keys").await;
        keys["data"].as_array().is_some_and(|keys| keys.len() >= 7).then_some(())
    })
    .await;
    assert!(proxy.accept().is_err(), "something was sent to the proxy");
    // Its folder is this process's.
    let signal = |name: &str| {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", demo.process.id())]).status();
        assert!(sent.unwrap().success());
    };
    signal("QUIT");
    let refused = until_blocking(|| demo.stderr.lines_with("not handed over").into_iter().next());
    assert!(refused.is_some_and(|line| line.contains("a demo ends with its process")));
    assert_eq!(entries(demo.temporary.path()), 1);
    signal("TERM");
    let ended = until_blocking(|| demo.process.try_wait().unwrap());
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    assert_eq!(entries(demo.temporary.path()), 0);
}

#[tokio::test]
async fn its_pages_are_whole_and_a_new_operator_finds_the_way() {
    let Some(console) = packages::console() else { return };
    let Some(browser) = ready("the demo in a browser", browser()) else { return };
    let demo = Demo::start();
    until("a week of logs", async || (demo.logs("").await > 3000).then_some(())).await;
    let mut smoke = Command::new("node");
    smoke.arg("smoke/demo.mjs").current_dir(&console).env("CHROMIUM", browser);
    smoke.env("CONSOLE_URL", demo.control()).env("CONSOLE_KEY", &demo.key);
    let output = tokio::task::spawn_blocking(move || smoke.output()).await.unwrap().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    report(&printed);
    assert!(output.status.success(), "{printed}");
}
