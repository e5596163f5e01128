//! Responses in OpenAI's format, whole and streamed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    turnpike_fuzz::check_response(turnpike_fuzz::chat("groq", "openai/gpt-oss-120b"), data);
});
