//! Decides from the first three bytes whether a new plain connection speaks HTTP/1 or HTTP/2.
//!
//! Wraps a Pingora HTTP app that accepts HTTP/2 on plain connections (h2c by prior knowledge). Pingora itself waits
//! for 24 bytes before it decides, without a timeout: a shorter HTTP/1.0 request, such as a load balancer's health
//! check (`OPTIONS / HTTP/1.0`, 22 bytes), never gets a response, and a silent connection is held for ever.
//! This file routes nothing and reads no request.

use async_trait::async_trait;
use pingora_core::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream, ServerApp};
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::H2Options;
use pingora_core::server::ShutdownWatch;
use std::sync::Arc;
use std::time::Duration;

/// The start of the HTTP/2 connection preface (RFC 9113, 3.4). No HTTP/1 method is called PRI.
const PREFACE_START: [u8; 3] = *b"PRI";
const PREFACE_LENGTH: usize = 24;

/// An app behind the guard; pass it to `Service::new` instead of the app.
#[derive(Debug)]
pub struct H2cGuard<A> {
    app: Arc<A>,
    http1_only: Arc<Http1Only<A>>,
    first_byte_timeout: Duration,
}

/// The same app with h2c turned off.
#[derive(Debug)]
struct Http1Only<A> {
    app: Arc<A>,
    options: Option<HttpServerOptions>,
}

impl<A: HttpServerApp> H2cGuard<A> {
    /// `first_byte_timeout`: how long a plain connection may be silent before its first byte.
    pub fn new(app: A, first_byte_timeout: Duration) -> Self {
        let app = Arc::new(app);
        let options = app.server_options().cloned().map(|mut options| {
            options.h2c = false;
            options
        });
        let http1_only = Arc::new(Http1Only { app: Arc::clone(&app), options });
        Self { app, http1_only, first_byte_timeout }
    }

    /// Whether the connection starts with the HTTP/2 preface. `None` when it sends nothing in time, closes, or the
    /// process shuts down.
    async fn is_h2(&self, stream: &mut Stream, shutdown: &ShutdownWatch) -> Option<bool> {
        let mut shutdown = shutdown.clone();
        let peek = async {
            let mut start = PREFACE_START.map(|_| 0);
            if !stream.try_peek(&mut start).await.ok()? || start != PREFACE_START {
                return Some(false);
            }
            // The rest of the preface must arrive in time, too: the app waits for it without a timeout.
            let mut preface = [0; PREFACE_LENGTH];
            stream.try_peek(&mut preface).await.ok()
        };
        tokio::select! {
            detected = tokio::time::timeout(self.first_byte_timeout, peek) => detected.ok().flatten(),
            _ = shutdown.wait_for(|stop| *stop) => None,
        }
    }
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> ServerApp for H2cGuard<A> {
    async fn process_new(self: &Arc<Self>, mut stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let h2c = self.app.server_options().is_some_and(|options| options.h2c);
        if !h2c || stream.get_ssl_digest().is_some() {
            return self.app.process_new(stream, shutdown).await;
        }
        if self.is_h2(&mut stream, shutdown).await? {
            self.app.process_new(stream, shutdown).await
        } else {
            self.http1_only.process_new(stream, shutdown).await
        }
    }

    async fn cleanup(&self) {
        self.app.http_cleanup().await;
    }
}

#[async_trait]
impl<A: HttpServerApp + Send + Sync + 'static> HttpServerApp for Http1Only<A> {
    async fn process_new_http(
        self: &Arc<Self>,
        session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        self.app.process_new_http(session, shutdown).await
    }

    fn h2_options(&self) -> Option<H2Options> {
        self.app.h2_options()
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        self.options.as_ref()
    }
}
