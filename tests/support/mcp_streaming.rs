//! An MCP server of a test, up to 2025-11-25, whose calls are streams: it requests something of its client while it carries out a call, and
//! may leave the stream open behind its response.
//!
//! Raw HTTP. What a call does is in its arguments: `notes` are notifications, sent at once, with the call's own token in the place of `OWN`;
//! with `waits` it goes on when it is released; `requests` are the methods that it requests (or methods with `params`), one after the other, or `at_once` without waiting for a response; `text` is in its result, so
//! many `times`; with `ends` it ends its stream, with `cuts` it does so without the result.

use super::mcp_fake::{body, http, result};
use super::message::Message;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// A listening server, with the tool `work`.
pub(crate) struct McpStreaming {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The responses of clients, as they were posted within the session.
    responses: watch::Sender<Vec<(String, Value)>>,
    /// Streams that are not closed.
    open: AtomicUsize,
    /// Whether calls that wait go on.
    released: watch::Sender<bool>,
    /// The calls that it got.
    calls: Mutex<Vec<Value>>,
    cancelled: Mutex<Vec<Value>>,
    /// The capabilities of each client that began a session.
    clients: Mutex<Vec<Value>>,
}

impl McpStreaming {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&served)));
            }
        });
        Self { port, state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// What clients have responded with.
    pub(crate) fn responses(&self) -> Vec<Value> {
        self.state.responses.borrow().iter().map(|(_, response)| response.clone()).collect()
    }

    /// Has calls that wait go on.
    pub(crate) fn release(&self) {
        self.state.released.send_replace(true);
    }

    /// The last call that it got.
    pub(crate) fn last_call(&self) -> Value {
        self.state.calls.lock().last().cloned().unwrap_or_default()
    }

    /// What the client of each session can be asked for, in the order of the sessions.
    pub(crate) fn clients(&self) -> Vec<Value> {
        self.state.clients.lock().clone()
    }

    /// The ids of the calls that were cancelled.
    pub(crate) fn cancelled(&self) -> Vec<Value> {
        self.state.cancelled.lock().clone()
    }

    /// How many streams of calls are not closed.
    pub(crate) fn open_streams(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, state: Arc<State>) {
    let mut buffer = Vec::new();
    loop {
        while let Some((message, length)) = Message::parse(&buffer, false) {
            buffer.drain(..length);
            let sent = body(&message);
            if sent["method"] == "tools/call" {
                state.open.fetch_add(1, Ordering::SeqCst);
                state.calls.lock().push(sent.clone());
                // Without it the client has closed the stream.
                let session = message.header("mcp-session-id").unwrap_or_default();
                let _ = carry_out(&mut stream, &sent, session, &state).await;
                state.open.fetch_sub(1, Ordering::SeqCst);
                return;
            }
            if stream.write_all(&reply(&message, &sent, &state)).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut buffer).await, Ok(count) if count > 0) {
            return;
        }
    }
}

/// The response to what is no call.
fn reply(message: &Message, sent: &Value, state: &State) -> Vec<u8> {
    let json = |text: &str, headers: &str| http("200 OK", headers, "application/json", text);
    let tools = json!({"tools": [{"name": "work", "inputSchema": {"type": "object"}}]});
    let about = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
        "serverInfo": {"name": "streaming", "version": "1"}});
    match sent["method"].as_str() {
        Some("initialize") => {
            let mut clients = state.clients.lock();
            clients.push(sent["params"]["capabilities"].clone());
            json(&result(&sent["id"], &about), &format!("mcp-session-id: s-{}\r\n", clients.len()))
        }
        Some("tools/list") => json(&result(&sent["id"], &tools), ""),
        Some("server/discover") => http("400 Bad Request", "", "text/plain", "no"),
        None => {
            let session = message.header("mcp-session-id").unwrap_or_default().to_owned();
            state.responses.send_modify(|responses| responses.push((session, sent.clone())));
            http("202 Accepted", "", "application/json", "")
        }
        Some("notifications/cancelled") => {
            state.cancelled.lock().push(sent["params"]["requestId"].clone());
            http("202 Accepted", "", "application/json", "")
        }
        _ => http("202 Accepted", "", "application/json", ""),
    }
}

async fn carry_out(
    stream: &mut TcpStream,
    sent: &Value,
    session: &str,
    state: &State,
) -> std::io::Result<()> {
    let arguments = &sent["params"]["arguments"];
    stream.write_all(HEAD.as_bytes()).await?;
    let token = &sent["params"]["_meta"]["progressToken"];
    for note in arguments["notes"].as_array().into_iter().flatten() {
        let text = note.to_string().replace("\"OWN\"", &token.to_string());
        stream.write_all(event(&text).as_bytes()).await?;
    }
    let mut requests = arguments["requests"].as_array().cloned().unwrap_or_default();
    if arguments["at_once"] == true {
        let events =
            requests.drain(..).enumerate().map(|(number, request)| event(&requested(number, &request)));
        stream.write_all(events.collect::<String>().as_bytes()).await?;
    }
    if arguments["waits"] == true {
        let mut released = state.released.subscribe();
        tokio::select! {
            found = released.wait_for(|released| *released) => drop(found.unwrap()),
            // The client has closed the stream.
            _ = stream.read_u8() => return Ok(()),
        }
    }
    let mut responses = state.responses.subscribe();
    for (number, request) in requests.iter().enumerate() {
        stream.write_all(event(&requested(number, request)).as_bytes()).await?;
        let id = json!(format!("r-{number}"));
        let is_response = |(of, response): &(String, Value)| of == session && response["id"] == id;
        tokio::select! {
            found = responses.wait_for(|responses| responses.iter().any(is_response)) => drop(found.unwrap()),
            // The client has closed the stream.
            _ = stream.read_u8() => return Ok(()),
        }
    }
    if arguments["cuts"] == true {
        return stream.write_all(b"0\r\n\r\n").await;
    }
    let times = arguments["times"].as_u64().unwrap_or(1) as usize;
    let text = arguments["text"].as_str().unwrap_or_default().repeat(times);
    let content = json!({"content": [{"type": "text", "text": text}]});
    stream.write_all(event(&result(&sent["id"], &content)).as_bytes()).await?;
    if arguments["ends"] == true {
        return stream.write_all(b"0\r\n\r\n").await;
    }
    // A late message, which is nobody's.
    stream.write_all(event(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#).as_bytes()).await?;
    let mut rest = [0; 64];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

/// What the server requests. `request`: a method, or a method with `params`.
fn requested(number: usize, request: &Value) -> String {
    let none = json!({});
    let (method, params) = match request.as_str() {
        Some(method) => (method, &none),
        None => (request["method"].as_str().unwrap(), &request["params"]),
    };
    json!({"jsonrpc": "2.0", "id": format!("r-{number}"), "method": method, "params": params}).to_string()
}

/// An event, as a chunk of a body.
fn event(data: &str) -> String {
    let event = format!("event: message\ndata: {data}\n\n");
    format!("{:x}\r\n{event}\r\n", event.len())
}
