//! The response to one event: its parts as the engine sends them, turned into messages of the websocket.
//!
//! Knows no connection, and no engine.

use super::frames::Frames;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, StatusCode};
use pingora_core::protocols::http::HttpTask;
use words::api::responses::socket::{TurnReader, error_event};
use words::api::sse::{MAX_EVENT_BYTES, Run, SseParser};

/// The marker that ends other streams, and sometimes these.
const DONE: &[u8] = b"[DONE]";

pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    /// Whether it is a stream of events; otherwise the body is one document.
    is_stream: bool,
    sse: SseParser,
    body: Vec<u8>,
    /// What the connection may go on from.
    pub reader: TurnReader,
}

/// Why an answer has no end of its own: status and body of the error.
pub(super) struct Failure {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    /// `limit`: the most bytes of its items that are remembered.
    pub fn new(limit: usize) -> Self {
        Self {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            is_stream: false,
            sse: SseParser::default(),
            body: Vec::new(),
            reader: TurnReader::new(limit),
        }
    }

    /// Takes a part of the response, and sends the messages that are complete.
    pub fn push(&mut self, part: HttpTask, frames: &mut Frames) {
        match part {
            HttpTask::Header(header, _) => self.begin(header.status, &header.headers),
            HttpTask::Body(Some(chunk), _) => self.take(&chunk, frames),
            _ => {}
        }
    }

    fn begin(&mut self, status: StatusCode, headers: &HeaderMap) {
        let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
        self.status = status;
        self.is_stream = status.is_success() && kind.starts_with(b"text/event-stream");
        self.headers = headers.clone();
    }

    fn take(&mut self, chunk: &Bytes, frames: &mut Frames) {
        if self.is_stream {
            let run = self.sse.push(chunk);
            forward(&run, &mut self.reader, frames);
        } else if self.body.len() + chunk.len() <= MAX_EVENT_BYTES {
            self.body.extend_from_slice(chunk);
        }
    }

    /// The response has ended. `failure`: what the engine has noted.
    pub fn end(&mut self, failure: Option<Failure>, frames: &mut Frames) {
        if self.is_stream {
            let run = self.sse.finish();
            forward(&run, &mut self.reader, frames);
        } else if self.status.is_success() && self.body.starts_with(b"{") {
            // A provider that sends no stream.
            let event = [b"{\"type\":\"response.completed\",\"response\":", &*self.body, b"}"].concat();
            self.reader.read(&event);
            frames.text(event);
        } else if !self.body.is_empty() {
            frames.text(error_event(self.status.as_u16(), &self.body, shown(&self.headers)));
            return;
        }
        if !self.reader.is_ended() {
            let failure = failure.unwrap_or_else(|| Failure {
                status: 502,
                body: br#"{"error":{"message":"The provider closed the stream before the answer was complete. Retry your request.","type":"upstream_error","param":null,"code":"upstream_invalid_answer"}}"#.to_vec(),
            });
            frames.text(error_event(failure.status, &failure.body, std::iter::empty()));
        }
    }
}

/// Sends the events of a run, one message each. Comments, which keep other connections alive, are none.
fn forward(run: &Run<'_>, reader: &mut TurnReader, frames: &mut Frames) {
    for event in run.data().filter(|event| **event != *DONE && !event.is_empty()) {
        reader.read(&event);
        frames.text(event.into_owned());
    }
}

/// The headers of an error that its event repeats: when to come again, which limit it was, where to look it up.
fn shown(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let is_shown = |name: &HeaderName| *name == RETRY_AFTER || name.as_str().starts_with("x-");
    let shown = headers.iter().filter(move |(name, _)| is_shown(name));
    shown.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
}
