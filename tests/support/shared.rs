//! The one gateway most tests share: routing travels in headers, so they do not disturb one another.
//!
//! Not for tests that change settings, stop the process or read counters that other tests change: those start
//! their own.

use super::gateway::Gateway;
use super::settings::STANDARD;
use std::ops::Deref;
use std::sync::OnceLock;

/// The shared gateway. If the test holding this fails, the gateway's output is printed.
pub(crate) struct Shared(&'static Gateway);

/// The gateway with `settings::STANDARD`, started by the first test that needs it.
pub(crate) fn gateway() -> Shared {
    static GATEWAY: OnceLock<Gateway> = OnceLock::new();
    Shared(GATEWAY.get_or_init(|| Gateway::start(STANDARD)))
}

impl Deref for Shared {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        self.0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}
