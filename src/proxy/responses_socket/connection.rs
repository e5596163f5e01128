//! The life of one websocket: reads its frames, runs one event after the other, writes the messages of their responses, and watches
//! the time.
//!
//! How an event is run is `turn`, how a response is written `answer`.

use super::super::Gateway;
use super::super::downstream::PingoraDownstream;
use super::answer::Answer;
use super::frames::{Frames, Goodbye, Received};
use super::handshake::Handshake;
use super::turn::{self, TurnCall, TurnEnd};
use bytes::Bytes;
use memory::state::held_bytes::Hold;
use motion::engine::body_pace::BodyPace;
use motion::engine::downstream::Downstream;
use motion::engine::request_context::RequestContext;
use pingora_core::protocols::http::HttpTask;
use std::collections::VecDeque;
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};
use words::api::Dialect;
use words::api::error_body::ErrorView;
use words::api::responses::socket::{Conversation, connection_limit, error_event, is_acknowledgement};
use words::error::Error;

/// The most bytes that a message may have besides its text: those of the headers of its frames.
const MAX_FRAMING: usize = 64 << 10;
/// How long a connection lasts at OpenAI (guide "WebSocket mode", connection behavior).
const MAX_AGE: Duration = Duration::from_secs(60 * MAX_AGE_MINUTES);
const MAX_AGE_MINUTES: u64 = 60;
/// The most events that wait for the one that is run.
const MAX_WAITING: usize = 4;
/// The most parts of a response that wait to be written.
const MAX_PARTS: usize = 64;
/// How long a client may take to close its side.
const FAREWELL: Duration = Duration::from_secs(1);
/// An acknowledgement is shorter.
const MAX_ACKNOWLEDGEMENT: usize = 1024;

pub(super) struct Connection<'a, 's> {
    gateway: &'a Gateway,
    downstream: PingoraDownstream<'s>,
    /// Of the handshake: it records the connection as a whole.
    ctx: &'a mut RequestContext,
    handshake: Arc<Handshake>,
    frames: Frames,
    arriving: Arriving,
    waiting: Waiting,
    running: Option<Running>,
    /// How many events were run.
    count: u64,
    last: LastResponse,
    clock: Clock,
    /// The longest message, and the most bytes of a conversation.
    limit: usize,
}

/// A message of which only a part has arrived.
struct Arriving {
    bytes: usize,
    hold: Hold,
    /// Since there is one.
    pace: Option<BodyPace>,
}

/// Events that were received while another one is run.
struct Waiting {
    events: VecDeque<Bytes>,
    hold: Hold,
}

/// The last response that came to its end.
struct LastResponse {
    conversation: Option<Arc<Conversation>>,
    hold: Hold,
}

struct Clock {
    opened: Instant,
    /// When the client last sent anything.
    last_sign: Instant,
    has_pinged: bool,
    /// How long a client may be silent that is sent a ping.
    idle: Duration,
}

/// An event that is run.
struct Running {
    turn: Pin<Box<dyn Future<Output = TurnEnd> + Send>>,
    parts: mpsc::Receiver<HttpTask>,
    leaves: watch::Sender<bool>,
    answer: Answer,
    hold: Hold,
}

enum Woken {
    /// Bytes of the client; `None`: it has left.
    Read(Option<Bytes>),
    Part(HttpTask),
    Ended(TurnEnd),
    Drained,
    Due,
}

enum Ending {
    /// The client has left.
    Left,
    Closed(Goodbye),
}

impl<'a, 's> Connection<'a, 's> {
    pub fn new(
        gateway: &'a Gateway,
        downstream: PingoraDownstream<'s>,
        ctx: &'a mut RequestContext,
        handshake: Handshake,
    ) -> Self {
        let limits = &ctx.snapshot.settings.limits;
        let limit = limits.max_body_bytes;
        let now = Instant::now();
        let clock = Clock { opened: now, last_sign: now, has_pinged: false, idle: limits.idle_timeout };
        let hold = || ctx.load.held.another();
        Self {
            gateway,
            downstream,
            handshake: Arc::new(handshake),
            frames: Frames::new(limit),
            arriving: Arriving { bytes: 0, hold: hold(), pace: None },
            waiting: Waiting { events: VecDeque::new(), hold: hold() },
            running: None,
            count: 0,
            last: LastResponse { conversation: None, hold: hold() },
            clock,
            limit,
            ctx,
        }
    }

