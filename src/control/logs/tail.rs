//! `GET /v1/logs/tail`: the requests of this gateway as they end, as server-sent events, by the filters and with the rights of a list.
//!
//! The rows are those that the ledger's own thread has made (`memory::ledger::tail`): nothing is read from the log store. The key is judged
//! again every second, and the stream ends with it, and where what it may see is not the same any more.

use super::link_maker::LinkMaker;
use super::{filter, ledger};
use crate::call::Call;
use crate::console::Person;
use crate::log_view;
use crate::reply::Reply;
use bytes::Bytes;
use futures_util::stream;
use jiff::Timestamp;
use memory::ledger::Row;
use memory::ledger::filter::Filter;
use memory::ledger::tail::TailReader;
use memory::state::snapshot::SettingsSnapshot;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};
use words::config::secret::Secret;
use words::error::Error;
use words::settings::scopes::Scope;

pub(super) const EVENTS: &str = "text/event-stream";
/// How often it is looked whether the key is still good.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Looks without an event after which a comment is sent, by which a client that has left is noticed.
const QUIET_LOOKS: u32 = 10;
/// Looks after which a stream ends, so that none is forgotten.
const MAX_LOOKS: u32 = 3600;
/// Values of a filter, which each row is compared with.
const MAX_VALUES: usize = 200;
/// Bytes of events that are sent together, about.
const PIECE_BYTES: usize = 64 << 10;

/// Why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The key's text is not good any more, or it may not list logs any more.
    Key,
    /// The session of the console that it came with is over.
    Session,
    /// The key may see other requests than when it began.
    Rights,
    /// An hour is over.
    Time,
    /// The process stops.
    Shutdown,
}

impl End {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Session => "session",
            Self::Rights => "rights",
            Self::Time => "time",
            Self::Shutdown => "shutdown",
        }
    }
}

/// What a stream began with, and which must be good until its end.
enum Credential {
    /// The text of a key or token: another one of the same name, or of the same record, does not keep it open.
    Key(Secret),
    /// A session of the console without a key.
    Person(Person),
}

/// An open stream.
struct Following {
    call: Call,
    maker: LinkMaker,
    credential: Credential,
    filter: Filter,
    reader: TailReader,
    looks: Interval,
    looked: u32,
    quiet: u32,
    /// What the client was told of rows that were left out.
    dropped: u64,
    has_begun: bool,
    is_over: bool,
}

pub(super) async fn follow(mut call: Call) -> Result<Reply, Error> {
    for name in ["weighted_feedback_min", "weighted_feedback_max"] {
        if call.query.contains_key(name) {
            let message = "A request has no feedback yet when it ends.";
            return Err(Error::invalid_request(name, message));
        }
    }
    let found = LinkMaker::of(&call).zip(Credential::of(&mut call));
    let (maker, credential) = found.ok_or_else(|| Error::forbidden("Call with a key or token."))?;
    let filter = filter(&call, &call.query)?;
    if filter.values() > MAX_VALUES {
        let message = format!("A live tail takes at most {MAX_VALUES} values in all its filters.");
        return Err(Error::bad_request(message));
    }
    let busy = "As many clients follow the log as may. Try again when one has left.";
    let reader = ledger(&call)?.tail().follow(call.own_workspace(), filter.clone());
    let reader = reader.ok_or_else(|| Error::store_unavailable(busy))?;
    call.departure = None;
    let mut looks = interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let following = Following {
        call,
        maker,
        credential,
        filter,
        reader,
        looks,
        looked: 0,
        quiet: 0,
        dropped: 0,
        has_begun: false,
        is_over: false,
    };
    let pieces = stream::unfold(following, async |mut following| {
        let piece = following.next().await?;
        Some((io::Result::Ok(Bytes::from(piece)), following))
    });
    Ok(Reply::streamed(EVENTS, pieces).with_header("cache-control", "no-store"))
}

impl Credential {
    /// What the client of a call was identified by. The call has it no more.
    fn of(call: &mut Call) -> Option<Self> {
        if let Some(person) = call.presented.person.take() {
            return Some(Self::Person(person));
        }
        let keys = std::mem::take(&mut call.presented.keys);
        keys.into_iter().map(Self::Key).find(|key| key.is_good(&call.snapshot, call.now))
    }

    fn is_good(&self, snapshot: &SettingsSnapshot, now: Timestamp) -> bool {
        match self {
            Self::Key(key) => snapshot.service_keys.identify(key.expose().as_bytes(), now).is_ok(),
            Self::Person(person) => person.identify(snapshot, now).is_ok(),
        }
    }
}

impl Following {
    /// The next events; `None` after the last one.
    async fn next(&mut self) -> Option<String> {
        if self.is_over {
            return None;
        }
        if !self.has_begun {
            self.has_begun = true;
            return Some(event("begin", &json!({})));
        }
        loop {
            tokio::select! {
                biased;
                _ = self.looks.tick() => {
                    if let Some(piece) = self.look() {
                        return Some(piece);
                    }
                }
                row = self.reader.next() => return row.map(|row| self.events(&row)),
            }
        }
    }

    /// This row and those that wait behind it, with what was left out.
    fn events(&mut self, first: &Row) -> String {
        self.quiet = 0;
        let mut text = event("log", &log_view::item(first));
        while text.len() < PIECE_BYTES
            && let Some(row) = self.reader.next_at_once()
        {
            text.push_str(&event("log", &log_view::item(&row)));
        }
        let dropped = self.reader.dropped();
        if dropped > self.dropped {
            self.dropped = dropped;
            text.push_str(&event("dropped", &json!({"total": dropped})));
        }
        text
    }

    /// Judges the key again: the last event, or a comment after a while without events.
    fn look(&mut self) -> Option<String> {
        self.looked += 1;
        self.quiet += 1;
        if let Some(end) = self.end() {
            self.is_over = true;
            return Some(event("end", &json!({"reason": end.as_str()})));
        }
        (self.quiet > QUIET_LOOKS).then(|| {
            self.quiet = 0;
            ": \n\n".to_owned()
        })
    }

    fn end(&mut self) -> Option<End> {
        let now = Timestamp::now();
        if self.call.presented.session.as_ref().is_some_and(|session| session.is_over(now)) {
            return Some(End::Session);
        }
        self.call.snapshot = self.call.shared.settings_arc();
        let living = self.maker.living(&self.call.shared, Scope::LogsList, now);
        let Some(living) = living.filter(|_| self.credential.is_good(&self.call.snapshot, now)) else {
            return Some(End::Key);
        };
        // From here on the call sees what the key may see now.
        self.call.identity = living.identity;
        match filter(&self.call, &self.call.query) {
            Ok(filter) if filter == self.filter => {}
            _ => return Some(End::Rights),
        }
        if self.call.shared.lifecycle.is_draining() {
            return Some(End::Shutdown);
        }
        (self.looked >= MAX_LOOKS).then_some(End::Time)
    }
}

/// An event; JSON has no line breaks.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
