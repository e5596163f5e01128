//! Every fault, as observed on a socket; pacing, statuses and repeat counts.

use super::client::{LIMIT, Server, chat_bytes, exchange};
use serde_json::json;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

/// How a connection ended.
#[derive(Debug, PartialEq)]
enum End {
    Closed,
    Reset,
    Idle,
}

async fn chat(server: &Server, model: &str, stream: bool) -> (String, End) {
    let mut tcp = server.connect().await;
    // An idle connection is only detected by waiting; nothing else here takes this long.
    let quiet = model.contains("hang") || model.contains("stall");
    let timeout = if quiet { Duration::from_millis(300) } else { LIMIT };
    let (got, end) = exchange(&mut tcp, &chat_bytes(model, stream), timeout).await;
    let end = match end {
        None => End::Idle,
        Some(Ok(())) => End::Closed,
        Some(Err(error)) if error.kind() == ErrorKind::ConnectionReset => End::Reset,
        Some(Err(error)) => panic!("{error}"),
    };
    (String::from_utf8_lossy(&got).into_owned(), end)
}

#[tokio::test]
async fn streams_fail_as_scripted() {
    let server = Server::start().await;
    for (script, events, starts, contains, ends, end) in [
        ("fault=reset", 0, "", "", "", End::Reset),
        ("fault=eof", 0, "", "", "", End::Closed),
        ("fault=hang", 0, "", "", "", End::Idle),
        ("fault=garbage", 0, "\u{16}", "not HTTP", "", End::Closed),
        ("fault=half_head", 0, "HTTP/1.1 200 OK\r\n", "", "Content-Ty", End::Closed),
        ("fault=cut&after=20", 20, "HTTP/1.1 200", "", "}\n\n\r\n", End::Closed),
        ("fault=cut&after=0", 0, "HTTP/1.1 200", "event-stream", "\r\n\r\n", End::Closed),
        ("fault=stall&after=3", 3, "HTTP/1.1 200", "", "}\n\n\r\n", End::Idle),
        ("fault=malformed&after=2", 51, "HTTP/1.1 200", "", "0\r\n\r\n", End::Closed),
        ("fault=error_event&after=2", 3, "HTTP/1.1 200", "told to fail", "0\r\n\r\n", End::Closed),
        ("fault=no_done", 50, "HTTP/1.1 200", "\"finish_reason\":\"stop\"", "0\r\n\r\n", End::Closed),
        ("fault=no_finish", 50, "HTTP/1.1 200", "[DONE]", "0\r\n\r\n", End::Closed),
        ("fault=empty", 0, "HTTP/1.1 200", "event-stream", "\r\n\r\n0\r\n\r\n", End::Closed),
        ("fault=html", 0, "HTTP/1.1 200", "text/html", "space.</p>", End::Closed),
        (
            "status=503&retry_after=2&retry_after_ms=1500",
            0,
            "HTTP/1.1 503",
            "retry-after: 2\r\n",
            "}}",
            End::Closed,
        ),
        ("error=context_length", 0, "HTTP/1.1 400", "context_length_exceeded", "}}", End::Closed),
        ("error=content_filter", 0, "HTTP/1.1 400", "\"code\":\"content_filter\"", "}}", End::Closed),
        (
            "status=302&location=http%3A%2F%2F127.0.0.1%2F",
            51,
            "HTTP/1.1 302",
            "location: http://127.0.0.1/",
            "",
            End::Closed,
        ),
    ] {
        let (text, ended) = chat(&server, &format!("emulator?{script}"), true).await;
        assert_eq!(ended, end, "{script}: {text}");
        assert_eq!(text.matches("data: ").count(), events, "{script}: {text}");
        assert!(
            text.starts_with(starts) && text.contains(contains) && text.ends_with(ends),
            "{script}: {text}"
        );
    }
}

#[tokio::test]
async fn whole_responses_fail_as_scripted() {
    let server = Server::start().await;
    let (good, _) = chat(&server, "emulator", false).await;
    let length = good.split_once("\r\n\r\n").unwrap().1.len();
    for (script, promised, sent, end) in [
        ("fault=truncate", length, length / 2, End::Closed),
        ("fault=cut", length, length / 2, End::Closed),
        ("fault=stall", length, length / 2, End::Idle),
        ("fault=malformed", length / 2, length / 2, End::Closed),
        ("fault=empty", 0, 0, End::Closed),
        ("fault=slow_body&gap=1", length, length, End::Closed),
        ("chunk=7", length, length, End::Closed),
        ("cuts=7&ttft=1&latency=1", length, length, End::Closed),
        ("fault=no_done", length, length, End::Closed),
    ] {
        let (text, ended) = chat(&server, &format!("emulator?{script}"), false).await;
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(ended, end, "{script}");
        assert!(head.contains(&format!("content-length: {promised}")), "{script}: {head}");
        assert_eq!(body.len(), sent, "{script}");
    }
}

