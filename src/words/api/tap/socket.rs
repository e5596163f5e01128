//! Reads the frames that a provider of the realtime API sends, as far as they say what was used: `response.done` has the usage of one
//! response, `session.created` the model.
//!
//! All other messages are passed over as soon as their type has arrived. Compressed messages cannot be read, and those over [`MAX_MESSAGE`] are
//! not: what the session used is unknown then. Not a websocket: control frames, masks and errors are the two ends' affair.

use super::ResponseSummary;
use super::openai_event;
use crate::api::realtime::events::type_of;
use crate::api::usage::Usage;
use crate::json::walk;

/// The longest message that is read, bytes. One with usage has the texts of a response, but never its audio.
const MAX_MESSAGE: usize = 1 << 20;

/// How many bytes of a message arrive before its type is looked for. Where it is not among them, it is looked for again in twice as many.
const HEAD: usize = 512;

/// The longest header of a frame.
const MAX_HEADER: usize = 14;

const FINAL: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
/// Close, ping and pong, which may stand between the frames of a message.
const CONTROL: u8 = 8;

#[derive(Debug, Default)]
pub(super) struct Socket {
    /// The bytes of a frame's header, until all of it has arrived.
    header: Vec<u8>,
    /// Bytes of the payload that have not arrived.
    left: u64,
    /// Whether the current frame is one of a text message.
    is_text: bool,
    /// Whether its message ends with it.
    is_final: bool,
    message: Vec<u8>,
    /// At which length its type is looked for; `None`: it is known.
    looks_at: Option<usize>,
    /// Nothing more of the current message is kept.
    skips: bool,
}

impl Socket {
    pub(super) fn push(&mut self, mut bytes: &[u8], summary: &mut ResponseSummary) {
        summary.content |= !bytes.is_empty();
        while let Some((first, rest)) = bytes.split_first() {
            if self.left == 0 {
                self.header.push(*first);
                bytes = rest;
                if self.begin_frame() && self.left == 0 {
                    self.end_frame(summary);
                }
                continue;
            }
            let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            let (payload, behind) = bytes.split_at(length);
            bytes = behind;
            self.left -= length as u64;
            self.keep(payload);
            if self.left == 0 {
                self.end_frame(summary);
            }
        }
    }

    /// Whether the header is complete; it is read then.
    fn begin_frame(&mut self) -> bool {
        let (Some(first), Some(second)) = (self.header.first(), self.header.get(1)) else { return false };
        let short = second & !MASKED;
        let extended = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask = if second & MASKED == 0 { 0 } else { 4 };
        if self.header.len() < (2 + extended + mask).min(MAX_HEADER) {
            return false;
        }
        let length = self.header.get(2..2 + extended).unwrap_or_default();
        let long = length.iter().fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
        self.left = if extended == 0 { short.into() } else { long };
        let opcode = first & 0x0f;
        self.is_final = first & FINAL != 0;
        self.is_text = opcode < CONTROL;
        if opcode != CONTINUATION && opcode < CONTROL {
            self.message.clear();
            self.looks_at = Some(HEAD);
            // No provider may mask what it sends.
            self.skips = opcode != TEXT || first & RESERVED != 0 || mask > 0;
        }
        self.header.clear();
        true
    }

    fn keep(&mut self, payload: &[u8]) {
        if !self.is_text || self.skips {
            return;
        }
        self.message.extend_from_slice(payload.get(..MAX_MESSAGE.min(payload.len())).unwrap_or_default());
        if self.message.len() > MAX_MESSAGE || self.is_other() {
            self.skips = true;
            self.message = Vec::new();
        }
    }

    /// Whether what has arrived of a message shows that nothing of it is read.
    fn is_other(&mut self) -> bool {
        let length = self.message.len();
        if self.looks_at.is_none_or(|at| length < at) {
            return false;
        }
        let kind = type_of(&self.message);
        self.looks_at = kind.is_none().then_some(length * 2);
        kind.is_some_and(|kind| !is_wanted(&kind))
    }

    fn end_frame(&mut self, summary: &mut ResponseSummary) {
        if !self.is_text || !self.is_final {
            return;
        }
        let message = std::mem::take(&mut self.message);
        if !self.skips {
            read(&message, summary);
        }
        self.skips = true;
    }
}

/// Whether a message of this type may say what was used.
fn is_wanted(kind: &str) -> bool {
    matches!(kind, "response.done" | "session.created")
}

