//! A new process takes over from the running one (`turnpike upgrade`): no request fails, nothing that was counted or learned is lost,
//! and where the new one cannot serve, the old one serves on.

use crate::support::client::{chat, client, hello};
use crate::support::gateway::guardian;
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, gateway, sse};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Settings with a provider of its own process: one inside the gateway would be replaced, too.
fn settings() -> String {
    let provider = format!("http://127.0.0.1:{}/v1", gateway().ports.emulator);
    let yaml = STANDARD.replace("grace_period_seconds: 5", "grace_period_seconds: 5\n  drain_seconds: 60");
    yaml.replace("http://127.0.0.1:EMULATOR_PORT/v1", &provider)
}

fn start(yaml: &str, environment: &[(&str, &str)]) -> Gateway {
    Gateway::start_with(yaml, &|command| {
        command.env("RUNTIME_DIRECTORY", ".").envs(environment.iter().copied());
    })
}

/// Runs `turnpike upgrade` as the unit's user would.
async fn upgrade(gateway: &Gateway, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnpike"));
    command.arg("upgrade").args(arguments).current_dir(gateway.folder()).env("RUNTIME_DIRECTORY", ".");
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// A process that took over. Ends with the test.
struct Successor {
    id: u32,
    _guardian: Child,
}

impl Successor {
    fn of(output: &Output) -> Self {
        let text = String::from_utf8_lossy(&output.stdout);
        let id = text.strip_prefix("process ").and_then(|text| text.strip_suffix(" serves now\n"));
        let id = id.unwrap_or_else(|| panic!("{output:?}")).parse().unwrap();
        Self { id, _guardian: guardian(id) }
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.id.to_string()]).status();
    }
}

