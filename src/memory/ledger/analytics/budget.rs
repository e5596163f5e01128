//! What the sums of one question hold in memory, reported to who counts it for all questions.
//!
//! `tally::MAX_GROUPS` is the bound of one question; four at that bound, beside everything else that the process holds, may be too much.

use super::tally::Unanswered;
use std::fmt;

/// Bytes after which the growth is reported.
const STEP: usize = 64 << 10;

/// Takes the number of bytes that are held, and says whether they may be.
pub type Held = Box<dyn FnMut(usize) -> bool + Send>;

/// The bytes of a question.
#[derive(Default)]
pub(super) struct Budget {
    held: Option<Held>,
    bytes: usize,
    reported: usize,
}

impl Budget {
    pub fn new(held: Held) -> Self {
        Self { held: Some(held), ..Self::default() }
    }

    /// # Errors
    /// `NoMemory`: the process holds as much as it may.
    pub fn add(&mut self, bytes: usize) -> Result<(), Unanswered> {
        self.bytes += bytes;
        if self.bytes - self.reported < STEP {
            return Ok(());
        }
        self.reported = self.bytes;
        let bytes = self.bytes;
        let may_hold = self.held.as_mut().is_none_or(|held| held(bytes));
        if may_hold { Ok(()) } else { Err(Unanswered::NoMemory) }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
