//! The tokens of an encoding, found by their bytes.
//!
//! All texts are one block of bytes, and the table has nothing but numbers: 5 MiB for 200,000 tokens.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::io::{BufRead, BufReader};

/// `o200k_base.tiktoken` as OpenAI publishes it (<https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken>, SHA-256
/// 446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d), compressed: on each line a token in base64 and its rank.
const O200K_BASE: &[u8] = include_bytes!("o200k_base.tiktoken.gz");

#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The bytes of all tokens, one after the other in the order of their ranks.
    bytes: Vec<u8>,
    /// Where each token ends in them.
    ends: Vec<u32>,
    /// Their ranks, by the hash of their bytes. The tokens are fixed, so nobody can make them collide.
    ranks: HashTable<u32>,
    /// The length of the longest, bytes.
    longest: usize,
    hasher: FixedState,
}

impl Vocabulary {
    /// # Errors
    /// None, as a test proves.
    pub fn o200k_base() -> Result<Self, String> {
        let mut vocabulary = Self {
            bytes: Vec::with_capacity(1_400_000),
            ends: Vec::with_capacity(200_000),
            ranks: HashTable::with_capacity(200_000),
            longest: 0,
            hasher: FixedState::default(),
        };
        for line in BufReader::new(flate2::read::GzDecoder::new(O200K_BASE)).lines() {
            vocabulary.add(&line.map_err(|error| error.to_string())?)?;
        }
        vocabulary.index();
        Ok(vocabulary)
    }

    fn add(&mut self, line: &str) -> Result<(), String> {
        let (token, rank) = line.split_once(' ').ok_or("a line without a rank")?;
        if rank.parse() != Ok(self.ends.len()) {
            return Err(format!("the rank {rank} is out of order"));
        }
        let start = self.bytes.len();
        STANDARD.decode_vec(token, &mut self.bytes).map_err(|error| error.to_string())?;
        self.longest = self.longest.max(self.bytes.len() - start);
        self.ends.push(u32::try_from(self.bytes.len()).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn index(&mut self) {
        let Self { bytes, ends, ranks, hasher, .. } = self;
        for (rank, _) in (0..).zip(ends.iter()) {
            let hash = |rank: &u32| hasher.hash_one(token(bytes, ends, *rank));
            ranks.insert_unique(hash(&rank), rank, hash);
        }
    }

    /// The rank of the token that consists of these bytes. The lower it is, the earlier bytes are joined to it.
    pub fn rank(&self, bytes: &[u8]) -> Option<u32> {
        if bytes.len() > self.longest {
            return None;
        }
        let is_same = |rank: &u32| token(&self.bytes, &self.ends, *rank) == bytes;
        self.ranks.find(self.hasher.hash_one(bytes), is_same).copied()
    }
}

/// The bytes of a token.
fn token<'a>(bytes: &'a [u8], ends: &[u32], rank: u32) -> &'a [u8] {
    let rank = rank as usize;
    let start = rank.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or_default();
    let end = ends.get(rank).copied().unwrap_or(start);
    bytes.get(start as usize..end as usize).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_by_their_bytes() {
        let vocabulary = Vocabulary::o200k_base().unwrap();
        assert_eq!(vocabulary.ends.len(), 199_998);
        assert_eq!((vocabulary.rank(b"!"), vocabulary.rank(b"\"")), (Some(0), Some(1)));
        assert_eq!(vocabulary.rank(b" cocos"), Some(199_997));
        assert_eq!((vocabulary.rank(b" cocosx"), vocabulary.rank(b"")), (None, None));
        assert_eq!(vocabulary.longest, 128);
        for byte in 0..=255 {
            assert!(vocabulary.rank(&[byte]).is_some(), "each byte is a token: {byte}");
        }
    }
}
