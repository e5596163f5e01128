//! `cargo bench --bench route`: the cost of deciding where a request goes, without a socket.
//!
//! Not here: request and response bodies (`translate`), a gateway under load (`load`).

mod timer;

use http::Method;
use std::hint::black_box;
use timer::Timer;
use words::api::operation::Operation;
use words::config::node::Node;
use words::config::pattern::{Excerpt, Pattern, PatternBudget};
use words::config::read::{Cursor, Problems};

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
    patterns(&timer);
}

/// The patterns that take longest to compile or to match, of thousands that were tried.
fn patterns(timer: &Timer) {
    let all: String = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let each = |part: &dyn Fn(char) -> String| all.chars().map(part).collect::<Vec<_>>().join("|");
    let text: String = std::iter::repeat_with(fastrand::alphanumeric).take(Excerpt::MAX_BYTES).collect();
    let text = Excerpt::of(text);
    let compile = |pattern: &str| Pattern::compile(pattern, &PatternBudget::default());
    for (name, pattern) in [
        ("500 times .*", ".*".repeat(500)),
        ("250 times .*, then !", format!("{}!", ".*".repeat(250))),
        ("a choice of parts", each(&|c| format!(r"{c}\w{{2}}!"))),
        ("a choice of long parts", each(&|c| format!(r"{c}\w{{5}}!"))),
        ("options", format!("(?:{}){{10}}!", all.chars().map(|c| format!("{c}?")).collect::<String>())),
        ("a gap", "[ab].{20}!".to_owned()),
        ("a short gap", "[ab].{8}!".to_owned()),
        ("letters of all scripts", r"\pL{2}!".to_owned()),
    ] {
        timer.row(&format!("pattern: {name}, compiled or refused"), || compile(black_box(&pattern)).is_ok());
        let Ok(compiled) = compile(&pattern) else { continue };
        timer.row(&format!("pattern: {name}, 16 KiB"), || compiled.is_match(black_box(&text)));
    }
}
