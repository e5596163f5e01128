//! A request's body as the form parser may read it: one piece at a time, and never far ahead of what it has handed out.
//!
//! `multer` reads until the body has nothing ready and keeps all of it: of a fast client a whole file would be in memory. And
//! it looks for the first boundary, and for the end of a field's headers, in a buffer without a limit.

use bytes::Bytes;
use futures_util::stream::Stream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use words::error::Error;

/// The most that the parser may hold without a result, and one piece of the body, bytes. Headers of a field take some hundreds.
const MAX_PENDING: usize = 16 * 1024;

/// How many bytes the parser has read since its last result. Cleared by who reads the form.
#[derive(Debug, Clone, Default)]
pub(super) struct Pending(Arc<AtomicUsize>);

impl Pending {
    pub(super) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The body.
pub(super) struct Paced<S> {
    body: Pin<Box<S>>,
    pending: Pending,
    /// The last poll gave a piece, so this one gives none.
    pauses: bool,
}

impl<S> Paced<S> {
    pub(super) fn new(body: S, pending: Pending) -> Self {
        Self { body: Box::pin(body), pending, pauses: false }
    }
}

impl<S> Stream for Paced<S>
where
    S: Stream<Item = Result<Bytes, Error>>,
{
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.pauses) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let pending = &this.pending.0;
        if pending.load(Ordering::Relaxed) > MAX_PENDING {
            let message = format!(
                "The form cannot be read: {MAX_PENDING} bytes without a boundary or the end of a field's headers. \
                 Its boundary may differ from that of Content-Type."
            );
            return Poll::Ready(Some(Err(Error::bad_request(message))));
        }
        let polled = this.body.as_mut().poll_next(context);
        if let Poll::Ready(Some(Ok(piece))) = &polled {
            pending.fetch_add(piece.len(), Ordering::Relaxed);
            this.pauses = true;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use std::task::Waker;

    #[test]
    fn a_body_that_is_always_ready_is_read_one_piece_at_a_time_and_not_without_end() {
        let pending = Pending::default();
        let mut body =
            Paced::new(stream::repeat_with(|| Ok(Bytes::from(vec![0; MAX_PENDING]))), pending.clone());
        let mut context = Context::from_waker(Waker::noop());
        let mut poll = || Pin::new(&mut body).poll_next(&mut context);
        for _ in 0..3 {
            assert!(matches!(poll(), Poll::Ready(Some(Ok(_)))));
            assert!(poll().is_pending());
            pending.clear();
        }
        for _ in 0..2 {
            assert!(matches!(poll(), Poll::Ready(Some(Ok(_)))));
            assert!(poll().is_pending());
        }
        let Poll::Ready(Some(Err(error))) = poll() else { panic!("read without an end") };
        assert_eq!(error.status(), 400);
    }
}
