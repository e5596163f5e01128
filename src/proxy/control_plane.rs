//! Passes requests for control paths that arrive at the data port to the control plane, so that one `base_url` serves
//! everything.
//!
//! The two planes do not import each other: `main` passes the control router and its paths to this file.

use super::Gateway;
use super::native;
use axum::Router;
use http::HeaderMap;
use memory::net::inbound::axum_bridge;
use memory::net::inbound::control_paths::ControlPaths;
use motion::engine::record_builder::RecordSource;
use motion::engine::request_context::RequestContext;
use motion::engine::{failure, response_headers};
use pingora_core::Result;
use pingora_proxy::Session;
use std::sync::Arc;
use words::error::Error;

/// The control plane's router, and the paths it serves on the data port.
#[derive(Clone)]
pub struct ControlRoutes {
    router: Router,
    pub(super) paths: Arc<ControlPaths>,
}

impl ControlRoutes {
    pub fn new(router: Router, paths: ControlPaths) -> Self {
        Self { router, paths: Arc::new(paths) }
    }
}

/// Lets the control plane respond.
pub(super) async fn serve(
    gateway: &Gateway,
    session: &mut Session,
    ctx: &mut RequestContext,
) -> Result<bool> {
    ctx.record.source = RecordSource::Control;
    let mut extra_headers = HeaderMap::new();
    response_headers::add_basic_headers(&mut extra_headers, ctx);
    let max_body = ctx.snapshot.settings.limits.max_body_bytes;
    let router = &gateway.control_routes.router;
    let unread = gateway.engine.shared.held_bytes.unread_bodies();
    match axum_bridge::serve(session, router, extra_headers, max_body, unread).await {
        Ok(sent) => {
            ctx.record.traffic.bytes_out = sent.body_bytes;
            Ok(true)
        }
        Err(error) => {
            let error = failure::translate(&error.into_down(), None);
            Err(native::fail_request(
                ctx,
                match error.kind {
                    words::error::Kind::ClientClosed => error,
                    _ => Error::internal("control plane did not answer"),
                },
            ))
        }
    }
}
