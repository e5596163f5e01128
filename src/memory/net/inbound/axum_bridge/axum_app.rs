//! A router as a Pingora service of its own, over HTTP/1.1 and HTTP/2.
//!
//! HTTP/2 is chosen by ALPN on TLS listeners and by prior knowledge on plain ones. Mount it behind a
//! [`super::super::h2c_guard::H2cGuard`]; without one, short HTTP/1.0 requests wait for ever.

use super::serve::serve;
use crate::net::inbound::unread_bodies::UnreadBodies;
use async_trait::async_trait;
use axum::Router;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use pingora_core::ErrorType::InvalidHTTPHeader;
use pingora_core::apps::{HttpPersistentSettings, HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{H2Options, default_h2_options};
use pingora_core::server::ShutdownWatch;
use std::sync::Arc;
use std::time::Duration;

/// What a client of the service may use.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// The largest request body, bytes.
    pub max_body: usize,
    /// For all headers of a request to arrive, including the idle time before them.
    pub header_timeout: Duration,
    /// For a whole request body to arrive.
    pub body_timeout: Duration,
    /// For a client that does not read the response.
    pub write_timeout: Duration,
    /// How long an idle connection is kept.
    pub keepalive_timeout: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            max_body: 4 << 20,
            header_timeout: Duration::from_secs(75),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(60),
        }
    }
}

/// An axum router as a Pingora HTTP app.
#[derive(Debug)]
pub struct AxumApp {
    router: Router,
    limits: ConnectionLimits,
    options: HttpServerOptions,
    /// JSON for a client whose request head is no HTTP, or whose target is too long for the parser.
    invalid_head: Bytes,
    unread: UnreadBodies,
}

impl AxumApp {
    /// `invalid_head`: the JSON body of the 400 for a request head that cannot be read.
    pub fn new(router: Router, limits: ConnectionLimits, invalid_head: Bytes) -> Self {
        let mut options = HttpServerOptions::default();
        options.h2c = true;
        options.h2_idle_timeout = Some(limits.keepalive_timeout);
        Self { router, limits, options, invalid_head, unread: UnreadBodies::default() }
    }

    /// Reads the request headers and sends a 400 itself when they are not valid HTTP. `None` when there is no
    /// request to serve.
    async fn read_header(&self, session: &mut ServerSession) -> Option<()> {
        match tokio::time::timeout(self.limits.header_timeout, session.read_request()).await {
            Ok(Ok(true)) => Some(()),
            Ok(Ok(false)) => None,
            Ok(Err(error)) => {
                if *error.etype() == InvalidHTTPHeader {
                    // The client may be gone already; then the error is of no use to anyone.
                    let _ = self.refuse_head(session).await;
                }
                session.shutdown().await;
                None
            }
            Err(_) => {
                session.shutdown().await;
                None
            }
        }
    }
}

impl AxumApp {
    async fn refuse_head(&self, session: &mut ServerSession) -> pingora_core::Result<()> {
        let mut head = ServerSession::generate_error(400);
        head.insert_header(CONTENT_TYPE, "application/json")?;
        head.set_content_length(self.invalid_head.len())?;
        session.write_error_response(head, self.invalid_head.clone()).await
    }
}

#[async_trait]
impl HttpServerApp for AxumApp {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        // Set before the headers are read, because they may turn keep-alive off, as HTTP/1.0 does by default.
        session.set_keepalive(Some(self.limits.keepalive_timeout.as_secs()));
        self.read_header(&mut session).await?;
        if *shutdown.borrow() {
            session.set_keepalive(None);
        }
        session.set_read_timeout(Some(self.limits.body_timeout));
        session.set_write_timeout(Some(self.limits.write_timeout));
        session.set_total_drain_timeout(Some(self.limits.body_timeout));
        if let Err(error) = serve(
            &mut session,
            &self.router,
            HeaderMap::new(),
            self.limits.max_body,
            self.limits.body_timeout,
            &self.unread,
        )
        .await
        {
            log::debug!(target: "turnpike", "a response of the control plane was cut off: {error}");
            return None;
        }
        let settings = HttpPersistentSettings::for_session(&session);
        let stream = session.finish().await.ok()??;
        Some(ReusedHttpStream::from_reusable_stream(stream, settings))
    }

    fn h2_options(&self) -> Option<H2Options> {
        Some(default_h2_options())
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.options)
    }
}
