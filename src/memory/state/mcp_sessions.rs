//! What the gateway keeps of the MCP servers that clients use through it: the era and session of each, and its lists for a short time.
//!
//! Opens nothing: who needs a session that is not there makes it (`engine::mcp`), one for each server at a time.

use http::HeaderValue;
use moka::sync::Cache;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;
use uuid::Uuid;
use words::api::mcp::definition::{self, DefinitionHash};
use words::api::mcp::era::McpEra;
use words::api::mcp::features::ClientFeatures;

/// The most servers, and for how long after the last use of each.
const MAX_SERVERS: u64 = 1024;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// The same of what is kept of a server for one person.
const MAX_PERSONS: u64 = 4096;
const PERSON_IDLE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The lists of all persons, about, bytes: beyond it one is fetched for each use.
const MAX_PERSON_BYTES: usize = 64 << 20;
/// How long a list is used.
pub const LIST_TIME_TO_LIVE: Duration = Duration::from_secs(60);
/// How long a failure to list is remembered, so that a server that is down is not called by each list of all.
const FAILURE_TIME_TO_LIVE: Duration = Duration::from_secs(5);
/// The same where it took [`SLOW`] to find out, for whoever asks all servers: each of them would wait as long for one that hangs.
const SLOW_FAILURE_TIME_TO_LIVE: Duration = Duration::from_secs(30);
const SLOW: Duration = Duration::from_secs(2);

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
    /// What the server may request of the clients whose calls are sent within it.
    pub features: ClientFeatures,
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

/// What a list is fetched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListPurpose {
    /// What is called, or listed, is this server's.
    ThisServer,
    /// It is one of several that may have what is wanted.
    AllServers,
}

/// What a list holds, about.
fn bytes_of(items: &[McpItem]) -> usize {
    items.iter().map(|item| item.text.len() + size_of::<McpItem>()).sum()
}

/// What was found, or why nothing was.
#[derive(Debug)]
pub struct McpFetch<T> {
    ended: Instant,
    took: Duration,
    pub found: Result<T, String>,
}

impl<T> McpFetch<T> {
    pub fn new(began: Instant, ended: Instant, found: Result<T, String>) -> Self {
        Self { ended, took: ended.saturating_duration_since(began), found }
    }

    /// Whether it may be used at `now`. A failure counts from when it was found out, which may take longer than it counts.
    fn is_good(&self, max_age: Duration, purpose: ListPurpose, now: Instant) -> bool {
        let max_age = match (&self.found, purpose) {
            (Ok(_), _) => max_age,
            (Err(_), ListPurpose::AllServers) if self.took >= SLOW => SLOW_FAILURE_TIME_TO_LIVE,
            (Err(_), _) => max_age.min(FAILURE_TIME_TO_LIVE),
        };
        now.saturating_duration_since(self.ended) < max_age
    }
}

/// The place of what is found.
pub type Found<T> = Arc<OnceCell<McpFetch<T>>>;

/// What is kept of one server: for all clients, or for one person.
#[derive(Debug, Default)]
pub struct McpUpstream {
    /// One for each set of what clients can be asked for: a server is told the truth of each client. There are at most 64 such sets.
    sessions: Mutex<Vec<(ClientFeatures, Found<Arc<McpSession>>)>>,
    lists: Mutex<Vec<(McpList, Found<McpItems>)>>,
    /// The tools that are not as they were approved, by the last list that had each. Of a server that lists for persons those of all.
    changed: Mutex<BTreeSet<String>>,
}

/// The tools of a server that are not as they were approved.
#[derive(Debug, PartialEq, Eq)]
pub struct ChangedTools {
    pub count: usize,
    /// Those that the last list has shown to be so.
    pub new: Vec<String>,
}

impl McpUpstream {
    /// The place of its session for such clients, which is empty until one is made. A failure is one for all who wait, and for a while after.
    pub fn session(&self, features: ClientFeatures, now: Instant) -> Found<Arc<McpSession>> {
        let mut sessions = self.sessions.lock();
        let is_good = |found: &McpFetch<_>| found.is_good(Duration::MAX, ListPurpose::ThisServer, now);
        sessions.retain(|(of, found)| *of != features || found.get().is_none_or(is_good));
        if let Some((_, found)) = sessions.iter().find(|(of, _)| *of == features) {
            return Arc::clone(found);
        }
        let found = Found::default();
        sessions.push((features, Arc::clone(&found)));
        found
    }

