//! Plays a body event by event, at a script's pace and with its fault.
//!
//! It does not depend on dialects. It yields to hyper between two events, so that each event is a write of
//! its own, like a real token stream.

use super::body::Disconnect;
use super::reply::{Event, Events, Part};
use super::sample_text::scramble;
use super::script::{Cuts, Fault, Script};
use bytes::{Bytes, BytesMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// How many events are sent before a fault if the script sets no `after`.
const AFTER: u64 = 5;

/// A body being played.
pub(super) struct Playback {
    events: Events,
    fault: Option<Fault>,
    after: u64,
    /// The event that `error_event` sends.
    error: Bytes,
    sent: u64,
    /// Of these, the events with content.
    contents: u64,
    /// Bytes still to be sent of a promised Content-Length.
    left: Option<u64>,
    ttft: Duration,
    gap: Duration,
    /// When the previous event was due. Pauses count from there, so that delays do not add up.
    due: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// Whether the pause before the next event is over.
    paused: bool,
}

impl Playback {
    /// `error` is the event that the fault `error_event` sends.
    pub(super) fn new(events: Events, length: Option<u64>, script: &Script, error: Bytes) -> Self {
        let events = match script.cuts {
            Some(cuts) => Box::new(Recut { events, cuts, held: BytesMut::new(), drawn: 0 }),
            None => events,
        };
        Self {
            events,
            fault: script.fault,
            after: script.after.unwrap_or(AFTER),
            error,
            sent: 0,
            contents: 0,
            left: length,
            ttft: script.ttft,
            gap: script.gap,
            due: None,
            sleep: None,
            paused: false,
        }
    }

    /// How many events with content were sent.
    pub(super) fn contents(&self) -> u64 {
        self.contents
    }

    /// Bytes still to be sent, if known.
    pub(super) fn left(&self) -> Option<u64> {
        self.left
    }

    /// The next chunk of the body; `Disconnect` if the connection is to be dropped.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Disconnect>>> {
        ready!(self.poll_delay(cx));
        let struck = self.sent == self.after;
        match self.fault {
            Some(Fault::Cut | Fault::Truncate) if struck => return Poll::Ready(Some(Err(Disconnect))),
            // No waker is registered: only a client disconnect ends this.
            Some(Fault::Stall) if struck => return Poll::Pending,
            Some(Fault::ErrorEvent) if self.sent > self.after => return Poll::Ready(None),
            _ => {}
        }
        let Some(event) = self.next_event() else {
            // The stream was shorter than `after`: the requested fault happens at its end instead.
            return match self.fault {
                Some(Fault::Cut | Fault::Truncate) => Poll::Ready(Some(Err(Disconnect))),
                Some(Fault::Stall) => Poll::Pending,
                _ => Poll::Ready(None),
            };
        };
        self.paused = false;
        self.sent += 1;
        self.contents += u64::from(event.part == Part::Content);
        let bytes = match self.fault {
            Some(Fault::Malformed) if struck => broken(&event.bytes),
            Some(Fault::ErrorEvent) if struck => self.error.clone(),
            _ => event.bytes,
        };
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(Some(Ok(bytes)))
    }

    fn next_event(&mut self) -> Option<Event> {
        let fault = self.fault;
        self.events.find(|event| match event.part {
            Part::Done => fault != Some(Fault::NoDone),
            Part::Finish => fault != Some(Fault::NoFinish),
            Part::Content => true,
        })
    }

    fn poll_delay(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.paused {
            return Poll::Ready(());
        }
        if let Some(sleep) = &mut self.sleep {
            ready!(sleep.as_mut().poll(cx));
            self.sleep = None;
            self.paused = true;
            return Poll::Ready(());
        }
        let pause = if self.sent == 0 { self.ttft } else { self.gap };
        if !pause.is_zero() {
            let due = self.due.unwrap_or_else(Instant::now) + pause;
            self.due = Some(due);
            self.sleep = Some(Box::pin(sleep_until(due)));
            return self.poll_delay(cx);
        }
        self.paused = true;
        // The first event is sent with the headers, unless a fault comes first: then the headers must be sent
        // before it.
        if self.sent == 0 && self.after > 0 {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The event with its JSON truncated by a quarter; the SSE framing stays intact.
fn broken(event: &Bytes) -> Bytes {
    let (json, end) = match event.strip_suffix(b"\n\n") {
        Some(json) => (json, &b"\n\n"[..]),
        None => (&event[..], &b""[..]),
    };
    let mut out = BytesMut::from(json.get(..json.len() - json.len() / 4).unwrap_or_default());
    out.extend_from_slice(end);
    out.freeze()
}

/// The same bytes in other chunks.
struct Recut {
    events: Events,
    cuts: Cuts,
    held: BytesMut,
    drawn: u64,
}

impl Iterator for Recut {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let size = match self.cuts {
            Cuts::Every(size) => size,
            Cuts::Seeded(seed) => {
                self.drawn += 1;
                1 + (scramble(seed.wrapping_add(scramble(self.drawn))) % 64) as usize
            }
        };
        while self.held.len() < size
            && let Some(event) = self.events.next()
        {
            self.held.extend_from_slice(&event.bytes);
        }
        let size = size.min(self.held.len());
        (size > 0).then(|| Event::raw(self.held.split_to(size).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Plays to the end; returns the chunks and how it ended.
    fn play(script: &str, events: u64) -> (Vec<String>, &'static str) {
        let script = Script::parse(script).unwrap();
        let events = (0..events).map(|n| Event::data(Part::Content, format!("{{\"number\":{n}}}")));
        let ends = [Event::data(Part::Finish, "{\"finish\":true}"), Event::done()];
        let mut playback =
            Playback::new(Box::new(events.chain(ends)), None, &script, Bytes::from_static(b"ERROR"));
        let mut cx = Context::from_waker(Waker::noop());
        let mut chunks = Vec::new();
        let mut idle = 0;
        loop {
            match playback.poll_next(&mut cx) {
                Poll::Ready(Some(Ok(bytes))) => {
                    chunks.push(String::from_utf8_lossy(&bytes).into_owned());
                    idle = 0;
                }
                Poll::Ready(Some(Err(Disconnect))) => return (chunks, "disconnect"),
                Poll::Ready(None) => return (chunks, "end"),
                Poll::Pending if idle == 100 => return (chunks, "idle"),
                Poll::Pending => idle += 1,
            }
        }
    }

    #[test]
    fn faults_occur_at_the_scripted_event() {
        for (script, chunks, end) in [
            ("", 12, "end"),
            ("fault=cut&after=3", 3, "disconnect"),
            ("fault=cut&after=99", 12, "disconnect"),
            ("fault=stall&after=0", 0, "idle"),
            ("fault=stall&after=99", 12, "idle"),
            ("fault=no_done", 11, "end"),
            ("fault=no_finish", 11, "end"),
            ("fault=malformed&after=1", 12, "end"),
            ("fault=error_event&after=4", 5, "end"),
        ] {
            let played = play(script, 10);
            assert_eq!((played.0.len(), played.1), (chunks, end), "{script}");
        }
    }

    #[test]
    fn broken_events_keep_their_frame() {
        let (chunks, _) = play("fault=malformed&after=1", 2);
        assert_eq!(chunks[0], "data: {\"number\":0}\n\n");
        assert_eq!(
            chunks[1],
            "data: {\"numb\n\n".replace("numb", "number"),
            "a quarter of 18 bytes is cut off"
        );
        assert_eq!(play("fault=error_event&after=1", 2).0[1], "ERROR");
    }

    #[test]
    fn cuts_change_no_byte() {
        let whole = play("", 50).0.concat();
        for script in ["chunk=1", "chunk=7", "chunk=100000", "cuts=1", "cuts=2"] {
            assert_eq!(play(script, 50).0.concat(), whole, "{script}");
        }
        assert_eq!(play("cuts=7", 50), play("cuts=7", 50));
        assert_ne!(play("cuts=7", 50), play("cuts=8", 50));
    }
}
