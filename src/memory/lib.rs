//! What outlives a request: connections, stored objects, records, keys, counters and cached responses.
//!
//! - [`net`]: connections to providers and from clients.
//! - [`store`]: what outlives the process. [`ledger`]: what was done, and what it cost.
//! - [`auth`]: who may call. [`state`]: what the process remembers while it runs.
//! - [`limits`]: what may be used, and what was. [`cache`]: responses that are used again.
//!
//! Locks are private to their types, and none is held across an await. Each room uses only those listed before it, and the crates to the
//! left. What a request means is not known here.

pub mod net;

pub mod store;

pub mod ledger;

pub mod auth;
pub mod state;

pub mod limits;

pub mod cache;
