//! One upstream call that several requests read: they get what has arrived, then what arrives.
//!
//! A task of its own (`launch`) reads the provider's response, so no reader depends on another. When all have left, the task ends, and with it the
//! upstream call. A call that somebody has given up, that is outdated, or whose response is stored takes no further readers. Memory is bounded: a response that is longer than an entry of the cache may be takes no further readers, and what all readers have
//! is dropped; where the slowest is too far behind, the provider is not read.
//! Not here: which requests share a call (`flights`).

use super::note::NotStored;
use crate::engine::failure::UpstreamFailure;
use bytes::Bytes;
use memory::cache::Scope;
use parking_lot::Mutex;
use pingora::http::ResponseHeader;
use pingora_core::protocols::http::HttpTask;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use words::error::Error;

/// A response that is read by several requests.
pub(crate) struct Flight {
    state: Mutex<State>,
    /// Something has arrived, for readers.
    arrived: Notify,
    /// A reader has taken something or has left, for the task.
    taken: Notify,
    about: NewFlight,
    /// The call has left for the provider.
    sent: Arc<AtomicBool>,
}

/// What a call is for.
pub(crate) struct NewFlight {
    /// Where its response belongs.
    pub scope: Scope,
    /// Its readers want a stream.
    pub streamed: bool,
    /// Its response is to replace what is kept.
    pub is_refresh: bool,
    /// The most bytes that are kept of it.
    pub limit: usize,
}

/// What has arrived, and who has read how much of it.
#[derive(Default)]
struct State {
    header: Option<Arc<ResponseHeader>>,
    body: ArrivedBody,
    /// How it ended, and when.
    end: Option<(End, Instant)>,
    readers: Readers,
    /// Nobody else may join.
    is_closed: bool,
    /// Why nobody may store the response.
    discarded: Option<NotStored>,
    /// Somebody stores the response.
    is_stored: bool,
}

/// The body, without what was dropped because all readers have it.
#[derive(Default)]
struct ArrivedBody {
    /// Its parts, and when each had arrived.
    parts: VecDeque<(Bytes, Instant)>,
    /// How many parts were dropped before the first of these.
    dropped: usize,
    bytes: usize,
}

/// Who reads the response, and who pays for it.
#[derive(Default)]
struct Readers {
    /// The next part of each.
    places: BTreeMap<u32, usize>,
    /// The name of the next one that joins; the one that started the call is 0.
    next: u32,
    /// One of them is charged for the call.
    is_charged: bool,
    /// The one that started the call has left before its end.
    leader_left: bool,
}

enum End {
    Complete,
    Failed(Error, bool),
}

/// The end of one reader: what it reads, and whether it pays.
pub(crate) struct FlightReader {
    flight: Arc<Flight>,
    id: u32,
    has_header: bool,
}

/// A complete response.
pub(crate) struct WholeResponse {
    pub header: Arc<ResponseHeader>,
    pub body: Bytes,
    /// The end of each part in bytes, and milliseconds since the first one.
    pub pace: Vec<(u32, u32)>,
    /// How long ago its end arrived.
    pub age: Duration,
}

impl Flight {
    /// One that the caller leads.
    pub fn new(about: NewFlight) -> (Arc<Self>, FlightReader) {
        let flight = Arc::new(Self {
            state: Mutex::default(),
            arrived: Notify::new(),
            taken: Notify::new(),
            about,
            sent: Arc::default(),
        });
        let id = flight.state.lock().readers.add();
        let reader = FlightReader { flight: Arc::clone(&flight), id, has_header: false };
        (flight, reader)
    }

    pub fn about(&self) -> &NewFlight {
        &self.about
    }

