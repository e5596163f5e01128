//! The data listener: takes a raw connection, reads a whole request head within a deadline, and only then passes it to
//! the proxy.
//!
//! Pingora's own loop allows a full read timeout for every byte of a head, so a client that sends one byte a minute
//! holds a connection forever; and it peeks for 24 bytes, so a shorter request hangs. Here the whole head has one
//! deadline and one size limit. HTTP/2 is passed to Pingora when its preface is read. Does not parse the head.
//!
//! `set_pipelined_prefix` (HTTP/1) or `rewind` (HTTP/2) puts the head back for Pingora to read again.

use super::{Gateway, fast_path, first_bytes, raw_head};
use async_trait::async_trait;
use bytes::BytesMut;
use http::header::ORIGIN;
use http::{HeaderMap, HeaderValue};
use memory::net::inbound::one_request::OneRequest;
use memory::state::Shared;
use memory::state::connection_count::ConnectionGuard;
use motion::engine::cors;
use motion::engine::reusable_timer::ReusableTimer;
use pingora_core::apps::{HttpServerApp, ServerApp};
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::l4::stream::Stream as Socket;
use pingora_core::protocols::{ALPN, Stream};
use pingora_core::server::ShutdownWatch;
use pingora_proxy::{HttpProxy, Session};
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use words::api::Dialect;
use words::api::error_body::ErrorView;
use words::error::Error;

const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Initial buffer size for a head, bytes. Most heads fit; for larger ones it grows up to the limit.
const FIRST_READ: usize = 4096;
/// The most headers that Pingora's parser reads.
const MAX_HEADERS: usize = 256;
/// The most connections beyond the limit that get a response at a time.
const MAX_REFUSALS: usize = 64;
/// How long a refused client may take to read the error.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Pingora's `ServerApp` for one data listener.
pub struct DownstreamApp {
    proxy: Arc<HttpProxy<Gateway>>,
    /// The same gateway, for requests that do not need Pingora's loop.
    gateway: Gateway,
    shared: Arc<Shared>,
    /// Whether this listener accepts HTTP/2 without TLS (h2c with prior knowledge).
    h2c: bool,
}

/// The result of waiting for a request head.
enum ReadHead {
    /// A whole head, perhaps followed by the first part of the body.
    Whole(BytesMut),
    /// The HTTP/2 preface, perhaps followed by more.
    Http2(BytesMut),
    /// The client disconnected, or sent nothing for the idle time.
    Gone,
    /// The client gets this error, then the connection closes. With what was read of the head.
    Refused(Error, BytesMut),
}

impl DownstreamApp {
    /// `gateway`: the one that `proxy` was made from.
    pub fn new(proxy: Arc<HttpProxy<Gateway>>, gateway: Gateway, h2c: bool) -> Self {
        let shared = Arc::clone(&gateway.engine.shared);
        Self { proxy, gateway, shared, h2c }
    }

