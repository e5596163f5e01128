//! Stored objects of one kind (files, responses, batches, jobs), by id.
//!
//! Only the newest are kept; older ones are dropped for good.

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::VecDeque;

/// One stored object.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) id: String,
    /// The object as `GET` returns it.
    pub(super) object: Value,
    /// Its payload: a file's content, a response's input items.
    pub(super) content: Bytes,
}

/// Objects in order of insertion. At most 1,000, with at most 64 MiB of content.
#[derive(Debug, Default)]
pub(super) struct ObjectStore(Mutex<VecDeque<Item>>);

const MAX_ITEMS: usize = 1000;
const MAX_CONTENT: usize = 64 << 20;

impl ObjectStore {
    /// Stores an object; drops the oldest ones to make room.
    pub(super) fn put(&self, id: &str, object: Value, content: Bytes) {
        let mut items = self.0.lock();
        items.push_back(Item { id: id.to_owned(), object, content });
        let mut held: usize = items.iter().map(|item| item.content.len()).sum();
        while items.len() > MAX_ITEMS || held > MAX_CONTENT {
            let Some(oldest) = items.pop_front() else { break };
            held -= oldest.content.len();
        }
    }

    pub(super) fn find(&self, id: &str) -> Option<Item> {
        self.0.lock().iter().rev().find(|item| item.id == id).cloned()
    }

    /// Returns whether the object existed.
    pub(super) fn remove(&self, id: &str) -> bool {
        let mut items = self.0.lock();
        let before = items.len();
        items.retain(|item| item.id != id);
        items.len() < before
    }

    /// Edits a stored object and returns its new state.
    pub(super) fn change(&self, id: &str, edit: impl FnOnce(&mut Value)) -> Option<Value> {
        let mut items = self.0.lock();
        let item = items.iter_mut().find(|item| item.id == id)?;
        edit(&mut item.object);
        Some(item.object.clone())
    }

    /// One page, newest first, of the objects after `after`, and whether more follow.
    pub(super) fn page(&self, after: Option<&str>, limit: usize) -> (Vec<Value>, bool) {
        let items = self.0.lock();
        let mut rest = items.iter().rev();
        if let Some(after) = after {
            rest.by_ref().find(|item| item.id == after);
        }
        let page: Vec<Value> = rest.by_ref().take(limit).map(|item| item.object.clone()).collect();
        (page, rest.next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pages_are_newest_first() {
        let store = ObjectStore::default();
        for n in 0..5 {
            store.put(&n.to_string(), json!(n), Bytes::new());
        }
        assert_eq!(store.page(None, 2), (vec![json!(4), json!(3)], true));
        assert_eq!(store.page(Some("3"), 9), (vec![json!(2), json!(1), json!(0)], false));
        assert!(store.remove("4") && !store.remove("4"));
        assert_eq!(store.change("0", |value| *value = json!("new")), Some(json!("new")));
    }

    #[test]
    fn number_and_content_are_bounded() {
        let store = ObjectStore::default();
        for n in 0..=MAX_ITEMS {
            store.put(&n.to_string(), json!(n), Bytes::new());
        }
        assert!(store.find("0").is_none() && store.find("1").is_some());
        let big = Bytes::from(vec![0; MAX_CONTENT / 2 + 1]);
        store.put("big", json!(0), big.clone());
        store.put("bigger", json!(0), big);
        assert!(store.find("big").is_none() && store.find("bigger").is_some());
    }
}
