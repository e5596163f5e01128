//! The body type of every response: whole, played event by event, or axum's (an upgrade).
//!
//! It owns the [`RequestGuard`], so that the log learns how the response ended: if hyper drops the body
//! before its end, the client has disconnected.

use super::playback::Playback;
use super::request_guard::{Ended, RequestGuard};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Drops the connection without another byte. hyper does so when a service or a body returns an error.
#[derive(Debug)]
pub(super) struct Disconnect;

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the emulator drops the connection: its script says so, or the client disconnected")
    }
}

impl std::error::Error for Disconnect {}

/// A response body.
pub(super) struct Body {
    kind: Kind,
    guard: Option<RequestGuard>,
}

enum Kind {
    Whole(Bytes),
    Played(Box<Playback>),
    Upgrade(axum::body::Body),
}

impl Body {
    pub(super) fn whole(bytes: Bytes, guard: Option<RequestGuard>) -> Self {
        let mut body = Self { kind: Kind::Whole(bytes), guard };
        // hyper never polls an empty body for a frame.
        if body.is_end_stream() {
            body.end(Ended::Complete);
        }
        body
    }

    pub(super) fn played(playback: Playback, guard: RequestGuard) -> Self {
        Self { kind: Kind::Played(Box::new(playback)), guard: Some(guard) }
    }

    pub(super) fn upgrade(body: axum::body::Body) -> Self {
        Self { kind: Kind::Upgrade(body), guard: None }
    }

    fn end(&mut self, ended: Ended) {
        if let Some(guard) = self.guard.take() {
            guard.end(ended);
        }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Disconnect;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Disconnect>>> {
        let next = match &mut self.kind {
            Kind::Whole(bytes) if bytes.is_empty() => None,
            Kind::Whole(bytes) => Some(Ok(std::mem::take(bytes))),
            Kind::Played(playback) => {
                let next = ready!(playback.poll_next(cx));
                let sent = playback.contents();
                if let Some(guard) = &mut self.guard {
                    guard.sent(sent);
                }
                next
            }
            Kind::Upgrade(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                return Poll::Ready(frame.map(|frame| frame.map_err(|_| Disconnect)));
            }
        };
        match &next {
            None => self.end(Ended::Complete),
            Some(Err(Disconnect)) => self.end(Ended::Fault),
            Some(Ok(_)) if self.is_end_stream() => self.end(Ended::Complete),
            Some(Ok(_)) => {}
        }
        Poll::Ready(next.map(|next| next.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Played(playback) => playback.left() == Some(0),
            Kind::Upgrade(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Played(playback) => playback.left().map(SizeHint::with_exact).unwrap_or_default(),
            Kind::Upgrade(body) => body.size_hint(),
        }
    }
}
