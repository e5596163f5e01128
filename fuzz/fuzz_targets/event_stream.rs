//! Amazon's binary event stream as sent: bytes that are frames, or nearly.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let chat = turnpike_fuzz::chat("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0");
    turnpike_fuzz::check_decoder(&|| chat.decoder(true), data);
});