    /// The headers of CORS for a refused request, as far as its origin was read.
    fn cors_lines(&self, read: &[u8]) -> String {
        let settings = self.shared.settings();
        let cors = settings.settings.cors.as_ref();
        let origin =
            raw_head::header(read, b"origin").and_then(|origin| HeaderValue::from_bytes(origin).ok());
        let request: HeaderMap = origin.map(|origin| (ORIGIN, origin)).into_iter().collect();
        let mut headers = HeaderMap::new();
        cors::write(&mut headers, cors, cors::allowed_origin(cors, &request).as_ref());
        let lines =
            headers.iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap_or_default()));
        lines.collect()
    }

    /// Counts the connection, or refuses it if there are too many.
    fn admit_connection(&self) -> Result<ConnectionGuard, Error> {
        let max_connections = self.shared.max_connections();
        let guard = self.shared.connections.enter(max_connections);
        guard.ok_or_else(|| Error::too_many_connections(max_connections))
    }

    /// Refuses a connection beyond the limit. Only some of them are told why at a time: a response takes a descriptor
    /// and time, and these are what is short.
    async fn refuse_connection(&self, stream: Stream, error: &Error) {
        match self.shared.refused_connections.enter(MAX_REFUSALS) {
            Some(_guard) => self.refuse(stream, error, b"").await,
            None => self.shared.metrics.record_error(error.kind),
        }
    }

    /// Waits for the next head: for its first byte at most the idle time, for the rest until the header deadline. `begun`:
    /// what was read of it together with the request before.
    async fn read_head(
        &self,
        stream: &mut Stream,
        timer: &mut ReusableTimer,
        begun: Option<BytesMut>,
    ) -> ReadHead {
        let (idle, deadline, limit) = {
            let limits = &self.shared.settings().settings.limits;
            (limits.idle_timeout, limits.header_timeout, limits.max_header_bytes)
        };
        let is_first = begun.is_none();
        let mut head = begun.unwrap_or_else(|| BytesMut::with_capacity(FIRST_READ));
        if is_first
            && !matches!(timer.timeout(idle, stream.read_buf(&mut head)).await, Some(Ok(read)) if read > 0)
        {
            return ReadHead::Gone;
        }
        // Nearly always the first read has the whole head; then the header deadline needs no timer.
        if head.len() <= limit
            && head.first().is_some_and(u8::is_ascii_uppercase)
            && !head.starts_with(b"PRI")
            && let Some(end) = raw_head::end(&head)
        {
            return whole_head(head, end);
        }
        let rest = self.rest_of_head(stream, &mut head, limit);
        match timeout(deadline, rest).await {
            Ok(read) => read,
            Err(_) => {
                let message = format!(
                    "The request head did not arrive within {} ms. Send it faster, or ask the operator to raise \
                     limits.header_timeout_ms.",
                    deadline.as_millis()
                );
                ReadHead::Refused(Error::slow_client(message), head)
            }
        }
    }

    /// Takes `head` with what it returns.
    async fn rest_of_head(&self, stream: &mut Stream, head: &mut BytesMut, limit: usize) -> ReadHead {
        loop {
            if let Some(error) = first_bytes::refusal(head) {
                return ReadHead::Refused(error, take(head));
            }
            let may_be_h2 = self.h2c && H2_PREFACE.starts_with(head.get(..H2_PREFACE.len()).unwrap_or(head));
            if may_be_h2 && head.len() >= H2_PREFACE.len() {
                return ReadHead::Http2(take(head));
            }
            let end = if may_be_h2 { None } else { raw_head::end(head) };
            if end.unwrap_or(head.len()) > limit {
                return ReadHead::Refused(Error::headers_too_large(limit as u64), take(head));
            }
            if let Some(end) = end {
                return whole_head(take(head), end);
            }
            match stream.read_buf(head).await {
                Ok(read) if read > 0 => {}
                _ => return ReadHead::Gone,
            }
        }
    }

    /// Serves one request on an HTTP/1 connection. Returns the connection if it can carry another request, and what was
    /// read of that one: clients may send requests without waiting for responses (RFC 9112, 9.3.2).
    async fn serve_one(
        &self,
        stream: Stream,
        mut head: BytesMut,
        shutdown: &ShutdownWatch,
    ) -> Option<(Stream, Option<BytesMut>)> {
        if fast_path::applies_to(&head) {
            let mut session = Session::new_h1(stream);
            self.prepare(&mut session.downstream_session, head, shutdown);
            session.downstream_session.set_pipelining_enabled(true);
            return fast_path::serve(&self.gateway, session).await;
        }
        // Pingora's loop does not hand over what it has read of the next request: it gets this one alone. Where its end is not known,
        // the response says that the connection is closed.
        let end = raw_head::end(&head).unwrap_or(head.len());
        let own = head.get(..end).unwrap_or_default();
        let may_upgrade = raw_head::may_upgrade(own);
        let Some(length) = raw_head::body_length(own) else {
            let mut session = ServerSession::new_http1(stream);
            self.prepare(&mut session, head, shutdown);
            if !may_upgrade {
                session.set_pipelining_enabled(true);
                session.set_keepalive_reuses_remaining(Some(0));
            }
            let (stream, _) = self.proxy.process_new_http(session, shutdown).await?.consume();
            return Some((stream, None));
        };
        let next = head.split_off(end.saturating_add(length).min(head.len()));
        let left = length.saturating_sub(head.len().saturating_sub(end));
        let one_request = OneRequest::new(stream, u64::try_from(left).unwrap_or(u64::MAX), next);
        let mut session = ServerSession::new_http1(Box::new(one_request));
        self.prepare(&mut session, head, shutdown);
        let (stream, _) = self.proxy.process_new_http(session, shutdown).await?.consume();
        let (stream, next) = stream.into_any().downcast::<OneRequest>().ok()?.into_parts();
        Some((stream, (!next.is_empty()).then_some(next)))
    }

    /// Sets the session's timeouts, and gives it the head that was read.
    fn prepare(&self, session: &mut ServerSession, head: BytesMut, shutdown: &ShutdownWatch) {
        let (idle, read, write) = {
            let limits = &self.shared.settings().settings.limits;
            (limits.idle_timeout, limits.body_timeout, limits.write_timeout)
        };
        session.set_keepalive(if *shutdown.borrow() { None } else { Some(idle.as_secs().max(1)) });
        session.set_read_timeout(Some(read));
        session.set_write_timeout(Some(write));
        session.set_pipelined_prefix(head);
    }

    /// Sends `error` and closes the connection. There is no request yet, so the dialect is OpenAI's. `read`: what was read of
    /// the head.
    async fn refuse(&self, mut stream: Stream, error: &Error, read: &[u8]) {
        let trace_id = motion::engine::request_span::new_trace_id();
        self.shared.metrics.record_error(error.kind);
        let body = ErrorView::from(error).body(Dialect::OpenAi);
        let status = http::StatusCode::from_u16(error.status()).unwrap_or(http::StatusCode::BAD_REQUEST);
        let retry_after = error.retry_after().map(|seconds| format!("retry-after: {seconds}\r\n"));
        let never = if error.is_final() { "x-should-retry: false\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{}{never}{}\
             x-request-id: {trace_id}\r\nx-gateway-trace-id: {trace_id}\r\nconnection: close\r\n\r\n",
            body.len(),
            retry_after.unwrap_or_default(),
            self.cors_lines(read)
        );
        let reason = error.kind.row().code;
        log::info!(target: "turnpike", "refused a connection before its request: {reason}: {} trace_id={trace_id}", error.message);
        let _ = timeout(REFUSAL_TIMEOUT, async {
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await?;
            stream.flush().await?;
            stream.shutdown().await?;
            // Closing with unread bytes would reset the connection, and the client could lose the response.
            let mut rest = [0u8; 1024];
            while stream.read(&mut rest).await? > 0 {}
            std::io::Result::Ok(())
        })
        .await;
    }
}

