//! What every fuzz target asserts: nothing panics, and it makes no difference where a response is cut into chunks.
//!
//! Providers are found by name, as the gateway finds them: a target does not depend on the location of a decoder.

use words::api::chat::{Decoder, EncodeContext, Encoder, Event};
use words::api::operation::Operation;
use words::api::{chat_completions, completions, messages};
use words::config::account::Account;
use knowledge::provider::adapter::{Adapter, ChatAdapter};
use knowledge::provider::rewriter::Rewriter;
use knowledge::provider::{self, Call};

/// Responses up to this size are also decoded byte by byte.
const BYTE_BY_BYTE: usize = 2 << 10;

/// A provider's chat adapter. Panics if it has none: such a target would test nothing.
pub fn chat(provider: &str, model: &str) -> &'static dyn ChatAdapter {
    let found = provider::find(provider).unwrap_or_else(|| panic!("no provider {provider}"));
    let operations = [Operation::ChatCompletions, Operation::Completions, Operation::Messages];
    let adapters = operations.into_iter().map(|operation| {
        let call = Call {
            operation,
            method: &http::Method::POST,
            path: "chat/completions",
            query: None,
            model: Some(model),
            streamed: true,
        };
        found.adapter(&call, &Account::default())
    });
    let chat = adapters.flatten().find_map(|adapter| match adapter {
        Adapter::Chat(chat) => Some(chat),
        _ => None,
    });
    chat.unwrap_or_else(|| panic!("{provider} has no chat adapter"))
}

/// Decodes `data` as a whole and as a streamed response, each in one chunk and in several, and encodes the
/// events in the client dialects.
pub fn check_response(chat: &dyn ChatAdapter, data: &[u8]) {
    for streamed in [false, true] {
        check_decoder(&|| chat.decoder(streamed), data);
    }
}

/// As [`check_response`], for one decoder.
pub fn check_decoder(decoder: &dyn Fn() -> Box<dyn Decoder>, data: &[u8]) {
    let seed = fold(data);
    let splits = [cuts(data, seed), cuts(data, seed.rotate_left(17) | 1), bytes(data)];
    let wanted = decode(decoder(), &[data]);
    for chunks in splits.iter().filter(|chunks| !chunks.is_empty()) {
        assert_eq!(decode(decoder(), chunks), wanted, "the events depend on the cuts");
    }
    for dialect in [seed % 3, 3 + seed / 3 % 3] {
        let (wanted, complete) = translate(decoder(), dialect, &[data]);
        for chunks in splits.iter().filter(|chunks| !chunks.is_empty()) {
            let (out, _) = translate(decoder(), dialect, chunks);
            assert_eq!(out, wanted, "the encoded response depends on the cuts");
        }
        if complete {
            assert_well_formed(&wanted, dialect >= 3);
        }
    }
}

/// The events of a response that arrives in `chunks`, one line each.
fn decode(mut decoder: Box<dyn Decoder>, chunks: &[&[u8]]) -> Vec<String> {
    let mut events = Vec::new();
    let mut failed = false;
    let mut on_event = |event: Event<'_>| {
        assert!(!failed, "an event after an error: {event:?}");
        failed = matches!(event, Event::Error(_));
        events.push(format!("{event:?}"));
    };
    for chunk in chunks {
        decoder.push(chunk, &mut on_event);
    }
    decoder.finish(&mut on_event);
    events
}

/// What the client gets, and whether the response is complete and has no error. `dialect`: below 3 whole,
/// else streamed.
fn translate(decoder: Box<dyn Decoder>, dialect: u64, chunks: &[&[u8]]) -> (Vec<u8>, bool) {
    let context = EncodeContext {
        id: "0".to_owned(),
        created: 0,
        model: "m".to_owned(),
        provider: "fuzzed",
        strict: false,
        include_usage: true,
        request: None,
    };
    let streamed = dialect >= 3;
    let encoder: Box<dyn Encoder> = match dialect % 3 {
        0 => chat_completions::encoder(streamed, context),
        1 => messages::encoder(streamed, context),
        _ => completions::encoder(streamed, context),
    };
    let mut rewriter = Rewriter::chat(decoder, encoder, "0");
    let mut out = Vec::new();
    for chunk in chunks {
        rewriter.push(chunk, &mut out);
    }
    rewriter.finish(&mut out);
    let complete = rewriter.is_complete() && rewriter.error().is_none();
    (out, complete)
}

/// Asserts that a complete response is JSON, or events of JSON.
fn assert_well_formed(out: &[u8], streamed: bool) {
    let is_json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).is_ok();
    // A provider's value may be nested deeper than serde_json parses; it passes unchanged.
    let deep = |text: &[u8]| text.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() > 100;
    if !streamed {
        assert!(is_json(out) || deep(out), "not JSON: {}", String::from_utf8_lossy(out));
        return;
    }
    let mut parser = words::api::sse::SseParser::default();
    for run in [parser.push(out), parser.finish()] {
        // Inputs this small cannot produce an event over the parser's limit.
        assert!(!run.is_oversized());
        for data in run.data() {
            assert!(*data == b"[DONE]"[..] || is_json(&data) || deep(&data), "not JSON: {}", String::from_utf8_lossy(&data));
        }
    }
}

/// Chunks of odd sizes, drawn from `seed`.
pub fn cuts(data: &[u8], seed: u64) -> Vec<&[u8]> {
    let (mut state, mut rest, mut chunks) = (seed | 1, data, Vec::new());
    while !rest.is_empty() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Small chunks cut line ends and multi-byte characters.
        let max = if state & 3 == 0 { 1 + data.len() / 3 } else { 7 };
        let (chunk, remaining) = rest.split_at(rest.len().min(1 + (state >> 8) as usize % max));
        chunks.push(chunk);
        rest = remaining;
    }
    chunks
}

/// Byte by byte; empty if that would take too long.
pub fn bytes(data: &[u8]) -> Vec<&[u8]> {
    if data.len() > BYTE_BY_BYTE { Vec::new() } else { data.chunks(1).collect() }
}

/// FNV-1a: the same input is always cut at the same places, so that a find can be reproduced.
pub fn fold(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
