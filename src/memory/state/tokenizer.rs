//! OpenAI's tokenizer, made when something must first be counted.
//!
//! Making it takes some tens of milliseconds and 6 MiB, which a gateway whose providers all report usage never spends. Counts
//! tokens of text; what is counted of a request is `api::token_estimate`'s. Why it is not a crate's: decision 059.

mod encoding;
mod merger;
mod pieces;
mod vocabulary;

use super::large_work::{LargeWork, PATTERNS, translation};
use encoding::Encoding;
use std::sync::OnceLock;

/// Texts up to this many bytes are counted at once: it takes less than a millisecond.
const MAX_AT_ONCE: usize = 8 << 10;

#[derive(Debug, Default)]
pub struct Tokenizer {
    /// `None`: it cannot be made, which a test excludes.
    encoding: OnceLock<Option<Encoding>>,
}

impl Tokenizer {
    /// Whether so many bytes of text may be counted on a worker thread now.
    pub fn is_quick(&self, bytes: usize) -> bool {
        bytes <= MAX_AT_ONCE && self.is_made()
    }

    /// Whether something was counted before.
    pub fn is_made(&self) -> bool {
        self.encoding.get().is_some()
    }

    /// The tokens of a text in OpenAI's encoding `o200k_base`. Makes the tokenizer if that was not done yet.
    pub fn count(&self, text: &str) -> u64 {
        let encoding = self.encoding.get_or_init(|| Encoding::o200k_base().ok());
        // Without it, a token for each byte: the most a text can have.
        encoding.as_ref().map_or(text.len(), |encoding| encoding.count(text)) as u64
    }

    /// Runs work that counts so many bytes of text, off the worker threads where it may take long.
    pub async fn run<T: Send>(&self, places: &LargeWork, bytes: usize, work: impl FnOnce() -> T + Send) -> T {
        if self.is_quick(bytes) { work() } else { places.run(translation(bytes).max(PATTERNS), work).await }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tokenizer_is_made_when_it_is_first_used() {
        let tokenizer = Tokenizer::default();
        assert!(!tokenizer.is_quick(1));
        assert_eq!(tokenizer.count("Hello world, this is a test."), 8);
        assert_eq!(tokenizer.count(""), 0);
        assert!(tokenizer.is_quick(MAX_AT_ONCE) && !tokenizer.is_quick(MAX_AT_ONCE + 1));
    }
}
