//! What control routes work on besides the state of the process: made in `main`, the same objects that the data plane has.
//!
//! Only pointers; nothing is done here.

use memory::limits::Limits;
use memory::state::Shared;
use motion::engine::Engine;
use std::sync::Arc;

/// The objects that control routes use.
#[derive(Clone)]
pub struct Services {
    pub shared: Arc<Shared>,
    pub limits: Arc<Limits>,
    /// Runs the hooks of guardrails that are tried.
    pub engine: Arc<Engine>,
}
