//! The black-box harness: the real binary with the emulator inside it, and clients to talk to both.
//!
//! Not a place for tests, nor for anything that reaches into the gateway: what a test learns, it learns as a
//! caller, a provider or an operator would. Nothing here sleeps for a fixed time: it asks again, and gives up loudly.

mod announce;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod draw;
pub(crate) mod emulator;
pub(crate) mod expected;
pub(crate) mod gateway;
pub(crate) mod logbook;
pub(crate) mod message;
pub(crate) mod ports;
pub(crate) mod provider;
pub(crate) mod raw;
pub(crate) mod recording;
pub(crate) mod schemas;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod sse;
pub(crate) mod talk;
pub(crate) mod turn;
pub(crate) mod upstream;
pub(crate) mod wait;

pub(crate) use announce::report;
pub(crate) use gateway::Gateway;
pub(crate) use shared::gateway;
