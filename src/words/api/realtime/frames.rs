//! Websocket frames (RFC 6455, 5) as whole messages, with the bytes they arrived in; and frames of the gateway's own.
//!
//! The bytes of a message pass as they are, its client's masks included. Nothing is compressed: the gateway offers no extension, so that
//! a reserved bit is an error. Not here: what a message says (`events`).

use bytes::{Bytes, BytesMut};

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const OPCODE: u8 = 0x0f;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PONG: u8 = 10;
/// The most bytes that a message may have besides its payload: those of the headers of its frames.
const MAX_FRAMING: usize = 64 << 10;
/// The longest payload of a close, ping or pong.
const MAX_CONTROL: usize = 125;

/// Who sends the frames: clients mask theirs, providers must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    Client,
    Provider,
}

/// What arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message, text or binary. `raw`: all of its frames.
    Message { raw: Bytes, payload: Vec<u8> },
    /// A close, ping or pong, which may stand between the frames of a message.
    Control { raw: Bytes },
}

/// Why nothing more can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// No websocket frame, or one that its sender must not send.
    Malformed,
    /// The message is longer than it may be.
    TooLong,
}

impl FrameError {
    /// The code of the close frame, and its reason.
    pub fn close(self) -> (u16, &'static str) {
        match self {
            Self::Malformed => (1002, "a frame that no websocket may have here"),
            Self::TooLong => (1009, "a message longer than limits.max_body_bytes"),
        }
    }
}

/// Reads the frames of one sender.
#[derive(Debug)]
pub struct FrameReader {
    sender: Sender,
    max_message: usize,
    arrived: BytesMut,
    /// The frames of the current message so far.
    raw: BytesMut,
    payload: Vec<u8>,
    in_message: bool,
}

/// The header of a frame.
struct Header {
    first: u8,
    length: usize,
    payload: usize,
    mask: Option<[u8; 4]>,
}

impl FrameReader {
    /// `max_message`: bytes.
    pub fn new(sender: Sender, max_message: usize) -> Self {
        Self {
            sender,
            max_message,
            arrived: BytesMut::new(),
            raw: BytesMut::new(),
            payload: Vec::new(),
            in_message: false,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
    }

    /// How many bytes it holds.
    pub fn held(&self) -> usize {
        self.arrived.len() + self.raw.len() + self.payload.len()
    }

    /// The next message or control frame; `None`: more must arrive first.
    ///
    /// # Errors
    /// [`FrameError`]. Nothing can be read behind it.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            let Some(header) = self.header()? else { return Ok(None) };
            let end = header.length + header.payload;
            if self.arrived.len() < end {
                return Ok(None);
            }
            let frame = self.arrived.split_to(end);
            let opcode = header.first & OPCODE;
            if opcode >= CLOSE {
                return Ok(Some(Frame::Control { raw: frame.freeze() }));
            }
            let payload = frame.get(header.length..).unwrap_or_default();
            match header.mask {
                Some(mask) => {
                    self.payload.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
                }
                None => self.payload.extend_from_slice(payload),
            }
            self.in_message = header.first & FINAL == 0;
            if self.raw.is_empty() {
                self.raw = frame;
            } else {
                self.raw.extend_from_slice(&frame);
            }
            // Frames without a payload make a message longer, too.
            if self.raw.len() > self.max_message.saturating_add(MAX_FRAMING) {
                return Err(FrameError::TooLong);
            }
            if !self.in_message {
                let raw = std::mem::take(&mut self.raw).freeze();
                return Ok(Some(Frame::Message { raw, payload: std::mem::take(&mut self.payload) }));
            }
        }
    }

    /// The header of the next frame, once it has arrived.
    fn header(&self) -> Result<Option<Header>, FrameError> {
        let (Some(first), Some(second)) = (self.arrived.first(), self.arrived.get(1)) else {
            return Ok(None);
        };
        let first = *first;
        let second = *second;
        let opcode = first & OPCODE;
        let is_control = opcode >= CLOSE;
        let short = usize::from(second & !MASKED);
        let is_listed = matches!(opcode, CONTINUATION | TEXT | BINARY | CLOSE..=PONG);
        let is_masked = second & MASKED != 0;
        let fits = match opcode {
            CONTINUATION => self.in_message,
            TEXT | BINARY => !self.in_message,
            _ => first & FINAL != 0 && short <= MAX_CONTROL,
        };
        if first & RESERVED != 0 || !is_listed || !fits || is_masked != (self.sender == Sender::Client) {
            return Err(FrameError::Malformed);
        }
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let length = 2 + extended + if is_masked { 4 } else { 0 };
        let Some(header) = self.arrived.get(..length) else { return Ok(None) };
        let digits = header.get(2..2 + extended).unwrap_or_default();
        let long = digits.iter().fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
        let payload = if extended == 0 { short } else { usize::try_from(long).unwrap_or(usize::MAX) };
        if !is_control && payload > self.max_message.saturating_sub(self.payload.len()) {
            return Err(FrameError::TooLong);
        }
        let mask = header.last_chunk::<4>().copied().filter(|_| is_masked);
        Ok(Some(Header { first, length, payload, mask }))
    }
}

