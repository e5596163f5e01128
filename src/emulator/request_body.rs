//! Reads a request body, whole or chunk by chunk, and keeps what the log needs.
//!
//! Bodies read chunk by chunk are never buffered: 1 GiB passes in constant memory.

use super::body::Disconnect;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use ring::digest::{Context, SHA256};

/// How many bytes of a body the log keeps.
const MAX_LOGGED_BYTES: usize = 64 * 1024;

/// A request body being received.
pub(super) struct RequestBody {
    incoming: Incoming,
    bytes: u64,
    observed: Option<Observed>,
}

struct Observed {
    prefix: Vec<u8>,
    hash: Context,
}

/// Why a whole body could not be read.
pub(super) enum BodyError {
    TooLarge,
    Disconnected,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming) -> Self {
        Self { incoming, bytes: 0, observed: None }
    }

    /// From now on keeps the first 64 KiB and a hash, for the log.
    pub(super) fn observe(&mut self) {
        self.observed = Some(Observed { prefix: Vec::new(), hash: Context::new(&SHA256) });
    }

    /// The next chunk; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Disconnect> {
        while let Some(frame) = self.incoming.frame().await {
            // Skip trailers.
            let Ok(bytes) = frame.map_err(|_| Disconnect)?.into_data() else { continue };
            self.note(&bytes);
            return Ok(Some(bytes));
        }
        Ok(None)
    }

    /// The whole body, up to `limit` bytes.
    pub(super) async fn whole(&mut self, limit: usize) -> Result<Bytes, BodyError> {
        if self.incoming.is_end_stream() {
            return Ok(Bytes::new());
        }
        let Some(first) = self.next().await.map_err(|Disconnect| BodyError::Disconnected)? else {
            return Ok(Bytes::new());
        };
        let mut rest = BytesMut::new();
        while let Some(bytes) = self.next().await.map_err(|Disconnect| BodyError::Disconnected)? {
            if self.bytes > limit as u64 {
                return Err(BodyError::TooLarge);
            }
            if rest.is_empty() {
                let expected = self.incoming.size_hint().exact().unwrap_or_default() as usize;
                rest.reserve(first.len() + bytes.len() + expected.min(limit));
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&bytes);
        }
        Ok(if rest.is_empty() { first } else { rest.freeze() })
    }

    /// Reads to the end and discards the rest. Returns the body's length.
    pub(super) async fn drain(&mut self) -> Result<u64, Disconnect> {
        while self.next().await?.is_some() {}
        Ok(self.bytes)
    }

    /// What the log needs: the first bytes as text, the length, the SHA-256 in hex.
    pub(super) fn take_summary(&mut self) -> (Option<String>, u64, Option<String>) {
        let Some(observed) = self.observed.take() else { return (None, self.bytes, None) };
        let text = String::from_utf8_lossy(&observed.prefix).into_owned();
        (Some(text), self.bytes, Some(hex(observed.hash.finish().as_ref())))
    }

    /// Observes a body that was read before its request turned out to be tagged.
    pub(super) fn observe_late(&mut self, body: &Bytes) {
        self.observe();
        self.bytes = 0;
        self.note(body);
    }

    fn note(&mut self, bytes: &Bytes) {
        self.bytes += bytes.len() as u64;
        if let Some(Observed { prefix, hash }) = &mut self.observed {
            hash.update(bytes);
            let room = MAX_LOGGED_BYTES.saturating_sub(prefix.len()).min(bytes.len());
            prefix.extend_from_slice(bytes.get(..room).unwrap_or_default());
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
