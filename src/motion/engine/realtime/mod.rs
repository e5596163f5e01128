//! Realtime sessions: each turn of one is a request of its own, which limits hold before it is sent and settle with what its response
//! reports.
//!
//! `opening` connects to the provider, `session` decides what passes, `turn` is one turn and its record, `conversation` and
//! `session_bounds` how much a turn may use. Not here: the client's connection (`proxy::realtime`), frames and events (`words::api::realtime`).

mod conversation;
mod opening;
mod session;
mod session_bounds;
mod turn;

pub(super) use conversation::first_turn;
pub use opening::open;
pub use session::{ClientStep, ProviderStep, RealtimeSession};
