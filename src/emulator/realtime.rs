//! `GET /realtime`: a websocket that sends `session.created` first and then echoes every message.
//!
//! Not a model: `session.update` gets `session.updated`, and the text message
//! `{"type":"emulator.close","code":N}` makes the emulator close with that code.

use super::body::{Body, Disconnect};
use super::reply::{ApiError, Reply};
use super::request_guard::{Ended, RequestGuard};
use super::respond::{before_headers, into_response};
use super::script::Script;
use super::serve::HttpResponse;
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use http::request::Parts;
use serde_json::{Value, json};

/// Upgrades the connection; the websocket then runs in its own task.
pub(super) async fn upgrade_connection(
    parts: &mut Parts,
    script: Option<Script>,
    guard: RequestGuard,
) -> Result<HttpResponse, Disconnect> {
    let script = script.unwrap_or_default();
    if !script.latency.is_zero() {
        tokio::time::sleep(script.latency).await;
    }
    if script.status.is_some() {
        return into_response(
            Reply::json("{}").scripted(Script { latency: Default::default(), ..script }),
            guard,
        )
        .await;
    }
    let guard = before_headers(&script, guard).await?;
    let model = super::call::query(parts, "model").unwrap_or_else(|| "emulator".to_owned());
    let Ok(upgrade) = WebSocketUpgrade::from_request_parts(parts, &()).await else {
        return into_response(ApiError::bad("Expected a websocket upgrade.").into(), guard).await;
    };
    let id = guard.state().id("sess_", 24);
    let upgraded = upgrade.protocols(["realtime"]).on_upgrade(move |socket| async move {
        let ended = converse(socket, &id, &model).await;
        guard.end(ended);
    });
    Ok(upgraded.map(Body::upgrade))
}

async fn converse(mut socket: WebSocket, id: &str, model: &str) -> Ended {
    let session = json!({"id": id, "object": "realtime.session", "model": model, "modalities": ["text"]});
    let created = event(id, "session.created", &session);
    if socket.send(created).await.is_err() {
        return Ended::ClientLeft;
    }
    while let Some(Ok(message)) = socket.recv().await {
        let response = match message {
            Message::Text(text) => {
                let command: Value = serde_json::from_str(&text).unwrap_or_default();
                match command.get("type").and_then(Value::as_str) {
                    Some("emulator.close") => {
                        let code = command.get("code").and_then(Value::as_u64).unwrap_or(1000) as u16;
                        let reason = "as you wish".into();
                        // The client may have closed at the same moment.
                        let _ = socket.send(Message::Close(Some(CloseFrame { code, reason }))).await;
                        return Ended::Complete;
                    }
                    Some("session.update") => event(id, "session.updated", &session),
                    _ => Message::Text(text),
                }
            }
            Message::Binary(bytes) => Message::Binary(bytes),
            // axum responds to pings and closes itself.
            Message::Ping(_) | Message::Pong(_) => continue,
            Message::Close(_) => {
                // axum sends its close frame with the next read.
                while let Some(Ok(_)) = socket.recv().await {}
                return Ended::Complete;
            }
        };
        if socket.send(response).await.is_err() {
            break;
        }
    }
    Ended::ClientLeft
}

fn event(id: &str, name: &str, session: &Value) -> Message {
    let event = json!({"type": name, "event_id": format!("event_{id}"), "session": session});
    Message::Text(event.to_string().into())
}
