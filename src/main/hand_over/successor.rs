//! The side of the process that takes over: its standard input is the socket to the process that serves.
//!
//! Nothing is taken before everything else that a start needs has succeeded.

use super::channel::{Channel, Message};
use crate::logging;
use crate::runtime_files::RuntimeFiles;
use memory::state::Shared;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// How long the predecessor may take to send its listeners.
const LISTENERS_TIMEOUT: Duration = Duration::from_secs(20);

/// The connection to the predecessor.
pub struct Successor {
    channel: Mutex<Channel>,
    /// Whether the predecessor has not ended yet.
    predecessor_lives: AtomicBool,
    /// It serves until this process does.
    predecessor: OnceLock<Pid>,
}

impl Successor {
    /// # Errors
    /// No process has started this one as its successor.
    fn connect() -> Result<Self, String> {
        let alone = || {
            "run --upgrade is how a running process starts its successor: use `turnpike upgrade` instead"
                .to_owned()
        };
        let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(|_| alone())?;
        rustix::net::sockopt::socket_domain(&socket).map_err(|_| alone())?;
        let channel = Channel::new(UnixStream::from(socket)).map_err(|_| alone())?;
        Ok(Self {
            channel: Mutex::new(channel),
            predecessor_lives: AtomicBool::new(true),
            predecessor: OnceLock::new(),
        })
    }

    /// As [`Successor::connect`], and says which process this is: from here on the predecessor can end it.
    ///
    /// # Errors
    /// No process has started this one as its successor, or it has ended.
    pub fn start() -> Result<Self, String> {
        let successor = Self::connect()?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let process = i32::try_from(std::process::id()).unwrap_or_default();
        let sent = successor.channel.lock().send(&Message::Started { version, process });
        sent.map_err(|why| format!("the process that serves is gone: {why}"))?;
        Ok(successor)
    }

    /// Says why this process cannot serve. The predecessor goes on.
    pub fn fail(&self, why: &str) {
        let _ = self.channel.lock().send(&Message::Failed { why: why.to_owned() });
    }

    /// Takes what the predecessor has learned, and its listeners. Returns them by their addresses.
    ///
    /// # Errors
    /// The predecessor has ended, or does not hand over.
    pub fn take_over(&self, shared: &Shared) -> Result<Vec<(String, OwnedFd)>, String> {
        let ended = |why: std::io::Error| format!("the process that serves did not hand over: {why}");
        let mut channel = self.channel.lock();
        channel.send(&Message::Ready).map_err(ended)?;
        let message = channel.receive(Some(LISTENERS_TIMEOUT)).map_err(ended)?;
        let Message::Listeners { addresses, process, learned } = message else {
            return Err(format!(
                "the process that serves sent something else than its listeners: {message:?}"
            ));
        };
        if let Some(predecessor) = Pid::from_raw(process) {
            let _ = self.predecessor.set(predecessor);
        }
        let mut sockets = Vec::with_capacity(addresses.len());
        for address in addresses {
            sockets.push((address, channel.receive_socket().map_err(ended)?));
        }
        shared.take_over(learned, Instant::now());
        if let Message::Metrics { page, in_flight } =
            channel.receive(Some(LISTENERS_TIMEOUT)).map_err(ended)?
        {
            shared.metrics.inherit(&page, in_flight);
        }
        Ok(sockets)
    }

    /// Has the predecessor stop as this process does: the requests that it still has get the grace period, and no longer one.
    pub fn stop_predecessor(&self) {
        if self.has_predecessor()
            && let Some(predecessor) = self.predecessor.get()
        {
            let _ = kill_process(*predecessor, Signal::TERM);
        }
    }

    /// Whether the predecessor still sends what it counts.
    pub fn has_predecessor(&self) -> bool {
        self.predecessor_lives.load(Ordering::Acquire)
    }

    /// This process accepts connections: the predecessor may stop. From here on its metrics are added to this process's.
    ///
    /// # Errors
    /// The predecessor has ended, and whoever started it starts another process.
    pub fn serve(self: &Arc<Self>, shared: &Arc<Shared>) -> Result<(), String> {
        let sent = self.channel.lock().send(&Message::Serving);
        sent.map_err(|why| format!("the process that served is gone: {why}"))?;
        let successor = Arc::clone(self);
        let shared = Arc::clone(shared);
        let add = move || {
            let mut channel = successor.channel.lock();
            while let Ok(message) = channel.receive(None) {
                if let Message::Metrics { page, in_flight } = message {
                    shared.metrics.inherit(&page, in_flight);
                }
            }
            shared.metrics.set_predecessor_in_flight(0);
            successor.predecessor_lives.store(false, Ordering::Release);
        };
        if let Err(why) = std::thread::Builder::new().name("hand-over".to_owned()).spawn(add) {
            log::warn!(target: "turnpike", "what the process before still counts is not in the metrics: no thread: {why}");
            self.predecessor_lives.store(false, Ordering::Release);
        }
        Ok(())
    }
}

/// What the first process of a new binary does: starts the successor, and ends. The successor is then a child of the system's first process,
/// as a service is: systemd waits at a stop only for main processes that are children of its own.
pub fn start_detached(file: &Path) -> ExitCode {
    let started = Successor::connect().and_then(|_| {
        let own = std::env::current_exe().map_err(|why| format!("this binary's own path: {why}"))?;
        let mut command = Command::new(own);
        command.arg("run").arg("--upgrade").arg("--detached").arg("-c").arg(file);
        command.stdin(Stdio::inherit()).spawn().map_err(|why| format!("the successor: {why}"))
    });
    match started {
        Ok(_) => ExitCode::SUCCESS,
        Err(why) => logging::fatal(&why),
    }
}

/// Says where commands find this process.
pub fn announce_process() {
    if let Some(files) = RuntimeFiles::of_this_process()
        && let Err(why) = files.set_own_process()
    {
        log::warn!(target: "turnpike", "the id of this process is not in {}: {why}", files.folder().display());
    }
}
