//! Watches the response to a call while it arrives: what its server requests meanwhile goes to who responds to it, its notifications go to the
//! client, and the response ends the stream, whether the server ends it or not.

use super::McpRelay;
use super::relay::pass;
use memchr::memchr2;
use memory::state::large_work::run_here;
use tokio::sync::mpsc;
use words::api::mcp::notification::NotificationRules;
use words::api::mcp::stream::{McpStream, ServerRequest};

/// The most requests of a server that wait for their response. What is more gets none.
const MAX_WAITING: usize = 16;

/// What watches a response.
#[derive(Debug, Clone)]
pub struct McpWatch {
    stream: McpStream,
    requests: mpsc::Sender<ServerRequest>,
    /// Which notifications go to the client, and where to.
    notifications: Option<(NotificationRules, McpRelay)>,
    is_refused: bool,
}

impl McpWatch {
    /// `id`: of the call, JSON text. The receiver gets what the server requests.
    pub(super) fn new(
        id: &str,
        notifications: Option<(NotificationRules, McpRelay)>,
    ) -> (Self, mpsc::Receiver<ServerRequest>) {
        let (requests, receiver) = mpsc::channel(MAX_WAITING);
        (Self { stream: McpStream::new(id), requests, notifications, is_refused: false }, receiver)
    }

    /// Its server refuses the call: nothing that comes with that is passed on, and its end is found all the same.
    pub(in crate::engine) fn pass_nothing(&mut self) {
        self.is_refused = true;
    }

    /// Takes the next bytes. True: the response is complete.
    pub(in crate::engine) fn take(&mut self, chunk: &[u8]) -> bool {
        let Self { stream, requests, notifications, is_refused } = self;
        // Without the end of a line in it, no event ends, and none is read.
        let is_read = memchr2(b'\n', b'\r', chunk).is_some();
        let bytes = if is_read { stream.held_bytes() + chunk.len() } else { 0 };
        let push = || {
            stream.push(chunk, |message| match (ServerRequest::of(message), &*notifications) {
                _ if *is_refused => {}
                (Some(request), _) => {
                    // Without a receiver, or without room, it gets no response.
                    let _ = requests.try_send(request);
                }
                (None, Some((rules, relay))) => pass(rules, relay, message),
                (None, None) => {}
            })
        };
        run_here(bytes, push)
    }

    /// How many bytes it holds.
    pub(in crate::engine) fn held_bytes(&self) -> usize {
        let queued = self.notifications.as_ref().map_or(0, |(_, relay)| relay.queued_bytes());
        self.stream.held_bytes() + queued
    }
}
