//! Where a request comes from and its response goes to, as the engine sees it: a Pingora session, or memory.
//!
//! Not what is sent: parts of a response are made elsewhere and go out in batches, one write each.

use crate::error::Error;
use bytes::Bytes;
use pingora::http::RequestHeader;
use pingora_core::protocols::http::HttpTask;
use std::net::IpAddr;

/// The client of one request.
pub trait Downstream: Send {
    /// The request as the client sent it.
    fn request(&self) -> &RequestHeader;

    /// `None` where there is no connection.
    fn client_address(&self) -> Option<IpAddr>;

    /// Whether nothing more of the request's body is to be read.
    fn body_is_complete(&mut self) -> bool;

    /// The next chunk of the request's body; `None` at its end. May be dropped while it waits.
    ///
    /// # Errors
    /// The client's connection: too slow, malformed, closed.
    fn next_chunk(&mut self) -> impl Future<Output = Result<Option<Bytes>, Error>> + Send;

    /// Returns when a client whose body is complete has gone away. May be dropped while it waits.
    fn closed(&mut self) -> impl Future<Output = ()> + Send;

    /// Sends a batch of response parts with one write.
    ///
    /// # Errors
    /// The client's connection.
    fn send(&mut self, parts: Vec<HttpTask>) -> impl Future<Output = Result<(), Error>> + Send;

    /// The status of the response header that was sent, once one was.
    fn sent_status(&self) -> Option<u16>;

    /// No other request may follow on this connection.
    fn close_after_response(&mut self);
}

/// The response ends here, complete or not, and the client's connection must be closed. Why is in the context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aborted;
