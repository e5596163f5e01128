//! A new binary, or new settings, without a stop: the process that serves starts its successor and hands it the listeners.
//!
//! ```text
//!   turnpike upgrade ──SIGQUIT──> predecessor                                   successor
//!                                     │ starts it, with a socket as its input ─────>│
//!                                     │<─────────────────────────────── Started ────│ checks settings, store and itself
//!                                     │<───────────────────────────────── Ready ────│ (or Failed: the predecessor goes on)
//!                                     │── Listeners: sockets, what was learned ────>│ accepts beside the predecessor
//!                                     │<─────────────────────────────── Serving ────│
//!          MAINPID to systemd <───────│ stops accepting, ends its requests          │
//!                                     │── Metrics, until its last request ended ───>│ adds them to its own
//! ```
//!
//! A first process of the new binary starts the successor and ends, so that this is a child of systemd, as a main process has to be.
//! Until `Serving` nothing is given away: whatever fails before it, the predecessor kills the successor and serves on. The successor
//! descends from the predecessor, so it has the same user, sandbox, credentials and control group, and systemd accepts it as the main
//! process. Usage of limits is not sent: both processes keep it in the journal or in the shared counters.

mod channel;
mod command;
mod listener_table;
mod predecessor;
mod successor;

pub use command::{program_has_changed, run, run_own_binary};
pub use listener_table::ListenerTable;
pub use predecessor::Predecessor;
pub use successor::{Successor, announce_process, start_detached};
