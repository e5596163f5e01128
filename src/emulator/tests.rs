//! The emulator over real sockets on loopback: dialects, faults, the log. Not the parts: they test themselves.

mod client;
mod dialects;
mod faults;
mod request_log;
mod stores;
mod streams;
