//! Runs a request from its plan to the last byte of its response.
//!
//! Not how a request came in or whether it may (`proxy`), and not which target comes next (`route`).

pub mod credentials;
mod exchange;
pub mod failure;
mod forward;
pub mod header_edit;
mod hedge;
mod inline_task;
mod json_line;
pub mod orchestrator;
mod pending_response;
pub mod record;
pub mod request_context;
pub mod request_env;
pub mod response;
mod response_body;
mod resume;
pub mod reusable_timer;
pub mod upstream_request;
mod upstream_stream;

use crate::net::outbound::connector::Connector;
use crate::state::Shared;
use std::sync::Arc;

/// What every request needs: the process's memory and its connections to providers.
#[derive(Clone)]
pub struct Engine {
    pub shared: Arc<Shared>,
    pub(crate) connector: Arc<Connector>,
}

impl Engine {
    pub fn new(shared: Arc<Shared>, connector: Connector) -> Self {
        Self { shared, connector: Arc::new(connector) }
    }
}
