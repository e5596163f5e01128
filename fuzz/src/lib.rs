//! What every fuzz target asserts: nothing panics, and where an answer is cut makes no difference.
//!
//! Providers are found by name, as the gateway finds them: a target does not care where a reader lives.

use turnpike::api::chat::{Event, Reader, Setting, Writer};
use turnpike::api::operation::Operation;
use turnpike::api::{chat_completions, completions, messages};
use turnpike::config::account::Account;
use turnpike::provider::rewriter::Rewriter;
use turnpike::provider::way::{Chat, Way};
use turnpike::provider::{self, Call};

/// Answers up to this size are also read byte by byte.
const BYTE_BY_BYTE: usize = 2 << 10;

/// A provider's chat. Panics where there is none: a target for nothing would prove nothing.
pub fn chat(provider: &str, model: &str) -> &'static dyn Chat {
    let found = provider::find(provider).unwrap_or_else(|| panic!("no provider {provider}"));
    let operations = [Operation::ChatCompletions, Operation::Completions, Operation::Messages];
    let ways = operations.into_iter().map(|operation| {
        let call = Call {
            operation,
            method: &http::Method::POST,
            path: "chat/completions",
            query: None,
            model: Some(model),
            streamed: true,
        };
        found.way(&call, &Account::default())
    });
    let chat = ways.flatten().find_map(|way| match way {
        Way::Chat(chat) => Some(chat),
        _ => None,
    });
    chat.unwrap_or_else(|| panic!("{provider} has no chat of its own"))
}

/// Reads `data` as a whole answer and as a streamed one, each in one piece and in several, and writes what
/// it tells in one of the callers' dialects.
pub fn answer(chat: &dyn Chat, data: &[u8]) {
    for streamed in [false, true] {
        read(&|| chat.reader(streamed), data);
    }
}

/// As [`answer`], for readers of one kind.
pub fn read(reader: &dyn Fn() -> Box<dyn Reader>, data: &[u8]) {
    let seed = fold(data);
    let ways = [cuts(data, seed), cuts(data, seed.rotate_left(17) | 1), bytes(data)];
    let wanted = told(reader(), &[data]);
    for pieces in ways.iter().filter(|pieces| !pieces.is_empty()) {
        assert_eq!(told(reader(), pieces), wanted, "events depend on the cuts");
    }
    for dialect in [seed % 3, 3 + seed / 3 % 3] {
        let (wanted, complete) = written(reader(), dialect, &[data]);
        for pieces in ways.iter().filter(|pieces| !pieces.is_empty()) {
            let (out, _) = written(reader(), dialect, pieces);
            assert_eq!(out, wanted, "what is written depends on the cuts");
        }
        if complete {
            well_formed(&wanted, dialect >= 3);
        }
    }
}

/// The events of an answer that comes in `pieces`, one line each.
fn told(mut reader: Box<dyn Reader>, pieces: &[&[u8]]) -> Vec<String> {
    let mut events = Vec::new();
    let mut failed = false;
    let mut tell = |event: Event<'_>| {
        assert!(!failed, "something is told after an error: {event:?}");
        failed = matches!(event, Event::Error(_));
        events.push(format!("{event:?}"));
    };
    for piece in pieces {
        reader.push(piece, &mut tell);
    }
    reader.finish(&mut tell);
    events
}

/// What the caller gets, and whether the answer came to its end without a fault. `dialect`: below 3 whole,
/// else streamed.
fn written(reader: Box<dyn Reader>, dialect: u64, pieces: &[&[u8]]) -> (Vec<u8>, bool) {
    let setting = Setting {
        id: "0".to_owned(),
        created: 0,
        model: "m".to_owned(),
        provider: "fuzzed",
        strict: false,
        include_usage: true,
        request: None,
    };
    let streamed = dialect >= 3;
    let writer: Box<dyn Writer> = match dialect % 3 {
        0 => chat_completions::writer(streamed, setting),
        1 => messages::writer(streamed, setting),
        _ => completions::writer(streamed, setting),
    };
    let mut rewriter = Rewriter::chat(reader, writer, "0");
    let mut out = Vec::new();
    for piece in pieces {
        rewriter.push(piece, &mut out);
    }
    rewriter.finish(&mut out);
    let complete = rewriter.is_complete() && rewriter.fault().is_none();
    (out, complete)
}

/// A complete answer is JSON, or events of JSON.
fn well_formed(out: &[u8], streamed: bool) {
    let is_json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).is_ok();
    // A value the provider wrote may be nested deeper than serde_json reads; it passes as it came.
    let deep = |text: &[u8]| text.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() > 100;
    if !streamed {
        assert!(is_json(out) || deep(out), "no JSON: {}", String::from_utf8_lossy(out));
        return;
    }
    let mut parser = turnpike::api::sse::SseParser::default();
    for run in [parser.push(out), parser.finish()] {
        // Inputs this small cannot make an event over the parser's limit.
        assert!(!run.is_oversized());
        for data in run.data() {
            assert!(*data == b"[DONE]"[..] || is_json(&data) || deep(&data), "no JSON: {}", String::from_utf8_lossy(&data));
        }
    }
}

/// Pieces of odd sizes, drawn from `seed`.
pub fn cuts(data: &[u8], seed: u64) -> Vec<&[u8]> {
    let (mut state, mut rest, mut pieces) = (seed | 1, data, Vec::new());
    while !rest.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Small pieces are the ones that cut inside a line end or a letter.
        let most = if state & 3 == 0 { 1 + data.len() / 3 } else { 7 };
        let (piece, behind) = rest.split_at(rest.len().min(1 + (state >> 8) as usize % most));
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

/// Byte by byte; nothing where that would take too long.
pub fn bytes(data: &[u8]) -> Vec<&[u8]> {
    if data.len() > BYTE_BY_BYTE { Vec::new() } else { data.chunks(1).collect() }
}

/// FNV-1a: the same input is always cut at the same places, so that a find can be repeated.
pub fn fold(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
