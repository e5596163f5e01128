//! The tokenizer's table, loaded when something must first be counted.
//!
//! Loading takes a tenth of a second and 65 MiB, which a gateway whose providers all report usage never spends. Counts
//! tokens of text; what is counted of a request is `api::token_estimate`'s.

use super::large_work::{LargeWork, PATTERNS, translation};
use std::sync::atomic::{AtomicBool, Ordering};

/// Texts up to this many bytes are counted at once: it takes less than a millisecond.
const MAX_AT_ONCE: usize = 8 << 10;

/// Whether the table is loaded. The table itself is the crate's.
#[derive(Debug, Default)]
pub struct Tokenizer {
    is_loaded: AtomicBool,
}

impl Tokenizer {
    /// Whether so many bytes of text may be counted on a worker thread now.
    pub fn is_quick(&self, bytes: usize) -> bool {
        bytes <= MAX_AT_ONCE && self.is_loaded.load(Ordering::Acquire)
    }

    /// The tokens of a text in OpenAI's encoding `o200k_base`. Loads the table if that was not done yet.
    pub fn count(&self, text: &str) -> u64 {
        let table = bpe_openai::o200k_base();
        self.is_loaded.store(true, Ordering::Release);
        table.count(text) as u64
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
    fn the_table_is_loaded_when_it_is_first_used() {
        let tokenizer = Tokenizer::default();
        assert!(!tokenizer.is_quick(1));
        assert_eq!(tokenizer.count("Hello world, this is a test."), 8);
        assert_eq!(tokenizer.count(""), 0);
        assert!(tokenizer.is_quick(MAX_AT_ONCE) && !tokenizer.is_quick(MAX_AT_ONCE + 1));
    }
}
