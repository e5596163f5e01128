//! The one gateway most tests share: routing travels in headers, so they do not disturb one another.
//!
//! Not for tests that change settings, stop the process or count what others count too: those start their own.

use super::gateway::Gateway;
use super::settings::STANDARD;
use std::ops::Deref;
use std::sync::OnceLock;

/// The shared gateway; when the test that holds this fails, what the gateway wrote is printed with it.
pub(crate) struct Shared(&'static Gateway);

/// The gateway with `settings::STANDARD`, started by the first test that asks.
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