/// A text message to a provider or client. What goes to a provider is masked, as a client's frames are; the mask is no secret.
pub fn text_frame(sender: Sender, text: &str) -> Bytes {
    frame(sender, TEXT, text.as_bytes())
}

/// A close frame. `reason`: at most 123 bytes.
pub fn close_frame(sender: Sender, code: u16, reason: &str) -> Bytes {
    let reason = reason.as_bytes().get(..reason.len().min(MAX_CONTROL - 2)).unwrap_or_default();
    frame(sender, CLOSE, &[&code.to_be_bytes(), reason].concat())
}

fn frame(sender: Sender, opcode: u8, payload: &[u8]) -> Bytes {
    let mask_bit = if sender == Sender::Client { MASKED } else { 0 };
    let mut bytes = vec![FINAL | opcode];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(length @ ..=125), _) => bytes.push(mask_bit | length),
        (_, Ok(length)) => {
            bytes.push(mask_bit | 126);
            bytes.extend(length.to_be_bytes());
        }
        _ => {
            bytes.push(mask_bit | 127);
            bytes.extend((payload.len() as u64).to_be_bytes());
        }
    }
    if sender == Sender::Client {
        // A mask of zeros is one (RFC 6455, 5.3): it guards proxies that know no websockets against pages, and no page chose this text.
        bytes.extend([0; 4]);
    }
    bytes.extend(payload);
    Bytes::from(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut bytes = vec![first, MASKED | payload.len() as u8];
        bytes.extend(mask);
        bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
        bytes
    }

    fn read(reader: &mut FrameReader, stream: &[u8], step: usize) -> Result<Vec<Frame>, FrameError> {
        let mut frames = Vec::new();
        for chunk in stream.chunks(step) {
            reader.push(chunk);
            while let Some(frame) = reader.next_frame()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    #[test]
    fn messages_are_whole_however_their_bytes_arrive() {
        let long = "x".repeat(70_000);
        let stream =
            [masked(0x01, b"he"), masked(0x89, b"ping"), masked(0x80, b"llo"), masked(0x82, b"")].concat();
        for step in [1, 3, stream.len()] {
            let mut reader = FrameReader::new(Sender::Client, 1000);
            let frames = read(&mut reader, &stream, step).unwrap();
            let ping = Frame::Control { raw: masked(0x89, b"ping").into() };
            let hello = Frame::Message {
                raw: [masked(0x01, b"he"), masked(0x80, b"llo")].concat().into(),
                payload: b"hello".to_vec(),
            };
            let empty = Frame::Message { raw: masked(0x82, b"").into(), payload: Vec::new() };
            assert_eq!(frames, [ping, hello, empty], "{step}");
            assert_eq!((reader.held(), reader.in_message), (0, false));
        }
        for text in ["", "short", long.split_at(300).0, &long] {
            for sender in [Sender::Client, Sender::Provider] {
                let raw = text_frame(sender, text);
                let mut reader = FrameReader::new(sender, 100_000);
                let wanted = Frame::Message { raw: raw.clone(), payload: text.as_bytes().to_vec() };
                assert_eq!(read(&mut reader, &raw, 1000), Ok(vec![wanted]));
            }
        }
        let close = close_frame(Sender::Provider, 1008, "no");
        assert_eq!(close.as_ref(), [0x88, 4, 3, 240, b'n', b'o']);
    }

    #[test]
    fn what_no_sender_may_send_is_refused() {
        use FrameError::{Malformed, TooLong};
        for (sender, stream, wanted) in [
            (Sender::Client, vec![0x81, 1, b'a'], Malformed),
            (Sender::Provider, masked(0x81, b"a"), Malformed),
            // Compressed.
            (Sender::Client, masked(0xc1, b"a"), Malformed),
            (Sender::Client, masked(0x83, b"a"), Malformed),
            (Sender::Client, masked(0x80, b"a"), Malformed),
            (Sender::Client, masked(0x09, b"a"), Malformed),
            (Sender::Client, [masked(0x01, b"a"), masked(0x81, b"b")].concat(), Malformed),
            (Sender::Client, masked(0x81, &[0; 11]), TooLong),
            (Sender::Client, [masked(0x01, &[0; 6]), masked(0x80, &[0; 6])].concat(), TooLong),
            (Sender::Provider, vec![0x81, 127, 255, 255, 255, 255, 255, 255, 255, 255], TooLong),
        ] {
            let mut reader = FrameReader::new(sender, 10);
            assert_eq!(read(&mut reader, &stream, 100), Err(wanted), "{stream:?}");
        }
    }
}
