//! Notifies systemd when the listeners accept connections, then feeds its watchdog.
//!
//! Sets readiness, too; a shutdown unsets it in `stop`. Where this process takes over from another, that one is notified first.

use crate::announcement::Announcement;
use crate::hand_over::{self, Successor};
use crate::log_queue::LogQueue;
use crate::{logging, serve};
use async_trait::async_trait;
use memory::state::Shared;
use pingora_core::server::ShutdownWatch;
use pingora_core::services::background::BackgroundService;
use sd_notify::NotifyState;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Connects to each listener until it accepts, then reports readiness.
pub struct ReadinessNotifier {
    pub shared: Arc<Shared>,
    pub listeners: Vec<SocketAddr>,
    pub announcement: Announcement,
    pub log: Arc<LogQueue>,
    /// Where this process takes over from another.
    pub successor: Option<Arc<Successor>>,
}

impl ReadinessNotifier {
    /// Has the process before stop, whose place this one takes. Without that one, nobody waits for this one either.
    fn succeed(&self, successor: &Arc<Successor>) {
        if let Err(why) = successor.serve(&self.shared) {
            logging::fatal(&why);
            std::process::exit(1);
        }
        if let Err(why) = serve::write_pid(&self.shared.settings().settings) {
            log::error!(target: "turnpike", "the process id is not written: {why}");
        }
    }

    /// Says what is served where: to people, or to the log.
    fn announce(&self) {
        if io::stderr().is_terminal() {
            self.log.push(self.announcement.for_people().into_bytes());
            return;
        }
        for line in self.announcement.lines() {
            log::info!(target: "turnpike", "{line}");
        }
    }
}

#[async_trait]
impl BackgroundService for ReadinessNotifier {
    async fn start(&self, mut shutdown: ShutdownWatch) {
        for &address in &self.listeners {
            while !accepts(address).await {
                sleep(Duration::from_millis(10)).await;
            }
        }
        // Whoever hears that this process serves may stop it at once.
        while !self.shared.lifecycle.receives_signals() {
            sleep(Duration::from_millis(1)).await;
        }
        self.shared.lifecycle.serve();
        if let Some(successor) = &self.successor {
            self.succeed(successor);
        }
        hand_over::announce_process();
        let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status("serving")]);
        log::info!(target: "turnpike", "serving on {:?}", self.listeners);
        self.announce();
        let every = sd_notify::watchdog_enabled().map(|limit| limit / 3);
        loop {
            let watchdog_tick = async {
                match every {
                    Some(every) => sleep(every).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = watchdog_tick => {
                    let _ = sd_notify::notify(&[NotifyState::Watchdog]);
                }
                // The watchdog is fed while draining too: a drain is not a hang.
                _ = shutdown.changed(), if every.is_none() => return,
            }
        }
    }
}

async fn accepts(address: SocketAddr) -> bool {
    matches!(timeout(Duration::from_secs(1), TcpStream::connect(address)).await, Ok(Ok(_)))
}