    /// Forgets a session that is lost. Another one that was made meanwhile stays.
    pub fn forget(&self, lost: &Arc<McpSession>) {
        let is_lost = |fetch: &McpFetch<_>| fetch.found.as_ref().is_ok_and(|found| Arc::ptr_eq(found, lost));
        self.sessions.lock().retain(|(_, found)| !found.get().is_some_and(is_lost));
    }

    /// Takes from a person's list which of its tools are not as they were approved. What it lacks, others may have.
    pub fn note_changed(&self, listed: impl Iterator<Item = (String, bool)>) -> ChangedTools {
        let mut changed = self.changed.lock();
        let mut new = Vec::new();
        for (name, is_changed) in listed {
            if !is_changed {
                changed.remove(&name);
            } else if changed.insert(name.clone()) {
                new.push(name);
            }
        }
        ChangedTools { count: changed.len(), new }
    }

    /// Drops lists that are too old for any use.
    fn drop_lists(&self, now: Instant) {
        let is_good = |found: &McpFetch<_>| found.is_good(LIST_TIME_TO_LIVE, ListPurpose::AllServers, now);
        self.lists.lock().retain(|(_, cell)| cell.get().is_none_or(is_good));
    }

    /// Forgets a list that is not to be kept. Another one that was fetched meanwhile stays.
    pub fn forget_list(&self, unkept: &Found<McpItems>) {
        self.lists.lock().retain(|(_, cell)| !Arc::ptr_eq(cell, unkept));
    }

    fn list_bytes(&self) -> usize {
        let lists = self.lists.lock();
        let kept = lists.iter().filter_map(|(_, cell)| cell.get()?.found.as_ref().ok());
        kept.map(|items| bytes_of(items)).sum()
    }