#[tokio::test]
async fn the_header_wins_over_the_model() {
    let server = Server::start().await;
    let body = json!({"model": "m?status=500", "messages": [{"role": "user", "content": "x"}]});
    let request = || server.http.post(server.url("/v1/chat/completions")).json(&body);
    let response = request().header("x-emulator-script", "tokens=2").send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.text().await.unwrap().contains("\"The quick\""));
    let response = server.http.get(server.url("/v1/models")).header("x-emulator-script", "status=503");
    assert_eq!(response.send().await.unwrap().status(), 503);
    let response = server.http.get(server.url("/v1/models")).header("x-emulator-script", "nonsense");
    assert_eq!(response.send().await.unwrap().status(), 400);
    let response =
        server.http.put(server.url("/upload")).header("x-emulator-script", "fault=reset").body("x");
    assert!(response.send().await.is_err());
}

#[tokio::test]
async fn times_counts_by_key() {
    let server = Server::start().await;
    let post_status = async |key: &str| {
        let model = format!("emulator?status=500&times=2&key={key}");
        let body = json!({"model": model, "messages": [{"role": "user", "content": "x"}]});
        server.post("/v1/chat/completions", body).await.0
    };
    assert_eq!(
        [post_status("a").await, post_status("a").await, post_status("b").await, post_status("a").await],
        [500, 500, 500, 200]
    );
}

#[tokio::test]
async fn every_dialect_has_its_own_error_messages() {
    let server = Server::start().await;
    let messages = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "The"}]);
    let parts =
        json!([{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [{"text": "The"}]}]);
    let blocks = json!([{"role": "user", "content": [{"text": "x"}]}, {"role": "assistant", "content": [{"text": "The"}]}]);
    for (path, body) in [
        ("/v1/chat/completions", json!({"model": "m?SCRIPT", "messages": messages})),
        ("/v1/messages", json!({"model": "m?SCRIPT", "messages": messages, "max_tokens": 9})),
        ("/v2/chat", json!({"model": "m?SCRIPT", "messages": messages})),
        ("/v1beta/models/m%3FSCRIPT:generateContent", json!({"contents": parts})),
        ("/v1beta/models/m%3FSCRIPT:streamGenerateContent?alt=sse", json!({"contents": parts})),
        ("/model/m%3FSCRIPT/converse", json!({"messages": blocks})),
        ("/model/m%3FSCRIPT/converse-stream", json!({"messages": blocks})),
    ] {
        for (script, status, fragments) in [
            ("error=context_length", 400, ["too long", "token", "context_length"]),
            (
                "error=content_filter",
                if path.contains("Gen") || path.contains("gen") { 200 } else { 400 },
                ["content", "block", "block"],
            ),
            ("no_prefill=1", 400, ["prefill"; 3]),
        ] {
            let body = serde_json::from_str(&body.to_string().replace("SCRIPT", script)).unwrap();
            let (response_status, text) = server.post(&path.replace("SCRIPT", script), body).await;
            assert_eq!(response_status, status, "{path} {script}: {text}");
            assert!(fragments.iter().any(|fragment| text.contains(fragment)), "{path} {script}: {text}");
        }
    }
}

#[tokio::test]
async fn a_flapping_script_alternates() {
    let server = Server::start().await;
    let post_status = async || {
        let body =
            json!({"model": "m?status=503&flap=300&key=f", "messages": [{"role": "user", "content": "x"}]});
        server.post("/v1/chat/completions", body).await.0
    };
    assert_eq!(post_status().await, 503);
    let started = Instant::now();
    let mut statuses = vec![503];
    while statuses.len() < 4 {
        let status = post_status().await;
        if statuses.last() != Some(&status) {
            statuses.push(status);
        }
        assert!(started.elapsed() < LIMIT, "{statuses:?}");
    }
    assert_eq!(statuses, [503, 200, 503, 200]);
}

#[tokio::test]
async fn headers_are_sent_before_a_late_body() {
    let server = Server::start().await;
    for stream in [true, false] {
        let mut tcp = server.connect().await;
        let (got, end) =
            exchange(&mut tcp, &chat_bytes("m?ttft=60000", stream), Duration::from_millis(300)).await;
        let got = String::from_utf8_lossy(&got);
        assert!(
            end.is_none() && got.starts_with("HTTP/1.1 200") && got.ends_with("\r\n\r\n"),
            "{stream}: {got}"
        );
    }
}

#[tokio::test]
async fn pacing_is_respected() {
    let server = Server::start().await;
    let started = Instant::now();
    let (text, _) = chat(&server, "emulator?latency=30&ttft=20&gap=5&tokens=8", true).await;
    // 11 events: one immediately, ten after a gap.
    assert!(started.elapsed() >= Duration::from_millis(100), "{:?}", started.elapsed());
    assert_eq!(text.matches("data: ").count(), 11);
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let server = Server::start().await;
    for _ in 0..5 {
        let body =
            json!({"model": "emulator", "messages": [{"role": "user", "content": "x"}], "stream": true});
        assert_eq!(server.post("/v1/chat/completions", body).await.0, 200);
    }
    let stats = server.fetch("/_emulator/stats").await;
    assert_eq!(
        stats,
        json!({"connections_accepted": 1, "connections_open": 1, "requests": 5, "in_flight": 0})
    );
}
