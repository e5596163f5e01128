//! What is kept of a request's bodies for its log, while it runs: bounded, and counted as held memory.
//!
//! Only for requests whose bodies are wanted. What becomes of it is the sink's matter.

use bytes::Bytes;
use memory::state::held_bytes::Hold;

/// The bodies of one request.
#[derive(Debug)]
pub struct PayloadCapture {
    /// The client's body, or its beginning.
    pub request: Bytes,
    /// How long the client's body was.
    pub request_len: u64,
    /// The response as it was sent.
    pub response: BoundedBody,
    /// The response as the provider sent it, where the client got something else made of it.
    pub original: Option<BoundedBody>,
    /// Of each body.
    pub max_bytes: usize,
    /// For the request.
    hold: Hold,
}

/// The beginning of a body that arrives in chunks.
#[derive(Debug)]
pub struct BoundedBody {
    pub bytes: Vec<u8>,
    /// How long all of it is.
    pub len: u64,
    max_bytes: usize,
    hold: Hold,
    is_full: bool,
}

impl BoundedBody {
    fn new(max_bytes: usize, hold: Hold) -> Self {
        Self { bytes: Vec::new(), len: 0, max_bytes, hold, is_full: false }
    }

    /// Keeps a chunk, up to the bound; nothing more once the process holds too much.
    pub fn push(&mut self, chunk: &[u8]) {
        self.len += chunk.len() as u64;
        let room = self.max_bytes.saturating_sub(self.bytes.len());
        let kept = chunk.get(..room).unwrap_or(chunk);
        if self.is_full || kept.is_empty() {
            return;
        }
        self.is_full = self.hold.set(self.bytes.len() + kept.len()).is_err();
        if !self.is_full {
            self.bytes.extend_from_slice(kept);
        }
    }
}

impl PayloadCapture {
    pub fn new(request: Option<&Bytes>, max_bytes: usize, hold: Hold) -> Self {
        let whole = request.cloned().unwrap_or_default();
        let request_len = whole.len() as u64;
        // A slice would hold all of a long body.
        let request = match whole.get(..max_bytes) {
            Some(beginning) if whole.len() > max_bytes => Bytes::copy_from_slice(beginning),
            _ => whole,
        };
        let response = BoundedBody::new(max_bytes, hold.another());
        let mut capture = Self { request, request_len, response, original: None, max_bytes, hold };
        capture.hold.set_anyway(capture.request.len());
        capture
    }

    /// What keeps a provider's response as it arrives.
    pub(crate) fn new_original(&self) -> BoundedBody {
        BoundedBody::new(self.max_bytes, self.hold.another())
    }

    /// Keeps a chunk of a provider's response of which the client gets something else.
    pub(crate) fn push_original(&mut self, chunk: &[u8]) {
        let mut original = self.original.take().unwrap_or_else(|| self.new_original());
        original.push(chunk);
        self.original = Some(original);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory::state::held_bytes::HeldBytes;

    #[test]
    fn bodies_are_kept_up_to_their_bound_and_that_of_the_process() {
        let held = HeldBytes::default();
        let body = Bytes::from(vec![1; 100_000]);
        let mut capture = PayloadCapture::new(Some(&body), 50_000, held.holder());
        assert_eq!((capture.request.len(), capture.request_len), (50_000, 100_000));
        for _ in 0..10 {
            capture.response.push(&[2; 9_000]);
        }
        assert_eq!((capture.response.bytes.len(), capture.response.len), (50_000, 90_000));
        assert!(held.held() > 80_000);
        drop(capture);
        assert_eq!(held.held(), 0);
        held.set_limit(20_000);
        let mut capture = PayloadCapture::new(None, 50_000, held.holder());
        capture.response.push(&[3; 10_000]);
        capture.response.push(&[3; 30_000]);
        capture.response.push(&[3; 10]);
        assert_eq!(capture.response.bytes.len(), 10_000);
        capture.push_original(&[4; 5]);
        capture.push_original(&[4; 5]);
        assert_eq!(capture.original.unwrap().bytes, [4; 10]);
    }
}
