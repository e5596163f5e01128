//! Which second responses fit which first ones.

use crate::provider::rescue::ResumeMode;
use crate::provider::rewriter::Rewriter;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use words::api::chat::{Decoder, Encoder, Event, EventSink, Finish, ProviderError};

/// A decoder that emits its events on the first push.
#[derive(Debug)]
struct Script(Vec<Event<'static>>);

impl Decoder for Script {
    fn push(&mut self, _bytes: &[u8], sink: EventSink<'_>) {
        self.0.drain(..).for_each(sink);
    }

    fn finish(&mut self, _sink: EventSink<'_>) {}
}

/// An encoder that writes text and arguments as they are, and `!` at the end of the response.
#[derive(Debug, Clone, Default)]
struct Plain(Arc<Mutex<String>>);

impl Encoder for Plain {
    fn write(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let mut log = self.0.lock().unwrap();
        match event {
            Event::Text { text, .. } | Event::Arguments { fragment: text, .. } => {
                out.extend_from_slice(text.as_bytes());
            }
            Event::ToolCall { name, .. } => out.extend_from_slice(format!("<{name}>").as_bytes()),
            Event::Start(_) => log.push('S'),
            Event::Reasoning { .. } => log.push('R'),
            Event::Annotation { .. } => log.push('A'),
            Event::Logprobs { .. } => log.push('L'),
            _ => {}
        }
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        out.push(b'!');
    }

    fn fail(&mut self, _error: &ProviderError, out: &mut Vec<u8>) {
        out.push(b'#');
    }
}

fn text(text: &'static str) -> Event<'static> {
    Event::Text { choice: 0, text }
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn call(index: u32, name: &'static str) -> Event<'static> {
    Event::ToolCall { choice: 0, index, id: "x", name, signature: None }
}

fn arguments(index: u32, fragment: &'static str) -> Event<'static> {
    Event::Arguments { choice: 0, index, fragment }
}

const STOP: Event<'static> = Event::Finish { choice: 0, reason: Finish::Stop, native: "stop" };

/// What the client gets of both responses: `Ok` when they fit. The second one ends properly.
fn resumed_text(
    first: &[Event<'static>],
    second: &[Event<'static>],
    mode: ResumeMode,
) -> Result<String, String> {
    let (output, _, fits) = run_resume(first, second, mode);
    if fits { Ok(output) } else { Err(output) }
}

fn run_resume(
    first: &[Event<'static>],
    second: &[Event<'static>],
    mode: ResumeMode,
) -> (String, String, bool) {
    let log = Plain::default();
    let mut rewriter = Rewriter::chat(Box::new(Script(first.to_vec())), Box::new(log.clone()), "7");
    rewriter.keep_transcript();
    let mut out = Vec::new();
    rewriter.push(b"", &mut out);
    let mut second = second.to_vec();
    second.extend([STOP, Event::End]);
    rewriter.resume(Box::new(Script(second)), mode);
    rewriter.push(b"", &mut out);
    rewriter.finish(&mut out);
    assert_ne!(rewriter.is_mismatch(), rewriter.is_complete());
    let log_text = log.0.lock().unwrap().clone();
    (String::from_utf8(out).unwrap(), log_text, !rewriter.is_mismatch())
}

const RESTART: ResumeMode = ResumeMode::Restart;
const CONTINUE: ResumeMode = ResumeMode::Continue;

#[test]
fn text_alignment() {
    let long = "The quick brown fox jumps over ";
    type Case = (&'static str, &'static [&'static str], ResumeMode, Result<&'static str, &'static str>);
    let cases: &[Case] = &[
        // A repetition is skipped, however it is chunked.
        ("Hello wor", &["Hello world"], RESTART, Ok("Hello world!")),
        ("Hello wor", &["Hel", "lo ", "w", "or", "ld"], CONTINUE, Ok("Hello world!")),
        ("Hello", &["Hello"], RESTART, Ok("Hello!")),
        // Trailing white space need not be repeated.
        ("Hello \n", &["Hello"], RESTART, Ok("Hello \n!")),
        // It ends early, or differs.
        ("Hello wor", &["Hello"], RESTART, Err("Hello wor")),
        ("Hello wor", &[], RESTART, Err("Hello wor")),
        ("Hello wor", &["Good day"], RESTART, Err("Hello wor")),
        ("Hello wor", &["Hello wood"], RESTART, Err("Hello wor")),
        // Continuations.
        ("Hello wor", &["ld"], CONTINUE, Ok("Hello world!")),
        ("Hello wor", &["H", "i"], CONTINUE, Ok("Hello worHi!")),
        ("Hello wor", &["Hel"], CONTINUE, Ok("Hello worHel!")),
        ("Hello wor", &[], CONTINUE, Ok("Hello wor!")),
        // White space where a continuation starts.
        ("Hello \n", &[" \nworld"], CONTINUE, Ok("Hello \nworld!")),
        ("Hello \n", &[" ", "\n", "world"], CONTINUE, Ok("Hello \nworld!")),
        ("Hello \n", &["world"], CONTINUE, Ok("Hello \nworld!")),
        ("Hello ", &["\nworld"], CONTINUE, Ok("Hello \nworld!")),
        ("Hello", &[" world"], CONTINUE, Ok("Hello world!")),
        ("Hello ", &[" ", " world"], CONTINUE, Ok("Hello  world!")),
        // The prefill is repeated, which has no trailing white space.
        ("Hello there, you \n", &["Hello there, you", ", too"], CONTINUE, Ok("Hello there, you \n, too!")),
        ("Hello ", &["Hello", " world"], CONTINUE, Ok("Hello world!")),
        // Too many equal characters for a continuation, but no repetition.
        (long, &["The quick brown cat"], CONTINUE, Err(long)),
        (long, &["The quick brown f"], CONTINUE, Err(long)),
        (long, &["The quick", " dog"], CONTINUE, Ok("The quick brown fox jumps over The quick dog!")),
        // Multi-byte characters that start with the same byte.
        ("é", &["è"], CONTINUE, Ok("éè!")),
        ("é", &["éa"], RESTART, Ok("éa!")),
        ("", &["Hello"], RESTART, Ok("Hello!")),
        ("", &["Hello"], CONTINUE, Ok("Hello!")),
    ];
    for (first, second, mode, wanted) in cases {
        let second: Vec<Event<'static>> = second.iter().map(|chunk| text(chunk)).collect();
        let output = resumed_text(&[text(first)], &second, *mode);
        assert_eq!(output.as_deref().map_err(String::as_str), *wanted, "{first:?} {second:?} {mode:?}");
    }
}

#[test]
fn calls_are_never_spliced() {
    let first = || vec![text("Look."), call(0, "look"), arguments(0, "{\"a\":")];
    type Case = (Vec<Event<'static>>, Result<&'static str, &'static str>);
    let cases: Vec<Case> = vec![
        (vec![text("Look."), call(0, "look"), arguments(0, "{\"a\":1}")], Ok("Look.<look>{\"a\":1}!")),
        (
            vec![
                text("Look."),
                call(0, "look"),
                arguments(0, "{"),
                arguments(0, "\"a\":2"),
                arguments(0, "}"),
            ],
            Ok("Look.<look>{\"a\":2}!"),
        ),
        (
            vec![
                text("Look."),
                call(0, "look"),
                arguments(0, "{\"a\":1}"),
                call(1, "wait"),
                arguments(1, "{}"),
            ],
            Ok("Look.<look>{\"a\":1}<wait>{}!"),
        ),
        (vec![text("Look."), call(0, "look"), arguments(0, "{\"b\":1}")], Err("Look.<look>{\"a\":")),
        (vec![text("Look."), call(0, "look"), arguments(0, "{")], Err("Look.<look>{\"a\":")),
        (vec![text("Look."), call(0, "look")], Err("Look.<look>{\"a\":")),
        (vec![text("Look."), call(0, "wait"), arguments(0, "{\"a\":1}")], Err("Look.<look>{\"a\":")),
        (vec![text("Look.")], Err("Look.<look>{\"a\":")),
        (vec![text("Look. Then ")], Err("Look.<look>{\"a\":")),
        (vec![text("Look."), text(" Then ")], Err("Look.<look>{\"a\":")),
    ];
    for (second, wanted) in cases {
        for mode in [RESTART, CONTINUE] {
            let output = resumed_text(&first(), &second, mode);
            assert_eq!(output.as_deref().map_err(String::as_str), wanted, "{second:?} {mode:?}");
        }
    }
    // A call without arguments is the same whether `{}` is sent or nothing.
    let bare = [call(0, "look"), arguments(0, "{}")];
    assert_eq!(resumed_text(&bare, &[call(0, "look")], RESTART).as_deref(), Ok("<look>{}!"));
    assert_eq!(resumed_text(&bare[..1], &bare, RESTART).as_deref(), Ok("<look>{}!"));
    assert_eq!(resumed_text(&bare[..1], &bare[..1], RESTART).as_deref(), Ok("<look>{}!"));
    // A new call fits only after all of the text.
    let fresh = [text("Loo"), call(0, "look"), arguments(0, "{}")];
    assert_eq!(resumed_text(&[text("Look.")], &fresh, RESTART).as_deref(), Err(&"Look.".to_owned()));
    assert_eq!(resumed_text(&[text("Look.")], &fresh[1..], CONTINUE).as_deref(), Ok("Look.<look>{}!"));
}

#[test]
fn other_events_are_sent_once() {
    let start = || Event::Start(words::api::chat::Start::default());
    let thought = || Event::Reasoning { choice: 0, text: "hm" };
    let note = || Event::Annotation { choice: 0, json: "{}" };
    let logprobs = || Event::Logprobs { choice: 0, json: "{}" };
    let second = [start(), thought(), text("ab"), logprobs(), note(), text("cd"), logprobs(), note()];
    // Reasoning is sent only when neither text nor reasoning was sent before.
    assert_eq!(run_resume(&[start(), text("ab")], &second, RESTART).1, "SLA");
    assert_eq!(run_resume(&[start(), thought()], &second, RESTART).1, "SRLALA");
    assert_eq!(run_resume(&[start()], &second, RESTART).1, "SRLALA");
    // Positions in a continuation do not count from the start of the whole text.
    let second = [text("ab"), logprobs(), note(), text("cd"), logprobs(), note()];
    assert_eq!(run_resume(&[start(), text("xy")], &second, CONTINUE).1, "SL");
}

#[test]
fn incomparable_responses_are_mismatches() {
    let refusal = Event::Refusal { choice: 0, text: "no" };
    let other = Event::Text { choice: 1, text: "a" };
    let picture = Event::Media { choice: 0, media_type: "image/png", data: "AA" };
    for first in [vec![refusal], vec![text("a"), other], vec![picture], vec![text("a"), STOP]] {
        assert!(!run_resume(&first, &[text("a")], RESTART).2, "{first:?}");
    }
    let large = leak(&"x".repeat((4 << 20) + 1));
    assert!(!run_resume(&[text(large)], &[text(large)], RESTART).2);
    // Without a transcript nothing can be aligned.
    let mut rewriter = Rewriter::chat(Box::new(Script(vec![text("a")])), Box::new(Plain::default()), "7");
    rewriter.resume(Box::new(Script(vec![text("a")])), RESTART);
    assert!(rewriter.is_mismatch() && rewriter.transcript().is_none());
    let mut out = Vec::new();
    rewriter.fail(&ProviderError::new(502, "no"), &mut out);
    assert!(rewriter.is_complete());
    assert_eq!(out, b"#");
}

/// Splits a text into chunks at the given characters.
fn chunks(whole: &str, cuts: &[prop::sample::Index]) -> Vec<Event<'static>> {
    let chars: Vec<char> = whole.chars().collect();
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len() + 1)).collect();
    ends.extend([0, chars.len()]);
    ends.sort_unstable();
    let chunk = |ends: &[usize]| text(leak(&chars[ends[0]..ends[1]].iter().collect::<String>()));
    ends.windows(2).map(chunk).collect()
}

proptest! {
    /// A repetition in any chunks, and a continuation of the prefill, both give the whole text.
    #[test]
    fn any_text_resumes_at_any_cut(
        // The first character occurs nowhere else, so no continuation looks like the start.
        whole in "§[a-c \n\té漢🙂]{0,40}",
        cut in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let chars: Vec<char> = whole.chars().collect();
        let before: String = chars[..cut.index(chars.len() + 1)].iter().collect();
        let first = chunks(&before, &cuts);
        let wanted = format!("{whole}!");
        prop_assert_eq!(resumed_text(&first, &chunks(&whole, &cuts), RESTART), Ok(wanted.clone()));
        prop_assert_eq!(resumed_text(&first, &chunks(&whole, &cuts), CONTINUE), Ok(wanted.clone()));
        let rest = whole.strip_prefix(before.trim_end()).unwrap();
        prop_assert_eq!(resumed_text(&first, &chunks(rest, &cuts), CONTINUE), Ok(wanted));
    }
}
