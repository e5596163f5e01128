//! `limits.max_connections`: excess connections get an error, and operators still get through.
//!
//! Not the limits within one connection.

use crate::support::client::client;
use crate::support::settings::STANDARD;
use crate::support::wait::until;
use crate::support::{Gateway, raw};

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
