//! The request log, the counters, recordings, websockets and shutdown.

use super::client::{LIMIT, Server, chat_bytes, exchange};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn tagged_requests_are_logged_as_received() {
    let server = Server::start().await;
    let mut tcp = server.connect().await;
    for (number, header) in ["X-Fox: brown", "x-FOX:  red"].into_iter().enumerate() {
        let request = format!(
            "PUT /any/path?q={number} HTTP/1.1\r\nHost: e\r\n{header}\r\nX-Emulator-Tag: t\r\nContent-Length: 3\r\n\r\nfox"
        );
        tcp.write_all(request.as_bytes()).await.unwrap();
        let mut response = [0; 4096];
        assert!(tcp.read(&mut response).await.unwrap() > 0);
    }
    exchange(&mut server.connect().await, &chat_bytes("emulator", false), LIMIT).await;
    let log = server.log("t").await;
    assert_eq!(log.len(), 2, "only tagged requests are logged");
    assert_eq!(
        (&log[0]["method"], &log[0]["path"], &log[0]["query"]),
        (&json!("PUT"), &json!("/any/path"), &json!("q=0"))
    );
    let headers =
        |header: Value| json!([["Host", "e"], header, ["X-Emulator-Tag", "t"], ["Content-Length", "3"]]);
    assert_eq!(log[0]["headers"], headers(json!(["X-Fox", "brown"])));
    assert_eq!(log[1]["headers"], headers(json!(["x-FOX", "red"])));
    assert_eq!((&log[1]["body"], &log[1]["body_bytes"]), (&json!("fox"), &json!(3)));
    // printf fox | sha256sum
    assert_eq!(log[1]["body_sha256"], "776cb326ab0cd5f0a974c1b9606044d8485201f2db19cf8e3749bdee5f36e200");
    assert_eq!(log[1]["closed"], "complete");
    assert_eq!(log[0]["connection"], log[1]["connection"]);
    assert_eq!(server.delete("/_emulator/requests?tag=t").await.0, 200);
    assert_eq!(server.fetch("/_emulator/requests").await, json!([]));
}

