//! A Pingora session as the engine's downstream. The one file that writes to a session.
//!
//! Does not make responses, and does not send those of the control plane (`net::inbound::axum_bridge`).

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use motion::engine::downstream::Downstream;
use motion::engine::failure;
use motion::engine::header_edit::{HeaderCase, edit_response_headers};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::ErrorType;
use pingora_core::protocols::http::HttpTask;
use pingora_proxy::Session;
use std::net::IpAddr;
use words::api::gemini::ListFraming;
use words::error::Error;

/// The session of one request.
pub(super) struct PingoraDownstream<'a> {
    session: &'a mut Session,
    list: List,
}

/// Whether the events of the response are sent as a JSON list.
enum List {
    No,
    /// If the response is a stream of events.
    IfStreamed,
    Yes(Box<ListFraming>),
}

impl<'a> PingoraDownstream<'a> {
    pub fn new(session: &'a mut Session) -> Self {
        Self { session, list: List::No }
    }

    /// Sends a stream of events as a JSON list if `is_list`, for Gemini's streams without `alt=sse`.
    pub fn with_list(self, is_list: bool) -> Self {
        Self { list: if is_list { List::IfStreamed } else { List::No }, ..self }
    }

    /// Sends `100 Continue` to a client that waits for it before it sends its body. The provider never gets the
    /// `Expect` header.
    ///
    /// # Errors
    /// The client has disconnected.
    pub async fn send_continue(&mut self) -> Result<(), Error> {
        if self.session.req_header().headers.contains_key(header::EXPECT) {
            let sent = self.session.downstream_session.write_continue_response().await;
            sent.map_err(|_| Error::client_closed())?;
        }
        Ok(())
    }
}

impl Downstream for PingoraDownstream<'_> {
    fn request(&self) -> &RequestHeader {
        self.session.req_header()
    }

    fn peer_address(&self) -> Option<IpAddr> {
        self.session.client_addr()?.as_inet().map(|address| address.ip())
    }

    fn body_is_complete(&mut self) -> bool {
        self.session.is_body_done()
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        match self.session.downstream_session.read_request_body().await {
            Ok(chunk) => Ok(chunk),
            Err(error) => {
                // The end of the body is unknown now, so what follows must not be parsed as a request.
                self.session.set_keepalive(None);
                Err(failure::translate(&error.into_down(), None))
            }
        }
    }

    async fn closed(&mut self) {
        match self.session.downstream_session.read_body_or_idle(true).await {
            // Nothing more can arrive.
            Ok(_) => std::future::pending::<()>().await,
            // Pingora's error for a client that sends more bytes, perhaps its next request. The client is still
            // connected and gets this response. The bytes are lost, so the connection cannot be reused.
            Err(error) if *error.etype() == ErrorType::ConnectError => {
                self.session.set_keepalive(None);
                std::future::pending::<()>().await;
            }
            Err(_) => {}
        }
    }

    async fn send(&mut self, mut parts: Vec<HttpTask>) -> Result<(), Error> {
        if self.session.req_header().method == Method::HEAD {
            parts = without_body(parts);
            if parts.is_empty() {
                return Ok(());
            }
        }
        if !matches!(self.list, List::No) {
            parts = parts.into_iter().map(|part| self.list.part(part)).collect();
        }
        let sent = self.session.write_response_tasks(parts).await;
        sent.map(|_| ()).map_err(|error| failure::translate(&error.into_down(), None))
    }

    fn sent_status(&self) -> Option<u16> {
        self.session.response_written().map(|header| header.status.as_u16())
    }

    fn close_after_response(&mut self) {
        self.session.set_keepalive(None);
    }
}

impl List {
    fn part(&mut self, part: HttpTask) -> HttpTask {
        match (&mut *self, part) {
            (List::IfStreamed, HttpTask::Header(mut header, false)) if is_event_stream(&header) => {
                *self = List::Yes(Box::default());
                edit_response_headers(&mut header, HeaderCase::Lower, |headers| {
                    headers.insert(header::CONTENT_TYPE, LIST_TYPE);
                });
                HttpTask::Header(header, false)
            }
            (List::Yes(framing), HttpTask::Body(bytes, is_end)) => {
                let mut out = Vec::new();
                framing.push(&bytes.unwrap_or_default(), &mut out);
                if is_end {
                    framing.finish(&mut out);
                }
                HttpTask::Body(Some(Bytes::from(out)), is_end)
            }
            (_, part) => part,
        }
    }
}

/// The content type of Google's lists.
const LIST_TYPE: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");

fn is_event_stream(header: &ResponseHeader) -> bool {
    let kind = header.headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// The response to HEAD: its header, and the end.
fn without_body(parts: Vec<HttpTask>) -> Vec<HttpTask> {
    let header = parts.into_iter().filter_map(|part| match part {
        HttpTask::Header(header, _) => Some(HttpTask::Header(header, true)),
        HttpTask::Failed(error) => Some(HttpTask::Failed(error)),
        _ => None,
    });
    header.collect()
}
