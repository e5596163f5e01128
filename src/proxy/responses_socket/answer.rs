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

    /// The bytes it holds.
    pub fn size(&self) -> usize {
        self.body.len() + self.reader.size()
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

#[cfg(test)]
mod tests {
    use super::*;
    use pingora::http::ResponseHeader;
    use serde_json::{Value, json};

    /// The messages that the client gets of a response, in pieces of so many bytes.
    fn messages(status: u16, kind: &str, body: &str, failure: Option<Failure>, step: usize) -> Vec<Value> {
        let mut header = ResponseHeader::build(status, None).unwrap();
        header.insert_header("content-type", kind).unwrap();
        header.insert_header("retry-after", "7").unwrap();
        header.insert_header("content-length", "9").unwrap();
        let mut frames = Frames::new(1000);
        let mut answer = Answer::new(1000);
        answer.push(HttpTask::Header(Box::new(header), false), &mut frames);
        for piece in body.as_bytes().chunks(step) {
            answer.push(HttpTask::Body(Some(Bytes::copy_from_slice(piece)), false), &mut frames);
        }
        answer.end(failure, &mut frames);
        let mut output = &frames.take_output()[..];
        let mut messages = Vec::new();
        while let [_, length, rest @ ..] = output {
            let (length, rest) = match *length {
                126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
                length => (usize::from(length), rest),
            };
            messages.push(serde_json::from_slice(&rest[..length]).unwrap());
            output = &rest[length..];
        }
        messages
    }

    #[test]
    fn each_event_is_one_message() {
        let created = json!({"type": "response.created"});
        let done = json!({"type": "response.completed", "response": {"id": "r"}});
        let stream = format!(": hi\n\nevent: a\ndata: {created}\n\ndata: {done}\n\ndata: [DONE]\n\n");
        for step in [1, 7, 1000] {
            assert_eq!(
                messages(200, "text/event-stream", &stream, None, step),
                [created.clone(), done.clone()]
            );
        }
        // A provider that sends no stream.
        let whole = messages(200, "application/json", r#"{"id":"r"}"#, None, 4);
        assert_eq!(whole, [json!({"type": "response.completed", "response": {"id": "r"}})]);
    }

    #[test]
    fn what_has_no_end_ends_with_an_error() {
        let created = json!({"type": "response.created"});
        let stream = format!("data: {created}\n\n");
        let failure = || Failure { status: 503, body: br#"{"error":{"code":"draining"}}"#.to_vec() };
        for (status, kind, body, failure, wanted) in [
            (200, "text/event-stream", &*stream, Some(failure()), 503),
            (200, "text/event-stream", &*stream, None, 502),
            (200, "text/plain", "", None, 502),
            (429, "application/json", r#"{"error":{"code":"draining"}}"#, None, 429),
        ] {
            let last = messages(status, kind, body, failure, 1000).pop().unwrap();
            assert_eq!((&last["type"], &last["status"]), (&json!("error"), &json!(wanted)), "{last}");
            if wanted != 502 {
                assert_eq!(last["error"]["code"], "draining");
            }
            if wanted == 429 {
                assert_eq!(last["headers"], json!({"retry-after": "7"}));
            }
        }
    }
}
