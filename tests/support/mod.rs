//! The black-box harness: the real binary with the emulator inside it, and clients for both.
//!
//! Not a place for tests, nor for code that uses the gateway's internals: a test observes only what a client,
//! a provider or an operator could. Nothing here sleeps for a fixed time: it polls, and fails with a message.

pub(crate) mod balancer;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod conversation;
pub(crate) mod emulator;
pub(crate) mod exclusive;
pub(crate) mod expected;
pub(crate) mod gateway;
pub(crate) mod machine;
pub(crate) mod mcp_client;
pub(crate) mod mcp_events;
pub(crate) mod mcp_fake;
pub(crate) mod mcp_persons;
pub(crate) mod mcp_streaming;
pub(crate) mod message;
pub(crate) mod packages;
pub(crate) mod pebble;
pub(crate) mod ports;
#[path = "../../src/memory/store/tests/postgres_server.rs"]
pub(crate) mod postgres_server;
pub(crate) mod process_output;
pub(crate) mod prometheus;
pub(crate) mod provider;
pub(crate) mod proxy_server;
pub(crate) mod raw;
pub(crate) mod recording;
pub(crate) mod redis_server;
mod report;
pub(crate) mod rng;
pub(crate) mod round_models;
#[path = "../../src/motion/batch/blobs/s3_server.rs"]
pub(crate) mod s3_server;
pub(crate) mod schemas;
pub(crate) mod sdk_server;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod signing_key;
pub(crate) mod small_disk;
pub(crate) mod sse;
pub(crate) mod stores;
pub(crate) mod upstream;
pub(crate) mod wait;

pub(crate) use gateway::Gateway;
pub(crate) use report::report;
pub(crate) use shared::gateway;
