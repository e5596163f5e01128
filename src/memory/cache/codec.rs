//! Entries as bytes, for a store that gateways of several versions share.
//!
//! Layout, all numbers little endian: `TPC`, version (1 byte), CRC-32 of all that follows (4), flags (1), size of the body as it is used (4),
//! workspace (16), stored at and expires at (nanoseconds since 1970, 16 each), input and output tokens and cost (8 each), then the
//! namespace, the content type and the pace, each with its length before it (4), and the body to the end. The pace is pairs of LEB128
//! numbers: bytes and milliseconds since the pair before. Bytes of any other form are refused. Not here: how a body is compressed
//! (`compression`).

use super::compression;
use super::entry::{CachedResponse, Scope};
use bytes::Bytes;
use jiff::Timestamp;
use std::sync::Arc;
use uuid::Uuid;

const MAGIC: &[u8; 3] = b"TPC";
/// Raised with every change of the layout. Another version's entries are misses.
const VERSION: u8 = 1;
/// Magic, version and checksum.
const PREFIX: usize = 8;

const STREAMED: u8 = 1;
const COMPRESSED: u8 = 2;
const PRICED: u8 = 4;
const NAMED: u8 = 8;

/// Why bytes cannot be read as an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// Of another version of the gateway.
    Version,
    Damaged,
}

/// The entry as bytes; `compressed` is its body by [`compression::compress`].
///
/// `None`: a part is longer than the layout can say (4 GiB).
pub(super) fn encode(entry: &CachedResponse, compressed: Option<&[u8]>) -> Option<Vec<u8>> {
    let body = compressed.unwrap_or(&entry.body);
    let namespace = entry.scope.namespace.as_deref();
    let mut out = Vec::with_capacity(body.len() + entry.content_type.len() + 4 * entry.pace.len() + 192);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[VERSION, 0, 0, 0, 0]);
    let flags = [
        (entry.streamed, STREAMED),
        (compressed.is_some(), COMPRESSED),
        (entry.cost.is_some(), PRICED),
        (namespace.is_some(), NAMED),
    ];
    out.push(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).sum());
    out.extend_from_slice(&length(entry.body.len())?);
    out.extend_from_slice(entry.scope.workspace.as_bytes());
    out.extend_from_slice(&entry.stored_at.as_nanosecond().to_le_bytes());
    out.extend_from_slice(&entry.expires_at.as_nanosecond().to_le_bytes());
    for number in [entry.input_tokens, entry.output_tokens, entry.cost.unwrap_or(0)] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for text in [namespace.unwrap_or_default(), &entry.content_type] {
        out.extend_from_slice(&length(text.len())?);
        out.extend_from_slice(text.as_bytes());
    }
    let mut pace = Vec::with_capacity(4 * entry.pace.len());
    let mut end = 0_u32;
    let mut at = 0_u32;
    for (next_end, next_at) in entry.pace.iter().copied() {
        push_number(&mut pace, next_end.wrapping_sub(end));
        push_number(&mut pace, next_at.wrapping_sub(at));
        (end, at) = (next_end, next_at);
    }
    out.extend_from_slice(&length(pace.len())?);
    out.extend_from_slice(&pace);
    out.extend_from_slice(body);
    let sum = crc32fast::hash(out.get(PREFIX..)?);
    out.get_mut(4..PREFIX)?.copy_from_slice(&sum.to_le_bytes());
    Some(out)
}

/// Reads an entry, and its body, still compressed. A body of more than `max_body` bytes when decompressed is refused.
///
/// # Errors
/// The bytes are of another version, or are no entry.
pub(super) fn decode(value: &[u8], max_body: u64) -> Result<(CachedResponse, Option<&[u8]>), Unreadable> {
    let rest = value.strip_prefix(MAGIC).ok_or(Unreadable::Damaged)?;
    match rest.split_first() {
        Some((&VERSION, rest)) => read(rest, max_body).ok_or(Unreadable::Damaged),
        Some(_) => Err(Unreadable::Version),
        None => Err(Unreadable::Damaged),
    }
}

/// What follows the version.
fn read(rest: &[u8], max_body: u64) -> Option<(CachedResponse, Option<&[u8]>)> {
    let mut reader = Reader(rest);
    let sum = u32::from_le_bytes(reader.array()?);
    if crc32fast::hash(reader.0) != sum {
        return None;
    }
    let [flags] = reader.array()?;
    let size = reader.length()?;
    if size as u64 > max_body {
        return None;
    }
    let workspace = Uuid::from_bytes(reader.array()?);
    let stored_at = Timestamp::from_nanosecond(i128::from_le_bytes(reader.array()?)).ok()?;
    let expires_at = Timestamp::from_nanosecond(i128::from_le_bytes(reader.array()?)).ok()?;
    let input_tokens = u64::from_le_bytes(reader.array()?);
    let output_tokens = u64::from_le_bytes(reader.array()?);
    let cost = u64::from_le_bytes(reader.array()?);
    let namespace: Arc<str> = reader.text()?.into();
    let content_type: Arc<str> = reader.text()?.into();
    let pace = reader.pace()?;
    let compressed = (flags & COMPRESSED != 0).then_some(reader.0);
    let body = match compressed {
        Some(compressed) => compression::decompress(compressed, size)?,
        None if reader.0.len() == size => Bytes::copy_from_slice(reader.0),
        None => return None,
    };
    let response = CachedResponse {
        scope: Scope { workspace, namespace: (flags & NAMED != 0).then_some(namespace) },
        streamed: flags & STREAMED != 0,
        content_type,
        body,
        pace,
        stored_at,
        expires_at,
        input_tokens,
        output_tokens,
        cost: (flags & PRICED != 0).then_some(cost),
    };
    Some((response, compressed))
}