    /// Serves the client until it leaves, or has to.
    pub async fn serve(mut self) {
        let ending = loop {
            let woken = self.wait().await;
            let ending = self.take(woken);
            let written = self.write().await;
            match ending {
                Some(ending) => break ending,
                None if written.is_err() => break Ending::Left,
                None => {}
            }
        };
        self.stop_turn().await;
        if let Ending::Closed(why) = ending {
            self.frames.close(why);
            if self.write().await.is_ok() {
                // Closing with unread bytes would reset the connection, and the client could lose why.
                let downstream = &mut self.downstream;
                let rest = async { while let Ok(Some(_)) = downstream.next_chunk().await {} };
                let _ = timeout(FAREWELL, rest).await;
            }
        }
    }

    async fn wait(&mut self) -> Woken {
        let due = self.due();
        let is_idle = self.running.is_none();
        let lifecycle = &self.gateway.engine.shared.lifecycle;
        tokio::select! {
            chunk = self.downstream.next_chunk() => Woken::Read(chunk.ok().flatten()),
            woken = step(&mut self.running) => woken,
            () = lifecycle.drained(), if is_idle => Woken::Drained,
            () = sleep_until(due.into()) => Woken::Due,
        }
    }

    fn take(&mut self, woken: Woken) -> Option<Ending> {
        match woken {
            Woken::Read(None) => Some(Ending::Left),
            Woken::Read(Some(chunk)) => self.received(&chunk),
            Woken::Part(part) => {
                if let Some(running) = &mut self.running {
                    running.answer.push(part, &mut self.frames);
                    running.take_parts(&mut self.frames);
                    running.count_bytes();
                }
                None
            }
            Woken::Ended(end) => {
                self.finish_turn(end);
                None
            }
            Woken::Drained => Some(Ending::Closed(Goodbye::Away)),
            Woken::Due => self.check_time(Instant::now()),
        }
    }

    /// Sends what there is to send.
    async fn write(&mut self) -> Result<(), Error> {
        let output = self.frames.take_output();
        if output.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        self.ctx.record.traffic.bytes_out += output.len() as u64;
        self.downstream.send(vec![HttpTask::UpgradedBody(Some(output), false)]).await?;
        if began.elapsed() > FAREWELL {
            // It took its time, but it reads.
            self.clock.note_sign();
        }
        Ok(())
    }

    fn received(&mut self, chunk: &Bytes) -> Option<Ending> {
        self.clock.note_sign();
        self.ctx.record.traffic.bytes_in += chunk.len() as u64;
        self.arriving.bytes += chunk.len();
        if self.arriving.hold.set(self.arriving.bytes).is_err() {
            return Some(Ending::Closed(Goodbye::TryLater));
        }
        self.frames.push(chunk);
        while let Some(received) = self.frames.next() {
            match received {
                Received::Text(text) => {
                    self.arriving.end();
                    self.message(text);
                }
                Received::Sign(length) => self.arriving.bytes = self.arriving.bytes.saturating_sub(length),
                Received::End(None) => return Some(Ending::Left),
                Received::End(Some(why)) => return Some(Ending::Closed(why)),
            }
        }
        // Frames without a payload make a message longer, too.
        if self.arriving.bytes > self.limit.saturating_add(MAX_FRAMING) {
            return Some(Ending::Closed(Goodbye::TooLarge));
        }
        if self.arriving.bytes == 0 {
            self.arriving.end();
        } else if self.arriving.pace.is_none() {
            self.arriving.pace = Some(BodyPace::new(Instant::now(), &self.ctx.snapshot.settings.limits));
        }
        None
    }

    /// Runs the event, or lets it wait: one response is made at a time.
    fn message(&mut self, text: Bytes) {
        if text.len() <= MAX_ACKNOWLEDGEMENT && is_acknowledgement(&text) {
            return;
        }
        if self.running.is_none() {
            return self.begin(text);
        }
        let waiting = &mut self.waiting;
        let held = if waiting.events.len() == MAX_WAITING {
            let message =
                format!("{MAX_WAITING} events wait already. Send the next one when a response has ended.");
            Err(Error::bad_request(message))
        } else {
            waiting.hold.set(waiting.size() + text.len())
        };
        match held {
            Ok(()) => waiting.events.push_back(text),
            Err(error) => {
                let body = ErrorView::from(&error).body(Dialect::OpenAi);
                self.frames.text(error_event(error.status(), &body, std::iter::empty()));
            }
        }
    }

    fn begin(&mut self, event: Bytes) {
        self.count += 1;
        let (parts, receiver) = mpsc::channel(MAX_PARTS);
        let (leaves, left) = watch::channel(false);
        let call = TurnCall {
            gateway: self.gateway.clone(),
            handshake: Arc::clone(&self.handshake),
            number: self.count,
            event,
            last: self.last.conversation.clone(),
            parts,
            leaves: left,
        };
        self.running = Some(Running {
            turn: Box::pin(turn::run(call)),
            parts: receiver,
            leaves,
            answer: Answer::new(self.limit),
            hold: self.last.hold.another(),
        });
    }

