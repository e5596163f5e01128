//! `cargo bench --bench route`: the cost of deciding where a request goes, without a socket.
//!
//! Not here: request and response bodies (`translate`), a gateway under load (`load`).

mod timer;

use http::Method;
use std::hint::black_box;
use timer::Timer;
use turnpike::api::operation::Operation;
use turnpike::config::node::Node;
use turnpike::config::read::{Cursor, Problems};

const ONE_TARGET: &str = r#"{"provider":"@up"}"#;

const NESTED: &str = r#"{"strategy":{"mode":"fallback","on_status_codes":[429,500,502,503]},"retry":{"attempts":2,"on_status_codes":[429]},"request_timeout":30000,"targets":[{"provider":"anthropic","api_key":"sk-one","override_params":{"model":"claude-sonnet","max_tokens":1024}},{"strategy":{"mode":"loadbalance"},"targets":[{"provider":"openai","api_key":"sk-two","weight":0.7},{"provider":"groq","api_key":"sk-three","weight":0.3}]}]}"#;

fn main() {
    let timer = Timer::start();
    for (name, method, path) in [
        ("operation: chat", Method::POST, "/v1/chat/completions"),
        ("operation: a path of one provider", Method::GET, "/v1/vector_stores/vs_1/files"),
    ] {
        timer.row(name, || Operation::find(black_box(&method), black_box(path)));
    }
    for (name, text) in [("config: one target", ONE_TARGET), ("config: nested fallback", NESTED)] {
        timer.row(&format!("{name}, JSON read"), || Node::from_json(black_box(text.as_bytes())));
        let Ok(node) = Node::from_json(text.as_bytes()) else { continue };
        timer.row(&format!("{name}, fields walked"), || {
            let problems = Problems::default();
            Cursor::root(black_box(&node), &problems).entries().map(|entries| entries.len())
        });
    }
}
