//! One server-sent event of a response that passes: whether it is valid, and which error it holds.
//!
//! Not how events are found in a stream (`api::sse`).

use crate::api::chat::ProviderError;
use crate::api::json_similarity::SimilarJson;
use crate::api::sse::{SseParser, first_event_end, single_line_data};

/// Where the last event of a run begins.
pub(super) fn last_event_start(run: &[u8]) -> usize {
    let mut at = 0;
    let mut last = 0;
    while let Some(end) = run.get(at..).and_then(first_event_end) {
        last = at;
        at += end;
    }
    last
}

/// Whether an event's data is JSON, `[DONE]`, or there is none.
pub(super) fn is_valid_event(event: &[u8], similar: &mut SimilarJson) -> bool {
    let mut is_valid_event = |data: &[u8]| {
        let data = data.trim_ascii();
        data == b"[DONE]" || similar.is_valid(data)
    };
    if let Some(data) = single_line_data(event) {
        return is_valid_event(data);
    }
    let mut valid = true;
    read(event, &mut |data| valid &= is_valid_event(data));
    valid
}

/// The error an event tells.
pub(super) fn error_in(event: &[u8]) -> ProviderError {
    let mut provider_error = None;
    read(event, &mut |data| provider_error = Some(ProviderError::read(502, data)));
    provider_error.unwrap_or_else(|| ProviderError::unreadable("its error event is empty"))
}

/// The data of one event; its blank line may be missing.
fn read(event: &[u8], on: &mut dyn FnMut(&[u8])) {
    let mut splitter = SseParser::default();
    // One that is too long was handed on in pieces already.
    let _ = splitter.push(event, &mut |event| on(event.data));
    splitter.finish(&mut |event| on(event.data));
}
