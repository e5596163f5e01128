//! The listening sockets of the process: those that it took over are put into Pingora's table before its services start, and from
//! the same table they are read for a successor.
//!
//! A Pingora service, because only services get the table. It serves nothing.

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::server::{ListenFds, ShutdownWatch};
use pingora_core::services::{ServiceReadyNotifier, ServiceWithDependents};
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};

/// What the services that listen wait for.
#[derive(Clone, Default)]
pub struct ListenerTable {
    taken_over: Arc<Mutex<Vec<(String, OwnedFd)>>>,
    table: Arc<OnceLock<ListenFds>>,
}

impl ListenerTable {
    /// Listens on these sockets, by their addresses in the settings, instead of new ones.
    pub fn take_over(&self, sockets: Vec<(String, OwnedFd)>) {
        *self.taken_over.lock() = sockets;
    }

    /// The addresses that this process listens on, and their sockets, which stay open as long as it runs.
    pub fn sockets(&self) -> Vec<(String, RawFd)> {
        let Some(table) = self.table.get() else { return Vec::new() };
        let (addresses, sockets) = table.lock().serialize();
        addresses.into_iter().zip(sockets).collect()
    }
}

#[async_trait]
impl ServiceWithDependents for ListenerTable {
    async fn start_service(
        &mut self,
        fds: Option<ListenFds>,
        _shutdown: ShutdownWatch,
        _listeners_per_fd: usize,
        ready_notifier: ServiceReadyNotifier,
    ) {
        if let Some(fds) = fds {
            for (address, socket) in self.taken_over.lock().drain(..) {
                fds.lock().add(address, socket.into_raw_fd());
            }
            let _ = self.table.set(fds);
        }
        ready_notifier.notify_ready();
    }

    fn name(&self) -> &str {
        "listeners"
    }

    fn threads(&self) -> Option<usize> {
        Some(1)
    }
}