    /// Where it is noted that the call has left for the provider.
    pub(super) fn sent(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.sent)
    }

    /// Reads the response along with the others; `None`: it is too late for that. A complete response can be joined
    /// until `max_age`, as if it were stored.
    pub fn join(self: &Arc<Self>, max_age: Duration) -> Option<FlightReader> {
        let mut state = self.state.lock();
        if !state.is_open() || state.end.as_ref().is_some_and(|(_, at)| at.elapsed() >= max_age) {
            return None;
        }
        let id = state.readers.add();
        Some(FlightReader { flight: Arc::clone(self), id, has_header: false })
    }

    /// Whether others may join, as far as the age of the response permits.
    pub fn is_open(&self) -> bool {
        self.state.lock().is_open()
    }

    /// Whether anything of the response has arrived.
    pub fn has_begun(&self) -> bool {
        let state = self.state.lock();
        state.header.is_some() || state.end.is_some()
    }

    /// Nobody may join the call any more; its readers stay.
    pub fn close(&self) {
        self.state.lock().is_closed = true;
    }

    /// Nobody may join the call any more, nor store its response.
    pub fn discard(&self, why: NotStored) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.discarded.get_or_insert(why);
    }

    /// Whether the slowest reader is so far behind that nothing more may be read.
    pub(super) fn is_full(&self) -> bool {
        let state = self.state.lock();
        state.is_full(self.about.limit)
    }

    /// Returns when all readers have left, or, with `or_taken`, when one has taken something.
    pub(super) async fn wait_for_readers(&self, or_taken: bool) {
        loop {
            let taken = self.taken.notified();
            tokio::pin!(taken);
            taken.as_mut().enable();
            {
                let state = self.state.lock();
                if state.readers.places.is_empty() || or_taken && state.body.bytes <= self.about.limit {
                    return;
                }
            }
            taken.await;
        }
    }

    /// Takes one part; true at the end of the response.
    pub(super) fn accept(&self, task: HttpTask) -> bool {
        let is_end = task.is_end();
        {
            let mut state = self.state.lock();
            match task {
                HttpTask::Header(header, _) if header.status.is_informational() => {}
                HttpTask::Header(header, _) => {
                    state.is_closed |= !header.status.is_success();
                    state.header = Some(Arc::from(header));
                }
                HttpTask::Body(Some(part), _) if !part.is_empty() => {
                    state.body.bytes += part.len();
                    state.body.parts.push_back((part, Instant::now()));
                    state.is_closed |= state.body.bytes > self.about.limit;
                    state.drop_read(self.about.limit);
                }
                _ => {}
            }
        }
        if is_end {
            self.end(End::Complete);
        }
        is_end
    }

    /// Whether nobody reads the response any more.
    pub(super) fn is_left(&self) -> bool {
        self.state.lock().readers.places.is_empty()
    }

    /// How many bytes are kept of it.
    pub(super) fn held_bytes(&self) -> usize {
        self.state.lock().body.bytes
    }

    /// Wakes those who wait for more of it.
    pub(super) fn notify_readers(&self) {
        self.arrived.notify_waiters();
    }

    /// The call failed, or is not made.
    pub(super) fn fail(&self, failure: UpstreamFailure) {
        self.end(End::Failed(*failure.error, failure.timed_out));
    }

    fn end(&self, end: End) {
        let mut state = self.state.lock();
        if matches!(end, End::Failed(..)) {
            state.is_closed = true;
            state.discarded.get_or_insert(NotStored::Incomplete);
        }
        state.end.get_or_insert_with(|| (end, Instant::now()));
    }
}

impl State {
    fn is_open(&self) -> bool {
        !self.is_closed && !self.readers.places.is_empty()
    }

    fn is_complete(&self) -> bool {
        matches!(self.end, Some((End::Complete, _)))
    }

    /// Whether it takes no further readers, and more is kept than these bytes.
    fn is_full(&self, limit: usize) -> bool {
        self.is_closed && self.body.bytes > limit
    }

    /// Drops the parts that all readers have, where nobody else may need them and more than `limit` bytes are kept. True: something was to
    /// be dropped.
    fn drop_read(&mut self, limit: usize) -> bool {
        let drops = self.is_full(limit);
        if drops {
            self.body.drop_before(self.readers.places.values().copied().min().unwrap_or(usize::MAX));
        }
        drops
    }
}

impl ArrivedBody {
    /// Drops the parts before this one.
    fn drop_before(&mut self, first: usize) {
        while self.dropped < first {
            let Some((part, _)) = self.parts.pop_front() else { return };
            self.bytes -= part.len();
            self.dropped += 1;
        }
    }

    /// The part at this place, if it has arrived.
    fn part(&self, place: usize) -> Option<Bytes> {
        self.parts.get(place.saturating_sub(self.dropped)).map(|(part, _)| part.clone())
    }

    /// All of it, with the end of each part in bytes and milliseconds since the first one.
    fn whole(&self) -> (Bytes, Vec<(u32, u32)>) {
        let first = self.parts.front().map(|(_, at)| *at);
        let mut end = 0_u32;
        let mut body = Vec::with_capacity(self.bytes);
        let mut pace = Vec::new();
        for (part, at) in &self.parts {
            body.extend_from_slice(part);
            end = end.saturating_add(u32::try_from(part.len()).unwrap_or(u32::MAX));
            let since = first.map_or(0, |first| at.duration_since(first).as_millis());
            let since = u32::try_from(since).unwrap_or(u32::MAX);
            match pace.last_mut() {
                Some((last_end, last_since)) if *last_since == since => *last_end = end,
                _ => pace.push((end, since)),
            }
        }
        (body.into(), pace)
    }
}

impl Readers {
    fn add(&mut self) -> u32 {
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        self.places.insert(id, 0);
        id
    }

    /// See [`FlightShare::is_charged`]. `has_arrived`: all of the response is there.
    fn is_charged(&mut self, is_leader: bool, is_complete: bool, has_arrived: bool) -> bool {
        let is_last = self.places.len() <= 1;
        let pays =
            if is_complete { is_leader || self.leader_left } else { is_last || is_leader && has_arrived };
        let is_charged = pays && !self.is_charged;
        self.leader_left |= is_leader && !is_complete;
        self.is_charged |= is_charged;
        is_charged
    }
}

