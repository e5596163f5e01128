//! The real binary, started for a test: its ports, its log, its signals, its exit.
//!
//! Not a fake and not in-process: settings file, command line, signals and output are those of an operator. A
//! gateway is killed when its guard is dropped; if the test process crashes, a guardian process kills it.

use super::client::client;
use super::ports::Ports;
use super::process_output::ProcessOutput;
use super::settings::{LISTEN, OPERATOR, OPERATOR_KEY};
use super::stores;
use super::wait::{until, until_blocking};
use parking_lot::Mutex;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How often a start is retried: another process may take a free port before the gateway binds it.
const STARTS: usize = 3;

/// A running gateway.
pub(crate) struct Gateway {
    pub(crate) ports: Ports,
    /// Access lines.
    pub(crate) stdout: ProcessOutput,
    /// The process's own log.
    pub(crate) stderr: ProcessOutput,
    id: u32,
    process: Mutex<Child>,
    guardian: Mutex<Child>,
    folder: Arc<tempfile::TempDir>,
}

impl Gateway {
    /// Starts `turnpike run` with these settings and waits until it is ready. `DATA_PORT`, `CONTROL_PORT` and
    /// `EMULATOR_PORT` are replaced with its ports; settings without `listen:` get the standard listeners.
    pub(crate) fn start(yaml: &str) -> Self {
        Self::start_with(yaml, &|_| {})
    }

    /// Like `start`, but `prepare` may change the environment and the pipes. Only outputs that are still
    /// pipes are collected.
    pub(crate) fn start_with(yaml: &str, prepare: &dyn Fn(&mut Command)) -> Self {
        let mut last_log = String::new();
        for _ in 0..STARTS {
            match Self::try_start(yaml, prepare) {
                Ok(gateway) => return gateway,
                Err(log) if log.to_lowercase().contains("in use") => last_log = log,
                Err(log) => panic!("the gateway did not become ready\n{log}"),
            }
        }
        panic!("the gateway found its ports taken {STARTS} times\n{last_log}");
    }

    fn try_start(yaml: &str, prepare: &dyn Fn(&mut Command)) -> Result<Self, String> {
        let ports = Ports::free();
        let folder = Arc::new(tempfile::tempdir().unwrap());
        write_settings(&folder.path().join("turnpike.yaml"), yaml, ports);
        let gateway = Self::launch(ports, folder, prepare);
        let ready = until_blocking(|| match gateway.exited() {
            Some(status) => Some(Err(format!("it ended with {status}"))),
            None => (status_of(ports.control, "/readyz") == Some(200)).then_some(Ok(())),
        });
        match ready {
            Some(Ok(())) => Ok(gateway),
            Some(Err(end)) => Err(format!("{end}\n{}", gateway.log())),
            None => Err(format!("/readyz never returned 200\n{}", gateway.log())),
        }
    }

