//! What a server sends within the stream of a call, on its way to the call's client.
//!
//! Nothing waits for a client that reads slowly: what there is no room for is dropped. Does not write to the client (`proxy::mcp`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use words::api::mcp::envelope::RelayedTerms;
use words::api::mcp::features::ClientFeatures;
use words::api::mcp::message::McpMessage;
use words::api::mcp::notification::{LogLevel, NotificationRules, ProgressTokens, progress_token};

/// The most requests of one call that wait for their response at a time.
pub(super) const MAX_PENDING: usize = 16;
/// The largest notification, bytes.
const MAX_BYTES: usize = 64 << 10;
/// The most notifications that wait for the client, and their bytes.
const MAX_QUEUED: usize = 64;
const MAX_QUEUED_BYTES: usize = 256 << 10;
/// The most messages of a call, and their bytes.
const MAX_MESSAGES: usize = 10_000;
const MAX_TOTAL_BYTES: usize = 16 << 20;

/// Where a call's messages go.
#[derive(Debug, Clone)]
pub struct McpRelay {
    sender: mpsc::Sender<Vec<u8>>,
    queued: Arc<AtomicUsize>,
    count: Arc<AtomicUsize>,
    total: Arc<AtomicUsize>,
    /// The least severe log messages that the client gets; `None`: it gets none.
    level: Option<LogLevel>,
    /// What servers may request of the client.
    features: ClientFeatures,
}

/// The messages of a call for its client.
#[derive(Debug)]
pub struct McpRelayed {
    receiver: mpsc::Receiver<Vec<u8>>,
    queued: Arc<AtomicUsize>,
}

impl McpRelay {
    /// `level`: of the least severe log messages that the client gets.
    /// `features`: what servers may request of it.
    pub fn new(level: Option<LogLevel>, features: ClientFeatures) -> (Self, McpRelayed) {
        let (sender, receiver) = mpsc::channel(MAX_QUEUED + MAX_PENDING);
        let queued = Arc::<AtomicUsize>::default();
        let relayed = McpRelayed { receiver, queued: Arc::clone(&queued) };
        (Self { sender, queued, count: Arc::default(), total: Arc::default(), level, features }, relayed)
    }

    /// Passes a notification on, if there is room for it.
    pub(super) fn offer(&self, message: Vec<u8>) -> bool {
        let length = message.len();
        let fits = self.sender.capacity() > MAX_PENDING
            && self.queued.load(Ordering::Relaxed).saturating_add(length) <= MAX_QUEUED_BYTES
            && self.count.load(Ordering::Relaxed) < MAX_MESSAGES
            && self.total.load(Ordering::Relaxed).saturating_add(length) <= MAX_TOTAL_BYTES;
        fits && self.send(message)
    }

    /// Passes a request of the server on, for which there is always room: few wait at a time, and none is long.
    pub(super) fn offer_request(&self, message: Vec<u8>) -> bool {
        self.send(message)
    }

    fn send(&self, message: Vec<u8>) -> bool {
        let length = message.len();
        // Counted first: its receiver counts it out.
        self.queued.fetch_add(length, Ordering::Relaxed);
        if self.sender.try_send(message).is_err() {
            self.queued.fetch_sub(length, Ordering::Relaxed);
            return false;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(length, Ordering::Relaxed);
        true
    }

    pub(super) const fn features(&self) -> ClientFeatures {
        self.features
    }

    /// The bytes that wait for the client.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }
}

impl McpRelayed {
    /// The next message; `None`: there will be none. The future may be dropped while it waits.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        self.receiver.recv().await.inspect(|message| self.count_out(message))
    }

    /// The next message that is there.
    pub fn try_next(&mut self) -> Option<Vec<u8>> {
        self.receiver.try_recv().ok().inspect(|message| self.count_out(message))
    }

    fn count_out(&self, message: &[u8]) {
        self.queued.fetch_sub(message.len(), Ordering::Relaxed);
    }
}

/// What the server is to know of a call with this message. `id`: the call's, which is its token as well. `capabilities`: what the client can be
/// asked for, JSON text.
pub(super) fn terms<'i>(
    relay: Option<&McpRelay>,
    message: &McpMessage<'_>,
    id: &'i str,
    capabilities: &'i str,
) -> RelayedTerms<'i> {
    let Some(relay) = relay else { return RelayedTerms::default() };
    let progress_token = progress_token(message).map(|_| id);
    let capabilities = (!relay.features.is_empty()).then_some(capabilities);
    RelayedTerms { progress_token, log_level: relay.level, capabilities }
}

/// Which of its notifications go to the client, and where to. `is_judged`: checks decide what of a result the client gets, and see no
/// notifications.
pub(super) fn notifications(
    relay: Option<McpRelay>,
    message: &McpMessage<'_>,
    id: &str,
    is_judged: bool,
) -> Option<(NotificationRules, McpRelay)> {
    let relay = relay?;
    let progress = progress_token(message);
    let progress = progress.map(|client| ProgressTokens { client, server: id.to_owned() });
    Some((NotificationRules { progress, level: relay.level, has_texts: !is_judged }, relay))
}

/// Passes a notification on, if its client is to have it.
pub(super) fn pass(rules: &NotificationRules, relay: &McpRelay, message: &McpMessage<'_>) {
    if let Some(notification) = rules.relayed(message).filter(|text| text.len() <= MAX_BYTES) {
        // The next one says more of the progress than one that came too early.
        let _ = relay.offer(notification);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_that_does_not_read_has_only_so_much_kept() {
        let (relay, mut relayed) = McpRelay::new(None, ClientFeatures::default());
        let taken = (0..1000).filter(|_| relay.offer(vec![b'x'; 10])).count();
        assert_eq!((taken, relay.queued_bytes()), (MAX_QUEUED, MAX_QUEUED * 10));
        assert_eq!(relayed.next().await.map(|message| message.len()), Some(10));
        assert!(relay.offer(vec![b'y'; 10]) && !relay.offer(vec![b'y'; 10]));
        while relayed.try_next().is_some() {}
        assert_eq!(relay.queued_bytes(), 0);
        let taken = (0..1000).filter(|_| relay.offer(vec![b'x'; MAX_BYTES])).count();
        assert_eq!(taken, MAX_QUEUED_BYTES / MAX_BYTES);
        while relayed.try_next().is_some() {}
        assert!(!relay.offer(vec![b'x'; MAX_QUEUED_BYTES + 1]));
    }

    #[tokio::test]
    async fn requests_have_room_behind_notifications() {
        let (relay, mut relayed) = McpRelay::new(None, ClientFeatures::default());
        let notifications = (0..1000).filter(|_| relay.offer(vec![b'x'; 10])).count();
        let requests = (0..1000).filter(|_| relay.offer_request(vec![b'y'; MAX_QUEUED_BYTES])).count();
        assert_eq!((notifications, requests), (MAX_QUEUED, MAX_PENDING));
        while relayed.try_next().is_some() {}
        assert_eq!(relay.queued_bytes(), 0);
    }

    #[tokio::test]
    async fn a_call_has_only_so_many_messages_and_bytes() {
        let count = |bytes: usize| {
            let (relay, mut relayed) = McpRelay::new(None, ClientFeatures::default());
            let mut offered = (0..2 * MAX_MESSAGES).map(|_| relay.offer(vec![b'x'; bytes]));
            let taken = offered.by_ref().take_while(|is_taken| *is_taken && relayed.try_next().is_some());
            taken.count()
        };
        assert_eq!(count(10), MAX_MESSAGES);
        assert_eq!(count(MAX_BYTES), MAX_TOTAL_BYTES / MAX_BYTES);
    }
}
