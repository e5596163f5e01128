//! The frames of a websocket, without I/O: bytes of the client in, messages out, and the other way round.
//!
//! `tungstenite` knows the protocol: masks, fragments, UTF-8, pings and the closing handshake. It reads from and writes to memory here.

use bytes::{Buf, Bytes, BytesMut};
use std::io::{self, Read, Write};
use tungstenite::error::Error as SocketError;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tungstenite::{Message, Utf8Bytes, WebSocket};

/// The buffer for what is read at a time; for a longer message it grows.
const READ_BUFFER: usize = 16 << 10;
/// The header of a client's ping: two bytes and the mask.
const CONTROL_HEADER: usize = 6;

/// One end of a websocket.
pub(super) struct Frames {
    socket: WebSocket<Memory>,
}

/// What the client has sent.
pub(super) enum Received {
    Text(Bytes),
    /// A ping or a pong, which has so many bytes: the client is there.
    Sign(usize),
    /// It closes, or breaks the protocol.
    End(Option<Goodbye>),
}

/// Why the gateway closes a websocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goodbye {
    /// The process stops.
    Away,
    BadProtocol,
    /// A message that is not text.
    Unsupported,
    BadText,
    TooLarge,
    TooSlow,
    /// There is no memory for the message now.
    TryLater,
    /// The connection has reached its age.
    Done,
}

/// What was received and is not read, and what is to be sent.
#[derive(Default)]
struct Memory {
    input: BytesMut,
    output: Vec<u8>,
}

impl Read for Memory {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let length = to.len().min(self.input.len());
        if length == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.input.split_to(length).copy_to_slice(to.get_mut(..length).unwrap_or_default());
        Ok(length)
    }
}

impl Write for Memory {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.output.extend_from_slice(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Frames {
    /// `limit`: the longest message, bytes.
    pub fn new(limit: usize) -> Self {
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit));
        Self { socket: WebSocket::from_raw_socket(Memory::default(), Role::Server, Some(config)) }
    }

    /// Takes bytes of the client.
    pub fn push(&mut self, bytes: &[u8]) {
        self.socket.get_mut().input.extend_from_slice(bytes);
    }

    /// The next thing that has arrived whole.
    pub fn next(&mut self) -> Option<Received> {
        Some(match self.socket.read() {
            Ok(Message::Text(text)) => Received::Text(text.into()),
            Ok(Message::Binary(_)) => Received::End(Some(Goodbye::Unsupported)),
            Ok(Message::Ping(content) | Message::Pong(content)) => {
                Received::Sign(content.len() + CONTROL_HEADER)
            }
            Ok(Message::Frame(_)) => Received::Sign(0),
            Ok(Message::Close(_)) | Err(SocketError::ConnectionClosed | SocketError::AlreadyClosed) => {
                Received::End(None)
            }
            Err(SocketError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Err(SocketError::Capacity(_)) => Received::End(Some(Goodbye::TooLarge)),
            Err(SocketError::Utf8(_)) => Received::End(Some(Goodbye::BadText)),
            Err(_) => Received::End(Some(Goodbye::BadProtocol)),
        })
    }

    /// Sends a text. Bytes that are none are left out: no client could read them.
    pub fn text(&mut self, text: impl Into<Bytes>) {
        if let Ok(text) = Utf8Bytes::try_from(text.into()) {
            // Memory is never full, and a socket that is closing takes nothing more.
            let _ = self.socket.send(Message::Text(text));
        }
    }

    pub fn ping(&mut self) {
        let _ = self.socket.send(Message::Ping(Bytes::new()));
    }

    /// Closes the websocket.
    pub fn close(&mut self, why: Goodbye) {
        let _ = self.socket.close(Some(why.frame()));
        let _ = self.socket.flush();
    }

    /// The bytes to send to the client.
    pub fn take_output(&mut self) -> Bytes {
        // Replies to pings and to a close are written with the next message, or here.
        let _ = self.socket.flush();
        std::mem::take(&mut self.socket.get_mut().output).into()
    }
}

impl Goodbye {
    fn frame(self) -> CloseFrame {
        let code = match self {
            Self::Away => CloseCode::Away,
            Self::BadProtocol => CloseCode::Protocol,
            Self::Unsupported => CloseCode::Unsupported,
            Self::BadText => CloseCode::Invalid,
            Self::TooLarge => CloseCode::Size,
            Self::TooSlow => CloseCode::Policy,
            Self::TryLater => CloseCode::Again,
            Self::Done => CloseCode::Normal,
        };
        let reason = match self {
            Self::Away => "the gateway stops; connect again",
            Self::BadProtocol => "the frames are no proper websocket",
            Self::Unsupported => "send text",
            Self::BadText => "the text is not UTF-8",
            Self::TooLarge => "the message is over limits.max_body_bytes",
            Self::TooSlow => "the message arrives too slowly",
            Self::TryLater => "the gateway has no memory for it now",
            Self::Done => "the connection has reached its age",
        };
        CloseFrame { code, reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as clients send it, masked with zeros.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            length @ 0..=125 => bytes.push(0x80 | length as u8),
            length => {
                bytes.push(0x80 | 126);
                bytes.extend((length as u16).to_be_bytes());
            }
        }
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes
    }

    fn texts(frames: &mut Frames) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(received) = frames.next() {
            match received {
                Received::Text(text) => texts.push(String::from_utf8(text.to_vec()).unwrap()),
                Received::Sign(length) => texts.push(format!("sign {length}")),
                Received::End(why) => {
                    texts.push(format!("{why:?}"));
                    break;
                }
            }
        }
        texts
    }

    #[test]
    fn messages_are_read_however_their_bytes_arrive() {
        let long = "x".repeat(5000);
        let stream = [
            frame(0x81, b"one"),
            frame(0x01, b"tw"),
            frame(0x89, b"ping"),
            frame(0x80, b"o"),
            frame(0x81, long.as_bytes()),
            frame(0x88, &1000_u16.to_be_bytes()),
        ]
        .concat();
        for step in [1, 7, stream.len()] {
            let mut frames = Frames::new(5000);
            let mut read = Vec::new();
            for chunk in stream.chunks(step) {
                frames.push(chunk);
                read.extend(texts(&mut frames));
            }
            assert_eq!(read[..4], ["one", "sign 10", "two", &*long], "{step}");
            assert_eq!(read[4], "None");
            let output = frames.take_output();
            assert!(output.windows(6).any(|part| part == b"\x8a\x04ping"), "a pong");
            assert!(output.ends_with(b"\x88\x02\x03\xe8"), "a close");
        }
    }

    #[test]
    fn what_is_too_long_or_no_text_ends_it() {
        for (bytes, why, code) in [
            (frame(0x81, &[b'x'; 101]), Goodbye::TooLarge, 1009_u16),
            ([frame(0x01, &[b'x'; 60]), frame(0x80, &[b'x'; 60])].concat(), Goodbye::TooLarge, 1009),
            (frame(0x82, b"a"), Goodbye::Unsupported, 1003),
            (frame(0x81, b"\xff\xff"), Goodbye::BadText, 1007),
            (b"\x81\x01a".to_vec(), Goodbye::BadProtocol, 1002),
            (frame(0xc1, b"a"), Goodbye::BadProtocol, 1002),
        ] {
            let mut frames = Frames::new(100);
            frames.push(&bytes);
            let Some(Received::End(Some(end))) = frames.next() else { panic!("{why:?}") };
            assert_eq!(end, why);
            frames.close(end);
            let output = frames.take_output();
            assert_eq!(output[0], 0x88);
            assert_eq!(output[2..4], code.to_be_bytes());
        }
    }
}
