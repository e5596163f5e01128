//! Server-sent events as a client parses them.
//!
//! Deliberately not the gateway's own parser (`api`): a test using that would not notice its bugs.

/// One event: its name (empty if it has none) and its data lines, joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) data: String,
}

/// All events of a response. Text after the last blank line is no event: the stream was cut there.
pub(crate) fn events(text: &str) -> Vec<Event> {
    let text = text.replace("\r\n", "\n");
    let Some((whole, _cut)) = text.rsplit_once("\n\n") else { return Vec::new() };
    whole.split("\n\n").filter_map(event).collect()
}

/// The text of an OpenAI-style chat stream, its deltas joined.
pub(crate) fn chat_text(events: &[Event]) -> String {
    let chunks = events.iter().filter(|event| event.data != "[DONE]");
    let deltas = chunks.map(|event| {
        let chunk: serde_json::Value = serde_json::from_str(&event.data).unwrap();
        chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default().to_owned()
    });
    deltas.collect()
}

fn event(block: &str) -> Option<Event> {
    let mut name = "";
    let mut data = Vec::new();
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => name = value,
            "data" => data.push(value),
            _ => {}
        }
    }
    let has_fields = !data.is_empty() || !name.is_empty();
    has_fields.then(|| Event { name: name.to_owned(), data: data.join("\n") })
}
