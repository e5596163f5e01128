//! Watches the client while its response is awaited: passes its body on to the attempt where that is still coming in,
//! then only notices when it goes away.

use super::downstream::Downstream;
use super::request_context::RequestContext;
use super::streamed_upload::BodyChunk;
use bytes::Bytes;
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Chunks of a body that may wait for the provider.
const MAX_WAITING: usize = 4;

/// See the module.
#[derive(Default)]
pub(super) struct DownstreamWatch {
    /// Where the body goes; `None` when it is complete, or was read before.
    body: Option<Sender<BodyChunk>>,
}

impl DownstreamWatch {
    /// Passes the body on, to the receiver.
    pub fn with_body() -> (Self, Receiver<BodyChunk>) {
        let (tx, rx) = mpsc::channel(MAX_WAITING);
        (Self { body: Some(tx) }, rx)
    }

    /// Returns when the client has gone away. May be dropped while it waits, and called again.
    pub async fn client_closed<D: Downstream>(&mut self, downstream: &mut D, ctx: &mut RequestContext) {
        loop {
            let Some(body) = &self.body else { return downstream.closed().await };
            // Room first: a chunk that was read must not be lost when another branch wins.
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