    fn launch(ports: Ports, folder: Arc<tempfile::TempDir>, prepare: &dyn Fn(&mut Command)) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_turnpike"));
        command.args(["run", "-c", "turnpike.yaml"]).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        prepare(&mut command);
        let mut process = command.spawn().unwrap();
        Self {
            ports,
            stdout: process.stdout.take().map(ProcessOutput::follow).unwrap_or_default(),
            stderr: process.stderr.take().map(ProcessOutput::follow).unwrap_or_default(),
            id: process.id(),
            guardian: Mutex::new(guardian(process.id())),
            process: Mutex::new(process),
            folder,
        }
    }

    /// Kills the process, and starts another one with the same settings, folder and ports.
    pub(crate) fn killed_and_started_again(self) -> Self {
        self.signal("KILL");
        let ended = until_blocking(|| self.exited());
        assert!(ended.is_some(), "it was killed");
        let next = Self::launch(self.ports, Arc::clone(&self.folder), &|_| {});
        let ready = until_blocking(|| (status_of(next.ports.control, "/readyz") == Some(200)).then_some(()));
        assert!(ready.is_some(), "{}", next.log());
        next
    }

    /// The process's id.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Calls a route of the control port with the operator's key.
    pub(crate) fn control(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.control_url());
        client().request(method, url).header("x-gateway-api-key", OPERATOR_KEY)
    }

    /// What a GET of the control port responds with.
    pub(crate) async fn read(&self, path: &str) -> Value {
        reply(path, self.control(reqwest::Method::GET, path)).await
    }

    /// Creates an object by a POST to the control port; the response to it.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Value {
        reply(path, self.control(reqwest::Method::POST, path).json(object)).await
    }

    /// `http://127.0.0.1:PORT` of the data listener; `base_url` adds `/v1`.
    pub(crate) fn data_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.data)
    }

    /// The base URL for client libraries.
    pub(crate) fn base_url(&self) -> String {
        format!("{}/v1", self.data_url())
    }

    pub(crate) fn control_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.control)
    }

    pub(crate) fn emulator_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.emulator)
    }

    /// The folder the process runs in; it contains its settings, `turnpike.yaml`.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// The access line of the request with this trace id. It is written after the response, so this waits for
    /// it.
    pub(crate) async fn access_line(&self, trace_id: &str) -> Value {
        // Match the whole member: one id may be the prefix of another.
        let member = format!("\"trace_id\":{}", Value::from(trace_id));
        let find = async || self.stdout.lines_with(&member).first().cloned();
        let line = until(&format!("the access line of {trace_id}"), find).await;
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"))
    }

    /// The text of `/metrics`.
    pub(crate) async fn metrics(&self) -> String {
        let url = format!("{}/metrics", self.control_url());
        client().get(url).send().await.unwrap().text().await.unwrap()
    }

    /// The value of the first metric line that starts with `series` (name, or name and labels as printed).
    pub(crate) async fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics().await;
        let line = text.lines().find(|line| line.starts_with(series))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Waits until no request is in flight: all are settled with their limits and recorded. A client has its response a little before.
    pub(crate) async fn idle(&self) {
        until("no request in flight", async || {
            (self.metric("turnpike_requests_in_flight").await == Some(0.0)).then_some(())
        })
        .await;
    }

    /// What the emulator received with this tag, oldest first, once every such request has ended.
    pub(crate) async fn emulator_requests(&self, tag: &str) -> Vec<Value> {
        let url = format!("{}/_emulator/requests?tag={tag}&wait=10000", self.emulator_url());
        client().get(url).send().await.unwrap().json().await.unwrap()
    }

    /// Overwrites its settings and sends SIGHUP. It does not wait for the reload.
    pub(crate) fn reload(&self, yaml: &str) {
        self.write_settings(yaml);
        self.signal("HUP");
    }

    /// Overwrites its settings, which it does not notice by itself.
    pub(crate) fn write_settings(&self, yaml: &str) {
        write_settings(&self.folder().join("turnpike.yaml"), yaml, self.ports);
    }

    /// Stops it as systemd does, with SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal by its short name (`HUP`, `TERM`, `USR1`).
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.id)]).status().unwrap();
        assert!(sent.success(), "kill -{name} {}", self.id);
    }

    /// Waits for the process to exit.
    pub(crate) async fn ended(&self) -> ExitStatus {
        until("the gateway's end", async || self.exited()).await
    }

    /// Current and peak memory of the process, in KiB.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id)).unwrap();
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
        };
        (kib("VmRSS:"), kib("VmHWM:"))
    }

    /// The number of files and sockets the process has open.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id)).unwrap().count()
    }

    /// The exit status, if it has exited.
    pub(crate) fn exited(&self) -> Option<ExitStatus> {
        self.process.lock().try_wait().unwrap()
    }

    /// The last lines of its output.
    pub(crate) fn log(&self) -> String {
        self.stdout.tail("stdout") + &self.stderr.tail("stderr")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Stop the guardian first: it must not outlive the process whose id it holds.
        for process in [&self.guardian, &self.process] {
            let mut process = process.lock();
            let _ended_already = process.kill();
            let _ = process.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

fn write_settings(file: &std::path::Path, yaml: &str, ports: Ports) {
    let listens = yaml.lines().any(|line| line.starts_with("listen:"));
    let authenticates = yaml.lines().any(|line| line.starts_with("auth:"));
    let listen = if listens { "" } else { LISTEN };
    let operator = if authenticates { "" } else { OPERATOR };
    let before = std::fs::read_to_string(file).ok();
    let has_store = yaml.lines().any(|line| line.starts_with("store:"));
    let store = if has_store { String::new() } else { stores::of_gateway(before.as_deref()) };
    let text = format!("{listen}{operator}{yaml}\n{store}");
    std::fs::write(file, ports.fill(&text)).unwrap();
}

/// The body of a successful response of the control port.
async fn reply(path: &str, call: reqwest::RequestBuilder) -> Value {
    let response = call.send().await.unwrap();
    let status = response.status();
    let body = response.text().await.unwrap();
    assert!(status.is_success(), "{path}: {status} {body}");
    serde_json::from_str(&body).unwrap()
}

/// A shell that kills the gateway when our end of its pipe closes. That happens even when this process is
/// killed, and the shared gateway is never dropped.
pub(crate) fn guardian(id: u32) -> Child {
    let script = format!("read -r _; kill -KILL {id} 2>/dev/null");
    let discarded = || Stdio::null();
    Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(discarded())
        .stderr(discarded())
        .spawn()
        .unwrap()
}

/// The status of a GET request, if there is a response at all.
fn status_of(port: u16, path: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
}
