//! The frames of a streamed Converse response, in Amazon's binary event stream format.

use super::bedrock::{Block, Generated};
use super::reply::{Content, Event, Part, Reply};
use super::sample_text::{Tokens, quote};
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use bytes::Bytes;

const CONTENT_TYPE: http::HeaderValue = http::HeaderValue::from_static("application/vnd.amazon.eventstream");

pub(super) fn reply(generated: Generated) -> Reply {
    let Generated { blocks, stop_reason, usage } = generated;
    let start = event(Part::Content, "messageStart", r#"{"role":"assistant"}"#.to_owned());
    let contents = blocks.into_iter().enumerate().flat_map(|(index, content)| block(index, content));
    let stop = event(Part::Finish, "messageStop", format!(r#"{{"stopReason":"{stop_reason}"}}"#));
    let metadata = format!(r#"{{"usage":{usage},"metrics":{{"latencyMs":7}}}}"#);
    let metadata = event(Part::Done, "metadata", metadata);
    let events = std::iter::once(start).chain(contents).chain([stop, metadata]);
    let content = Content::Events(Box::new(events), None);
    Reply { content, ..Reply::whole(CONTENT_TYPE, Bytes::new()) }
}

/// The frames of one content block: a start (only for tool calls), its deltas, its stop.
fn block(index: usize, block: Block) -> impl Iterator<Item = Event> + Send {
    let (start, text, is_call) = match block {
        Block::Text(text) => (None, text, false),
        Block::ToolUse { id, name, input } => {
            let name = quote(&name);
            let start = format!(
                r#"{{"contentBlockIndex":{index},"start":{{"toolUse":{{"toolUseId":"{id}","name":{name}}}}}}}"#
            );
            (Some(event(Part::Content, "contentBlockStart", start)), input, true)
        }
    };
    let mut tokens = Tokens::new(text);
    let deltas = std::iter::from_fn(move || {
        let token = tokens.next_quoted()?;
        let delta = if is_call {
            format!(r#"{{"toolUse":{{"input":{token}}}}}"#)
        } else {
            format!(r#"{{"text":{token}}}"#)
        };
        let payload = format!(r#"{{"contentBlockIndex":{index},"delta":{delta}}}"#);
        Some(event(Part::Content, "contentBlockDelta", payload))
    });
    let stop = event(Part::Content, "contentBlockStop", format!(r#"{{"contentBlockIndex":{index}}}"#));
    start.into_iter().chain(deltas).chain(std::iter::once(stop))
}

fn event(part: Part, kind: &'static str, payload: String) -> Event {
    Event { part, bytes: frame("event", ":event-type", kind, payload) }
}

/// An exception frame: a failure in the middle of a stream.
pub(super) fn exception(kind: &'static str, payload: String) -> Bytes {
    frame("exception", ":exception-type", kind, payload)
}

fn frame(message: &'static str, name: &'static str, kind: &'static str, payload: String) -> Bytes {
    let header = |name, value: &'static str| Header::new(name, HeaderValue::String(value.into()));
    let message = Message::new(payload.into_bytes())
        .add_header(header(name, kind))
        .add_header(header(":content-type", "application/json"))
        .add_header(header(":message-type", message));
    let mut out = Vec::new();
    // Encoding fails only for headers over 4 GB.
    let written = write_message_to(&message, &mut out);
    written.map(|()| out.into()).unwrap_or_default()
}
