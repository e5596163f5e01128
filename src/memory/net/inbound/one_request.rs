//! A client's connection as one request sees it: what follows the request waits here for the next one.
//!
//! Pingora watches the connection while a request is served, to notice that the client leaves. What it reads then is the beginning of the
//! next request, and Pingora ends the one that is served. [`OneRequest`] lets it read the bytes of its own request, and keeps what
//! follows. The end of the connection passes through. Writes do too. Does not parse: the length is an argument.

use async_trait::async_trait;
use bytes::BytesMut;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::SslDigest;
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream,
    TimingDigest, UniqueID, UniqueIDType,
};
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

/// The most that is read of the requests that follow, bytes. Beyond it the end of the connection is noticed later.
const MAX_AHEAD: usize = 64 << 10;
/// The size of one read, bytes.
const READ: usize = 2 << 10;

/// A connection whose reader gets one request.
#[derive(Debug)]
pub struct OneRequest {
    request: Take<Stream>,
    next: BytesMut,
}

impl OneRequest {
    /// `left`: how many bytes of the request are still to be read. `next`: what was read already of what follows it.
    pub fn new(stream: Stream, left: u64, next: BytesMut) -> Self {
        Self { request: stream.take(left), next }
    }

    /// The connection itself, and what was read of the next request.
    pub fn into_parts(self) -> (Stream, BytesMut) {
        (self.request.into_inner(), self.next)
    }

    fn stream(&mut self) -> Pin<&mut Stream> {
        Pin::new(self.request.get_mut())
    }
}

impl AsyncRead for OneRequest {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if self.request.limit() > 0 {
            return Pin::new(&mut self.request).poll_read(cx, into);
        }
        while self.next.len() < MAX_AHEAD {
            let mut bytes = [0; READ];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(self.stream().poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.next.extend_from_slice(read.filled());
        }
        Poll::Pending
    }
}

impl AsyncWrite for OneRequest {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.stream().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.stream().poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.request.get_ref().is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for OneRequest {
    async fn shutdown(&mut self) {
        self.request.get_mut().shutdown().await;
    }
}

impl UniqueID for OneRequest {
    fn id(&self) -> UniqueIDType {
        self.request.get_ref().id()
    }
}

impl Ssl for OneRequest {
    fn get_ssl_digest(&self) -> Option<Arc<SslDigest>> {
        self.request.get_ref().get_ssl_digest()
    }

    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.request.get_ref().selected_alpn_proto()
    }
}

impl Peek for OneRequest {}

impl GetTimingDigest for OneRequest {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        self.request.get_ref().get_timing_digest()
    }
}

impl GetProxyDigest for OneRequest {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        self.request.get_ref().get_proxy_digest()
    }
}

impl GetSocketDigest for OneRequest {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        self.request.get_ref().get_socket_digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncWriteExt, duplex};

    #[tokio::test]
    async fn the_request_is_read_and_what_follows_is_kept() {
        let (near, mut far) = duplex(1 << 20);
        let mut stream = OneRequest::new(Box::new(near), 4, BytesMut::new());
        far.write_all(b"bodyGET ").await.unwrap();
        let mut read = [0; 16];
        assert_eq!(stream.read(&mut read).await.unwrap(), 4);
        assert_eq!(&read[..4], b"body");
        assert!(stream.read(&mut read).now_or_never().is_none());
        far.write_all(b"/livez").await.unwrap();
        assert!(stream.read(&mut read).now_or_never().is_none());
        stream.write_all(b"response").await.unwrap();
        assert_eq!(far.read(&mut read).await.unwrap(), 8);
        drop(far);
        assert_eq!(stream.read(&mut read).await.unwrap(), 0, "the client has left");
        assert_eq!(stream.into_parts().1, "GET /livez");
    }

    #[tokio::test]
    async fn what_is_kept_is_bounded() {
        let (near, mut far) = duplex(1 << 20);
        let mut stream = OneRequest::new(Box::new(near), 0, BytesMut::from(&b"GET"[..]));
        far.write_all(&vec![b'x'; 1 << 20]).await.unwrap();
        assert!(stream.read(&mut [0; 1]).now_or_never().is_none());
        let kept = stream.into_parts().1;
        assert!((MAX_AHEAD..MAX_AHEAD + READ).contains(&kept.len()) && kept.starts_with(b"GETx"));
    }
}
