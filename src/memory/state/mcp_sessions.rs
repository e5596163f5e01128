//! What the gateway keeps of the MCP servers that clients use through it: the era and session of each, and its lists for a short time.
//!
//! Opens nothing: who needs a session that is not there makes it (`engine::mcp`), one for each server at a time.

use http::HeaderValue;
use moka::sync::Cache;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use uuid::Uuid;
use words::api::mcp::definition::{self, DefinitionHash};
use words::api::mcp::era::McpEra;

/// The most servers, and for how long after the last use of each.
const MAX_SERVERS: u64 = 1024;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How long a list is used.
pub const LIST_TIME_TO_LIVE: Duration = Duration::from_secs(60);
/// How long a failure to list is remembered, so that a server that is down is not called by each list of all.
const FAILURE_TIME_TO_LIVE: Duration = Duration::from_secs(5);

/// How a server is spoken to.
#[derive(Debug, Clone)]
pub struct McpSession {
    pub era: McpEra,
    /// The version both agreed on.
    pub version: String,
    /// `Mcp-Session-Id`, where the server keeps sessions.
    pub id: Option<HeaderValue>,
    /// The JSON of its capabilities.
    pub capabilities: String,
}

/// Which list of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpList {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// An item of a list.
#[derive(Debug)]
pub struct McpItem {
    /// The JSON text that the server has sent; of a tool whose definition must be approved, in one spelling.
    pub text: Box<str>,
    hash: OnceLock<DefinitionHash>,
}

impl McpItem {
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self { text: text.into(), hash: OnceLock::new() }
    }

    /// The hash of its text.
    pub fn hash(&self) -> &DefinitionHash {
        self.hash.get_or_init(|| definition::hash(&self.text))
    }
}

/// The items of a list.
pub type McpItems = Arc<[McpItem]>;

/// What was found, or why nothing was, and when.
type Found<T> = Arc<OnceCell<(Instant, Result<T, String>)>>;

/// What is kept of one server.
#[derive(Debug, Default)]
pub struct McpUpstream {
    session: Mutex<Found<Arc<McpSession>>>,
    lists: Mutex<Vec<(McpList, Found<McpItems>)>>,
}

impl McpUpstream {
    /// The place of its session, which is empty until one is made. A failure is one for all who wait, and for a while after.
    pub fn session(&self, now: Instant) -> Found<Arc<McpSession>> {
        let mut session = self.session.lock();
        if session.get().is_some_and(|found| !is_good(found, Duration::MAX, now)) {
            *session = Arc::default();
        }
        Arc::clone(&session)
    }

    /// Forgets a session that is lost. Another one that was made meanwhile stays.
    pub fn forget(&self, lost: &Arc<McpSession>) {
        let mut session = self.session.lock();
        if session
            .get()
            .is_some_and(|(_, current)| current.as_ref().is_ok_and(|current| Arc::ptr_eq(current, lost)))
        {
            *session = Arc::default();
        }
    }

    /// The place of a list that is good at `now`. `max_age`: the oldest that is good.
    pub fn list(&self, list: McpList, max_age: Duration, now: Instant) -> Found<McpItems> {
        let mut lists = self.lists.lock();
        let found = lists.iter().position(|(kind, _)| *kind == list);
        if let Some((_, cell)) = found.and_then(|at| lists.get(at)) {
            // One that is being fetched is as good as new.
            if cell.get().is_none_or(|found| is_good(found, max_age, now)) {
                return Arc::clone(cell);
            }
        }
        if let Some(at) = found {
            lists.swap_remove(at);
        }
        let cell = Found::default();
        lists.push((list, Arc::clone(&cell)));
        cell
    }
}

/// Whether it may be used at `now`. A failure counts from when it was found out, which may take longer than it counts.
fn is_good<T>((at, found): &(Instant, Result<T, String>), max_age: Duration, now: Instant) -> bool {
    let max_age = if found.is_err() { max_age.min(FAILURE_TIME_TO_LIVE) } else { max_age };
    now.saturating_duration_since(*at) < max_age
}

/// All servers that were used lately.
#[derive(Debug)]
pub struct McpSessions {
    servers: Cache<(Uuid, u64), Arc<McpUpstream>>,
    next_id: AtomicU64,
}

impl Default for McpSessions {
    fn default() -> Self {
        let servers = Cache::builder().max_capacity(MAX_SERVERS).time_to_idle(IDLE_TIMEOUT).build();
        Self { servers, next_id: AtomicU64::new(1) }
    }
}

impl McpSessions {
    /// The server with this id and revision of its record.
    pub fn of(&self, id: Uuid, revision: u64) -> Arc<McpUpstream> {
        self.servers.get_with((id, revision), Arc::default)
    }

    /// The id of the next request to a server: no two of a process are equal.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Drops what was not used for long.
    pub fn drop_expired(&self) {
        self.servers.run_pending_tasks();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Arc<McpSession> {
        Arc::new(McpSession {
            era: McpEra::Sessions,
            version: "2025-11-25".to_owned(),
            id: None,
            capabilities: "{}".to_owned(),
        })
    }

    #[test]
    fn only_the_session_that_is_lost_is_forgotten() {
        let upstream = McpUpstream::default();
        let now = Instant::now();
        let first = session();
        upstream.session(now).set((now, Ok(Arc::clone(&first)))).unwrap();
        upstream.forget(&session());
        assert!(upstream.session(now).get().is_some());
        upstream.forget(&first);
        assert!(upstream.session(now).get().is_none());
        let second = session();
        upstream.session(now).set((now, Ok(Arc::clone(&second)))).unwrap();
        upstream.forget(&first);
        let current = upstream.session(now + Duration::from_secs(3600));
        assert!(Arc::ptr_eq(current.get().unwrap().1.as_ref().unwrap(), &second));
        // A failure is one for a while.
        upstream.forget(&second);
        upstream.session(now).set((now, Err("down".to_owned()))).unwrap();
        assert!(upstream.session(now + Duration::from_secs(4)).get().is_some());
        assert!(upstream.session(now + Duration::from_secs(5)).get().is_none());
    }

    #[test]
    fn lists_are_kept_for_their_time_and_failures_shorter() {
        let upstream = McpUpstream::default();
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let first = upstream.list(McpList::Tools, LIST_TIME_TO_LIVE, start);
        assert!(
            Arc::ptr_eq(&first, &upstream.list(McpList::Tools, LIST_TIME_TO_LIVE, at(100))),
            "one at a time"
        );
        assert!(!Arc::ptr_eq(&first, &upstream.list(McpList::Prompts, LIST_TIME_TO_LIVE, start)));
        // It took ten seconds to fail.
        first.set((at(10), Err("down".to_owned()))).unwrap();
        assert!(Arc::ptr_eq(&first, &upstream.list(McpList::Tools, LIST_TIME_TO_LIVE, at(14))));
        let second = upstream.list(McpList::Tools, LIST_TIME_TO_LIVE, at(15));
        assert!(!Arc::ptr_eq(&first, &second));
        second.set((at(15), Ok(Arc::default()))).unwrap();
        assert!(Arc::ptr_eq(&second, &upstream.list(McpList::Tools, LIST_TIME_TO_LIVE, at(74))));
        assert!(!Arc::ptr_eq(&second, &upstream.list(McpList::Tools, LIST_TIME_TO_LIVE, at(75))));
    }
}
