//! What MCP servers have requested of clients, within calls that are being carried out, and what waits for the response.
//!
//! A request is known by an id that nobody can guess, and is responded to by the client whose call it belongs to, and by no other.

use crate::auth::ClientIdentity;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use tokio::sync::oneshot;
use words::api::mcp::reply::McpReply;

/// The most that wait at a time, of all calls.
const MAX_PENDING: usize = 10_000;
/// Those of one key or person.
const MAX_OF_ONE: usize = 1_000;
/// What ids begin with.
const PREFIX: &str = "tp-";

/// Whose call it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CallOwner {
    client: Option<Arc<str>>,
    person: Option<Arc<str>>,
}

impl CallOwner {
    /// `None` where no key is demanded: all clients are one then.
    pub fn of(client: Option<&ClientIdentity>) -> Self {
        let person = client.and_then(|client| client.shown.as_ref()).map(|shown| Arc::clone(&shown.person));
        Self { client: client.and_then(|client| client.id.clone()), person }
    }
}

#[derive(Debug)]
struct Waiting {
    owner: CallOwner,
    sender: oneshot::Sender<McpReply>,
}

/// All requests that wait for their response.
#[derive(Debug, Default)]
pub struct McpPending(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<u128, Waiting>,
    /// How many of these each owner has.
    counts: HashMap<CallOwner, usize>,
}

impl Table {
    fn insert(&mut self, number: u128, request: Waiting) {
        *self.counts.entry(request.owner.clone()).or_default() += 1;
        self.waiting.insert(number, request);
    }

    fn remove(&mut self, number: u128) -> Option<Waiting> {
        let found = self.waiting.remove(&number)?;
        if let Entry::Occupied(mut count) = self.counts.entry(found.owner.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        Some(found)
    }

    /// Whether one more of this owner may wait. Without keys all clients are one, and may have all places.
    fn has_room(&self, owner: &CallOwner) -> bool {
        let own = self.counts.get(owner).copied().unwrap_or_default();
        self.waiting.len() < MAX_PENDING && (own < MAX_OF_ONE || *owner == CallOwner::default())
    }
}

/// One of them. Dropped, it waits no more.
#[derive(Debug)]
pub struct PendingRequest<'p> {
    pending: &'p McpPending,
    number: u128,
    receiver: oneshot::Receiver<McpReply>,
}

/// A number that nobody can guess. `None`: the system has none.
pub fn random_number() -> Option<u128> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(u128::from_be_bytes(bytes))
}

impl McpPending {
    /// Begins to wait. `None`: too many do.
    pub fn begin(&self, owner: CallOwner) -> Option<PendingRequest<'_>> {
        let number = random_number()?;
        let (sender, receiver) = oneshot::channel();
        let mut table = self.0.lock();
        if !table.has_room(&owner) || table.waiting.contains_key(&number) {
            return None;
        }
        table.insert(number, Waiting { owner, sender });
        Some(PendingRequest { pending: self, number, receiver })
    }

    /// Takes the response of a client to the request with this id (JSON text). False: none of its requests has it.
    pub fn respond(&self, id: &str, owner: &CallOwner, reply: McpReply) -> bool {
        let Some(number) = number_of(id) else { return false };
        let mut table = self.0.lock();
        if table.waiting.get(&number).is_none_or(|found| found.owner != *owner) {
            return false;
        }
        let found = table.remove(number);
        drop(table);
        found.is_some_and(|found| found.sender.send(reply).is_ok())
    }
}

fn number_of(id: &str) -> Option<u128> {
    let digits = id.strip_prefix('"')?.strip_suffix('"')?.strip_prefix(PREFIX)?;
    // `from_str_radix` takes a sign as well.
    let is_hex = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u128::from_str_radix(digits, 16).ok())?
}

impl PendingRequest<'_> {
    /// Its id: JSON text.
    pub fn id(&self) -> String {
        format!("\"{PREFIX}{:032x}\"", self.number)
    }

    /// The client's response. `None`: there will be none.
    pub async fn response(mut self) -> Option<McpReply> {
        (&mut self.receiver).await.ok()
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        drop(self.pending.0.lock().remove(self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> CallOwner {
        CallOwner { client: Some(name.into()), person: None }
    }

    fn reply() -> McpReply {
        McpReply::Result("{}".to_owned())
    }

    #[tokio::test]
    async fn a_request_is_responded_to_once_and_by_its_owner() {
        let pending = McpPending::default();
        let request = pending.begin(owner("a")).unwrap();
        let other = pending.begin(owner("a")).unwrap();
        let id = request.id();
        assert!(id != other.id() && id.len() == 37, "{id}");
        for stranger in
            [owner("b"), CallOwner::default(), CallOwner { person: Some("p".into()), ..owner("a") }]
        {
            assert!(!pending.respond(&id, &stranger, reply()));
        }
        for unknown in ["1", "\"tp-1\"", "\"tp-+0000000000000000000000000000000\"", id.trim_matches('"')] {
            assert!(!pending.respond(unknown, &owner("a"), reply()), "{unknown}");
        }
        assert!(pending.respond(&id, &owner("a"), reply()));
        assert!(!pending.respond(&id, &owner("a"), reply()), "it was responded to");
        assert_eq!(request.response().await, Some(reply()));
        let id = other.id();
        drop(other);
        assert!(!pending.respond(&id, &owner("a"), reply()), "its call has ended");
        let table = pending.0.lock();
        assert!(table.waiting.is_empty() && table.counts.is_empty());
    }

    #[test]
    fn only_so_many_wait() {
        let pending = McpPending::default();
        let begin = |number: usize| pending.begin(owner(&(number / MAX_OF_ONE).to_string()));
        let all: Vec<_> = (0..MAX_PENDING).map(|number| begin(number).unwrap()).collect();
        assert!(begin(0).is_none() && pending.begin(owner("other")).is_none());
        drop(all);
        let own: Vec<_> = (0..MAX_OF_ONE).map(|_| begin(0).unwrap()).collect();
        assert!(begin(0).is_none() && pending.begin(owner("other")).is_some());
        drop(own);
        let of_all: Vec<_> = (0..MAX_PENDING).map(|_| pending.begin(CallOwner::default()).unwrap()).collect();
        assert!(of_all.len() == MAX_PENDING && pending.begin(CallOwner::default()).is_none());
    }
}
