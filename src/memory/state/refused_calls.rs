//! How many refused calls of each client are written down in a minute, and how many were left out.
//!
//! For the audit log, which is kept for a year: a client that is known, and may not do what it asks for, must not fill it. Time is an
//! argument.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
/// Clients that are counted on their own. Those beyond are counted together.
const MAX_CLIENTS: usize = 10_000;

/// The refused calls of the present minute, by client.
#[derive(Debug)]
pub struct RefusedCalls {
    max: u32,
    clients: Mutex<HashMap<String, Minute>>,
}

#[derive(Debug, Clone, Copy)]
struct Minute {
    begin: Instant,
    count: u32,
    /// Calls since the last one that was written.
    left_out: u64,
}

/// What becomes of a refused call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// It is written, with the number of those before it that were not.
    Written { left_out: u64 },
    LeftOut {
        /// The first one of its minute.
        is_first: bool,
    },
}

impl RefusedCalls {
    /// `max`: calls of one client that are written in a minute.
    pub fn new(max: u32) -> Self {
        Self { max, clients: Mutex::default() }
    }

    /// Counts a refused call of this client.
    pub fn note(&self, client: &str, now: Instant) -> Noted {
        let is_over = |minute: &Minute| now.saturating_duration_since(minute.begin) >= MINUTE;
        let mut clients = self.clients.lock();
        if clients.len() >= MAX_CLIENTS && !clients.contains_key(client) {
            clients.retain(|_, minute| !is_over(minute));
        }
        let has_room = clients.len() < MAX_CLIENTS || clients.contains_key(client);
        let name = if has_room { client } else { "" };
        let minute = clients.entry(name.to_owned()).or_insert(Minute { begin: now, count: 0, left_out: 0 });
        if is_over(minute) {
            *minute = Minute { begin: now, count: 0, left_out: minute.left_out };
        }
        minute.count = minute.count.saturating_add(1);
        if minute.count <= self.max {
            return Noted::Written { left_out: std::mem::take(&mut minute.left_out) };
        }
        minute.left_out = minute.left_out.saturating_add(1);
        Noted::LeftOut { is_first: minute.count == self.max.saturating_add(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_minute_and_what_was_left_out_is_counted() {
        let calls = RefusedCalls::new(2);
        let now = Instant::now();
        let at = |client: &str, seconds| calls.note(client, now + Duration::from_secs(seconds));
        assert_eq!(at("a", 0), Noted::Written { left_out: 0 });
        assert_eq!(at("a", 1), Noted::Written { left_out: 0 });
        assert_eq!(at("a", 2), Noted::LeftOut { is_first: true });
        assert_eq!(at("b", 2), Noted::Written { left_out: 0 });
        assert_eq!(at("a", 59), Noted::LeftOut { is_first: false });
        assert_eq!(at("a", 60), Noted::Written { left_out: 2 });
        assert_eq!(at("a", 61), Noted::Written { left_out: 0 });
    }

    #[test]
    fn the_number_of_clients_is_bounded() {
        let calls = RefusedCalls::new(1);
        let now = Instant::now();
        for client in 0..MAX_CLIENTS + 500 {
            calls.note(&client.to_string(), now);
        }
        assert!(calls.clients.lock().len() <= MAX_CLIENTS + 1);
        calls.note("later", now + MINUTE);
        assert_eq!(calls.clients.lock().len(), 1);
    }
}
