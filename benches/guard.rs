//! `cargo bench --bench guard`: what checks cost a request, and a stream for each event that passes their windows.
//!
//! One row is one call: a check or a hook over a prompt of 4 KB, or an event of a few bytes. Not here: checks that call other servers,
//! and the gateway as a whole (`load`).

#![allow(clippy::unwrap_used, reason = "a bench that cannot run stops, and says why")]

mod timer;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use judgment::guard::{
    Hook, HookCompiler, HookSet, Outside, OutsideCall, OutsideError, OutsideResponse, Run, StreamUse,
    Subject, WindowState,
};
use memory::state::large_work::LargeWork;
use serde_json::{Value, json};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use timer::Timer;
use words::api::chat::TextFilter;
use words::api::operation::Operation;
use words::config::hooks::{Guardrail, HookKind, HookPhase};
use words::config::node::Node;
use words::config::pattern::PatternBudget;
use words::config::policies::HookLists;
use words::config::read::{Cursor, Problems};

const SENTENCE: &str =
    "The committee met on Tuesday to review the budget, and asked for a new draft by 17:30. ";
const PROMPT_BYTES: usize = 4096;

/// Ten checks as operators write them.
fn ten_checks() -> Value {
    json!({
        "regexMatch": {"rule": r"\b\d{3}-\d{2}-\d{4}\b", "not": true},
        "a": {"id": "regexMatch", "rule": r"(?i)\b(password|passwd|secret)\s*[:=]\s*\S+", "not": true},
        "b": {"id": "regexMatch", "rule": r"[\w.+-]+@[\w-]+\.[a-z]+", "not": true},
        "c": {"id": "regexMatch", "rule": r"(?i)ignore (all )?(previous|prior) instructions", "not": true},
        "d": {"id": "regexMatch", "rule": r"https?://\S+", "not": true},
        "contains": {"operator": "none", "words": ["project nightingale", "internal use only", "TOP SECRET"]},
        "e": {"id": "contains", "operator": "none", "words": ["rm -rf", "DROP TABLE"]},
        "wordCount": {"minWords": 1, "maxWords": 5000},
        "characterCount": {"minCharacters": 1, "maxCharacters": 20000},
        "sentenceCount": {"minSentences": 1, "maxSentences": 500},
    })
}

fn main() {
    let timer = Timer::start();
    let work = LargeWork::default();
    let text = SENTENCE.repeat(PROMPT_BYTES / SENTENCE.len() + 1);
    let text = text.get(..PROMPT_BYTES).unwrap_or(&text);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
    timer.row("4 KB prompt: read for checks", || {
        Subject::of_request(Operation::ChatCompletions, black_box(&body))
    });
    let subject = Subject::of_request(Operation::ChatCompletions, &body);
    let ten = ten_checks();
    for (name, parameters) in ten.as_object().into_iter().flatten() {
        let id = parameters.get("id").and_then(Value::as_str).unwrap_or(name);
        let rule = parameters.get("rule").and_then(Value::as_str).unwrap_or_default();
        let hooks = hooks(&json!([{name: parameters}]), HookPhase::Before);
        timer
            .row(&format!("4 KB prompt: {id} `{rule}`").replace('|', "\\|"), || run(&work, &hooks, &subject));
    }
    let all = hooks(&json!([ten]), HookPhase::Before);
    timer.row("4 KB prompt: all ten", || run(&work, &all, &subject));
    for (name, guardrail) in [
        ("pii", json!({"pii": {}})),
        ("pii, redacted", json!({"pii": {"redact": true}})),
        ("promptInjection", json!({"promptInjection": {}})),
    ] {
        let hooks = hooks(&json!([guardrail]), HookPhase::Before);
        timer.row(&format!("4 KB prompt: {name}"), || run(&work, &hooks, &subject));
    }
    for (name, guardrail) in [
        (
            "contains",
            json!({"contains": {"operator": "none", "words": ["project nightingale"]}, "deny": true}),
        ),
        ("regexMatch", json!({"regexMatch": {"rule": r"\b\d{3}-\d{2}-\d{4}\b", "not": true}, "deny": true})),
        ("regexReplace", json!({"regexReplace": {"rule": r"\b\d{3}-\d{2}-\d{4}\b"}})),
        ("pii, redacted", json!({"pii": {"redact": true}})),
    ] {
        window(&timer, name, &json!([guardrail]), text);
    }
}

/// Measures one event of a stream.
fn window(timer: &Timer, name: &str, guardrails: &Value, text: &str) {
    let hooks = hooks(guardrails, HookPhase::After);
    let request = Subject::of_request(Operation::ChatCompletions, "{}");
    let state = WindowState::new(hooks, &request, Vec::new().into(), false);
    let mut filters = state.filters(|hook: &Hook| hook.stream_use() == StreamUse::Window);
    let filter = filters.first_mut().unwrap();
    // Tokens are about that long.
    let mut pieces = text.as_bytes().chunks(5).map(|piece| std::str::from_utf8(piece).unwrap()).cycle();
    let mut out = String::with_capacity(256);
    timer.row(&format!("event: {name}"), || {
        out.clear();
        filter.text(0, pieces.next().unwrap_or_default(), &mut out)
    });
}

fn hooks(guardrails: &Value, phase: HookPhase) -> Arc<HookSet> {
    let (problems, patterns) = (Problems::default(), PatternBudget::default());
    let node = Node::from_json(guardrails.to_string().as_bytes()).unwrap();
    let list = Cursor::root(&node, &problems).list().unwrap_or_default();
    let list = list.iter().filter_map(|at| Guardrail::read(at, phase, HookKind::Guardrail)).collect();
    let lists = HookLists { guardrails: Some(list), ..HookLists::default() };
    let compiler =
        HookCompiler { saved: &|_| None, patterns: &patterns, problems: &problems, is_strict: true };
    let compiled = compiler.compile(&[], &lists, phase);
    let found: Vec<String> = problems.into_vec().iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{found:?}");
    compiled.unwrap()
}

/// Runs the hooks; whether one failed. Nothing in them waits.
fn run(work: &LargeWork, hooks: &HookSet, subject: &Subject) -> bool {
    let run = Run {
        outside: &NoOutside,
        outside_of_saved: &NoOutside,
        outside_of_workspace: &NoOutside,
        large_work: work,
        fail_on_error: true,
        time_limit: Duration::from_secs(1),
    };
    let done = run.hooks(hooks.hooks.iter(), black_box(subject)).now_or_never();
    done.unwrap().has_failed()
}

struct NoOutside;

impl Outside for NoOutside {
    fn call<'a>(&'a self, _: OutsideCall<'a>) -> BoxFuture<'a, Result<OutsideResponse, OutsideError>> {
        Box::pin(ready(Err(OutsideError::TimedOut)))
    }

    fn chat<'a>(&'a self, _: &'a Value, _: &'a Value) -> BoxFuture<'a, Result<Value, OutsideError>> {
        Box::pin(ready(Err(OutsideError::TimedOut)))
    }
}
