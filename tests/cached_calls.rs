//! When a cached response, or a call that others may read along with, is no longer used: it cannot be read, it hangs, it is too slow, it was purged or
//! replaced.
//!
//! Not what is cached at all (`caching`), and not many clients of one call that goes well (`shared_streams`).

use crate::caching::{Answer, Call, answering, at, cached, chat, events, json_answer};
use crate::shared_streams::{slow_client, stream_of, streamed};
use crate::stages::{WHOLE_CHAT, chat_events, text_of};
use crate::support::client::new_trace;
use crate::support::settings::STANDARD;
use crate::support::upstream::{Connection, Upstream};
use crate::support::wait::until;
use crate::support::{Gateway, gateway};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

const REFRESH: (&str, &str) = ("x-gateway-cache-force-refresh", "true");

/// A provider whose response has the number of the call in it. The first call waits for a permit.
async fn first_waits() -> (Upstream, Arc<Semaphore>, Arc<AtomicUsize>) {
    let gate = Arc::new(Semaphore::new(0));
    let calls = Arc::<AtomicUsize>::default();
    let permits = Arc::clone(&gate);
    let count = Arc::clone(&calls);
    let upstream = Upstream::start(move |mut connection: Connection| {
        let permits = Arc::clone(&permits);
        let count = Arc::clone(&count);
        async move {
            while connection.request().await.is_some() {
                let number = count.fetch_add(1, Ordering::SeqCst);
                if number == 0 {
                    permits.acquire().await.unwrap().forget();
                }
                connection.send_json(&numbered(number)).await;
            }
        }
    })
    .await;
    (upstream, gate, calls)
}

fn numbered(number: usize) -> String {
    WHOLE_CHAT.replace("hello world", &format!("answer {number}"))
}

async fn called(calls: &AtomicUsize, times: usize) {
    until("the call", async || (calls.load(Ordering::SeqCst) == times).then_some(())).await;
}

fn outcome(answer: &Answer) -> (u16, &str, String) {
    (answer.status, answer.cache.as_str(), text_of(&answer.text))
}

fn expected(status: &'static str, number: usize) -> (u16, &'static str, String) {
    (200, status, format!("answer {number}"))
}

