//! Converse's responses: whole, and as frames built from the input. Each line is one frame, `type payload`; a
//! `!` before the type makes it an exception. (Raw frames are in `event_stream`, where a changed byte only
//! causes a checksum error.)
#![no_main]

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use libfuzzer_sys::fuzz_target;

fn frames(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.lines() {
        let (kind, payload) = line.split_once(' ').unwrap_or((line, ""));
        let (message_type, name, kind) = match kind.strip_prefix('!') {
            Some(kind) => ("exception", ":exception-type", kind),
            None => ("event", ":event-type", kind),
        };
        let text = |value: &str| HeaderValue::String(value.to_owned().into());
        let headers = [(":message-type", message_type), (name, kind), (":content-type", "application/json")];
        let headers = headers.map(|(name, value)| Header::new(name, text(value)));
        let message = Message::new_from_parts(headers.to_vec(), payload.as_bytes().to_vec());
        // A payload too long for a frame is left out.
        let _ = write_message_to(&message, &mut out);
    }
    out
}

fuzz_target!(|data: &[u8]| {
    let chat = turnpike_fuzz::chat("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0");
    turnpike_fuzz::check_decoder(&|| chat.decoder(false), data);
    if let Ok(text) = std::str::from_utf8(data) {
        turnpike_fuzz::check_decoder(&|| chat.decoder(true), &frames(text));
    }
});