#[tokio::test]
async fn the_log_records_how_a_response_ended() {
    let server = Server::start().await;
    for (script, read, closed) in [
        ("tag=whole", usize::MAX, "complete"),
        ("tag=cut&fault=cut", usize::MAX, "fault"),
        ("tag=reset&fault=reset", usize::MAX, "fault"),
        ("tag=left&fault=stall", 10, "caller_left"),
        ("tag=hung&fault=hang", 0, "caller_left"),
    ] {
        let mut tcp = server.connect().await;
        tcp.write_all(&chat_bytes(&format!("emulator?{script}"), true)).await.unwrap();
        let tag = script.split(['=', '&']).nth(1).unwrap();
        if read == usize::MAX {
            let _ = tcp.read_to_end(&mut Vec::new()).await;
        } else {
            let _ = tcp.read_exact(&mut vec![0; read]).await;
            // The request must have arrived before the client disconnects.
            while server.fetch(&format!("/_emulator/requests?tag={tag}")).await == json!([]) {}
        }
        drop(tcp);
        let log = server.log(tag).await;
        assert_eq!(log[0]["closed"], closed, "{script}");
        assert!(log[0]["body"].as_str().unwrap().contains("messages"), "{script}");
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_is_logged() {
    let server = Server::start().await;
    let mut tcp = server.connect().await;
    let head =
        "POST /v1/files HTTP/1.1\r\nHost: e\r\nX-Emulator-Tag: up\r\nContent-Length: 1000\r\n\r\n12345";
    tcp.write_all(head.as_bytes()).await.unwrap();
    while server.fetch("/_emulator/requests?tag=up").await == json!([]) {}
    drop(tcp);
    let log = server.log("up").await;
    assert_eq!((&log[0]["closed"], &log[0]["body_bytes"]), (&json!("caller_left"), &json!(5)));
    let stats = server.fetch("/_emulator/stats").await;
    assert_eq!((&stats["in_flight"], &stats["connections_open"]), (&json!(0), &json!(1)));
}

#[tokio::test]
async fn recordings_are_replayed_byte_for_byte() {
    let json_line = r#"{"id":"a/b c","status":429,"content_type":"application/json; charset=UTF-8","response":{"n": 1.0},"sse":null,"event_stream_b64":null}"#;
    let sse_line = r#"{"id":"s","status":200,"content_type":"text/event-stream","response":null,"sse":"data: ü\n\ndata: [DONE]\n\n"}"#;
    let raw_line = r#"{"id":"r","status":200,"content_type":"application/vnd.amazon.eventstream","event_stream_b64":"AAEC/w=="}"#;
    let server = Server::replaying(&[json_line, sse_line, raw_line].join("\n")).await;
    for (id, extra, status, body) in [
        ("a/b c", ("x-none", "1"), 429, &br#"{"n": 1.0}"#[..]),
        ("s", ("x-none", "1"), 200, "data: ü\n\ndata: [DONE]\n\n".as_bytes()),
        ("s", ("x-replay-chunk", "1"), 200, "data: ü\n\ndata: [DONE]\n\n".as_bytes()),
        ("s", ("x-replay-cuts", "7"), 200, "data: ü\n\ndata: [DONE]\n\n".as_bytes()),
        ("r", ("x-replay-chunk", "3"), 200, &[0, 1, 2, 255]),
        ("s", ("x-emulator-script", "status=500&chunk=1"), 500, b"{\"error\":{\"code\":null,\"message\":\"The emulator was told to answer 500.\",\"param\":null,\"type\":\"server_error\"}}"),
    ] {
        let request = server.http.post(server.url("/v1/whatever")).header("x-replay-id", id).header(extra.0, extra.1);
        let response = request.body("{}").send().await.unwrap();
        assert_eq!(response.status(), status, "{id}");
        assert_eq!(response.bytes().await.unwrap(), body, "{id} {extra:?}");
    }
    let unknown = server.http.get(server.url("/v1/models")).header("x-replay-id", "x").send().await.unwrap();
    assert_eq!(unknown.status(), 404);
    assert!(unknown.text().await.unwrap().contains("No recording with the id `x`"));
}

#[tokio::test]
async fn realtime_greets_echoes_and_closes() {
    let server = Server::start().await;
    let url = format!("ws://{}/v1/realtime?model=fox", server.address);
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await.unwrap();
    let created = socket.next().await.unwrap().unwrap().into_text().unwrap();
    let created: Value = serde_json::from_str(&created).unwrap();
    assert_eq!((&created["type"], &created["session"]["model"]), (&json!("session.created"), &json!("fox")));
    for message in [Message::text("{\"type\": \"x\"}"), Message::binary(vec![1, 2])] {
        socket.send(message.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), message);
    }
    socket.send(Message::Ping(vec![9].into())).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(vec![9].into()));
    socket.send(Message::text(r#"{"type":"emulator.close","code":4001}"#)).await.unwrap();
    let Message::Close(Some(frame)) = socket.next().await.unwrap().unwrap() else { panic!() };
    assert_eq!(u16::from(frame.code), 4001);
    assert_eq!(server.http.get(server.url("/v1/realtime")).send().await.unwrap().status(), 400);
}

#[tokio::test]
async fn shutdown_lets_responses_finish() {
    let mut server = Server::start().await;
    let mut tcp = server.connect().await;
    let mut idle = server.connect().await;
    tcp.write_all(&chat_bytes("emulator?tag=slow&gap=5", true)).await.unwrap();
    tcp.read_exact(&mut [0; 20]).await.unwrap();
    server.shut_down();
    let mut rest = String::new();
    tcp.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with("data: [DONE]\n\n\r\n0\r\n\r\n"), "{rest}");
    assert_eq!(idle.read(&mut [0; 1]).await.unwrap(), 0);
    tokio::time::timeout(LIMIT, &mut server.task).await.unwrap().unwrap();
}

/// Replays all recordings beside the checkout, if there are any: each one must be returned unchanged.
#[tokio::test]
async fn every_recording_at_hand_loads() {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traffic/recorded.jsonl");
    let Ok(text) = std::fs::read_to_string(path) else {
        println!("SKIPPED: emulator recordings: no recorded traffic beside this checkout");
        return;
    };
    let server = Server::replaying(&text).await;
    for line in text.lines() {
        let recording: Value = serde_json::from_str(line).unwrap();
        let id = recording["id"].as_str().unwrap();
        let request = server.http.post(server.url("/v1/x")).header("x-replay-id", id);
        let response = request.header("x-replay-cuts", "1").send().await.unwrap();
        assert_eq!(response.status().as_u16(), recording["status"].as_u64().unwrap() as u16);
        assert_eq!(response.headers()["content-type"], recording["content_type"].as_str().unwrap());
        let body = response.bytes().await.unwrap();
        if let Some(sse) = recording["sse"].as_str() {
            assert_eq!(body, sse.as_bytes(), "{id}");
        } else if recording["response"] != Value::Null {
            assert_eq!(serde_json::from_slice::<Value>(&body).unwrap(), recording["response"], "{id}");
        }
    }
}
