//! Bytes of an answer in OpenAI's chat shape, cut into JSON texts. What they tell is told by `teller`.

use super::fault;
use super::teller::Teller;
use crate::api::chat::{Decoder, Event, EventSink, Json, ProviderError};
use crate::api::sse::{self, SseParser};

/// The largest whole answer held, bytes: some carry pictures and sound.
const MOST_WHOLE: usize = 64 << 20;
/// Of a stream that has told no event yet, as much is kept: it may be a page of HTML.
const MOST_HEAD: usize = 64 << 10;

/// Reads one whole answer.
#[derive(Debug, Default)]
pub(super) struct Whole {
    held: Vec<u8>,
    over: bool,
}

impl Decoder for Whole {
    fn push(&mut self, bytes: &[u8], tell: EventSink<'_>) {
        if self.over {
            return;
        }
        if self.held.len() + bytes.len() > MOST_WHOLE {
            self.over = true;
            self.held = Vec::new();
            return tell(Event::Error(&ProviderError::unreadable("it is over 64 MiB")));
        }
        self.held.extend_from_slice(bytes);
    }

    fn finish(&mut self, tell: EventSink<'_>) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        tell_whole(&std::mem::take(&mut self.held), tell);
    }
}

/// Tells a whole answer, or what is wrong with it.
fn tell_whole(body: &[u8], tell: EventSink<'_>) {
    let text = match std::str::from_utf8(body) {
        Ok(text) => text.trim_start_matches('\u{feff}').trim(),
        Err(_) => return tell(Event::Error(&ProviderError::unreadable("it is not UTF-8"))),
    };
    let mut teller = Teller::default();
    let told = if text.starts_with('{') { teller.take(text, false, tell) } else { Err(no_answer(text)) };
    match told {
        Ok(true) => teller.end(tell),
        Ok(false) => tell(Event::Error(&no_answer(text))),
        Err(fault) => tell(Event::Error(&fault)),
    }
}

/// What came in place of an answer: an error without the word, a page, nothing.
fn no_answer(text: &str) -> ProviderError {
    match Json::parse(text) {
        Some(_) => fault::fault(text, None),
        None if text.is_empty() => ProviderError::unreadable("it is empty"),
        None => {
            let said = ProviderError::read(502, text.as_bytes()).message;
            let said: String = said.chars().take(300).collect();
            ProviderError::unreadable(&format!("it is not JSON: {said}"))
        }
    }
}

/// Reads one stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    splitter: SseParser,
    teller: Teller,
    /// The first bytes, until an event has come.
    head: Vec<u8>,
    /// An event has come.
    begun: bool,
    closed: bool,
}

impl Decoder for Stream {
    fn push(&mut self, bytes: &[u8], tell: EventSink<'_>) {
        if self.closed {
            return;
        }
        if !self.begun {
            let room = MOST_HEAD.saturating_sub(self.head.len());
            self.head.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        }
        let mut splitter = std::mem::take(&mut self.splitter);
        let split = splitter.push(bytes, &mut |event| self.take(event, false, tell));
        self.splitter = splitter;
        if split.is_err() && !self.closed {
            self.closed = true;
            tell(Event::Error(&ProviderError::unreadable("an event of its stream is over 16 MiB")));
        }
    }

    fn finish(&mut self, tell: EventSink<'_>) {
        if self.closed {
            return;
        }
        let mut splitter = std::mem::take(&mut self.splitter);
        splitter.finish(&mut |event| self.take(event, true, tell));
        if self.closed {
            return;
        }
        self.closed = true;
        if self.begun {
            return self.teller.flush(tell);
        }
        // No event at all: an answer in another shape, unless nothing came but comments.
        let head = std::mem::take(&mut self.head);
        let head = String::from_utf8_lossy(&head);
        let is_comment = |line: &str| line.is_empty() || line.starts_with([':']) || line.starts_with("data:");
        if !head.lines().map(str::trim).all(is_comment) {
            tell_whole(head.as_bytes(), tell);
        }
    }
}

impl Stream {
    /// Takes one event. `last`: the blank line behind it never came, so it may be half of one.
    fn take(&mut self, event: sse::Event<'_>, last: bool, tell: EventSink<'_>) {
        let data = event.data.trim_ascii();
        // Some keep the connection alive with empty events.
        if self.closed || data.is_empty() {
            return;
        }
        self.begun = true;
        self.head = Vec::new();
        if data == b"[DONE]" {
            self.closed = true;
            return self.teller.end(tell);
        }
        let text = std::str::from_utf8(data).unwrap_or_default();
        if last && Json::parse(text).is_none() {
            return;
        }
        let told = match event.name {
            Some("error") => Err(fault::fault(text, None)),
            _ => match self.teller.take(text, true, tell) {
                Ok(false) => fault::loose(text).map_or(Ok(false), Err),
                told => told,
            },
        };
        if let Err(fault) = told {
            self.closed = true;
            tell(Event::Error(&fault));
        }
    }
}
