//! The events of a streamed Cohere answer, `message-start` to `message-end`.

use super::cohere::{Content, PLAN, Told, ToolUse};
use super::reply::{Event, Part, Reply};
use super::words::{Pieces, quote};

pub(super) fn reply(told: Told) -> Reply {
    let Told { id, content, finish, usage } = told;
    let start = Event::named(
        Part::Piece,
        "message-start",
        format_args!(
            r#"{{"id":"{id}","type":"message-start","delta":{{"message":{{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}}}}"#
        ),
    );
    let contents: Box<dyn Iterator<Item = Event> + Send> = match content {
        Content::Text(text) => Box::new(said(text)),
        Content::Calls(calls) => Box::new(called(calls)),
    };
    let end = Event::named(
        Part::Finish,
        "message-end",
        format_args!(r#"{{"type":"message-end","delta":{{"finish_reason":"{finish}","usage":{usage}}}}}"#),
    );
    Reply::events(std::iter::once(start).chain(contents).chain([end, Event::done()]))
}

fn said(text: String) -> impl Iterator<Item = Event> + Send {
    let start = event("content-start", 0, r#""content":{"type":"text","text":""}"#);
    let mut pieces = Pieces::new(text);
    let deltas = std::iter::from_fn(move || {
        Some(event("content-delta", 0, &format!(r#""content":{{"text":{}}}"#, pieces.quoted()?)))
    });
    std::iter::once(start).chain(deltas).chain(std::iter::once(end("content-end", 0)))
}

fn called(calls: Vec<ToolUse>) -> impl Iterator<Item = Event> + Send {
    let plan = Event::named(
        Part::Piece,
        "tool-plan-delta",
        format_args!(r#"{{"type":"tool-plan-delta","delta":{{"message":{{"tool_plan":{}}}}}}}"#, quote(PLAN)),
    );
    let calls = calls.into_iter().enumerate().flat_map(|(index, tool)| {
        let start = event("tool-call-start", index, &format!(r#""tool_calls":{}"#, tool.json("\"\"")));
        let mut pieces = Pieces::new(tool.arguments);
        let deltas = std::iter::from_fn(move || {
            let piece = pieces.quoted()?;
            let delta = format!(r#""tool_calls":{{"function":{{"arguments":{piece}}}}}"#);
            Some(event("tool-call-delta", index, &delta))
        });
        std::iter::once(start).chain(deltas).chain(std::iter::once(end("tool-call-end", index)))
    });
    std::iter::once(plan).chain(calls)
}

fn event(kind: &str, index: usize, message: &str) -> Event {
    Event::named(
        Part::Piece,
        kind,
        format_args!(r#"{{"type":"{kind}","index":{index},"delta":{{"message":{{{message}}}}}}}"#),
    )
}

fn end(kind: &str, index: usize) -> Event {
    Event::named(Part::Piece, kind, format_args!(r#"{{"type":"{kind}","index":{index}}}"#))
}
