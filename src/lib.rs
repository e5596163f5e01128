//! Turnpike, an AI gateway on Pingora: one HTTP endpoint in front of many model providers.
//!
//! The house, floor by floor. A room uses only the rooms above its own line here ("imports point
//! left"); `tests/house.rs` holds us to it.
//!
//! - Words, without I/O: [`error`] what can go wrong, [`json`] JSON as text, [`api`] the shapes clients speak,
//!   [`config`] the routing object a request carries, [`settings`] the process's own YAML.
//! - Knowledge: [`provider`] what each vendor wants, [`price`] what calls cost, [`prompt`] templates of requests, [`net`] connections to providers and from clients.
//! - Memory: [`store`] what outlives the process, [`ledger`] what was done and what it cost, [`auth`] who may call, [`state`] what the process remembers while it runs,
//!   [`limits`] what may be used, and what was, [`cache`] responses that are used again.
//! - Judgment: [`guard`] may it pass, [`route`] who gets the next try.
//! - Motion: [`engine`] carries a request out.
//! - Doors: [`control`] the control plane, [`proxy`] the data plane, [`emulator`] the built-in provider.
//!
//! Invariants, mostly of absence: `provider` never opens a socket; nothing below the doors knows what a
//! session is; no lock is held across an await; one byte sent to the client ends all retries.

pub mod proxy;

pub mod emulator;