fn length(length: usize) -> Option<[u8; 4]> {
    u32::try_from(length).ok().map(u32::to_le_bytes)
}

/// LEB128: seven bits a byte, the lowest first.
fn push_number(out: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// What is not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(self.array()?)).ok()
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.length()?;
        str::from_utf8(self.bytes(length)?).ok()
    }

    fn number(&mut self) -> Option<u32> {
        let mut number = 0_u32;
        for shift in (0..32).step_by(7) {
            let [byte] = self.array()?;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn pace(&mut self) -> Option<Arc<[(u32, u32)]>> {
        let length = self.length()?;
        let mut reader = Reader(self.bytes(length)?);
        let mut pace = Vec::new();
        let mut end = 0_u32;
        let mut at = 0_u32;
        while !reader.0.is_empty() {
            end = end.wrapping_add(reader.number()?);
            at = at.wrapping_add(reader.number()?);
            pace.push((end, at));
        }
        Some(pace.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::{entry, streamed};
    use proptest::prelude::*;

    fn round_trip(entry: &CachedResponse) {
        let compressed = compression::compress(&entry.body);
        let value = encode(entry, compressed.as_deref()).unwrap();
        assert_eq!(decode(&value, 1 << 24), Ok((entry.clone(), compressed.as_deref())));
        assert_eq!(decode(&encode(entry, None).unwrap(), 1 << 24), Ok((entry.clone(), None)));
    }

    #[test]
    fn an_entry_is_the_same_again() {
        round_trip(&entry("{}"));
        round_trip(&entry(""));
        round_trip(&entry(&"a long text, again and again. ".repeat(1000)));
        round_trip(&streamed(500));
        let mut free = streamed(3);
        (free.scope.namespace, free.cost, free.pace) = (Some("".into()), Some(0), Arc::new([]));
        round_trip(&free);
        free.pace = Arc::new([(7, 9), (3, 1), (u32::MAX, u32::MAX), (0, 0)]);
        round_trip(&free);
    }

    #[test]
    fn a_stream_becomes_much_smaller() {
        let entry = streamed(500);
        let compressed = compression::compress(&entry.body).unwrap();
        let value = encode(&entry, Some(&compressed)).unwrap();
        assert!(value.len() * 4 < entry.body.len(), "{} of {}", value.len(), entry.body.len());
    }

    #[test]
    fn other_versions_damage_and_large_bodies_are_no_entries() {
        let entry = entry(&"text ".repeat(1000));
        let compressed = compression::compress(&entry.body);
        for value in [encode(&entry, None).unwrap(), encode(&entry, compressed.as_deref()).unwrap()] {
            assert_eq!(decode(&value, 4999), Err(Unreadable::Damaged));
            assert_eq!(decode(&value, 5000).unwrap().0, entry);
            let mut newer = value.clone();
            newer[3] = VERSION + 1;
            assert_eq!(decode(&newer, 5000), Err(Unreadable::Version));
            for at in (0..value.len()).filter(|at| *at != 3) {
                let mut damaged = value.clone();
                damaged[at] ^= 0x10;
                assert_eq!(decode(&damaged, 5000), Err(Unreadable::Damaged), "byte {at}");
            }
            for end in 0..value.len() {
                assert!(decode(&value[..end], 5000).is_err(), "{end} bytes");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), max in 0_u64..10_000) {
            prop_assert!(decode(&bytes, max).is_err());
            // With a valid prefix and checksum, so that the rest is read.
            let mut value = b"TPC\x01".to_vec();
            value.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
            value.extend_from_slice(&bytes);
            if let Ok((entry, _)) = decode(&value, max) {
                prop_assert!(entry.body.len() as u64 <= max);
            }
        }

        #[test]
        fn parts_that_are_changed_are_read_without_a_panic(at in 8_usize..200, byte in any::<u8>(), is_compressed in any::<bool>()) {
            let entry = entry(&"text ".repeat(300));
            let compressed = compression::compress(&entry.body).filter(|_| is_compressed);
            let mut value = encode(&entry, compressed.as_deref()).unwrap();
            if let Some(place) = value.get_mut(at) {
                *place = byte;
            }
            let sum = crc32fast::hash(&value[8..]);
            value[4..8].copy_from_slice(&sum.to_le_bytes());
            if let Ok((entry, _)) = decode(&value, 10_000) {
                prop_assert!(entry.body.len() <= 10_000);
            }
        }
    }
}
