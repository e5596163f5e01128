//! The data plane: Pingora's phases as a table of contents.
//!
//! One function per hook: `admit` admits or refuses a request and dispatches it, the engine runs it, and `native` has
//! the hooks for requests that Pingora proxies itself. Nothing is decided here.

mod admit;
mod batches;
mod control_plane;
mod downstream;
mod fast_path;
mod fine_tuning;
mod first_bytes;
mod listener;
mod mcp;
mod models;
mod native;
mod options;
mod raw_head;
mod realtime;
mod responses_socket;
mod session_tokens;

pub use control_plane::ControlRoutes;
pub use listener::DownstreamApp;

use async_trait::async_trait;
use bytes::Bytes;
use downstream::PingoraDownstream;
use judgment::route::config_cache::ConfigCache;
use motion::batch::Batches;
use motion::engine::Engine;
use motion::engine::planner::Planner;
use native::Ctx;
use pingora::http::{RequestHeader, ResponseHeader};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, Result};
use pingora_proxy::{FailToProxy, ProxyHttp, Session};
use std::sync::Arc;
use std::time::Duration;

/// The proxy itself: the engine, the compiled configs, and the control plane's routes.
#[derive(Clone)]
pub struct Gateway {
    engine: Arc<Engine>,
    planner: Planner,
    batches: Option<Arc<Batches>>,
    control_routes: ControlRoutes,
}

impl Gateway {
    pub fn new(
        engine: Engine,
        config_cache: ConfigCache,
        control_routes: ControlRoutes,
        batches: Option<Arc<Batches>>,
    ) -> Self {
        let engine = Arc::new(engine);
        Self { planner: Planner::new(Arc::clone(&engine), config_cache), engine, batches, control_routes }
    }
}

#[async_trait]
impl ProxyHttp for Gateway {
    /// Boxed: Pingora moves it through several of its futures, and each would reserve space for it.
    type CTX = Box<Ctx>;

    fn new_ctx(&self) -> Box<Ctx> {
        Box::new(Ctx::new(&self.engine))
    }

    async fn request_filter(&self, session: &mut Session, ctx: &mut Self::CTX) -> Result<bool> {
        admit::admit(self, session, ctx).await
    }

    async fn upstream_peer(&self, session: &mut Session, ctx: &mut Self::CTX) -> Result<Box<HttpPeer>> {
        native::upstream_peer(&self.engine, session, ctx).await
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        ctx: &mut Self::CTX,
    ) -> Result<()> {
        native::upstream_request_filter(session, request, ctx)
    }

    async fn request_body_filter(
        &self,
        session: &mut Session,
        body: &mut Option<Bytes>,
        _end: bool,
        ctx: &mut Self::CTX,
    ) -> Result<()> {
        native::request_body_filter(session.was_upgraded(), body.as_ref(), ctx)
    }

    async fn upstream_response_filter(
        &self,
        _session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Self::CTX,
    ) -> Result<()> {
        native::upstream_response_filter(response, ctx)
    }

    fn upstream_response_body_filter(
        &self,
        _session: &mut Session,
        _body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut Self::CTX,
    ) -> Result<Option<Duration>> {
        if end {
            ctx.request.facts.state.response_ended();
        }
        Ok(None)
    }

    async fn response_filter(
        &self,
        session: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Self::CTX,
    ) -> Result<()> {
        native::response_filter(session.req_header(), response, ctx);
        Ok(())
    }

    fn response_body_filter(
        &self,
        _session: &mut Session,
        body: &mut Option<Bytes>,
        end: bool,
        ctx: &mut Self::CTX,
    ) -> Result<Option<Duration>> {
        native::response_body_filter(body, end, ctx);
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
        native::error_while_proxy(error, session, ctx, reused)
    }

    fn fail_to_connect(
        &self,
        _session: &mut Session,
        _peer: &HttpPeer,
        ctx: &mut Self::CTX,
        error: Box<Error>,
    ) -> Box<Error> {
        native::fail_to_connect(&self.engine, error, ctx)
    }

    async fn fail_to_proxy(&self, session: &mut Session, error: &Error, ctx: &mut Self::CTX) -> FailToProxy {
        native::fail_to_proxy(session, error, ctx).await
    }

    fn suppress_error_log(&self, _session: &Session, _ctx: &Self::CTX, _error: &Error) -> bool {
        // The access line has the error and its cause already.
        true
    }

    async fn logging(&self, session: &mut Session, _error: Option<&Error>, ctx: &mut Self::CTX) {
        self.engine.record(&PingoraDownstream::new(session), &mut ctx.request);
    }
}
