//! Malformed responses: nothing panics, no event follows the end, chunk sizes make no difference.

use super::AnthropicChat;
use crate::provider::adapter::ChatAdapter;
use proptest::prelude::*;
use words::api::chat::Event;

const STREAM: &str = include_str!("../../../../tests/golden/anthropic/stream_server_tools/answer.sse");
const CALLS: &str = include_str!("../../../../tests/golden/anthropic/stream_thinking_tools/answer.sse");
const WHOLE: &str = include_str!("../../../../tests/golden/anthropic/answer_citations/answer.json");

/// The decoded events, one per line.
fn decode(response: &[u8], streamed: bool, size: usize) -> Vec<String> {
    let mut decoder = AnthropicChat::OWN.decoder(streamed);
    let mut events = Vec::new();
    let mut note = |event: Event<'_>| events.push(format!("{event:?}"));
    response.chunks(size).for_each(|chunk| decoder.push(chunk, &mut note));
    decoder.finish(&mut note);
    events
}

fn check(response: &[u8], streamed: bool) {
    let whole = decode(response, streamed, response.len().max(1));
    assert_eq!(whole, decode(response, streamed, 1));
    assert_eq!(whole, decode(response, streamed, 13));
    let last = whole.iter().position(|event| event.starts_with("Error") || event.starts_with("End"));
    assert!(last.is_none_or(|at| at + 1 == whole.len()), "events after the end: {whole:?}");
    assert!(whole.iter().filter(|event| event.starts_with("Finish")).count() <= 1, "{whole:?}");
}

/// A response with some of its bytes changed, perhaps cut off.
fn broken() -> impl Strategy<Value = (Vec<u8>, bool)> {
    let change = (any::<prop::sample::Index>(), prop::sample::select(b"{}[]\",:\n\r\\0ae\xc3\x00".to_vec()));
    let changes = prop::collection::vec(change, 0..6);
    let response = prop::sample::select(vec![(STREAM, true), (CALLS, true), (WHOLE, false), (WHOLE, true)]);
    (response, changes, any::<prop::sample::Index>(), any::<bool>()).prop_map(
        |((text, streamed), changes, end, cut)| {
            let mut bytes = text.as_bytes().to_vec();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if cut {
                bytes.truncate(end.index(bytes.len()));
            }
            (bytes, streamed)
        },
    )
}

proptest! {
    #[test]
    fn a_broken_response_is_survived((response, streamed) in broken()) {
        check(&response, streamed);
    }

    #[test]
    fn any_bytes_are_survived(response in prop::collection::vec(any::<u8>(), 0..200), streamed: bool) {
        check(&response, streamed);
    }
}

#[test]
fn a_stream_that_opens_blocks_without_end_is_ended() {
    let mut decoder = AnthropicChat::OWN.decoder(true);
    let mut errors = 0;
    for index in 0..10_000 {
        let event = format!(
            "data: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n"
        );
        decoder.push(event.as_bytes(), &mut |event| errors += usize::from(matches!(event, Event::Error(_))));
    }
    assert_eq!(errors, 1);
}

/// A proxy's error page and an empty 200 become one clear sentence, without a status that the provider never
/// sent.
#[test]
fn a_body_that_is_no_message_becomes_one_error() {
    let error_message = |response: &str| {
        let mut message = String::new();
        let mut decoder = AnthropicChat::OWN.decoder(false);
        let mut sink = |event: Event<'_>| {
            if let Event::Error(error) = event {
                message.clone_from(&error.message);
            }
        };
        decoder.push(response.as_bytes(), &mut sink);
        decoder.finish(&mut sink);
        message
    };
    let page = "The provider's answer cannot be read: it is no message of Anthropic's, but: Sold out.";
    assert_eq!(error_message("<html><p>Sold out.</p></html>"), page);
    assert_eq!(error_message(" "), "The provider's answer cannot be read: it is empty.");
}
