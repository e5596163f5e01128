//! Builds event stream frames for tests.

use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};

/// A frame with these headers.
pub fn frame(headers: &[(&'static str, &str)], payload: &str) -> Vec<u8> {
    let mut message = Message::new(payload.as_bytes().to_vec());
    for (name, value) in headers {
        message = message.add_header(Header::new(*name, HeaderValue::String((*value).to_owned().into())));
    }
    let mut out = Vec::new();
    write_message_to(&message, &mut out).unwrap();
    out
}

/// The frames described by a golden file, one per line: `event|exception|error|untyped <kind> <payload>`
/// (`untyped`: an event without `:message-type`).
pub fn stream(lines: &[u8]) -> Vec<u8> {
    let lines = std::str::from_utf8(lines).unwrap().lines();
    lines
        .flat_map(|line| {
            let mut fields = line.splitn(3, ' ');
            let what = fields.next().unwrap();
            let kind = fields.next().unwrap();
            let payload = fields.next().unwrap_or_default();
            match what {
                "event" => event(kind, payload),
                "untyped" => frame(&[(":event-type", kind)], payload),
                "exception" => exception(kind, payload),
                "error" => frame(
                    &[(":message-type", "error"), (":error-code", kind), (":error-message", payload)],
                    "",
                ),
                other => panic!("no such frame: {other}"),
            }
        })
        .collect()
}

/// An event frame.
pub fn event(kind: &str, payload: &str) -> Vec<u8> {
    let headers = [(":event-type", kind), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload)
}

/// An exception frame.
pub fn exception(kind: &str, payload: &str) -> Vec<u8> {
    let headers =
        [(":exception-type", kind), (":content-type", "application/json"), (":message-type", "exception")];
    frame(&headers, payload)
}
