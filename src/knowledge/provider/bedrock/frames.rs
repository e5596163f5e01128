//! Cuts Amazon's binary event stream (`application/vnd.amazon.eventstream`) into frames. What the frames mean
//! is decoded in `response`.
//!
//! A frame with 20 bytes of headers and the payload `{}` has 38 bytes:
//!
//! `[38: u32] [20: u32] [CRC-32 of the first 8 bytes] [headers: 20] [{}] [CRC-32 of the first 34 bytes]`
//!
//! Source: <https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html>
//! (all Amazon services use the same encoding).

use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;

/// Length of the frame, length of its headers, checksum of both: four bytes each.
const PRELUDE: usize = 12;
/// The prelude and the checksum at the end.
const MIN_FRAME: usize = PRELUDE + 4;
/// The longest frame held, bytes: Amazon's own limit on a payload is 24 MiB.
const MAX_FRAME: usize = 25 << 20;
/// Capacity kept between frames, bytes: one large picture must not hold its memory until the stream ends.
const KEPT_CAPACITY: usize = 64 << 10;

/// What is wrong with a stream, worded to follow "cannot be read: ".
pub(crate) type FrameError = &'static str;

/// Cuts a stream into frames, independent of how it is cut into chunks.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// The beginning of a frame that is not complete yet.
    carry: Vec<u8>,
}

impl Frames {
    /// Takes the next bytes and calls `on` for every complete frame with a valid checksum.
    ///
    /// # Errors
    /// What is wrong with the frame. The stream is lost: the start of the next frame cannot be found.
    pub fn push(&mut self, chunk: &[u8], on: &mut dyn FnMut(&Message)) -> Result<(), FrameError> {
        let mut rest = chunk;
        loop {
            if self.carry.is_empty() {
                match length(rest)?.and_then(|length| rest.split_at_checked(length)) {
                    Some((frame, behind)) => {
                        on(&read(frame)?);
                        rest = behind;
                    }
                    None => {
                        self.carry.extend_from_slice(rest);
                        return Ok(());
                    }
                }
                continue;
            }
            let wanted = length(&self.carry)?.unwrap_or(PRELUDE);
            let missing = wanted.saturating_sub(self.carry.len());
            let (part, behind) = rest.split_at_checked(missing).unwrap_or((rest, &[]));
            self.carry.extend_from_slice(part);
            rest = behind;
            if part.len() < missing {
                return Ok(());
            }
            if length(&self.carry)? == Some(self.carry.len()) {
                on(&read(&self.carry)?);
                self.carry.clear();
                self.carry.shrink_to(KEPT_CAPACITY);
            }
        }
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// The stream ended inside a frame.
    pub fn finish(&self) -> Result<(), FrameError> {
        if self.carry.is_empty() { Ok(()) } else { Err("the event stream ends inside a frame") }
    }
}

/// The length of the frame at the start of `bytes`; `None` until its prelude is complete. The length counts
/// only if its checksum is right: after a flipped bit we would wait for bytes that never come.
fn length(bytes: &[u8]) -> Result<Option<usize>, FrameError> {
    let Some((prelude, _)) = bytes.split_first_chunk::<PRELUDE>() else { return Ok(None) };
    let [a, b, c, d, e, f, g, h, checksum @ ..] = *prelude;
    if crc32(&[a, b, c, d, e, f, g, h]) != u32::from_be_bytes(checksum) {
        return Err("an event stream frame's length has a wrong checksum");
    }
    let total = u32::from_be_bytes([a, b, c, d]) as usize;
    let headers = u32::from_be_bytes([e, f, g, h]) as usize;
    if total > MAX_FRAME {
        return Err("an event stream frame is over 25 MiB");
    }
    if total < MIN_FRAME || headers > total - MIN_FRAME {
        return Err("an event stream frame is shorter than it can be");
    }
    Ok(Some(total))
}

fn read(frame: &[u8]) -> Result<Message, FrameError> {
    read_message_from(frame).map_err(|_| "an event stream frame has a wrong checksum or malformed headers")
}

/// CRC-32 as in gzip. Bit by bit: it only covers the eight bytes of a prelude.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::super::testing::event;
    use super::*;

    fn stream() -> Vec<u8> {
        [event("messageStart", r#"{"role":"assistant"}"#), event("a", "{}"), event("b", &"x".repeat(300))]
            .concat()
    }

    fn decode_all(bytes: &[u8], size: usize) -> (Vec<Vec<u8>>, Result<(), FrameError>) {
        let mut frames = Frames::default();
        let mut payloads = Vec::new();
        for chunk in bytes.chunks(size) {
            if let Err(error) = frames.push(chunk, &mut |message| payloads.push(message.payload().to_vec())) {
                return (payloads, Err(error));
            }
        }
        (payloads, frames.finish())
    }

    #[test]
    fn frames_are_the_same_whatever_the_cuts() {
        let bytes = stream();
        let (whole, end) = decode_all(&bytes, bytes.len());
        assert_eq!((whole.len(), end), (3, Ok(())));
        for size in 1..bytes.len() {
            assert_eq!(decode_all(&bytes, size), (whole.clone(), Ok(())), "chunks of {size}");
        }
    }

    #[test]
    fn every_flipped_bit_and_missing_byte_is_detected() {
        let bytes = stream();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut broken = bytes.clone();
                broken[at] ^= 1 << bit;
                assert!(decode_all(&broken, broken.len()).1.is_err(), "byte {at} bit {bit}");
                assert!(decode_all(&broken, 7).1.is_err(), "byte {at} bit {bit}");
            }
        }
        let first = event("messageStart", r#"{"role":"assistant"}"#).len();
        let second = first + event("a", "{}").len();
        for length in 1..bytes.len() {
            let (frames, end) = decode_all(&bytes[..length], 5);
            assert_eq!(end.is_ok(), length == first || length == second, "cut at {length}");
            assert!(frames.len() < 3, "cut at {length}");
        }
    }

    #[test]
    fn a_frame_with_a_wrong_length_is_refused_at_once() {
        for (total, headers) in [(u32::MAX, 0_u32), (15, 0), (0, 0), (40, 25), (26 << 20, 0)] {
            let mut prelude = [total.to_be_bytes(), headers.to_be_bytes()].concat();
            let checksum = crc32(&prelude);
            prelude.extend(checksum.to_be_bytes());
            assert!(decode_all(&prelude, 12).1.is_err(), "{total} {headers}");
        }
    }
}
