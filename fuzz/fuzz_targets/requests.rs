//! Request bodies of every client dialect: nothing panics, and token counts can be estimated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use words::api::body::Body;
use words::api::{chat_completions, completions, messages};

fuzz_target!(|data: &[u8]| {
    let Ok(body) = Body::parse(data.to_vec().into()) else { return };
    let _ = chat_completions::read(&body);
    let _ = completions::read(&body);
    let _ = messages::read(&body);
    messages::estimate(&body);
});