    /// The place of a list that is good at `now`. `max_age`: the oldest that is good.
    pub fn list(
        &self,
        list: McpList,
        max_age: Duration,
        purpose: ListPurpose,
        now: Instant,
    ) -> Found<McpItems> {
        let mut lists = self.lists.lock();
        let found = lists.iter().position(|(kind, _)| *kind == list);
        if let Some((_, cell)) = found.and_then(|at| lists.get(at)) {
            // One that is being fetched is as good as new.
            if cell.get().is_none_or(|found| found.is_good(max_age, purpose, now)) {
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

/// All servers that were used lately.
#[derive(Debug)]
pub struct McpSessions {
    servers: Cache<(Uuid, u64), Arc<McpUpstream>>,
    /// Apart, so that no person evicts what is kept for all.
    persons: Cache<(Uuid, u64, Arc<str>), Arc<McpUpstream>>,
    /// What their lists hold, or held a moment ago.
    person_bytes: AtomicUsize,
    next_id: AtomicU64,
}

impl Default for McpSessions {
    fn default() -> Self {
        let servers = Cache::builder().max_capacity(MAX_SERVERS).time_to_idle(IDLE_TIMEOUT).build();
        let persons = Cache::builder().max_capacity(MAX_PERSONS).time_to_idle(PERSON_IDLE_TIMEOUT).build();
        Self { servers, persons, person_bytes: AtomicUsize::new(0), next_id: AtomicU64::new(1) }
    }
}

impl McpSessions {
    /// The server with this id and revision of its record, as it is to all clients.
    pub fn of(&self, id: Uuid, revision: u64) -> Arc<McpUpstream> {
        self.servers.get_with((id, revision), Arc::default)
    }

    /// The same as it is to one person, who shares neither a session nor a list with others.
    pub fn of_person(&self, id: Uuid, revision: u64, person: &Arc<str>) -> Arc<McpUpstream> {
        self.persons.get_with((id, revision, Arc::clone(person)), Arc::default)
    }

    /// Counts a new list of a person; `false`: there is no room to keep it.
    pub fn has_room_for(&self, items: &[McpItem]) -> bool {
        let bytes = bytes_of(items);
        let before = self.person_bytes.fetch_add(bytes, Ordering::Relaxed);
        let has_room = before.saturating_add(bytes) <= MAX_PERSON_BYTES;
        if !has_room {
            self.person_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        has_room
    }

    /// The id of the next request to a server: no two of a process are equal.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Drops what was not used for long.
    pub fn drop_expired(&self, now: Instant) {
        self.servers.run_pending_tasks();
        self.persons.run_pending_tasks();
        // Each person has lists of each server, so that they must not be held for as long as what is kept with them.
        let mut bytes = 0;
        for (_, upstream) in &self.persons {
            upstream.drop_lists(now);
            bytes += upstream.list_bytes();
        }
        self.person_bytes.store(bytes, Ordering::Relaxed);
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
            features: ClientFeatures::default(),
        })
    }

    #[test]
    fn only_the_session_that_is_lost_is_forgotten() {
        let upstream = McpUpstream::default();
        let now = Instant::now();
        let session_of = |now| upstream.session(ClientFeatures::default(), now);
        let first = session();
        session_of(now).set(McpFetch::new(now, now, Ok(Arc::clone(&first)))).unwrap();
        upstream.forget(&session());
        assert!(session_of(now).get().is_some());
        upstream.forget(&first);
        assert!(session_of(now).get().is_none());
        let second = session();
        session_of(now).set(McpFetch::new(now, now, Ok(Arc::clone(&second)))).unwrap();
        upstream.forget(&first);
        let current = session_of(now + Duration::from_secs(3600));
        assert!(Arc::ptr_eq(current.get().unwrap().found.as_ref().unwrap(), &second));
        // A failure is one for a while.
        upstream.forget(&second);
        session_of(now).set(McpFetch::new(now, now, Err("down".to_owned()))).unwrap();
        assert!(session_of(now + Duration::from_secs(4)).get().is_some());
        assert!(session_of(now + Duration::from_secs(5)).get().is_none());
    }

    #[test]
    fn clients_of_other_features_share_no_session() {
        let upstream = McpUpstream::default();
        let now = Instant::now();
        let form = ClientFeatures::of_session_id("tp1-01-00000000000000000000000000000007").unwrap();
        let first = upstream.session(form, now);
        assert!(Arc::ptr_eq(&first, &upstream.session(form, now)));
        let none = upstream.session(ClientFeatures::default(), now);
        assert!(!Arc::ptr_eq(&first, &none));
        let lost = session();
        first.set(McpFetch::new(now, now, Ok(Arc::clone(&lost)))).unwrap();
        upstream.forget(&lost);
        assert!(!Arc::ptr_eq(&first, &upstream.session(form, now)));
        assert!(Arc::ptr_eq(&none, &upstream.session(ClientFeatures::default(), now)));
    }

    #[test]
    fn a_person_shares_with_no_other_and_with_no_other_version() {
        let sessions = McpSessions::default();
        let id = Uuid::from_u128(1);
        let [ann, bob]: [Arc<str>; 2] = ["https://id.test\nann".into(), "https://id.test\nbob".into()];
        let first = sessions.of_person(id, 1, &ann);
        assert!(Arc::ptr_eq(&first, &sessions.of_person(id, 1, &"https://id.test\nann".into())));
        for other in [
            sessions.of_person(id, 1, &bob),
            sessions.of_person(id, 2, &ann),
            sessions.of_person(Uuid::from_u128(2), 1, &ann),
            sessions.of(id, 1),
        ] {
            assert!(!Arc::ptr_eq(&first, &other));
        }
    }

    #[test]
    fn lists_of_persons_are_dropped_when_they_are_too_old() {
        let sessions = McpSessions::default();
        let upstream = sessions.of_person(Uuid::from_u128(1), 1, &"https://id.test\nann".into());
        let start = Instant::now();
        let held = || upstream.lists.lock().len();
        let list = |kind| upstream.list(kind, LIST_TIME_TO_LIVE, ListPurpose::ThisServer, start);
        list(McpList::Tools).set(McpFetch::new(start, start, Ok(Arc::default()))).unwrap();
        // One that is being fetched stays.
        let fetching = list(McpList::Prompts);
        sessions.drop_expired(start + LIST_TIME_TO_LIVE.saturating_sub(Duration::from_secs(1)));
        assert_eq!(held(), 2);
        sessions.drop_expired(start + LIST_TIME_TO_LIVE);
        assert_eq!(held(), 1);
        assert!(Arc::ptr_eq(&fetching, &list(McpList::Prompts)));
    }

    #[test]
    fn lists_of_persons_are_kept_while_there_is_room() {
        let sessions = McpSessions::default();
        let large: McpItems = Arc::from([McpItem::new("x".repeat(MAX_PERSON_BYTES * 2 / 3))]);
        let now = Instant::now();
        let upstream = sessions.of_person(Uuid::from_u128(1), 1, &"https://id.test\nann".into());
        let cell = upstream.list(McpList::Tools, LIST_TIME_TO_LIVE, ListPurpose::ThisServer, now);
        cell.set(McpFetch::new(now, now, Ok(Arc::clone(&large)))).unwrap();
        assert!(sessions.has_room_for(&large) && !sessions.has_room_for(&large));
        sessions.drop_expired(now);
        assert!(!sessions.has_room_for(&large), "it is still there");
        upstream.forget_list(&cell);
        assert_eq!(upstream.lists.lock().len(), 0);
        sessions.drop_expired(now);
        assert!(sessions.has_room_for(&large));
    }

    #[test]
    fn what_one_persons_list_lacks_stays_changed_for_others() {
        let upstream = McpUpstream::default();
        let note = |listed: &[(&str, bool)]| {
            let found = listed.iter().map(|(name, is_changed)| ((*name).to_owned(), *is_changed));
            let ChangedTools { count, new } = upstream.note_changed(found);
            (count, new)
        };
        assert_eq!(note(&[("a", true), ("b", false)]), (1, vec!["a".to_owned()]));
        assert_eq!(note(&[("b", true)]), (2, vec!["b".to_owned()]));
        assert_eq!(note(&[("a", true)]), (2, Vec::new()));
        assert_eq!(note(&[("a", false)]), (1, Vec::new()));
    }

    #[test]
    fn lists_are_kept_for_their_time_and_failures_shorter() {
        use ListPurpose::{AllServers, ThisServer};
        let upstream = McpUpstream::default();
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let get = |purpose, seconds| upstream.list(McpList::Tools, LIST_TIME_TO_LIVE, purpose, at(seconds));
        let first = get(ThisServer, 0);
        assert!(Arc::ptr_eq(&first, &get(AllServers, 100)), "one at a time");
        let other = upstream.list(McpList::Prompts, LIST_TIME_TO_LIVE, ThisServer, start);
        assert!(!Arc::ptr_eq(&first, &other));
        // It took ten seconds to fail: only who means this server tries it again soon.
        first.set(McpFetch::new(start, at(10), Err("down".to_owned()))).unwrap();
        assert!(Arc::ptr_eq(&first, &get(ThisServer, 14)));
        assert!(Arc::ptr_eq(&first, &get(AllServers, 39)));
        let second = get(AllServers, 40);
        assert!(!Arc::ptr_eq(&first, &second));
        second.set(McpFetch::new(at(40), at(50), Err("down".to_owned()))).unwrap();
        let third = get(ThisServer, 55);
        assert!(!Arc::ptr_eq(&second, &third));
        // One that fails at once delays nobody.
        third.set(McpFetch::new(at(55), at(56), Err("down".to_owned()))).unwrap();
        assert!(Arc::ptr_eq(&third, &get(AllServers, 60)));
        let fourth = get(AllServers, 61);
        assert!(!Arc::ptr_eq(&third, &fourth));
        fourth.set(McpFetch::new(at(61), at(75), Ok(Arc::default()))).unwrap();
        assert!(Arc::ptr_eq(&fourth, &get(AllServers, 134)));
        assert!(!Arc::ptr_eq(&fourth, &get(AllServers, 135)));
    }
}
