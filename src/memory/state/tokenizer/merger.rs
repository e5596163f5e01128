//! How many tokens a piece has: byte pair encoding.
//!
//! A piece begins as its bytes. Of all neighbours that together are a token, the two whose token has the lowest rank are joined, those
//! furthest to the left first; and so on until no two are a token. With a queue of the candidates this takes n log n steps for n
//! bytes, also for a piece of megabytes.

use super::vocabulary::Vocabulary;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Two neighbouring parts that together are a token. The one with the lowest rank, then the one furthest to the left is joined first.
type Candidate = Reverse<(u32, usize, usize)>;

/// A part of the piece; it is found by where it begins.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    /// Where the part before it begins.
    before: usize,
    /// Where it ends; 0: it was joined to the part before it.
    end: usize,
}

/// Counts pieces, one after the other, in the same memory.
#[derive(Debug, Default)]
pub(super) struct Merger {
    parts: Vec<Part>,
    queue: BinaryHeap<Candidate>,
}

impl Merger {
    /// The tokens of a piece.
    pub fn count(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> usize {
        if vocabulary.rank(piece).is_some() {
            return 1;
        }
        self.parts.clear();
        self.queue.clear();
        let parts = (0..piece.len()).map(|at| Part { before: at.saturating_sub(1), end: at + 1 });
        self.parts.extend(parts);
        for start in 1..piece.len() {
            self.queue_pair(vocabulary, piece, start - 1, start + 1);
        }
        let mut count = piece.len();
        while let Some(Reverse((_, start, end))) = self.queue.pop() {
            // A candidate may be out of date: one of its parts was joined with another.
            let middle = self.end(start);
            if middle > start && middle < end && self.end(middle) == end {
                self.join(vocabulary, piece, start, middle, end);
                count -= 1;
            }
        }
        count
    }

    /// The end of the part that begins here; 0 where none does.
    fn end(&self, start: usize) -> usize {
        self.parts.get(start).map_or(0, |part| part.end)
    }

    fn join(&mut self, vocabulary: &Vocabulary, piece: &[u8], start: usize, middle: usize, end: usize) {
        let before = self.parts.get(start).map_or(0, |part| part.before);
        if let Some(part) = self.parts.get_mut(start) {
            part.end = end;
        }
        if let Some(part) = self.parts.get_mut(middle) {
            part.end = 0;
        }
        if let Some(part) = self.parts.get_mut(end) {
            part.before = start;
            let after = part.end;
            self.queue_pair(vocabulary, piece, start, after);
        }
        if start > 0 {
            self.queue_pair(vocabulary, piece, before, end);
        }
    }

    fn queue_pair(&mut self, vocabulary: &Vocabulary, piece: &[u8], start: usize, end: usize) {
        let token = piece.get(start..end).and_then(|bytes| vocabulary.rank(bytes));
        self.queue.extend(token.map(|rank| Reverse((rank, start, end))));
    }
}