impl FlightReader {
    /// Whether it started the call.
    pub(crate) fn is_leader(&self) -> bool {
        self.id == 0
    }

    /// The next part. The future may be dropped while it waits.
    ///
    /// # Errors
    /// The provider's response failed.
    pub async fn next(&mut self) -> Result<HttpTask, UpstreamFailure> {
        loop {
            let flight = Arc::clone(&self.flight);
            let arrived = flight.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            if let Some(part) = self.take() {
                return part;
            }
            arrived.await;
        }
    }

    fn take(&mut self) -> Option<Result<HttpTask, UpstreamFailure>> {
        let mut state = self.flight.state.lock();
        if !self.has_header {
            if let Some(header) = &state.header {
                self.has_header = true;
                return Some(Ok(HttpTask::Header(Box::new(ResponseHeader::clone(header)), false)));
            }
        } else {
            let place = state.readers.places.get(&self.id).copied().unwrap_or_default();
            if let Some(part) = state.body.part(place) {
                state.readers.places.insert(self.id, place + 1);
                if state.drop_read(self.flight.about.limit) {
                    self.flight.taken.notify_one();
                }
                return Some(Ok(HttpTask::Body(Some(part), false)));
            }
        }
        match state.end.as_ref()? {
            (End::Complete, _) => Some(Ok(HttpTask::Done)),
            (End::Failed(error, timed_out), _) => {
                Some(Err(UpstreamFailure { error: Box::new(error.clone()), timed_out: *timed_out }))
            }
        }
    }
}

/// What the owner of a reader needs when it is done.
#[derive(Clone)]
pub(crate) struct FlightShare {
    flight: Arc<Flight>,
    is_leader: bool,
}

impl FlightReader {
    pub fn share(&self) -> FlightShare {
        FlightShare { flight: Arc::clone(&self.flight), is_leader: self.is_leader() }
    }
}

impl FlightShare {
    /// Whether it started the call.
    pub(crate) fn is_leader(&self) -> bool {
        self.is_leader
    }

    /// Whether this reader is charged for the call: exactly one is. The one that started it, unless it has left before the end of the response had
    /// arrived; then the first that gets to the end, or the last that leaves. Asked once by each reader, before it leaves.
    pub fn is_charged(&self, is_complete: bool) -> bool {
        let mut state = self.flight.state.lock();
        let has_arrived = state.is_complete();
        state.readers.is_charged(self.is_leader, is_complete, has_arrived)
    }

    /// Whether the call has left for the provider.
    pub(crate) fn is_sent(&self) -> bool {
        self.flight.sent.load(Ordering::Acquire)
    }

    /// Whether it is this call.
    pub fn is_of(&self, flight: &Arc<Flight>) -> bool {
        Arc::ptr_eq(&self.flight, flight)
    }

    /// Whether the response is to replace what is kept.
    pub(crate) fn is_refresh(&self) -> bool {
        self.flight.about.is_refresh
    }

    /// See [`Flight::close`].
    pub fn close(&self) {
        self.flight.close();
    }

    /// See [`Flight::discard`].
    pub fn discard(&self, why: NotStored) {
        self.flight.discard(why);
    }

    /// Whether all of the response has arrived.
    pub fn is_complete(&self) -> bool {
        self.flight.state.lock().is_complete()
    }

    /// Whether nobody may store the response.
    pub(crate) fn is_discarded(&self) -> bool {
        self.flight.state.lock().discarded.is_some()
    }

    /// The response, for the one that stores it. `None`: somebody else does.
    ///
    /// # Errors
    /// Nobody may store it.
    pub(crate) fn to_store(&self) -> Result<Option<WholeResponse>, NotStored> {
        let mut state = self.flight.state.lock();
        if state.body.dropped > 0 || state.body.bytes > self.flight.about.limit {
            return Err(NotStored::TooLarge);
        }
        if let Some(why) = state.discarded {
            return Err(why);
        }
        // The caller's decoder has seen the whole response: after `[DONE]` the end of the body may come late, or never.
        let Some(header) = state.header.clone().filter(|_| !state.is_stored) else { return Ok(None) };
        state.is_stored = true;
        let (body, pace) = state.body.whole();
        let age = state.end.as_ref().map_or(Duration::ZERO, |(_, at)| at.elapsed());
        Ok(Some(WholeResponse { header, body, pace, age }))
    }
}

impl Drop for FlightReader {
    fn drop(&mut self) {
        let mut state = self.flight.state.lock();
        state.readers.places.remove(&self.id);
        state.drop_read(self.flight.about.limit);
        drop(state);
        self.flight.taken.notify_one();
    }
}
