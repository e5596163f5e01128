//! Watches the client while its response is awaited: forwards its body to the attempt as it arrives, and notices when
//! the client disconnects.
//!
//! Sends nothing to the client.

use super::body_pace::UploadPace;
use super::downstream::Downstream;
use super::request_context::RequestContext;
use super::streamed_upload::BodyChunk;
use bytes::Bytes;
use std::future::pending;
use std::time::Instant;
use tokio::sync::mpsc::{self, Receiver, Sender};
use words::error::Error;
use words::settings::Limits;

/// The most body chunks that may wait to be sent to the provider.
const MAX_WAITING: usize = 4;

/// The watch over one client during one attempt.
#[derive(Default)]
pub(super) struct DownstreamWatch {
    /// Where the body is forwarded to; `None` when it is complete, or was read before.
    body: Option<Body>,
    /// The body is still to be read, by another: to notice that the client has left would take a part of it.
    is_blind: bool,
}

/// A body on its way to the provider.
struct Body {
    chunks: Sender<BodyChunk>,
    pace: UploadPace,
}

impl DownstreamWatch {
    /// A watch that forwards the client's body to the receiver.
    pub(crate) fn with_body(limits: &Limits) -> (Self, Receiver<BodyChunk>) {
        let (chunks, rx) = mpsc::channel(MAX_WAITING);
        let body = Some(Body { chunks, pace: UploadPace::new(limits) });
        (Self { body, is_blind: false }, rx)
    }

    /// A watch while nothing is sent yet. A client whose body is still to be read is not watched.
    pub(crate) fn before_sending<D: Downstream>(downstream: &mut D) -> Self {
        Self { body: None, is_blind: !downstream.body_is_complete() }
    }

    /// Returns when the client has disconnected (`None`), or sends its body too slowly: what it is told. The future may be dropped while it
    /// waits, and started again.
    pub async fn client_closed<D: Downstream>(
        &mut self,
        downstream: &mut D,
        ctx: &mut RequestContext,
    ) -> Option<Error> {
        loop {
            let Some(body) = &mut self.body else {
                if self.is_blind {
                    return pending().await;
                }
                downstream.closed().await;
                return None;
            };
            // Space in the channel is reserved before the read: if the future is dropped in between, no chunk is lost.
            let Ok(room) = body.chunks.reserve().await else {
                self.body = None;
                continue;
            };
            let waiting = Instant::now();
            match downstream.next_chunk().await {
                Ok(chunk) => {
                    let end = chunk.is_none() || downstream.body_is_complete();
                    let size = chunk.as_ref().map_or(0, Bytes::len);
                    ctx.record.traffic.bytes_in += size as u64;
                    if let Err(error) = body.pace.arrived(size, waiting.elapsed()) {
                        return Some(error);
                    }
                    room.send((chunk, end));
                    if end {
                        self.body = None;
                    }
                }
                Err(_) => return None,
            }
        }
    }
}
