//! A pooled connection that was closed is replaced without using a retry, whatever the method and request
//! kind.
//!
//! Not retries: those are configured, counted and reported.

use crate::support::client::new_trace;
use crate::support::conversation::{Dialect, REQUEST_KINDS, RequestKind, chat_request};
use crate::support::gateway;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Connection, Upstream};

const RESPONSE: &str = r#"{"id":"c-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}"#;

async fn post(gateway: &Gateway, upstream: &Upstream, kind: RequestKind) -> (u16, String, String) {
    let trace = new_trace();
    let call = chat_request(gateway, Dialect::OpenAi, kind, "").header("x-gateway-trace-id", &trace);
    let call = call.header("x-gateway-provider", "openai").header("authorization", "Bearer sk-1");
    let response = call.header("x-gateway-custom-host", upstream.url()).send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap(), trace)
}

/// Whether a client got the response: as it was sent, or as the stream it requested.
fn is_response(kind: RequestKind, text: &str) -> bool {
    match kind {
        RequestKind::Streamed => text.contains("Hello.") && text.ends_with("data: [DONE]\n\n"),
        _ => text == RESPONSE,
    }
}

/// Responds to `response_count` requests, then closes the connection without having announced it.
async fn closing_after(response_count: usize, connection: &mut Connection) {
    for _ in 0..response_count {
        if connection.request().await.is_none() {
            return;
        }
        connection.send_json(RESPONSE).await;
    }
}

#[tokio::test]
async fn a_connection_closed_after_its_response_is_not_reused() {
    let gateway = gateway();
    for kind in REQUEST_KINDS {
        let upstream =
            Upstream::start(|mut connection| async move { closing_after(1, &mut connection).await }).await;
        for _ in 0..4 {
            let (status, text, _) = post(&gateway, &upstream, kind).await;
            assert!(status == 200 && is_response(kind, &text), "{kind:?}: {status} {text}");
        }
        assert_eq!(upstream.connections(), 4, "{kind:?}");
    }
}

#[tokio::test]
async fn a_stale_connection_is_replaced_without_using_a_retry() {
    let gateway = gateway();
    for kind in REQUEST_KINDS {
        let upstream = Upstream::start(|mut connection| async move {
            let first = connection.number == 0;
            closing_after(1, &mut connection).await;
            if first {
                // The second request is read, and never answered.
                connection.request().await;
            } else {
                closing_after(9, &mut connection).await;
            }
        })
        .await;
        let (status, _, _) = post(&gateway, &upstream, kind).await;
        assert_eq!(status, 200, "{kind:?}");
        let (status, text, trace) = post(&gateway, &upstream, kind).await;
        assert!(status == 200 && is_response(kind, &text), "{kind:?}: {status} {text}");
        assert_eq!(upstream.connections(), 2, "{kind:?}");
        let connection = gateway.access_line(&trace).await;
        assert!(connection.get("error_code").is_none(), "{kind:?} {connection}");
        assert_eq!(
            connection["attempts"].as_array().unwrap().len(),
            1,
            "{kind:?}: the replacement was counted as an attempt: {connection}"
        );
    }
}

/// A new connection that breaks is a failure: the provider may have processed the request.
#[tokio::test]
async fn a_fresh_connection_that_breaks_is_not_retried() {
    let gateway = gateway();
    for kind in REQUEST_KINDS {
        let upstream = Upstream::start(|mut connection| async move {
            connection.request().await;
        })
        .await;
        let (status, text, _) = post(&gateway, &upstream, kind).await;
        assert_eq!((status, upstream.connections()), (502, 1), "{kind:?} {text}");
    }
}
