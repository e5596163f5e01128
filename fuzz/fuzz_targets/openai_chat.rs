//! Answers in OpenAI's words, whole and streamed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    turnpike_fuzz::answer(turnpike_fuzz::chat("groq", "openai/gpt-oss-120b"), data);
});
