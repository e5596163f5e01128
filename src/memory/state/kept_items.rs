//! The items of translated responses, kept for clients that refer to them instead of sending them back.
//!
//! OpenAI's Responses API stores responses unless a request says `store: false`, and SDKs rely on it: Vercel's sends a reference
//! (`item_reference`) for each text and each piece of reasoning. Providers that only chat store nothing, so the gateway keeps the
//! items for a while, in memory. Not a store: another process has none of them, and what is not found any more is left to
//! `api::responses` to judge.
//!
//! Admission puts them in the place of their references. Items of a provider with a Responses API of its own are not kept, and it gets
//! the references.

use moka::sync::Cache;
use std::sync::Arc;
use std::time::Duration;

/// How long an item is kept that nobody refers to.
const IDLE_TIME: Duration = Duration::from_secs(3600);
/// The largest item that is kept, bytes of JSON.
const MAX_ITEM: usize = 1 << 20;

/// The items of all clients, bounded by their bytes.
pub struct KeptItems {
    items: Cache<Arc<str>, Kept>,
}

/// One item, as JSON.
#[derive(Debug, Clone)]
enum Kept {
    Item(Arc<str>),
    /// Two items had the id, because a client used a trace id twice: a reference does not say which one it means.
    Ambiguous,
}

impl KeptItems {
    /// `max_bytes`: of all items together; 0 keeps none.
    pub fn new(max_bytes: u64) -> Self {
        Self::with_idle_time(max_bytes, IDLE_TIME)
    }

    fn with_idle_time(max_bytes: u64, idle_time: Duration) -> Self {
        let weigh = |key: &Arc<str>, kept: &Kept| {
            let json = match kept {
                Kept::Item(json) => json.len(),
                Kept::Ambiguous => 0,
            };
            // What the entry itself takes, roughly.
            u32::try_from(key.len() + json + 200).unwrap_or(u32::MAX)
        };
        Self {
            items: Cache::builder().max_capacity(max_bytes).weigher(weigh).time_to_idle(idle_time).build(),
        }
    }

    /// Drops the items whose time is over; otherwise only the next uses do.
    pub fn drop_expired(&self) {
        self.items.run_pending_tasks();
    }

    /// Keeps an item of a response to `client` (the name of its service key).
    pub fn insert(&self, client: Option<&str>, id: &str, json: String) {
        if json.len() > MAX_ITEM {
            return;
        }
        let key = key(client, id);
        let kept = match self.items.get(&key) {
            Some(Kept::Item(other)) if *other != *json => Kept::Ambiguous,
            Some(Kept::Ambiguous) => Kept::Ambiguous,
            _ => Kept::Item(json.into()),
        };
        self.items.insert(key, kept);
    }

    /// The item that `client` refers to.
    pub fn get(&self, client: Option<&str>, id: &str) -> Option<Arc<str>> {
        match self.items.get(&key(client, id))? {
            Kept::Item(json) => Some(json),
            Kept::Ambiguous => None,
        }
    }
}

/// Clients cannot refer to each other's items. No name of a key has a line feed.
fn key(client: Option<&str>, id: &str) -> Arc<str> {
    [client.unwrap_or_default(), "\n", id].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_found_by_its_client_under_its_own_id() {
        let items = KeptItems::new(1 << 20);
        items.insert(Some("a"), "msg_1_0", "{}".into());
        items.insert(None, "msg_1_0", "[]".into());
        assert_eq!(items.get(Some("a"), "msg_1_0").as_deref(), Some("{}"));
        assert_eq!(items.get(None, "msg_1_0").as_deref(), Some("[]"));
        assert_eq!((items.get(Some("b"), "msg_1_0"), items.get(Some("a"), "msg_1_1")), (None, None));
        // The same item may be added again. Another item with the same id makes the id unusable for good.
        items.insert(Some("a"), "msg_1_0", "{}".into());
        assert!(items.get(Some("a"), "msg_1_0").is_some());
        items.insert(Some("a"), "msg_1_0", "{1}".into());
        items.insert(Some("a"), "msg_1_0", "{}".into());
        assert_eq!(items.get(Some("a"), "msg_1_0"), None);
    }

    #[test]
    fn unused_items_are_dropped_while_no_request_comes() {
        for (idle_time, left) in [(Duration::ZERO, 0), (IDLE_TIME, 10)] {
            let items = KeptItems::with_idle_time(1 << 20, idle_time);
            for number in 0..10 {
                items.insert(None, &number.to_string(), "{}".into());
            }
            items.drop_expired();
            assert_eq!(items.items.entry_count(), left);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let items = KeptItems::new(10_000);
        for number in 0..1000 {
            items.insert(None, &number.to_string(), "x".repeat(1000));
        }
        items.items.run_pending_tasks();
        assert!(items.items.weighted_size() <= 10_000, "{}", items.items.weighted_size());
        items.insert(None, "long", "x".repeat(MAX_ITEM + 1));
        let none = KeptItems::new(0);
        none.insert(None, "a", "{}".into());
        none.items.run_pending_tasks();
        assert_eq!((items.get(None, "long"), none.get(None, "a")), (None, None));
    }
}
