//! A service's app that gets a connection only after what its listener checks first: the header of the PROXY protocol on plain
//! connections, and that the certificate of a client is still good.
//!
//! Not the checks themselves (`proxy_protocol`, `client_certificate`). Services whose listeners have neither do without it.

use super::client_certificate;
use super::proxy_protocol::{ProxyProtocol, log_closed};
use async_trait::async_trait;
use log::Level;
use pingora_core::apps::ServerApp;
use pingora_core::protocols::Stream;
use pingora_core::protocols::l4::stream::Stream as Socket;
use pingora_core::server::ShutdownWatch;
use std::sync::Arc;

/// An app behind the checks.
#[derive(Debug)]
pub struct CheckedApp<A> {
    app: Arc<A>,
    /// Whether connections begin with the header. With TLS it was read before.
    header: Option<Arc<ProxyProtocol>>,
}

impl<A> CheckedApp<A> {
    pub fn new(app: A, header: Option<Arc<ProxyProtocol>>) -> Self {
        Self { app: Arc::new(app), header }
    }
}

#[async_trait]
impl<A: ServerApp + Send + Sync + 'static> ServerApp for CheckedApp<A> {
    async fn process_new(self: &Arc<Self>, mut stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let has_tls = stream.get_ssl_digest().is_some();
        if let Some(header) = self.header.as_ref().filter(|_| !has_tls) {
            let mut socket = stream.into_any().downcast::<Socket>().ok()?;
            header.take(&mut socket).await.ok()?;
            stream = socket;
        }
        if has_tls && client_certificate::is_refused(&stream) {
            log_closed(Level::Info, &*stream, &"its client certificate is not good any more");
            return None;
        }
        // Pingora would call this again with a connection that may carry another request, and there is no second header.
        loop {
            stream = self.app.process_new(stream, shutdown).await?;
        }
    }

    async fn cleanup(&self) {
        self.app.cleanup().await;
    }
}
