//! Responses in Gemini's format, whole and streamed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    turnpike_fuzz::check_response(turnpike_fuzz::chat("google", "gemini-2.5-flash"), data);
});
