//! The settings file as operators use it: `turnpike check`, secrets from outside, and reloads of a running
//! gateway.
//!
//! Not every rule of every key (unit tests in `settings`), nor the shipped file (`house`).

use crate::support::client::{chat, client, hello, new_trace};
use crate::support::command::{self, turnpike, turnpike_with};
use crate::support::settings::{KEY, OTHER_KEY, PROVIDER_KEY, STANDARD};
use crate::support::wait::until;
use crate::support::{Gateway, sse};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const LAST: &str = "turnpike_settings_last_reload_successful";

#[test]
fn check_reports_every_problem_with_line_and_column() {
    let bad = command::check(
        "server: {threads: none}
listen:
  data: [nowhere]
limits:
  max_body_bytes: 12
auth:
  keys: [{name: a, key: short}]
providers:
  'two words': {provider: openai}
  unheard: {provider: unheard-of}
configs:
  lost: {provider: '@lost', retry: {attempts: -1}}
default_config: nothing
access_log: {output: paper}
colour: red
",
    );
    assert_eq!((bad.code, bad.stdout.as_str()), (Some(1), ""), "{bad:?}");
    for (place, named) in [
        ("1:19", "server.threads"),
        ("3:10", "listen.data[0]"),
        ("5:19", "limits.max_body_bytes"),
        ("7:25", "auth.keys[0].key"),
        ("9:16", "providers.two words"),
        ("10:23", "providers.unheard.provider"),
        ("12:20", "configs.lost.provider"),
        ("12:47", "configs.lost.retry.attempts"),
        ("13:17", "default_config"),
        ("14:22", "access_log.output"),
        ("15:1", "colour"),
    ] {
        let line = format!("turnpike.yaml:{place}: {named}: ");
        assert_eq!(bad.stderr.matches(&line).count(), 1, "{line}\n{}", bad.stderr);
    }
    assert_eq!(bad.stderr.lines().count(), 12, "a heading and a line for each problem\n{}", bad.stderr);
}

#[test]
fn a_file_that_is_no_yaml_or_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("turnpike.yaml");
    let path = file.to_str().unwrap();
    let missing = turnpike(&["check", "-c", path]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(missing.stderr.contains(&format!("{path}: No such file")), "{missing:?}");
    for (content, expected) in [
        (&b"auth:\n\t- tab"[..], "turnpike.yaml:2:"),
        (b"server: {threads: 1\n", "turnpike.yaml:"),
        (b"auth: \xff\n", "turnpike.yaml: "),
        (b"server: {}\nserver: {}\n", "turnpike.yaml:2:1"),
        (b"- a list\n", "turnpike.yaml:1:1"),
    ] {
        std::fs::write(&file, content).unwrap();
        let bad = turnpike(&["check", "-c", path]);
        assert_eq!(bad.code, Some(1), "{bad:?}");
        assert!(bad.stderr.contains(expected), "{expected} is not in {}", bad.stderr);
    }
    let folder = turnpike(&["check", "-c", folder.path().to_str().unwrap()]);
    assert!(folder.code == Some(1) && folder.stderr.contains("directory"), "{folder:?}");
}

#[test]
fn secrets_are_read_from_outside_and_never_printed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("provider-key"), "canary-credential-1\n").unwrap();
    std::fs::write(
        path("good.yaml"),
        "
auth: {keys: [{name: a, key: '${SERVICE_KEY}'}]}
providers: {openai: {provider: openai, api_key: 'credential:provider-key'}}
",
    )
    .unwrap();
    // The same values in places where they are invalid: as a provider's name, an address, a number of
    // milliseconds.
    std::fs::write(
        path("bad.yaml"),
        "
listen: {control: '${SERVICE_KEY}'}
providers: {openai: {provider: 'credential:provider-key', custom_host: '${SERVICE_KEY}'}}
limits: {idle_timeout_ms: '${SERVICE_KEY}'}
access_log: {output: '${SERVICE_KEY}'}
default_config: 'credential:provider-key'
",
    )
    .unwrap();
    let environment =
        [("SERVICE_KEY", "canary-environment-1"), ("CREDENTIALS_DIRECTORY", folder.path().to_str().unwrap())];
    let good = turnpike_with(&["check", "-c", &path("good.yaml")], &environment);
    assert_eq!((good.code, good.stderr.as_str()), (Some(0), ""), "{good:?}");
    let bad = turnpike_with(&["check", "-c", &path("bad.yaml")], &environment);
    assert_eq!(bad.code, Some(1), "{bad:?}");
    assert_eq!(bad.stderr.lines().count(), 7, "{}", bad.stderr);
    for output in [good.stdout, bad.stdout, bad.stderr] {
        assert!(!output.contains("canary"), "a secret was printed: {output}");
    }
    let bare = turnpike_with(&["check", "-c", &path("good.yaml")], &[]);
    assert_eq!(bare.code, Some(1), "{bare:?}");
    for expected in
        ["auth.keys[0].key", "SERVICE_KEY", "providers.openai.api_key", "LoadCredential=provider-key:FILE"]
    {
        assert!(bare.stderr.contains(expected), "{expected} is not in {}", bare.stderr);
    }
}

