//! One attempt at a target: how it is made, what stands around it, how it is sent, and how its response is awaited.
//!
//! Does not decide what follows an attempt (`route::plan`), and knows no other attempt of the request.

pub mod call;
pub mod layers;
pub(super) mod wait;
