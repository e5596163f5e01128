//! Answers in Gemini's words, whole and streamed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    turnpike_fuzz::answer(turnpike_fuzz::chat("google", "gemini-2.5-flash"), data);
});