#[tokio::test]
async fn a_reload_affects_new_requests_only() {
    let gateway = Gateway::start(STANDARD);
    let mut body = hello(true);
    body["model"] = json!("gpt-4o-mini?tokens=60&gap=25");
    let mut stream = chat(&gateway, &new_trace(), &body).send().await.unwrap();
    let first = stream.chunk().await.unwrap().unwrap();

    // Removes the client's key and the provider of the running stream, and adds others.
    let renewed = STANDARD
        .replace(KEY, "tp-renewed-0123456789")
        .replace("  emulator:\n    provider", "  second:\n    provider");
    let renewed = renewed.replace("provider: '@emulator'", "provider: '@second'");
    gateway.reload(&renewed);
    until("the new settings", async || {
        let response = chat(&gateway, &new_trace(), &hello(false)).send().await.unwrap();
        (response.status() == 401).then_some(())
    })
    .await;
    let call = |config: &str| {
        let call = client().post(format!("{}/chat/completions", gateway.base_url())).json(&hello(false));
        call.header("x-gateway-api-key", "tp-renewed-0123456789").header("x-gateway-config", config)
    };
    let response = call("cf-single").send().await.unwrap();
    assert_eq!(response.status(), 200, "a saved config that names the new provider");
    let response = call(r#"{"provider":"@emulator"}"#).send().await.unwrap();
    assert_eq!(response.status(), 400, "the old provider is still there: {}", response.text().await.unwrap());

    let mut text = String::from_utf8(first.to_vec()).unwrap();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    let events = sse::events(&text);
    assert_eq!(events.last().unwrap().data, "[DONE]", "the stream did not keep its settings");
    assert!(events.len() > 60, "{} events", events.len());
}

#[tokio::test]
async fn an_invalid_file_changes_nothing_and_is_reported() {
    let gateway = Gateway::start(STANDARD);
    let hash = async || {
        let text = gateway.metrics().await;
        let lines: Vec<&str> =
            text.lines().filter(|line| line.starts_with("turnpike_settings_info{")).collect();
        assert_eq!(lines.len(), 1, "not exactly one hash: {lines:?}");
        lines[0].to_owned()
    };
    let started = hash().await;
    gateway.reload(&format!("{STANDARD}limits: {{max_body_bytes: no}}\ncolour: red\n"));
    until("the refused reload", async || (gateway.metric(LAST).await == Some(0.0)).then_some(())).await;
    assert_eq!(hash().await, started);
    let log = until("the log of the refused reload", async || {
        let text = gateway.stderr.lines_with("settings not reloaded").join("\n");
        (!text.is_empty()).then_some(text)
    })
    .await;
    for named in ["turnpike.yaml:", "limits.max_body_bytes", "colour"] {
        assert!(log.contains(named), "{named} is not in {log}");
    }
    assert!(!log.contains(KEY) && !log.contains(PROVIDER_KEY), "{log}");

    // Valid YAML, but its access log cannot be opened: none of it may take effect.
    let unwritable = format!("{STANDARD}access_log: {{output: file, path: /no/such/folder/access.log}}\n");
    gateway.reload(&unwritable.replace(KEY, "tp-renewed-0123456789"));
    until("the second refused reload", async || {
        let refused = r#"turnpike_settings_reloads_total{result="failure"}"#;
        (gateway.metric(refused).await == Some(2.0)).then_some(())
    })
    .await;
    assert_eq!(hash().await, started);
    let response = chat(&gateway, &new_trace(), &hello(false)).send().await.unwrap();
    assert_eq!(response.status(), 200, "the old key is no longer valid");

    std::fs::remove_file(gateway.folder().join("turnpike.yaml")).unwrap();
    gateway.signal("HUP");
    until("the third refused reload", async || gateway.stderr.lines_with("No such file").first().cloned())
        .await;

    gateway.reload(&format!("{STANDARD}# mended\n"));
    until("the valid file", async || (gateway.metric(LAST).await == Some(1.0)).then_some(())).await;
    assert_ne!(hash().await, started);
}

/// What waits for a restart, as the process itself says it.
async fn waiting(gateway: &Gateway) -> Vec<String> {
    let url = format!("{}/readyz?verbose", gateway.control_url());
    let ready: serde_json::Value = client().get(url).send().await.unwrap().json().await.unwrap();
    serde_json::from_value(ready["waiting_for_restart"].clone()).unwrap()
}

#[tokio::test]
async fn settings_that_need_a_restart_are_reported_on_reload() {
    let gateway = Gateway::start(STANDARD);
    assert!(waiting(&gateway).await.is_empty());
    let changed = STANDARD.replace("threads: 2", "threads: 1")
        + "cache: {max_bytes: 2097152}\nprices: {refresh_hours: 5}\n";
    let keys = ["server.threads", "cache.max_bytes"];
    for count in 1..=2 {
        gateway.reload(&format!("{changed}# {count}\n"));
        until("the warning", async || {
            let lines = gateway
                .stderr
                .lines_with("changes of server.threads, cache.max_bytes take effect after a restart");
            (lines.len() == count).then_some(())
        })
        .await;
    }
    assert_eq!(waiting(&gateway).await, keys);
    gateway.reload(&STANDARD.replace("attempts: 1", "attempts: 2"));
    until("the reload without a warning", async || {
        (gateway.stderr.lines_with("settings reloaded").len() == 3).then_some(())
    })
    .await;
    assert_eq!(gateway.stderr.lines_with("take effect after a restart").len(), 2);
    assert!(waiting(&gateway).await.is_empty(), "it was undone");
}

#[tokio::test]
async fn the_log_changes_with_a_reload() {
    let gateway = Gateway::start(STANDARD);
    gateway.reload(&format!("{STANDARD}log: {{level: error, format: text}}\n"));
    until("the reload", async || {
        let url = format!("{}/metrics", gateway.control_url());
        let text = client().get(url).send().await.unwrap().text().await.unwrap();
        text.contains("turnpike_settings_reloads_total{result=\"success\"} 2").then_some(())
    })
    .await;
    assert!(gateway.stderr.lines_with("settings reloaded").is_empty(), "it is below the level of now");
    gateway.reload("colour: red\n");
    let line =
        until("the refused reload", async || gateway.stderr.lines_with("settings not reloaded").pop()).await;
    assert!(
        line.contains(" ERROR turnpike settings not reloaded") && !line.starts_with('{'),
        "as text: {line}"
    );
}

#[tokio::test]
async fn the_access_log_moves_with_a_reload() {
    let gateway = Gateway::start(STANDARD);
    let before = new_trace();
    let after = new_trace();
    assert_eq!(chat(&gateway, &before, &hello(false)).send().await.unwrap().status(), 200);
    gateway.access_line(&before).await;
    let file = gateway.folder().join("access.log");
    gateway.reload(&format!("{STANDARD}access_log: {{output: file, path: {}}}\n", file.display()));
    until("the reload", async || gateway.stderr.lines_with("settings reloaded").first().cloned()).await;
    assert_eq!(chat(&gateway, &after, &hello(false)).send().await.unwrap().status(), 200);
    let written = until("the line in the file", async || {
        std::fs::read_to_string(&file).ok().filter(|text| text.contains(&after))
    })
    .await;
    assert!(!written.contains(&before) && gateway.stdout.lines_with(&after).is_empty());
}

#[tokio::test]
async fn reloads_under_load_fail_no_request() {
    let gateway = Arc::new(Gateway::start(STANDARD));
    let stopping = Arc::new(AtomicBool::new(false));
    let completed = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..4)
        .map(|number| {
            let gateway = Arc::clone(&gateway);
            let stopping = Arc::clone(&stopping);
            let completed = Arc::clone(&completed);
            let client = client();
            tokio::spawn(async move {
                while !stopping.load(Ordering::Relaxed) {
                    let call = client.post(format!("{}/chat/completions", gateway.base_url()));
                    let call =
                        call.header("x-gateway-api-key", OTHER_KEY).header("x-gateway-config", "cf-emulator");
                    let response = call.json(&hello(number % 2 == 0)).send().await.unwrap();
                    assert_eq!(response.status(), 200);
                    assert!(!response.bytes().await.unwrap().is_empty());
                    completed.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for count in 1..=30 {
        let before = completed.load(Ordering::Relaxed);
        gateway.reload(&format!("{STANDARD}# {count}\n"));
        until("the reload, and responses after it", async || {
            let reloaded = gateway.stderr.lines_with("settings reloaded").len() >= count;
            (reloaded && completed.load(Ordering::Relaxed) > before).then_some(())
        })
        .await;
    }
    stopping.store(true, Ordering::Relaxed);
    for client_task in clients {
        client_task.await.unwrap();
    }
    assert!(completed.load(Ordering::Relaxed) >= 30);
    let failures = gateway.metrics().await;
    assert!(!failures.contains("\nturnpike_errors_total{"), "{failures}");
}
