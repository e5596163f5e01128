//! `cargo bench --bench translate`: what reading and changing a body costs, without a socket.
//!
//! Not here: which target a request goes to (`route`), a gateway under load (`load`).

mod timer;

use bytes::Bytes;
use std::borrow::Cow;
use std::hint::black_box;
use timer::Timer;
use turnpike::api::body::{Body, Edit};

fn main() {
    let timer = Timer::start();
    let sizes = [("1 KB", 900), ("100 KB", 100_000), ("1 MB", 1_000_000)];
    for (size, length) in sizes {
        let bytes = chat(length);
        timer.row(&format!("chat body {size}: parse"), || Body::parse(black_box(&bytes).clone()));
        let Ok(body) = Body::parse(bytes) else { continue };
        timer.row(&format!("chat body {size}: model, stream"), || {
            let body = black_box(&body);
            (body.text("model").map(|model| model.len()), body.is_true("stream"))
        });
        let edits = [
            Edit::Set("model", Cow::Borrowed("\"gpt-5-mini\"")),
            Edit::Set("seed", Cow::Borrowed("7")),
            Edit::Remove("user"),
        ];
        timer.row(&format!("chat body {size}: three edits"), || black_box(&body).edit(black_box(&edits)));
    }
}

/// A chat request whose last message is about `length` bytes long.
fn chat(length: usize) -> Bytes {
    let text = "All work and no play. ".repeat(length / 22);
    Bytes::from(format!(
        r#"{{"model":"@up/gpt-5","messages":[{{"role":"system","content":"Be plain."}},{{"role":"user","content":"{text}"}}],"temperature":0.7,"max_tokens":256,"stream":true,"user":"u-1"}}"#
    ))
}
