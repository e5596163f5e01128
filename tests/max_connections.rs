//! `limits.max_connections`: excess connections get an error, and operators still get through.
//!
//! Not the limits within one connection.

use crate::support::client::client;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use crate::support::{Gateway, raw};
use std::time::Instant;

#[tokio::test]
async fn excess_connections_are_refused_and_operators_get_through() {
    let limited = Gateway::start(&format!("{STANDARD}limits: {{max_connections: 20}}\n"));
    let mut held = Vec::new();
    // The connection of the readiness check may still count.
    let refused = until("the twenty-first connection to be refused", async || {
        let mut connection = raw::Raw::connect(limited.ports.data).await;
        connection.write(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let response = String::from_utf8_lossy(&connection.read_some().await).into_owned();
        held.push(connection);
        (!response.starts_with("HTTP/1.1 200")).then_some(response)
    })
    .await;
    assert!(refused.starts_with("HTTP/1.1 503") && refused.contains("too_many_connections"), "{refused}");
    assert!((20..=21).contains(&held.len()), "{} connections", held.len());
    let ready = client().get(format!("{}/readyz", limited.control_url())).send().await.unwrap();
    assert_eq!(ready.status(), 200);
    drop(held);
    until("a connection to be accepted again", async || {
        let response = client().get(format!("{}/livez", limited.data_url())).send().await.ok()?;
        (response.status() == 200).then_some(())
    })
    .await;
    assert_eq!(
        limited
            .metric("turnpike_errors_total{code=\"too_many_connections\"}")
            .await
            .map(|count| count >= 1.0),
        Some(true)
    );
}

#[tokio::test]
async fn refused_connections_are_summed_up_in_the_log() {
    let limited = Gateway::start(&format!("{STANDARD}limits: {{max_connections: 1}}\n"));
    let mut held = raw::Raw::connect(limited.ports.data).await;
    held.write(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    held.read_some().await;
    let started = Instant::now();
    let mut refused = 0;
    for _ in 0..200 {
        let mut connection = raw::Raw::connect(limited.ports.data).await;
        refused += usize::from(connection.read_some().await.starts_with(b"HTTP/1.1 503"));
    }
    assert!(refused > 190, "{refused}");
    let lines = || limited.stderr.lines_with("refused a connection before its request: too_many_connections");
    let counted = |line: &String| -> Option<usize> {
        line.split_once(" more in the last second)")?.0.rsplit_once('(')?.1.parse().ok()
    };
    until("all refusals to be in the log", async || {
        let counted: usize = lines().iter().map(|line| counted(line).unwrap_or(1)).sum();
        (counted >= refused).then_some(())
    })
    .await;
    let seconds = started.elapsed().as_secs() as usize + 1;
    assert!(lines().len() <= 1 + seconds, "{} lines in {seconds} s: {:?}", lines().len(), lines());
}
