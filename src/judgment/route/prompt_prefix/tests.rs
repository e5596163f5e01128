//! Tests of the chain of hashes: what makes beginnings equal, in each dialect.

use super::{MAX_BLOCKS, PromptPrefix, SentPrompt};
use bytes::Bytes;
use serde_json::{Value, json};
use words::api::body::Body;
use words::api::operation::Operation;

fn prefix(operation: Operation, body: &Value) -> PromptPrefix {
    prefix_of(operation, body.to_string())
}

fn prefix_of(operation: Operation, body: String) -> PromptPrefix {
    let body = Body::parse(Bytes::from(body)).unwrap();
    PromptPrefix::new(operation, Some("m"), &body).unwrap()
}

fn text(name: &str, bytes: usize) -> String {
    name.chars().cycle().take(bytes).collect()
}

/// How many of their first blocks are equal.
fn common(one: &PromptPrefix, other: &PromptPrefix) -> usize {
    one.blocks().iter().zip(other.blocks()).take_while(|(one, other)| one == other).count()
}

/// A chat of some turns, each with words of the user and the model.
fn chat(turns: usize) -> Value {
    let turn = |number: usize| {
        [
            json!({"role": "user", "content": text(&format!("question {number} "), 700)}),
            json!({"role": "assistant", "content": text(&format!("answer {number} "), 1300)}),
        ]
    };
    let system = json!({"role": "system", "content": text("rules ", 3000)});
    let mut messages = vec![system];
    messages.extend((0..turns).flat_map(turn));
    json!({"model": "m", "messages": messages, "tools": [{"name": "find"}]})
}

#[test]
fn a_longer_history_begins_with_all_blocks_of_the_shorter_one() {
    for (turns, blocks) in [(1, 4), (2, 6), (5, 12)] {
        let [one, next] = [turns, turns + 1].map(|turns| prefix(Operation::ChatCompletions, &chat(turns)));
        assert_eq!((one.blocks().len(), common(&one, &next)), (blocks, blocks), "{turns} turns");
        assert_eq!(one.first_part(), next.first_part());
    }
}

#[test]
fn a_change_ends_the_common_beginning_and_an_early_one_changes_the_first_part() {
    let chat_of = |change: &dyn Fn(&mut Value)| {
        let mut body = chat(4);
        change(&mut body);
        prefix(Operation::ChatCompletions, &body)
    };
    let same = chat_of(&|_| {});
    // The first three turns end after 9,049 bytes.
    let changed = chat_of(&|body| body["messages"][7]["content"] = json!("other"));
    assert_eq!((common(&same, &changed), changed.first_part()), (8, same.first_part()));
    for change in [
        &(|body: &mut Value| body["tools"][0]["name"] = json!("look")) as &dyn Fn(&mut Value),
        &|body| body["messages"][0]["content"] = json!("other"),
        &|body| body["messages"][1]["content"] = json!("other"),
    ] {
        let other = chat_of(change);
        assert_ne!(same.first_part(), other.first_part());
        assert!(common(&same, &other) < 4);
    }
    let body = Body::parse(Bytes::from(chat(4).to_string())).unwrap();
    let other_model = PromptPrefix::new(Operation::ChatCompletions, Some("n"), &body).unwrap();
    assert_eq!(common(&same, &other_model), 0);
}

/// Marks move to the end with each turn, contents become lists for them, and Claude Code counts its requests in its first line.
#[test]
fn what_a_client_changes_from_turn_to_turn_changes_nothing() {
    let mark = |ttl: &str| json!({"type": "ephemeral", "ttl": ttl});
    let line =
        |count: usize| json!({"type": "text", "text": format!("x-anthropic-billing-header: cch={count};")});
    let words = text("words ", 2000);
    let system = json!({"type": "text", "text": text("rules ", 5000), "cache_control": mark("5m")});
    let first = json!({"system": [line(1), system], "max_tokens": 9, "messages": [
        {"role": "user", "content": [{"type": "text", "text": words, "cache_control": mark("5m")}]}]});
    let second = json!({"messages": [{"role": "user", "content": words},
        {"role": "assistant", "content": text("answer ", 2000)},
        {"role": "user", "content": [{"type": "text", "text": "more", "cache_control": mark("1h")}]}],
        "system": [line(2), system], "max_tokens": 5});
    let [first, second] = [&first, &second].map(|body| prefix(Operation::Messages, body));
    assert_eq!((first.blocks().len(), common(&first, &second)), (6, 6));
    assert_eq!(first.first_part(), second.first_part());
    assert_eq!([first.is_kept_longer, second.is_kept_longer], [false, true]);
}

