//! The realtime API as the gateway reads it: websocket frames as messages, and the events of clients and providers that decide what a
//! session may use.
//!
//! Pure, and reads no more than that: audio and text pass as they are. What a turn may use is the room `limits`'s.

pub mod events;
pub mod frames;
