//! A pooled connection that died is replaced free of charge, whatever the method and the way.
//!
//! Not retries: those are asked for, counted and told.

use crate::support::client::new_trace;
use crate::support::gateway;
use crate::support::gateway::Gateway;
use crate::support::talk::{Speech, WAYS, Way, ask};
use crate::support::upstream::{Line, Upstream};

const ANSWER: &str = r#"{"id":"c-1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}"#;

async fn post(gateway: &Gateway, upstream: &Upstream, way: Way) -> (u16, String, String) {
    let trace = new_trace();
    let call = ask(gateway, Speech::OpenAi, way, "").header("x-gateway-trace-id", &trace);
    let call = call.header("x-gateway-provider", "openai").header("authorization", "Bearer sk-1");
    let answer = call.header("x-gateway-custom-host", upstream.url()).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap(), trace)
}

/// Answers `answered` requests, then closes the connection without having announced it.
async fn closing_after(answered: usize, line: &mut Line) {
    for _ in 0..answered {
        if line.request().await.is_none() {
            return;
        }
        line.answer(ANSWER).await;
    }
}

#[tokio::test]
async fn a_connection_closed_after_its_answer_is_not_used_again() {
    let gateway = gateway();
    for way in WAYS {
        let upstream = Upstream::start(|mut line| async move { closing_after(1, &mut line).await }).await;
        for _ in 0..4 {
            let (status, text, _) = post(&gateway, &upstream, way).await;
            assert_eq!((status, text.as_str()), (200, ANSWER), "{way:?}");
        }
        assert_eq!(upstream.connections(), 4, "{way:?}");
    }
}

#[tokio::test]
async fn a_connection_that_dies_as_the_next_request_arrives_is_replaced_for_free() {
    let gateway = gateway();
    for way in WAYS {
        let upstream = Upstream::start(|mut line| async move {
            let first = line.number == 0;
            closing_after(1, &mut line).await;
            if first {
                // The second request is read, and never answered.
                line.request().await;
            } else {
                closing_after(9, &mut line).await;
            }
        })
        .await;
        let (status, _, _) = post(&gateway, &upstream, way).await;
        assert_eq!(status, 200, "{way:?}");
        let (status, text, trace) = post(&gateway, &upstream, way).await;
        assert_eq!((status, text.as_str()), (200, ANSWER), "{way:?}");
        assert_eq!(upstream.connections(), 2, "{way:?}");
        let line = gateway.access_line(&trace).await;
        assert!(line.get("error_code").is_none(), "{way:?} {line}");
        assert_eq!(
            line["attempts"].as_array().unwrap().len(),
            1,
            "{way:?}: it is no attempt of its own: {line}"
        );
    }
}

/// A fresh connection that breaks is a failure: the provider has seen the request.
#[tokio::test]
async fn a_fresh_connection_that_breaks_is_not_tried_again() {
    let gateway = gateway();
    for way in WAYS {
        let upstream = Upstream::start(|mut line| async move {
            line.request().await;
        })
        .await;
        let (status, text, _) = post(&gateway, &upstream, way).await;
        assert_eq!((status, upstream.connections()), (502, 1), "{way:?} {text}");
    }
}
