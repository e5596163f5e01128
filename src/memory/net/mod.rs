//! The network code, by direction: [`outbound`] to providers and token servers, [`inbound`] from clients.
//!
//! Not here: when to connect, what to send and what a response means.

pub mod inbound;
pub mod outbound;
