//! Where access lines are written: a file and its rotation, nowhere, a broken output, a blocked one.
//!
//! Not the content of a line (`observability`).

use crate::support::Gateway;
use crate::support::client::{chat, client, hello, new_trace, status};
use crate::support::settings::{KEY, STANDARD};
use crate::support::wait::until;
use serde_json::Value;
use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test]
async fn a_file_is_reopened_on_usr1_and_no_line_is_lost() {
    let yaml = format!("{STANDARD}access_log: {{output: file, path: access.log}}\n");
    let gateway = Arc::new(Gateway::start(&yaml));
    let sent = Arc::new(AtomicUsize::new(0));
    let client_task = {
        let gateway = Arc::clone(&gateway);
        let sent = Arc::clone(&sent);
        tokio::spawn(async move {
            let client = client();
            for _ in 0..400 {
                let url = format!("{}/models", gateway.base_url());
                let call = client
                    .get(url)
                    .header("x-gateway-api-key", KEY)
                    .header("x-gateway-provider", "@emulator");
                assert_eq!(call.send().await.unwrap().status(), 200);
                sent.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let file = gateway.folder().join("access.log");
    for number in 1..=3 {
        until("the next requests", async || (sent.load(Ordering::Relaxed) >= number * 90).then_some(()))
            .await;
        std::fs::rename(&file, gateway.folder().join(format!("access.{number}"))).unwrap();
        gateway.signal("USR1");
        until("the new file", async || file.exists().then_some(())).await;
    }
    client_task.await.unwrap();
    let names = ["access.1", "access.2", "access.3", "access.log"];
    until("400 lines", async || {
        let read = |name: &&str| std::fs::read_to_string(gateway.folder().join(name)).unwrap();
        let text: String = names.iter().map(read).collect();
        (text.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count() == 400).then_some(())
    })
    .await;
    assert!(std::fs::metadata(&file).unwrap().len() > 0, "the last file has no lines");
    assert_eq!(gateway.metric("turnpike_access_lines_dropped_total").await, Some(0.0));
}

#[tokio::test]
async fn the_line_can_be_turned_off() {
    let gateway = Gateway::start(&format!("{STANDARD}access_log: {{output: 'off'}}\n"));
    assert_eq!(status(chat(&gateway, &new_trace(), &hello(false))).await, 200);
    gateway.terminate();
    assert!(gateway.ended().await.success());
    assert_eq!(gateway.stdout.lines_with("").len(), 0, "{}", gateway.log());
}

#[tokio::test]
async fn a_lost_output_is_reported_and_counted() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let gateway = Gateway::start_with(STANDARD, &|command| {
        command.stdout(Stdio::from(writer.try_clone().unwrap()));
    });
    for _ in 0..3 {
        assert_eq!(status(chat(&gateway, &new_trace(), &hello(false))).await, 200);
    }
    until("three lost lines", async || {
        (gateway.metric("turnpike_access_lines_dropped_total").await == Some(3.0)).then_some(())
    })
    .await;
    // Written after they are counted.
    let reports = || gateway.stderr.lines_with("access lines cannot be written");
    until("the report", async || reports().first().cloned()).await;
    // A reload with another output restores logging.
    gateway.reload(&format!("{STANDARD}access_log: {{output: file, path: access.log}}\n"));
    until("the reload", async || gateway.stderr.lines_with("settings reloaded").first().cloned()).await;
    assert_eq!(reports().len(), 1, "reported more than once");
    assert_eq!(status(chat(&gateway, &new_trace(), &hello(false))).await, 200);
    let file = gateway.folder().join("access.log");
    until("a line in the file", async || {
        std::fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n'))
    })
    .await;
}

#[tokio::test]
async fn an_output_that_hangs_holds_up_neither_requests_nor_the_end() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let gateway = Gateway::start_with(STANDARD, &|command| {
        command.stdout(Stdio::from(writer.try_clone().unwrap()));
    });
    drop(writer);
    // Lines of over 4 KiB: 8 MiB of them are buffered, the rest is dropped.
    let members: serde_json::Map<_, _> = (0..8).map(|n| (n.to_string(), "x".repeat(500).into())).collect();
    let metadata = serde_json::Value::Object(members).to_string();
    let clients = (0..8).map(|_| async {
        let client = client();
        for _ in 0..300 {
            let call = client.get(format!("{}/nothing", gateway.base_url())).header("x-gateway-api-key", KEY);
            let call = call.header("x-gateway-provider", "@emulator").header("x-gateway-metadata", &metadata);
            assert_eq!(status(call).await, 200);
        }
    });
    futures_util::future::join_all(clients).await;
    until("lines to be dropped", async || {
        (gateway.metric("turnpike_access_lines_dropped_total").await > Some(0.0)).then_some(())
    })
    .await;
    // A blocked output delays neither a reload nor the shutdown.
    gateway.reload(&format!("{STANDARD}# again\n"));
    until("the reload", async || gateway.stderr.lines_with("settings reloaded").first().cloned()).await;
    gateway.terminate();
    assert!(gateway.ended().await.success());
    let mut written = Vec::new();
    reader.read_to_end(&mut written).unwrap();
    assert!(written.starts_with(b"{\"ts\""), "nothing was written to the pipe");
}

#[tokio::test]
async fn a_stderr_that_is_not_read_stops_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    let yaml = format!("{STANDARD}limits: {{max_header_bytes: 1024}}\n");
    let gateway = Gateway::start_with(&yaml, &|command| {
        command.stderr(Stdio::from(writer.try_clone().unwrap()));
    });
    // Each refusal is a line of some hundred bytes; a pipe holds 64 KiB.
    let request = format!("GET /v1/models HTTP/1.1\r\nhost: a\r\nx-long: {}\r\n\r\n", "x".repeat(2000));
    for _ in 0..1500 {
        let response = crate::support::raw::send(gateway.ports.data, request.as_bytes()).await;
        assert!(response.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&response));
    }
    assert_eq!(status(chat(&gateway, &new_trace(), &hello(false))).await, 200);
    assert_eq!(gateway.metric("turnpike_log_lines_dropped_total").await, Some(0.0));
    gateway.terminate();
    assert!(gateway.ended().await.success(), "the exit does not wait for stderr");
    drop(reader);
}
