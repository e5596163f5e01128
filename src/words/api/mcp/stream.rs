//! The events of an MCP server in response to one request, read as they arrive: what the server sends in between, and that the response is
//! there.
//!
//! Keeps no event. The response itself is read by [`McpReply::find`], from all that has arrived.

use super::envelope::{METHOD_NOT_FOUND, error, request, response};
use super::features::ClientFeatures;
use super::message::McpMessage;
use super::reply::McpReply;
use crate::api::sse::SseParser;
use crate::json::write::ObjectWriter;

/// What the byte order mark is in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The longest `params` of a request that is passed on, bytes.
const MAX_PARAMS: usize = 128 << 10;

/// The longest request or notification that is read, bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// The stream of one response, as far as it was read.
#[derive(Debug, Clone)]
pub struct McpStream {
    /// The id of the request that is responded to: JSON text.
    id: String,
    parser: SseParser,
    /// Whether these are events; `None`: nothing has arrived that shows it.
    is_events: Option<bool>,
    is_over: bool,
}

/// A request of a server to its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRequest {
    /// JSON text.
    id: String,
    method: String,
    /// JSON text; `None`: they are too long to be passed on.
    params: Option<String>,
}

impl McpStream {
    /// `id`: of the request that is responded to, JSON text.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), parser: SseParser::default(), is_events: None, is_over: false }
    }

    /// Takes the next bytes, and gives `take` the requests and notifications of the server in them. True: the response was read, and nothing that follows is
    /// part of it.
    pub fn push(&mut self, chunk: &[u8], mut take: impl FnMut(&McpMessage<'_>)) -> bool {
        if self.is_events.is_none() {
            let mut bytes = chunk.iter().filter(|byte| !byte.is_ascii_whitespace() && !MARK.contains(byte));
            self.is_events = bytes.next().map(|first| !matches!(first, b'{' | b'[' | b'<'));
        }
        if self.is_over || self.is_events == Some(false) {
            return self.is_over;
        }
        let run = self.parser.push(chunk);
        for data in run.data() {
            let Ok(text) = std::str::from_utf8(&data) else { continue };
            if McpReply::of(text.trim(), &self.id).is_some() {
                self.is_over = true;
                break;
            }
            if text.len() <= MAX_MESSAGE
                && let Ok(message) = McpMessage::read(text)
            {
                take(&message);
            }
        }
        self.is_over
    }

    /// How many bytes it holds: those of an event that has not ended.
    pub fn held_bytes(&self) -> usize {
        self.parser.held_bytes()
    }
}

impl ServerRequest {
    /// `None`: it is a notification.
    pub fn of(message: &McpMessage<'_>) -> Option<Self> {
        let id = message.id.as_ref().filter(|_| message.is_request())?;
        let bytes: usize = message.params.iter().map(|(name, json)| name.len() + json.get().len() + 4).sum();
        let params = (bytes <= MAX_PARAMS).then(|| {
            let mut out = Vec::new();
            let mut object = ObjectWriter::open(&mut out);
            message.params.iter().for_each(|(name, json)| object.raw(&**name, json.get()));
            object.close();
            String::from_utf8(out).unwrap_or_default()
        });
        Some(Self { id: id.get().to_owned(), method: message.method.clone().into_owned(), params })
    }

    /// The same for a client that can be asked for it, under this id (JSON text). `None`: this client cannot.
    pub fn for_client(&self, features: ClientFeatures, id: &str) -> Option<Vec<u8>> {
        let params = self.params.as_deref().filter(|params| features.allow(&self.method, params))?;
        Some(request(id, &self.method, params))
    }

    /// The client's response, for the server.
    pub fn response(&self, reply: &McpReply) -> Vec<u8> {
        response(&self.id, reply)
    }

    /// The gateway's response: it is there, and its clients cannot be asked for anything.
    pub fn refusal(&self) -> Vec<u8> {
        let reply = match &*self.method {
            "ping" => McpReply::Result("{}".to_owned()),
            method => {
                let why =
                    format!("The clients of this gateway cannot be asked: it does not pass {method:?} on.");
                error(METHOD_NOT_FOUND, &why, None)
            }
        };
        response(&self.id, &reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "\u{feff}: hi\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"s-1\",\"method\":\"ping\"}\n\n\
        data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n\
        data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"roots/list\"}\n\n\
        data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n\
        data: {\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}\n\n";

    fn read(body: &[u8], size: usize) -> (Vec<String>, Option<usize>) {
        let mut stream = McpStream::new("7");
        let mut requests = Vec::new();
        let mut over = None;
        for (number, chunk) in body.chunks(size).enumerate() {
            let is_over = stream
                .push(chunk, |message| requests.extend(ServerRequest::of(message).map(|request| request.id)));
            over = over.or(is_over.then_some(number));
        }
        (requests, over)
    }

    #[test]
    fn requests_and_the_end_are_found_wherever_the_stream_is_cut() {
        for size in [1, 2, 7, 1000] {
            let (requests, over) = read(STREAM.as_bytes(), size);
            assert_eq!(requests, ["\"s-1\"", "7"], "{size}: nothing behind the response counts");
            let end = (over.unwrap() + 1) * size;
            assert!(size == 1000 || end < STREAM.len() - 40, "{size} {end}");
        }
    }

    #[test]
    fn a_document_and_a_stream_without_the_response_have_no_end_of_their_own() {
        for body in [
            " {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n",
            "[{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}]\n\n",
            "<data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n",
            "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n",
            "data: {\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}\n\n",
            "",
        ] {
            assert_eq!(read(body.as_bytes(), 3), (Vec::new(), None), "{body}");
        }
        // What is another's is refused at once.
        assert!(read(b"data: {\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n\n", 3).1.is_some());
    }

    #[test]
    fn a_ping_is_responded_to_and_anything_else_refused() {
        let text = |method: &str| {
            let json = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{{}}}}"#);
            let message = McpMessage::read(&json).unwrap();
            String::from_utf8(ServerRequest::of(&message).unwrap().refusal()).unwrap()
        };
        assert_eq!(text("ping"), r#"{"jsonrpc":"2.0","id":"a","result":{}}"#);
        let json = r#"{"jsonrpc":"2.0","id":"a","method":"roots/list","params":{"b":1.0}}"#;
        let request = ServerRequest::of(&McpMessage::read(json).unwrap()).unwrap();
        let features = ClientFeatures::of_capabilities(&crate::json::Json::parse(r#"{"roots":{}}"#).unwrap());
        let sent = request.for_client(features, "7").unwrap();
        assert_eq!(sent, br#"{"jsonrpc":"2.0","id":7,"method":"roots/list","params":{"b":1.0}}"#);
        assert_eq!(request.for_client(ClientFeatures::default(), "7"), None);
        let long = json.replace("1.0", &format!("\"{}\"", "x".repeat(MAX_PARAMS)));
        let long = ServerRequest::of(&McpMessage::read(&long).unwrap()).unwrap();
        assert_eq!(long.for_client(features, "7"), None);
        let refused = text("sampling/createMessage");
        assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"#), "{refused}");
        assert!(refused.contains("sampling/createMessage"), "{refused}");
    }
}
