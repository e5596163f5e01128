//! A downstream in memory, without a connection: for requests that the gateway makes itself, and for tests.
//!
//! Its client never disconnects.

use super::downstream::Downstream;
use crate::error::Error;
use bytes::Bytes;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::protocols::http::HttpTask;
use std::net::IpAddr;

/// A request, and its response as far as it was sent.
#[derive(Debug)]
pub struct MemoryDownstream {
    request: RequestHeader,
    body: Option<Bytes>,
    response: Option<Box<ResponseHeader>>,
    response_body: Vec<Bytes>,
    complete: bool,
    /// The most bytes of a response's body that are kept.
    limit: usize,
}

impl MemoryDownstream {
    /// `body`: the request's body, if it was not read before.
    pub fn new(request: RequestHeader, body: Option<Bytes>) -> Self {
        Self { request, body, response: None, response_body: Vec::new(), complete: false, limit: usize::MAX }
    }

    /// Takes at most `limit` bytes of the response's body; with more the request fails.
    #[must_use]
    pub const fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The response's header, its body chunks, and whether it is complete; `None` if there is no response.
    pub fn into_response(self) -> Option<(Box<ResponseHeader>, Vec<Bytes>, bool)> {
        Some((self.response?, self.response_body, self.complete))
    }
}

impl Downstream for MemoryDownstream {
    fn request(&self) -> &RequestHeader {
        &self.request
    }

    fn client_address(&self) -> Option<IpAddr> {
        None
    }

    fn body_is_complete(&mut self) -> bool {
        self.body.is_none()
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(self.body.take())
    }

    async fn closed(&mut self) {
        std::future::pending::<()>().await;
    }

    async fn send(&mut self, parts: Vec<HttpTask>) -> Result<(), Error> {
        for part in parts {
            self.complete |= part.is_end();
            match part {
                HttpTask::Header(header, _) => self.response = Some(header),
                HttpTask::Body(Some(chunk), _) if !chunk.is_empty() => {
                    self.limit = self.limit.checked_sub(chunk.len()).ok_or_else(|| {
                        Error::invalid_response("The provider's answer is too long.", "over the limit")
                    })?;
                    self.response_body.push(chunk);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn sent_status(&self) -> Option<u16> {
        self.response.as_ref().map(|header| header.status.as_u16())
    }

    fn close_after_response(&mut self) {}
}