/// The sum of the series of a family that have these labels.
async fn counted(gateway: &Gateway, family: &str, label: &str) -> f64 {
    let page = client().get(format!("{}/metrics", gateway.control_url())).send().await.unwrap();
    let page = page.text().await.unwrap();
    let series = page.lines().filter(|line| line.starts_with(family) && line.contains(label));
    series.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

fn slow(tokens: u32, gap: u32) -> Value {
    let mut body = hello(true);
    body["model"] = json!(format!("gpt-4o-mini?tokens={tokens}&gap={gap}"));
    body
}

#[tokio::test]
async fn two_upgrades_fail_no_request_and_lose_no_count() {
    let old = Arc::new(start(&settings(), &[]));
    let stopping = Arc::new(AtomicBool::new(false));
    let completed = Arc::new(AtomicUsize::new(0));
    // Half of the clients keep their connections.
    let clients: Vec<_> = [true, false]
        .into_iter()
        .map(|keeps| {
            let old = Arc::clone(&old);
            let stopping = Arc::clone(&stopping);
            let completed = Arc::clone(&completed);
            tokio::spawn(async move {
                let kept = client();
                while !stopping.load(Ordering::Relaxed) {
                    let call = if keeps {
                        let url = format!("{}/chat/completions", old.base_url());
                        kept.post(url)
                            .bearer_auth(KEY)
                            .header("x-gateway-provider", "@emulator")
                            .json(&hello(false))
                    } else {
                        chat(&old, "upgrade", &hello(false))
                    };
                    let response = call.send().await.unwrap();
                    assert_eq!(response.status(), 200);
                    response.bytes().await.unwrap();
                    completed.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
        })
        .collect();
    let mut stream = chat(&old, "upgrade-stream", &slow(200, 30)).send().await.unwrap();
    stream.chunk().await.unwrap().unwrap();

    let first = Successor::of(&upgrade(&old, &[]).await);
    assert!(counted(&old, "turnpike_predecessor_requests_in_flight", "").await >= 1.0);
    let second = Successor::of(&upgrade(&old, &[]).await);
    assert!(first.id != second.id && first.id != old.id());
    assert!(sse::events(&stream.text().await.unwrap()).last().unwrap().data == "[DONE]");
    assert!(old.ended().await.success());
    let before = completed.load(Ordering::Relaxed);
    until("responses of the last process alone", async || {
        (completed.load(Ordering::Relaxed) > before + 10).then_some(())
    })
    .await;
    stopping.store(true, Ordering::Relaxed);
    for connection in clients {
        connection.await.unwrap();
    }
    // Those of three processes, the stream of the first among them.
    let all = completed.load(Ordering::Relaxed) + 1;
    until("every request in the metrics", async || {
        let requests = counted(&old, "turnpike_requests_total", "operation=\"chat\"").await;
        (requests.to_string() == all.to_string()).then_some(())
    })
    .await;
    assert_eq!(counted(&old, "turnpike_predecessor_requests_in_flight", "").await, 0.0);
}

#[tokio::test]
async fn a_process_that_cannot_serve_changes_nothing() {
    let gateway = start(&settings(), &[]);
    let serves = async || chat(&gateway, "serves", &hello(false)).send().await.unwrap().status() == 200;
    let file = gateway.folder().join("turnpike.yaml");
    let sound = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{sound}\ncolour: red\n")).unwrap();
    let output = upgrade(&gateway, &[]).await;
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && shown.contains("serves on"), "{output:?}");
    assert!(shown.contains("colour: unknown key"), "{shown}");
    assert!(serves().await);

    std::fs::write(&file, sound).unwrap();
    let broken = gateway.folder().join("broken");
    std::fs::write(&broken, "#!/bin/sh\nexit 7\n").unwrap();
    std::fs::set_permissions(&broken, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (program, message) in
        [(broken.to_str().unwrap(), "exit status: 7"), (file.to_str().unwrap(), "ermission denied")]
    {
        let output = upgrade(&gateway, &["--to", program]).await;
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && shown.contains(message), "{output:?}");
        assert!(serves().await);
    }
    // A port that another process has.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let sound = std::fs::read_to_string(&file).unwrap();
    let moved = sound.replace(&format!("127.0.0.1:{}", gateway.ports.data), &address);
    assert_ne!(moved, sound);
    std::fs::write(&file, moved).unwrap();
    let output = upgrade(&gateway, &[]).await;
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && shown.contains("cannot listen on"), "{output:?}");
    assert!(serves().await);
    std::fs::write(&file, sound).unwrap();
    let output = upgrade(&gateway, &["--to", "no-such-file"]).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("no-such-file: "), "{output:?}");
    // After all that it can be replaced still.
    let _successor = Successor::of(&upgrade(&gateway, &[]).await);
    assert!(gateway.ended().await.success() && serves().await);
}

#[tokio::test]
async fn an_open_breaker_stays_open_and_systemd_gets_the_new_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let gateway = start(&settings(), &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    let config = json!({
        "strategy": {"mode": "fallback"},
        "targets": [
            {"provider": "@emulator", "override_params": {"model": "gpt-4o-mini?status=503"}},
            {"provider": "@emulator"},
        ],
        "cb_config": {"failure_threshold": 1, "cooldown_interval": 600_000},
    });
    let attempts = async || {
        let call = chat(&gateway, "breaker", &hello(false)).header("x-gateway-config", config.to_string());
        let response = call.send().await.unwrap();
        assert_eq!(response.status(), 200);
        let attempts = response.headers()["x-gateway-attempts"].to_str().unwrap();
        // The last part of each is its milliseconds.
        attempts.split(',').map(|attempt| attempt.rsplit_once(':').unwrap().0.to_owned()).collect::<Vec<_>>()
    };
    let first = attempts().await;
    let while_open = attempts().await;
    assert!(first.len() == 2 && while_open.len() == 1, "{first:?} {while_open:?}");
    let successor = Successor::of(&upgrade(&gateway, &[]).await);
    assert_eq!(attempts().await, while_open);
    let named = format!("MAINPID={}", successor.id);
    let mut buffer = [0; 4096];
    let mut next = || {
        let length = systemd.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    while !next().starts_with(&named) {}
}

/// As `ExecReload=` does after the package has put another file in the binary's place.
#[tokio::test]
async fn a_reload_by_another_binary_is_an_upgrade() {
    let gateway = start(&settings(), &[]);
    let reload = async |program: &std::path::Path, pid: u32| {
        let mut command = Command::new(program);
        command.args(["reload", "--pid", &pid.to_string()]).current_dir(gateway.folder());
        command.env("RUNTIME_DIRECTORY", ".");
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    };
    let own = std::path::Path::new(env!("CARGO_BIN_EXE_turnpike"));
    let same = reload(own, gateway.id()).await;
    assert!(String::from_utf8_lossy(&same.stdout).starts_with("settings reloaded"), "{same:?}");
    let other = gateway.folder().join("other");
    std::fs::copy(own, &other).unwrap();
    let successor = Successor::of(&reload(&other, gateway.id()).await);
    assert!(gateway.ended().await.success() && successor.id != gateway.id());
}

#[tokio::test]
async fn nothing_takes_over_without_a_process_that_hands_over() {
    let gateway = gateway();
    let mut command = Command::new(env!("CARGO_BIN_EXE_turnpike"));
    command.args(["run", "--upgrade", "-c", "turnpike.yaml"]).current_dir(gateway.folder());
    command.stdin(std::process::Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && shown.contains("turnpike upgrade"), "{output:?}");
}