#[async_trait]
impl ServerApp for DownstreamApp {
    async fn process_new(self: &Arc<Self>, mut stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let _guard = match self.admit_connection() {
            Ok(guard) => guard,
            Err(error) => {
                self.refuse_connection(stream, &error).await;
                return None;
            }
        };
        self.shared.data_runtimes.enter();
        if stream.selected_alpn_proto() == Some(ALPN::H2) {
            return self.proxy.process_new(stream, shutdown).await;
        }
        let mut timer = ReusableTimer::default();
        let mut begun = None;
        loop {
            match self.read_head(&mut stream, &mut timer, begun.take()).await {
                ReadHead::Whole(head) => (stream, begun) = self.serve_one(stream, head, shutdown).await?,
                ReadHead::Http2(read) => {
                    // Pingora reads the preface itself, so the bytes are put back on the socket.
                    let mut socket = stream.into_any().downcast::<Socket>().ok()?;
                    socket.rewind(&read);
                    return self.proxy.process_new(socket, shutdown).await;
                }
                ReadHead::Gone => return None,
                ReadHead::Refused(error, read) => {
                    self.refuse(stream, &error, &read).await;
                    return None;
                }
            }
        }
    }

    async fn cleanup(&self) {
        self.proxy.http_cleanup().await;
    }
}

/// A head that ends at `end`, unless it has too many headers for the parser.
fn whole_head(head: BytesMut, end: usize) -> ReadHead {
    // The shortest header has three bytes, so most heads need not be counted.
    if end > MAX_HEADERS * 3 && raw_head::header_count(head.get(..end).unwrap_or_default()) > MAX_HEADERS {
        ReadHead::Refused(Error::too_many_headers(MAX_HEADERS), head)
    } else {
        ReadHead::Whole(head)
    }
}
