//! Recorded responses of real providers, replayed byte for byte.
//!
//! The file has one JSON object a line, with `id`, `status`, `content_type` and one of `response` (a JSON
//! value, sent with its original spelling), `sse` (text) and `event_stream_b64` (bytes); other keys are
//! ignored.

use super::reply::{Content, Dialect, Event, Reply};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Recordings by id.
#[derive(Debug, Default)]
pub struct Recordings(HashMap<String, Recording>);

#[derive(Debug)]
struct Recording {
    status: StatusCode,
    content_type: HeaderValue,
    body: Bytes,
    streamed: bool,
}

#[derive(Deserialize)]
struct Line<'a> {
    id: String,
    status: u16,
    content_type: Option<String>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    sse: Option<String>,
    event_stream_b64: Option<String>,
}

impl Recordings {
    /// Loads a file of recordings.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not a recording; the message names the line.
    pub fn load(path: &Path) -> io::Result<Self> {
        Self::parse(&std::fs::read_to_string(path)?)
    }

    fn parse(text: &str) -> io::Result<Self> {
        let mut recordings = HashMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let (id, recording) =
                read(line).map_err(|why| io::Error::other(format!("line {}: {why}", number + 1)))?;
            recordings.insert(id, recording);
        }
        Ok(Self(recordings))
    }

    /// The number of recordings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The response recorded under `id`. A stream is sent event by event.
    pub(super) fn reply(&self, id: &str) -> Option<Reply> {
        let recording = self.0.get(id)?;
        let reply = Reply::whole(recording.content_type.clone(), recording.body.clone());
        let reply = Reply { status: recording.status, ..reply }.in_dialect(Dialect::OpenAi);
        if !recording.streamed {
            return Some(reply);
        }
        let mut rest = recording.body.clone();
        let events = std::iter::from_fn(move || {
            let end = memchr::memmem::find(&rest, b"\n\n").map_or(rest.len(), |at| at + 2);
            (end > 0).then(|| Event::raw(rest.split_to(end)))
        });
        Some(Reply { content: Content::Events(Box::new(events), None), ..reply })
    }
}

fn read(line: &str) -> Result<(String, Recording), String> {
    let line: Line<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let streamed = line.response.is_none();
    let body = match (line.response, line.sse, line.event_stream_b64) {
        (Some(json), ..) => Bytes::copy_from_slice(json.get().as_bytes()),
        (_, Some(text), _) => Bytes::from(text),
        (.., Some(base64)) => STANDARD.decode(base64).map_err(|error| error.to_string())?.into(),
        _ => Bytes::new(),
    };
    let content_type = line.content_type.unwrap_or_else(|| "application/json".to_owned());
    let content_type = HeaderValue::try_from(content_type).map_err(|error| error.to_string())?;
    let status = StatusCode::from_u16(line.status).map_err(|error| error.to_string())?;
    Ok((line.id, Recording { status, content_type, body, streamed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_keep_their_bytes() {
        let line = r#"{"id":"a","status":200,"content_type":"application/json","response": {"n": 1.00, "a":[ ]},"sse":null}"#;
        let recordings = Recordings::parse(line).unwrap();
        let Some(Reply { content: Content::Whole(body), .. }) = recordings.reply("a") else { panic!() };
        assert_eq!(body, r#"{"n": 1.00, "a":[ ]}"#);
        assert!(recordings.reply("b").is_none());
    }

    #[test]
    fn streams_are_replayed_event_by_event() {
        let line = r#"{"id":"a","status":200,"content_type":"text/event-stream","response":null,"sse":"data: 1\n\ndata: 2\n\n: end"}"#;
        let reply = Recordings::parse(line).unwrap().reply("a").unwrap();
        let Content::Events(events, None) = reply.content else { panic!() };
        let chunks: Vec<_> = events.map(|event| event.bytes).collect();
        assert_eq!(chunks, ["data: 1\n\n", "data: 2\n\n", ": end"]);
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = Recordings::parse("\n{\"id\":\"a\"}\n").unwrap_err().to_string();
        assert!(error.starts_with("line 2: missing field `status`"), "{error}");
    }
}
