//! A router as a Pingora service of its own: requests one after the other, HTTP/1.1 and HTTP/2.
//!
//! HTTP/2 comes by ALPN on TLS listeners and by prior knowledge on plain ones; mount it behind a
//! [`super::super::doorway::Doorway`], which keeps HTTP/1.0 clients from waiting for ever.

use super::serve::serve;
use async_trait::async_trait;
use axum::Router;
use pingora_core::ErrorType::InvalidHTTPHeader;
use pingora_core::apps::{HttpPersistentSettings, HttpServerApp, HttpServerOptions, ReusedHttpStream};
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{H2Options, default_h2_options};
use pingora_core::server::ShutdownWatch;
use std::sync::Arc;
use std::time::Duration;

/// What callers of the service may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a request body.
    pub max_body: usize,
    /// For a whole request head to arrive, idle time before it included.
    pub header_timeout: Duration,
    /// For a whole request body to arrive.
    pub body_timeout: Duration,
    /// For a caller that reads nothing.
    pub write_timeout: Duration,
    /// An idle connection is kept this long.
    pub keepalive_timeout: Duration,
}

impl Default for Limits {
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

/// The service.
#[derive(Debug)]
pub struct AxumApp {
    router: Router,
    limits: Limits,
    options: HttpServerOptions,
}

impl AxumApp {
    pub fn new(router: Router, limits: Limits) -> Self {
        let mut options = HttpServerOptions::default();
        options.h2c = true;
        options.h2_idle_timeout = Some(limits.keepalive_timeout);
        Self { router, limits, options }
    }

    /// Reads the head; answers 400 itself where there is none to be had.
    async fn read_header(&self, session: &mut ServerSession) -> Option<()> {
        match tokio::time::timeout(self.limits.header_timeout, session.read_request()).await {
            Ok(Ok(true)) => Some(()),
            Ok(Ok(false)) => None,
            Ok(Err(error)) => {
                if *error.etype() == InvalidHTTPHeader {
                    // The caller may be gone; there is nobody else to tell.
                    let _ = session.respond_error(400).await;
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

#[async_trait]
impl HttpServerApp for AxumApp {
    async fn process_new_http(
        self: &Arc<Self>,
        mut session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        // Before the head is read: that may say otherwise, as HTTP/1.0 does by itself.
        session.set_keepalive(Some(self.limits.keepalive_timeout.as_secs()));
        self.read_header(&mut session).await?;
        if *shutdown.borrow() {
            session.set_keepalive(None);
        }
        session.set_read_timeout(Some(self.limits.body_timeout));
        session.set_write_timeout(Some(self.limits.write_timeout));
        session.set_total_drain_timeout(Some(self.limits.body_timeout));
        if let Err(error) =
            serve(&mut session, &self.router, None, self.limits.max_body, self.limits.body_timeout).await
        {
            log::debug!(target: "turnpike", "a control answer was cut off: {error}");
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
