//! The body of one whole response, held until its end. Not streams: those are held event by event.

use words::api::chat::ProviderError;

/// The largest body held, in bytes: some responses contain pictures and sound.
const MAX_BYTES: usize = 64 << 20;

/// Collects a body up to the limit; beyond it nothing is held any more.
#[derive(Debug, Default)]
pub(super) struct BoundedBody {
    held: Vec<u8>,
    over: bool,
}

impl BoundedBody {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// Once, for the bytes that go over the limit. Later ones are ignored.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ProviderError> {
        self.push_within(bytes, MAX_BYTES)
    }

    fn push_within(&mut self, bytes: &[u8], limit: usize) -> Result<(), ProviderError> {
        if self.over {
            return Ok(());
        }
        if self.held.len() + bytes.len() > limit {
            self.over = true;
            self.held = Vec::new();
            return Err(ProviderError::unreadable(&format!("it is over {} MiB", limit >> 20)));
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// The whole body; `None` when it went over the limit.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        (!self.over).then(|| std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_over_the_limit_is_refused_once_and_not_held() {
        let limit = 1 << 20;
        let mut body = BoundedBody::default();
        assert!(body.push_within(&vec![b'x'; limit], limit).is_ok());
        let error = body.push_within(b"x", limit).unwrap_err();
        assert_eq!(error.message, "The provider's answer cannot be read: it is over 1 MiB.");
        assert!(body.push_within(b"x", limit).is_ok());
        assert_eq!((body.held.capacity(), body.take()), (0, None));
        let mut body = BoundedBody::default();
        body.push(b"a").unwrap();
        body.push(b"b").unwrap();
        assert_eq!(body.take().as_deref(), Some(&b"ab"[..]));
    }
}