#[tokio::test]
async fn a_stream_with_an_event_that_cannot_be_read_is_not_kept() {
    let gateway = gateway();
    let broken = chat_events(&["hello", " world"]).replacen("\n\n", "\n\ndata: {\"choices\": [}\n\n", 1);
    let (upstream, calls) = answering(move |number, _| match number {
        0 => events(&broken),
        _ => json_answer(WHOLE_CHAT),
    })
    .await;
    let call = Call::new(&gateway, &cached(at(&upstream, "openai")));
    let first = call.send(&chat("broken event", true)).await;
    assert!(first.status == 200 && first.text.contains("[}"), "it passes as it is: {first:?}");
    let line = gateway.access_line(&first.trace).await;
    assert_eq!(line["cache"]["not_stored"], "error", "{line}");
    let whole = call.send(&chat("broken event", false)).await;
    assert_eq!((whole.status, whole.cache.as_str()), (200, "MISS"), "{whole:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn an_entry_that_cannot_be_decoded_is_removed_and_the_call_is_made() {
    let gateway = gateway();
    // Its choice has a call of no function: fine for who gets it as it is, and nothing for a decoder.
    let odd = WHOLE_CHAT.replacen(
        "\"message\":{",
        "\"message\":{\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\"}],",
        1,
    );
    assert_ne!(odd, WHOLE_CHAT);
    let (upstream, calls) = answering(move |number, _| match number {
        0 => json_answer(&odd),
        _ => json_answer(&numbered(number)),
    })
    .await;
    let call = Call::new(&gateway, &cached(at(&upstream, "openai")));
    let whole = chat("odd", false);
    let stream = chat("odd", true);
    assert_eq!(call.send(&whole).await.cache, "MISS");
    assert_eq!(call.send(&whole).await.cache, "HIT");
    let decoded = call.send(&stream).await;
    assert_eq!(outcome(&decoded), expected("MISS", 1), "{decoded:?}");
    assert_eq!(outcome(&call.send(&stream).await), expected("HIT", 1));
    assert_eq!(outcome(&call.send(&whole).await), expected("HIT", 1));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_call_that_was_given_up_takes_no_further_requests() {
    let gateway = gateway();
    let (upstream, gate, calls) = first_waits().await;
    let config = cached(at(&upstream, "openai"));
    let mut timed = config.clone();
    timed["request_timeout"] = json!(2000);
    timed["retry"] = json!({"attempts": 5, "on_status_codes": [408]});
    let body = chat("hangs", false);
    let patient = Call::new(&gateway, &config);
    let hasty = Call::new(&gateway, &timed);
    let others = async {
        called(&calls, 1).await;
        let retried = hasty.send(&body).await;
        let next = patient.send(&body).await;
        gate.add_permits(1);
        (retried, next)
    };
    let (first, (retried, next)) = tokio::join!(patient.send(&body), others);
    assert_eq!(outcome(&retried), expected("MISS", 1), "its retry makes a call of its own");
    assert_eq!(outcome(&next), expected("HIT", 1));
    assert_eq!(outcome(&first), expected("MISS", 0), "who waits for it still gets it");
    assert_eq!(outcome(&patient.send(&body).await), expected("HIT", 1), "what is older replaces nothing");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_hedge_does_not_join_the_call_that_it_races() {
    let gateway = gateway();
    let (upstream, gate, calls) = first_waits().await;
    let target = cached(at(&upstream, "openai"));
    let config = json!({
        "strategy": {"mode": "fallback"},
        "hedge": {"after_ms": 50, "max_extra_ratio": 1.0},
        "targets": [target, target],
    });
    let answer = Call::new(&gateway, &config).send(&chat("raced", false)).await;
    assert_eq!(outcome(&answer), expected("MISS", 1), "{answer:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    gate.add_permits(1);
}

#[tokio::test]
async fn a_purge_concerns_calls_in_flight() {
    let gateway = Gateway::start(STANDARD);
    let (upstream, gate, calls) = first_waits().await;
    let call = Call::new(&gateway, &cached(at(&upstream, "openai")));
    let body = chat("purged in flight", false);
    let others = async {
        called(&calls, 1).await;
        let purge = gateway.control(Method::POST, "/v1/cache/purge").json(&json!({"all": true}));
        let purged = purge.send().await.unwrap();
        assert_eq!(purged.status(), 200);
        let next = call.send(&body).await;
        gate.add_permits(1);
        next
    };
    let (first, next) = tokio::join!(call.send(&body), others);
    assert_eq!(outcome(&next), expected("MISS", 1), "it does not join what was called before");
    assert_eq!(outcome(&first), expected("MISS", 0));
    let line = gateway.access_line(&first.trace).await;
    assert_eq!(line["cache"]["not_stored"], "outdated", "{line}");
    assert_eq!(outcome(&call.send(&body).await), expected("HIT", 1));
}

#[tokio::test]
async fn an_older_call_does_not_replace_a_refreshed_response() {
    let gateway = gateway();
    let (upstream, gate, calls) = first_waits().await;
    let config = cached(at(&upstream, "openai"));
    let call = Call::new(&gateway, &config);
    let refresh = Call::new(&gateway, &config).header(REFRESH.0, REFRESH.1);
    let body = chat("refreshed in flight", false);
    let others = async {
        called(&calls, 1).await;
        let refreshed = refresh.send(&body).await;
        gate.add_permits(1);
        refreshed
    };
    let (first, refreshed) = tokio::join!(call.send(&body), others);
    assert_eq!(outcome(&refreshed), expected("REFRESH", 1));
    assert_eq!(outcome(&first), expected("MISS", 0));
    assert_eq!(outcome(&call.send(&body).await), expected("HIT", 1));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn refreshes_at_once_share_a_call() {
    let gateway = gateway();
    let (upstream, gate, calls) = first_waits().await;
    let config = cached(at(&upstream, "openai"));
    let refresh = Call::new(&gateway, &config).header(REFRESH.0, REFRESH.1);
    let body = chat("refreshed at once", false);
    let others = async {
        called(&calls, 1).await;
        let others = async {
            let (one, other) = tokio::join!(refresh.send(&body), refresh.send(&body));
            [one, other]
        };
        let open = async {
            // Both have joined the call, or made one each.
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
            gate.add_permits(1);
        };
        tokio::join!(others, open).0
    };
    let (first, others) = tokio::join!(refresh.send(&body), others);
    assert_eq!(outcome(&first), expected("REFRESH", 0));
    for other in &others {
        assert_eq!(outcome(other), expected("HIT", 0));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    // A response that has been there is not new enough for a refresh.
    assert_eq!(outcome(&refresh.send(&body).await), expected("REFRESH", 1));
}

#[tokio::test]
async fn a_refresh_that_fails_leaves_what_is_kept() {
    let gateway = gateway();
    let failing = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}";
    let (upstream, calls) = answering(move |number, _| match number {
        1 => failing.to_owned(),
        _ => json_answer(&numbered(number)),
    })
    .await;
    let config = cached(at(&upstream, "openai"));
    let call = Call::new(&gateway, &config);
    let refresh = Call::new(&gateway, &config).header(REFRESH.0, REFRESH.1);
    let body = chat("failing refresh", false);
    assert_eq!(outcome(&call.send(&body).await), expected("MISS", 0));
    assert_eq!(refresh.send(&body).await.status, 500);
    assert_eq!(outcome(&call.send(&body).await), expected("HIT", 0));
    assert_eq!(outcome(&refresh.send(&body).await), expected("REFRESH", 2));
    assert_eq!(outcome(&call.send(&body).await), expected("HIT", 2));
    assert_eq!(calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_client_that_takes_nothing_does_not_keep_a_call_open_for_others() {
    let gateway = gateway();
    // As large as an entry may be, so that the system cannot keep all of it for the slow client.
    let (upstream, steps, calls) = stream_of(vec!["x".repeat(32 << 10); 120]).await;
    steps.add_permits(100);
    let mut config = cached(at(&upstream, "openai"));
    config["cache"]["max_age"] = json!(0);
    let call = Call::new(&gateway, &config);
    let body = streamed("kept open");
    let slow = slow_client(&gateway, &config, &body, &new_trace()).await;
    let first = call.send(&body).await;
    let before = calls.load(Ordering::SeqCst);
    let next = call.send(&body).await;
    assert_eq!((first.status, next.status, next.cache.as_str()), (200, 200, "MISS"));
    assert!(calls.load(Ordering::SeqCst) > before);
    drop(slow);
}

#[tokio::test]
async fn a_call_that_fails_is_no_hit_and_is_charged_once() {
    const CLIENTS: usize = 8;
    let gateway = Gateway::start(STANDARD);
    let gate = Arc::new(Semaphore::new(0));
    let calls = Arc::<AtomicUsize>::default();
    let permits = Arc::clone(&gate);
    let count = Arc::clone(&calls);
    let body =
        r#"{"error":{"message":"no"},"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}"#;
    let head = "HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\ncontent-length:";
    let failing = format!("{head} {}\r\n\r\n{body}", body.len());
    let upstream = Upstream::start(move |mut connection: Connection| {
        let permits = Arc::clone(&permits);
        let count = Arc::clone(&count);
        let failing = failing.clone();
        async move {
            while connection.request().await.is_some() {
                count.fetch_add(1, Ordering::SeqCst);
                permits.acquire().await.unwrap().forget();
                connection.write(&failing).await;
            }
        }
    })
    .await;
    let call = Call::new(&gateway, &cached(at(&upstream, "openai")));
    let body = chat("all fail", false);
    let sending = futures_util::future::join_all((0..CLIENTS).map(|_| call.send(&body)));
    let failing = async {
        for clients in [CLIENTS, CLIENTS - 1] {
            until("all who wait", async || {
                let waiting = gateway.metric("turnpike_requests_in_flight").await?;
                (waiting as usize >= clients && calls.load(Ordering::SeqCst) > CLIENTS - clients)
                    .then_some(())
            })
            .await;
            gate.add_permits(1);
        }
        // Those who were late make calls of their own.
        gate.add_permits(CLIENTS);
    };
    let (answers, ()) = tokio::join!(sending, failing);
    let statuses: Vec<Value> = answers.iter().map(|answer| json!([answer.status, answer.cache])).collect();
    assert!(statuses.iter().all(|status| *status == json!([500, "MISS"])), "{statuses:?}");
    let mut charged = 0;
    for answer in &answers {
        let line = gateway.access_line(&answer.trace).await;
        charged += usize::from(!line["cost_status"].is_null());
    }
    assert_eq!(charged, calls.load(Ordering::SeqCst), "each call once");
}

#[tokio::test]
async fn a_leader_that_takes_little_is_charged_for_what_others_got() {
    let gateway = gateway();
    let used = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\
                \"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7,\"total_tokens\":12}}\n\ndata: [DONE]";
    let texts = vec!["x".repeat(32 << 10); 120];
    let whole =
        chat_events(&texts.iter().map(String::as_str).collect::<Vec<_>>()).replace("data: [DONE]", used);
    let (upstream, calls) = answering(move |_, _| events(&whole)).await;
    let config = cached(at(&upstream, "openai"));
    let body = streamed("little");
    let trace = new_trace();
    let slow = slow_client(&gateway, &config, &body, &trace).await;
    let other = Call::new(&gateway, &config).send(&body).await;
    assert_eq!((other.status, other.cache.as_str()), (200, "HIT"));
    drop(slow);
    let line = gateway.access_line(&trace).await;
    assert_eq!(
        (&line["error_code"], &line["tokens"]["output"]),
        (&json!("caller_left"), &json!(7)),
        "{line}"
    );
    let line = gateway.access_line(&other.trace).await;
    assert!(line["cost_status"].is_null(), "{line}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}
