//! What the gateway knows of MCP servers: one description each, for a few minutes, by one session at a time.
//!
//! Not how a session runs (`net::outbound::mcp`), nor what is shown of it (`control::mcp_servers`).

use crate::net::outbound::mcp::{McpClient, McpDescription, McpServer};
use crate::state::Shared;
use jiff::Timestamp;
use moka::sync::Cache;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use uuid::Uuid;

/// How long a description is used.
const TIME_TO_LIVE: Duration = Duration::from_secs(300);
/// How long a failure is remembered.
const FAILURE_TIME_TO_LIVE: Duration = Duration::from_secs(30);
/// A synchronisation that has not ended by then is given up; longer than the timeout of a session.
const MAX_DURATION: Duration = Duration::from_secs(30);
/// How long a request waits for a synchronisation before it shows what was there before.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The most servers that are remembered, and for how long after the last request for them.
const MAX_SERVERS: u64 = 512;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The server's id and its record's revision: a changed record is synchronised anew.
type Key = (Uuid, u64);

/// What is remembered of one server.
#[derive(Debug, Clone, Default)]
pub struct McpSync {
    /// Of the last successful synchronisation.
    pub description: Option<Arc<McpDescription>>,
    pub last_synced_at: Option<Timestamp>,
    /// Why the last synchronisation failed.
    pub error: Option<Arc<str>>,
    ended: Option<Instant>,
    started: Option<Instant>,
}

/// The state of a server's synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpSyncStatus {
    Pending,
    Synced,
    Failed,
}

impl McpSync {
    /// That of a server that is not synchronised, and why.
    pub fn failed(why: &str, now: Instant) -> Self {
        Self { error: Some(why.into()), ended: Some(now), ..Self::default() }
    }

    pub fn status(&self) -> McpSyncStatus {
        match (&self.error, self.ended.is_some() && self.started.is_none()) {
            (_, false) => McpSyncStatus::Pending,
            (None, true) => McpSyncStatus::Synced,
            (Some(_), true) => McpSyncStatus::Failed,
        }
    }

    fn is_fresh(&self, now: Instant) -> bool {
        let time_to_live = if self.error.is_none() { TIME_TO_LIVE } else { FAILURE_TIME_TO_LIVE };
        self.ended.is_some_and(|ended| now.saturating_duration_since(ended) < time_to_live)
    }

    fn is_running(&self, now: Instant) -> bool {
        self.started.is_some_and(|started| now.saturating_duration_since(started) < MAX_DURATION)
    }

    /// Whether the caller must synchronise, because the description is too old and no other request does it. From then on it counts as
    /// running.
    fn start(&mut self, now: Instant) -> bool {
        let is_due = !self.is_fresh(now) && !self.is_running(now);
        if is_due {
            self.started = Some(now);
        }
        is_due
    }

    fn end(&mut self, found: Result<McpDescription, String>, now: Instant, time: Timestamp) {
        (self.started, self.ended) = (None, Some(now));
        match found {
            Ok(description) => {
                self.description = Some(Arc::new(description));
                self.last_synced_at = Some(time);
                self.error = None;
            }
            Err(why) => self.error = Some(why.into()),
        }
    }
}

/// All MCP servers that were requested lately.
#[derive(Debug)]
pub struct McpServers {
    pub client: McpClient,
    servers: Cache<Key, Arc<watch::Sender<McpSync>>>,
}

impl McpServers {
    pub fn new(ca_file: Option<PathBuf>) -> Self {
        let servers = Cache::builder().max_capacity(MAX_SERVERS).time_to_idle(IDLE_TIMEOUT).build();
        Self { client: McpClient::new(ca_file), servers }
    }

    /// Drops the servers that no request was for; otherwise only the next requests do.
    pub fn drop_expired(&self) {
        self.servers.run_pending_tasks();
    }
}

/// What is remembered of the server with this id and revision, synchronised first where that is due. Waits for it at most
/// [`MAX_WAIT`]; it goes on without the request.
pub async fn synced(shared: &Arc<Shared>, id: Uuid, revision: u64, server: McpServer) -> McpSync {
    let slot = shared.mcp_servers.servers.get_with((id, revision), || Arc::new(watch::Sender::default()));
    let mut waiting = slot.subscribe();
    if slot.send_if_modified(|sync| sync.start(Instant::now())) {
        let shared = Arc::clone(shared);
        let slot = Arc::clone(&slot);
        tokio::spawn(async move {
            let rules = shared.settings_arc();
            let client = &shared.mcp_servers.client;
            let found = client.describe(&server, true, &shared.dns, &rules.hosts).await;
            let found = found.map_err(|failure| failure.message);
            if let Err(why) = &found {
                log::info!(target: "turnpike", "the MCP server {id} could not be synchronised: {why}");
            }
            slot.send_modify(|sync| sync.end(found, Instant::now(), Timestamp::now()));
        });
    }
    let ended = waiting.wait_for(|sync| !sync.is_running(Instant::now()));
    let _ = tokio::time::timeout(MAX_WAIT, ended).await;
    slot.borrow().clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_kept_for_its_time_and_outlives_a_failure() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let time = Timestamp::UNIX_EPOCH;
        let mut sync = McpSync::default();
        assert_eq!(sync.status(), McpSyncStatus::Pending);
        assert!(sync.start(start), "never synchronised");
        assert!(!sync.start(after(1)), "one at a time");
        assert_eq!(sync.status(), McpSyncStatus::Pending);
        let description = McpDescription { server_name: "tools".to_owned(), ..McpDescription::default() };
        sync.end(Ok(description), after(2), time);
        assert_eq!((sync.status(), sync.last_synced_at), (McpSyncStatus::Synced, Some(time)));
        assert!(!sync.start(after(301)) && sync.start(after(302)));
        // What was there is shown while it is synchronised again, and where that fails.
        assert_eq!(sync.status(), McpSyncStatus::Pending);
        sync.end(Err("refused".to_owned()), after(303), Timestamp::MAX);
        assert_eq!((sync.status(), sync.last_synced_at), (McpSyncStatus::Failed, Some(time)));
        assert_eq!(sync.description.as_ref().unwrap().server_name, "tools");
        assert!(!sync.start(after(332)) && sync.start(after(333)));
        // A synchronisation that never reported its end does not block the server for ever.
        assert!(!sync.start(after(362)) && sync.start(after(363)));
    }
}
