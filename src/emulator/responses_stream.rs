//! The typed, numbered events of a streamed response, generated from the finished response object.

use super::batches::merge;
use super::reply::{Event, Part, Reply};
use super::sample_text::Tokens;
use serde_json::{Value, json};

/// An event without its sequence number; `no_done` leaves out the last one.
struct Step {
    name: &'static str,
    /// Its members as JSON text, without the braces.
    members: String,
}

impl Step {
    fn new(name: &'static str, members: &Value) -> Self {
        let text = members.to_string();
        let members = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default();
        Self { name, members: members.to_owned() }
    }
}

pub(super) fn reply(response: Value) -> Reply {
    let mut started = response.clone();
    merge(
        &mut started,
        &json!({
            "status": "in_progress", "output": [], "usage": null, "incomplete_details": null, "completed_at": null,
        }),
    );
    let last = match response.get("status").and_then(Value::as_str) {
        Some("incomplete") => "response.incomplete",
        _ => "response.completed",
    };
    let outputs = response.get("output").and_then(Value::as_array).cloned().unwrap_or_default();
    let started = json!({"response": started});
    let opening = ["response.created", "response.in_progress"].map(|name| Step::new(name, &started));
    let items = outputs.into_iter().enumerate().flat_map(|(index, item)| steps(index, &item));
    let closing = Step::new(last, &json!({"response": response}));
    let steps = opening.into_iter().chain(items).chain(std::iter::once(closing));
    Reply::events(steps.enumerate().map(move |(number, Step { name, members })| {
        let part = if name == last { Part::Done } else { Part::Content };
        let json = format_args!(r#"{{"type":"{name}","sequence_number":{number},{members}}}"#);
        Event::named(part, name, json)
    }))
}

/// The events of one output item.
fn steps(index: usize, item: &Value) -> Box<dyn Iterator<Item = Step> + Send> {
    let mut started = item.clone();
    merge(&mut started, &json!({"status": "in_progress"}));
    let id = item.get("id").cloned().unwrap_or_default();
    let done = Step::new("response.output_item.done", &json!({"output_index": index, "item": item}));
    if item.get("type").and_then(Value::as_str) == Some("function_call") {
        merge(&mut started, &json!({"arguments": ""}));
        let at = json!({"item_id": id, "output_index": index});
        let full = item.get("arguments").cloned().unwrap_or_default();
        let ended = with(&at, &json!({"arguments": full, "name": item.get("name")}));
        let deltas = deltas("response.function_call_arguments.delta", &at, &full);
        let ended = [Step::new("response.function_call_arguments.done", &ended), done];
        return Box::new(std::iter::once(added(index, &started)).chain(deltas).chain(ended));
    }
    merge(&mut started, &json!({"content": []}));
    let at = json!({"item_id": id, "output_index": index, "content_index": 0});
    let part = item.pointer("/content/0").cloned().unwrap_or_default();
    let text = part.get("text").cloned().unwrap_or_default();
    let mut empty = part.clone();
    merge(&mut empty, &json!({"text": ""}));
    let opening = [
        added(index, &started),
        Step::new("response.content_part.added", &with(&at, &json!({"part": empty}))),
    ];
    let text_position = with(&at, &json!({"logprobs": []}));
    let deltas = deltas("response.output_text.delta", &text_position, &text);
    let closing = [
        Step::new("response.output_text.done", &with(&text_position, &json!({"text": text}))),
        Step::new("response.content_part.done", &with(&at, &json!({"part": part}))),
        done,
    ];
    Box::new(opening.into_iter().chain(deltas).chain(closing))
}

fn added(index: usize, item: &Value) -> Step {
    Step::new("response.output_item.added", &json!({"output_index": index, "item": item}))
}

fn with(base: &Value, more: &Value) -> Value {
    let mut all = base.clone();
    merge(&mut all, more);
    all
}

/// The text, one delta per token.
fn deltas(name: &'static str, at: &Value, text: &Value) -> impl Iterator<Item = Step> + Send + use<> {
    let at = Step::new(name, at).members;
    let mut tokens = Tokens::new(text.as_str().unwrap_or_default().to_owned());
    std::iter::from_fn(move || {
        let token = tokens.next_quoted()?;
        Some(Step { name, members: format!(r#"{at},"delta":{token}"#) })
    })
}
