//! Eight bytes of a text at a time, as one number: which of them end a run.
//!
//! What is found is right for the lowest byte found, which is the first in the text. Above it bits may be set that mean
//! nothing, because a subtraction borrows from the byte above.

const ONES: u64 = u64::MAX / 255;

/// The high bit of every byte.
pub(super) const HIGH_BITS: u64 = ONES << 7;

/// The eight bytes from a position on, the first one lowest; `None` near the end of the text.
#[inline(always)]
pub(super) fn word_at(text: &[u8], at: usize) -> Option<u64> {
    text.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The high bits of the bytes below `limit`, which is at most 128.
#[inline(always)]
fn bytes_below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGH_BITS
}

/// The high bits of the bytes that are `byte`.
#[inline(always)]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    bytes_below(word ^ (ONES * u64::from(byte)), 1)
}

/// The high bits of the bytes that a JSON string cannot hold as they are: quotes, backslashes and control characters.
#[inline(always)]
pub(super) fn stops_in(word: u64) -> u64 {
    bytes_below(word, b' ') | equal_bytes(word, b'"') | equal_bytes(word, b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn first(bits: u64) -> Option<usize> {
        (bits != 0).then(|| bits.trailing_zeros() as usize / 8)
    }

    proptest! {
        #[test]
        fn the_first_byte_is_found(text in prop::collection::vec(any::<u8>(), 0..20), at in 0..20usize, byte: u8, limit in 1..=128u8) {
            let window = text.get(at..at + 8);
            prop_assert_eq!(word_at(&text, at).is_some(), window.is_some());
            if let (Some(word), Some(window)) = (word_at(&text, at), window) {
                prop_assert_eq!(first(equal_bytes(word, byte)), window.iter().position(|one| *one == byte));
                prop_assert_eq!(first(bytes_below(word, limit)), window.iter().position(|one| *one < limit));
                prop_assert_eq!(word & HIGH_BITS == 0, window.is_ascii());
            }
        }
    }
}
