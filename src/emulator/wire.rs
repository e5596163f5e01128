//! One accepted connection: the socket hyper reads and writes, and what a script does to it.
//!
//! Not HTTP: hyper does that. This is where a connection can end as no HTTP server would end it, and where
//! the request's head is kept as it came (hyper lower-cases header names).

use super::state::State;
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How the socket is to be closed, other than politely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Farewell {
    /// TCP reset.
    Reset = 1,
    /// Bytes that are no HTTP, then a close.
    Garbage = 2,
    /// A status line and half a header, then a close.
    HalfHead = 3,
}

/// A request head longer than this is not kept.
const MAX_HEAD: usize = 16 * 1024;

/// What the requests of a connection share with its socket.
#[derive(Debug)]
pub(super) struct Line {
    /// 1 for the first connection of the process.
    pub(super) number: u64,
    farewell: AtomicU8,
    /// The first bytes read since the last answer ended.
    seen: Mutex<Vec<u8>>,
}

impl Line {
    pub(super) fn new(number: u64) -> Self {
        Self { number, farewell: AtomicU8::new(0), seen: Mutex::new(Vec::new()) }
    }

    /// Says how the socket shall be closed once hyper lets go of it.
    pub(super) fn end_with(&self, farewell: Farewell) {
        self.farewell.store(farewell as u8, Ordering::Relaxed);
    }

    /// An answer has ended: what comes now is the next head.
    pub(super) fn next(&self) {
        self.seen.lock().clear();
    }

    /// The headers of the request in the order and spelling they came in, when they are known.
    pub(super) fn headers(&self, method: &str) -> Option<Vec<(String, String)>> {
        let seen = self.seen.lock();
        let end = memchr::memmem::find(&seen, b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(seen.get(..end)?);
        let mut lines = head.split("\r\n");
        // After an unread body or pipelining the bytes may not start with this request's head.
        lines.next()?.strip_prefix(method)?.starts_with(' ').then_some(())?;
        lines
            .map(|line| line.split_once(':').map(|(name, value)| (name.into(), value.trim().into())))
            .collect()
    }

    fn keep(&self, bytes: &[u8]) {
        let mut seen = self.seen.lock();
        let room = MAX_HEAD.saturating_sub(seen.len()).min(bytes.len());
        seen.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

/// The socket.
pub(super) struct Wire {
    tcp: TcpStream,
    line: Arc<Line>,
    state: Arc<State>,
}

impl Wire {
    pub(super) fn new(tcp: TcpStream, line: Arc<Line>, state: Arc<State>) -> Self {
        Self { tcp, line, state }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.state.stats.disconnected();
        let farewell = self.line.farewell.load(Ordering::Relaxed);
        // The caller may be gone already; there is nobody to tell.
        let _ = match farewell {
            f if f == Farewell::Reset as u8 => self.tcp.set_zero_linger(),
            f if f == Farewell::Garbage as u8 => {
                self.tcp.try_write(b"\x16\x03\x01 this is not HTTP\r\n\r\n").map(drop)
            }
            f if f == Farewell::HalfHead as u8 => {
                self.tcp.try_write(b"HTTP/1.1 200 OK\r\nContent-Ty").map(drop)
            }
            _ => Ok(()),
        };
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buf))?;
        self.line.keep(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
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
