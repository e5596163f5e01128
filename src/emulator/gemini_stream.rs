//! The events of a streamed Gemini response: each is a complete response object, the last has the finish
//! reason.
//!
//! There is no end marker. With `alt=sse` they are SSE events, without it the items of one JSON list. Tool
//! calls are never split, as with Gemini.

use super::conversation::Completion;
use super::gemini::{Generated, chunk, function_call, thought};
use super::reply::{Event, Part, Reply};
use super::sample_text::Tokens;
use bytes::Bytes;

pub(super) fn reply(generated: Generated, is_sse: bool) -> Reply {
    let Generated { completion, thinks, finish, tail } = generated;
    let parts: Box<dyn Iterator<Item = String> + Send> =
        match completion {
            Completion::Text(sample) => {
                let mut tokens = Tokens::new(sample.text);
                Box::new(std::iter::from_fn(move || Some(format!(r#"{{"text":{}}}"#, tokens.next_quoted()?))))
            }
            Completion::Tools(calls) => {
                let parts = calls.into_iter().enumerate();
                Box::new(parts.map(move |(index, tool)| {
                    function_call(&tool.name, &tool.arguments, thinks && index == 0)
                }))
            }
        };
    let parts = thinks.then(thought).into_iter().map(|thought| (thought, 0)).chain(parts.zip(1..));
    let end = (Part::Finish, chunk(r#"{"text":""}"#, Some(finish), &tail.whole()));
    // Each part of a text is a token.
    let responses = parts.map(move |(part, sent)| (Part::Content, chunk(&part, None, &tail.after(sent))));
    let responses = responses.chain(std::iter::once(end));
    if is_sse {
        return Reply::events(responses.map(|(part, response)| Event::data(part, response)));
    }
    let items = responses.enumerate().map(|(index, (part, response))| {
        let before = if index == 0 { "[" } else { "\n,\r\n" };
        let after = if matches!(part, Part::Finish) { "\n]" } else { "" };
        Event { part, bytes: Bytes::from(format!("{before}{response}{after}")) }
    });
    Reply { content_type: Reply::json("").content_type, ..Reply::events(items) }
}
