//! The events of a streamed Cohere response, `message-start` to `message-end`.

use super::cohere::{Content, Generated, PLAN, ToolUse};
use super::reply::{Event, Part, Reply};
use super::sample_text::{Tokens, quote};

pub(super) fn reply(generated: Generated) -> Reply {
    let Generated { id, content, finish, usage } = generated;
    let start = Event::named(
        Part::Content,
        "message-start",
        format_args!(
            r#"{{"id":"{id}","type":"message-start","delta":{{"message":{{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}}}}"#
        ),
    );
    let contents: Box<dyn Iterator<Item = Event> + Send> = match content {
        Content::Text(text) => Box::new(text_events(text)),
        Content::Calls(calls) => Box::new(tool_call_events(calls)),
    };
    let end = Event::named(
        Part::Finish,
        "message-end",
        format_args!(r#"{{"type":"message-end","delta":{{"finish_reason":"{finish}","usage":{usage}}}}}"#),
    );
    Reply::events(std::iter::once(start).chain(contents).chain([end, Event::done()]))
}

fn text_events(text: String) -> impl Iterator<Item = Event> + Send {
    let start = event("content-start", 0, r#""content":{"type":"text","text":""}"#);
    let mut tokens = Tokens::new(text);
    let deltas = std::iter::from_fn(move || {
        Some(event("content-delta", 0, &format!(r#""content":{{"text":{}}}"#, tokens.next_quoted()?)))
    });
    std::iter::once(start).chain(deltas).chain(std::iter::once(end("content-end", 0)))
}

fn tool_call_events(calls: Vec<ToolUse>) -> impl Iterator<Item = Event> + Send {
    let plan = Event::named(
        Part::Content,
        "tool-plan-delta",
        format_args!(r#"{{"type":"tool-plan-delta","delta":{{"message":{{"tool_plan":{}}}}}}}"#, quote(PLAN)),
    );
    let calls = calls.into_iter().enumerate().flat_map(|(index, tool)| {
        let start = event("tool-call-start", index, &format!(r#""tool_calls":{}"#, tool.json("\"\"")));
        let mut tokens = Tokens::new(tool.arguments);
        let deltas = std::iter::from_fn(move || {
            let token = tokens.next_quoted()?;
            let delta = format!(r#""tool_calls":{{"function":{{"arguments":{token}}}}}"#);
            Some(event("tool-call-delta", index, &delta))
        });
        std::iter::once(start).chain(deltas).chain(std::iter::once(end("tool-call-end", index)))
    });
    std::iter::once(plan).chain(calls)
}

fn event(kind: &str, index: usize, message: &str) -> Event {
    Event::named(
        Part::Content,
        kind,
        format_args!(r#"{{"type":"{kind}","index":{index},"delta":{{"message":{{{message}}}}}}}"#),
    )
}

fn end(kind: &str, index: usize) -> Event {
    Event::named(Part::Content, kind, format_args!(r#"{{"type":"{kind}","index":{index}}}"#))
}