#[test]
fn each_dialect_has_its_members() {
    let words = text("words ", 4000);
    let gemini = |turns: &[&str]| {
        let turn = |role: &&str| json!({"role": role, "parts": [{"text": words}]});
        let contents: Vec<Value> = turns.iter().map(turn).collect();
        json!({"systemInstruction": {"parts": [{"text": words}]}, "contents": contents}).to_string()
    };
    // A text alone is what it would be in a list, as clients write that: the role first.
    let responses = |input: &str| format!(r#"{{"instructions":"{words}","input":{input}}}"#);
    let listed = format!(r#"[{{"role":"user","content":"{words}"}},{{"role":"assistant","content":"x"}}]"#);
    for (operation, one, next) in [
        (Operation::Responses, responses(&format!("\"{words}\"")), responses(&listed)),
        (Operation::StreamGenerateContent, gemini(&["user"]), gemini(&["user", "model", "user"])),
    ] {
        let [one, next] = [one, next].map(|body| prefix_of(operation, body));
        assert_eq!((one.blocks().len(), common(&one, &next)), (7, 7), "{operation:?}");
        assert_eq!(one.first_part(), next.first_part());
    }
    let [one, next] = [4000, 9000].map(|bytes| {
        prefix(
            Operation::Completions,
            &json!({"prompt": text("words ", bytes), "prompt_cache_retention": "24h"}),
        )
    });
    assert_eq!((common(&one, &next), one.is_kept_longer), (3, true));
    let body = Body::parse(Bytes::from(json!({"input": words}).to_string())).unwrap();
    assert!(PromptPrefix::new(Operation::Embeddings, None, &body).is_none());
    assert!(PromptPrefix::new(Operation::ChatCompletions, None, &body).is_none());
}

#[test]
fn blocks_grow_and_their_number_is_bounded() {
    let long =
        prefix(Operation::Messages, &json!({"messages": [{"role": "user", "content": text("a", 2 << 20)}]}));
    assert_eq!(long.blocks().len(), MAX_BLOCKS);
    let kib = [1, 16, 17, 32, 33, 64].map(|count| PromptPrefix::bytes_of(count) >> 10);
    assert_eq!(kib, [1, 16, 20, 80, 96, 1360]);
    let mut all = long.blocks().to_vec();
    all.dedup();
    assert_eq!(all.len(), MAX_BLOCKS, "equal blocks have other hashes");
}

/// Gateways of different builds agree: with other values conversations would move while a cluster is upgraded.
#[test]
fn hashes_are_the_same_in_every_process() {
    let fixed = prefix(Operation::ChatCompletions, &chat(1));
    assert_eq!(fixed.blocks().first().copied(), Some(0xc57f_5760_51d5_9eac));
    assert_eq!(fixed.first_part(), 0xfb2b_b841_5065_a975);
}

#[test]
fn a_sent_prompt_is_read_in_each_format_and_marks_change_nothing() {
    let sent = |body: Value| SentPrompt::of(body.to_string().as_bytes()).unwrap();
    let words = text("words ", 3000);
    let mark = json!({"type": "ephemeral"});
    let plain = sent(
        json!({"system": words, "messages": [{"role": "user", "content": words}, {"role": "assistant", "content": words}]}),
    );
    let marked = sent(json!({"system": [{"type": "text", "text": words, "cache_control": mark}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": words, "cache_control": mark}]}]}));
    let converse = sent(
        json!({"system": [{"text": words}, {"cachePoint": {"type": "default", "ttl": "1h"}}],
        "messages": [{"role": "user", "content": [{"text": words}, {"cachePoint": {"type": "default", "ttl": "1h"}}]}]}),
    );
    for one in [&marked, &converse] {
        assert_eq!(common(&plain.prefix, &one.prefix), 5, "6,000 bytes, and roles");
        assert_eq!(one.conversation, plain.conversation);
    }
    // What stands before is another, the conversation is the same.
    let other = sent(json!({"system": "It is noon.", "messages": [{"role": "user", "content": words}]}));
    assert_eq!((common(&plain.prefix, &other.prefix), other.conversation), (0, plain.conversation));
    let begun = sent(json!({"system": words, "messages": [{"role": "user", "content": "hi"}]}));
    assert_ne!(begun.conversation, plain.conversation);
    assert!(SentPrompt::of(b"{}").is_none() && SentPrompt::of(b"[1]").is_none());
    assert!(SentPrompt::of(br#"{"messages":[{"role":"system","content":"a"}]}"#).is_none());
}
