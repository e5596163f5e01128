//! The side of the process that serves: starts its successor, hands over, and then reports what it still counts.
//!
//! Blocking: it runs on threads of its own. Does not stop this process, and says nothing to systemd: that is `stop`'s.

use super::channel::{Channel, Message};
use super::listener_table::ListenerTable;
use crate::runtime_files::{Request, RuntimeFiles};
use jiff::Timestamp;
use memory::limits::Limits;
use memory::state::Shared;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the first process of a new binary may take: it does nothing but start the successor.
const FIRST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a successor may take to check everything and to open the store: it may have to bring the tables up to date.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it may then take to accept connections.
const SERVING_TIMEOUT: Duration = Duration::from_secs(20);
/// How often the metrics of what is left are sent.
const METRICS_INTERVAL: Duration = Duration::from_secs(1);

/// The longest page of metrics that is sent, bytes.
const MAX_PAGE: usize = 16 << 20;

/// What hands over.
pub struct Predecessor {
    shared: Arc<Shared>,
    limits: Arc<Limits>,
    listeners: ListenerTable,
    /// The settings file, as this process was given it.
    file: PathBuf,
    /// Where this binary was when it was started: a package may have put another one there since.
    program: PathBuf,
    files: Option<RuntimeFiles>,
    /// The one that is starting.
    starting: Mutex<Starting>,
    /// The one that serves.
    successor: OnceLock<Mutex<Channel>>,
}

/// The successor that is starting.
#[derive(Default)]
enum Starting {
    #[default]
    No,
    Process(Pid),
    /// This process is to stop: there is to be none.
    GivenUp,
}

impl Starting {
    /// `false`: it is not to start.
    fn begin(&mut self, successor: Pid) -> bool {
        if matches!(self, Self::GivenUp) {
            return false;
        }
        *self = Self::Process(successor);
        true
    }

    /// It serves, or has ended. `false`: it was given up meanwhile.
    fn end(&mut self) -> bool {
        if matches!(self, Self::GivenUp) {
            return false;
        }
        *self = Self::No;
        true
    }
}