fn read(message: &[u8], summary: &mut ResponseSummary) {
    let member = |name: &[u8]| member(message, name);
    match type_of(message).as_deref() {
        Some("response.done") => {
            let usage = member(b"response").and_then(|response| self::member(response, b"usage"));
            if let Some(usage) = usage.and_then(Usage::read) {
                summary.usage = Some(summary.usage.unwrap_or_default().plus(&usage));
            }
        }
        Some("session.created") => {
            let model = member(b"session").and_then(|session| self::member(session, b"model"));
            summary.note_model(model.and_then(openai_event::text));
        }
        _ => {}
    }
}

fn member<'a>(object: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let object = object.trim_ascii_start();
    walk::members(object)?.find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![first];
        match payload.len() {
            length @ 0..=125 => bytes.push(length as u8),
            length @ 126..=65_535 => {
                bytes.push(126);
                bytes.extend((length as u16).to_be_bytes());
            }
            length => {
                bytes.push(127);
                bytes.extend((length as u64).to_be_bytes());
            }
        }
        bytes.extend(payload);
        bytes
    }

    fn done(input: u64, output: u64, padding: usize) -> String {
        format!(
            r#" {{"event_id":"e","type":"response.done","response":{{"output":["{}"],"usage":{{"total_tokens":{},
            "input_tokens":{input},"output_tokens":{output},
            "input_token_details":{{"audio_tokens":{input},"cached_tokens":1,"cached_tokens_details":{{"audio_tokens":1}}}}}}}}}}"#,
            "x".repeat(padding),
            input + output
        )
    }

    fn read(stream: &[u8], step: usize) -> ResponseSummary {
        let mut socket = Socket::default();
        let mut summary = ResponseSummary::default();
        stream.chunks(step).for_each(|chunk| socket.push(chunk, &mut summary));
        summary
    }

    #[test]
    fn responses_are_summed_however_their_bytes_arrive() {
        let first = done(10, 3, 70_000);
        let (start, rest) = first.as_bytes().split_at(40);
        let stream = [
            frame(0x81, br#"{"type":"session.created","session":{"model":"gpt-realtime"}}"#),
            // In three frames, with a ping between them.
            frame(0x01, start),
            frame(0x89, b"ping"),
            frame(0x00, &rest[..500]),
            frame(0x80, &rest[500..]),
            frame(0x82, done(1000, 1000, 0).as_bytes()),
            frame(
                0x81,
                format!(r#"{{"type":"response.output_audio.delta","delta":"{}"}}"#, "A".repeat(9_000))
                    .as_bytes(),
            ),
            frame(0x81, b""),
            frame(0x81, br#"{"type":"x","text":"\"response.done\""}"#),
            frame(0x81, done(5, 2, 0).as_bytes()),
            frame(0x88, &[3, 232]),
        ]
        .concat();
        for step in [1, 2, 7, 4096, stream.len()] {
            let summary = read(&stream, step);
            let usage = summary.usage.unwrap();
            assert_eq!((usage.input, usage.output, usage.total), (15, 5, 20), "{step}");
            assert_eq!((usage.input_audio, usage.cached, usage.cached_audio), (15, 2, 2));
            assert_eq!(summary.model.as_deref(), Some("gpt-realtime"));
            assert!(summary.content);
        }
    }

    #[test]
    fn a_type_is_found_behind_everything_else() {
        let response = done(10, 3, 70_000);
        let object = response.split_once("\"response\":").unwrap().1;
        let last = format!(r#"{{"response":{},"type":"response.done"}}"#, object.strip_suffix('}').unwrap());
        let other = format!(r#"{{"delta":"{}","type":"response.done.not"}}"#, "A".repeat(9_000));
        let stream = [frame(0x81, other.as_bytes()), frame(0x81, last.as_bytes())].concat();
        for step in [1, 100, stream.len()] {
            assert_eq!(read(&stream, step).usage.map(|usage| usage.total), Some(13), "{step}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_unknown_and_holds_no_memory() {
        let huge = done(1, 1, MAX_MESSAGE);
        for stream in [
            frame(0xc1, done(1, 1, 0).as_bytes()),
            frame(0x81, huge.as_bytes()),
            frame(0x81, done(1, 1, 0).as_bytes())[..200].to_vec(),
            vec![0xff; 300],
        ] {
            assert_eq!(read(&stream, 1000).usage, None);
        }
        let mut socket = Socket::default();
        let mut summary = ResponseSummary::default();
        socket.push(&frame(0x01, huge.as_bytes())[..MAX_MESSAGE], &mut summary);
        socket.push(&vec![b'x'; MAX_MESSAGE], &mut summary);
        assert!(socket.message.capacity() == 0);
    }
}
