//! What MCP servers have requested of clients, within calls that are being carried out, and what waits for the response.
//!
//! A request is known by an id that nobody can guess, and is responded to by the client whose call it belongs to, and by no other.

use crate::auth::ClientIdentity;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use words::api::mcp::reply::McpReply;

/// The most that wait at a time, of all calls.
const MAX_PENDING: usize = 10_000;
/// What ids begin with.
const PREFIX: &str = "tp-";

/// Whose call it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
pub struct McpPending {
    waiting: Mutex<HashMap<u128, Waiting>>,
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
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MAX_PENDING || waiting.contains_key(&number) {
            return None;
        }
        waiting.insert(number, Waiting { owner, sender });
        Some(PendingRequest { pending: self, number, receiver })
    }

    /// Takes the response of a client to the request with this id (JSON text). False: none of its requests has it.
    pub fn respond(&self, id: &str, owner: &CallOwner, reply: McpReply) -> bool {
        let Some(number) = number_of(id) else { return false };
        let mut waiting = self.waiting.lock();
        if waiting.get(&number).is_none_or(|found| found.owner != *owner) {
            return false;
        }
        let found = waiting.remove(&number);
        drop(waiting);
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
        self.pending.waiting.lock().remove(&self.number);
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
        assert!(pending.waiting.lock().is_empty());
    }

    #[test]
    fn only_so_many_wait() {
        let pending = McpPending::default();
        let all: Vec<_> = (0..MAX_PENDING).map(|_| pending.begin(owner("a")).unwrap()).collect();
        assert!(pending.begin(owner("a")).is_none());
        drop(all);
        assert!(pending.begin(owner("a")).is_some());
    }
}
