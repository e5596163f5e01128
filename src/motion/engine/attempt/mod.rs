//! One attempt at a target: the layers around it, and what they make of it. How it is sent and awaited: `attempt_start`, `attempt_run`.
//!
//! Does not decide what follows an attempt (`route::plan`), and knows no other attempt of the request.

pub(super) mod answer;
pub(super) mod call;
pub(super) mod ends;
pub(super) mod layer;
pub(super) mod layers;

pub use answer::{Answer, Flow, GivenResponse, LocalResponse};
pub use call::{AttemptCall, Step};
pub use ends::Ending;
pub use layer::{Compile, Layer};
pub use layers::LAYERS;
