//! What control routes work on besides the state of the process: made in `main`, the same objects that the data plane has.
//!
//! Only pointers; nothing is done here.

use super::work::WorkPlaces;
use memory::limits::Limits;
use memory::state::Shared;
use motion::engine::Engine;
use motion::engine::planner::Planner;
use std::sync::Arc;

/// The objects that control routes use.
#[derive(Clone)]
pub struct Services {
    pub shared: Arc<Shared>,
    pub limits: Arc<Limits>,
    /// Runs the hooks of guardrails that are tried.
    pub engine: Arc<Engine>,
    /// Plans the requests of the console's playground.
    pub planner: Planner,
    /// The places of what takes a while.
    pub work: Arc<WorkPlaces>,
}

impl Services {
    pub fn new(shared: Arc<Shared>, limits: Arc<Limits>, planner: Planner) -> Self {
        Self { shared, limits, engine: Arc::clone(&planner.engine), planner, work: Arc::default() }
    }
}