impl Predecessor {
    /// # Errors
    /// It is not clear where this binary is.
    pub fn new(
        file: &Path,
        shared: &Arc<Shared>,
        limits: &Arc<Limits>,
        listeners: ListenerTable,
    ) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|why| format!("this binary's own path: {why}"))?;
        Ok(Self {
            shared: Arc::clone(shared),
            limits: Arc::clone(limits),
            listeners,
            file: file.to_owned(),
            program,
            files: RuntimeFiles::of_this_process(),
            starting: Mutex::default(),
            successor: OnceLock::new(),
        })
    }

    /// Whether another process has taken over.
    pub fn has_handed_over(&self) -> bool {
        self.successor.get().is_some()
    }

    /// Starts the successor and hands over. Returns its process id; it serves then.
    ///
    /// # Errors
    /// Why this process goes on instead. The successor has been ended.
    pub fn hand_over(&self) -> Result<u32, String> {
        let program = self.files.as_ref().and_then(RuntimeFiles::take_program);
        let program = program.unwrap_or_else(|| self.program.clone());
        let problem = |why: String| format!("{}: {why}", program.display());
        let mut channel = self.start(&program).map_err(problem)?;
        let process = match answer(&mut channel, FIRST_TIMEOUT).map_err(problem)? {
            Message::Started { version, process } => {
                log::info!(target: "turnpike", "version {version} starts as process {process}");
                process
            }
            other => return Err(problem(unexpected(&other))),
        };
        let successor = Pid::from_raw(process).ok_or_else(|| problem("it has no process id".to_owned()))?;
        let outcome = match self.starting.lock().begin(successor) {
            true => self.lead(&mut channel),
            false => Err("this process is to stop".to_owned()),
        };
        if outcome.is_ok() && !self.starting.lock().end() {
            // Whoever has given it up has ended it.
            return Err(problem("this process is to stop".to_owned()));
        }
        match outcome {
            Ok(()) => {
                let _ = self.successor.set(Mutex::new(channel));
                Ok(process.unsigned_abs())
            }
            Err(why) => {
                self.starting.lock().end();
                let _ = kill_process(successor, Signal::KILL);
                Err(problem(why))
            }
        }
    }

    /// Starts the first process of the new binary, which starts the successor and ends.
    fn start(&self, program: &Path) -> Result<Channel, String> {
        let problem = |why: std::io::Error| {
            format!("{why}. The service must be able to see the file and to execute it")
        };
        let (own, others) = UnixStream::pair().map_err(problem)?;
        let mut command = Command::new(program);
        command.arg("run").arg("--upgrade").arg("-c").arg(&self.file);
        // systemd watches the main process, which it is not yet.
        command.env_remove("WATCHDOG_PID").stdin(Stdio::from(OwnedFd::from(others)));
        let mut first = command.spawn().map_err(problem)?;
        // It keeps the other end open.
        drop(command);
        let mut channel = Channel::new(own).map_err(problem)?;
        let deadline = Instant::now() + FIRST_TIMEOUT;
        loop {
            match first.try_wait().map_err(problem)? {
                Some(status) if status.success() => return Ok(channel),
                Some(status) => {
                    let why = answer(&mut channel, FIRST_TIMEOUT).err().unwrap_or_default();
                    return Err(format!("{why} ({status})"));
                }
                None if Instant::now() >= deadline => {
                    let _ = first.kill();
                    let _ = first.wait();
                    return Err("it is no version of turnpike that can take over".to_owned());
                }
                None => sleep(Duration::from_millis(2)),
            }
        }
    }

    /// From the successor's start until it serves.
    fn lead(&self, channel: &mut Channel) -> Result<(), String> {
        match answer(channel, READY_TIMEOUT)? {
            Message::Ready => {}
            other => return Err(unexpected(&other)),
        }
        let sockets = self.listeners.sockets();
        let addresses = sockets.iter().map(|(address, _)| address.clone()).collect();
        let learned = self.shared.hand_over(Instant::now());
        let process = i32::try_from(std::process::id()).unwrap_or_default();
        let ended = |why: std::io::Error| format!("it did not take the listeners: {why}");
        channel.send(&Message::Listeners { addresses, process, learned }).map_err(ended)?;
        for (_, socket) in sockets {
            channel.send_socket(socket).map_err(ended)?;
        }
        self.send_metrics(channel).map_err(ended)?;
        match answer(channel, SERVING_TIMEOUT)? {
            Message::Serving => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends a successor that is starting: this process is to stop, and not to be followed.
    pub fn give_up(&self) {
        if let Starting::Process(successor) = std::mem::replace(&mut *self.starting.lock(), Starting::GivenUp)
        {
            let _ = kill_process(successor, Signal::KILL);
        }
    }

    /// Leaves the outcome for the command that waits for it.
    pub fn report(&self, outcome: &Result<u32, String>) {
        if let Some(files) = &self.files {
            files.leave_outcome(
                Request::Upgrade,
                &outcome.as_ref().map(ToString::to_string).map_err(Clone::clone),
            );
        }
    }

    /// Sends the successor what this process counts until it ends.
    pub fn report_metrics_while_draining(self: &Arc<Self>) {
        let predecessor = Arc::clone(self);
        let report = move || {
            while predecessor.send_last_metrics() {
                sleep(METRICS_INTERVAL);
            }
        };
        if let Err(why) = std::thread::Builder::new().name("hand-over".to_owned()).spawn(report) {
            log::warn!(target: "turnpike", "metrics of the drain are sent at its end only: no thread: {why}");
        }
    }

    /// Sends the metrics as they are now. `false`: there is no successor that takes them.
    pub fn send_last_metrics(&self) -> bool {
        self.successor.get().is_some_and(|channel| self.send_metrics(&mut channel.lock()).is_ok())
    }

    fn send_metrics(&self, channel: &mut Channel) -> std::io::Result<()> {
        let page = control::metrics::page(&self.shared, &self.limits, Timestamp::now());
        // A page beyond all bounds is no reason to go on with this process: its counts begin anew then.
        let page =
            if page.len() <= MAX_PAGE { String::from_utf8_lossy(&page).into_owned() } else { String::new() };
        // Also those of the process before this one, whose counts are in the page.
        let in_flight = self.shared.lifecycle.in_flight() + self.shared.metrics.predecessor_in_flight();
        channel.send(&Message::Metrics { page, in_flight })
    }
}

/// The successor's next message.
fn answer(channel: &mut Channel, limit: Duration) -> Result<Message, String> {
    match channel.receive(Some(limit)) {
        Ok(Message::Failed { why }) => Err(why),
        Ok(message) => Ok(message),
        Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(format!("it was not ready within {} s", limit.as_secs()))
        }
        Err(_) => Err("it ended; its own log says why".to_owned()),
    }
}

fn unexpected(message: &Message) -> String {
    format!("it sent a message that does not belong here: {message:?}")
}
