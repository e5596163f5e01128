//! The lines of one batch that are in flight: so many as its providers bear and memory has room for.
//!
//! Not here: which line is next (`line_queue`), and what becomes of a response (`dispatch`).

use super::batches::Batches;
use super::line::{LineEnv, SentLine};
use super::line_queue::QueuedLine;
use super::pace::Pace;
use super::turns::LineTurn;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Bytes of requests and responses in flight, by the largest of the latest lines. Results are copied twice before they are written.
const IN_FLIGHT_BYTES: usize = 16 << 20;

pub(super) struct LinesInFlight {
    batches: Arc<Batches>,
    env: Arc<LineEnv>,
    sent: JoinSet<(QueuedLine, SentLine)>,
    pace: Pace,
    /// Bytes of the largest of the latest lines, with its response.
    largest: usize,
    stops: watch::Sender<bool>,
}

impl LinesInFlight {
    pub fn new(batches: &Arc<Batches>, env: LineEnv) -> Self {
        Self {
            batches: Arc::clone(batches),
            env: Arc::new(env),
            sent: JoinSet::new(),
            pace: Pace::new(batches.concurrency),
            largest: 0,
            stops: watch::Sender::new(false),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// How many lines may be held in memory, however many the provider bears; at least 1.
    pub fn places(&self) -> usize {
        (IN_FLIGHT_BYTES / self.largest.max(1)).max(1)
    }

    /// Whether one more line of so many bytes may be sent.
    pub(crate) fn has_place(&mut self, bytes: usize, now: Instant) -> bool {
        self.largest = self.largest.max(bytes);
        self.sent.len() < self.pace.limit().min(self.places()) && self.paused_until(now).is_none()
    }

    /// Until when no line may be sent.
    pub fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.pace.paused_until(now)
    }

    pub fn send(&mut self, line: QueuedLine, turn: LineTurn) {
        let env = Arc::clone(&self.env);
        let planner = self.batches.planner.clone();
        let stops = self.stops.subscribe();
        let in_flight = self.batches.metrics.send_line();
        self.sent.spawn(async move {
            // A line that breaks the gateway must not be lost, and is not sent for ever.
            let sending = AssertUnwindSafe(env.send(&planner, line.line.body.clone(), stops)).catch_unwind();
            let broken =
                |_| SentLine::Broken("The gateway failed while it ran this line. See its log.".to_owned());
            let sent = sending.await.unwrap_or_else(broken);
            drop((turn, in_flight));
            (line, sent)
        });
    }

    /// Waits until one has its response; `None`: none is in flight.
    pub async fn next(&mut self) -> Option<(QueuedLine, SentLine)> {
        loop {
            if let Ok((line, sent)) = self.sent.join_next().await? {
                if let SentLine::Response(response) = &sent {
                    let size = line.line.body.len().saturating_add(response.body.len());
                    self.largest = size.max(self.largest - self.largest / 16);
                }
                return Some((line, sent));
            }
        }
    }

    /// A line has its response.
    pub fn succeed(&mut self) {
        self.pace.succeed();
    }

    /// A line was refused, and may be sent again after this wait.
    pub fn refuse(&mut self, wait: Option<Duration>) {
        self.pace.refuse(wait, Instant::now());
    }

    /// Has lines stop: those that respond at once keep their responses.
    pub fn stop(&self) {
        self.stops.send_replace(true);
    }

    /// Drops the lines without a response.
    pub fn abort(&mut self) {
        self.sent.abort_all();
    }
}
