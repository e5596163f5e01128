//! The data plane: Pingora's phases as a table of contents.
//!
//! One function per hook, each in the file that tells its part of the story: `admit` (may this pass, and
//! where to), `authorize` (tokens and signatures), `orchestrate` (attempts), `upstream` (what the provider is sent), `answer`
//! (what the caller gets), `failure` (what went wrong), `record` (what we remember). Nothing is decided here.

mod admit;
mod control_plane;
mod fast_path;
mod listener;

pub use control_plane::ControlRoutes;
pub use listener::DownstreamApp;

use crate::engine::request_context::RequestContext;
use crate::engine::{Engine, failure, record, response, upstream_request};
use crate::net::outbound::connector::Connector;
use crate::route::config_cache::ConfigCache;
use crate::state::Shared;
use async_trait::async_trait;
use bytes::Bytes;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, Result};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};
use std::sync::Arc;
use std::time::Duration;

/// The proxy itself: shared memory, compiled configs, connections of attempts, and the way to the control plane.
#[derive(Clone)]
pub struct Gateway {
    engine: Engine,
    config_cache: ConfigCache,
    control_routes: ControlRoutes,
}

impl Gateway {
    pub fn new(shared: Arc<Shared>, connector: Connector, control_routes: ControlRoutes) -> Self {
        Self { engine: Engine::new(shared, connector), config_cache: ConfigCache::default(), control_routes }
    }
}

#[async_trait]
impl ProxyHttp for Gateway {
    /// Boxed: Pingora moves it through several of its futures, each with room for it.
    type CTX = Box<RequestContext>;

    fn new_ctx(&self) -> Box<RequestContext> {
        Box::new(RequestContext::new())
    }

    async fn request_filter(&self, session: &mut Session, ctx: &mut Self::CTX) -> Result<bool> {
        admit::admit(self, session, ctx).await
    }

    async fn upstream_peer(&self, session: &mut Session, ctx: &mut Self::CTX) -> Result<Box<HttpPeer>> {
        upstream_request::direct_peer(&self.engine, session, ctx).await
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut Self::CTX,
    ) -> Result<()> {
        upstream_request::direct_header(session, request, ctx)
    }

    async fn request_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut Self::CTX,
    ) -> Result<()> {
        upstream_request::request_body(body, end, ctx);
        Ok(())
    }

    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Self::CTX,
    ) -> Result<()> {
        if let Some(handle) = &ctx.attempt_handle {
            upstream_request::mark_response_header(response, handle);
        }
        Ok(())
    }

    fn upstream_response_body_filter(
        &self,
        _session: &mut Session,
        _body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut Self::CTX,
    ) -> Result<Option<Duration>> {
        if let (Some(handle), true) = (&ctx.attempt_handle, end) {
            upstream_request::mark_response_end(handle);
        }
        Ok(None)
    }

    async fn response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Self::CTX,
    ) -> Result<()> {
        response::response_filter(response, ctx);
        Ok(())
    }

    fn response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut Self::CTX,
    ) -> Result<Option<Duration>> {
        response::response_body_filter(body, end, ctx);
        Ok(None)
    }

    fn error_while_proxy(
        &self,
        _peer: &HttpPeer,
        session: &mut Session,
        error: Box<Error>,
        ctx: &mut Self::CTX,
        reused: bool,
    ) -> Box<Error> {
        let may_repeat = !session.as_ref().retry_buffer_truncated();
        failure::error_while_proxy(error, ctx.attempt_handle.as_ref(), reused, may_repeat)
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        _peer: &HttpPeer,
        ctx: &mut Self::CTX,
        error: Box<Error>,
    ) -> Box<Error> {
        failure::fail_to_connect(&self.engine.shared, error, ctx.attempt_handle.as_ref())
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, ctx: &mut Self::CTX) -> FailToProxy {
        failure::fail_to_proxy(session, error, ctx).await
    }

    fn suppress_error_log(&self, _session: &Session, _ctx: &Self::CTX, _error: &Error) -> bool {
        // The access line tells the failure once, with its cause.
        true
    }

    async fn logging(&self, session: &mut Session, _error: Option<&Error>, ctx: &mut Self::CTX) {
        record::finish(&self.engine, session, ctx);
    }
}
