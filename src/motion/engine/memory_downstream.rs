//! A downstream in memory, without a connection: for requests that the gateway makes itself, and for tests.
//!
//! Its client never disconnects, unless whoever made it has it leave.

use super::downstream::Downstream;
use super::response_headers;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::protocols::http::HttpTask;
use std::net::IpAddr;
use tokio::sync::{mpsc, oneshot, watch};
use words::error::Error;

/// Status and headers of a response, before its body.
pub type ResponseHead = (StatusCode, HeaderMap);

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
    /// Where the client's connection comes from.
    address: Option<IpAddr>,
    /// Becomes true when the client leaves.
    leaves: Option<watch::Receiver<bool>>,
    /// Gets the head of a successful response, before its body.
    head: Option<oneshot::Sender<ResponseHead>>,
    /// Gets the body of a successful response.
    chunks: Option<mpsc::Sender<Bytes>>,
}

impl MemoryDownstream {
    /// `body`: the request's body, if it was not read before.
    pub fn new(request: RequestHeader, body: Option<Bytes>) -> Self {
        Self {
            request,
            body,
            response: None,
            response_body: Vec::new(),
            complete: false,
            limit: usize::MAX,
            address: None,
            leaves: None,
            head: None,
            chunks: None,
        }
    }

    /// One whose response is over: for the record of a request that no downstream has seen. `status`: of the response, if there was one.
    ///
    /// # Errors
    /// No header can be made of it.
    pub fn ended(method: &Method, path: &str, status: Option<StatusCode>) -> Result<Self, Error> {
        let internal = |why: Box<pingora_core::Error>| Error::internal(why.to_string());
        let request = RequestHeader::build(method.clone(), path.as_bytes(), None).map_err(internal)?;
        let response = status.map(response_headers::new_header).transpose()?;
        Ok(Self { response: response.map(Box::new), complete: true, ..Self::new(request, None) })
    }

    /// Takes at most `limit` bytes of the response's body; with more the request fails.
    #[must_use]
    pub const fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// The request is of a client whose connection comes from there.
    #[must_use]
    pub const fn with_address(mut self, address: Option<IpAddr>) -> Self {
        self.address = address;
        self
    }

    /// The client leaves when this becomes true.
    #[must_use]
    pub(crate) fn leaving_with(mut self, leaves: watch::Receiver<bool>) -> Self {
        self.leaves = Some(leaves);
        self
    }

    /// The body of a successful response is not kept, but sent there as it arrives. A receiver that is dropped is a client that left.
    #[must_use]
    pub(crate) fn with_chunks_to(mut self, chunks: Option<mpsc::Sender<Bytes>>) -> Self {
        self.chunks = chunks;
        self
    }

    /// Status and headers of a successful response are sent there before its body.
    #[must_use]
    pub(crate) fn with_head_to(mut self, head: Option<oneshot::Sender<ResponseHead>>) -> Self {
        self.head = head;
        self
    }

    /// Keeps the header of the response, and sends it where it is to go.
    fn begin(&mut self, header: Box<ResponseHeader>) {
        if header.status.is_success()
            && let Some(head) = self.head.take()
        {
            // Without a receiver the first chunk ends the request.
            let _ = head.send((header.status, header.headers.clone()));
        }
        self.response = Some(header);
    }

    /// Keeps a chunk of the response's body, or sends it where it is to go.
    async fn take(&mut self, chunk: Bytes) -> Result<(), Error> {
        let is_success = self.response.as_ref().is_some_and(|header| header.status.is_success());
        if let Some(chunks) = self.chunks.as_ref().filter(|_| is_success) {
            return chunks.send(chunk).await.map_err(|_| Error::client_closed());
        }
        self.limit = self
            .limit
            .checked_sub(chunk.len())
            .ok_or_else(|| Error::invalid_response("The provider's answer is too long.", "over the limit"))?;
        self.response_body.push(chunk);
        Ok(())
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

    fn peer_address(&self) -> Option<IpAddr> {
        self.address
    }

    fn body_is_complete(&mut self) -> bool {
        self.body.is_none()
    }

    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        Ok(self.body.take())
    }

    async fn closed(&mut self) {
        if let Some(leaves) = &mut self.leaves
            && leaves.wait_for(|leaves| *leaves).await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    async fn send(&mut self, parts: Vec<HttpTask>) -> Result<(), Error> {
        for part in parts {
            self.complete |= part.is_end();
            match part {
                HttpTask::Header(header, _) => self.begin(header),
                HttpTask::Body(Some(chunk), _) if !chunk.is_empty() => self.take(chunk).await?,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn downstream(status: StatusCode, chunks: Option<mpsc::Sender<Bytes>>) -> MemoryDownstream {
        let request = RequestHeader::build("GET", b"/", None).unwrap();
        let mut downstream = MemoryDownstream::new(request, None).with_limit(4).with_chunks_to(chunks);
        downstream.response = Some(Box::new(ResponseHeader::build(status, None).unwrap()));
        downstream
    }

    fn body(text: &'static str) -> Vec<HttpTask> {
        vec![HttpTask::Body(Some(Bytes::from_static(text.as_bytes())), false)]
    }

    #[tokio::test]
    async fn a_successful_body_goes_to_its_reader_and_any_other_is_kept() {
        let (sender, mut reader) = mpsc::channel(1);
        let mut good = downstream(StatusCode::OK, Some(sender.clone()));
        good.send(body("longer than the limit")).await.unwrap();
        assert_eq!(reader.recv().await.unwrap(), "longer than the limit");
        let mut bad = downstream(StatusCode::BAD_REQUEST, Some(sender));
        bad.send(body("bad")).await.unwrap();
        assert!(reader.try_recv().is_err());
        assert_eq!(bad.into_response().unwrap().1, ["bad"]);
        drop(reader);
        assert!(good.send(body("more")).await.is_err(), "nobody reads it any more");
    }

    #[tokio::test]
    async fn the_head_of_a_success_goes_before_its_body_and_any_other_does_not() {
        let send = async |status: u16| {
            let (sender, head) = oneshot::channel();
            let request = RequestHeader::build("GET", b"/", None).unwrap();
            let mut downstream = MemoryDownstream::new(request, None).with_head_to(Some(sender));
            let mut header = ResponseHeader::build(status, None).unwrap();
            header.insert_header("x-a", "b").unwrap();
            downstream.send(vec![HttpTask::Header(Box::new(header), false)]).await.unwrap();
            assert_eq!(downstream.sent_status(), Some(status));
            drop(downstream);
            head.await.ok().map(|(status, headers)| (status.as_u16(), headers["x-a"].clone()))
        };
        assert_eq!(send(246).await.unwrap(), (246, "b".parse().unwrap()));
        assert_eq!(send(446).await, None);
    }

    #[tokio::test]
    async fn a_kept_body_has_its_limit() {
        let mut kept = downstream(StatusCode::OK, None);
        kept.send(body("1234")).await.unwrap();
        assert!(kept.send(body("5")).await.is_err());
    }
}
