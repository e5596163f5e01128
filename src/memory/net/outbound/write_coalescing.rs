//! Sends the header and the first body write of a small request in one write.
//!
//! Pingora flushes a request's header before it takes the body: two writes, two packets, and the provider is woken for
//! a header it can do nothing with. [`CoalescedWrite`] holds the header until the first body write, for bodies of at
//! most 16 KiB that follow immediately. Reads and all later writes pass through.
//!
//! Example: `write(header)`, `flush()`, `write(body)`, `flush()` become one write of header and body at the second
//! flush.

use async_trait::async_trait;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, Stream,
    TimingDigest, UniqueID, UniqueIDType,
};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The largest body that is coalesced, bytes: a larger one is not worth the copy.
const MAX_COALESCED: usize = 16 << 10;

/// Enough for most headers, bytes.
const HEADER_CAPACITY: usize = 1 << 10;

/// A stream that may hold back the request header.
#[derive(Debug)]
pub(crate) struct CoalescedWrite {
    stream: Stream,
    buffered: Vec<u8>,
    sent: usize,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The header is being written.
    Header,
    /// The header was flushed; the next write is the body.
    Body,
    /// Nothing is held back any more.
    Passthrough,
}

impl CoalescedWrite {
    /// `body`: how many bytes follow the header immediately.
    pub fn new(stream: Stream, body: usize) -> Self {
        let stage = if body == 0 || body > MAX_COALESCED { Stage::Passthrough } else { Stage::Header };
        let buffered = match stage {
            Stage::Passthrough => Vec::new(),
            _ => Vec::with_capacity(HEADER_CAPACITY + body),
        };
        Self { stream, buffered, sent: 0, stage }
    }

    /// The connection itself, for the next request.
    pub fn into_inner(self) -> Stream {
        self.stream
    }

    /// Writes what was held back.
    fn poll_send_buffered(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some(rest) = self.buffered.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(Error::from(ErrorKind::WriteZero))),
                written => self.sent += written,
            }
        }
        self.buffered.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for CoalescedWrite {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for CoalescedWrite {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        if self.stage == Stage::Header || (self.stage == Stage::Body && bytes.len() <= MAX_COALESCED) {
            self.buffered.extend_from_slice(bytes);
            if self.stage == Stage::Body {
                self.stage = Stage::Passthrough;
            }
            return Poll::Ready(Ok(bytes.len()));
        }
        self.stage = Stage::Passthrough;
        ready!(self.poll_send_buffered(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.stage == Stage::Header {
            self.stage = Stage::Body;
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_send_buffered(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.poll_send_buffered(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        if self.stage != Stage::Passthrough {
            let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
            return self.poll_write(cx, first);
        }
        ready!(self.poll_send_buffered(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stage == Stage::Passthrough && self.stream.is_write_vectored()
    }
}

#[async_trait]
impl Shutdown for CoalescedWrite {
    async fn shutdown(&mut self) {
        self.stream.shutdown().await;
    }
}

impl UniqueID for CoalescedWrite {
    fn id(&self) -> UniqueIDType {
        self.stream.id()
    }
}

// Nothing reads the values below while a request is in flight, and Pingora would copy them for each request.

impl Ssl for CoalescedWrite {}

impl Peek for CoalescedWrite {}

impl GetTimingDigest for CoalescedWrite {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for CoalescedWrite {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for CoalescedWrite {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    /// Writes a request as Pingora does. Returns how many bytes were sent before the body was written, and all bytes.
    async fn sent(body: usize) -> (usize, Vec<u8>) {
        let (near, mut far) = duplex(1 << 20);
        let mut stream = CoalescedWrite::new(Box::new(near), body);
        stream.write_all(b"POST / HTTP/1.1\r\n\r\n").await.unwrap();
        stream.flush().await.unwrap();
        let mut early = vec![0; 64];
        let early = tokio::select! {
            biased;
            read = far.read(&mut early) => { early.truncate(read.unwrap()); early }
            () = std::future::ready(()) => Vec::new(),
        };
        stream.write_all(&vec![b'x'; body]).await.unwrap();
        stream.flush().await.unwrap();
        stream.write_all(b"more").await.unwrap();
        stream.flush().await.unwrap();
        drop(stream);
        let mut all = early.clone();
        far.read_to_end(&mut all).await.unwrap();
        (early.len(), all)
    }

    #[tokio::test]
    async fn a_small_body_is_sent_with_its_header_and_bytes_keep_their_order() {
        for (body, coalesced) in
            [(1, true), (500, true), (MAX_COALESCED, true), (MAX_COALESCED + 1, false), (0, false)]
        {
            let (early, all) = sent(body).await;
            assert_eq!(early == 0, coalesced, "{body}");
            let mut whole = b"POST / HTTP/1.1\r\n\r\n".to_vec();
            whole.extend(vec![b'x'; body]);
            whole.extend(b"more");
            assert!(all == whole, "{body}");
        }
    }

    #[tokio::test]
    async fn a_body_larger_than_announced_still_follows_its_header() {
        let (near, mut far) = duplex(1 << 20);
        let mut stream = CoalescedWrite::new(Box::new(near), 10);
        stream.write_all(b"head").await.unwrap();
        stream.flush().await.unwrap();
        stream.write_all(&vec![b'x'; MAX_COALESCED + 1]).await.unwrap();
        stream.flush().await.unwrap();
        drop(stream);
        let mut all = String::new();
        far.read_to_string(&mut all).await.unwrap();
        assert!(all.starts_with("headxxx") && all.len() == 4 + MAX_COALESCED + 1);
    }
}
