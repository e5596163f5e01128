//! What a connection remembers of its last response: the items before it, and its own.
//!
//! Observes the events of a response on their way to the client, and changes none.

use super::{member, text_is};
use crate::json::string::unquote;
use crate::json::walk;

/// A conversation up to the end of one response.
#[derive(Debug)]
pub struct Conversation {
    id: String,
    is_stored: bool,
    /// As they stand in a list; `None`: what came before them is the provider's alone.
    items: Option<Vec<u8>>,
}

impl Conversation {
    /// The id of the response.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the provider keeps the response, by its own account.
    pub fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Whether all of it is here.
    pub fn is_whole(&self) -> bool {
        self.items.is_some()
    }

    /// The bytes it takes.
    pub fn size(&self) -> usize {
        self.items.as_ref().map_or(0, Vec::len)
    }

    /// The same response, of a conversation whose beginning is not here.
    #[must_use]
    pub fn without_items(self) -> Self {
        Self { items: None, ..self }
    }

    /// Its items and these, as they stand in a list.
    pub fn followed_by(&self, items: &[u8]) -> Vec<u8> {
        joined(self.items.as_deref().unwrap_or_default(), items)
    }
}

/// Reads the events of one response.
#[derive(Debug)]
pub struct TurnReader {
    /// The items that are done.
    items: Vec<Vec<u8>>,
    /// The bytes of all items, whether they are kept or not.
    size: usize,
    /// The most bytes of items that are kept.
    limit: usize,
    finished: Option<Finished>,
    is_ended: bool,
}

#[derive(Debug)]
struct Finished {
    id: String,
    is_stored: bool,
}

impl TurnReader {
    pub fn new(limit: usize) -> Self {
        Self { items: Vec::new(), size: 0, limit, finished: None, is_ended: false }
    }

    /// Reads one event.
    pub fn read(&mut self, event: &[u8]) {
        match member(event, b"type") {
            Some(b"\"response.output_item.done\"") => self.keep(member(event, b"item").unwrap_or_default()),
            Some(b"\"response.completed\"" | b"\"response.incomplete\"") => {
                self.is_ended = true;
                self.finish(member(event, b"response").unwrap_or_default());
            }
            Some(b"\"response.failed\"" | b"\"error\"") => self.is_ended = true,
            _ => {}
        }
    }

    /// Whether the client has got the last event of the response.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// The bytes it takes.
    pub fn size(&self) -> usize {
        self.items.iter().map(Vec::len).sum()
    }

    /// Remembers nothing: there is no memory for it.
    pub fn forget(&mut self) {
        self.items = Vec::new();
        self.limit = 0;
        self.size = self.size.max(1);
    }

    fn keep(&mut self, item: &[u8]) {
        self.size += item.len();
        if self.size <= self.limit {
            self.items.push(item.to_vec());
        }
    }

    fn finish(&mut self, response: &[u8]) {
        let Some(id) = member(response, b"id").and_then(unquote) else { return };
        let is_stored = member(response, b"store") == Some(b"true");
        self.finished = Some(Finished { id: id.into_owned(), is_stored });
        // Some providers send the items in the last event alone.
        if self.size == 0
            && let Some(output) = member(response, b"output").and_then(walk::items)
        {
            output.for_each(|item| self.keep(item));
        }
    }

    /// The conversation up to the end of the response; `None` if it was not finished, or is too long. `items`: what the request has sent.
    /// `keeps_reasoning`: the gateway wrote the items, so what can be read of reasoning is in them. Otherwise a provider that
    /// stores nothing knows no reasoning by its id, and refuses it: "Items are not persisted when `store` is set to false"
    /// (<https://github.com/openclaw/openclaw/issues/12885>).
    pub fn conversation(self, items: Vec<u8>, keeps_reasoning: bool) -> Option<Conversation> {
        let Finished { id, is_stored } = self.finished?;
        let is_empty =
            |item: &[u8]| member(item, b"encrypted_content").is_none_or(|content| content == b"null");
        let is_unknown = |item: &[u8]| {
            !is_stored && !keeps_reasoning && text_is(item, b"type", b"\"reasoning\"") && is_empty(item)
        };
        let all =
            self.items.iter().filter(|item| !is_unknown(item)).fold(items, |all, item| joined(&all, item));
        let fits = self.size <= self.limit && all.len() <= self.limit;
        fits.then_some(Conversation { id, is_stored, items: Some(all) })
    }
}

fn joined(one: &[u8], other: &[u8]) -> Vec<u8> {
    match (one.is_empty(), other.is_empty()) {
        (true, _) => other.to_vec(),
        (_, true) => one.to_vec(),
        _ => [one, b",", other].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::inside;
    use super::*;
    use serde_json::json;

    fn read(limit: usize, events: &[serde_json::Value]) -> TurnReader {
        let mut reader = TurnReader::new(limit);
        events.iter().for_each(|event| reader.read(event.to_string().as_bytes()));
        reader
    }

    #[test]
    fn a_response_that_failed_is_not_gone_on_from() {
        for event in [
            json!({"type": "response.failed", "response": {"id": "a"}}),
            json!({"type": "error", "code": "x"}),
        ] {
            let reader = read(100, &[event]);
            assert!(reader.is_ended());
            assert!(reader.conversation(Vec::new(), false).is_none());
        }
        assert!(
            !read(100, &[json!({"type": "response.output_text.delta", "delta": "response.completed"})])
                .is_ended()
        );
    }

    #[test]
    fn items_are_taken_from_the_last_event_where_no_other_has_them() {
        let item = json!({"type": "message", "id": "m"});
        let last = json!({"type": "response.incomplete", "response": {"id": "a", "store": true, "output": [item, item]}});
        let whole = read(100, std::slice::from_ref(&last)).conversation(b"1".to_vec(), false).unwrap();
        assert!(whole.is_stored() && whole.is_whole());
        assert_eq!(String::from_utf8(whole.followed_by(b"2")).unwrap(), format!("1,{item},{item},2"));
        let both = [json!({"type": "response.output_item.done", "item": item}), last.clone()];
        assert_eq!(
            read(100, &both).conversation(Vec::new(), false).unwrap().followed_by(b""),
            item.to_string().as_bytes()
        );
        // What is too long, or for what there is no memory, is not kept in part.
        let mut forgotten = read(100, &both);
        assert_eq!(forgotten.size(), item.to_string().len());
        forgotten.forget();
        assert_eq!(forgotten.size(), 0);
        assert!(forgotten.conversation(Vec::new(), false).is_none());
        assert!(read(40, &[last]).conversation(Vec::new(), false).is_none());
        assert!(read(100, &both).conversation(vec![b'1'; 90], false).is_none());
    }

    #[test]
    fn reasoning_is_kept_where_it_can_be_read() {
        let items = [
            json!({"type": "reasoning", "id": "a", "summary": [{"text": "b"}]}),
            json!({"type": "reasoning", "id": "c", "encrypted_content": "d"}),
        ];
        for (store, by_gateway, kept) in [(false, false, 1), (false, true, 2), (true, false, 2)] {
            let last = json!({"type": "response.completed", "response": {"id": "a", "store": store, "output": items}});
            let conversation = read(1000, &[last]).conversation(Vec::new(), by_gateway).unwrap();
            let list = [b"[", &*conversation.followed_by(b""), b"]"].concat();
            assert_eq!(walk::items(&list).unwrap().count(), kept, "{store} {by_gateway}");
            assert_eq!(inside(&list), conversation.followed_by(b""));
        }
    }
}
