//! Responses in Anthropic's format, whole and streamed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    turnpike_fuzz::check_response(turnpike_fuzz::chat("anthropic", "claude-sonnet-4-5"), data);
});
