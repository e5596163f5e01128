//! The events of a streamed Gemini answer: each a response of its own, the last with the finish reason.
//!
//! There is no end marker. Calls come whole, as Gemini sends them.

use super::gemini::{Told, piece};
use super::reply::{Event, Part, Reply};
use super::talk::Turn;
use super::words::{Pieces, quote};

pub(super) fn reply(told: Told) -> Reply {
    let Told { turn, finish, tail } = told;
    let parts: Box<dyn Iterator<Item = String> + Send> = match turn {
        Turn::Text(said) => {
            let mut pieces = Pieces::new(said.text);
            Box::new(std::iter::from_fn(move || Some(format!(r#"{{"text":{}}}"#, pieces.quoted()?))))
        }
        Turn::Tools(calls) => Box::new(calls.into_iter().map(|tool| {
            let (name, arguments) = (quote(&tool.name), tool.arguments);
            format!(r#"{{"functionCall":{{"name":{name},"args":{arguments}}}}}"#)
        })),
    };
    let end = Event::data(Part::Finish, piece(r#"{"text":""}"#, Some(finish), &tail));
    let events = parts.map(move |part| Event::data(Part::Piece, piece(&part, None, &tail)));
    Reply::events(events.chain(std::iter::once(end)))
}
