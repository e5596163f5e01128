//! The events of a streamed message, `message_start` to `message_stop`.

use super::anthropic::{Block, Generated, SIGNATURE, THOUGHT};
use super::reply::{Event, Part, Reply};
use super::sample_text::{Tokens, quote};

pub(super) fn reply(generated: Generated) -> Reply {
    let Generated { id, model, blocks, stop_reason, stop_sequence, input_tokens, output_tokens } = generated;
    let start = Event::named(
        Part::Content,
        "message_start",
        format_args!(
            r#"{{"type":"message_start","message":{{"id":"{id}","type":"message","role":"assistant","model":{model},"content":[],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":{input_tokens},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1,"service_tier":"standard"}}}}}}"#
        ),
    );
    let contents = blocks.into_iter().enumerate().flat_map(|(index, content)| block(index, content));
    let end = Event::named(
        Part::Finish,
        "message_delta",
        format_args!(
            r#"{{"type":"message_delta","delta":{{"stop_reason":"{stop_reason}","stop_sequence":{stop_sequence}}},"usage":{{"output_tokens":{output_tokens}}}}}"#
        ),
    );
    let stop = Event::named(Part::Done, "message_stop", r#"{"type":"message_stop"}"#);
    Reply::events(std::iter::once(start).chain(contents).chain([end, stop]))
}

/// The events of one content block: its start, a ping after the first one, its deltas, its stop.
fn block(index: usize, block: Block) -> impl Iterator<Item = Event> + Send {
    let (opening, kind, field, text, signed) = match block {
        Block::Thinking => {
            let opening = r#"{"type":"thinking","thinking":"","signature":""}"#.to_owned();
            (opening, "thinking_delta", "thinking", THOUGHT.to_owned(), true)
        }
        Block::Text(text) => (r#"{"type":"text","text":""}"#.to_owned(), "text_delta", "text", text, false),
        Block::ToolUse { id, name, input } => {
            let opening =
                format!(r#"{{"type":"tool_use","id":"{id}","name":{},"input":{{}}}}"#, quote(&name));
            (opening, "input_json_delta", "partial_json", input, false)
        }
    };
    let start = Event::named(
        Part::Content,
        "content_block_start",
        format_args!(r#"{{"type":"content_block_start","index":{index},"content_block":{opening}}}"#),
    );
    let ping = (index == 0).then(|| Event::named(Part::Content, "ping", r#"{"type": "ping"}"#));
    let mut tokens = Tokens::new(text);
    let deltas = std::iter::from_fn(move || {
        let token = tokens.next_quoted()?;
        Some(delta(index, format_args!(r#"{{"type":"{kind}","{field}":{token}}}"#)))
    });
    let signature = signed
        .then(|| delta(index, format_args!(r#"{{"type":"signature_delta","signature":"{SIGNATURE}"}}"#)));
    let stop = Event::named(
        Part::Content,
        "content_block_stop",
        format_args!(r#"{{"type":"content_block_stop","index":{index}}}"#),
    );
    std::iter::once(start).chain(ping).chain(deltas).chain(signature).chain(std::iter::once(stop))
}

fn delta(index: usize, delta: std::fmt::Arguments<'_>) -> Event {
    Event::named(
        Part::Content,
        "content_block_delta",
        format_args!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#),
    )
}
