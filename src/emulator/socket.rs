//! One accepted connection: the socket that hyper reads and writes, and what a script does to it.
//!
//! hyper does the HTTP. This layer can end a connection in ways no HTTP server would, and it keeps the
//! request's header section as received (hyper lower-cases header names).

use super::state::State;
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How to close the socket abnormally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionAbort {
    /// TCP reset.
    Reset = 1,
    /// Bytes that are not HTTP, then a close.
    Garbage = 2,
    /// A status line and half a header, then a close.
    HalfHead = 3,
}

/// A longer header section is not kept.
const MAX_HEAD: usize = 16 * 1024;

/// What the requests of a connection share with its socket.
#[derive(Debug)]
pub(super) struct ConnectionHandle {
    /// 1 for the first connection of the process.
    pub(super) number: u64,
    abort: AtomicU8,
    /// The first bytes read since the last response ended.
    received: Mutex<Vec<u8>>,
}

impl ConnectionHandle {
    pub(super) fn new(number: u64) -> Self {
        Self { number, abort: AtomicU8::new(0), received: Mutex::new(Vec::new()) }
    }

    /// Sets how the socket is closed once hyper drops it.
    pub(super) fn abort_with(&self, abort: ConnectionAbort) {
        self.abort.store(abort as u8, Ordering::Relaxed);
    }

    /// A response has ended: the next bytes belong to the next request.
    pub(super) fn next_request(&self) {
        self.received.lock().clear();
    }

    /// The headers of the request in their original order and spelling, if known.
    pub(super) fn headers(&self, method: &str) -> Option<Vec<(String, String)>> {
        let received = self.received.lock();
        let end = memchr::memmem::find(&received, b"\r\n\r\n")?;
        let parts = String::from_utf8_lossy(received.get(..end)?);
        let mut lines = parts.split("\r\n");
        // After an unread body or with pipelining, the bytes may not start with this request.
        lines.next()?.strip_prefix(method)?.starts_with(' ').then_some(())?;
        lines
            .map(|line| line.split_once(':').map(|(name, value)| (name.into(), value.trim().into())))
            .collect()
    }

    fn keep_received(&self, bytes: &[u8]) {
        let mut received = self.received.lock();
        let room = MAX_HEAD.saturating_sub(received.len()).min(bytes.len());
        received.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

/// The socket.
pub(super) struct Socket {
    tcp: TcpStream,
    connection: Arc<ConnectionHandle>,
    state: Arc<State>,
}

impl Socket {
    pub(super) fn new(tcp: TcpStream, connection: Arc<ConnectionHandle>, state: Arc<State>) -> Self {
        Self { tcp, connection, state }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.state.stats.disconnected();
        let abort = self.connection.abort.load(Ordering::Relaxed);
        // Errors do not matter: the client may have disconnected already.
        let _ = match abort {
            f if f == ConnectionAbort::Reset as u8 => self.tcp.set_zero_linger(),
            f if f == ConnectionAbort::Garbage as u8 => {
                self.tcp.try_write(b"\x16\x03\x01 this is not HTTP\r\n\r\n").map(drop)
            }
            f if f == ConnectionAbort::HalfHead as u8 => {
                self.tcp.try_write(b"HTTP/1.1 200 OK\r\nContent-Ty").map(drop)
            }
            _ => Ok(()),
        };
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
        self.connection.keep_received(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}
