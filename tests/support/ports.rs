//! Free ports for a gateway about to start.
//!
//! Not a reservation: another process may take the port before the gateway binds it; `Gateway::start` then
//! retries. The ports are below the ephemeral range, from which outgoing connections of other tests get
//! theirs.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_000;
const COUNT: u16 = 22_000;

/// Where one gateway listens, all on 127.0.0.1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) data: u16,
    pub(crate) control: u16,
    pub(crate) emulator: u16,
}

impl Ports {
    pub(crate) fn free() -> Self {
        Self { data: free(), control: free(), emulator: free() }
    }

    /// `text` with `DATA_PORT`, `CONTROL_PORT` and `EMULATOR_PORT` replaced.
    pub(crate) fn fill(&self, text: &str) -> String {
        let text = text.replace("DATA_PORT", &self.data.to_string());
        let text = text.replace("CONTROL_PORT", &self.control.to_string());
        text.replace("EMULATOR_PORT", &self.emulator.to_string())
    }
}

/// A free port on the loopback; never the same twice in this process.
pub(crate) fn free() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Concurrent test processes start at different offsets.
    let start = (std::process::id() % 1_000) as u16 * 22;
    for _ in 0..COUNT {
        let offset = (start + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT;
        let port = FIRST + offset;
        if TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}
