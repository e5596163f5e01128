//! The engine's view of a client: where a request comes from and its response goes to. A Pingora session, or memory.
//!
//! Does not make the response: its parts are made elsewhere and sent in batches, one write each.
//!
//! `proxy::downstream` is a Pingora session, and the one file that writes to it; `memory_downstream` is memory, for requests of
//! the gateway's own. `tests/downstreams.rs` sends the same requests through both and compares response, record and metrics.

use bytes::Bytes;
use pingora::http::RequestHeader;
use pingora_core::protocols::http::HttpTask;
use std::net::IpAddr;
use words::error::Error;

/// The client of one request.
pub trait Downstream: Send {
    /// The request as the client sent it.
    fn request(&self) -> &RequestHeader;

    /// Where the connection comes from: the client, or the nearest proxy before it. `None` if the request came over no connection.
    fn peer_address(&self) -> Option<IpAddr>;

    /// Whether the request's body has been read to its end.
    fn body_is_complete(&mut self) -> bool;

    /// The next chunk of the request's body; `None` at its end. The future may be dropped while it waits.
    ///
    /// # Errors
    /// The client is too slow, sends malformed HTTP, or has disconnected.
    fn next_chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;

    /// Returns when the client has disconnected. Only for a request whose body is complete. The future may be dropped
    /// while it waits.
    fn closed(&mut self) -> impl Future<Output = ()> + Send;

    /// Sends a batch of response parts with one write.
    ///
    /// # Errors
    /// The client's connection failed.
    fn send(&mut self, parts: Vec<HttpTask>) -> impl Future<Output = Result<(), Error>> + Send;

    /// The status of the response header that was sent, once one was.
    fn sent_status(&self) -> Option<u16>;

    /// Closes the connection after this response: no other request may follow on it.
    fn close_after_response(&mut self);
}

/// The response ends here, complete or not, and the client's connection must be closed. The reason is in the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted;
