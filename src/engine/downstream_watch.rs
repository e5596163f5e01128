//! Watches the client while its response is awaited: forwards its body to the attempt as it arrives, and notices when
//! the client disconnects.
//!
//! Sends nothing to the client.

use super::downstream::Downstream;
use super::request_context::RequestContext;
use super::streamed_upload::BodyChunk;
use bytes::Bytes;
use tokio::sync::mpsc::{self, Receiver, Sender};

/// The most body chunks that may wait to be sent to the provider.
const MAX_WAITING: usize = 4;

/// The watch over one client during one attempt.
#[derive(Default)]
pub(super) struct DownstreamWatch {
    /// Where the body is forwarded to; `None` when it is complete, or was read before.
    body: Option<Sender<BodyChunk>>,
}

impl DownstreamWatch {
    /// A watch that forwards the client's body to the receiver.
    pub fn with_body() -> (Self, Receiver<BodyChunk>) {
        let (tx, rx) = mpsc::channel(MAX_WAITING);
        (Self { body: Some(tx) }, rx)
    }

    /// Returns when the client has disconnected. The future may be dropped while it waits, and started again.
    pub async fn client_closed<D: Downstream>(&mut self, downstream: &mut D, ctx: &mut RequestContext) {
        loop {
            let Some(body) = &self.body else { return downstream.closed().await };
            // Space in the channel is reserved before the read: if the future is dropped in between, no chunk is lost.
            let Ok(room) = body.reserve().await else {
                self.body = None;
                continue;
            };
            match downstream.next_chunk().await {
                Ok(chunk) => {
                    let end = chunk.is_none() || downstream.body_is_complete();
                    ctx.record.bytes_in += chunk.as_ref().map_or(0, |chunk: &Bytes| chunk.len() as u64);
                    room.send((chunk, end));
                    if end {
                        self.body = None;
                    }
                }
                Err(_) => return,
            }
        }
    }
}