    /// Sends the end of the response, remembers it, and begins with the event that waits.
    fn finish_turn(&mut self, end: TurnEnd) {
        let Some(mut running) = self.running.take() else { return };
        running.take_parts(&mut self.frames);
        let TurnEnd { items, hold, is_translated, failure } = end;
        running.answer.end(failure, &mut self.frames);
        let is_whole = items.is_some();
        let ended = running.answer.reader.conversation(items.unwrap_or_default(), is_translated);
        // They were held until here, and are held as a conversation now.
        drop((hold, running.hold));
        if let Some(ended) = ended {
            let ended = if is_whole { ended } else { ended.without_items() };
            let held = self.last.hold.set(ended.size());
            self.last.conversation = held.is_ok().then(|| Arc::new(ended));
        }
        let is_last =
            self.clock.is_over(Instant::now()) || self.gateway.engine.shared.lifecycle.is_draining();
        if !is_last && let Some(event) = self.waiting.next() {
            self.begin(event);
        }
    }

    /// Ends the response that nobody reads any more.
    async fn stop_turn(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.leaves.send(true);
            running.parts.close();
            running.turn.await;
        }
    }

    /// When there is something to do if nothing happens.
    fn due(&self) -> Instant {
        let age = self.running.is_none().then(|| self.clock.opened + MAX_AGE);
        let message = self.arriving.pace.as_ref().map(|pace| pace.deadline(self.arriving.bytes));
        [age, message].into_iter().flatten().fold(self.clock.due(), Instant::min)
    }

    fn check_time(&mut self, now: Instant) -> Option<Ending> {
        let Arriving { bytes, pace, .. } = &self.arriving;
        if pace.as_ref().is_some_and(|pace| now >= pace.deadline(*bytes)) {
            return Some(Ending::Closed(Goodbye::TooSlow));
        }
        if self.running.is_none() && self.clock.is_over(now) {
            self.frames.text(connection_limit(MAX_AGE_MINUTES));
            return Some(Ending::Closed(Goodbye::Done));
        }
        if now < self.clock.due() {
            return None;
        }
        if self.clock.has_pinged {
            return Some(Ending::Left);
        }
        self.frames.ping();
        self.clock.has_pinged = true;
        None
    }
}

impl Arriving {
    fn end(&mut self) {
        self.bytes = 0;
        self.pace = None;
        // Nothing can always be held.
        let _ = self.hold.set(0);
    }
}

impl Waiting {
    fn size(&self) -> usize {
        self.events.iter().map(Bytes::len).sum()
    }

    fn next(&mut self) -> Option<Bytes> {
        let event = self.events.pop_front();
        // Fewer bytes than before can always be held.
        let _ = self.hold.set(self.size());
        event
    }
}

impl Clock {
    fn note_sign(&mut self) {
        self.last_sign = Instant::now();
        self.has_pinged = false;
    }

    /// When the client gets a ping, or was silent for too long.
    fn due(&self) -> Instant {
        self.last_sign + if self.has_pinged { self.idle } else { self.idle / 2 }
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.opened + MAX_AGE
    }
}

impl Running {
    /// Counts what is remembered of the response, or remembers nothing where there is no memory.
    fn count_bytes(&mut self) {
        let size = self.answer.size();
        if self.hold.set(size).is_err() {
            self.answer.reader.forget();
            self.hold.set_anyway(self.answer.size());
        }
    }

    /// Takes the parts that are there, so that they are written together.
    fn take_parts(&mut self, frames: &mut Frames) {
        while let Ok(part) = self.parts.try_recv() {
            self.answer.push(part, frames);
        }
    }
}

/// Runs the event until there is something to do for it; for ever where there is none.
async fn step(running: &mut Option<Running>) -> Woken {
    let Some(Running { turn, parts, .. }) = running else { return pending().await };
    tokio::select! {
        biased;
        Some(part) = parts.recv() => Woken::Part(part),
        end = turn => Woken::Ended(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_client_gets_one_ping_and_a_connection_has_its_age() {
        let now = Instant::now();
        let mut clock =
            Clock { opened: now, last_sign: now, has_pinged: false, idle: Duration::from_secs(10) };
        assert_eq!(clock.due(), now + Duration::from_secs(5));
        clock.has_pinged = true;
        assert_eq!(clock.due(), now + Duration::from_secs(10));
        clock.note_sign();
        assert!(!clock.has_pinged);
        assert!(
            !clock.is_over(now + Duration::from_secs(3599)) && clock.is_over(now + Duration::from_secs(3600))
        );
    }
}
